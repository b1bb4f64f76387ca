//! The machine against a flat-byte model: many simulated ranks on simulated nodes in one thread, stepped in
//! random order, with delayed messages and failing file accesses.

mod simulated;

use pario_domain::PartitioningMethod;
use pario_reference_model::Rng;
use pario_two_phase::{CollectiveOutcome, TransferStrategy};
use pario_types::ErrorKind;
use simulated::{Rank, Simulation, filled, random_parts};

const METHODS: [PartitioningMethod; 4] = [
    PartitioningMethod::Even,
    PartitioningMethod::Aligned,
    PartitioningMethod::StaticCyclic,
    PartitioningMethod::GroupCyclic,
];

/// A random set-up: ranks, nodes, windows and partitioning method.
fn simulation(rng: &mut Rng) -> Simulation {
    let ranks = 1 + rng.below(16) as u32;
    let nodes = 1 + rng.below(4);
    let keys: Vec<u64> = (0..ranks).map(|_| rng.below(nodes)).collect();
    let mut aggregators: Vec<u32> = (0..ranks).filter(|_| rng.below(2) == 0).collect();
    if aggregators.is_empty() || rng.below(3) == 0 {
        aggregators = (0..ranks).collect();
    }
    Simulation::new(
        &keys,
        simulated::SimulationSettings {
            strategy: TransferStrategy::TwoPhase,
            method: METHODS[rng.below(4) as usize],
            unit: 1 + rng.below(64),
            servers: 1 + rng.below(6) as u32,
            window: 16 + rng.below(100),
            aggregators,
            single_writer: rng.below(2) == 0,
            exclusive_domains: rng.below(3) == 0,
        },
        rng.next_u64(),
    )
}

#[test]
fn writes_change_only_the_written_bytes() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut simulation = simulation(&mut rng);
        let before = filled(rng.below(1500) as usize, 0xEE);
        simulation.disk().bytes = before.clone();
        let mut expected = before;
        for _ in 0..1 + rng.below(3) {
            let parts = random_parts(&mut rng, simulation.ranks(), 1200);
            for part in &parts {
                part.write_to(&mut expected);
            }
            let outcomes = simulation.collective(true, &parts, &mut rng);
            for (rank, outcome) in outcomes.iter().enumerate() {
                assert!(
                    matches!(outcome, CollectiveOutcome::Moved(n) if *n == parts[rank].bytes()),
                    "seed {seed}: {outcome:?}"
                );
            }
            assert_eq!(simulation.disk().bytes, expected, "seed {seed}");
        }
        assert_eq!(simulation.disk().locked(), 0, "seed {seed}: locks are released");
    }
}

#[test]
fn reads_return_the_bytes_before_the_end_of_the_file() {
    for seed in 0..400 {
        let mut rng = Rng::new(1000 + seed);
        let mut simulation = simulation(&mut rng);
        let size = rng.below(1600) as usize;
        simulation.disk().bytes = (0..size).map(|i| (i * 7 + 3) as u8).collect();
        let mut parts = random_parts(&mut rng, simulation.ranks(), 1200);
        if rng.below(2) == 0 {
            // All ranks read the same bytes, as overlapping tiles do.
            let first = parts[0].clone();
            parts.iter_mut().for_each(|part| *part = Rank::reader(&first));
        }
        let outcomes = simulation.collective(false, &parts, &mut rng);
        let disk = simulation.disk().bytes.clone();
        for (rank, outcome) in outcomes.iter().enumerate() {
            let (bytes, visible) = parts[rank].read_from(&disk);
            assert!(
                matches!(outcome, CollectiveOutcome::Moved(n) if *n == visible),
                "seed {seed}: {outcome:?}, not {visible}"
            );
            assert_eq!(simulation.memory(rank), bytes, "seed {seed} rank {rank}");
        }
    }
}

#[test]
fn unwritten_bytes_keep_their_value_where_ranks_overlap() {
    // Two ranks write the same half, so the sizes add up to the whole. The other half must keep its value.
    for nodes in [[0, 0], [0, 1]] {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut simulation = simulation_of(&nodes, 64);
            simulation.disk().bytes = filled(64, 0xAA);
            let part = Rank::writer(&[(0, 16), (48, 16)], 5);
            let outcomes = simulation.collective(true, &[part.clone(), part.clone()], &mut rng);
            assert!(outcomes.iter().all(|o| matches!(o, CollectiveOutcome::Moved(32))), "{outcomes:?}");
            let mut expected = filled(64, 0xAA);
            part.write_to(&mut expected);
            assert_eq!(simulation.disk().bytes, expected);
        }
    }
}

fn simulation_of(nodes: &[u64], window: u64) -> Simulation {
    let aggregators = (0..nodes.len() as u32).collect();
    let (strategy, method) = (TransferStrategy::TwoPhase, PartitioningMethod::Even);
    Simulation::new(
        nodes,
        simulated::SimulationSettings {
            strategy,
            method,
            unit: 1,
            servers: 1,
            window,
            aggregators,
            single_writer: true,
            exclusive_domains: false,
        },
        7,
    )
}

#[test]
fn only_windows_with_holes_are_read_before_they_are_written() {
    let mut rng = Rng::new(3);
    let mut simulation = simulation_of(&[0, 0], 16);
    // The third of four windows has a hole.
    let outcomes = simulation.collective(
        true,
        &[
            Rank::writer(&[(0, 8), (16, 8), (32, 8), (48, 8)], 1),
            Rank::writer(&[(8, 8), (24, 8), (44, 4), (56, 8)], 2),
        ],
        &mut rng,
    );
    assert!(outcomes.iter().all(|o| matches!(o, CollectiveOutcome::Moved(_))));
    assert_eq!(simulation.counters().rmw, 1);
    assert_eq!(simulation.disk().writes, 4);
    // The whole range is written: no announcement, no read.
    simulation.collective(true, &[Rank::writer(&[(0, 32)], 1), Rank::writer(&[(32, 32)], 2)], &mut rng);
    assert_eq!((simulation.counters().rmw, simulation.counters().locks), (0, 0));
}

#[test]
fn a_failure_anywhere_reaches_every_rank_and_the_next_access_works() {
    for seed in 0..200 {
        let mut rng = Rng::new(5000 + seed);
        let mut simulation = simulation(&mut rng);
        let write = rng.below(2) == 0;
        simulation.disk().bytes = filled(1200, 1);
        let parts = random_parts(&mut rng, simulation.ranks(), 1200);
        if parts.iter().all(|part| part.bytes() == 0) {
            continue;
        }
        simulation.disk().fail_after = Some((rng.below(3), ErrorKind::NoSpace));
        let outcomes = simulation.collective(write, &parts, &mut rng);
        let failed = simulation.disk().failed;
        simulation.disk().fail_after = None;
        let mine =
            outcomes.iter().filter(|o| matches!(o, CollectiveOutcome::Failed(ErrorKind::NoSpace))).count();
        let others =
            outcomes.iter().filter(|o| matches!(o, CollectiveOutcome::FailedOnPeer(_, ErrorKind::NoSpace)));
        if failed {
            assert!(mine >= 1 && mine + others.count() == outcomes.len(), "seed {seed}: {outcomes:?}");
        } else {
            assert!(
                outcomes.iter().all(|o| matches!(o, CollectiveOutcome::Moved(_))),
                "seed {seed}: {outcomes:?}"
            );
        }
        let parts = random_parts(&mut rng, simulation.ranks(), 500);
        let outcomes = simulation.collective(true, &parts, &mut rng);
        assert!(
            outcomes.iter().all(|o| matches!(o, CollectiveOutcome::Moved(_))),
            "seed {seed}: {outcomes:?}"
        );
    }
}

#[test]
fn an_invalid_argument_stops_all_ranks_before_a_byte_moves() {
    let mut rng = Rng::new(11);
    let mut simulation = simulation_of(&[0, 0, 1, 1, 2], 32);
    let mut parts = random_parts(&mut rng, 5, 300);
    parts[3] = Rank::refusing(ErrorKind::Count);
    let outcomes = simulation.collective(true, &parts, &mut rng);
    assert!(
        outcomes.iter().all(|o| matches!(o, CollectiveOutcome::Refused(3, ErrorKind::Count))),
        "{outcomes:?}"
    );
    assert_eq!(simulation.disk().writes, 0);
}

#[test]
fn ranks_in_different_calls_get_an_error() {
    let mut rng = Rng::new(12);
    let mut simulation = simulation_of(&[0, 0, 1], 32);
    let parts =
        vec![Rank::writer(&[(0, 4)], 1), Rank::writer(&[(4, 4)], 2).in_call(9), Rank::writer(&[(8, 4)], 3)];
    let outcomes = simulation.collective(true, &parts, &mut rng);
    assert!(
        outcomes.iter().all(|o| matches!(o, CollectiveOutcome::Refused(1, ErrorKind::NotSame))),
        "{outcomes:?}"
    );
}

#[test]
fn a_write_retries_until_it_gets_the_lock() {
    let mut rng = Rng::new(13);
    let mut simulation = simulation_of(&[0, 0], 16);
    simulation.disk().bytes = filled(32, 9);
    simulation.disk().refuse_locks = 25;
    let parts = [Rank::writer(&[(0, 3)], 1), Rank::writer(&[(5, 3)], 2)];
    let outcomes = simulation.collective(true, &parts, &mut rng);
    assert!(outcomes.iter().all(|o| matches!(o, CollectiveOutcome::Moved(3))), "{outcomes:?}");
    assert_eq!(simulation.disk().refuse_locks, 0);
}
