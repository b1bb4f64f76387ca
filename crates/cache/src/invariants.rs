//! The invariants of a pool, which hold whenever no thread holds the lock of its table.
//!
//! Tests and simulations check it. The words that clients change without that lock are read once each, so a client may go on meanwhile. A
//! client that overwrites the shared memory with garbage violates most of this, and the server survives that.

use crate::geometry::{LEDGER_WORDS, TRUNCATIONS};
use crate::ledger::LedgerState;
use crate::memory::WRITING;
use crate::pool::Pool;
use crate::state::{
    ABANDONED, CLOSED, DIRTY, FILLING, FLUSHING, PENDING, RETIRED, ROOM, VALID, generation_of,
};
use crate::table::{SlotEntry, SlotPhase, SlotTable};

impl Pool {
    /// Checks the invariants of the pool: for tests.
    pub fn check_invariants(&self) -> Result<(), String> {
        let table = self.inner.table();
        table.check_slots()?;
        table.check_tails()
    }
}

#[cfg(pario_simulation)]
pub(crate) fn watch(inner: &std::sync::Arc<crate::pool::PoolInner>) {
    use pario_runtime::simulation::invariants::{Depth, watch};
    watch("pool", inner, |inner, depth| {
        let check = |table: &SlotTable| {
            table.check_slots()?;
            match depth {
                Depth::Quick => Ok(()),
                Depth::Complete => table.check_tails(),
                Depth::Idle => table.check_idle(),
            }
        };
        inner.inspect(check).unwrap_or(Ok(()))
    });
}

/// A block that was evicted is stored.
#[cfg(pario_simulation)]
pub(crate) fn check_evicted(slot: u32, before: u64) {
    if before & (DIRTY | FLUSHING) != 0 {
        let why = format!("slot {slot} was evicted in the state {before:#x}, before it was stored");
        pario_runtime::simulation::invariants::report("pool", &why);
    }
}

impl SlotTable {
    /// Table, index, list of free slots, shared states, pins and truncations agree.
    pub(crate) fn check_slots(&self) -> Result<(), String> {
        let (mut used, mut rooms) = (0, 0);
        for (slot, entry) in (0..).zip(&self.entries) {
            let state = self.memory.state(slot).peek();
            let wrong = |why: &str| Err(format!("slot {slot} {why}: state {state:#x}, {entry:?}"));
            used += usize::from(entry.phase != SlotPhase::Free);
            rooms += u32::from(state & ROOM != 0);
            if let Err(why) = self.check_state(slot, entry, state) {
                return wrong(why);
            }
            if entry.phase != SlotPhase::Free && self.find(entry.file, entry.block) != Some(slot) {
                return wrong("has a block that the index does not find there");
            }
            if entry.phase != SlotPhase::Valid && self.pinned_here(slot) {
                return wrong("is pinned by the server without a block");
            }
            if entry.truncating && !self.is_truncated(entry.file, entry.block) {
                return wrong("is closed for a truncation that is not under way");
            }
        }
        let indexed: usize = self.index.values().map(|blocks| blocks.len()).sum();
        if indexed != used {
            return Err(format!("{used} slots have blocks, but the index has {indexed}"));
        }
        if rooms > self.granted {
            return Err(format!("{rooms} slots have space in the store, but {} are counted", self.granted));
        }
        self.check_free()?;
        self.check_pins()?;
        self.check_truncations()
    }

    /// The flags of a slot are those of its phase.
    fn check_state(&self, slot: u32, entry: &SlotEntry, state: u64) -> Result<(), &'static str> {
        if generation_of(state) != entry.generation {
            return Err("has another generation in shared memory");
        }
        if (state & RETIRED != 0) != self.retired {
            return Err("does not say whether the pool is given up");
        }
        let one_of = |flags: u64| (state & flags).count_ones() == 1;
        let flags = state & u64::from(u32::MAX) & !RETIRED;
        let is_right = match entry.phase {
            SlotPhase::Free => flags == 0,
            SlotPhase::Filling => flags == FILLING,
            SlotPhase::Lent { .. } => {
                one_of(PENDING | VALID | ABANDONED) && flags & (FILLING | FLUSHING) == 0
            }
            SlotPhase::Valid => flags & (VALID | FILLING | PENDING | ABANDONED) == VALID,
        };
        if !is_right {
            return Err("has flags of another phase");
        }
        if flags & (DIRTY | FLUSHING) != 0 && flags & VALID == 0 {
            return Err("is dirty without a block");
        }
        if (flags & FLUSHING != 0) != entry.flushing {
            return Err("does not say whether it is being stored");
        }
        if entry.truncating && flags & CLOSED == 0 {
            return Err("is being truncated, but open");
        }
        if flags & VALID != 0 && self.memory.end_peeked(slot) > u64::from(self.memory.geometry.block) {
            return Err("has an end beyond its block");
        }
        Ok(())
    }

    /// Free slots are listed once, and counted.
    fn check_free(&self) -> Result<(), String> {
        let mut listed = vec![false; self.entries.len()];
        let mut soiled = 0;
        for &slot in &self.free {
            let entry = self.entry(slot);
            if std::mem::replace(&mut listed[slot as usize], true) {
                return Err(format!("slot {slot} is listed as free twice"));
            }
            if entry.phase != SlotPhase::Free {
                return Err(format!("slot {slot} is listed as free: {entry:?}"));
            }
            soiled += u32::from(!entry.blank);
        }
        if soiled != self.soiled {
            return Err(format!("{soiled} free slots are not blank, but {} are counted", self.soiled));
        }
        // The thread that prepares slots has one in hand at most.
        let is_free = |(_, entry): &(u32, &SlotEntry)| entry.phase == SlotPhase::Free;
        let lost = (0..).zip(&self.entries).filter(is_free).filter(|(slot, _)| !listed[*slot as usize]);
        match lost.count() {
            0 | 1 => Ok(()),
            lost => Err(format!("{lost} free slots are not listed")),
        }
    }

    /// A block that a client is writing stays in its slot.
    fn check_pins(&self) -> Result<(), String> {
        for (id, ledger) in (0..).zip(&self.ledgers).filter(|(_, ledger)| **ledger != LedgerState::Free) {
            for index in 0..LEDGER_WORDS {
                let word = self.memory.pin_word(id, index).peek();
                let Some(slot) = self.memory.pinned_slot(word).filter(|_| word & WRITING != 0) else {
                    continue;
                };
                // A lent slot becomes a valid one when the server looks at it.
                let entry = self.entry(slot);
                if matches!(entry.phase, SlotPhase::Free | SlotPhase::Filling) {
                    return Err(format!("{ledger:?} writes to slot {slot}, which is {entry:?}"));
                }
            }
        }
        Ok(())
    }

    /// Without clients no block is pinned, and no session has a ledger.
    #[cfg(pario_simulation)]
    fn check_idle(&self) -> Result<(), String> {
        let is_taken = |ledger: &&LedgerState| matches!(ledger, LedgerState::Taken(_));
        if let Some(ledger) = self.ledgers.iter().find(is_taken) {
            return Err(format!("without clients there is {ledger:?}"));
        }
        match (0..self.memory.geometry.slots).find(|slot| self.pinned_here(*slot)) {
            None => Ok(()),
            Some(slot) => Err(format!("without clients slot {slot} is pinned: {:?}", self.entry(slot))),
        }
    }

    /// The records of truncations that a successor would find are those that are under way.
    fn check_truncations(&self) -> Result<(), String> {
        for index in 0..TRUNCATIONS {
            let is_recorded = self.memory.truncation_word(index, 3).peek() != 0;
            if is_recorded != (self.recorded & 1 << index != 0) {
                return Err(format!("the record of truncation {index} is not what the table says"));
            }
        }
        if self.recorded.count_ones() as usize > self.truncations.len() {
            return Err(format!(
                "truncations {:#b} are recorded, but {:?} are under way",
                self.recorded, self.truncations
            ));
        }
        let is_known = |file| self.truncations.contains_key(&file);
        match self.interrupted.iter().find(|found| !is_known(found.file)) {
            None => Ok(()),
            Some(found) => Err(format!("the interrupted truncation of {:?} is not under way", found.file)),
        }
    }

    /// Bytes of a block beyond its end are zeros, unless a thread of the server is about to raise the end.
    pub(crate) fn check_tails(&self) -> Result<(), String> {
        for (slot, entry) in (0..).zip(&self.entries) {
            let is_still = entry.phase == SlotPhase::Valid && !self.pinned_here(slot);
            if is_still && let Some(at) = self.memory.nonzero_beyond_end(slot) {
                return Err(format!("slot {slot} has a byte at {at}, beyond its end: {entry:?}"));
            }
        }
        Ok(())
    }
}
