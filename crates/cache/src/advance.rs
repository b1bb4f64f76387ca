//! Slots get their memory before they are used.
//!
//! A pool's memory is reserved when it is made, but the kernel gives a page its zeros when somebody first touches it, and every process maps every page that it uses. So
//! the server's thread that has nothing else to do touches those that come next: no more than [`AHEAD`] before
//! they are used, so that a pool that is never filled costs little time. Slots that have been used and are free again it
//! makes zeros of, again no more than that.

use crate::geometry::Geometry;
use crate::memory::PoolMemory;
use pario_shm::LARGE_PAGE;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Bytes that are ready before somebody needs them.
const AHEAD: u32 = 64 << 20;

/// Bytes that are made ready at a time.
const STEP: u32 = LARGE_PAGE as u32;

#[derive(Debug)]
pub(crate) struct PageAdvance {
    /// Slots below this one have their memory.
    ready: AtomicU32,
    /// As many slots as are to be ready, and as are made so at a time.
    ahead: u32,
    step: u32,
    slots: u32,
    /// Changes when there may be something to do.
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

    /// A slot was taken that was ready; slots from `unused` on were never used.
    pub fn taken(&self, unused: u32) {
        let ready = self.ready.load(Ordering::Relaxed);
        // Not for every slot: half of what should be ready may be gone.
        if ready < self.slots && unused.saturating_add(self.ahead / 2) > ready {
            self.look();
        }
    }

    /// How many slots are to be ready.
    pub fn ahead(&self) -> usize {
        self.ahead as usize
    }

    pub fn event(&self) -> u32 {
        self.event.load(Ordering::SeqCst)
    }

    /// One step, or a rest if nothing has happened since `seen`.
    pub fn step(&self, memory: &PoolMemory, unused: u32, seen: &mut u32, limit: Duration) {
        let ready = self.ready.load(Ordering::Relaxed).max(unused);
        let goal = unused.saturating_add(self.ahead).min(self.slots);
        if ready < goal {
            // From one multiple of a step to the next, so that it is a large page.
            let end = ((ready / self.step + 1) * self.step).min(self.slots);
            memory.prepare(ready..end);
            self.ready.store(end, Ordering::Relaxed);
        } else {
            self.asleep.store(1, Ordering::SeqCst);
            pario_shm::futex_wait(&self.event, *seen, limit);
            *seen = self.event();
        }
    }

    /// Ends a rest.
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
