//! Errors of launching and stopping servers.

use crate::adoption::AdoptionError;
use crate::scale::ScaleError;
use crate::unsettled::UnsettledServer;
use pario_runtime::process::Command;
use std::io;
use std::time::Duration;

use pario_types::ServerId;

/// The reason why servers were not launched or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The registry.
    #[error(transparent)]
    Registry(#[from] pario_registry::Error),
    /// The program's own file is not known.
    #[error("cannot tell which file pario itself is: {0}")]
    NoProgram(#[source] io::Error),
    /// A launcher could not be run.
    #[error("cannot run {program}: {cause}")]
    Launcher {
        /// The launcher.
        program: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A server did not start.
    #[error("server {server} on {host} did not start: {why}")]
    Start {
        /// Which.
        server: ServerId,
        /// On which host.
        host: String,
        /// Why.
        #[source]
        why: LaunchFailure,
    },
    /// A partition whose servers are on "this host" was created on another.
    #[error(
        "partition {name} has servers on the host where it was created, {created}, and this is {here}: start it there"
    )]
    OtherHost {
        /// The partition.
        name: String,
        /// Where it was created.
        created: String,
        /// Where this is.
        here: String,
    },
    /// Servers could not be stopped, or left something that could not be stored.
    #[error("partition {name} is not down{}", unsettled.iter().map(|one| format!("\n  {one}")).collect::<String>())]
    NotDown {
        /// The partition.
        name: String,
        /// Which servers, and why.
        unsettled: Vec<UnsettledServer>,
    },
    /// Directories of servers could not be removed.
    #[error("partition {name} is down but not erased{}", unsettled.iter().map(|one| format!("\n  {one}")).collect::<String>())]
    NotErased {
        /// The partition.
        name: String,
        /// Which servers, and why.
        unsettled: Vec<UnsettledServer>,
    },
    /// The set of servers could not be changed.
    #[error(transparent)]
    Scale(#[from] Box<ScaleError>),
    /// A partition could not be registered again from its directories.
    #[error(transparent)]
    Adoption(#[from] Box<AdoptionError>),
}

impl From<AdoptionError> for Error {
    fn from(error: AdoptionError) -> Error {
        Error::Adoption(Box::new(error))
    }
}

impl From<ScaleError> for Error {
    fn from(error: ScaleError) -> Error {
        Error::Scale(Box::new(error))
    }
}

impl Error {
    /// The same after all servers were stopped by force: none of them runs any more.
    pub fn stopped_by_force(self) -> Error {
        match self {
            Error::NotDown { name, unsettled } => {
                let unsettled = unsettled.into_iter().map(UnsettledServer::stopped_by_force).collect();
                Error::NotDown { name, unsettled }
            }
            other => other,
        }
    }

    /// For `map_err` on running a launcher.
    pub fn launcher(command: &Command) -> impl FnOnce(io::Error) -> Error {
        let program = command.get_program().to_string_lossy().into_owned();
        move |cause| Error::Launcher { program, cause }
    }
}

/// Why a process that was launched does not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchFailure {
    /// It said so.
    #[error("{0}")]
    Said(String),
    /// It, or what was to start it, ended; with its last words, if any.
    #[error("{}", if .0.is_empty() { "it ended without a word".to_owned() } else { format!("it ended ({})", .0) })]
    Ended(String),
    /// It did not say anything in time.
    #[error("no word from it for {} s", .0.as_secs())]
    Silent(Duration),
    /// It said something that was not its turn to say.
    #[error("it is not the same version of pario")]
    OutOfTurn,
}
