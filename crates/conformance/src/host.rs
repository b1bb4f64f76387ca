//! The host MPI libraries the tests run on: which tools belong to each, and what its launcher needs.

use std::path::{Path, PathBuf};

use crate::library::target_dir;

/// A host MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostMpi {
    /// MPICH, as packaged by Debian with the suffix `.mpich`.
    Mpich,
    /// Open MPI, as packaged by Debian with the suffix `.openmpi`.
    OpenMpi,
    /// MPICH's library of the standard ABI of MPI-5, from the wheel that `cargo xtask setup` installs.
    StandardAbi,
    /// An MPI of this kind that `cargo xtask test-mpis` has installed in the directory `PARIO_TEST_MPI`.
    Installed(InstalledKind),
}

/// The kinds of MPIs by binary interface, which also decides the launcher's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstalledKind {
    /// MPICH and its kin.
    Mpich,
    /// Open MPI.
    OpenMpi,
    /// A library of the standard ABI with MPICH's launcher.
    StandardAbi,
}

/// Both packaged hosts, for tests that loop over them.
pub const BOTH: [HostMpi; 2] = [HostMpi::Mpich, HostMpi::OpenMpi];

impl HostMpi {
    /// The name used in tool suffixes, directory names and environment variables.
    pub fn name(self) -> &'static str {
        match self {
            HostMpi::Mpich => "mpich",
            HostMpi::OpenMpi => "openmpi",
            HostMpi::StandardAbi => "standard-abi",
            HostMpi::Installed(_) => "installed",
        }
    }

    /// Whether this is Open MPI.
    pub fn is_open_mpi(self) -> bool {
        matches!(self, HostMpi::OpenMpi | HostMpi::Installed(InstalledKind::OpenMpi))
    }

    /// The MPI that `cargo xtask test-mpis` tests, if it runs this test.
    pub fn installed() -> Option<HostMpi> {
        let kind = std::env::var("PARIO_TEST_MPI_KIND").unwrap_or_default();
        let kind = match kind.as_str() {
            "mpich" => InstalledKind::Mpich,
            "openmpi" => InstalledKind::OpenMpi,
            "standard-abi" => InstalledKind::StandardAbi,
            _ => {
                eprintln!("SKIPPED: PARIO_TEST_MPI names no MPI; `cargo xtask test-mpis` runs this test");
                return None;
            }
        };
        Some(HostMpi::Installed(kind))
    }

    /// The C compiler wrapper.
    pub fn mpicc(self) -> PathBuf {
        self.tool("mpicc")
    }

    /// The Fortran 77 compiler wrapper (fixed form, `mpif.h`).
    pub fn mpif77(self) -> PathBuf {
        self.tool("mpif77")
    }

    /// The Fortran 90 compiler wrapper (free form, `use mpi`, `use mpi_f08`).
    pub fn mpif90(self) -> PathBuf {
        self.tool("mpif90")
    }

    /// The C++ compiler wrapper.
    pub fn mpicxx(self) -> PathBuf {
        self.tool("mpicxx")
    }

    /// The parallel HDF5 compiler wrapper.
    pub fn h5pcc(self) -> PathBuf {
        self.tool("h5pcc")
    }

    /// The launcher.
    pub fn mpiexec(self) -> PathBuf {
        self.tool("mpiexec")
    }

    /// Whether a tool of this host, such as `mpif90`, is installed.
    pub fn has(self, tool: &str) -> bool {
        on_path(&format!("{tool}.{}", self.name())).is_some()
    }

    /// The standard ABI's host, where it could be installed; says so where not.
    pub fn standard_abi() -> Option<HostMpi> {
        let is_there = standard_abi_directory().join("bin/mpicc_abi").is_file();
        if !is_there {
            eprintln!(
                "SKIPPED: there is no MPI of the standard ABI; `cargo xtask setup` fetches it, if it can"
            );
        }
        is_there.then_some(HostMpi::StandardAbi)
    }

    fn tool(self, tool: &str) -> PathBuf {
        if let HostMpi::Installed(kind) = self {
            let is_abi = kind == InstalledKind::StandardAbi && tool != "mpiexec";
            let directory = PathBuf::from(std::env::var_os("PARIO_TEST_MPI").unwrap_or_default());
            return directory.join("bin").join(if is_abi { format!("{tool}_abi") } else { tool.to_owned() });
        }
        if self == HostMpi::StandardAbi {
            let name = if tool == "mpiexec" { tool.to_owned() } else { format!("{tool}_abi") };
            return standard_abi_directory().join("bin").join(name);
        }
        let name = format!("{tool}.{}", self.name());
        match on_path(&name) {
            Some(path) => path,
            None => panic!("{name} is not on PATH: install the {} development packages", self.name()),
        }
    }

    /// Environment that lets the launcher work as root, on few cores, in a container.
    pub(crate) fn launch_environment(self) -> &'static [(&'static str, &'static str)] {
        if !self.is_open_mpi() {
            return &[];
        }
        &[
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
            // The same for version 5.
            ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
            ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
            ("OMPI_MCA_mpi_yield_when_idle", "1"),
        ]
    }

    /// Launcher arguments that set a variable in the ranks only, never in the launcher.
    pub(crate) fn rank_variable(self, name: &str, value: &str) -> Vec<String> {
        if self.is_open_mpi() {
            vec!["-x".into(), format!("{name}={value}")]
        } else {
            vec!["-genv".into(), name.into(), value.into()]
        }
    }
}

/// The environment with the MPI of the standard ABI.
fn standard_abi_directory() -> PathBuf {
    let named = std::env::var_os("PARIO_TEST_STANDARD_ABI").filter(|named| !named.is_empty());
    named.map_or_else(|| target_dir().join("venv-standard-abi"), PathBuf::from)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| Path::new(&dir).join(name)).find(|file| file.is_file())
}
