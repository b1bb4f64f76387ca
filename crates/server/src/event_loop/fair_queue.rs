//! The queue of sessions that can continue. The next session belongs to the program that has received the least service.
//!
//! So a program of a thousand ranks and one of a single rank get the same share of a server that both keep busy. Service is counted in
//! bytes: those of requests and replies, and [`REQUEST_COST`] for each step. A program that is new, or returns after a while, starts
//! with the service of the program that was served last, so it cannot save up service.

use std::collections::{BTreeSet, HashMap, VecDeque};

/// A request takes about as long as moving so many bytes.
const REQUEST_COST: u64 = 32 << 10;

/// The number of programs from which on idle ones are dropped.
const MIN_PRUNED: usize = 64;

/// A program's number, which its clients send in the handshake.
pub(crate) type Program = u64;

#[derive(Default)]
pub(crate) struct FairQueue {
    programs: HashMap<Program, Account>,
    /// Programs with waiting sessions, the one with the least service first.
    order: BTreeSet<(u64, Program)>,
    /// The service of the program that was served last, before that.
    floor: u64,
    /// The number of programs at which idle ones are dropped next.
    prune_at: usize,
}

#[derive(Default)]
struct Account {
    service: u64,
    /// The waiting sessions, in the order in which they were queued.
    sessions: VecDeque<u64>,
}

/// A session that can continue, and the program to which its service is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuedSession {
    pub program: Program,
    pub session: u64,
}

impl FairQueue {
    /// Queues a session that can continue.
    pub fn wait(&mut self, program: Program, session: u64) {
        if self.programs.len() >= self.prune_at.max(MIN_PRUNED) {
            let floor = self.floor;
            self.programs.retain(|_, account| !account.sessions.is_empty() || account.service > floor);
            self.prune_at = 2 * self.programs.len();
        }
        let account = self.programs.entry(program).or_default();
        if account.sessions.is_empty() {
            account.service = account.service.max(self.floor);
            self.order.insert((account.service, program));
        }
        account.sessions.push_back(session);
    }

    /// Removes and returns the next session. If there is none, all programs start again with equal service.
    pub fn next(&mut self) -> Option<QueuedSession> {
        let Some((service, program)) = self.order.pop_first() else {
            self.programs.clear();
            return None;
        };
        let account = self.programs.get_mut(&program)?;
        let session = account.sessions.pop_front()?;
        self.floor = service;
        account.service += REQUEST_COST;
        if !account.sessions.is_empty() {
            self.order.insert((account.service, program));
        }
        Some(QueuedSession { program, session })
    }

    /// Charges a program for the bytes of its last step.
    pub fn charge(&mut self, program: Program, bytes: u64) {
        let Some(account) = self.programs.get_mut(&program).filter(|_| bytes > 0) else { return };
        let is_waiting = self.order.remove(&(account.service, program));
        account.service += bytes;
        if is_waiting {
            self.order.insert((account.service, program));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by a search through all entries, without pruning.
    #[derive(Default)]
    struct Naive {
        service: HashMap<Program, u64>,
        waiting: Vec<QueuedSession>,
        floor: u64,
    }

    impl Naive {
        fn wait(&mut self, program: Program, session: u64) {
            let service = self.service.entry(program).or_default();
            if self.waiting.iter().all(|turn| turn.program != program) {
                *service = self.floor.max(*service);
            }
            self.waiting.push(QueuedSession { program, session });
        }

        fn next(&mut self) -> Option<QueuedSession> {
            if self.waiting.is_empty() {
                self.service.clear();
            }
            let first = |turn: &&QueuedSession| (self.service[&turn.program], turn.program);
            let turn = *self.waiting.iter().min_by_key(first)?;
            let index = self.waiting.iter().position(|waits| *waits == turn)?;
            self.waiting.remove(index);
            self.floor = self.service[&turn.program];
            *self.service.get_mut(&turn.program)? += REQUEST_COST;
            Some(turn)
        }
    }

    proptest! {
        #[test]
        fn the_queue_behaves_like_a_search_through_all_entries(
            steps in prop::collection::vec((0u64..5, prop_oneof![Just(0), 0..4 * REQUEST_COST]), 0..300),
        ) {
            let (mut queue, mut naive) = (FairQueue::default(), Naive::default());
            for (session, (program, bytes)) in (0..).zip(steps) {
                match program {
                    0 => {
                        let turn = queue.next();
                        prop_assert_eq!(turn, naive.next());
                        if let Some(QueuedSession { program, .. }) = turn {
                            queue.charge(program, bytes);
                            *naive.service.get_mut(&program).expect("it waited") += bytes;
                        }
                    }
                    program => {
                        queue.wait(program, session);
                        naive.wait(program, session);
                    }
                }
            }
        }

        /// Programs that always have requests receive the same service but for one request, however many sessions they have.
        #[test]
        fn shares_are_equal_but_for_one_request(
            sessions in prop::collection::vec(1u64..20, 2..6),
            costs in prop::collection::vec(0u64..40 * REQUEST_COST, 1..50),
            rounds in 1usize..400,
        ) {
            let mut queue = FairQueue::default();
            for (program, count) in (0..).zip(&sessions) {
                (0..*count).for_each(|session| queue.wait(program, session));
            }
            let most = REQUEST_COST + costs.iter().max().expect("some");
            let mut service = vec![0; sessions.len()];
            for cost in costs.iter().cycle().take(rounds) {
                let turn = queue.next().expect("all wait");
                queue.charge(turn.program, *cost);
                queue.wait(turn.program, turn.session);
                service[turn.program as usize] += REQUEST_COST + cost;
                let (least, largest) = (service.iter().min().expect("some"), service.iter().max().expect("some"));
                prop_assert!(largest - least <= most, "{service:?}");
            }
        }

        /// The sessions of a program are served in turn.
        #[test]
        fn sessions_of_a_program_share_its_turns(count in 1u64..20, rounds in 0usize..5) {
            let mut queue = FairQueue::default();
            (0..count).for_each(|session| queue.wait(9, session));
            for _ in 0..rounds {
                for session in 0..count {
                    prop_assert_eq!(queue.next(), Some(QueuedSession { program: 9, session }));
                    queue.wait(9, session);
                }
            }
        }
    }

    #[test]
    fn an_idle_program_saves_no_service_and_keeps_its_debt() {
        let mut queue = FairQueue::default();
        queue.wait(1, 1);
        for _ in 0..100 {
            assert_eq!(queue.next().map(|turn| turn.program), Some(1));
            queue.wait(1, 1);
        }
        // Program 2 is new: from now on both are served in turn.
        queue.wait(2, 2);
        let next = |queue: &mut FairQueue| {
            let turn = queue.next().expect("both wait");
            queue.wait(turn.program, turn.session);
            turn.program
        };
        let served: Vec<_> = (0..6).map(|_| next(&mut queue)).collect();
        assert_eq!(served.iter().filter(|program| **program == 2).count(), 3, "{served:?}");
        // Its service is not forgotten while it is idle for a moment.
        queue.charge(2, 10 * REQUEST_COST);
        assert_eq!((0..10).map(|_| next(&mut queue)).filter(|program| *program == 1).count(), 10);
    }

    #[test]
    fn idle_programs_are_dropped() {
        let mut queue = FairQueue::default();
        queue.wait(0, 0);
        for program in 1..10_000 {
            queue.wait(program, program);
            for _ in 0..2 {
                if queue.next().expect("two wait").program == 0 {
                    queue.wait(0, 0);
                }
            }
            assert!(queue.programs.len() <= 2 * MIN_PRUNED, "{}", queue.programs.len());
        }
        while queue.next().is_some() {}
        assert!(queue.programs.is_empty());
    }
}
