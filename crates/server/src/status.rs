//! What a server counts, and the last things that went wrong.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pario_types::{ErrorKind, Stamp};
use pario_wire::message::StorageCounters;

use crate::room::is_full;

/// How many failures are kept in words.
const REMEMBERED: usize = 16;

/// The same failure goes to the log no more often than that.
const LOGGED_AGAIN: Duration = Duration::from_secs(60);

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

/// A failure in words.
#[derive(Debug)]
struct Note {
    /// If only one of the kind is kept.
    kind: Option<ErrorKind>,
    text: String,
    /// When it went to the log.
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
    last: Mutex<VecDeque<Note>>,
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
        self.note(None, what);
    }

    /// The same for one of this kind. Of those that say that there is no room only the last is kept.
    pub fn remember_failure(&self, kind: ErrorKind, what: String) {
        self.note(Some(kind).filter(|kind| is_full(*kind)), what);
    }

    fn note(&self, kind: Option<ErrorKind>, text: String) {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let same = |note: &Note| note.kind == kind && (kind.is_some() || note.text == text);
        let known = last.iter().position(same).and_then(|index| last.remove(index));
        let logged = known.map(|note| note.logged).filter(|logged| logged.elapsed() < LOGGED_AGAIN);
        last.push_front(Note { kind, text: text.clone(), logged: logged.unwrap_or_else(Instant::now) });
        last.truncate(REMEMBERED);
        // Nobody waits for a log that is slow.
        drop(last);
        if logged.is_none() {
            log(&text);
        }
    }

    pub fn store_failed(&self, error: &pario_store::Error) {
        if error.kind() == ErrorKind::Damaged {
            self.damaged.add(1);
        }
        self.remember_failure(error.kind(), error.to_string());
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
        let last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        last.iter().map(|note| note.text.clone()).collect()
    }
}
