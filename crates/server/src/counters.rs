//! The counters of a server, and its last errors.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pario_runtime::sync::Mutex;
use pario_runtime::time::Instant;
use pario_types::{ErrorKind, Stamp};
use pario_wire::message::StorageCounters;

use crate::pool::space::is_full;

/// How many errors are kept as text.
const MAX_ERRORS: usize = 16;

/// The same error is logged at most once in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A counter that only increases.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// An error as text.
#[derive(Debug)]
struct RecordedError {
    /// Set if only one error of this kind is kept.
    kind: Option<ErrorKind>,
    text: String,
    /// When it was logged.
    logged: Instant,
}

#[derive(Debug)]
pub(crate) struct Counters {
    pub started: Stamp,
    pub requests: Count,
    pub forwarded: Count,
    pub refused: Count,
    pub errors: Count,
    pub read_bytes: Count,
    pub written_bytes: Count,
    pub flushed_blocks: Count,
    pub flush_errors: Count,
    pub filled_blocks: Count,
    pub store_read_bytes: Count,
    pub store_written_bytes: Count,
    pub damaged: Count,
    last: Mutex<VecDeque<RecordedError>>,
}

/// Writes a line to the server's log, which is its standard error. Unlike `eprintln!` it does not panic if the log cannot be written.
pub fn log(what: &str) {
    #[cfg(not(pario_simulation))]
    use std::io::Write;
    #[cfg(pario_simulation)]
    return pario_runtime::simulation::scheduler::log(what);
    #[cfg(not(pario_simulation))]
    let _ = writeln!(std::io::stderr(), "pario server: {what}");
}

impl Counters {
    pub fn new() -> Counters {
        Counters {
            started: Stamp::now(),
            requests: Count::default(),
            forwarded: Count::default(),
            refused: Count::default(),
            errors: Count::default(),
            read_bytes: Count::default(),
            written_bytes: Count::default(),
            flushed_blocks: Count::default(),
            flush_errors: Count::default(),
            filled_blocks: Count::default(),
            store_read_bytes: Count::default(),
            store_written_bytes: Count::default(),
            damaged: Count::default(),
            last: Mutex::default(),
        }
    }

    /// Keeps an error as text, and logs it. A repeated error is kept once.
    pub fn record_error(&self, what: String) {
        self.record(None, what);
    }

    /// The same for a failure of this kind. Of failures for lack of space only the last is kept.
    pub fn record_failure(&self, kind: ErrorKind, what: String) {
        self.record(Some(kind).filter(|kind| is_full(*kind)), what);
    }

    fn record(&self, kind: Option<ErrorKind>, text: String) {
        let mut last = self.last.lock();
        let same =
            |recorded: &RecordedError| recorded.kind == kind && (kind.is_some() || recorded.text == text);
        let known = last.iter().position(same).and_then(|index| last.remove(index));
        let logged = known.map(|recorded| recorded.logged).filter(|logged| logged.elapsed() < LOG_INTERVAL);
        last.push_front(RecordedError {
            kind,
            text: text.clone(),
            logged: logged.unwrap_or_else(Instant::now),
        });
        last.truncate(MAX_ERRORS);
        // A slow log does not block other threads.
        drop(last);
        if logged.is_none() {
            log(&text);
        }
    }

    pub fn store_failed(&self, error: &pario_store::Error) {
        if error.kind() == ErrorKind::Damaged {
            self.damaged.add(1);
        }
        self.record_failure(error.kind(), error.to_string());
    }

    /// The transfers between the pool and the store.
    pub fn storage(&self) -> StorageCounters {
        StorageCounters {
            flushed_blocks: self.flushed_blocks.get(),
            flush_errors: self.flush_errors.get(),
            filled_blocks: self.filled_blocks.get(),
            read_bytes: self.store_read_bytes.get(),
            written_bytes: self.store_written_bytes.get(),
            damaged: self.damaged.get(),
        }
    }

    pub fn last_errors(&self) -> Vec<String> {
        let last = self.last.lock();
        last.iter().map(|recorded| recorded.text.clone()).collect()
    }
}
