//! A directory of blocks: the slots in which they were last found, as words by a hash of file and block.
//!
//! Two blocks may share a word, and a word may be out of date. A pin detects that, since a slot has the id of its block; so
//! a client that finds no word here, or a wrong one, has to ask the server. A pool has one such directory, written by the
//! server; clients keep others of their own for leased files.

use crate::SlotRef;
use pario_types::FileId;

/// Neighbouring blocks have neighbouring words; files are spread.
#[inline]
pub fn hash(file: FileId, block: u64) -> u64 {
    file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20).wrapping_add(block)
}

impl SlotRef {
    /// Encodes it as a word, which is never 0.
    #[inline]
    pub fn hint(self) -> u64 {
        (u64::from(self.slot) + 1) << 32 | u64::from(self.generation)
    }

    /// Decodes a word; 0 means unknown.
    #[inline]
    pub fn from_hint(word: u64) -> Option<SlotRef> {
        let slot = ((word >> 32) as u32).checked_sub(1)?;
        Some(SlotRef { slot, generation: word as u32 })
    }
}
