//! Explores every interleaving of a few threads (tests only).
//!
//! The threads run one at a time. At each [`point`] (every access to a shared word) the running thread may have to let
//! another continue. A run follows a list of such choices; afterwards the last choice that has an alternative is changed,
//! until there is none. Since the words are sequentially consistent, this covers everything that can happen. To bound the
//! number of runs, a thread is stopped in the middle only a limited number of times in a run.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

struct Choice {
    taken: usize,
    options: usize,
}

struct Plan {
    choices: Vec<Choice>,
    next: usize,
    stops_left: usize,
    running: usize,
    over: Vec<bool>,
}

struct Turns {
    plan: Mutex<Plan>,
    changed: Condvar,
}

thread_local!(static SELF: RefCell<Option<(Arc<Turns>, usize)>> = const { RefCell::new(None) });

static STEPS_TO_LIVE: AtomicU32 = AtomicU32::new(u32::MAX);

/// This process ends, as if it were killed, at this step.
pub(crate) fn die_at(step: u32) {
    STEPS_TO_LIVE.store(step, Ordering::Relaxed);
}

/// Another thread of the run may continue here.
pub(crate) fn point() {
    let steps = STEPS_TO_LIVE.load(Ordering::Relaxed);
    if steps != u32::MAX {
        if steps == 0 {
            std::process::exit(1);
        }
        STEPS_TO_LIVE.store(steps - 1, Ordering::Relaxed);
    }
    let me = SELF.with(|me| me.borrow().clone());
    if let Some((turns, me)) = me {
        turns.pass(me, false);
        turns.wait(me);
    }
}

impl Turns {
    /// Chooses the thread that runs next.
    fn pass(&self, me: usize, over: bool) {
        let mut plan = self.plan.lock().unwrap();
        plan.over[me] = over;
        let others = (0..plan.over.len()).filter(|&other| other != me && !plan.over[other]);
        let mut candidates: Vec<usize> = if over { Vec::new() } else { vec![me] };
        if over || plan.stops_left > 0 {
            candidates.extend(others);
        }
        let Some(&first) = candidates.first() else { return };
        let chosen = if candidates.len() == 1 {
            first
        } else {
            let next = plan.next;
            if next == plan.choices.len() {
                plan.choices.push(Choice { taken: 0, options: candidates.len() });
            }
            assert_eq!(plan.choices[next].options, candidates.len(), "the run is not the same again");
            plan.next += 1;
            candidates[plan.choices[next].taken]
        };
        if !over && chosen != me {
            plan.stops_left -= 1;
        }
        plan.running = chosen;
        drop(plan);
        if over || chosen != me {
            self.changed.notify_all();
        }
    }

    fn wait(&self, me: usize) {
        let mut plan = self.plan.lock().unwrap();
        while plan.running != me {
            plan = self.changed.wait(plan).unwrap();
        }
    }
}

/// Creates a scene with `set`, runs all of `actors` on it at once, and checks with `check`: again and again, once for each
/// order of their steps with at most `stops` stops. Returns the number of runs.
pub(crate) fn every_order<S: Sync>(
    stops: usize,
    set: impl Fn() -> S,
    actors: &[&(dyn Fn(&S) + Sync)],
    check: impl Fn(S),
) -> usize {
    let mut choices: Vec<Choice> = Vec::new();
    for run in 1.. {
        let stage = set();
        let plan = Plan {
            choices: std::mem::take(&mut choices),
            next: 0,
            stops_left: stops,
            running: 0,
            over: vec![false; actors.len()],
        };
        let turns = Arc::new(Turns { plan: Mutex::new(plan), changed: Condvar::new() });
        std::thread::scope(|scope| {
            for (me, actor) in actors.iter().enumerate() {
                let (turns, stage) = (Arc::clone(&turns), &stage);
                scope.spawn(move || {
                    SELF.with(|place| *place.borrow_mut() = Some((Arc::clone(&turns), me)));
                    let leave = Leave(Arc::clone(&turns), me);
                    turns.wait(me);
                    actor(stage);
                    drop(leave);
                });
            }
        });
        check(stage);
        choices = std::mem::take(&mut turns.plan.lock().unwrap().choices);
        while choices.last().is_some_and(|choice| choice.taken + 1 == choice.options) {
            choices.pop();
        }
        match choices.last_mut() {
            Some(choice) => choice.taken += 1,
            None => return run,
        }
    }
    unreachable!("there is a last run")
}

/// Lets the others continue, also if this thread panics.
struct Leave(Arc<Turns>, usize);

impl Drop for Leave {
    fn drop(&mut self) {
        SELF.with(|place| *place.borrow_mut() = None);
        self.0.pass(self.1, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SharedWord;
    use std::collections::HashSet;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_lost_update_is_found() {
        let outcomes = Mutex::new(HashSet::new());
        let increment = |word: &AtomicU64| SharedWord(word).put(SharedWord(word).get() + 1);
        let runs = every_order(
            4,
            || AtomicU64::new(0),
            &[&increment, &increment],
            |word| {
                outcomes.lock().unwrap().insert(word.into_inner());
            },
        );
        assert_eq!(outcomes.into_inner().unwrap(), HashSet::from([1, 2]));
        assert_eq!(runs, 10, "first or second begins is no choice; the ways to mix 2 and 2 steps and ends");
    }
}
