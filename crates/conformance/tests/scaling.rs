//! MPI programs that go on while `pario scale` changes the servers of their partition.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pario_conformance::partition::{NAME, Site, TestPartition};
use pario_conformance::{
    BOTH, HostMpi, ProgramRun, SourceKind, compile, eventually, same_bytes, scratch, workspace_dir,
};

/// Bytes of a piece, pieces of a rank, and ranks, as the program has them.
const PIECE: usize = 3000;
const PIECES: usize = 40;
const RANKS: usize = 2;

/// One server is added after each round but the last.
const ROUNDS: usize = 4;

/// The most that a round may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The bytes that the ranks write in a round.
fn written(round: usize) -> Vec<u8> {
    let value = |rank: usize, at: usize| (1 + (round * 31 + rank * 7 + at * 13 + at / 251) % 250) as u8;
    let mut bytes = Vec::with_capacity(PIECE * PIECES * RANKS);
    for piece in 0..PIECES {
        for rank in 0..RANKS {
            bytes.extend((piece * PIECE..(piece + 1) * PIECE).map(|at| value(rank, at)));
        }
    }
    bytes
}

fn grow_under(host: HostMpi, hints: &str) {
    let partition = TestPartition::up(1, 4096, "4M");
    let marks = scratch();
    let source = workspace_dir().join("crates/conformance/programs/partitions/growing.c");
    let program = compile(host, source, SourceKind::C, &[]);
    let run = ProgramRun::new(host, RANKS as u32, program).arg(format!("pario:{NAME}")).arg(marks.path());
    let run = run.arg(ROUNDS.to_string()).preload(true).timeout(4 * LIMIT.as_secs());
    let site = Site { partition: &partition, hints, nodes: &[] };
    let run = run.on(&site, Path::new("/nowhere"));
    let output = std::thread::scope(|scope| {
        let grower = scope.spawn(|| {
            for round in 0..ROUNDS {
                assert!(eventually(LIMIT, || marks.join(format!("done.{round}")).exists()), "round {round}");
                if round + 1 < ROUNDS {
                    let place = partition.data(round as u16 + 1).display().to_string();
                    partition.pario(&["scale", NAME, "--add", &place]);
                }
                fs::write(marks.join(format!("go.{round}")), "").expect("a scratch directory takes files");
            }
        });
        let output = run.run();
        grower.join().expect("servers can be added");
        output
    });
    assert!(output.expect_success().stdout.contains("passed"));
    let mut all = Vec::new();
    for round in 0..ROUNDS {
        let expected = written(round);
        same_bytes(
            &format!("the file of round {round}"),
            &partition.cat(&format!("/round{round}")),
            &expected,
        );
        let said = partition.pario(&["stat", &format!("{NAME}:/round{round}")]);
        assert!(
            said.contains(&format!("over {0} of {0} servers", round + 1)),
            "new files use all servers: {said}"
        );
        all.extend(expected);
    }
    same_bytes("the file that was open all the time", &partition.cat("/all"), &all);
    let said = partition.pario(&["stat", &format!("{NAME}:/all")]);
    assert!(said.contains("over 1 of 1 servers"), "existing files stay where they are: {said}");
    let said = partition.pario(&["check", NAME]);
    assert!(said.contains("nothing is wrong"), "{said}");
}

#[test]
fn a_partition_grows_under_a_program_that_writes_to_its_servers() {
    BOTH.into_iter().for_each(|host| grow_under(host, "pario_strategy=server-directed"));
}

#[test]
fn a_partition_grows_under_a_program_with_tier_1() {
    BOTH.into_iter().for_each(|host| grow_under(host, "pario_strategy=client-directed"));
}
