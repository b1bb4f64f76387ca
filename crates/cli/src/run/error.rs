//! Errors of running a program, and their exit codes.

use super::Family;
use super::plan::quote;
use crate::{files, partition};
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a program could not be started, or why its results could not be saved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    #[error("cannot tell which MPI {path} uses: {1}; say --mpi mpich or --mpi openmpi", path = .0.display())]
    Undetermined(PathBuf, Unclear),
    /// No launcher for programs of that family.
    #[error(
        "no launcher of {0} found, neither beside the MPI library nor in PATH; install it or say --launcher PATH"
    )]
    NoLauncher(Family),
    /// The launcher that the user named does not exist.
    #[error("launcher {0:?} not found")]
    NamedLauncher(PathBuf),
    /// The program is a launcher itself, and this option speaks of another.
    #[error("{path} is a launcher, which starts the program by its own options; leave {1} out", path = .0.display())]
    TwoLaunchers(PathBuf, &'static str),
    /// The launcher that the user named is for the other family.
    #[error(
        "{path} does not start programs of {1}, which this program uses: every rank would run alone; leave --launcher out, or \
         name another",
        path = .0.display()
    )]
    WrongLauncher(PathBuf, Family),
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
    /// Starting the launcher failed.
    #[error("cannot start {path}: {1}", path = .0.display())]
    Start(PathBuf, #[source] io::Error),
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// There are no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(#[source] io::Error),
    /// Signals cannot be handled.
    #[error("cannot handle signals: {0}")]
    Signals(#[source] io::Error),
    /// Something was to be done with a file or directory that the run needs.
    #[error("cannot {0} {path}: {2}", path = .1.display())]
    Needed(&'static str, PathBuf, #[source] io::Error),
    /// A path that cannot be part of a partition's description or of a variable.
    #[error(
        "{0:?} cannot be used with a partition: it is not UTF-8, or has control characters; choose another path"
    )]
    NoName(PathBuf),
    /// The plan cannot be used.
    #[error("{0}")]
    Plan(Box<files::Error>),
    /// The options for a partition on demand make none.
    #[error(transparent)]
    Description(pario_registry::Error),
    /// The partition did not come up.
    #[error(transparent)]
    Partition(Box<partition::Error>),
    /// Not everything was copied into the partition; why, unless it has been said.
    #[error(
        "the program was not started, because not everything was copied into the partition{}",
        .0.as_ref().map_or(String::new(), |cause| format!(": {cause}"))
    )]
    Inputs(Option<Box<files::Error>>),
    /// Not everything was copied out of it.
    #[error("{}", results_text(name, to, cause.as_deref(), kept))]
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
    #[error("{}", down_text(home, dir, cause))]
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// None of its libraries, direct or not, is an MPI library.
    #[error("no MPI library is among those it is linked with")]
    NoMpi,
    /// It is a script in a language other than Python.
    #[error("it is a script")]
    Script,
    /// It is neither a program that this machine can run nor a script.
    #[error("{0}")]
    Strange(String),
    /// Its Python has no mpi4py.
    #[error("{} has no mpi4py", .0.display())]
    NoMpi4py(PathBuf),
    /// Its Python could not be asked.
    #[error("{path} could not be asked for mpi4py: {1}", path = .0.display())]
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

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn results_text(name: &str, to: &Path, cause: Option<&files::Error>, kept: &Kept) -> String {
    let to = quote(to.as_os_str());
    let cause = cause.map_or(String::new(), |cause| format!(" ({cause})"));
    let advice = match kept {
        Kept::Standing => format!("'pario cp -r {name}:/PATH {to}' copies them"),
        Kept::OnDemand { home, dir } => {
            let (home, dir) = (quote(home.as_os_str()), quote(dir.as_os_str()));
            format!(
                "the partition is kept: PARIO_HOME={home} pario cp -r {name}:/ {to} copies all of it, PARIO_HOME={home} pario down \
                 --forget {name} && rm -r {dir} {home} removes it"
            )
        }
    };
    format!("not all results are in {to}{cause}; {advice}")
}

fn down_text(home: &Path, dir: &Path, cause: &partition::Error) -> String {
    let (home, dir) = (quote(home.as_os_str()), quote(dir.as_os_str()));
    format!(
        "the partition of this run is kept, because not everything in it is stored: {cause}\n  PARIO_HOME={home} pario up run \
         starts it again with all that it has, PARIO_HOME={home} pario down --forget --discard run && rm -r {dir} {home} \
         removes it"
    )
}
