//! The words of the segment, and the flags of a slot's state.

use std::sync::atomic::{AtomicU64, Ordering};

/// It has its block and may be pinned.
pub(crate) const VALID: u64 = 1;
/// It was written since it was last stored, or a write has begun.
pub(crate) const DIRTY: u64 = 2;
/// It is being stored. A successor treats it as dirty.
pub(crate) const FLUSHING: u64 = 4;
/// The server fills it.
pub(crate) const FILLING: u64 = 8;
/// A client fills it.
pub(crate) const PENDING: u64 = 16;
/// The server reserves it: no client may pin it.
pub(crate) const CLOSED: u64 = 32;
/// A client was to fill it and did not.
pub(crate) const ABANDONED: u64 = 64;
/// The server is giving up the pool: a write that finds this when it sets [`DIRTY`] is not accepted.
pub(crate) const RETIRED: u64 = 128;
/// The store has space for the block's next version: a write that does not find this when it sets [`DIRTY`] is not
/// accepted.
pub(crate) const ROOM: u64 = 256;

/// A state without flags. The generation is the upper half of the word.
pub(crate) fn generation(number: u32) -> u64 {
    u64::from(number) << 32
}

/// The generation of a state.
pub(crate) fn generation_of(state: u64) -> u32 {
    (state >> 32) as u32
}

/// A word that several processes use. Operations that decide between them are sequentially consistent: both the pin and the
/// eviction store in one location and then load from another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedWord<'a>(pub &'a AtomicU64);

impl SharedWord<'_> {
    #[inline]
    #[cfg_attr(pario_simulation, track_caller)]
    pub fn get(self) -> u64 {
        point();
        self.0.load(Ordering::SeqCst)
    }

    #[inline]
    #[cfg_attr(pario_simulation, track_caller)]
    pub fn put(self, value: u64) {
        point();
        self.0.store(value, Ordering::SeqCst);
    }

    /// Like `put`, where no decision depends on the order: releasing a pin.
    #[inline]
    #[cfg_attr(pario_simulation, track_caller)]
    pub fn release(self, value: u64) {
        point();
        self.0.store(value, Ordering::Release);
    }

    #[inline]
    #[cfg_attr(pario_simulation, track_caller)]
    pub fn swap(self, value: u64) -> u64 {
        point();
        self.0.swap(value, Ordering::SeqCst)
    }

    /// Sets flags; returns the state before.
    #[inline]
    #[cfg_attr(pario_simulation, track_caller)]
    pub fn set(self, flags: u64) -> u64 {
        point();
        self.0.fetch_or(flags, Ordering::SeqCst)
    }

    /// Clears flags; returns the state before.
    #[inline]
    #[cfg_attr(pario_simulation, track_caller)]
    pub fn clear(self, flags: u64) -> u64 {
        point();
        self.0.fetch_and(!flags, Ordering::SeqCst)
    }

    #[inline]
    #[cfg_attr(pario_simulation, track_caller)]
    pub fn replace(self, old: u64, new: u64) -> Result<u64, u64> {
        point();
        self.0.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
    }

    #[inline]
    #[cfg_attr(pario_simulation, track_caller)]
    pub fn add(self, amount: u64) -> u64 {
        point();
        self.0.fetch_add(amount, Ordering::SeqCst)
    }

    #[inline]
    #[cfg_attr(pario_simulation, track_caller)]
    pub fn raise(self, least: u64) {
        if self.get() < least {
            point();
            self.0.fetch_max(least, Ordering::SeqCst);
        }
    }

    /// Reads a hint: ticks, counters.
    #[inline]
    pub fn peek(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Writes a hint, if it is different: an unchanged cache line stays valid in all processors.
    #[inline]
    pub fn note(self, value: u64) {
        if self.0.load(Ordering::Relaxed) != value {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    /// Counts one.
    #[inline]
    pub fn count(self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// In this crate's own tests and in simulations another thread may continue here.
#[inline]
#[cfg_attr(pario_simulation, track_caller)]
fn point() {
    pario_runtime::point();
    #[cfg(test)]
    crate::tests::explore::point();
}
