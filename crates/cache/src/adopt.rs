//! Taking over the pool of a killed server, while its clients may continue to use it.

use crate::geometry::{AT_ASLEEP, AT_DIRTY};
use crate::ledger::LedgerState;
use crate::memory::PoolMemory;
use crate::state::{CLOSED, DIRTY, FLUSHING, PENDING, RETIRED, ROOM, VALID, generation_of};
use crate::table::{SlotPhase, SlotTable};
use crate::truncation::TruncationRecord;
use pario_shm::ProcessIdentity;
use pario_types::FileId;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// The content of an adopted pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Valid blocks.
    pub valid: u32,
    /// Of them, the dirty ones.
    pub dirty: u32,
    /// Slots that were being filled, or are inconsistent.
    pub dropped: u32,
    /// Another program truncated the pool's file: the bytes beyond are lost.
    pub lost: Option<LostBlocks>,
    /// The pool was created in another process namespace: whether a client lives is unknown, so the pool can be stored, but
    /// not used any more.
    pub foreign: bool,
}

/// The missing part of a pool whose file was truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostBlocks {
    /// The remaining bytes of the file.
    pub kept: u64,
    /// The dirty blocks beyond, as far as is known.
    pub dirty: u32,
}

/// Builds the table from the shared memory. Values that could lead outside are not trusted: an inconsistent slot is
/// dropped.
///
/// Of a truncated file the first `kept` bytes are unchanged.
pub(crate) fn read_table(
    memory: Arc<PoolMemory>,
    pins: Arc<[AtomicU32]>,
    kept: usize,
) -> (SlotTable, Adopted) {
    let mut table = SlotTable::new(Arc::clone(&memory), pins);
    table.free.clear();
    table.unused = memory.geometry.slots;
    table.entries.iter_mut().for_each(|entry| entry.blank = false);
    memory.header(AT_ASLEEP).put(0);
    memory.header(AT_DIRTY).put(0);
    let left = read_ledgers(&mut table);
    let truncation = (kept < memory.segment.len()).then_some(LostBlocks { kept: kept as u64, dirty: 0 });
    let mut adopted = Adopted { lost: truncation, ..Adopted::default() };
    read_truncations(&mut table);
    let mut lent_slots = Vec::new();
    let mut last = memory.now();
    for slot in (0..memory.geometry.slots).rev() {
        let seen = memory.state(slot).get();
        let (file, block) =
            memory.read_label(slot).map_or((FileId(0), 0), |(file, block)| (FileId(file), block));
        let entry = table.entry_mut(slot);
        let block = block ^ u64::from(pario_runtime::is_planted("adopt-wrong-block"));
        (entry.generation, entry.file, entry.block) = (generation_of(seen), file, block);
        let whole = memory.geometry.block_at(slot) + memory.geometry.block as usize <= kept;
        let sound = whole && file.0 != 0 && is_sound(&memory, block) && table.find(file, block).is_none();
        if let Some(lost) = &mut adopted.lost {
            lost.dirty += u32::from(!whole && seen & VALID != 0 && seen & (DIRTY | FLUSHING) != 0);
        }
        let borrower = u32::try_from(memory.borrower(slot).peek().wrapping_sub(1)).ok();
        let lent = borrower.filter(|_| seen & PENDING != 0);
        let phase = match lent {
            _ if sound && seen & VALID != 0 => SlotPhase::Valid,
            // Its client may be in the middle of filling it: it is freed when the client is gone or releases it.
            Some(ledger) if sound => SlotPhase::Lent { ledger, since: None },
            _ => SlotPhase::Filling,
        };
        table.entry_mut(slot).phase = phase;
        table.granted += u32::from(seen & ROOM != 0);
        match phase {
            SlotPhase::Valid => {
                table.index.entry(file).or_default().insert(block, slot);
                memory.set_end(slot, memory.end(slot));
                if seen & FLUSHING != 0 && !pario_runtime::is_planted("adopt-forgets-flushing") {
                    memory.state(slot).set(DIRTY);
                }
                // A block that is being truncated stays closed until that is resolved.
                let truncation = table.is_truncated(file, block);
                table.entry_mut(slot).truncating = truncation;
                let closed = if truncation { 0 } else { CLOSED };
                // A client that writes just now may count it, too: the next flush corrects that.
                if memory.state(slot).clear(FLUSHING | closed | RETIRED) & DIRTY != 0 {
                    memory.header(AT_DIRTY).add(1);
                }
            }
            SlotPhase::Lent { .. } => {
                memory.state(slot).clear(CLOSED | RETIRED);
                lent_slots.push(slot);
                table.index.entry(file).or_default().insert(block, slot);
            }
            SlotPhase::Filling | SlotPhase::Free => {
                adopted.dropped += u32::from(seen as u32 != 0);
                memory.state(slot).clear(DIRTY);
                table.free(slot);
            }
        }
        last = last.max(memory.used(slot).peek()).max(memory.modified(slot).peek());
    }
    table.clock = last.min(u64::MAX / 2);
    for (id, process) in left {
        table.leave(id, process);
    }
    for slot in 0..memory.geometry.slots {
        if table.update_phase(slot) == SlotPhase::Valid {
            adopted.valid += 1;
            adopted.dirty += u32::from(memory.state(slot).get() & DIRTY != 0);
        }
    }
    let freed = lent_slots.iter().filter(|&&slot| table.entry(slot).phase == SlotPhase::Free);
    adopted.dropped += freed.count() as u32;
    (table, adopted)
}

/// Whether a local part can have such a block.
fn is_sound(memory: &PoolMemory, block: u64) -> bool {
    let end = block.checked_add(1).and_then(|blocks| blocks.checked_mul(u64::from(memory.geometry.block)));
    end.is_some_and(|end| i64::try_from(end).is_ok())
}

/// The truncations that were in progress in the store.
fn read_truncations(table: &mut SlotTable) {
    for found in TruncationRecord::read_all(&table.memory) {
        let first = found.first(&table.memory);
        if table.truncations.insert(found.file, first).is_none() {
            table.recorded |= 1 << found.index;
            table.interrupted.push(found);
        }
    }
}

/// The processes that had ledgers. They count as alive until the table is complete.
fn read_ledgers(table: &mut SlotTable) -> Vec<(u32, ProcessIdentity)> {
    let mut left = Vec::new();
    for id in 0..table.memory.geometry.ledgers {
        let pid = u32::try_from(table.memory.ledger_pid(id).get()).unwrap_or(0);
        if pid != 0 {
            let process = ProcessIdentity { pid, start: table.memory.ledger_start(id).get() };
            table.ledgers[id as usize] = LedgerState::Taken(process);
            left.push((id, process));
        }
    }
    left
}
