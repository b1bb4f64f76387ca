//! The layout of the segment.
//!
//! All words are native-endian 64-bit numbers; the file never leaves its machine.
//!
//! | at | what |
//! |---|---|
//! | 0 | magic number, written last |
//! | 8 | version of this layout |
//! | 16 | partition, low half, then high half |
//! | 32 | server |
//! | 40 | bytes of a block |
//! | 48 | slots |
//! | 56 | ledgers |
//! | 64 | mark: a random number of this very pool |
//! | 72 | boot of the machine that it was made in, low half, then high half |
//! | 88 | namespaces in which the processes of the ledgers are known |
//! | 96 | sum of the words from 8 to 64: a file that is too short for these was cut |
//! | 128 | clock: ticks whenever the server hands out or flushes blocks |
//! | 192 | how many slots are dirty |
//! | 256 | event: 32-bit number that changes when the flusher may have work |
//! | 264 | not 0 while the flusher sleeps |
//! | 320 | dirty slots from which on the flusher works, then those down to which it does |
//! | 512 | truncations under way: [`TRUNCATIONS`] records of [`TRUNCATION_BYTES`] bytes (file, end, truncation, seal) |
//! | 4096 | ledgers: each [`HEAD`] bytes (process, its start, hits) and [`LEDGER_WORDS`] words of pins |
//! | … | slots: each [`SLOT`] bytes (state, file, block, end, used, modified, borrower, seal) |
//! | … | directory: a word for every hash of file and block (slot and 1, generation) |
//! | … | from a multiple of [`FAULT_AROUND`] on, where there are many of [`LARGE_PAGE`]: blocks |
//! | … | a page of nothing: it is gone if the file was cut anywhere before |

use crate::error::{Error, Result};
use pario_shm::{FAULT_AROUND, LARGE_PAGE};
use pario_types::{PartitionId, ServerId};

/// The default number of bytes of a block.
pub const DEFAULT_BLOCK: u32 = 64 << 10;

/// The default number of clients of the same host that can map a pool.
pub const DEFAULT_LEDGERS: u32 = 256;

/// The number of pins that one client can hold at a time. (Few in this crate's own tests, which try all interleavings.)
pub const LEDGER_WORDS: u32 = if cfg!(test) { 2 } else { 64 };

pub(crate) const MAGIC: u64 = u64::from_be_bytes(*b"pariopol");
pub(crate) const VERSION: u64 = 4;

pub(crate) const AT_MAGIC: usize = 0;
pub(crate) const AT_VERSION: usize = 8;
pub(crate) const AT_PARTITION: usize = 16;
pub(crate) const AT_SERVER: usize = 32;
pub(crate) const AT_BLOCK: usize = 40;
pub(crate) const AT_SLOTS: usize = 48;
pub(crate) const AT_LEDGERS: usize = 56;
pub(crate) const AT_MARK: usize = 64;
pub(crate) const AT_BOOT: usize = 72;
pub(crate) const AT_NAMESPACES: usize = 88;
pub(crate) const AT_SUM: usize = 96;
pub(crate) const AT_CLOCK: usize = 128;
pub(crate) const AT_DIRTY: usize = 192;
pub(crate) const AT_EVENT: usize = 256;
pub(crate) const AT_ASLEEP: usize = 264;
pub(crate) const AT_HIGH: usize = 320;
pub(crate) const AT_LOW: usize = 328;
pub(crate) const AT_TRUNCATIONS: usize = 512;
pub(crate) const HEADER: usize = 4096;

/// The number of truncations that can be under way at once, more than a server has threads: the number of bits of a word.
pub(crate) const TRUNCATIONS: u32 = 64;
/// Bytes of the record of one.
pub(crate) const TRUNCATION_BYTES: usize = 32;

/// Bytes of a ledger before its words.
pub(crate) const HEAD: usize = 64;
/// Bytes of a slot: one cache line.
pub(crate) const SLOT: usize = 64;

const PAGE: usize = 4096;
/// The number of bytes of blocks from which on some loss before the first large page does not matter.
const MANY: u64 = 16 * LARGE_PAGE as u64;
const LARGEST_BLOCK: u32 = 1 << 30;
const MOST_SLOTS: u32 = 1 << 26;
const MOST_LEDGERS: u32 = 1 << 16;

/// The size of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a block: a power of two from 4096 on.
    pub block: u32,
    /// The number of blocks.
    pub slots: u32,
    /// The number of clients that can map it.
    pub ledgers: u32,
}

/// The owner of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolIdentity {
    /// The partition.
    pub partition: PartitionId,
    /// The server within it.
    pub server: ServerId,
}

impl Geometry {
    /// Checks the sizes; returns the length of the segment in bytes.
    pub(crate) fn check(&self) -> Result<usize> {
        if !self.block.is_power_of_two() || !(4096..=LARGEST_BLOCK).contains(&self.block) {
            return Err(Error::Geometry("a block is a power of two from 4 KiB to 1 GiB"));
        }
        if self.slots == 0 || self.slots > MOST_SLOTS {
            return Err(Error::Geometry("there are 1 to 2^26 slots"));
        }
        if self.ledgers == 0 || self.ledgers > MOST_LEDGERS {
            return Err(Error::Geometry("there are 1 to 65536 ledgers"));
        }
        let blocks = u64::from(self.slots) * u64::from(self.block);
        usize::try_from(blocks)
            .ok()
            .and_then(|blocks| self.blocks_at().checked_add(blocks)?.checked_add(PAGE))
            .filter(|&len| isize::try_from(len).is_ok())
            .ok_or(Error::Geometry("more bytes than this machine can address"))
    }

    /// The number of bytes of memory that it takes.
    pub fn bytes(&self) -> Result<usize> {
        self.check()
    }

    pub(crate) fn ledger_at(&self, ledger: u32) -> usize {
        assert!(ledger < self.ledgers, "ledger {ledger} of {}", self.ledgers);
        HEADER + ledger as usize * (HEAD + LEDGER_WORDS as usize * 8)
    }

    fn slots_at(&self) -> usize {
        let ledgers = self.ledgers as usize * (HEAD + LEDGER_WORDS as usize * 8);
        (HEADER + ledgers).next_multiple_of(PAGE)
    }

    pub(crate) fn slot_at(&self, slot: u32) -> usize {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        self.slots_at() + slot as usize * SLOT
    }

    /// Words of the directory: a power of two.
    pub(crate) fn directory(&self) -> usize {
        (self.slots as usize * 2).next_power_of_two()
    }

    pub(crate) fn directory_at(&self, index: usize) -> usize {
        assert!(index < self.directory(), "word {index} of {}", self.directory());
        self.slots_at() + self.slots as usize * SLOT + index * 8
    }

    fn blocks_at(&self) -> usize {
        let directory = self.slots_at() + self.slots as usize * SLOT;
        let blocks = u64::from(self.slots) * u64::from(self.block);
        let unit = if blocks < MANY { FAULT_AROUND } else { LARGE_PAGE };
        (directory + self.directory() * 8).next_multiple_of(unit)
    }

    pub(crate) fn block_at(&self, slot: u32) -> usize {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        self.blocks_at() + slot as usize * self.block as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_do_not_overlap_and_end_at_the_end_of_the_pool() {
        for geometry in [
            Geometry { block: 4096, slots: 1, ledgers: 1 },
            Geometry { block: 65536, slots: 1000, ledgers: 256 },
            Geometry { block: 8192, slots: 63, ledgers: 65 },
            Geometry { block: 8192, slots: 4096, ledgers: 65 },
        ] {
            let len = geometry.check().unwrap();
            let ledger_end = geometry.ledger_at(geometry.ledgers - 1) + HEAD + LEDGER_WORDS as usize * 8;
            assert!(geometry.ledger_at(0) >= HEADER && ledger_end <= geometry.slot_at(0));
            assert!(geometry.slot_at(geometry.slots - 1) + SLOT <= geometry.directory_at(0));
            assert!(geometry.directory_at(geometry.directory() - 1) + 8 <= geometry.block_at(0));
            assert_eq!(geometry.block_at(geometry.slots - 1) + geometry.block as usize + PAGE, len);
            let many = geometry.slots as usize * geometry.block as usize >= 32 << 20;
            assert_eq!(geometry.block_at(0) % if many { LARGE_PAGE } else { FAULT_AROUND }, 0);
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (block, slots, ledgers) in
            [(0, 1, 1), (2048, 1, 1), (5000, 1, 1), (1 << 31, 1, 1), (4096, 0, 1), (4096, 1, 0)]
        {
            assert!(Geometry { block, slots, ledgers }.check().is_err());
        }
    }
}
