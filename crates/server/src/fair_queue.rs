//! Whose turn it is: sessions that can go on wait here, and of the programs that they belong to the one goes first that
//! has had least.
//!
//! So a program of a thousand ranks and one of a single rank get the same share of a server that both keep busy. What
//! a program has had counts in bytes: those of its requests and replies, and [`REQUEST`] for each turn. Who comes new,
//! or back after a while, has had as much as the one that was served last: nothing is saved up.

use std::collections::{BTreeSet, HashMap, VecDeque};

/// A request takes about as long as moving so many bytes does.
pub(crate) const REQUEST: u64 = 32 << 10;

/// Programs that are remembered, before those are forgotten of which nothing has to be known.
const FEW: usize = 64;

/// A program's number: what its clients greet with.
pub(crate) type Program = u64;

#[derive(Default)]
pub(crate) struct FairQueue {
    programs: HashMap<Program, Account>,
    /// Programs with sessions that wait, the one that has had least first.
    order: BTreeSet<(u64, Program)>,
    /// What the program that was served last had had by then.
    floor: u64,
    /// With so many programs it is time to forget some.
    enough: usize,
}

#[derive(Default)]
struct Account {
    had: u64,
    /// Those that wait, in the order in which they came.
    sessions: VecDeque<u64>,
}

/// A session that may go on, and at whose expense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuedSession {
    pub program: Program,
    pub session: u64,
}

impl FairQueue {
    /// A session can go on.
    pub fn wait(&mut self, program: Program, session: u64) {
        if self.programs.len() >= self.enough.max(FEW) {
            let floor = self.floor;
            self.programs.retain(|_, account| !account.sessions.is_empty() || account.had > floor);
            self.enough = 2 * self.programs.len();
        }
        let account = self.programs.entry(program).or_default();
        if account.sessions.is_empty() {
            account.had = account.had.max(self.floor);
            self.order.insert((account.had, program));
        }
        account.sessions.push_back(session);
    }

    /// The one that goes on. If there is none, nobody is kept waiting by anybody, and all begin anew.
    pub fn next(&mut self) -> Option<QueuedSession> {
        let Some((had, program)) = self.order.pop_first() else {
            self.programs.clear();
            return None;
        };
        let account = self.programs.get_mut(&program)?;
        let session = account.sessions.pop_front()?;
        self.floor = had;
        account.had += REQUEST;
        if !account.sessions.is_empty() {
            self.order.insert((account.had, program));
        }
        Some(QueuedSession { program, session })
    }

    /// A program has had so many bytes in its turn.
    pub fn charge(&mut self, program: Program, bytes: u64) {
        let Some(account) = self.programs.get_mut(&program).filter(|_| bytes > 0) else { return };
        let is_waiting = self.order.remove(&(account.had, program));
        account.had += bytes;
        if is_waiting {
            self.order.insert((account.had, program));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by looking through everything, forgetting nothing.
    #[derive(Default)]
    struct Naive {
        had: HashMap<Program, u64>,
        waiting: Vec<QueuedSession>,
        floor: u64,
    }

    impl Naive {
        fn wait(&mut self, program: Program, session: u64) {
            let had = self.had.entry(program).or_default();
            if self.waiting.iter().all(|turn| turn.program != program) {
                *had = self.floor.max(*had);
            }
            self.waiting.push(QueuedSession { program, session });
        }

        fn next(&mut self) -> Option<QueuedSession> {
            if self.waiting.is_empty() {
                self.had.clear();
            }
            let first = |turn: &&QueuedSession| (self.had[&turn.program], turn.program);
            let turn = *self.waiting.iter().min_by_key(first)?;
            let index = self.waiting.iter().position(|waits| *waits == turn)?;
            self.waiting.remove(index);
            self.floor = self.had[&turn.program];
            *self.had.get_mut(&turn.program)? += REQUEST;
            Some(turn)
        }
    }

    proptest! {
        #[test]
        fn as_if_everything_were_looked_through(
            steps in prop::collection::vec((0u64..5, prop_oneof![Just(0), 0..4 * REQUEST]), 0..300),
        ) {
            let (mut turns, mut naive) = (FairQueue::default(), Naive::default());
            for (session, (program, bytes)) in (0..).zip(steps) {
                match program {
                    0 => {
                        let turn = turns.next();
                        prop_assert_eq!(turn, naive.next());
                        if let Some(QueuedSession { program, .. }) = turn {
                            turns.charge(program, bytes);
                            *naive.had.get_mut(&program).expect("it waited") += bytes;
                        }
                    }
                    program => {
                        turns.wait(program, session);
                        naive.wait(program, session);
                    }
                }
            }
        }

        /// However many sessions they have: programs that always have something to do have had the same but for one
        /// request, and none waits for longer than that takes.
        #[test]
        fn shares_are_equal_but_for_one_request(
            sessions in prop::collection::vec(1u64..20, 2..6),
            costs in prop::collection::vec(0u64..40 * REQUEST, 1..50),
            rounds in 1usize..400,
        ) {
            let mut turns = FairQueue::default();
            for (program, count) in (0..).zip(&sessions) {
                (0..*count).for_each(|session| turns.wait(program, session));
            }
            let most = REQUEST + costs.iter().max().expect("some");
            let mut had = vec![0; sessions.len()];
            for cost in costs.iter().cycle().take(rounds) {
                let turn = turns.next().expect("all wait");
                turns.charge(turn.program, *cost);
                turns.wait(turn.program, turn.session);
                had[turn.program as usize] += REQUEST + cost;
                let (least, largest) = (had.iter().min().expect("some"), had.iter().max().expect("some"));
                prop_assert!(largest - least <= most, "{had:?}");
            }
        }

        /// Within a program sessions are served in turn.
        #[test]
        fn sessions_of_a_program_share_its_turns(count in 1u64..20, rounds in 0usize..5) {
            let mut turns = FairQueue::default();
            (0..count).for_each(|session| turns.wait(9, session));
            for _ in 0..rounds {
                for session in 0..count {
                    prop_assert_eq!(turns.next(), Some(QueuedSession { program: 9, session }));
                    turns.wait(9, session);
                }
            }
        }
    }

    #[test]
    fn who_was_away_has_saved_nothing_and_who_is_ahead_stays_so() {
        let mut turns = FairQueue::default();
        turns.wait(1, 1);
        for _ in 0..100 {
            assert_eq!(turns.next().map(|turn| turn.program), Some(1));
            turns.wait(1, 1);
        }
        // 2 comes new: from now on both in turn.
        turns.wait(2, 2);
        let next = |turns: &mut FairQueue| {
            let turn = turns.next().expect("both wait");
            turns.wait(turn.program, turn.session);
            turn.program
        };
        let served: Vec<_> = (0..6).map(|_| next(&mut turns)).collect();
        assert_eq!(served.iter().filter(|program| **program == 2).count(), 3, "{served:?}");
        // What it has had is not forgotten while it is gone for a moment.
        turns.charge(2, 10 * REQUEST);
        assert_eq!((0..10).map(|_| next(&mut turns)).filter(|program| *program == 1).count(), 10);
    }

    #[test]
    fn programs_that_went_are_forgotten() {
        let mut turns = FairQueue::default();
        turns.wait(0, 0);
        for program in 1..10_000 {
            turns.wait(program, program);
            for _ in 0..2 {
                if turns.next().expect("two wait").program == 0 {
                    turns.wait(0, 0);
                }
            }
            assert!(turns.programs.len() <= 2 * FEW, "{}", turns.programs.len());
        }
        while turns.next().is_some() {}
        assert!(turns.programs.is_empty());
    }
}
