//! A counting gate over the machine's cores.
//!
//! Ranks of a host MPI spin while they wait. Two such programs at once on a full machine slow each other
//! down by orders of magnitude, so a run takes as many places as it has ranks (at most all of them).

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

struct Gate {
    free: Mutex<usize>,
    freed: Condvar,
    places: usize,
}

fn gate() -> &'static Gate {
    static GATE: OnceLock<Gate> = OnceLock::new();
    GATE.get_or_init(|| {
        let places = std::thread::available_parallelism().map_or(1, usize::from);
        Gate { free: Mutex::new(places), freed: Condvar::new(), places }
    })
}

impl Gate {
    fn free(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The places a run holds while it runs.
pub(crate) struct Places(usize);

/// Waits until `ranks` places (or all that exist) are free.
pub(crate) fn enter(ranks: u32) -> Places {
    let gate = gate();
    let wanted = usize::try_from(ranks).unwrap_or(usize::MAX).clamp(1, gate.places);
    let mut free = gate.free();
    while *free < wanted {
        free = gate.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
    }
    *free -= wanted;
    Places(wanted)
}

impl Drop for Places {
    fn drop(&mut self) {
        let gate = gate();
        *gate.free() += self.0;
        gate.freed.notify_all();
    }
}
