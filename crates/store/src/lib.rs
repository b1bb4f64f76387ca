//! Storage below the pool: a server's parts of files, in blocks with checksums.
//!
//! A *part* is the bytes of one file on one server: `[0, end)` of its local part, sparse, divided into blocks of one size,
//! which may have an order of their own on the medium. [`Store`] reads and writes runs of whole blocks and detects silent
//! damage; [`FileStore`] keeps parts in a directory, [`MemoryStore`] in memory, and [`FaultyStore`] makes any store fail on
//! purpose. All give the same guarantees, and one test suite checks them.
//!
//! The directory and the checksum files are described byte by byte in `docs/STORE.md`.
#![forbid(unsafe_code)]

mod change;
mod directory;
mod error;
mod faulty;
mod file_store;
mod files;
mod format;
mod index;
mod manifest;
mod memory;
mod order;
mod parts;
mod removed;
mod run;
mod sync;
mod table;
mod unsynced;

pub use error::{Error, Result, StoreAction};
pub use faulty::{FaultyStore, StoreCall};
pub use file_store::FileStore;
pub use format::StoreIdentity;
pub use memory::MemoryStore;

use std::ops::Range;

use pario_types::FileId;

/// A server's storage. Every call may come from any thread; calls about one part take effect one after the
/// other.
///
/// A part exists from the first write or extension that gives it a byte until [`remove`](Store::remove); a part that does
/// not exist reads as an empty one.
///
/// # Panics
/// If a block handed in is not [`block_size`](Store::block_size) bytes long.
pub trait Store: Send + Sync {
    /// Bytes of a block.
    fn block_size(&self) -> usize;

    /// Reads consecutive whole blocks from block `first` on; holes and bytes beyond the end are zeros.
    ///
    /// Compares each with its checksum: [`Error::Damaged`] names the first that differs. After an error the content of the
    /// passed blocks is undefined.
    fn read(&self, file: FileId, first: u64, blocks: &mut [&mut [u8]]) -> Result<()>;

    /// Writes consecutive whole blocks from block `first` on.
    ///
    /// The part's end becomes `max(its end, min(end, end of the last block))`. Bytes of the blocks below
    /// the new end are stored, the others are not. After an error each of these bytes is the old or the new
    /// one, and the end lies between the old and the new one.
    fn write(&self, file: FileId, first: u64, blocks: &[&[u8]], end: u64) -> Result<()>;

    /// Sets the order in which blocks of the part will first be used: they lie in the order of these runs on the medium,
    /// the others as usual. Users of the part see no difference.
    ///
    /// A part that has bytes, or an order, does not change; one that does not exist is created.
    fn arrange(&self, file: FileId, runs: &[Range<u64>]) -> Result<()>;

    /// The number of blocks, from `first` on and at most `most`, that are consecutive on the medium.
    fn contiguous_blocks(&self, file: FileId, first: u64, most: u64) -> Result<u64>;

    /// The end of the part.
    fn end(&self, file: FileId) -> Result<u64>;

    /// Sets the end of the part: bytes beyond it are removed, missing bytes are zeros.
    ///
    /// `cut` is the id of the truncation. The part remembers the highest id that it has seen here or in
    /// [`fence`](Store::fence), from the first one on also without any bytes; a call whose id is not above it changes
    /// nothing. Id 0 is none: such a call is always performed and is not remembered.
    ///
    /// After an error each byte is an old one or a truncated one; the end may be the new one rounded up to whole blocks,
    /// because on a full medium these blocks free space for the new version of the last one.
    ///
    /// Returns whether it was performed.
    fn set_end(&self, file: FileId, end: u64, cut: u64) -> Result<bool>;

    /// Remembers the id of a truncation without performing it, so that this one and all earlier ones change nothing any
    /// more. Returns whether it was new.
    fn fence(&self, file: FileId, cut: u64) -> Result<bool>;

    /// The highest id of a truncation that the part has seen; 0 if there was none.
    fn last_truncation(&self, file: FileId) -> Result<u64>;

    /// Allocates space on the medium for the next write of each of these blocks, also if a sync comes before that write.
    /// The part exists from now on. A medium that cannot do this returns an error with `EOPNOTSUPP`.
    fn reserve(&self, file: FileId, blocks: Range<u64>) -> Result<()>;

    /// Removes the part. A part that does not exist is no error.
    fn remove(&self, file: FileId) -> Result<()>;

    /// Frees the space of removed parts, if that was not done yet.
    fn reclaim(&self) -> Result<()>;

    /// Makes earlier writes to the part durable.
    fn sync(&self, file: FileId) -> Result<()>;

    /// Makes all earlier writes, truncations and removals durable.
    fn sync_all(&self) -> Result<()>;

    /// The error of the last failed sync of the part (file 0: of any), until a later one succeeds. Bytes written before it
    /// may not be on the medium.
    fn sync_failure(&self, file: FileId) -> Result<()>;

    /// The parts after the given file, in order of their ids, at most so many.
    fn list(&self, after: FileId, most: usize) -> Result<Vec<PartInfo>>;

    /// Compares stored blocks with their checksums, from block `from` on, at most so many.
    ///
    /// A block that a crash has left unverified gets a checksum of the bytes that it has.
    fn verify(&self, file: FileId, from: u64, most: u64) -> Result<VerifyReport>;

    /// Accepts the blocks as they are stored: writes their checksums anew. Blocks beyond the end are skipped.
    fn accept(&self, file: FileId, blocks: &[u64]) -> Result<()>;

    /// The space on the medium, and the part of it that the parts take.
    fn room(&self) -> Result<StoreSpace>;

    /// The highest id of a file that ever had a part here; 0 if there was none.
    fn highest_file_id(&self) -> FileId;

    /// The number of blocks read since the store was opened that a crash had left unverified.
    fn unverified(&self) -> u64;
}

/// A way to damage stored bytes, for tests.
pub trait CorruptByte {
    /// Inverts all bits of one stored byte below the part's end, and does not change its checksum.
    fn flip_byte(&self, file: FileId, at: u64) -> Result<()>;
}

/// A server's part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartInfo {
    /// The file.
    pub file: FileId,
    /// Its end.
    pub end: u64,
}

/// The result of comparing blocks with their checksums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The blocks whose bytes differ from those that were written.
    pub damaged: Vec<u64>,
    /// The number of unverified blocks that got a checksum of their present bytes.
    pub repaired: u64,
    /// The block at which to continue; `None` at the part's end.
    pub next: Option<u64>,
}

/// Space on a store's medium, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSpace {
    /// The medium's size.
    pub total: u64,
    /// The free space.
    pub free: u64,
    /// The space of the parts' bytes; holes take none.
    pub used: u64,
    /// The number of parts.
    pub parts: u64,
}
