//! The interface of the client cache to a partition's servers. [`team_io`](super::team_io) implements it for real
//! servers; tests simulate servers.

use std::ops::Range;
use std::time::{Duration, Instant};

use pario_layout::Striping;
use pario_types::{FileId, ServerId};

use crate::error::Result;

/// I/O of one file with its servers, as a member of a team. Ranges of leases are ranges of a server's local part.
pub(crate) trait ServerIo: Send + Sync {
    fn striping(&self) -> Striping;

    /// How long anything may be waited for.
    fn deadline(&self) -> Duration;

    /// An error if the file is not open for that.
    fn may_access(&self, write: bool) -> Result<()>;

    /// Whether the servers' caches are memory of this host, too.
    fn is_local(&self) -> bool;

    /// Reads as one of the team, whose leases are not recalled by that.
    fn read(&self, segments: &mut [(u64, &mut [u8])]) -> Result<usize>;

    /// Writes as one of the team.
    fn write(&self, segments: &[(u64, &[u8])]) -> Result<()>;

    /// Bytes that the program wrote are lost, and no call has said so: the next sync or close of the file does.
    fn report_loss(&self);

    /// As far as the servers know.
    fn size(&self) -> Result<u64>;

    /// Reads like any other client: leases on the range are recalled first.
    fn read_direct(&self, bytes: &mut [u8], offset: u64) -> Result<usize>;

    fn write_direct(&self, segments: &[(u64, &[u8])]) -> Result<()>;

    /// Waits until the team may keep this range to itself: the extents that it got, which hold the range.
    fn lease(&self, server: ServerId, range: Range<u64>) -> Result<Vec<Range<u64>>>;

    /// What makes this process hear of recalls at a server, once it is [attached](Mailbox::attach) there. Without that there
    /// are no leases.
    fn mailbox(&self, server: ServerId) -> Box<dyn Mailbox>;
}

/// Receives a server's recalls. A process that drops it has no leases there any more.
pub(crate) trait Mailbox: Send {
    /// Connects, at first and after an error. The team's leases are as they were, unless the server has let others go on
    /// without this process: then it is refused, until it comes `anew`, which means that it keeps nothing there.
    fn attach(&mut self, anew: bool) -> Result<MailboxReply>;

    /// Waits for recalls, some seconds at most: then there are none.
    fn recalls(&mut self) -> Result<MailboxReply>;

    /// This process keeps nothing of `gone` any more, which holds the recalled range.
    fn give_up(&mut self, number: u64, gone: Range<u64>) -> Result<()>;
}

/// What a server says to a mailbox.
#[derive(Debug)]
pub(crate) struct MailboxReply {
    pub recalls: Vec<Recall>,
    /// Until then all other leases of the team are good.
    pub good_until: Instant,
}

/// Another client wants this range of a server's local part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recall {
    pub number: u64,
    pub file: FileId,
    pub range: Range<u64>,
}
