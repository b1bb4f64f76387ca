//! The layout of a record. Words are native-endian 64-bit numbers; texts end with a zero byte or at their size.
//!
//! | offset | content |
//! |---|---|
//! | 0 | [`MAGIC`] |
//! | 8 | the rank in `MPI_COMM_WORLD`; from bit 32 on, the number of ranks |
//! | 16 | number of calls begun |
//! | 24 | number of calls ended |
//! | 32 | name of the last call begun, 32 bytes |
//! | 64 | slot of its file plus 1, or 0 |
//! | 128 | name of the job, 128 bytes |
//! | 512 | [`SLOTS`] slots of [`SLOT`] bytes, one for each group of ranks that has opened a file together |
//!
//! Layout of a slot:
//!
//! | offset | content |
//! |---|---|
//! | 0 | number of the group, equal on all its ranks; 0 in a free slot |
//! | 8 | the rank in the group; from bit 32 on, the number of ranks |
//! | 16 | number of collective calls begun |
//! | 24 | bytes of the last of them plus 1, or 0 |
//! | 32 | name of the last of them, 32 bytes |
//! | 64 | time since which a collective call waits for other ranks, in nanoseconds of the monotonic clock, or 0 |
//! | 128 | name of the open file, 384 bytes; empty if none is open |

/// The first word of a record: a format and its version.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PARIOCA1");

/// The name of the memory file, which `/proc` shows.
pub(crate) const LABEL: &std::ffi::CStr = c"pario-calls";

pub(crate) const WORLD: usize = 8;
pub(crate) const BEGUN: usize = 16;
pub(crate) const ENDED: usize = 24;
pub(crate) const CALL: usize = 32;
pub(crate) const CALL_FILE: usize = 64;
pub(crate) const JOB: usize = 128;
pub(crate) const JOB_SIZE: usize = 128;

const SLOTS_AT: usize = 512;
/// The size of a slot in bytes.
pub(crate) const SLOT: usize = 512;
/// The number of slots. Files beyond this number are not recorded.
pub(crate) const SLOTS: usize = 63;
/// The size of a record in bytes.
pub(crate) const SIZE: usize = SLOTS_AT + SLOTS * SLOT;

pub(crate) const GROUP: usize = 0;
pub(crate) const RANK: usize = 8;
pub(crate) const COLLECTIVES: usize = 16;
pub(crate) const BYTES: usize = 24;
pub(crate) const COLLECTIVE: usize = 32;
pub(crate) const WAITING: usize = 64;
pub(crate) const PATH: usize = 128;
pub(crate) const PATH_SIZE: usize = SLOT - PATH;

/// The start of a slot.
pub(crate) fn slot(index: usize) -> usize {
    SLOTS_AT + index * SLOT
}
