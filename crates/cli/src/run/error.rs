//! What can go wrong before a program is started, and the exit code for it.

use super::Family;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a program could not be started.
#[derive(Debug)]
pub enum Error {
    /// No such program.
    NoProgram(String),
    /// There is such a file, but it cannot be run.
    NotExecutable(PathBuf),
    /// Reading the program's file failed.
    Unreadable(PathBuf, io::Error),
    /// The program is statically linked: nothing can be preloaded.
    Static(PathBuf),
    /// Which MPI the program uses cannot be found out.
    Undetermined(PathBuf, Unclear),
    /// No launcher for programs of that family.
    NoLauncher(Family),
    /// The launcher that the user named does not exist.
    NamedLauncher(PathBuf),
    /// The launcher that the user named is for the other family.
    WrongLauncher(PathBuf, Family),
    /// libpario.so is in none of these places.
    NoLibrary(Vec<PathBuf>),
    /// `PARIO_LIB` names something that is not there.
    NamedLibrary(PathBuf),
    /// A path that the loader would take for several.
    UnloadablePath(PathBuf),
    /// Starting the launcher failed.
    Start(PathBuf, io::Error),
    /// Writing the output failed.
    Output(io::Error),
}

/// Why a program's MPI is not clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// None of its libraries, direct or not, is an MPI library.
    NoMpi,
    /// It is a script in a language other than Python.
    Script,
    /// It is neither a program that this machine can run nor a script.
    Strange(String),
    /// Its Python has no mpi4py.
    NoMpi4py(PathBuf),
    /// Its Python could not be asked.
    Python(PathBuf, String),
}

impl Error {
    /// The exit code, as `env` and `nohup` use them.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::NoProgram(_) | Error::NoLauncher(_) | Error::NamedLauncher(_) => 127,
            Error::NotExecutable(_) | Error::Start(..) => 126,
            Error::Unreadable(..)
            | Error::Static(_)
            | Error::Undetermined(..)
            | Error::WrongLauncher(..)
            | Error::NoLibrary(_)
            | Error::NamedLibrary(_)
            | Error::UnloadablePath(_)
            | Error::Output(_) => 125,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoProgram(name) => write!(f, "program {name:?} not found, neither in PATH nor here"),
            Error::NotExecutable(path) => write!(f, "{} is not an executable file", path.display()),
            Error::Unreadable(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            Error::Static(path) => write!(
                f,
                "{} is statically linked, so that no library can be put in front of its MPI; link it with the shared \
                 MPI library, or run it with --host-io and --mpi",
                path.display()
            ),
            Error::Undetermined(path, why) => {
                let path = path.display();
                write!(f, "cannot tell which MPI {path} uses: {why}; say --mpi mpich or --mpi openmpi")
            }
            Error::NoLauncher(family) => write!(
                f,
                "no launcher of {family} found, neither beside the MPI library nor in PATH; install it or say \
                 --launcher PATH"
            ),
            Error::NamedLauncher(path) => write!(f, "launcher {:?} not found", path),
            Error::WrongLauncher(path, family) => write!(
                f,
                "{} does not start programs of {family}, which this program uses: every rank would run alone; leave \
                 --launcher out, or name another",
                path.display()
            ),
            Error::NoLibrary(tried) => {
                let tried: Vec<_> = tried.iter().map(|p| p.display().to_string()).collect();
                let tried = tried.join(", ");
                write!(
                    f,
                    "libpario.so not found (looked for {tried}); name it in PARIO_LIB, or use --host-io"
                )
            }
            Error::NamedLibrary(path) => write!(f, "PARIO_LIB names {}, which is not a file", path.display()),
            Error::UnloadablePath(path) => write!(
                f,
                "{:?} cannot be preloaded, because the loader splits names at blanks and colons; put libpario.so \
                 elsewhere and name it in PARIO_LIB",
                path
            ),
            Error::Start(path, e) => write!(f, "cannot start {}: {e}", path.display()),
            Error::Output(e) => write!(f, "cannot write the output: {e}"),
        }
    }
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unclear::NoMpi => f.write_str("no MPI library is among those it is linked with"),
            Unclear::Script => f.write_str("it is a script"),
            Unclear::Strange(why) => f.write_str(why),
            Unclear::NoMpi4py(python) => write!(f, "{} has no mpi4py", python.display()),
            Unclear::Python(python, why) => {
                write!(f, "{} could not be asked for mpi4py: {why}", python.display())
            }
        }
    }
}
