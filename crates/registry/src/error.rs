//! Errors of partition files and the registry.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use pario_types::{ErrorKind, PartitionId};

/// The reason why something could not be read, changed or locked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A partition file, or a value for one, is invalid.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// An existing partition is described differently in a property that was fixed when it was created.
    #[error(
        "partition {name} was created with {key} = {fixed}, which is fixed; asked for is {key} = {asked}: leave it as it was, or \
         create a partition of another name"
    )]
    Structure {
        /// The partition.
        name: String,
        /// The property.
        key: &'static str,
        /// Its value when the partition was created.
        fixed: String,
        /// The value that is requested now.
        asked: String,
    },
    /// No partition of that name.
    #[error("no partition is called {0} ('pario list' shows all)")]
    NoPartition(String),
    /// There is no registry in that directory of this host.
    #[error(
        "this host has no registry of partitions in {}: 'pario up FILE' makes one (PARIO_HOME says where it is)",
        .0.display()
    )]
    NoRegistry(PathBuf),
    /// A directory that does not belong to a server of any partition.
    #[error("{} holds no data of a partition: there is no file 'partition' in it", .0.display())]
    NoManifest(PathBuf),
    /// A partition is registered already.
    #[error("the partition is registered already, as {name}: 'pario up {name}' starts it")]
    Registered {
        /// Its name in the registry.
        name: String,
    },
    /// A partition of that name exists.
    #[error("a partition called {0} exists already")]
    AlreadyThere(String),
    /// The registry's secret of a partition is missing.
    #[error("the secret of partition {0} is missing: {path} is not there", path = .1.display())]
    NoSecret(PartitionId, PathBuf),
    /// Another process held a lock for too long.
    #[error("{what} is in use by {holder}; gave up after {:.1} s, try again", waited.as_secs_f32())]
    Locked {
        /// The purpose of the lock.
        what: String,
        /// Its holder, as far as the lock's file names it.
        holder: String,
        /// The time waited.
        waited: Duration,
    },
    /// A file or directory that others could have changed or could read.
    #[error("{} {reason}", path.display())]
    Unsafe {
        /// The path.
        path: PathBuf,
        /// The reason.
        reason: UnsafePath,
    },
    /// The registry's file, or a secret's, has content that Pario does not write.
    #[error("{} is damaged and was left as it is: {why}; mend it or move it away", path.display())]
    Garbled {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The registry's file is of another version of Pario.
    #[error(
        "{} has version {found}, this pario understands version {known}: use the pario that wrote it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The version that this program understands.
        known: u64,
    },
    /// This host has no network interface of that name with an address.
    #[error("this host has no network interface {0:?} with an address (see the key listen)")]
    NoInterface(String),
    /// A directory's name is too long for a socket in it.
    #[error("{} is too long a name for a directory with a socket in it", .0.display())]
    TooLong(PathBuf),
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// An error of a partition file, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptionError {
    /// The text is neither TOML nor a list of `key = value` lines.
    Syntax {
        /// The line, from 1.
        line: Option<usize>,
        /// The error.
        why: String,
    },
    /// A line in TOML among lines in the plain format.
    Mixed {
        /// A line in TOML.
        line: usize,
        /// A line that is not.
        plain: usize,
        /// The value on that line.
        value: String,
    },
    /// An unknown key.
    Unknown {
        /// The line, from 1.
        line: Option<usize>,
        /// The key.
        key: String,
        /// A key with a similar name.
        nearest: Option<&'static str>,
    },
    /// A key that may occur only once occurs twice.
    Twice {
        /// The second one's line.
        line: Option<usize>,
        /// The key.
        key: &'static str,
    },
    /// A value that the key does not allow.
    Value {
        /// The line, from 1.
        line: Option<usize>,
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// The allowed values.
        allowed: String,
    },
    /// A required key is missing.
    Missing(&'static str),
    /// The file has no name, and the file's own name is no valid one.
    NoName(String),
    /// `nr_ios` and the number of servers differ.
    Count {
        /// The line, from 1.
        line: Option<usize>,
        /// The number in the file.
        said: u64,
        /// The actual number.
        servers: usize,
    },
    /// Two servers with one directory.
    SamePlace {
        /// The line of the second.
        line: Option<usize>,
        /// The directory.
        place: String,
    },
    /// `metadata` names none of the servers.
    Metadata {
        /// The line, from 1.
        line: Option<usize>,
        /// The name in the file.
        place: String,
    },
    /// The cache has too few blocks.
    SmallCache {
        /// The line, from 1.
        line: Option<usize>,
        /// Its bytes.
        cache: u64,
        /// Bytes of a block.
        block: u64,
        /// The smallest number of blocks.
        least: u64,
    },
    /// The low watermark is not below the high one, or the high one is above the cache.
    Watermarks {
        /// The line, from 1.
        line: Option<usize>,
        /// The low one in blocks.
        low: u64,
        /// The high one in blocks.
        high: u64,
        /// The cache's blocks.
        blocks: u64,
    },
    /// The low watermark of the ranks' caches is above the high one.
    Tier1Watermarks {
        /// The line, from 1.
        line: Option<usize>,
        /// The low one, in percent.
        low: u8,
        /// The high one.
        high: u8,
    },
    /// The strategy needs the caches of the ranks, which are switched off.
    NoTier1 {
        /// The line, from 1.
        line: Option<usize>,
    },
    /// There are fewer ports from `port` on than servers.
    Ports {
        /// The line, from 1.
        line: Option<usize>,
        /// The first port.
        port: u16,
        /// The number of servers.
        servers: usize,
    },
}

/// The reason why a file or directory is not safe to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsafePath {
    /// It belongs to this user.
    #[error("belongs to another user (uid {0}) and cannot be trusted")]
    Owner(u32),
    /// Others than its owner have rights; this is its mode.
    #[error("is open to other users (mode {0:04o}): take their rights away with chmod go=")]
    Mode(u32),
    /// It is not a real directory (for instance a link).
    #[error("is in the way: it is not a directory")]
    NotADirectory,
    /// It is not a plain file.
    #[error("is in the way: it is not a plain file")]
    NotAFile,
}

impl Error {
    /// The kind, on which a caller can act.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Description(_) => ErrorKind::Arg,
            Error::Structure { .. } => ErrorKind::NotSame,
            Error::NoPartition(_) | Error::NoRegistry(_) | Error::NoManifest(_) => ErrorKind::NoSuchFile,
            Error::AlreadyThere(_) | Error::Registered { .. } => ErrorKind::FileExists,
            Error::NoSecret(..) | Error::Unsafe { .. } => ErrorKind::Access,
            Error::Locked { .. } => ErrorKind::FileInUse,
            Error::Garbled { .. } => ErrorKind::Damaged,
            Error::Version { .. } => ErrorKind::Protocol,
            Error::NoInterface(_) => ErrorKind::Arg,
            Error::TooLong(_) => ErrorKind::BadFile,
            Error::Io { source, .. } => source.raw_os_error().map_or(ErrorKind::Io, ErrorKind::from_errno),
        }
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { action, path, source }
    }
}

// `thiserror` formats one variant at a time; the line comes first in all of them.
impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line() {
            write!(f, "line {line}: ")?;
        }
        match self {
            DescriptionError::Syntax { why, .. } => f.write_str(why),
            DescriptionError::Mixed { plain, value, .. } => write!(
                f,
                "this is TOML, but line {plain} is not: put {value:?} there in quotes, or leave quotes \
                 and brackets out everywhere"
            ),
            DescriptionError::Unknown { key, nearest: Some(near), .. } => {
                write!(f, "no key {key:?}; is {near} meant?")
            }
            DescriptionError::Unknown { key, nearest: None, .. } => write!(f, "no key {key:?}"),
            DescriptionError::Twice { key, .. } => write!(f, "{key} is here for the second time"),
            DescriptionError::Value { key, value, allowed, .. } => {
                write!(f, "{key} = {value:?}; allowed: {allowed}")
            }
            DescriptionError::Missing(key) => write!(f, "{key} is missing"),
            DescriptionError::NoName(file) => write!(
                f,
                "name is missing, and {file:?} cannot serve as one: letters, digits, '.', '_' and '-', at \
                 most 64"
            ),
            DescriptionError::Count { said, servers, .. } => {
                write!(f, "nr_ios = {said}, but the number of servers is {servers}")
            }
            DescriptionError::SamePlace { place, .. } => {
                write!(f, "{place} is a server already; give each server a directory of its own")
            }
            DescriptionError::Metadata { place, .. } => {
                write!(f, "metadata = {place}, which is none of the servers")
            }
            DescriptionError::SmallCache { cache, block, least, .. } => {
                write!(f, "cache = {cache} bytes, less than {least} blocks of {block} bytes")
            }
            DescriptionError::Watermarks { low, high, blocks, .. } => write!(
                f,
                "low_water is {low} blocks, high_water {high}, the cache {blocks}: each must be less than \
                 the next, high_water may equal the cache"
            ),
            DescriptionError::Tier1Watermarks { low, high, .. } => {
                write!(f, "tier1_low_water is {low}%, more than tier1_high_water, which is {high}%")
            }
            DescriptionError::NoTier1 { .. } => {
                f.write_str("strategy = client-directed keeps blocks in the memory of the ranks, which tier1 = off forbids")
            }
            DescriptionError::Ports { port, servers, .. } => {
                write!(f, "port = {port}: {servers} servers take one port each from there on, up to 65535")
            }
        }
    }
}

impl std::error::Error for DescriptionError {}

impl DescriptionError {
    /// The line in the file, from 1, where one is known.
    pub fn line(&self) -> Option<usize> {
        match self {
            DescriptionError::Mixed { line, .. } => Some(*line),
            DescriptionError::Syntax { line, .. }
            | DescriptionError::Unknown { line, .. }
            | DescriptionError::Twice { line, .. }
            | DescriptionError::Value { line, .. }
            | DescriptionError::Count { line, .. }
            | DescriptionError::SamePlace { line, .. }
            | DescriptionError::Metadata { line, .. }
            | DescriptionError::SmallCache { line, .. }
            | DescriptionError::Watermarks { line, .. }
            | DescriptionError::Tier1Watermarks { line, .. }
            | DescriptionError::NoTier1 { line }
            | DescriptionError::Ports { line, .. } => *line,
            DescriptionError::Missing(_) | DescriptionError::NoName(_) => None,
        }
    }
}
