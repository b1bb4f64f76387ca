//! What tier 1 needs of a partition's servers. Real ones are behind [`servers`](super::servers); tests have others.

use std::ops::Range;
use std::time::{Duration, Instant};

use pario_layout::Striping;
use pario_types::{FileId, ServerId};

use crate::error::Result;

/// The way to the servers for one file, as a member of a team. Ranges of leases are those of a server's local
/// part.
pub(crate) trait Door: Send + Sync {
    fn striping(&self) -> Striping;

    /// How long anything may be waited for.
    fn deadline(&self) -> Duration;

    /// An error if the file is not open for that.
    fn may_access(&self, write: bool) -> Result<()>;

    /// Whether the servers' caches are memory of this host, too.
    fn is_near(&self) -> bool;

    /// Reads as one of the team, whose leases are not recalled by that.
    fn read(&self, segments: &mut [(u64, &mut [u8])]) -> Result<usize>;

    /// Writes as one of the team.
    fn write(&self, segments: &[(u64, &[u8])]) -> Result<()>;

    /// As far as the servers know.
    fn size(&self) -> Result<u64>;

    /// Reads as anybody would: whoever holds leases gives them up first.
    fn read_straight(&self, bytes: &mut [u8], offset: u64) -> Result<usize>;

    fn write_straight(&self, segments: &[(u64, &[u8])]) -> Result<()>;

    /// Waits until the team may keep this range to itself: the extents that it got, which hold the range.
    fn lease(&self, server: ServerId, range: Range<u64>) -> Result<Vec<Range<u64>>>;

    /// What makes this process hear of recalls at a server, once it is [attached](Mailbox::attach) there. Without that there
    /// are no leases.
    fn mailbox(&self, server: ServerId) -> Box<dyn Mailbox>;
}

/// Where a server's recalls arrive. Whoever drops it keeps nothing there.
pub(crate) trait Mailbox: Send {
    /// Connects, at first and after an error. The team's leases are as they were, unless the server has let others go on
    /// without this process: then it is refused, until it comes `anew`, which means that it keeps nothing there.
    fn attach(&mut self, anew: bool) -> Result<Heard>;

    /// Waits for recalls, some seconds at most: then there are none.
    fn recalls(&mut self) -> Result<Heard>;

    /// This process keeps nothing of `gone` any more, which holds the recalled range.
    fn give_up(&mut self, number: u64, gone: Range<u64>) -> Result<()>;
}

/// What a server says to a mailbox.
#[derive(Debug)]
pub(crate) struct Heard {
    pub recalls: Vec<Recall>,
    /// Until then everything else that the team has leased is nobody else's.
    pub good_until: Instant,
}

/// Somebody else wants this range of a server's local part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recall {
    pub number: u64,
    pub file: FileId,
    pub range: Range<u64>,
}
