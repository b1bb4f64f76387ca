//! Invariants of the simulated programs: what has to hold between any two steps.
//!
//! A program registers a value and a function that checks it ([`watch`]). The scheduler calls these functions often between two steps of
//! threads ([`Depth::Quick`]), and completely when a process ends and where the program itself [asks](check_now) for it, for instance after
//! a flush. A check only looks: it takes no lock, reaches no scheduling point and draws no number from the streams of a run.
//! A value behind a lock is looked at with [`Mutex::inspect`](super::sync::Mutex::inspect), which skips it while a thread holds the lock:
//! such a thread may be in the middle of a change.
//!
//! The first violation ends the run.

use std::sync::Arc;

use super::process::SimulatedPid;
use super::scheduler;

/// Steps between two quick checks.
const INTERVAL: u64 = 1000;

/// How much of a value is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// The checks that cost little.
    Quick,
    /// Everything.
    Complete,
    /// The checks some time after all clients have ended: nothing of them is left.
    Idle,
}

/// Checks a value. `None` if the value does not exist any more.
type Check = Box<dyn Fn(Depth) -> Option<Result<(), String>>>;

struct Subject {
    owner: SimulatedPid,
    name: &'static str,
    check: Check,
}

#[derive(Default)]
pub(crate) struct Invariants {
    subjects: Vec<Subject>,
    /// The number of steps from which on the next quick check is due.
    due: u64,
    violation: Option<String>,
    /// The process whose value is being checked.
    checked: Option<SimulatedPid>,
}

impl Invariants {
    /// Whether a quick check is due after so many steps.
    pub fn is_due(&self, steps: u64) -> bool {
        steps >= self.due
    }

    /// The process whose value is being checked.
    pub fn checked(&self) -> Option<SimulatedPid> {
        self.checked
    }

    /// The first violation.
    pub fn violation(&self) -> Option<&String> {
        self.violation.as_ref()
    }
}

/// Checks a value of the current process from now on, as long as both exist.
pub fn watch<T: 'static>(name: &'static str, subject: &Arc<T>, check: fn(&T, Depth) -> Result<(), String>) {
    if !scheduler::is_active() {
        return;
    }
    let subject = Arc::downgrade(subject);
    let check: Check = Box::new(move |depth| subject.upgrade().map(|subject| check(&subject, depth)));
    scheduler::with(|scheduler| {
        let owner = scheduler.owner();
        scheduler.invariants.subjects.push(Subject { owner, name, check });
    });
}

/// Checks everything of all processes. A thread that finds a violation does not go on.
pub fn check_now() {
    if scheduler::is_active() && check(Depth::Complete) {
        scheduler::yield_now();
    }
}

/// Checks that servers keep nothing of clients: all have ended a while ago.
pub fn check_idle() -> Result<(), String> {
    check(Depth::Idle);
    scheduler::with(|scheduler| scheduler.invariants.violation.clone().map_or(Ok(()), Err))
}

/// Reports a violation that the program itself has seen in the middle of a change. The calling thread does not go on.
pub fn report(name: &str, why: &str) {
    if scheduler::is_active() {
        scheduler::with(|scheduler| {
            let owner = scheduler.owner();
            let process = scheduler.process_name(owner).to_owned();
            let text = format!("{process}[{}]: {name}: {why}", owner.0);
            scheduler.invariants.violation.get_or_insert(text);
        });
        scheduler::yield_now();
    }
}

/// Checks the values of all processes; whether there is a violation.
pub(crate) fn check(depth: Depth) -> bool {
    let mut subjects = scheduler::with(|scheduler| {
        scheduler.invariants.due = scheduler.steps() + INTERVAL;
        std::mem::take(&mut scheduler.invariants.subjects)
    });
    let mut found = None;
    subjects.retain(|subject| {
        if !scheduler::with(|scheduler| scheduler.is_alive(subject.owner)) {
            return false;
        }
        scheduler::with(|scheduler| scheduler.invariants.checked = Some(subject.owner));
        match (subject.check)(depth) {
            None => return false,
            Some(Ok(())) => {}
            Some(Err(why)) => {
                found.get_or_insert((subject.owner, subject.name, why));
            }
        }
        true
    });
    scheduler::with(|scheduler| {
        scheduler.invariants.subjects = subjects;
        scheduler.invariants.checked = None;
        if let Some((owner, name, why)) = found {
            let process = scheduler.process_name(owner).to_owned();
            let text = format!("{process}[{}]: {name}: {why}", owner.0);
            scheduler.log(&format!("violates an invariant: {text}"));
            scheduler.invariants.violation.get_or_insert(text);
        }
        scheduler.invariants.violation.is_some()
    })
}
