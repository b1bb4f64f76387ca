//! Preparation of slots before they are used.
//!
//! A pool's memory is reserved when it is created, but the kernel allocates and clears a page at its first access, and
//! every process maps every page that it uses. So an idle thread of the server touches the pages that come next: no more
//! than [`AHEAD`] before they are used, so that a pool that is never filled costs little time. It also clears slots that
//! have been used and are free again, with the same limit.

use crate::geometry::Geometry;
use crate::memory::PoolMemory;
use pario_shm::LARGE_PAGE;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The number of bytes that are prepared in advance.
const AHEAD: u32 = 64 << 20;

/// The number of bytes that are prepared at a time.
const STEP: u32 = LARGE_PAGE as u32;

#[derive(Debug)]
pub(crate) struct PageAdvance {
    /// Slots below this one have their memory.
    ready: AtomicU32,
    /// The number of slots to have prepared, and to prepare at a time.
    ahead: u32,
    step: u32,
    slots: u32,
    /// It changes when there may be something to do.
    event: AtomicU32,
    asleep: AtomicU32,
}

impl PageAdvance {
    /// For a pool of which slots from `unused` on were never used.
    pub fn new(unused: u32, geometry: Geometry) -> PageAdvance {
        let count = |bytes: u32| (bytes / geometry.block).max(1);
        PageAdvance {
            ready: unused.into(),
            ahead: count(AHEAD),
            step: count(STEP),
            slots: geometry.slots,
            event: 0.into(),
            asleep: 0.into(),
        }
    }

    /// A prepared slot was taken; slots from `unused` on were never used.
    pub fn taken(&self, unused: u32) {
        let ready = self.ready.load(Ordering::Relaxed);
        // Not for every slot: half of the prepared ones may be used first.
        if ready < self.slots && unused.saturating_add(self.ahead / 2) > ready {
            self.look();
        }
    }

    /// The number of slots to have prepared.
    pub fn ahead(&self) -> usize {
        self.ahead as usize
    }

    pub fn event(&self) -> u32 {
        self.event.load(Ordering::SeqCst)
    }

    /// Does one step, or sleeps if nothing has happened since `seen`.
    pub fn step(&self, memory: &PoolMemory, unused: u32, seen: &mut u32, limit: Duration) {
        let ready = self.ready.load(Ordering::Relaxed).max(unused);
        let goal = unused.saturating_add(self.ahead).min(self.slots);
        if ready < goal {
            // A step goes from one multiple of its size to the next, so that it is a large page.
            let end = ((ready / self.step + 1) * self.step).min(self.slots);
            memory.prepare(ready..end);
            self.ready.store(end, Ordering::Relaxed);
        } else {
            self.asleep.store(1, Ordering::SeqCst);
            pario_shm::futex_wait(&self.event, *seen, limit);
            *seen = self.event();
        }
    }

    /// Ends a sleep.
    pub fn wake(&self) {
        self.event.fetch_add(1, Ordering::SeqCst);
        pario_shm::futex_wake_all(&self.event);
    }

    /// There may be something to do.
    pub fn look(&self) {
        if self.asleep.load(Ordering::Relaxed) != 0 && self.asleep.swap(0, Ordering::SeqCst) != 0 {
            self.wake();
        }
    }
}
