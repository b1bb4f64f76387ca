//! Two programs that use the same file of a partition at the same time, each with blocks of it in tier 1: after sync, barrier,
//! sync each reads the writes of the other, and so does `pario cat`.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pario_conformance::partition::{NAME, Site, TestPartition};
use pario_conformance::{
    HostMpi, ProgramRun, Scratch, SourceKind, compile, eventually, same_bytes, scratch, workspace_dir,
};

const ROUNDS: usize = 40;

/// The most that a run may take.
const SECONDS: u64 = 30;

const CLIENTS: &str = "pario_strategy=client-directed";
const FEW_BLOCKS: &str = "pario_strategy=client-directed;pario_tier1_size=64k";

/// One of the programs.
fn one(
    host: HostMpi,
    number: usize,
    seed: u64,
    hints: &str,
    partition: &TestPartition,
    dir: &Scratch,
) -> ProgramRun {
    let source = workspace_dir().join("crates/conformance/programs/partitions/handover.c");
    let program = compile(host, source, SourceKind::C, &[]);
    let run = ProgramRun::new(host, 2, program).arg(format!("pario:{NAME}/file")).arg(dir.path());
    let run = run.args([number.to_string(), seed.to_string(), ROUNDS.to_string()]);
    let site = Site { partition, hints, nodes: &[] };
    run.preload(true).timeout(SECONDS).env("PARIO_STATS", "json").on(&site, Path::new("/nowhere"))
}

/// Reads the file whenever the programs wait for that, until they have ended; the number of reads.
fn look_on(partition: &TestPartition, dir: &Scratch, are_over: &AtomicBool) -> usize {
    let mut looks = 0;
    for round in (4..ROUNDS).step_by(5) {
        let expected = dir.join(format!("expect.{round}"));
        // The programs end before this limit.
        let limit = Duration::from_secs(2 * SECONDS);
        let _ = eventually(limit, || expected.exists() || are_over.load(Ordering::Relaxed));
        if !expected.exists() {
            return looks;
        }
        let found = partition.cat("/file");
        let expected = fs::read(&expected).expect("it has been written");
        // The programs are told first: they would wait for ever if this fails.
        fs::write(dir.join(format!("seen.{round}")), "").expect("a scratch directory takes new files");
        same_bytes(&format!("what `pario cat` says in round {round}, and what is"), &found, &expected);
        looks += 1;
    }
    looks
}

#[track_caller]
fn hand_over(seed: u64, hosts: [HostMpi; 2], hints: [&str; 2], (servers, stripe, cache): (u16, u64, &str)) {
    let partition = TestPartition::up(servers, stripe, cache);
    let dir = scratch();
    let runs = [0, 1].map(|number| one(hosts[number], number, seed, hints[number], &partition, &dir));
    let are_over = AtomicBool::new(false);
    let (outputs, looks) = std::thread::scope(|scope| {
        let looker = scope.spawn(|| look_on(&partition, &dir, &are_over));
        let outputs = ProgramRun::together([&runs[0], &runs[1]]);
        are_over.store(true, Ordering::Relaxed);
        (outputs, looker.join())
    });
    let mut recalls = 0;
    for output in outputs {
        let output = output.expect_success();
        assert!(output.stdout.contains("passed"), "{output}");
        let [report] = &output.reports()[..] else { panic!("one file was opened once: {output}") };
        assert!(report.wrote_by("client-directed"), "{output}");
        recalls += report.total("recalls");
    }
    assert_eq!(looks.expect("`pario cat` shows what is"), ROUNDS / 5);
    assert!(recalls > 0, "no program had what the other wanted");
}

#[test]
fn two_programs_read_each_others_writes() {
    hand_over(1, [HostMpi::Mpich, HostMpi::OpenMpi], [CLIENTS; 2], (2, 4096, "4M"));
}

#[test]
fn two_programs_read_each_others_writes_with_a_small_cache() {
    hand_over(2, [HostMpi::OpenMpi, HostMpi::Mpich], [FEW_BLOCKS, CLIENTS], (3, 65536, "1M"));
}
