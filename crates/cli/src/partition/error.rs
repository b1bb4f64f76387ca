//! Errors of the commands on partitions.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use pario_registry::Resource;
use pario_types::ServerId;

/// The reason why a command failed.
#[derive(Debug)]
pub enum Error {
    /// Neither `PARIO_HOME` nor `HOME` is set.
    NoHome,
    /// The registry, or a value for a description.
    Registry(pario_registry::Error),
    /// A partition file.
    File(PathBuf, pario_registry::Error),
    /// `--set` without `=`.
    Assignment(String),
    /// A partition whose servers are on "this host" was created on another.
    OtherHost {
        /// The partition.
        name: String,
        /// Where it was created.
        created: String,
        /// Where this is.
        here: String,
    },
    /// Servers could not be launched.
    Launch(pario_launch::Error),
    /// Servers could not be stopped, or left something that could not be stored.
    NotDown {
        /// The partition.
        name: String,
        /// Which servers, and why.
        unsettled: Vec<Unsettled>,
    },
    /// A partition could not be registered again from its directories.
    Adopt(Box<Adoption>),
    /// The output could not be written.
    Output(io::Error),
}

/// The reason why directories do not make a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// There is no directory.
    None,
    /// Something that names no directory.
    Place(String),
    /// A node could not be asked.
    Node(String, String),
    /// A directory that holds no data of a server.
    Nothing(Resource, String),
    /// A directory that a server uses.
    InUse(Resource),
    /// A directory of another partition than the first.
    Foreign {
        /// The directory.
        place: Resource,
        /// The partition it is of.
        name: String,
        /// The partition that the first one is of.
        expected: String,
    },
    /// Two directories of one server.
    Twice(ServerId, Resource, Resource),
    /// No directory of a server.
    Missing {
        /// The partition.
        name: String,
        /// The server.
        server: ServerId,
        /// Where its directory was.
        place: Resource,
    },
}

impl From<Adoption> for Error {
    fn from(adoption: Adoption) -> Error {
        Error::Adopt(Box::new(adoption))
    }
}

impl fmt::Display for Adoption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Adoption::None => {
                f.write_str("--adopt needs the directories of a partition's servers, or its partition file")
            }
            Adoption::Place(text) => write!(f, "--adopt {text:?}: write node:/dir, or /dir for this host"),
            Adoption::Node(node, why) => {
                write!(f, "node {node} does not say what its directories hold: {why}")
            }
            Adoption::Nothing(place, why) => write!(f, "{place} cannot be adopted: {why}"),
            Adoption::InUse(place) => {
                write!(f, "{place} is in use by a running server: stop its partition first ('pario down')")
            }
            Adoption::Foreign { place, name, expected } => write!(
                f,
                "{place} is of another partition ({name}) than the first directory ({expected}): name the directories of one \
                 partition"
            ),
            Adoption::Twice(server, one, other) => {
                write!(f, "{one} and {other} both are of server {server}: name the one that was used last")
            }
            Adoption::Missing { name, server, place } => write!(
                f,
                "the directory of server {server} of partition {name} is missing; it was {place}: name it, too"
            ),
        }
    }
}

/// A server of which not everything is known to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// Which.
    pub server: ServerId,
    /// On which host.
    pub host: String,
    /// Where unsaved data is, and how to save it.
    pub why: String,
    /// Why it refused to stop, if it did.
    refusal: Option<String>,
}

impl Unsettled {
    /// A server with the reason why it is not settled.
    pub fn new(server: ServerId, host: &str, why: String) -> Unsettled {
        Unsettled { server, host: host.to_owned(), why, refusal: None }
    }

    /// It runs, and says that it cannot stop.
    pub fn refuses(server: ServerId, host: &str, why: &str) -> Unsettled {
        let refusal = Some(why.to_owned());
        let why =
            format!("it goes on running, because it cannot store everything: {why}; mend that and try again");
        Unsettled { refusal, ..Unsettled::new(server, host, why) }
    }

    /// The same server after it was stopped by force.
    fn stopped_by_force(self) -> Unsettled {
        let Some(refusal) = &self.refusal else { return self };
        let why = format!(
            "it could not store everything: {refusal}; it was stopped by force, and what is not stored is in its pool"
        );
        Unsettled { why, refusal: None, ..self }
    }

    /// Its pool is gone with the memory of its host.
    pub fn lost(server: ServerId, host: &str) -> Unsettled {
        let why = "it ended without storing everything, and its pool is gone, as after a restart of its host: writes that were \
                   not synced may be lost; 'pario up' starts it with what is stored, 'pario down --discard' accepts the loss";
        Unsettled::new(server, host, why.to_owned())
    }

    /// It died, and what its pool holds could not be stored. `unsaved`: how many bytes, if that is known.
    pub fn left(server: ServerId, host: &str, unsaved: Option<u64>, pool: &Path, cause: &str) -> Unsettled {
        let pool = pool.display();
        let what = match unsaved {
            Some(0) => format!("nothing is only in its pool {pool}, but its storage cannot be used"),
            Some(bytes) => {
                format!("{} are only in its pool {pool}, because they cannot be stored", amount(bytes))
            }
            None => format!("its pool {pool} cannot be read"),
        };
        let why = format!(
            "it died, and {what}: {cause}; mend that, then 'pario up' or 'pario down' saves everything; 'pario down \
             --discard' removes the pool"
        );
        Unsettled::new(server, host, why)
    }
}

/// A number of bytes for the user.
pub fn amount(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{bytes} bytes"),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {} on {}: {}", self.server, self.host, self.why)
    }
}

impl Error {
    /// The same after all servers were stopped by force: none of them runs any more.
    pub fn stopped_by_force(self) -> Error {
        match self {
            Error::NotDown { name, unsettled } => {
                let unsettled = unsettled.into_iter().map(Unsettled::stopped_by_force).collect();
                Error::NotDown { name, unsettled }
            }
            other => other,
        }
    }

    /// 2 if the user has to change the command or the partition file, 1 if something failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::NoHome | Error::File(..) | Error::Assignment(_) => 2,
            Error::Adopt(why) if matches!(**why, Adoption::None | Adoption::Place(_)) => 2,
            Error::Registry(pario_registry::Error::Description(_)) => 2,
            _ => 1,
        }
    }
}

impl From<pario_launch::Error> for Error {
    fn from(error: pario_launch::Error) -> Error {
        match error {
            pario_launch::Error::Registry(error) => Error::Registry(error),
            error => Error::Launch(error),
        }
    }
}

impl From<pario_registry::Error> for Error {
    fn from(error: pario_registry::Error) -> Error {
        Error::Registry(error)
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoHome => f.write_str("no place for the registry of partitions: set HOME or PARIO_HOME"),
            Error::Registry(error) => error.fmt(f),
            Error::File(path, error @ pario_registry::Error::Description(_)) => {
                write!(f, "{}: {error}", path.display())
            }
            Error::File(_, error) => error.fmt(f),
            Error::Assignment(text) => write!(f, "--set {text:?} is not KEY=VALUE"),
            Error::OtherHost { name, created, here } => write!(
                f,
                "partition {name} has servers on the host where it was created, {created}, and this is {here}: \
                 start it there"
            ),
            Error::Launch(error) => error.fmt(f),
            Error::NotDown { name, unsettled } => {
                write!(f, "partition {name} is not down")?;
                unsettled.iter().try_for_each(|one| write!(f, "\n  {one}"))
            }
            Error::Adopt(adoption) => adoption.fmt(f),
            Error::Output(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}
