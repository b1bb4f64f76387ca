//! Kills, stops and starves real processes of a partition many times: `cargo xtask torture`.
//!
//! A [session](session) has a partition of a random shape. In each of its rounds some *workers*, which are processes
//! of their own, use the crate `pario` and keep a [journal](history) of each call, before and after it, outside of the
//! partition. Meanwhile [faults](fault) happen to them, to servers and supervisors, and to the storage. Then all is
//! brought up again, a fresh process reads everything, and every byte, size and name that anybody has read is compared
//! with what it [may be](contents), given all journals.
//!
//! Which operations and faults there are follows from a seed; when exactly they meet does not.

mod cluster;
pub mod contents;
mod fault;
#[allow(missing_docs, reason = "calls and their arguments, named as in the crate `pario`")]
pub mod history;
mod names;
mod power_safety;
mod session;
mod strike;
mod tally;
mod tamper;
mod verdict;
mod worker;
pub mod worker_file;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use cluster::LaunchWorker;
pub use fault::{FaultKind, KINDS};
pub use worker::run_if_told;

use crate::{TmpfsMount, scratch};
use session::Session;
use tally::Tally;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct TortureOptions {
    /// No session begins after that.
    pub seconds: u64,
    /// Of the first session; the next one has the next.
    pub seed: u64,
    /// How many sessions at most.
    pub sessions: u64,
    /// Rounds of a session.
    pub rounds: u32,
    /// Sessions at a time.
    pub jobs: usize,
    /// The kinds of faults.
    pub faults: Vec<FaultKind>,
    /// The interval of progress messages.
    pub every: Duration,
}

impl Default for TortureOptions {
    fn default() -> TortureOptions {
        TortureOptions {
            seconds: 60,
            seed: 1,
            sessions: u64::MAX,
            rounds: 6,
            jobs: 2,
            faults: KINDS.iter().map(|(kind, ..)| *kind).collect(),
            every: Duration::from_secs(5),
        }
    }
}

/// Runs sessions until the time is over. An error describes the first violation, whose directory is kept.
pub fn run(options: &TortureOptions, launch: LaunchWorker<'_>) -> Result<String, String> {
    let mut options = options.clone();
    if options.faults.contains(&FaultKind::Full) && !can_mount() {
        println!("storage is never full here: this process has no right to mount a small file system");
        options.faults.retain(|kind| *kind != FaultKind::Full);
    }
    let tally = Tally::default();
    let (next, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let first: Mutex<Option<String>> = Mutex::new(None);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let job = || {
            while begun.elapsed().as_secs() < options.seconds && !over.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= options.sessions {
                    break;
                }
                if let Err(why) = session(&options, options.seed.wrapping_add(number), launch, &tally) {
                    over.store(true, Ordering::Relaxed);
                    first.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(why);
                }
            }
        };
        let jobs: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(job)).collect();
        let mut told = Instant::now();
        while jobs.iter().any(|job| !job.is_finished()) {
            std::thread::sleep(Duration::from_millis(50));
            if told.elapsed() >= options.every {
                println!("{:>5} s: {tally}", begun.elapsed().as_secs());
                told = Instant::now();
            }
        }
    });
    match first.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(why) => Err(why),
        None => Ok(format!("nothing was lost in {} s: {tally}", begun.elapsed().as_secs())),
    }
}

fn session(
    options: &TortureOptions,
    seed: u64,
    launch: LaunchWorker<'_>,
    tally: &Tally,
) -> Result<(), String> {
    tally.session();
    let dir = scratch();
    let place: PathBuf = dir.path().to_owned();
    let outcome = Session::run(place.clone(), seed, options.rounds, &options.faults, launch, tally);
    outcome.map_err(|why| {
        std::mem::forget(dir);
        format!("{why}\nkept: {}", place.display())
    })
}

fn can_mount() -> bool {
    let dir = scratch();
    TmpfsMount::tmpfs(&dir.join("mount"), "1m").is_some()
}
