//! The threads that copy. Each takes pieces of files that are under way, or else begins the next file; so
//! several small files go at the same time, and all threads work at a large one.

use super::super::error::Error;
use super::super::progress::Display;
use super::copy::{Copying, Settings, Task, Turn};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Files that may wait to be begun.
const MOST_WAITING: usize = 1024;

/// Failures of which the words are kept.
const MOST_FAILURES: usize = 1000;

/// What became of the files.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Files that were copied.
    pub copied: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were copies already.
    pub unchanged: u64,
    /// What failed, with its path, as far as kept.
    pub failed: Vec<(String, Error)>,
    /// How much failed.
    pub failures: u64,
    /// Copies of which the beginning is kept.
    pub kept: u64,
    /// Something failed after which nothing else would have worked: the rest was not tried.
    pub stopped: bool,
}

/// The threads and what they share.
pub struct Crew<'a> {
    settings: &'a Settings,
    display: &'a Display,
    shared: Mutex<Shared>,
    /// There may be something to do, or room for more.
    changed: Condvar,
}

#[derive(Default)]
struct Shared {
    waiting: VecDeque<Task>,
    /// No more will come.
    complete: bool,
    /// Large files that others may help with.
    active: Vec<Arc<Copying>>,
    outcome: Outcome,
}

enum Step {
    Begin(Task),
    Help(Arc<Copying>, Turn),
    End,
}

impl<'a> Crew<'a> {
    /// Without threads yet.
    pub fn new(settings: &'a Settings, display: &'a Display) -> Crew<'a> {
        Crew { settings, display, shared: Mutex::default(), changed: Condvar::new() }
    }

    /// A file to copy; waits if many are waiting. Whether it makes sense to bring more.
    pub fn bring(&self, task: Task) -> bool {
        let shared = self.lock();
        let full = |shared: &mut Shared| shared.waiting.len() >= MOST_WAITING && !shared.outcome.stopped;
        let mut shared = self.changed.wait_while(shared, full).unwrap_or_else(PoisonError::into_inner);
        shared.waiting.push_back(task);
        self.changed.notify_all();
        !shared.outcome.stopped
    }

    /// That was all.
    pub fn complete(&self) {
        self.lock().complete = true;
        self.changed.notify_all();
    }

    /// Something failed: tells the user at once.
    pub fn failed(&self, path: String, error: Error) {
        self.display.say(&format!("pario: {error}"));
        let mut shared = self.lock();
        if error.stops_all() && !shared.outcome.stopped {
            shared.outcome.stopped = true;
            self.changed.notify_all();
        }
        shared.outcome.failures += 1;
        if shared.outcome.failed.len() < MOST_FAILURES {
            shared.outcome.failed.push((path, error));
        }
    }

    /// What became of the files, when all threads have ended.
    pub fn outcome(self) -> Outcome {
        self.shared.into_inner().unwrap_or_else(PoisonError::into_inner).outcome
    }

    /// A thread's life.
    pub fn work(&self) {
        let mut buffer = Vec::new();
        loop {
            match self.next() {
                Step::End => return,
                Step::Help(copying, turn) => self.go_on(&copying, turn, &mut buffer),
                Step::Begin(task) => self.begin(task, &mut buffer),
            }
        }
    }

    fn next(&self) -> Step {
        let mut shared = self.lock();
        loop {
            if shared.outcome.stopped {
                return Step::End;
            }
            while let Some(copying) = shared.active.last().cloned() {
                match copying.turn(self.settings) {
                    Turn::Nothing => {
                        shared.active.pop();
                    }
                    turn => return Step::Help(copying, turn),
                }
            }
            if let Some(task) = shared.waiting.pop_front() {
                self.changed.notify_all();
                return Step::Begin(task);
            }
            if shared.complete {
                return Step::End;
            }
            shared = self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn begin(&self, task: Task, buffer: &mut Vec<u8>) {
        let path = task.source.show();
        match Copying::begin(task, self.settings) {
            Ok(Some(copying)) => {
                let copying = Arc::new(copying);
                if copying.is_large(self.settings) {
                    self.lock().active.push(Arc::clone(&copying));
                    self.changed.notify_all();
                }
                let turn = copying.turn(self.settings);
                self.go_on(&copying, turn, buffer);
            }
            Ok(None) => self.lock().outcome.unchanged += 1,
            Err(error) => self.failed(path, error),
        }
    }

    /// Stays with a file as long as there is something to do.
    fn go_on(&self, copying: &Copying, mut turn: Turn, buffer: &mut Vec<u8>) {
        loop {
            match turn {
                Turn::Piece(piece) => copying.copy(piece, self.settings, buffer),
                Turn::Last => return self.finish(copying),
                Turn::Nothing => return,
            }
            turn = copying.turn(self.settings);
        }
    }

    fn finish(&self, copying: &Copying) {
        match copying.finish(self.settings) {
            Ok(()) => {
                let mut shared = self.lock();
                shared.outcome.copied += 1;
                shared.outcome.bytes += copying.size();
            }
            Err(error) => {
                self.lock().outcome.kept += u64::from(copying.is_kept());
                self.failed(copying.source(), error);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
