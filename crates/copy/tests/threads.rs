//! How the threads of a copy share their work.

use std::collections::HashSet;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use pario_copy::{Connections, CopyObserver, CopyOptions, Error, copy, pairs};
use pario_types::Progress;

const PATIENCE: Duration = Duration::from_secs(60);

/// The calls of [`CopyObserver::is_interrupted`].
#[derive(Default)]
struct Calls {
    count: u32,
    threads: HashSet<ThreadId>,
}

/// Lets no thread copy a chunk before two threads have one.
#[derive(Default)]
struct TwoThreads {
    calls: Mutex<Calls>,
    changed: Condvar,
}

impl Progress for TwoThreads {
    fn expect(&self, _: u64) {}
    fn total_known(&self) {}
    fn advance(&self, _: u64) {}
}

impl CopyObserver for TwoThreads {
    fn failed(&self, error: &Error) {
        panic!("{error}");
    }

    fn is_interrupted(&self) -> bool {
        let mut calls = self.calls.lock().expect("no thread panics");
        calls.count += 1;
        calls.threads.insert(std::thread::current().id());
        self.changed.notify_all();
        // The first call is that of the thread that opens the file. The others are about chunks.
        if calls.count > 1 {
            let is_alone = |calls: &mut Calls| calls.threads.len() < 2;
            let waited = self.changed.wait_timeout_while(calls, PATIENCE, is_alone);
            assert!(!waited.expect("no thread panics").1.timed_out(), "one thread copies alone");
        }
        false
    }
}

#[test]
fn all_threads_copy_a_single_large_file() {
    let directory = std::env::temp_dir().join(format!("pario-copy-threads-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let [source, target] = ["source", "target"].map(|name| directory.join(name));
    let content: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    std::fs::write(&source, &content).expect("written");
    let mut connections = Connections::for_data(None, None);
    let paths = [OsString::from(&source), OsString::from(&target)];
    let pairs = pairs(&paths, false, &mut connections).expect("two files of this host");
    let options = CopyOptions { chunk: 64 << 10, threads: NonZeroUsize::new(2), ..CopyOptions::default() };
    let outcome = copy(pairs, options, &TwoThreads::default());
    assert_eq!((outcome.failures, outcome.files), (0, 1));
    assert_eq!(std::fs::read(&target).expect("copied"), content);
    std::fs::remove_dir_all(&directory).expect("removed");
}
