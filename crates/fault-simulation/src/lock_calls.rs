//! Byte-range locks of a history, and whether two clients had one at the same time.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use pario_conformance::torture::history::Nanos;

/// A lock that a client held, from the return of the call that took it to the beginning of the call that released it.
#[derive(Clone, Debug)]
pub struct LockSpan {
    pub worker: u32,
    pub file: usize,
    pub bytes: Range<u64>,
    pub is_exclusive: bool,
    pub time: Range<Nanos>,
}

/// The locks that were held to their end: a client that loses a lock meanwhile is told when it releases it.
pub type LockSpans = Rc<RefCell<Vec<LockSpan>>>;

/// Finds two locks that exclude each other and were held at the same time.
pub fn judge(spans: &[LockSpan]) -> Result<(), String> {
    for (index, one) in spans.iter().enumerate() {
        let conflicts = |other: &&LockSpan| {
            one.file == other.file
                && (one.is_exclusive || other.is_exclusive)
                && one.bytes.start < other.bytes.end
                && other.bytes.start < one.bytes.end
                && one.time.start < other.time.end
                && other.time.start < one.time.end
        };
        if let Some(other) = spans[index + 1..].iter().find(conflicts) {
            let text = |span: &LockSpan| {
                let LockSpan { worker, file, bytes, is_exclusive, time } = span;
                format!("worker {worker}, file {file}, {bytes:?}, exclusive {is_exclusive}, time {time:?}")
            };
            return Err(format!("two locks at the same time:\n  {}\n  {}", text(one), text(other)));
        }
    }
    Ok(())
}
