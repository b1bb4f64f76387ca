//! The vocabulary every room shares: offsets, positions, and the closed list of error kinds.
//!
//! Two numbers that are easily mixed up in MPI-IO get a type each: where a byte lies in the *file*
//! ([`Offset`]) and which byte of a *view's data stream* it is ([`Pos`]). Lengths are plain `u64` bytes.
#![forbid(unsafe_code)]

mod access_defaults;
mod error;
mod hash;
mod ids;
mod progress;
mod secret;
mod size;
mod strategy;
mod tuning;

pub use access_defaults::{AccessDefaults, MAX_NETWORK_BUFFER};
pub use error::{ErrorKind, Retry};
pub use hash::{digest, fnv1a};
pub use ids::{ClientId, Epoch, FileId, PartitionId, RequestId, ServerId, Stamp, TruncationId};
pub use progress::Progress;
pub use secret::Secret;
pub use size::{format_size, parse_size, round_size, short_size, spell_size};
pub use strategy::{PartitioningMethod, Strategy};
pub use tuning::{AccessTuning, PrefetchLimits, Toggle};

/// An absolute byte offset in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

/// A byte position in the data stream that a view selects from a file: 0 is the first visible byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pos(pub u64);

impl Offset {
    /// This offset moved up by `len` bytes, or `None` beyond what a file can hold (2^63 - 1).
    pub fn checked_add(self, len: u64) -> Option<Offset> {
        let end = self.0.checked_add(len)?;
        (end <= i64::MAX as u64).then_some(Offset(end))
    }
}

impl Pos {
    /// This position moved up by `len` bytes, or `None` beyond 2^63 - 1.
    pub fn checked_add(self, len: u64) -> Option<Pos> {
        let end = self.0.checked_add(len)?;
        (end <= i64::MAX as u64).then_some(Pos(end))
    }
}

impl std::fmt::Display for Offset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::fmt::Display for Pos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_stop_at_the_largest_file() {
        assert_eq!(Offset(1).checked_add(2), Some(Offset(3)));
        assert_eq!(Offset(i64::MAX as u64).checked_add(1), None);
        assert_eq!(Pos(u64::MAX).checked_add(1), None);
    }
}
