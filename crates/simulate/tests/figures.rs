//! The orderings that file-domain partitionings are known for, on a machine of 16 servers: 64 processes (16 aggregators) are
//! then what 256 are on 64 servers. They come from lock conflicts, callbacks that flush, and read-ahead in vain: no number of the
//! machine knows of a method.

use pario_domain::Method::{self, Aligned, Even, GroupCyclic, StaticCyclic};
use pario_simulate::{Outcome, Protocol, Rounds, Setup, Size, Workload, run};

fn outcome(protocol: Protocol, method: Method, write: bool, ranks: u32, edge: u64) -> Outcome {
    let setup = Setup { protocol, method, write, servers: 16, ..Setup::default() };
    let work = Workload::named("coll_perf", ranks, Size { edge, calls: 3 }).expect("sound");
    run(&setup, &work).expect("runs")
}

fn bandwidth(protocol: Protocol, method: Method, write: bool, ranks: u32, edge: u64) -> f64 {
    outcome(protocol, method, write, ranks, edge).bandwidth_mib_s()
}

#[test]
fn server_locks_want_cyclic_writes() {
    for edge in [128, 100] {
        for ranks in [32, 64] {
            let of = |method| bandwidth(Protocol::Server, method, true, ranks, edge);
            let others = of(Even).max(of(Aligned));
            for cyclic in [StaticCyclic, GroupCyclic] {
                assert!(of(cyclic) > 2.0 * others, "{edge}, {ranks} ranks: {} and {others}", of(cyclic));
            }
        }
    }
}

#[test]
fn group_cyclic_writes_keep_scaling_beyond_the_servers() {
    for edge in [128, 100] {
        let row = |method| [64, 128, 256].map(|ranks| bandwidth(Protocol::Server, method, true, ranks, edge));
        let (group, fixed, even) = (row(GroupCyclic), row(StaticCyclic), row(Even));
        println!("{edge}: {group:?} {fixed:?} {even:?}");
        assert_eq!(group[0], fixed[0], "as many aggregators as servers: the same");
        assert!(group[1] > 1.3 * group[0] && group[2] > 1.3 * group[1], "{group:?}");
        assert!(fixed[1] < 0.9 * group[1] && fixed[2] < 0.7 * group[2], "{group:?} and {fixed:?}");
        // Per process it falls where the other one holds.
        assert!(fixed[2] / 4.0 < 0.6 * fixed[0], "{fixed:?}");
        assert!(group[2] > 2.0 * even[2]);
    }
}

#[test]
fn bt_spikes_where_the_aggregators_divide_the_servers() {
    let of = |ranks| {
        let setup = Setup { method: StaticCyclic, servers: 16, ..Setup::default() };
        let work = Workload::named("bt", ranks, Size { edge: 0, calls: 3 }).expect("sound");
        let outcome = run(&setup, &work).expect("runs");
        (outcome.aggregators, outcome.bandwidth_mib_s() / f64::from(outcome.aggregators), outcome.locks.conflicts)
    };
    let row = [16, 25, 36, 49, 64].map(of);
    println!("{row:?}");
    assert_eq!(row.map(|point| point.0), [4, 7, 9, 13, 16]);
    let spikes = [row[0], row[4]];
    for spike in spikes {
        assert_eq!(spike.2, 0);
        for other in &row[1..4] {
            assert!(other.2 > 100 && spike.1 > 1.1 * other.1, "{row:?}");
        }
    }
}

#[test]
fn tokens_want_aligned_writes() {
    for ranks in [64, 256] {
        let of = |edge, method| bandwidth(Protocol::Token, method, true, ranks, edge);
        // Even parts of this size begin at lock boundaries.
        let [even, aligned, fixed] = [Even, Aligned, StaticCyclic].map(|method| of(128, method));
        println!("{ranks}: {even} {aligned} {fixed}");
        assert!(even > 0.95 * aligned && aligned > 1.5 * fixed, "{even}, {aligned}, {fixed}");
        let [even, aligned, fixed] = [Even, Aligned, StaticCyclic].map(|method| of(100, method));
        println!("{ranks}: {even} {aligned} {fixed}");
        assert!(aligned > 1.1 * even && aligned > 1.1 * fixed, "{even}, {aligned}, {fixed}");
        if ranks == 256 {
            assert!(even - fixed < 0.5 * (aligned - fixed), "{even}, {aligned}, {fixed}");
        }
    }
}

#[test]
fn reads_differ_little_and_static_cyclic_is_last() {
    for protocol in Protocol::ALL {
        for edge in [128, 100] {
            for ranks in [64, 128] {
                let of = |method| outcome(protocol, method, false, ranks, edge);
                let [even, aligned, fixed] = [Even, Aligned, StaticCyclic].map(of);
                let [e, a, f] = [&even, &aligned, &fixed].map(Outcome::bandwidth_mib_s);
                println!("{protocol:?} {edge} {ranks}: {e} {a} {f}");
                assert!((e - a).abs() < 0.03 * a && f < e.min(a) && f > 0.85 * e.max(a), "{e}, {a}, {f}");
                assert!(fixed.wasted > 2 * even.wasted, "{} and {}", fixed.wasted, even.wasted);
                assert_eq!((even.locks.conflicts, fixed.locks.conflicts), (0, 0));
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    for protocol in Protocol::ALL {
        for rounds in [Rounds::Together, Rounds::Free] {
            let of = |seed| {
                let setup = Setup { protocol, rounds, method: Even, servers: 4, seed, ..Setup::default() };
                let work = Workload::named("s3d", 27, Size { edge: 20, calls: 6 }).expect("sound");
                run(&setup, &work).expect("runs")
            };
            assert_eq!(of(5), of(5));
            assert_ne!(of(5).time, of(6).time);
        }
    }
}

/// Whatever the sizes, it ends, and clients and managers agree on the lock traffic.
#[test]
fn every_run_ends_and_both_sides_count_alike() {
    use proptest::prelude::*;
    let any = (
        prop::sample::select(&Method::ALL[..]),
        (0..2usize, any::<bool>(), any::<bool>(), any::<bool>()),
        (1u32..40, 1u16..6, 1u64..20, 1u64..70),
        (prop::sample::select(&["coll_perf", "tile", "flash", "s3d"][..]), 4u64..9, any::<u64>()),
    );
    let config = ProptestConfig::with_cases(200);
    let tried = proptest::test_runner::TestRunner::new(config).run(&any, |(method, how, sizes, what)| {
        let (protocol, write, free, part) = how;
        let (ranks, servers, stripe, buffer) = sizes;
        let (name, edge, seed) = what;
        let setup = Setup {
            protocol: Protocol::ALL[protocol],
            callback: part.then_some(pario_simulate::Callback::Part),
            method,
            write,
            servers,
            stripe: stripe * 100,
            buffer: buffer * 100,
            rounds: if free { Rounds::Free } else { Rounds::Together },
            seed,
            ..Setup::default()
        };
        let edge = if name == "flash" { 1 } else { edge };
        let work = Workload::named(name, ranks, Size { edge, calls: 2 }).expect("sound");
        let outcome = run(&setup, &work).expect("runs");
        prop_assert_eq!(outcome.seen.requests, outcome.locks.requests);
        prop_assert_eq!(outcome.seen.grants, outcome.locks.requests);
        prop_assert_eq!(outcome.locks.grants, outcome.locks.requests);
        prop_assert_eq!(outcome.seen.revocations, outcome.locks.revocations);
        prop_assert!(write || outcome.locks.conflicts == 0);
        prop_assert!((0.0..=1.0).contains(&outcome.io_share));
        Ok(())
    });
    tried.expect("all end");
}
