//! Gates: accesses to files that nobody has leased are only counted, so that a lease can wait for their end.
//!
//! A file belongs to one of many gates. While a gate is guarded nobody passes, and who is inside leaves sooner or later.
//! Both who passes and who guards write first and look afterwards, so one of them sees the other.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use pario_types::FileId;

const GATES: usize = 1024;

#[derive(Default)]
struct Gate {
    inside: AtomicU64,
    /// Files of this gate with leases.
    guards: AtomicU64,
}

pub(super) struct Gates(Box<[Gate]>);

impl Gates {
    pub fn new() -> Gates {
        Gates((0..GATES).map(|_| Gate::default()).collect())
    }

    /// Whether an access to this file may go on without asking; it has to [leave](Gates::leave) if so.
    pub fn pass(&self, file: FileId) -> bool {
        let gate = self.gate(file);
        if gate.guards.load(SeqCst) > 0 {
            return false;
        }
        gate.inside.fetch_add(1, SeqCst);
        let passed = gate.guards.load(SeqCst) == 0;
        if !passed {
            gate.inside.fetch_sub(1, SeqCst);
        }
        passed
    }

    pub fn leave(&self, file: FileId) {
        self.gate(file).inside.fetch_sub(1, SeqCst);
    }

    pub fn guard(&self, file: FileId) {
        self.gate(file).guards.fetch_add(1, SeqCst);
    }

    pub fn open(&self, file: FileId) {
        self.gate(file).guards.fetch_sub(1, SeqCst);
    }

    /// Whether nobody is inside; while the gate is guarded it stays so, but for who is about to be turned away.
    pub fn is_empty(&self, file: FileId) -> bool {
        self.gate(file).inside.load(SeqCst) == 0
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
    fn a_guarded_gate_empties() {
        let gates = Gates::new();
        let (file, other) = (FileId(1), FileId(2));
        assert!(gates.pass(file) && gates.pass(file));
        gates.guard(file);
        assert!(!gates.pass(file) && gates.pass(other) && !gates.is_empty(file));
        gates.leave(file);
        assert!(!gates.is_empty(file));
        gates.leave(file);
        assert!(gates.is_empty(file) && !gates.is_empty(other));
        gates.open(file);
        assert!(gates.pass(file));
    }
}
