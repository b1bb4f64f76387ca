//! Gates: accesses to files without leases are only counted, so that a lease can wait for their end.
//!
//! A file belongs to one of many gates. While a gate is closed no access enters, and those inside leave sooner or later. An access that
//! enters and a lease that closes the gate both write first and read afterwards, so at least one of them sees the other.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use pario_types::FileId;

const GATES: usize = 1024;

#[derive(Default)]
struct Gate {
    /// Accesses under way.
    inside: AtomicU64,
    /// Files of this gate with leases; the gate is open while it is 0.
    closed: AtomicU64,
}

pub(super) struct Gates(Box<[Gate]>);

impl Gates {
    pub fn new() -> Gates {
        Gates((0..GATES).map(|_| Gate::default()).collect())
    }

    /// Enters the gate of a file; whether it is open. The access has to [leave](Gates::leave) if so.
    pub fn enter(&self, file: FileId) -> bool {
        let gate = self.gate(file);
        if gate.closed.load(SeqCst) > 0 {
            return false;
        }
        gate.inside.fetch_add(1, SeqCst);
        let entered = gate.closed.load(SeqCst) == 0;
        if !entered {
            gate.inside.fetch_sub(1, SeqCst);
        }
        entered
    }

    pub fn leave(&self, file: FileId) {
        self.gate(file).inside.fetch_sub(1, SeqCst);
    }

    pub fn close(&self, file: FileId) {
        self.gate(file).closed.fetch_add(1, SeqCst);
    }

    pub fn open(&self, file: FileId) {
        self.gate(file).closed.fetch_sub(1, SeqCst);
    }

    /// Whether no access is under way. While the gate is closed this stays so, but for accesses that are about to be refused.
    pub fn is_empty(&self, file: FileId) -> bool {
        self.gate(file).inside.load(SeqCst) == 0
    }

    /// Whether the gate of a file is closed.
    #[cfg(pario_simulation)]
    pub fn is_closed(&self, file: FileId) -> bool {
        self.gate(file).closed.load(SeqCst) > 0
    }

    /// The number of files that have closed a gate.
    #[cfg(pario_simulation)]
    pub fn closed(&self) -> u64 {
        self.0.iter().map(|gate| gate.closed.load(SeqCst)).sum()
    }

    fn gate(&self, file: FileId) -> &Gate {
        let mixed = file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(mixed >> 54) as usize]
    }
}

const _: () = assert!(GATES == 1 << (64 - 54));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_empties() {
        let gates = Gates::new();
        let (file, other) = (FileId(1), FileId(2));
        assert!(gates.enter(file) && gates.enter(file));
        gates.close(file);
        assert!(!gates.enter(file) && gates.enter(other) && !gates.is_empty(file));
        gates.leave(file);
        assert!(!gates.is_empty(file));
        gates.leave(file);
        assert!(gates.is_empty(file) && !gates.is_empty(other));
        gates.open(file);
        assert!(gates.enter(file));
    }
}
