//! The two host MPI libraries the tests run on: which tools belong to each, and what its launcher needs.

use std::path::{Path, PathBuf};

/// A host MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostMpi {
    /// MPICH, as packaged by Debian with the suffix `.mpich`.
    Mpich,
    /// Open MPI, as packaged by Debian with the suffix `.openmpi`.
    OpenMpi,
}

/// Both hosts, for tests that loop over them.
pub const BOTH: [HostMpi; 2] = [HostMpi::Mpich, HostMpi::OpenMpi];

impl HostMpi {
    /// The name used in tool suffixes, directory names and environment variables.
    pub fn name(self) -> &'static str {
        match self {
            HostMpi::Mpich => "mpich",
            HostMpi::OpenMpi => "openmpi",
        }
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

    fn tool(self, tool: &str) -> PathBuf {
        let name = format!("{tool}.{}", self.name());
        match on_path(&name) {
            Some(path) => path,
            None => panic!("{name} is not on PATH: install the {} development packages", self.name()),
        }
    }

    /// Environment that lets the launcher work as root, on few cores, in a container.
    pub(crate) fn launch_environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            HostMpi::Mpich => &[],
            HostMpi::OpenMpi => &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
                ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
                ("OMPI_MCA_mpi_yield_when_idle", "1"),
            ],
        }
    }

    /// Launcher arguments that set a variable in the ranks only, never in the launcher.
    pub(crate) fn rank_variable(self, name: &str, value: &str) -> Vec<String> {
        match self {
            HostMpi::Mpich => vec!["-genv".into(), name.into(), value.into()],
            HostMpi::OpenMpi => vec!["-x".into(), format!("{name}={value}")],
        }
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| Path::new(&dir).join(name)).find(|file| file.is_file())
}
