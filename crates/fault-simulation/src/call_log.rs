//! Calls and their results in the log and in the statistics.

use pario_conformance::torture::history::{CallOutcome, Op};
use pario_runtime::simulation::{counts, scheduler};

/// A call begins; returns its kind.
pub fn begin(op: &Op) -> String {
    let text = op.to_string();
    scheduler::log(format!("begins {text}"));
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// A call of this kind has returned.
pub fn end(kind: &str, outcome: &CallOutcome) {
    let (result, text) = match outcome {
        CallOutcome::Failed { kind, .. } => (kind.as_str(), format!("{:.120}", outcome.to_string())),
        CallOutcome::Bytes(bytes) => {
            // FNV-1a: tells whether two reads returned the same bytes.
            let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
            ("done", format!("{} bytes, hash {hash:016x}", bytes.len()))
        }
        other => ("done", format!("{:.120}", other.to_string())),
    };
    scheduler::log(format!("returns {text}"));
    counts::count(&format!("call {kind} {result}"));
}
