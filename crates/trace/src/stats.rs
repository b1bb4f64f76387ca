//! The statistics of one open file: numbers and decisions, always counted.
//!
//! Every number is declared once, below; a number is either a sum or a peak, which determines how the numbers of several
//! ranks are combined. Adding is one relaxed atomic operation.

use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counters::ProcessCounter;

/// A number that keeps its maximum.
#[derive(Debug, Default)]
pub struct Peak(AtomicU64);

impl Peak {
    /// Takes `n` into account.
    pub fn see(&self, n: u64) {
        self.0.fetch_max(n, Relaxed);
    }

    /// The maximum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The total over ranks: the sum of a counter, the maximum of a peak.
trait Total {
    fn total(sum: u64, largest: u64) -> u64;
}

impl Total for ProcessCounter {
    fn total(sum: u64, _: u64) -> u64 {
        sum
    }
}

impl Total for Peak {
    fn total(_: u64, largest: u64) -> u64 {
        largest
    }
}

macro_rules! file_stats {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty,)+) => {
        /// The numbers of one open file on one rank, and the decisions for it.
        #[derive(Debug, Default)]
        pub struct FileStats {
            $($(#[doc = $doc])+ pub $name: $type,)+
            decisions: Mutex<Decisions>,
        }

        /// The numbers of a [`FileStats`] at one moment, or of several ranks together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct FileTotals { $($(#[doc = $doc])+ pub $name: u64,)+ }

        impl FileStats {
            /// The present numbers, in the order of declaration: a rank sends them to be reduced to a report.
            pub fn numbers(&self) -> Vec<u64> {
                vec![$(self.$name.get(),)+]
            }
        }

        impl FileTotals {
            /// Name and value of each number, in the order of declaration.
            pub fn values(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }

            /// Numbers in the order of declaration; missing ones are 0.
            pub(crate) fn of(numbers: &[u64]) -> FileTotals {
                let mut numbers = numbers.iter().copied();
                FileTotals { $($name: numbers.next().unwrap_or(0),)+ }
            }

            /// The totals over ranks, from the sums over ranks and the largest of each.
            pub(crate) fn totals(sums: &FileTotals, largest: &FileTotals) -> FileTotals {
                FileTotals { $($name: <$type as Total>::total(sums.$name, largest.$name),)+ }
            }
        }
    };
}

file_stats! {
    /// Collective reads this rank took part in.
    collective_reads: ProcessCounter,
    /// Collective writes this rank took part in.
    collective_writes: ProcessCounter,
    /// Reads of this rank alone.
    independent_reads: ProcessCounter,
    /// Writes of this rank alone.
    independent_writes: ProcessCounter,
    /// Bytes delivered to the program.
    read_bytes: ProcessCounter,
    /// Bytes accepted from the program.
    written_bytes: ProcessCounter,
    /// Contiguous pieces of the file that accesses consisted of.
    pieces: ProcessCounter,
    /// Rounds of exchange and file access this rank took part in.
    rounds: ProcessCounter,
    /// Messages sent to other nodes, or to I/O agents.
    messages: ProcessCounter,
    /// Bytes in them.
    message_bytes: ProcessCounter,
    /// Requests to a partition's servers in accesses.
    server_requests: ProcessCounter,
    /// Bytes of data in them and in their answers.
    server_bytes: ProcessCounter,
    /// Bytes that went to servers in the background, from blocks that ranks kept.
    staged_bytes: ProcessCounter,
    /// Times that servers called such blocks back.
    recalls: ProcessCounter,
    /// Operations of the host MPI.
    host_calls: ProcessCounter,
    /// Bytes copied between program, buffers and messages.
    copied_bytes: ProcessCounter,
    /// Nanoseconds in the exchange between ranks.
    exchange_ns: ProcessCounter,
    /// Nanoseconds in file access.
    io_ns: ProcessCounter,
    /// Windows that were read, changed and written back.
    rmw: ProcessCounter,
    /// Requests for locks.
    lock_requests: ProcessCounter,
    /// The most memory in the windows that the ranks of a node share.
    window_bytes: Peak,
    /// Calls that ended in an error.
    errors: ProcessCounter,
}

/// The method of an access, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyChoice {
    /// The name of the strategy: `two-phase`, `independent`, …
    pub strategy: &'static str,
    /// The name of the partitioning: `even`, `aligned`, …; empty where there are no file domains.
    pub partitioning: &'static str,
    /// The number of aggregators.
    pub aggregators: u32,
    /// The reason, as an ending of "because".
    pub why: Cow<'static, str>,
}

impl StrategyChoice {
    fn is_like(&self, other: &StrategyChoice) -> bool {
        let parts = |c: &StrategyChoice| (c.strategy, c.partitioning, c.aggregators);
        parts(self) == parts(other)
    }
}

/// The choices made for a file, by direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// For reads: each different choice and how often it was made, the latest last.
    pub read: Vec<(StrategyChoice, u64)>,
    /// For writes.
    pub write: Vec<(StrategyChoice, u64)>,
}

/// The number of different choices that are kept per direction; the least recent is dropped first.
const MOST_CHOICES: usize = 16;

impl FileStats {
    /// Adds a choice; of equal choices with different reasons the last reason is kept.
    pub fn decide(&self, write: bool, choice: StrategyChoice) {
        let mut decisions = self.decisions.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let made = if write { &mut decisions.write } else { &mut decisions.read };
        let count = match made.iter().rposition(|(known, _)| known.is_like(&choice)) {
            Some(place) if place + 1 == made.len() => {
                let (last, count) = &mut made[place];
                last.why = choice.why;
                *count += 1;
                return;
            }
            Some(place) => made.remove(place).1,
            None => 0,
        };
        if made.len() == MOST_CHOICES {
            made.remove(0);
        }
        made.push((choice, count + 1));
    }

    /// The choices so far.
    pub fn decisions(&self) -> Decisions {
        self.decisions.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(aggregators: u32, why: &'static str) -> StrategyChoice {
        StrategyChoice { strategy: "two-phase", partitioning: "aligned", aggregators, why: why.into() }
    }

    #[test]
    fn numbers_come_in_the_order_of_their_names() {
        let stats = FileStats::default();
        stats.collective_reads.add(1);
        stats.errors.add(7);
        stats.window_bytes.see(9);
        stats.window_bytes.see(4);
        let numbers = stats.numbers();
        let named = FileTotals::of(&numbers);
        assert_eq!((named.collective_reads, named.errors, named.window_bytes), (1, 7, 9));
        assert_eq!(named.values().into_iter().map(|(_, n)| n).collect::<Vec<_>>(), numbers);
        assert_eq!(FileTotals::of(&[]), FileTotals::default());
    }

    #[test]
    fn choices_are_counted_and_the_latest_is_last() {
        let stats = FileStats::default();
        stats.decide(true, choice(2, "a"));
        stats.decide(true, choice(4, "b"));
        stats.decide(true, choice(2, "c"));
        stats.decide(true, choice(2, "d"));
        let decisions = stats.decisions();
        assert_eq!(decisions.write, [(choice(4, "b"), 1), (choice(2, "d"), 3)]);
        assert!(decisions.read.is_empty());
    }

    #[test]
    fn the_number_of_choices_is_bounded() {
        let stats = FileStats::default();
        (0..100).for_each(|n| stats.decide(false, choice(n, "x")));
        let read = stats.decisions().read;
        assert_eq!((read.len(), read[0].0.aggregators, read[15].0.aggregators), (16, 84, 99));
    }
}
