//! Where blocks were last seen: words by a hash of file and block.
//!
//! Two blocks may share a word, and what it says may be old. A pin tells, since a slot says which block it holds; so a
//! client that finds nothing here, or finds it wrong, has to ask the server. A pool has one such directory, written by the server;
//! clients keep others of their own for files that are leased.

use crate::SlotRef;
use pario_types::FileId;

/// Neighbours stay neighbours; files are spread.
#[inline]
pub fn hash(file: FileId, block: u64) -> u64 {
    file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20).wrapping_add(block)
}

impl SlotRef {
    /// As a word: never 0.
    #[inline]
    pub fn hint(self) -> u64 {
        (u64::from(self.slot) + 1) << 32 | u64::from(self.generation)
    }

    /// What a word says; 0 says nothing.
    #[inline]
    pub fn from_hint(word: u64) -> Option<SlotRef> {
        let slot = ((word >> 32) as u32).checked_sub(1)?;
        Some(SlotRef { slot, generation: word as u32 })
    }
}
