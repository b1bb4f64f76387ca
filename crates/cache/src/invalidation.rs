//! Invalidation of the slots that clients remember for blocks.

use crate::pool::PoolInner;
use crate::table::SlotPhase;
use pario_types::FileId;
use std::ops::Range;
use std::sync::Arc;

/// Blocks that are being invalidated. Once [`ready`](SlotInvalidation::ready) has returned true, no client uses one of
/// those that were in the pool at the start, and a client has to ask the server for their slots. The caller decides which
/// clients get an answer: it keeps others from [`Pool::get`](crate::Pool::get) meanwhile.
///
/// The blocks stay in their slots, dirty or not; clients that ask find them again. If this value is dropped before it was
/// ready, it has invalidated some of them, which costs their users a request.
#[derive(Debug)]
pub struct SlotInvalidation {
    inner: Arc<PoolInner>,
    file: FileId,
    left: Vec<Left>,
}

#[derive(Debug)]
struct Left {
    slot: u32,
    block: u64,
    /// It has its new generation; a client that pinned it before may still use it.
    renewed: bool,
}

impl SlotInvalidation {
    pub(crate) fn start(inner: &Arc<PoolInner>, file: FileId, blocks: Range<u64>) -> SlotInvalidation {
        let table = inner.table();
        let left = |slot| Left { slot, block: table.entry(slot).block, renewed: false };
        let left = table.slots_in(file, blocks).into_iter().map(left).collect();
        SlotInvalidation { inner: Arc::clone(inner), file, left }
    }

    /// Whether no client remembers or uses them any more. If not, a client is in the middle of a copy, or fills one of
    /// them: ask again in a millisecond.
    pub fn ready(&mut self) -> bool {
        if self.left.is_empty() {
            return true;
        }
        let mut table = self.inner.table();
        let file = self.file;
        self.left.retain_mut(|left| {
            if table.find(file, left.block) != Some(left.slot) {
                return false;
            }
            match table.update_phase(left.slot) {
                SlotPhase::Valid if !left.renewed => {
                    table.invalidate(left.slot);
                    left.renewed = true;
                    true
                }
                // A block that a client or another thread fills is known to it.
                SlotPhase::Valid | SlotPhase::Filling | SlotPhase::Lent { .. } => true,
                SlotPhase::Free => false,
            }
        });
        // All have new generations now, so no client pins one by an old reference after this search of the ledgers.
        let held = table.held();
        self.left.retain(|left| {
            !left.renewed || table.pinned_here(left.slot) || held.binary_search(&left.slot).is_ok()
        });
        self.left.is_empty()
    }
}
