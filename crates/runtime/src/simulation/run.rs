//! Settings and results of a run.

use std::time::Duration;

use super::counts::Counts;

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Decides everything.
    pub seed: u64,
    /// Chooses another order of steps, while calls and faults stay as the seed decides.
    pub schedule: u64,
    /// At a [`point`](super::scheduler::point) another thread may go on once in so many times.
    pub switch_one_in: u32,
    /// Most steps of a run.
    pub most_steps: u64,
    /// Whether each log line is printed at once.
    pub verbose: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The test driver's function returned.
    Done,
    /// No thread can ever go on; these wait.
    Deadlock(Vec<String>),
    /// The run took more steps than allowed.
    TooManySteps,
    /// A thread panicked, with this message.
    Panicked(String),
    /// An [invariant](super::invariants) of a program does not hold.
    Violated(String),
}

/// The results of a run that has ended.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// How it ended.
    pub end: RunEnd,
    /// Steps that were made.
    pub steps: u64,
    /// Virtual time that passed.
    pub elapsed: Duration,
    /// A hash of all choices and log lines: equal runs have equal ones.
    pub fingerprint: u64,
    /// The counters.
    pub counts: Counts,
    /// The last lines of the log.
    pub log: Vec<String>,
    /// The threads that waited for something at the end.
    pub blocked: Vec<String>,
}
