//! Cutting a file's local part.

use crate::error::{Error, Result};
use crate::pool::Inner;
use crate::state::CLOSED;
use crate::table::Phase;
use pario_types::FileId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A cut under way. From its start to its end ([`drop`]) nobody gets at the blocks concerned: they are busy
/// to the server's threads, stale to clients, and not flushed. So the store can be cut in between, and
/// neither an old fill nor an old flush brings back what is gone:
///
/// 1. [`ready`](Cut::ready) until it says yes: pins, fills and flushes that were there before have ended,
///    what lay beyond is out of the pool, and the last block's tail is zeros;
/// 2. cut the store;
/// 3. drop this.
///
/// Dropped before it was ready, it has changed nothing. A cut beyond the local part changes nothing either.
#[derive(Debug)]
pub struct Cut {
    inner: Arc<Inner>,
    file: FileId,
    end: u64,
    done: bool,
}

impl Cut {
    pub(crate) fn start(inner: &Arc<Inner>, file: FileId, end: u64) -> Option<Cut> {
        let mut table = inner.table();
        if table.cuts.contains_key(&file) {
            return None;
        }
        let cut = Cut { inner: Arc::clone(inner), file, end, done: false };
        table.cuts.insert(file, cut.first());
        Some(cut)
    }

    /// The first block concerned.
    fn first(&self) -> u64 {
        self.end / u64::from(self.inner.memory.geometry.block)
    }

    /// Whether the pool is cut. If not, somebody still has one of the blocks: ask again in a millisecond.
    pub fn ready(&mut self) -> bool {
        if self.done {
            return true;
        }
        let inner = Arc::clone(&self.inner);
        let mut table = inner.table();
        let slots = table.slots_of(self.file, self.first());
        let mut ready = true;
        let mut closed = Vec::new();
        for slot in slots {
            match table.settle(slot) {
                Phase::Valid => {
                    inner.memory.state(slot).set(CLOSED);
                    table.entry_mut(slot).cut = true;
                    ready &= !table.entry(slot).flushing && !table.pinned_here(slot);
                    closed.push(slot);
                }
                Phase::Filling | Phase::Lent { .. } => ready = false,
                Phase::Free => {}
            }
        }
        // Only now that all are closed: nobody pins one of them after this look at the ledgers.
        let held = table.held();
        ready &= !closed.iter().any(|slot| held.binary_search(slot).is_ok());
        if !ready {
            return false;
        }
        let size = u64::from(inner.memory.geometry.block);
        for slot in closed {
            let start = table.entry(slot).block.saturating_mul(size);
            if start >= self.end {
                table.free(slot);
            } else {
                let within = (self.end - start) as u32;
                inner.memory.zero_tail(slot, within);
                inner.memory.set_end(slot, inner.memory.end(slot).min(within));
            }
        }
        self.done = true;
        inner.advance.look();
        true
    }

    /// Waits until the pool is cut: for threads that hold no pins and serve nobody else.
    pub fn wait(&mut self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while !self.ready() {
            if start.elapsed() >= limit {
                return Err(Error::Held);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        let mut table = self.inner.table();
        table.cuts.remove(&self.file);
        for slot in table.slots_of(self.file, self.first()) {
            if table.entry(slot).cut {
                table.entry_mut(slot).cut = false;
                self.inner.memory.state(slot).clear(CLOSED);
            }
        }
    }
}
