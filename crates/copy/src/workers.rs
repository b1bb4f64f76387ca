//! The worker threads. Each takes chunks of files in progress, or else begins the next file: several small files are
//! copied at the same time, and all threads copy a large one.

use crate::error::Error;
use crate::file_copy::{CopyContext, CopyTask, FileCopy, NextStep};
use pario_runtime::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most files in the queue.
const MOST_QUEUED: usize = 1024;

/// The most failures that are listed.
const MOST_LISTED: usize = 1000;

/// The result of a copy.
#[derive(Debug, Default)]
pub struct CopyOutcome {
    /// Files that were copied.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// Directories that were copied.
    pub directories: u64,
    /// Bytes read from sources.
    pub moved_bytes: u64,
    /// Files that an earlier copy had completed.
    pub unchanged: u64,
    /// Failures with their paths; the first ones if there are many.
    pub failed: Vec<(String, Error)>,
    /// The number of failures.
    pub failures: u64,
    /// Failed copies that can be resumed.
    pub resumable: u64,
    /// A failure stopped the copy; the rest was not tried.
    pub stopped: bool,
}

/// State that the worker threads share.
pub struct Workers<'a> {
    context: &'a CopyContext<'a>,
    shared: Mutex<Shared>,
    /// Signalled when there may be something to do, or room in the queue.
    changed: Condvar,
}

#[derive(Default)]
struct Shared {
    queue: VecDeque<CopyTask>,
    /// The queue is complete.
    no_more_files: bool,
    /// Files that threads are opening. Each may turn out to have several chunks, so idle threads wait for it.
    opening: usize,
    /// Files in progress that have several chunks.
    active: Vec<Arc<FileCopy>>,
    outcome: CopyOutcome,
}

enum Work {
    Begin(CopyTask),
    Help(Arc<FileCopy>, NextStep),
    End,
}

impl<'a> Workers<'a> {
    /// Without threads.
    pub fn new(context: &'a CopyContext<'a>) -> Workers<'a> {
        Workers { context, shared: Mutex::default(), changed: Condvar::new() }
    }

    /// Queues a file; waits while the queue is full. Returns whether to continue.
    pub fn enqueue(&self, task: CopyTask) -> bool {
        let mut shared = self.lock();
        let is_full = |shared: &mut Shared| shared.queue.len() >= MOST_QUEUED && !shared.outcome.stopped;
        self.changed.wait_while(&mut shared, is_full);
        shared.queue.push_back(task);
        self.changed.notify_all();
        !shared.outcome.stopped
    }

    /// Ends the queue.
    pub fn no_more_files(&self) {
        self.lock().no_more_files = true;
        self.changed.notify_all();
    }

    /// Notes a failure, and reports it at once.
    pub fn failed(&self, path: String, error: Error) {
        self.context.observer.failed(&error);
        let mut shared = self.lock();
        if error.stops_all() && !shared.outcome.stopped {
            shared.outcome.stopped = true;
            self.changed.notify_all();
        }
        shared.outcome.failures += 1;
        if shared.outcome.failed.len() < MOST_LISTED {
            shared.outcome.failed.push((path, error));
        }
    }

    /// The result, when all threads have ended.
    pub fn into_outcome(self) -> CopyOutcome {
        self.shared.into_inner().outcome
    }

    /// Runs a worker thread.
    pub fn run(&self) {
        let mut buffer = Vec::new();
        loop {
            match self.next() {
                Work::End => return,
                Work::Help(file, step) => self.help(&file, step, &mut buffer),
                Work::Begin(task) => self.begin(task, &mut buffer),
            }
        }
    }

    fn next(&self) -> Work {
        let mut shared = self.lock();
        loop {
            if shared.outcome.stopped {
                return Work::End;
            }
            while let Some(file) = shared.active.last().cloned() {
                match file.next_step(self.context) {
                    NextStep::Nothing => {
                        shared.active.pop();
                    }
                    step => return Work::Help(file, step),
                }
            }
            if let Some(task) = shared.queue.pop_front() {
                shared.opening += 1;
                self.changed.notify_all();
                return Work::Begin(task);
            }
            if shared.no_more_files && shared.opening == 0 {
                return Work::End;
            }
            self.changed.wait(&mut shared);
        }
    }

    fn begin(&self, task: CopyTask, buffer: &mut Vec<u8>) {
        let path = task.source.show();
        let opened = FileCopy::begin(task, self.context).map(|file| file.map(Arc::new));
        let mut shared = self.lock();
        shared.opening -= 1;
        if let Ok(Some(file)) = &opened
            && file.is_large(self.context)
        {
            shared.active.push(Arc::clone(file));
        }
        drop(shared);
        self.changed.notify_all();
        match opened {
            Ok(Some(file)) => {
                let step = file.next_step(self.context);
                self.help(&file, step, buffer);
            }
            Ok(None) => self.lock().outcome.unchanged += 1,
            Err(error) => self.failed(path, error),
        }
    }

    /// Copies chunks of a file as long as there are any.
    fn help(&self, file: &FileCopy, mut step: NextStep, buffer: &mut Vec<u8>) {
        loop {
            match step {
                NextStep::Chunk(chunk) => file.copy_chunk(chunk, self.context, buffer),
                NextStep::Finish => return self.finish(file),
                NextStep::Nothing => return,
            }
            step = file.next_step(self.context);
        }
    }

    fn finish(&self, file: &FileCopy) {
        match file.finish(self.context) {
            Ok(()) => {
                let mut shared = self.lock();
                shared.outcome.files += 1;
                shared.outcome.bytes += file.size();
            }
            Err(error) => {
                self.lock().outcome.resumable += u64::from(file.is_resumable());
                self.failed(file.source(), error);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }
}
