//! Errors of finding a program, its MPI and its launcher.

use super::MpiFamily;
use std::io;
use std::path::PathBuf;

/// The reason why an MPI program cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No such program.
    #[error("program {0:?} not found, neither in PATH nor here")]
    NoProgram(String),
    /// There is such a file, but it cannot be run.
    #[error("{} is not an executable file", .0.display())]
    NotExecutable(PathBuf),
    /// Reading the program's file failed.
    #[error("cannot read {path}: {1}", path = .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// The program is statically linked: nothing can be preloaded.
    #[error(
        "{} is statically linked, so that no library can be put in front of its MPI; link it with the shared MPI library, or run \
         it with --host-io and --mpi",
        .0.display()
    )]
    Static(PathBuf),
    /// Which MPI the program uses cannot be found out.
    #[error("cannot tell which MPI {path} uses: {1}; say --mpi mpich, --mpi openmpi or --mpi abi", path = .0.display())]
    Undetermined(PathBuf, UnclearMpi),
    /// No launcher for programs of that family.
    #[error(
        "no launcher of {0} found, neither beside the MPI library nor in PATH; install it or say --launcher PATH"
    )]
    NoLauncher(MpiFamily),
    /// The launcher that the user named does not exist.
    #[error("launcher {0:?} not found")]
    NamedLauncher(PathBuf),
    /// The launcher that the user named is for the other family.
    #[error(
        "{path} does not start programs of {1}, which this program uses: every rank would run alone; leave --launcher out, or \
         name another",
        path = .0.display()
    )]
    WrongLauncher(PathBuf, MpiFamily),
    /// libpario.so is in none of these places.
    #[error("libpario.so not found (looked for {}); name it in PARIO_LIB, or use --host-io", list(.0))]
    NoLibrary(Vec<PathBuf>),
    /// `PARIO_LIB` names something that is not there.
    #[error("PARIO_LIB names {}, which is not a file", .0.display())]
    NamedLibrary(PathBuf),
    /// A path that the loader would take for several.
    #[error(
        "{0:?} cannot be preloaded, because the loader splits names at blanks and colons; put libpario.so elsewhere and name it \
         in PARIO_LIB"
    )]
    UnloadablePath(PathBuf),
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The reason why a program's MPI is not clear.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnclearMpi {
    /// None of its libraries, direct or not, is an MPI library.
    #[error("no MPI library is among those it is linked with")]
    NoMpi,
    /// It is a script in a language other than Python.
    #[error("it is a script")]
    Script,
    /// It is neither a program that this machine can run nor a script.
    #[error("{0}")]
    Unusable(String),
    /// Its Python has no mpi4py.
    #[error("{} has no mpi4py", .0.display())]
    NoMpi4py(PathBuf),
    /// Its Python could not be asked.
    #[error("{path} could not be asked for mpi4py: {1}", path = .0.display())]
    Python(PathBuf, String),
}
