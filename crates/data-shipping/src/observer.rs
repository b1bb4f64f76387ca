//! The observer of an agent's requests, for tracing.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use pario_types::{Offset, Pos};
use pario_view::View;

use pario_file_backend::BackendError;

/// Called when the file access of a request has ended, before the reply is sent.
pub type RequestObserver = Arc<dyn Fn(&ServedRequest<'_>) + Send + Sync>;

/// A request that an agent has served.
#[derive(Debug)]
pub struct ServedRequest<'a> {
    /// The rank that asked.
    pub rank: u32,
    /// Whether it wrote.
    pub write: bool,
    /// From the first byte of the agent's share to behind the last.
    pub range: Range<Offset>,
    /// Bytes of the agent's share.
    pub len: u64,
    /// Bytes that moved, or why it failed.
    pub moved: Result<u64, &'a BackendError>,
    /// When the access to the file began.
    pub start: Instant,
}

impl<'a> ServedRequest<'a> {
    pub(crate) fn new(
        rank: u32,
        write: bool,
        view: &View,
        parts: &[Range<Pos>],
        moved: &'a Result<u64, BackendError>,
        start: Instant,
    ) -> ServedRequest<'a> {
        let first = parts.first().and_then(|part| view.select(part.start)).unwrap_or_default();
        let last = parts.last().and_then(|part| view.select(Pos(part.end.0 - 1))).unwrap_or(first);
        let len = parts.iter().map(|part| part.end.0 - part.start.0).sum();
        let moved = moved.as_ref().map(|moved| *moved);
        ServedRequest { rank, write, range: first..Offset(last.0 + 1), len, moved, start }
    }
}
