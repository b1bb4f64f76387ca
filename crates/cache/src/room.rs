//! Space in the store for writes to the pool.
//!
//! A write is accepted if its slot's state has [`ROOM`] at the moment when the write makes the block dirty. So every
//! accepted write can be stored: either the store has [plenty](Pool::set_plenty) of space, enough for every block of the
//! pool, and all slots have the flag; or the server reserves space for a block before it [grants](crate::Pin::grant_room)
//! it the flag, and a flush, which uses the reservation up, clears the flag in the same step in which it makes the block
//! clean. A write in between finds the flag cleared and asks the server.
//!
//! Clients only read the flag; the server alone sets and clears it.

use crate::pool::Pool;
use crate::state::{DIRTY, FLUSHING, PENDING, ROOM};
use crate::table::{SlotPhase, SlotTable};
use pario_types::FileId;

impl SlotTable {
    /// The flag for one more slot, if space is reserved or there is plenty.
    pub fn room_if(&mut self, reserved: bool) -> u64 {
        let room = reserved || self.plenty;
        self.granted += u32::from(room);
        if room { ROOM } else { 0 }
    }

    /// Gives a slot the flag, if space is reserved or there is plenty; returns whether it has it then.
    pub fn grant(&mut self, slot: u32, reserved: bool) -> bool {
        let room = self.room_if(reserved);
        let before = self.memory.state(slot).set(room);
        // It may have been counted before.
        self.withdrawn(before & room);
        (before | room) & ROOM != 0
    }

    /// A slot was in this state before, and does not have the flag any more.
    pub fn withdrawn(&mut self, before: u64) {
        self.granted = self.granted.saturating_sub(u32::from(before & ROOM != 0));
    }
}

impl Pool {
    /// From now on the store has space for every block of the pool, or does not: then only blocks with reserved space can
    /// be written. In that case it returns the blocks for which writes were accepted, or may still be without a request,
    /// and that have lost the flag: space has to be reserved for them now, and [granted](Pool::grant_room).
    pub fn set_plenty(&self, plenty: bool) -> Vec<(FileId, u64)> {
        let mut table = self.inner.table();
        let had = std::mem::replace(&mut table.plenty, plenty);
        if plenty || !had {
            return Vec::new();
        }
        let mut owed = Vec::new();
        for slot in 0..self.geometry().slots {
            let phase = table.update_phase(slot);
            if !matches!(phase, SlotPhase::Valid | SlotPhase::Lent { .. }) {
                continue;
            }
            let before = table.memory.state(slot).clear(ROOM);
            table.withdrawn(before);
            if before & (DIRTY | FLUSHING | PENDING) != 0 {
                let entry = table.entry(slot);
                owed.push((entry.file, entry.block));
            }
        }
        owed.sort_unstable();
        owed
    }

    /// The store has space for a block's next version. It has no effect if the block is not in the pool any more.
    pub fn grant_room(&self, file: FileId, block: u64) {
        let mut table = self.inner.table();
        if let Some(slot) = table.find(file, block)
            && matches!(table.update_phase(slot), SlotPhase::Valid | SlotPhase::Lent { .. })
        {
            table.grant(slot, true);
        }
    }

    /// An upper bound of the number of blocks with unused space.
    pub fn granted(&self) -> u32 {
        self.inner.table().granted
    }
}
