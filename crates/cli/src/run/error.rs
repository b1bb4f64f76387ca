//! What can go wrong around the run of a program, and the exit code for it.

use super::Family;
use super::plan::quote;
use crate::{files, partition};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a program could not be started, or what came after it could not be done.
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
    /// The program is a launcher itself, and this option speaks of another.
    TwoLaunchers(PathBuf, &'static str),
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
    /// There are no random numbers.
    Random(io::Error),
    /// Signals cannot be handled.
    Signals(io::Error),
    /// Something was to be done with a file or directory that the run needs.
    Needed(&'static str, PathBuf, io::Error),
    /// A path that cannot be part of a partition's description or of a variable.
    NoName(PathBuf),
    /// The plan cannot be used.
    Plan(Box<files::Error>),
    /// The options for a partition on demand make none.
    Description(pario_registry::Error),
    /// The partition did not come up.
    Partition(Box<partition::Error>),
    /// Not everything was copied into the partition; why, unless it has been said.
    Inputs(Option<Box<files::Error>>),
    /// Not everything was copied out of it.
    Results {
        /// The partition.
        name: String,
        /// Where to.
        to: PathBuf,
        /// Why, unless it has been said.
        cause: Option<Box<files::Error>>,
        /// Where it still is.
        kept: Kept,
    },
    /// A partition on demand was not taken down.
    Down {
        /// Its registry.
        home: PathBuf,
        /// The directory with its servers' data.
        dir: PathBuf,
        /// Why.
        cause: Box<partition::Error>,
    },
}

/// Where results are that were not copied.
#[derive(Debug)]
pub enum Kept {
    /// In a partition that stays anyway.
    Standing,
    /// In one that was to be removed.
    OnDemand {
        /// Its registry.
        home: PathBuf,
        /// The directory with all of it.
        dir: PathBuf,
    },
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
    /// For `map_err` on a file or directory that the run needs.
    pub fn needed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Needed(doing, path.to_owned(), cause)
    }

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
            | Error::Output(_)
            | Error::Random(_)
            | Error::Signals(_)
            | Error::Needed(..)
            | Error::NoName(_)
            | Error::Partition(_)
            | Error::Inputs(_)
            | Error::Results { .. }
            | Error::Down { .. } => 125,
            Error::Description(_) | Error::TwoLaunchers(..) | Error::Plan(_) => 2,
        }
    }
}

impl From<partition::Error> for Error {
    fn from(error: partition::Error) -> Error {
        Error::Partition(Box::new(error))
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
            Error::TwoLaunchers(path, option) => write!(
                f,
                "{} is a launcher, which starts the program by its own options; leave {option} out",
                path.display()
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
            Error::Random(e) => write!(f, "the system gives no random numbers: {e}"),
            Error::Signals(e) => write!(f, "cannot handle signals: {e}"),
            Error::Needed(doing, path, e) => write!(f, "cannot {doing} {}: {e}", path.display()),
            Error::NoName(path) => write!(
                f,
                "{path:?} cannot be used with a partition: it is not UTF-8, or has control characters; choose \
                 another path"
            ),
            Error::Description(error) => error.fmt(f),
            Error::Plan(error) => error.fmt(f),
            Error::Partition(error) => error.fmt(f),
            Error::Inputs(cause) => {
                f.write_str(
                    "the program was not started, because not everything was copied into the partition",
                )?;
                cause.as_ref().map_or(Ok(()), |cause| write!(f, ": {cause}"))
            }
            Error::Results { name, to, cause, kept } => {
                let to = quote(to.as_os_str());
                write!(f, "not all results are in {to}")?;
                if let Some(cause) = cause {
                    write!(f, " ({cause})")?;
                }
                match kept {
                    Kept::Standing => write!(f, "; 'pario cp -r {name}:/PATH {to}' copies them"),
                    Kept::OnDemand { home, dir } => {
                        let (home, dir) = (quote(home.as_os_str()), quote(dir.as_os_str()));
                        write!(
                            f,
                            "; the partition is kept: PARIO_HOME={home} pario cp -r {name}:/ {to} copies all of it, \
                             PARIO_HOME={home} pario down --forget {name} && rm -r {dir} {home} removes it"
                        )
                    }
                }
            }
            Error::Down { home, dir, cause } => {
                let (home, dir) = (quote(home.as_os_str()), quote(dir.as_os_str()));
                write!(
                    f,
                    "the partition of this run is kept, because not everything in it is stored: {cause}\n  PARIO_HOME={home} \
                     pario up run starts it again with all that it has, PARIO_HOME={home} pario down --forget \
                     --discard run && rm -r {dir} {home} removes it"
                )
            }
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
