//! Calls about names, and whether their outcomes are possible.
//!
//! Several clients change the same names at the same time. Their outcomes are possible if there is an order of all calls in which each
//! takes effect at one moment between its beginning and its end, and returns what it returned. The check searches for such an order. A call
//! that failed for a reason that says nothing about names, or that never returned, may have taken effect or not.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use pario_conformance::torture::history::Nanos;

/// A call about names.
#[derive(Clone, Debug)]
pub enum NameOp {
    /// Creates a file, which must not exist.
    Create(String),
    /// Opens a file, which must exist.
    Open(String),
    Remove(String),
    Rename {
        from: String,
        to: String,
        replace: bool,
    },
    List,
}

impl fmt::Display for NameOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameOp::Create(name) => write!(f, "create {name}"),
            NameOp::Open(name) => write!(f, "open {name}"),
            NameOp::Remove(name) => write!(f, "remove {name}"),
            NameOp::Rename { from, to, replace: true } => write!(f, "rename {from} {to}"),
            NameOp::Rename { from, to, replace: false } => write!(f, "rename-new {from} {to}"),
            NameOp::List => write!(f, "list"),
        }
    }
}

/// The outcome of a call about names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameOutcome {
    Done,
    /// The file that was created or opened.
    File(u64),
    /// All names and their files.
    Names(Vec<(String, u64)>),
    NoSuchFile,
    FileExists,
    /// It may have taken effect or not.
    Unknown(String),
}

/// A call about names, with its times and outcome.
#[derive(Clone, Debug)]
pub struct NameCall {
    pub worker: u32,
    pub op: NameOp,
    pub start: Nanos,
    /// When it returned; none if its process died in it.
    pub end: Option<Nanos>,
    pub outcome: Option<NameOutcome>,
}

/// The calls of all clients.
pub type NameCalls = Rc<RefCell<Vec<NameCall>>>;

/// Most calls that are checked: the search is for few.
const MOST_CALLS: usize = 120;

/// Most states that the search visits; a history that needs more is not judged.
const MOST_STATES: usize = 200_000;

/// The files by name; `None`: of a call that never returned, so that its number is not known.
type State = BTreeMap<String, Option<u64>>;

/// A call as the search needs it.
struct Step<'a> {
    call: &'a NameCall,
    end: Nanos,
    /// Whether it certainly took effect.
    is_definite: bool,
}

/// The reason why the outcomes are impossible. A call without a known outcome takes effect by `late` after its end at the latest.
pub fn judge(calls: &[NameCall], late: Nanos) -> Result<(), String> {
    let known: BTreeSet<u64> = calls.iter().filter_map(created).collect();
    let steps: Vec<Step<'_>> = calls.iter().filter_map(|call| step(call, late)).collect();
    if steps.len() > MOST_CALLS {
        return Ok(());
    }
    let mut search = Search { steps: &steps, known: &known, visited: BTreeSet::new(), furthest: 0 };
    match search.is_possible(0, &State::new()) {
        true => Ok(()),
        false => Err(search.describe()),
    }
}

fn created(call: &NameCall) -> Option<u64> {
    match (&call.op, &call.outcome) {
        (NameOp::Create(_), Some(NameOutcome::File(file))) => Some(*file),
        _ => None,
    }
}

fn step(call: &NameCall, late: Nanos) -> Option<Step<'_>> {
    let is_change = !matches!(call.op, NameOp::Open(_) | NameOp::List);
    match (&call.outcome, call.end) {
        (Some(NameOutcome::Unknown(_)) | None, _) | (_, None) => {
            let end = call.end.unwrap_or(call.start).saturating_add(late);
            is_change.then_some(Step { call, end, is_definite: false })
        }
        (Some(_), Some(end)) => Some(Step { call, end, is_definite: true }),
    }
}

struct Search<'a> {
    steps: &'a [Step<'a>],
    /// Files whose creation returned.
    known: &'a BTreeSet<u64>,
    visited: BTreeSet<(u128, State)>,
    /// The calls of the longest order that was found.
    furthest: u128,
}

impl Search<'_> {
    /// Whether the calls that are not done yet can follow.
    fn is_possible(&mut self, done: u128, state: &State) -> bool {
        let is_left = |index: &usize| done >> index & 1 == 0;
        let left: Vec<usize> = (0..self.steps.len()).filter(is_left).collect();
        if done.count_ones() > self.furthest.count_ones() {
            self.furthest = done;
        }
        // No call can come before one that had returned when it began.
        let must = left.iter().filter(|index| self.steps[**index].is_definite);
        let Some(first_end) = must.map(|index| self.steps[*index].end).min() else { return true };
        if self.visited.len() > MOST_STATES {
            return true;
        }
        if !self.visited.insert((done, state.clone())) {
            return false;
        }
        for index in left {
            let step = &self.steps[index];
            // A call without a known outcome whose time is over is not done any more.
            let is_over = !step.is_definite && self.is_over(index, done);
            if step.call.start > first_end || is_over {
                continue;
            }
            if let Some(next) = self.apply(step.call, state)
                && self.is_possible(done | 1 << index, &next)
            {
                return true;
            }
        }
        false
    }

    /// Whether a call that began after the end of this one is done.
    fn is_over(&self, index: usize, done: u128) -> bool {
        let later = |other: &usize| {
            done >> other & 1 == 1
                && self.steps[*other].is_definite
                && self.steps[*other].call.start > self.steps[index].end
        };
        (0..self.steps.len()).any(|other| later(&other))
    }

    /// The state after a call, if the call can return there what it returned.
    fn apply(&self, call: &NameCall, state: &State) -> Option<State> {
        let outcome = call.outcome.as_ref().filter(|_| call.end.is_some());
        let is_unknown = matches!(outcome, None | Some(NameOutcome::Unknown(_)));
        let mut next = state.clone();
        match (&call.op, outcome) {
            (NameOp::Create(name), Some(NameOutcome::FileExists)) => {
                return state.contains_key(name).then_some(next);
            }
            (NameOp::Create(name), outcome) => {
                let file = match outcome {
                    Some(NameOutcome::File(file)) => Some(*file),
                    _ => None,
                };
                if (file.is_none() && !is_unknown) || next.insert(name.clone(), file).is_some() {
                    return None;
                }
            }
            (NameOp::Open(name), Some(NameOutcome::File(file))) => {
                let found = state.get(name)?;
                return self.is_same(*found, *file).then_some(next);
            }
            (NameOp::Open(name), Some(NameOutcome::NoSuchFile)) => {
                return (!state.contains_key(name)).then_some(next);
            }
            (NameOp::Remove(name), Some(NameOutcome::NoSuchFile)) => {
                return (!state.contains_key(name)).then_some(next);
            }
            (NameOp::Remove(name), _) => {
                next.remove(name)?;
            }
            (NameOp::Rename { from, .. }, Some(NameOutcome::NoSuchFile)) => {
                return (!state.contains_key(from)).then_some(next);
            }
            (NameOp::Rename { to, replace, .. }, Some(NameOutcome::FileExists)) => {
                return (!replace && state.contains_key(to)).then_some(next);
            }
            (NameOp::Rename { from, to, replace }, _) => {
                let file = next.remove(from)?;
                if next.insert(to.clone(), file).is_some() && !replace {
                    return None;
                }
            }
            (NameOp::List, Some(NameOutcome::Names(names))) => {
                let fits = |(name, file): &(String, u64)| {
                    state.get(name).is_some_and(|found| self.is_same(*found, *file))
                };
                return (names.len() == state.len() && names.iter().all(fits)).then_some(next);
            }
            _ => return None,
        }
        Some(next)
    }

    /// Whether a file of the state can be the one that was seen.
    fn is_same(&self, found: Option<u64>, seen: u64) -> bool {
        found.map_or(!self.known.contains(&seen), |found| found == seen)
    }

    fn describe(&self) -> String {
        let mut text = "no order of the calls about names explains their outcomes:\n".to_owned();
        let mut steps: Vec<(usize, &Step<'_>)> = self.steps.iter().enumerate().collect();
        steps.sort_by_key(|(_, step)| step.call.start);
        for (index, step) in steps {
            let NameCall { worker, op, start, end, outcome } = step.call;
            let mark = if self.furthest >> index & 1 == 1 { " " } else { "!" };
            let end = end.map_or("never".to_owned(), |end| format!("{:.6}", end as f64 / 1e9));
            let start = *start as f64 / 1e9;
            text += &format!("  {mark} {start:.6} .. {end} worker {worker}: {op}: {outcome:?}\n");
        }
        text + "  (! marks the calls that the longest order does not contain)"
    }
}
