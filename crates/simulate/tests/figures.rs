//! The known orderings of file-domain partitionings. They follow from lock conflicts, callbacks that flush, and wasted
//! read-ahead: no number of the machine depends on a method. The module `claims` has the exact claims.

use pario_simulate::{CLAIMS, Callback, Protocol, Rounds, Setup, Size, Workload, run};
use proptest::prelude::*;

fn holds(name: &str) {
    let claim = CLAIMS.iter().find(|claim| claim.name == name).expect("a claim");
    let finding = claim.check(&Setup::default());
    assert!(finding.holds, "{}: {}", claim.text, finding.figures);
}

/// One test for each claim, so that they run in parallel.
macro_rules! claims {
    ($($name:ident $claim:literal,)+) => {
        $(#[test] fn $name() { holds($claim); })+

        #[test]
        fn every_claim_has_a_test() {
            let tested = [$($claim),+];
            assert!(CLAIMS.iter().map(|claim| claim.name).eq(tested));
        }
    };
}

claims! {
    server_locks_want_cyclic_writes "server-writes-cyclic",
    group_cyclic_writes_keep_scaling "server-writes-group-scales",
    bt_spikes_where_aggregators_divide_the_servers "server-writes-bt-spikes",
    tokens_want_aligned_writes "token-writes-aligned",
    even_writes_are_aligned_by_chance "token-writes-even-aligned",
    even_writes_fall_where_they_are_not "token-writes-even-unaligned",
    static_cyclic_reads_are_last "reads-cyclic-last",
    reads_differ_little "reads-alike",
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    for protocol in Protocol::ALL {
        for rounds in [Rounds::Together, Rounds::Free] {
            let of = |seed| {
                let method = pario_domain::PartitioningMethod::Even;
                let setup = Setup { protocol, rounds, method, servers: 4, seed, ..Setup::default() };
                let work = Workload::named("s3d", 27, Size { edge: 20, calls: 6 }).expect("sound");
                run(&setup, &work).expect("runs")
            };
            assert_eq!(of(5), of(5));
            assert_ne!(of(5).time, of(6).time);
        }
    }
}

fn any_setup() -> impl Strategy<Value = Setup> {
    let how = (0..3usize, any::<bool>(), any::<bool>(), any::<bool>(), any::<u64>());
    let sizes = (1u16..6, 1u64..20, 1u64..70);
    (prop::sample::select(&pario_domain::PartitioningMethod::ALL[..]), how, sizes).prop_map(
        |(method, how, sizes)| {
            let (protocol, write, free, part, seed) = how;
            let (servers, stripe, buffer) = sizes;
            Setup {
                protocol: Protocol::ALL[protocol],
                callback: part.then_some(Callback::Part),
                method,
                write,
                servers,
                stripe: stripe * 100,
                buffer: buffer * 100,
                rounds: if free { Rounds::Free } else { Rounds::Together },
                seed,
                ..Setup::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// With any sizes the simulation ends, and clients and lock managers agree on the lock traffic.
    #[test]
    fn every_run_ends_and_both_sides_count_alike(
        setup in any_setup(),
        ranks in 1u32..20,
        name in prop::sample::select(&["coll_perf", "tile", "s3d", "bt"][..]),
        edge in 4u64..8,
    ) {
        let ranks = if name == "bt" { ranks.isqrt().pow(2) } else { ranks };
        let work = Workload::named(name, ranks, Size { edge, calls: 2 }).expect("sound");
        let outcome = run(&setup, &work).expect("runs");
        prop_assert_eq!(outcome.seen.requests, outcome.locks.requests);
        prop_assert_eq!(outcome.seen.grants, outcome.locks.requests);
        prop_assert_eq!(outcome.locks.grants, outcome.locks.requests);
        prop_assert_eq!(outcome.seen.revocations, outcome.locks.revocations);
        prop_assert!(setup.write || setup.protocol == Protocol::Lease || outcome.locks.conflicts == 0);
        prop_assert!((0.0..=1.0).contains(&outcome.io_share));
    }
}
