//! Which losses of power a change of a file survives.
//!
//! A sync makes it survive all later ones. A close does not: the data is in the storage's cache. A worker that lives on learns of an earlier
//! loss by its next sync or close, so if that succeeds, the losses before it took nothing.

use super::history::{Call, Nanos, Op};

/// The losses of power that a change survives: those before one time and those after another.
#[derive(Clone, Copy, Debug)]
pub struct PowerSafety {
    /// The worker was told that it was safe until then.
    until: Nanos,
    /// The end of the first sync after it.
    synced: Nanos,
}

impl PowerSafety {
    /// `synced` is the end of the first sync that covers the change, `next` the first call of its worker that reports losses.
    pub fn new(synced: Option<Nanos>, next: Option<&Call>) -> PowerSafety {
        let until = match next.filter(|call| call.succeeded()) {
            Some(Call { op: Op::Sync { .. }, end, .. }) => end.unwrap_or(0),
            Some(call) => call.start,
            None => 0,
        };
        PowerSafety { until, synced: synced.unwrap_or(Nanos::MAX) }
    }

    /// Whether a loss of power at this time cannot have taken it.
    pub fn survives(&self, loss: Nanos) -> bool {
        loss < self.until || self.synced <= loss
    }
}

/// Whether a worker changed a file through a handle that it opened before a loss of power. The loss may have taken the file's name: then the
/// change is of a file that nobody finds again, and the worker's next sync or close fails.
pub fn has_old_handle(call: &Call, file: usize, calls: &[Call], losses: &[Nanos]) -> bool {
    let opened = opened(call, file, calls);
    losses.iter().any(|loss| opened <= *loss && *loss <= call.start)
}

/// When the worker next opened a file after a call, if a loss of power may have taken the name of the file that it had open during the call. A
/// sync or close through the new handle then says nothing about the call: it covers the writes to its own file, which is another one.
pub fn other_file_from(call: &Call, file: usize, calls: &[Call], losses: &[Nanos]) -> Nanos {
    let opened = opened(call, file, calls);
    let after = opens(call, file, calls).filter(|open| *open > call.start);
    let is_other = |open: &Nanos| losses.iter().any(|loss| opened <= *loss && loss <= open);
    after.filter(is_other).min().unwrap_or(Nanos::MAX)
}

/// When the worker opened the handle of a call.
fn opened(call: &Call, file: usize, calls: &[Call]) -> Nanos {
    opens(call, file, calls).filter(|open| *open < call.start).max().unwrap_or(0)
}

fn opens<'a>(call: &Call, file: usize, calls: &'a [Call]) -> impl Iterator<Item = Nanos> + use<'a> {
    let worker = call.worker;
    let is_own = move |other: &&Call| {
        let is_open = matches!(other.op, Op::Open { file: of, .. } if of == file);
        is_open && other.worker == worker
    };
    calls.iter().filter(is_own).map(|open| open.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::history::{CallOutcome, How};

    fn call(op: Op) -> Call {
        Call { worker: 1, slot: 0, op, start: 30, end: Some(40), outcome: Some(CallOutcome::Done) }
    }

    #[test]
    fn a_sync_protects_from_later_losses_and_a_close_only_shows_that_there_were_none() {
        let closed = PowerSafety::new(None, Some(&call(Op::Close { file: 0 })));
        assert!(closed.survives(29) && !closed.survives(35) && !closed.survives(50));
        let synced = PowerSafety::new(Some(40), Some(&call(Op::Sync { file: 0 })));
        assert!(synced.survives(29) && synced.survives(35) && synced.survives(50));
        let by_another = PowerSafety::new(Some(40), None);
        assert!(!by_another.survives(29) && by_another.survives(50));
    }

    #[test]
    fn a_name_that_is_opened_again_after_a_loss_may_be_of_another_file() {
        let open = |start| Call { start, ..call(Op::Open { file: 0, how: How::Write }) };
        let calls = [open(10), call(Op::SetLen { file: 0, size: 5 }), open(50), open(70)];
        assert_eq!(other_file_from(&calls[1], 0, &calls, &[]), Nanos::MAX);
        assert_eq!(other_file_from(&calls[1], 0, &calls, &[5, 90]), Nanos::MAX);
        assert_eq!(other_file_from(&calls[1], 0, &calls, &[20]), 50, "the name was lost before the call");
        assert_eq!(other_file_from(&calls[1], 0, &calls, &[60]), 70, "or after it");
        assert!(has_old_handle(&calls[1], 0, &calls, &[20]) && !has_old_handle(&calls[1], 0, &calls, &[60]));
    }
}
