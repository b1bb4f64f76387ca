//! Packages of the system, by their Debian names, each with why it is wanted.

use std::process::Command;

use crate::program::{self, Failure, Outcome};

/// How much of the list is wanted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// To compile and run MPI programs.
    Run,
    /// To test: the libraries and languages that sit on MPI-IO.
    Test,
}

struct Package {
    name: &'static str,
    need: Need,
    #[expect(dead_code, reason = "for the reader of this table")]
    why: &'static str,
}

const fn package(name: &'static str, need: Need, why: &'static str) -> Package {
    Package { name, need, why }
}

const PACKAGES: &[Package] = &[
    package("gcc", Need::Run, "C programs of the demo, the benches and the tests"),
    package("libc6-dev", Need::Run, "headers for them"),
    package("mpich", Need::Run, "host MPI: mpiexec.mpich"),
    package("libmpich-dev", Need::Run, "host MPI: mpicc.mpich, mpif90.mpich"),
    package("openmpi-bin", Need::Run, "host MPI: mpiexec.openmpi"),
    package("libopenmpi-dev", Need::Run, "host MPI: mpicc.openmpi, mpif90.openmpi"),
    package("fuse3", Need::Run, "`fusermount3`: users mount partitions with it"),
    package("binutils", Need::Test, "`nm` and `readelf`: what the library exports and needs"),
    package("gfortran", Need::Test, "Fortran entry points are tried from mpif.h, mpi and mpi_f08"),
    package("libhdf5-mpich-dev", Need::Test, "HDF5 above MPI-IO, MPICH"),
    package("libhdf5-openmpi-dev", Need::Test, "HDF5 above MPI-IO, Open MPI"),
    package("libpnetcdf-dev", Need::Test, "PnetCDF above MPI-IO"),
    package("python3-venv", Need::Test, "a Python environment per host MPI"),
    package("python3-dev", Need::Test, "builds mpi4py from source"),
    package("python3-mpi4py", Need::Test, "what python3-h5py-mpi is used with"),
    package("python3-h5py-mpi", Need::Test, "h5py above HDF5 above MPI-IO"),
    package("chromium", Need::Test, "reads the pages that pario writes"),
];

/// Installs the missing packages, or says what to run.
pub fn install(need: Need) -> Outcome {
    let wanted: Vec<&str> = PACKAGES.iter().filter(|p| p.need <= need).map(|p| p.name).collect();
    if !program::works("dpkg-query", &["--version"]) {
        return without_apt(&wanted);
    }
    install_named(&wanted)
}

/// Installs those of these packages that are missing, or says what to run.
pub fn install_named(wanted: &[&str]) -> Outcome {
    let missing = missing(wanted)?;
    if missing.is_empty() {
        println!("system packages: all {} there", wanted.len());
        return Ok(());
    }
    let install = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    if program::stdout(Command::new("id").arg("-u"))?.trim() != "0" {
        return Err(Failure::new(format!(
            "some packages are missing; run this, then try again:\n  sudo apt-get update && sudo {install}"
        )));
    }
    program::run(Command::new("apt-get").args(["update", "-q"]))?;
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-o", "DPkg::Lock::Timeout=120"]);
    program::run(apt.args(["install", "-q", "-y", "--no-install-recommends"]).args(&missing))
}

/// The wanted packages that dpkg does not call installed.
fn missing<'a>(wanted: &[&'a str]) -> Outcome<Vec<&'a str>> {
    let mut query = Command::new("dpkg-query");
    // It fails when it does not know one of the names; the others are listed all the same.
    let output = program::capture(query.args(["-W", "-f", "${db:Status-Abbrev} ${Package}\n"]).args(wanted))?;
    let listed = String::from_utf8_lossy(&output.stdout);
    Ok(wanted.iter().copied().filter(|name| !is_installed(&listed, name)).collect())
}

/// dpkg's two letters are the desired and the actual state: `ii`, and `hi` for a package on hold, are installed.
fn is_installed(listed: &str, name: &str) -> bool {
    listed.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|state| state.chars().nth(1) == Some('i')) && words.next() == Some(name)
    })
}

/// Without dpkg we cannot install, but a system that has the programs under Debian's names will do.
fn without_apt(wanted: &[&str]) -> Outcome {
    let programs = ["gcc", "mpicc.mpich", "mpiexec.mpich", "mpicc.openmpi", "mpiexec.openmpi"];
    if programs.iter().all(|program| program::works(program, &["--version"])) {
        println!("system packages: no dpkg here; the compilers and MPIs were found by name");
        return Ok(());
    }
    Err(Failure::new(format!(
        "this is not a Debian or Ubuntu system; install what these Debian packages hold, with programs \
         named {}:\n  {}",
        programs.join(", "),
        wanted.join(" ")
    )))
}

#[cfg(test)]
mod tests {
    use super::is_installed;

    #[test]
    fn dpkg_states() {
        let listed = "ii  gcc\nun  gfortran\nhi  mpich\nrc  iproute2\n";
        assert!(is_installed(listed, "gcc"));
        assert!(is_installed(listed, "mpich"));
        assert!(!is_installed(listed, "gfortran"));
        assert!(!is_installed(listed, "iproute2"));
        assert!(!is_installed(listed, "python3-dev"));
    }
}
