//! Forked children of a program.
//!
//! A child has copies of its parent's connections and must not use them: two processes would send on one connection. It
//! must not keep them open either, or servers would not notice the end of the parent. So in a child every descriptor of a
//! connection is replaced by one of `/dev/null`. The number stays in use, so that the child's copies of our objects do not
//! close a descriptor of the program. [`is_forked`] distinguishes a child from its parent.

use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::sys;

/// Descriptors beyond this are not changed in a child.
const MOST: usize = 1 << 16;

static FORKED: AtomicBool = AtomicBool::new(false);

/// A bit for each descriptor that is a connection: to be read in a child, where no lock can be trusted.
static CONNECTIONS: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

/// Whether this process was forked by one that had called [`watch_forks`], and has not executed another program.
#[inline]
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// From now on [`is_forked`] recognises children.
pub fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| sys::at_fork(in_child));
}

/// Runs in a child before anything else. It must not allocate or wait.
fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
    for (index, word) in CONNECTIONS.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != 0 {
            sys::make_null((index * 64) as RawFd + bits.trailing_zeros() as RawFd);
            bits &= bits - 1;
        }
    }
}

/// A descriptor that children do not keep, as long as this value exists; it is dropped before the descriptor.
#[derive(Debug)]
pub(crate) struct ForkGuard(usize);

impl ForkGuard {
    pub fn new(descriptor: RawFd) -> ForkGuard {
        watch_forks();
        let fork_guard = ForkGuard(usize::try_from(descriptor).unwrap_or(MOST));
        fork_guard.change(|word, bit| word.fetch_or(bit, Ordering::Relaxed));
        fork_guard
    }

    fn change(&self, how: impl Fn(&AtomicU64, u64) -> u64) {
        if let Some(word) = CONNECTIONS.get(self.0 / 64) {
            how(word, 1 << (self.0 % 64));
        }
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        self.change(|word, bit| word.fetch_and(!bit, Ordering::Relaxed));
    }
}
