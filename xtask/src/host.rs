//! The two host MPIs that everything is tried on, by the names Debian gives their programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place;
use crate::program::{self, Outcome};

/// One host MPI.
#[derive(Debug)]
pub struct Host {
    /// In file names and environment variables.
    pub name: &'static str,
    /// For people.
    pub label: &'static str,
    pub mpicc: &'static str,
    pub mpiexec: &'static str,
    /// What `mpiexec` needs to run as root and with more ranks than cores.
    flags: &'static [&'static str],
}

pub static MPICH: Host =
    Host { name: "mpich", label: "MPICH", mpicc: "mpicc.mpich", mpiexec: "mpiexec.mpich", flags: &[] };

pub static OPEN_MPI: Host = Host {
    name: "openmpi",
    label: "Open MPI",
    mpicc: "mpicc.openmpi",
    mpiexec: "mpiexec.openmpi",
    flags: &["--allow-run-as-root", "--oversubscribe"],
};

pub static HOSTS: [&Host; 2] = [&MPICH, &OPEN_MPI];

impl Host {
    /// `mpiexec` with the number of ranks; the program and its arguments come next.
    pub fn launch(&self, ranks: u32) -> Command {
        let mut command = Command::new(self.mpiexec);
        command.args(self.flags).arg("-n").arg(ranks.to_string());
        command
    }

    /// As `launch`, with Pario in front of the ranks (not of `mpiexec` itself).
    pub fn launch_with_pario(&self, ranks: u32) -> Command {
        let mut preload = std::ffi::OsString::from("LD_PRELOAD=");
        preload.push(place::library());
        let mut command = self.launch(ranks);
        command.arg("env").arg(preload);
        command
    }

    /// Compiles one C file of the repository for this host; returns the program.
    pub fn compile(&self, source: &str, into: &Path) -> Outcome<PathBuf> {
        program::at(into, std::fs::create_dir_all(into))?;
        let source = place::root().join(source);
        let stem = source.file_stem().unwrap_or_else(|| OsStr::new("program")).to_string_lossy();
        let program = into.join(format!("{stem}-{}", self.name));
        let mut command = Command::new(self.mpicc);
        command.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
        program::run(command.arg(&program).arg(&source))?;
        Ok(program)
    }
}
