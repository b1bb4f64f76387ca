//! The interface of the client cache to a partition's servers. [`team_io`](super::team_io) implements it for real
//! servers; tests simulate servers.

use std::ops::Range;
use std::time::Duration;

use pario_layout::Striping;
use pario_runtime::time::Instant;
use pario_types::{FileId, ServerId};

use crate::error::Result;

/// I/O of one file with its servers, as a member of a team. Ranges of leases are ranges of a server's local part.
pub(crate) trait ServerIo: Send + Sync {
    fn striping(&self) -> Striping;

    /// The deadline of any wait.
    fn deadline(&self) -> Duration;

    /// Fails if the file is not open for this access.
    fn may_access(&self, write: bool) -> Result<()>;

    /// Whether the servers' caches are in memory of this host, too.
    fn is_local(&self) -> bool;

    /// Reads as a member of the team; its leases are not recalled.
    fn read(&self, segments: &mut [(u64, &mut [u8])]) -> Result<usize>;

    /// Writes as a member of the team.
    fn write(&self, segments: &[(u64, &[u8])]) -> Result<()>;

    /// Bytes that the program wrote are lost, and no call has said so: the next sync or close of the file does.
    fn report_loss(&self);

    /// The size, as far as the servers know.
    fn size(&self) -> Result<u64>;

    /// Reads like any other client: leases on the range are recalled first.
    fn read_direct(&self, bytes: &mut [u8], offset: u64) -> Result<usize>;

    fn write_direct(&self, segments: &[(u64, &[u8])]) -> Result<()>;

    /// Waits for a lease of this range for the team: returns the granted extents, which include the range.
    fn lease(&self, server: ServerId, range: Range<u64>) -> Result<Vec<Range<u64>>>;

    /// Returns the mailbox through which this process receives recalls of a server, once it is [attached](Mailbox::attach)
    /// there. Without it there are no leases.
    fn mailbox(&self, server: ServerId) -> Box<dyn Mailbox>;
}

/// Receives a server's recalls. A process that drops it has no leases there any more.
pub(crate) trait Mailbox: Send {
    /// Connects, at first and after an error. The team's leases are as before, unless the server has let other clients
    /// continue without this process: then it refuses, until the process attaches `anew`, which means that it caches
    /// nothing there.
    fn attach(&mut self, anew: bool) -> Result<MailboxReply>;

    /// Waits for recalls, for some seconds at most; then returns none.
    fn recalls(&mut self) -> Result<MailboxReply>;

    /// Reports that this process caches nothing of `gone` any more, which includes the recalled range.
    fn give_up(&mut self, number: u64, gone: Range<u64>) -> Result<()>;
}

/// A message of a server to a mailbox.
#[derive(Debug)]
pub(crate) struct MailboxReply {
    pub recalls: Vec<Recall>,
    /// The time until which all other leases of the team are valid.
    pub good_until: Instant,
}

/// Another client requests this range of a server's local part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recall {
    pub number: u64,
    pub file: FileId,
    pub range: Range<u64>,
}
