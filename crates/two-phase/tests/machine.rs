//! The machine against a flat-byte model: many pretended ranks on pretended nodes, in one thread, stepped in
//! random order, with messages that arrive late and file accesses that fail.

mod pretend;

use pario_domain::Method;
use pario_reference_model::Rng;
use pario_two_phase::{Outcome, Strategy};
use pario_types::ErrorKind;
use pretend::{Rank, Scene, deal, filled};

const METHODS: [Method; 4] = [Method::Even, Method::Aligned, Method::StaticCyclic, Method::GroupCyclic];

/// A random set-up: ranks, nodes, windows, partitioning.
fn scene(rng: &mut Rng) -> Scene {
    let ranks = 1 + rng.below(16) as u32;
    let nodes = 1 + rng.below(4);
    let keys: Vec<u64> = (0..ranks).map(|_| rng.below(nodes)).collect();
    let mut aggregators: Vec<u32> = (0..ranks).filter(|_| rng.below(2) == 0).collect();
    if aggregators.is_empty() || rng.below(3) == 0 {
        aggregators = (0..ranks).collect();
    }
    Scene::new(
        &keys,
        pretend::Wish {
            strategy: Strategy::Windows,
            method: METHODS[rng.below(4) as usize],
            unit: 1 + rng.below(64),
            servers: 1 + rng.below(6) as u32,
            window: 16 + rng.below(100),
            aggregators,
            one_writer: rng.below(2) == 0,
            owned: rng.below(3) == 0,
        },
        rng.next_u64(),
    )
}

#[test]
fn writes_change_what_was_written_and_nothing_else() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut scene = scene(&mut rng);
        let before = filled(rng.below(1500) as usize, 0xEE);
        scene.disk().bytes = before.clone();
        let mut expected = before;
        for _ in 0..1 + rng.below(3) {
            let parts = deal(&mut rng, scene.ranks(), 1200);
            for part in &parts {
                part.write_to(&mut expected);
            }
            let outcomes = scene.collective(true, &parts, &mut rng);
            for (rank, outcome) in outcomes.iter().enumerate() {
                assert!(
                    matches!(outcome, Outcome::Moved(n) if *n == parts[rank].bytes()),
                    "seed {seed}: {outcome:?}"
                );
            }
            assert_eq!(scene.disk().bytes, expected, "seed {seed}");
        }
        assert_eq!(scene.disk().locked(), 0, "seed {seed}: locks are given back");
    }
}

#[test]
fn reads_deliver_what_is_there_up_to_the_end_of_the_file() {
    for seed in 0..400 {
        let mut rng = Rng::new(1000 + seed);
        let mut scene = scene(&mut rng);
        let size = rng.below(1600) as usize;
        scene.disk().bytes = (0..size).map(|i| (i * 7 + 3) as u8).collect();
        let mut parts = deal(&mut rng, scene.ranks(), 1200);
        if rng.below(2) == 0 {
            // Everybody reads the same bytes, as tiles with overlap do.
            let first = parts[0].clone();
            parts.iter_mut().for_each(|part| *part = Rank::reader(&first));
        }
        let outcomes = scene.collective(false, &parts, &mut rng);
        let disk = scene.disk().bytes.clone();
        for (rank, outcome) in outcomes.iter().enumerate() {
            let (bytes, visible) = parts[rank].read_from(&disk);
            assert!(
                matches!(outcome, Outcome::Moved(n) if *n == visible),
                "seed {seed}: {outcome:?}, not {visible}"
            );
            assert_eq!(scene.memory(rank), bytes, "seed {seed} rank {rank}");
        }
    }
}

#[test]
fn bytes_that_nobody_writes_survive_where_ranks_overlap() {
    // Two ranks write the same half, so the sizes add up to the whole: the other half must survive.
    for nodes in [[0, 0], [0, 1]] {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut scene = scene_of(&nodes, 64);
            scene.disk().bytes = filled(64, 0xAA);
            let part = Rank::writer(&[(0, 16), (48, 16)], 5);
            let outcomes = scene.collective(true, &[part.clone(), part.clone()], &mut rng);
            assert!(outcomes.iter().all(|o| matches!(o, Outcome::Moved(32))), "{outcomes:?}");
            let mut expected = filled(64, 0xAA);
            part.write_to(&mut expected);
            assert_eq!(scene.disk().bytes, expected);
        }
    }
}

fn scene_of(nodes: &[u64], window: u64) -> Scene {
    let aggregators = (0..nodes.len() as u32).collect();
    let (strategy, method) = (Strategy::Windows, Method::Even);
    Scene::new(
        nodes,
        pretend::Wish {
            strategy,
            method,
            unit: 1,
            servers: 1,
            window,
            aggregators,
            one_writer: true,
            owned: false,
        },
        7,
    )
}

#[test]
fn only_windows_with_holes_are_read_before_they_are_written() {
    let mut rng = Rng::new(3);
    let mut scene = scene_of(&[0, 0], 16);
    // Of four windows the third has a hole.
    let outcomes = scene.collective(
        true,
        &[
            Rank::writer(&[(0, 8), (16, 8), (32, 8), (48, 8)], 1),
            Rank::writer(&[(8, 8), (24, 8), (44, 4), (56, 8)], 2),
        ],
        &mut rng,
    );
    assert!(outcomes.iter().all(|o| matches!(o, Outcome::Moved(_))));
    assert_eq!(scene.tally().rmw, 1);
    assert_eq!(scene.disk().writes, 4);
    // All of it: no announcement, no read.
    scene.collective(true, &[Rank::writer(&[(0, 32)], 1), Rank::writer(&[(32, 32)], 2)], &mut rng);
    assert_eq!((scene.tally().rmw, scene.tally().locks), (0, 0));
}

#[test]
fn a_failure_anywhere_reaches_every_rank_and_the_next_access_works() {
    for seed in 0..200 {
        let mut rng = Rng::new(5000 + seed);
        let mut scene = scene(&mut rng);
        let write = rng.below(2) == 0;
        scene.disk().bytes = filled(1200, 1);
        let parts = deal(&mut rng, scene.ranks(), 1200);
        if parts.iter().all(|part| part.bytes() == 0) {
            continue;
        }
        scene.disk().fail_after = Some((rng.below(3), ErrorKind::NoSpace));
        let outcomes = scene.collective(write, &parts, &mut rng);
        let failed = scene.disk().failed;
        scene.disk().fail_after = None;
        let mine = outcomes.iter().filter(|o| matches!(o, Outcome::Failed(ErrorKind::NoSpace))).count();
        let others = outcomes.iter().filter(|o| matches!(o, Outcome::FailedElsewhere(_, ErrorKind::NoSpace)));
        if failed {
            assert!(mine >= 1 && mine + others.count() == outcomes.len(), "seed {seed}: {outcomes:?}");
        } else {
            assert!(outcomes.iter().all(|o| matches!(o, Outcome::Moved(_))), "seed {seed}: {outcomes:?}");
        }
        let parts = deal(&mut rng, scene.ranks(), 500);
        let outcomes = scene.collective(true, &parts, &mut rng);
        assert!(outcomes.iter().all(|o| matches!(o, Outcome::Moved(_))), "seed {seed}: {outcomes:?}");
    }
}

#[test]
fn a_bad_claim_stops_everybody_before_a_byte_moves() {
    let mut rng = Rng::new(11);
    let mut scene = scene_of(&[0, 0, 1, 1, 2], 32);
    let mut parts = deal(&mut rng, 5, 300);
    parts[3] = Rank::refusing(ErrorKind::Count);
    let outcomes = scene.collective(true, &parts, &mut rng);
    assert!(outcomes.iter().all(|o| matches!(o, Outcome::Refused(3, ErrorKind::Count))), "{outcomes:?}");
    assert_eq!(scene.disk().writes, 0);
}

#[test]
fn ranks_that_meet_in_different_calls_are_told() {
    let mut rng = Rng::new(12);
    let mut scene = scene_of(&[0, 0, 1], 32);
    let parts =
        vec![Rank::writer(&[(0, 4)], 1), Rank::writer(&[(4, 4)], 2).in_call(9), Rank::writer(&[(8, 4)], 3)];
    let outcomes = scene.collective(true, &parts, &mut rng);
    assert!(outcomes.iter().all(|o| matches!(o, Outcome::Refused(1, ErrorKind::NotSame))), "{outcomes:?}");
}

#[test]
fn a_lock_held_by_somebody_else_is_waited_for() {
    let mut rng = Rng::new(13);
    let mut scene = scene_of(&[0, 0], 16);
    scene.disk().bytes = filled(32, 9);
    scene.disk().refuse_locks = 25;
    let parts = [Rank::writer(&[(0, 3)], 1), Rank::writer(&[(5, 3)], 2)];
    let outcomes = scene.collective(true, &parts, &mut rng);
    assert!(outcomes.iter().all(|o| matches!(o, Outcome::Moved(3))), "{outcomes:?}");
    assert_eq!(scene.disk().refuse_locks, 0);
}
