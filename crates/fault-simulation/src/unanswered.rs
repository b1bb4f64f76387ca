//! Writes that failed because their server did not answer in time.
//!
//! The request is still on its way, or a thread of the server that stands still has it, so the bytes may be written after the call has
//! returned its error. MPI leaves the order of such a write and of a later write of another process to the same bytes undefined until the
//! first process has synced or closed the file (nonatomic mode, MPI 4.1, section 14.6.1). The write therefore counts as concurrent with all that
//! happens until then, or until requests of a dead client have no effect any more.

use pario_conformance::torture::history::{Call, Op};

/// The calls, with writes that were not answered made longer.
pub fn extend_unanswered(calls: &[Call], longest: u64) -> Vec<Call> {
    let extend = |call: &Call| {
        let is_unanswered = call.failure().is_some_and(|(kind, _)| kind == "Unreachable");
        let (Op::Write { file, .. }, Some(end), true) = (&call.op, call.end, is_unanswered) else {
            return call.clone();
        };
        let saves = |other: &&Call| {
            let is_save = matches!(other.op, Op::Sync { file: of } | Op::Close { file: of } if of == *file);
            is_save && other.worker == call.worker && other.start >= end && other.succeeded()
        };
        let saved = calls.iter().filter(saves).filter_map(|other| other.end).min();
        let end = saved.unwrap_or(u64::MAX).min(end.saturating_add(longest));
        Call { end: Some(end), ..call.clone() }
    };
    calls.iter().map(extend).collect()
}
