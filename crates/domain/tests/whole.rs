//! Properties for all regions and parameters: every byte has one owner, the windows of a domain cover it
//! exactly, and aggregators access the same servers in every call.

use pario_domain::{DomainWindow, FileDomains, PartitioningMethod};
use proptest::prelude::*;
use std::ops::Range;

/// The parameters of a set of file domains.
#[derive(Clone, Debug)]
struct Case {
    method: PartitioningMethod,
    region: Range<u64>,
    n: u32,
    unit: u64,
    servers: u32,
}

impl Case {
    fn partition(&self) -> FileDomains {
        FileDomains::new(self.method, self.region.clone(), self.n, self.unit, self.servers)
    }

    /// The owner of a byte, computed slowly from the definition.
    fn owner(&self, offset: u64) -> u32 {
        let (n, servers, unit) = (u64::from(self.n), u64::from(self.servers), self.unit);
        let block = offset / unit;
        let part = (self.region.end - self.region.start).div_ceil(n);
        let boundary = |i: u64| self.region.start + i * part;
        let owner = match self.method {
            PartitioningMethod::Even => {
                (0..n).rev().find(|&i| boundary(i) <= offset).expect("the first begins there")
            }
            PartitioningMethod::Aligned => {
                let moved = |i| {
                    let (below, above) = (boundary(i) / unit * unit, boundary(i) / unit * unit + unit);
                    if boundary(i) - below < above - boundary(i) { below } else { above }
                };
                let before = |i| i == 0 || boundary(i) < self.region.end && moved(i) <= offset;
                (0..n).rev().find(|&i| before(i)).expect("the first begins there")
            }
            PartitioningMethod::StaticCyclic => block % n,
            PartitioningMethod::GroupCyclic if n <= servers => block % n,
            PartitioningMethod::GroupCyclic => {
                let (first, last) = (self.region.start / unit, (self.region.end - 1) / unit);
                let groups = n / servers;
                let mut left = last - first + 1;
                let mut begin = first;
                let mut group = 0;
                // Each group takes its share of the remaining blocks, rounded up.
                while block >= begin + left.div_ceil(groups - group) {
                    let share = left.div_ceil(groups - group);
                    (begin, left, group) = (begin + share, left - share, group + 1);
                }
                (first + group * servers + (block - first) % servers) % (groups * servers)
            }
        };
        owner as u32
    }
}

fn method() -> impl Strategy<Value = PartitioningMethod> {
    proptest::sample::select(PartitioningMethod::ALL.to_vec())
}

/// Small regions at any offset up to the end of the largest file.
fn case() -> impl Strategy<Value = Case> {
    let lo = prop_oneof![3 => 0u64..300, 1 => (1u64 << 63) - 1000..(1u64 << 63) - 400];
    let unit = prop_oneof![4 => 1u64..40, 1 => Just(1u64 << 20)];
    (method(), lo, 1u64..400, 1u32..20, unit, 1u32..9).prop_map(|(method, lo, length, n, unit, servers)| {
        Case { method, region: lo..lo + length, n, unit, servers }
    })
}

fn bytes(windows: impl IntoIterator<Item = DomainWindow>) -> impl Iterator<Item = u64> {
    windows.into_iter().flat_map(|window| window.extents().flatten())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_byte_has_one_owner_whose_domain_has_it(case in case()) {
        let partition = case.partition();
        let mut owners = vec![None; (case.region.end - case.region.start) as usize];
        for aggregator in 0..case.n {
            let domain = partition.domain(aggregator);
            let mut count = 0;
            for at in bytes([domain.window(0, u64::MAX)]) {
                let owner = &mut owners[(at - case.region.start) as usize];
                prop_assert_eq!(owner.replace(aggregator), None, "byte {} twice", at);
                prop_assert_eq!(partition.owner(at), aggregator, "byte {}", at);
                count += 1;
            }
            prop_assert_eq!(domain.bytes(), count);
        }
        for (at, owner) in case.region.clone().zip(owners) {
            prop_assert_eq!(owner, Some(case.owner(at)), "byte {}", at);
        }
    }

    #[test]
    fn windows_are_the_domain(case in case(), buffer in 1u64..100) {
        let partition = case.partition();
        for aggregator in 0..case.n {
            let domain = partition.domain(aggregator);
            let windows: Vec<_> = (0..domain.windows(buffer)).map(|r| domain.window(r, buffer)).collect();
            let whole = domain.window(0, u64::MAX);
            prop_assert!(bytes(windows.iter().copied()).eq(bytes([whole])));
            for window in &windows {
                prop_assert!(!window.is_empty() && window.bytes() <= buffer);
                let extents: Vec<_> = window.extents().collect();
                prop_assert!(extents.windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert_eq!(extents.iter().map(|e| e.end - e.start).sum::<u64>(), window.bytes());
                prop_assert_eq!(extents.first().map(|e| e.start), Some(window.lo()));
                prop_assert_eq!(extents.last().map(|e| e.end), Some(window.hi()));
            }
            prop_assert!(windows.windows(2).all(|pair| pair[0].hi() <= pair[1].lo()));
            prop_assert!(domain.window(windows.len() as u64, buffer).is_empty());
        }
    }

    #[test]
    fn rounds_do_not_share_a_unit(case in case(), units in 1u64..5, odd in 0u64..7) {
        let partition = case.partition();
        let buffer = case.unit * units + odd % case.unit;
        for aggregator in 0..case.n {
            let domain = partition.domain(aggregator);
            for round in 1..domain.windows(buffer) {
                let (before, after) = (domain.window(round - 1, buffer), domain.window(round, buffer));
                prop_assert!((before.hi() - 1) / case.unit < after.lo() / case.unit);
            }
        }
    }

    #[test]
    fn aligned_and_cyclic_domains_do_not_share_a_unit(case in case(), other in 1..PartitioningMethod::ALL.len()) {
        prop_assert_eq!(PartitioningMethod::ALL[0], PartitioningMethod::Even);
        let case = Case { method: PartitioningMethod::ALL[other], ..case };
        let partition = case.partition();
        for at in case.region.clone() {
            let first = (at / case.unit * case.unit).max(case.region.start);
            prop_assert_eq!(partition.owner(at), partition.owner(first));
        }
    }

    #[test]
    fn static_cyclic_owners_are_the_same_in_every_call(case in case(), lo in 0u64..200, length in 0u64..900) {
        let case = Case { method: PartitioningMethod::StaticCyclic, ..case };
        let (one, other) = (case.partition(), Case { region: lo..lo + length, ..case.clone() }.partition());
        for at in (lo..lo + length).filter(|at| case.region.contains(at)) {
            prop_assert_eq!(one.owner(at), other.owner(at));
        }
    }

    /// Blocks are striped over servers cyclically. With more aggregators than servers, each aggregator
    /// accesses one server in every call. With a divisor of the number of servers, each aggregator accesses
    /// the same few servers, and no two access the same one.
    #[test]
    fn group_cyclic_aggregators_keep_to_their_servers(case in case()) {
        let case = Case { method: PartitioningMethod::GroupCyclic, ..case };
        let partition = case.partition();
        for at in case.region.clone() {
            let (owner, server) = (partition.owner(at), at / case.unit % u64::from(case.servers));
            if case.n >= case.servers {
                prop_assert_eq!(u64::from(owner % case.servers), server);
            } else if case.servers.is_multiple_of(case.n) {
                prop_assert_eq!(u64::from(owner), server % u64::from(case.n));
            }
        }
    }

    /// Aggregators of different groups do not interleave at a server.
    #[test]
    fn group_cyclic_groups_follow_each_other(case in case()) {
        let case = Case { method: PartitioningMethod::GroupCyclic, n: case.n + case.servers, ..case };
        let partition = case.partition();
        for server in 0..u64::from(case.servers) {
            let here = |at: &u64| at / case.unit % u64::from(case.servers) == server;
            let mut owners: Vec<_> =
                case.region.clone().filter(here).map(|at| partition.owner(at)).collect();
            owners.dedup();
            let visits = owners.len();
            owners.sort_unstable();
            owners.dedup();
            prop_assert_eq!(owners.len(), visits);
        }
    }

    /// Arbitrary numbers do not overflow, the sizes add up, and the ends of windows belong to their owner.
    #[test]
    fn extremes_are_dealt_out_too(
        method in method(),
        (lo, hi) in (number(), number()).prop_map(|(a, b)| (a.min(b), a.max(b))),
        n in 1u32..40,
        big_n in any::<bool>(),
        unit in number(),
        servers in prop_oneof![1u32..50, Just(u32::MAX)],
        buffer in number(),
        round in number(),
    ) {
        let many = if big_n { u32::MAX } else { n };
        let partition = FileDomains::new(method, lo..hi, many, unit, servers);
        let mut sum = 0u128;
        for aggregator in (0..n).chain([many / 2, many - 1, many]) {
            let domain = partition.domain(aggregator);
            sum += u128::from(domain.bytes());
            let rounds = domain.windows(buffer);
            prop_assert_eq!(rounds == 0, domain.is_empty());
            for round in [0, round % rounds.max(1), rounds.saturating_sub(1)] {
                let window = domain.window(round, buffer);
                prop_assert!(window.bytes() <= buffer.max(1));
                prop_assert_eq!(window.is_empty(), domain.is_empty());
                if !window.is_empty() {
                    prop_assert!(lo <= window.lo() && window.hi() <= hi);
                    prop_assert_eq!(partition.owner(window.lo()), aggregator);
                    prop_assert_eq!(partition.owner(window.hi() - 1), aggregator);
                    prop_assert!(window.extents().take(100).all(|extent| extent.start < extent.end));
                }
            }
        }
        if !big_n {
            let again = [many / 2, many - 1].map(|a| u128::from(partition.domain(a).bytes()));
            prop_assert_eq!(sum - again[0] - again[1], u128::from(hi - lo));
        }
    }
}

/// Numbers of every magnitude, often at a boundary.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => (any::<u64>(), 0u32..64).prop_map(|(n, shift)| n >> shift),
        2 => ((0u32..64), 0u64..5).prop_map(|(bit, off)| (1u64 << bit).wrapping_add(off).wrapping_sub(2)),
        1 => (0u64..5).prop_map(|off| u64::MAX - off),
    ]
}
