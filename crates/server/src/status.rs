//! What a server counts, and the last things that went wrong.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pario_units::{ErrorKind, Stamp};

/// How many failures are kept in words.
const REMEMBERED: usize = 16;

/// A number that only grows.
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
    last: Mutex<VecDeque<String>>,
}

/// Writes a line to the server's log, which is its standard error. A log that cannot be written is no reason to stop:
/// `eprintln!` would panic.
pub fn log(what: &str) {
    use std::io::Write;
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

    /// Keeps a failure in words. The same one again is counted by its caller, not repeated here.
    pub fn remember(&self, what: String) {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if last.front() != Some(&what) {
            last.push_front(what.clone());
            last.truncate(REMEMBERED);
            // Nobody waits for a log that is slow.
            drop(last);
            log(&what);
        }
    }

    pub fn store_failed(&self, error: &pario_store::Error) {
        if error.kind() == ErrorKind::Damaged {
            self.damaged.add(1);
        }
        self.remember(error.to_string());
    }

    pub fn last_errors(&self) -> Vec<String> {
        let last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        last.iter().cloned().collect()
    }
}
