//! Storage below the pool: a server's parts of files, in blocks with checksums.
//!
//! A *part* is what one server holds of one file: the bytes `[0, end)` of its local part, sparse, cut into
//! blocks of one size, which may lie on the medium in an order of their own. [`Store`] reads and writes runs of
//! whole blocks and finds silent damage; [`FileStore`] keeps parts in a directory, [`MemoryStore`] in memory, and
//! [`FaultyStore`] makes any store fail on purpose. All keep the same promises, and one suite of tests holds them to
//! these.
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
/// A part is there from the first write or extension that gives it a byte until [`remove`](Store::remove);
/// one that is not there reads as an empty one.
///
/// # Panics
/// If a block handed in is not [`block_size`](Store::block_size) bytes long.
pub trait Store: Send + Sync {
    /// Bytes of a block.
    fn block_size(&self) -> usize;

    /// Reads consecutive whole blocks from block `first` on; holes and what lies beyond the end are zeros.
    ///
    /// Compares each with its checksum: [`Error::Damaged`] names the first that differs. After an error the
    /// blocks handed in hold anything.
    fn read(&self, file: FileId, first: u64, blocks: &mut [&mut [u8]]) -> Result<()>;

    /// Writes consecutive whole blocks from block `first` on.
    ///
    /// The part's end becomes `max(its end, min(end, end of the last block))`. Bytes of the blocks below
    /// the new end are stored, the others are not. After an error each of these bytes is the old or the new
    /// one, and the end lies between the old and the new one.
    fn write(&self, file: FileId, first: u64, blocks: &[&[u8]], end: u64) -> Result<()>;

    /// Blocks of the part will first be used in the order of these runs: they lie so on the medium, those that are not
    /// named as they do otherwise. To whoever uses the part it changes nothing.
    ///
    /// A part that has bytes, or an order, stays as it is; one that is not there is there from now on.
    fn arrange(&self, file: FileId, runs: &[Range<u64>]) -> Result<()>;

    /// How many blocks, from `first` on and at most `most`, lie one after the other on the medium.
    fn contiguous_blocks(&self, file: FileId, first: u64, most: u64) -> Result<u64>;

    /// Where the part ends.
    fn end(&self, file: FileId) -> Result<u64>;

    /// The part ends here from now on: what lies beyond is gone, what is missing is zeros.
    ///
    /// `cut` identifies the truncation. The part remembers the highest identity that it has seen here or in
    /// [`fence`](Store::fence), from the first one on also without any bytes; a call whose identity is not above it
    /// changes nothing. Identity 0 is none: such a call is always carried out and is not remembered.
    ///
    /// After an error each byte is an old one or a truncated one; the end may be the new one rounded up to whole blocks,
    /// because on a full medium these blocks make room for the new version of the last one.
    ///
    /// Returns whether it was carried out.
    fn set_end(&self, file: FileId, end: u64, cut: u64) -> Result<bool>;

    /// Remembers the identity of a truncation without carrying it out, so that this one and all earlier ones change
    /// nothing any more. Returns whether it was new.
    fn fence(&self, file: FileId, cut: u64) -> Result<bool>;

    /// The highest identity of a truncation that the part has seen; 0 if there was none.
    fn last_truncation(&self, file: FileId) -> Result<u64>;

    /// Takes room on the medium for the next write of each of these blocks, also if a sync comes before that write.
    /// The part is there from now on. A medium that cannot do this gives an error with `EOPNOTSUPP`.
    fn reserve(&self, file: FileId, blocks: Range<u64>) -> Result<()>;

    /// The part is no longer needed. One that is not there is no error.
    fn remove(&self, file: FileId) -> Result<()>;

    /// Frees the room of parts that were removed, if that was not done yet.
    fn reclaim(&self) -> Result<()>;

    /// What was written to the part before is on the medium after.
    fn sync(&self, file: FileId) -> Result<()>;

    /// What was written, cut or removed before is so on the medium after.
    fn sync_all(&self) -> Result<()>;

    /// The error of the last sync of the part (file 0: of any) that failed, until a later one succeeds. What was written
    /// before it may not be on the medium.
    fn sync_failure(&self, file: FileId) -> Result<()>;

    /// The parts after the given file, in order of their ids, at most so many.
    fn list(&self, after: FileId, most: usize) -> Result<Vec<PartInfo>>;

    /// Compares stored blocks with their checksums, from block `from` on, at most so many.
    ///
    /// A block that a crash has left unverified gets a checksum of the bytes that it has.
    fn verify(&self, file: FileId, from: u64, most: u64) -> Result<VerifyReport>;

    /// Takes the blocks as they are stored for right: writes their checksums anew. Blocks beyond the end are
    /// passed over.
    fn accept(&self, file: FileId, blocks: &[u64]) -> Result<()>;

    /// Room on the medium, and how much of it the parts take.
    fn room(&self) -> Result<StoreSpace>;

    /// The highest id of a file that ever had a part here; 0 if there was none.
    fn highest_file_id(&self) -> FileId;

    /// How many blocks were read since the store was opened that a crash had left unverified.
    fn unverified(&self) -> u64;
}

/// A way to damage what is stored, for tests.
pub trait CorruptByte {
    /// Inverts all bits of one stored byte below the part's end, and leaves its checksum alone.
    fn flip_byte(&self, file: FileId, at: u64) -> Result<()>;
}

/// What a server holds of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartInfo {
    /// Of which file.
    pub file: FileId,
    /// Where it ends.
    pub end: u64,
}

/// What comparing blocks with their checksums gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The blocks whose bytes are not those that were written.
    pub damaged: Vec<u64>,
    /// How many unverified blocks got a checksum of the bytes that they have.
    pub repaired: u64,
    /// The block to go on with; `None` at the part's end.
    pub next: Option<u64>,
}

/// Room on a store's medium, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSpace {
    /// The medium's size.
    pub total: u64,
    /// What may still be written.
    pub free: u64,
    /// What the parts' bytes take; holes take nothing.
    pub used: u64,
    /// How many parts there are.
    pub parts: u64,
}
