//! Ledgers, in which clients record their pins. The server's side.
//!
//! A ledger belongs to a process. When its session ends it is *left*: its pins are valid until the process is gone, because
//! a live process may be in the middle of a copy. Words are taken by compare-and-swap, so several sessions of a process may
//! share a ledger; a left one is given first to a session of the same process.

use crate::geometry::LEDGER_WORDS;
use crate::memory::WRITING;
use crate::state::{VALID, generation_of};
use crate::table::{SlotPhase, SlotTable};
use pario_shm::ProcessIdentity;
use std::sync::Arc;

/// A client's row of pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LedgerId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LedgerState {
    Free,
    /// A session of this process uses it.
    Taken(ProcessIdentity),
    /// No session uses it, but the process may.
    Left(ProcessIdentity),
}

impl SlotTable {
    pub fn take_ledger(&mut self, pid: u32) -> Option<LedgerId> {
        let process = ProcessIdentity::of(pid)?;
        let found = match self.first_ledger(|ledger| *ledger == LedgerState::Left(process)) {
            Some(own) => own,
            None => match self.first_ledger(|ledger| *ledger == LedgerState::Free) {
                Some(free) => free,
                None => {
                    self.reap_left(false);
                    self.first_ledger(|ledger| *ledger == LedgerState::Free)?
                }
            },
        };
        self.ledgers[found as usize] = LedgerState::Taken(process);
        self.memory.ledger_start(found).put(process.start);
        self.memory.ledger_pid(found).put(u64::from(process.pid));
        Some(LedgerId(found))
    }

    fn first_ledger(&self, wanted: impl Fn(&LedgerState) -> bool) -> Option<u32> {
        self.ledgers.iter().position(wanted).map(|index| index as u32)
    }

    /// The process that had this ledger has reconnected.
    pub fn resume_ledger(&mut self, LedgerId(id): LedgerId, pid: u32) -> bool {
        match (self.ledgers.get(id as usize), ProcessIdentity::of(pid)) {
            (Some(LedgerState::Left(process)), Some(now)) if *process == now => {
                self.ledgers[id as usize] = LedgerState::Taken(now);
                true
            }
            _ => false,
        }
    }

    pub fn give_ledger(&mut self, LedgerId(id): LedgerId) {
        let Some(LedgerState::Taken(process)) = self.ledgers.get(id as usize).copied() else { return };
        self.leave(id, process);
    }

    /// No session uses the ledger any more. The process may still publish a block that it was to fill as long as it has it
    /// pinned.
    pub fn leave(&mut self, id: u32, process: ProcessIdentity) {
        self.ledgers[id as usize] = LedgerState::Left(process);
        if process.is_gone() {
            self.reap(id);
        }
        for slot in self.lent_to(id) {
            self.entry_mut(slot).phase = SlotPhase::Lent { ledger: id, since: None };
            self.update_phase(slot);
        }
    }

    fn lent_to(&self, id: u32) -> Vec<u32> {
        (0..self.memory.geometry.slots)
            .filter(|&slot| matches!(self.entry(slot).phase, SlotPhase::Lent { ledger, .. } if ledger == id))
            .collect()
    }

    /// Frees ledgers whose process is gone; `held_only`: those that hold something. A session may outlast its process, by a
    /// child that inherited the connection: it keeps the ledger, but no pins.
    fn reap_left(&mut self, held_only: bool) {
        for id in 0..self.memory.geometry.ledgers {
            let is_free = self.ledgers[id as usize] == LedgerState::Free;
            if is_free || held_only && self.pins_of(id).next().is_none() {
                continue;
            }
            match self.ledgers[id as usize] {
                LedgerState::Left(process) if process.is_gone() => self.reap(id),
                LedgerState::Taken(process) if held_only && process.is_gone() => self.end_pins(id),
                _ => {}
            }
        }
    }

    /// The process is gone.
    fn reap(&mut self, id: u32) {
        self.end_pins(id);
        self.memory.ledger_pid(id).put(0);
        self.ledgers[id as usize] = LedgerState::Free;
    }

    /// A block that a killed process had begun to write may have changed: it is dirty.
    fn end_pins(&mut self, id: u32) {
        let memory = Arc::clone(&self.memory);
        for index in 0..LEDGER_WORDS {
            let word = memory.pin_word(id, index).swap(0);
            let Some(slot) = memory.pinned_slot(word) else { continue };
            let state = memory.state(slot).get();
            let same = generation_of(state) == self.entry(slot).generation;
            let is_forgotten = pario_runtime::is_planted("dead-writer-forgotten");
            if word & WRITING != 0 && same && state & VALID != 0 && !is_forgotten {
                memory.make_dirty(slot);
            }
        }
    }

    fn pins_of(&self, id: u32) -> impl Iterator<Item = u32> {
        (0..LEDGER_WORDS).filter_map(move |index| {
            let word = self.memory.pin_word(id, index).get();
            self.memory.pinned_slot(word)
        })
    }

    /// The slots that clients have pinned, in order.
    pub fn held(&mut self) -> Vec<u32> {
        self.reap_left(true);
        let mut held: Vec<u32> = (0..self.memory.geometry.ledgers)
            .filter(|&id| self.ledgers[id as usize] != LedgerState::Free)
            .flat_map(|id| self.pins_of(id))
            .collect();
        held.sort_unstable();
        held
    }

    /// The number of hits that clients counted.
    pub fn client_hits(&self) -> u64 {
        let hits = |id| self.memory.ledger_hits(id).peek();
        (0..self.memory.geometry.ledgers).map(hits).fold(0, u64::wrapping_add)
    }
}
