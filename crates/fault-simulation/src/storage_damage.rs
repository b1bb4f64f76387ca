//! Which calls may fail because stored bytes are damaged.

use pario_conformance::torture::history::{Call, How, Op};

use crate::events::Events;
use crate::plan::{FaultKind, Plan};

/// Whether a call of a reader may report damage. A sync may fail after another one has failed. After a sync that succeeded everything before it
/// is stored, so a later read fails only if the disk has lied. Such a sync does not concern what a host has lost with its memory before
/// (SEMANTICS, table: a returned write may be lost with its host, and damage is an error).
pub fn is_allowed(plan: &Plan, call: &Call, calls: &[Call], seen: &[Call], events: &Events) -> bool {
    match call.op {
        Op::Sync { .. } => true,
        Op::Read { file, .. } | Op::Len { file } => {
            let is_synced = |sync: &Call| {
                let is_earlier = sync.end.is_some_and(|end| end < call.start);
                let is_covered =
                    |change: &Call| is_over(change, sync) && !events.has_loss(change.start, sync);
                is_earlier && calls.iter().all(|change| !changes(change, file) || is_covered(change))
            };
            let mut syncs = calls.iter().chain(seen).filter(|call| is_sync(call, file) && call.succeeded());
            plan.has_kind(FaultKind::DiskLies) || !syncs.any(is_synced)
        }
        _ => false,
    }
}

fn is_sync(call: &Call, file: usize) -> bool {
    matches!(call.op, Op::Sync { file: of } if of == file)
}

fn changes(call: &Call, file: usize) -> bool {
    match call.op {
        Op::Write { file: of, .. } | Op::SetLen { file: of, .. } => of == file,
        Op::Open { file: of, how } => of == file && how == How::Truncate,
        _ => false,
    }
}

/// Whether a change cannot take effect after a sync has begun. A call that never returned is over when a reader comes.
fn is_over(change: &Call, sync: &Call) -> bool {
    change.end.map_or(sync.worker != change.worker && sync.start > change.start, |end| end < sync.start)
}
