//! Trace records of the program's calls, for `PARIO_TRACE`.
//!
//! Each failure is in exactly one record: a rank records its own failures, and so does an I/O agent. A rank does not
//! record that another rank or an agent failed, nor that sync or close reports an earlier failure again.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pario_data_shipping::{RequestObserver, ServedRequest};
use pario_mpi_host::host;
use pario_trace::{
    Actor, InView, Moment, PatternId, Record, Recorder, TraceMode, TracedCall, TracedFile, TracedOp,
};
use pario_two_phase::AccessRequest as Task;
use pario_view::{Pattern, ViewHash};

use crate::access::{Coordination, Direction, Positioning, Synchronism};
use crate::env::{env, warn};
use crate::error::{Error, Result};

/// The recorder of this task, if the user asked for a trace.
pub fn recorder() -> Option<&'static Recorder> {
    static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();
    RECORDER.get_or_init(|| start(Actor::Task)).as_ref()
}

/// The recorder of this task's I/O agents, created with the first agent.
static AGENT_RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();

fn start(actor: Actor) -> Option<Recorder> {
    let setup = env().trace.as_ref()?;
    let host = host().ok()?;
    Some(Recorder::start(setup, actor, host.world_rank(), host.world_size()))
}

/// A function that records the requests that this task's agent serves on a file, if the user asked for a trace.
pub(crate) fn agent_report(path: &Path) -> Option<RequestObserver> {
    let recorder = AGENT_RECORDER.get_or_init(|| start(Actor::Agent)).as_ref()?;
    let file = TracedFile::new(path);
    Some(Arc::new(move |served: &ServedRequest<'_>| {
        let failure = served.moved.as_ref().err();
        let offset = failure.and_then(|fault| fault.at).unwrap_or(served.range.start).0;
        let call = TracedCall::from(if served.write { TracedOp::Write } else { TracedOp::Read });
        recorder.record(&Record {
            offset,
            end: served.range.end.0.max(offset),
            len: served.len,
            moved: served.moved.unwrap_or(0),
            errno: failure.and_then(|fault| fault.errno).unwrap_or(0),
            kind: failure.map(|fault| fault.kind),
            class: failure.map_or(0, |fault| host().map_or(0, |host| host.class(fault.kind))),
            on_behalf_of: Some(served.rank),
            ..Record::new(call, Some(&file), recorder.at(served.start), recorder.now())
        });
    }))
}

/// Writes all records to the trace files at the end of the program.
pub fn finish() {
    let agent_recorder = AGENT_RECORDER.get().and_then(Option::as_ref);
    for recorder in recorder().into_iter().chain(agent_recorder) {
        if let Err(e) = recorder.finish() {
            warn(&format!("the trace is incomplete: {e}"));
        }
    }
}

/// Records a call that moves no data.
pub fn record_control(
    op: TracedOp,
    collective: bool,
    file: Option<&TracedFile>,
    start: Instant,
    failure: Option<&Error>,
    class: i32,
) {
    let Some(recorder) = recorder() else { return };
    if failure.is_some_and(is_recorded_elsewhere) {
        return;
    }
    let (call, over) = (TracedCall { collective, ..TracedCall::from(op) }, recorder.now());
    let (errno, kind) = (failure.map_or(0, Error::errno), failure.map(Error::kind));
    recorder.record(&Record { errno, kind, class, ..Record::new(call, file, recorder.at(start), over) });
    if op == TracedOp::Close {
        for recorder in AGENT_RECORDER.get().and_then(Option::as_ref).into_iter().chain([recorder]) {
            // The recorder has reported a failed write itself.
            let _ = recorder.flush();
        }
    }
}

/// A data access that is being traced.
pub(crate) struct TracedAccess {
    recorder: &'static Recorder,
    call: TracedCall,
    start: Moment,
    offset: u64,
    end: u64,
    len: u64,
    view: Option<Box<TracedView>>,
}

/// The part of a view that an access selects.
struct TracedView {
    pattern: Arc<PatternId>,
    disp: u64,
    at: u64,
    len: u64,
}

impl TracedAccess {
    /// Starts a record; `None` if tracing is off.
    #[inline]
    pub fn begin(
        d: Direction,
        positioning: Positioning,
        coordination: Coordination,
        synchronism: Synchronism,
    ) -> Option<TracedAccess> {
        let recorder = recorder()?;
        let start = recorder.now();
        let op = if d == Direction::Write { TracedOp::Write } else { TracedOp::Read };
        let place = match positioning {
            Positioning::At(_) => pario_trace::PointerKind::At,
            Positioning::Individual => pario_trace::PointerKind::Individual,
            Positioning::Shared => pario_trace::PointerKind::Shared,
            Positioning::Ordered => pario_trace::PointerKind::Ordered,
        };
        let pace = match synchronism {
            Synchronism::Blocking => pario_trace::Pace::Blocking,
            Synchronism::Split => pario_trace::Pace::Split,
            Synchronism::Nonblocking => pario_trace::Pace::Nonblocking,
        };
        let call = TracedCall { op, place, collective: coordination == Coordination::Collective, pace };
        Some(TracedAccess { recorder, call, start, offset: 0, end: 0, len: 0, view: None })
    }

    /// Records the position of the access.
    #[inline]
    pub fn set_position(&mut self, task: &Task) {
        self.len = task.buffer.len();
        if task.view.is_contiguous() && self.len == task.len {
            self.offset = task.view.disp().0 + task.at.0;
            self.end = self.offset + self.len;
        } else {
            self.set_view_position(task);
        }
    }

    /// Records the position in a view with holes, and the view itself in mode `all`.
    #[cold]
    fn set_view_position(&mut self, task: &Task) {
        if let Some((lo, hi)) = task.view.bounds(task.at, task.len) {
            (self.offset, self.end) = (lo.0, hi.0);
        }
        let all = env().trace.as_ref().is_some_and(|setup| setup.mode == TraceMode::All);
        if all && self.end - self.offset != self.len {
            let (disp, at, len) = (task.view.disp().0, task.at.0, task.len);
            let viewed = |pattern| Box::new(TracedView { pattern, disp, at, len });
            self.view = pattern_id(task.view.tile()).map(viewed);
        }
    }

    /// Records the outcome.
    #[inline]
    pub fn end(&self, file: &TracedFile, outcome: &Result<u64>) {
        match outcome {
            Ok(moved) if *moved == self.len && self.end - self.offset == self.len => {
                self.recorder.plain(self.call, file, self.offset, self.len, self.start);
            }
            _ => self.record(file, outcome),
        }
    }

    /// Records an access that is not contiguous, short, or failed.
    #[cold]
    fn record(&self, file: &TracedFile, outcome: &Result<u64>) {
        let over = self.recorder.now();
        let failure = outcome.as_ref().err();
        if failure.is_some_and(is_recorded_elsewhere) {
            return;
        }
        let class = failure.map_or(0, |e| host().map_or(0, |host| host.class(e.kind())));
        let offset = failure.and_then(Error::at).unwrap_or(self.offset);
        let view = self.view.as_deref().map(|TracedView { pattern, disp, at, len }| InView {
            pattern,
            disp: *disp,
            at: *at,
            len: *len,
        });
        self.recorder.record(&Record {
            offset,
            end: self.end.max(offset),
            len: self.len,
            moved: *outcome.as_ref().unwrap_or(&0),
            errno: failure.map_or(0, Error::errno),
            kind: failure.map(Error::kind),
            class,
            view,
            ..Record::new(self.call, Some(file), self.start, over)
        });
    }
}

/// The number of patterns that are remembered so that each is written once. Beyond it some are written again.
const MAX_PATTERNS: usize = 256;

/// The id of a view's pattern in the trace.
fn pattern_id(tile: &Pattern) -> Option<Arc<PatternId>> {
    static KNOWN: OnceLock<Mutex<HashMap<ViewHash, Arc<PatternId>>>> = OnceLock::new();
    let mut known = KNOWN.get_or_init(Mutex::default).lock();
    if let Some(found) = known.get(&tile.hash()) {
        return Some(found.clone());
    }
    let new = Arc::new(PatternId::new(tile.to_bytes())?);
    if known.len() == MAX_PATTERNS {
        known.clear();
    }
    known.insert(tile.hash(), new.clone());
    Some(new)
}

/// Whether another record has this failure, and the trace contains only failures.
fn is_recorded_elsewhere(error: &Error) -> bool {
    if env().trace.as_ref().is_none_or(|setup| setup.mode == TraceMode::All) {
        return false;
    }
    let at_agent = matches!(error, Error::Shipping(pario_data_shipping::Error::Agent { .. }));
    at_agent || matches!(error, Error::OtherRank { .. } | Error::Deferred(_))
}
