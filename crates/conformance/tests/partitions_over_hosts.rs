//! MPI programs on partitions whose servers are on hosts of their own, with ranks beside them, elsewhere, or both: the
//! bytes equal those of the MPI library's own MPI-IO on every route. One host is cut off from the others during an access:
//! programs that need it get an error in time, and others continue. These tests need root; without it they print that and pass.

mod pattern;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pario_conformance::partition::{NAME, Site, TestPartition};
use pario_conformance::{
    HostMpi, Hosts, Output, ProgramRun, Scratch, SourceKind, compile, eventually, same_bytes, scratch,
    workspace_dir,
};
use pattern::{PLAIN, Setting, compare_placed};

const SERVERS: &str = "pario_strategy=server-directed";
const TWO_PHASE: &str = "pario_strategy=two-phase;cb_buffer_size=8192";
const CLIENTS: &str = "pario_strategy=client-directed";

const SETTINGS: &[Setting] = &[
    PLAIN,
    Setting { hints: SERVERS, ..PLAIN },
    Setting { hints: TWO_PHASE, ..PLAIN },
    Setting { hints: CLIENTS, ..PLAIN },
];

const SHAPES: &[&str] = &[
    "block3d:size=9,calls=2",
    "tile:size=7,op=iat,mem=spread",
    "random:size=12,piece=1024,op=split",
    "strided:size=60,piece=64,calls=2,old=1,cut=1",
    "holes:size=30,piece=100,op=iall,old=1",
    "segments:size=3000,op=at,calls=2",
    "ordered:size=100,op=ordered,old=1",
];

/// Runs all shapes on a partition with a server on each of some hosts and ranks on each of some.
#[track_caller]
fn compare(count: usize, servers: &[usize], on: &[usize], host: HostMpi, ranks: u32, settings: &[Setting]) {
    let Some(hosts) = Hosts::new(count).map(Arc::new) else { return };
    let partition = TestPartition::at(&hosts, servers, "stripe_size = 4096\ncache = \"2M\"\n");
    let place = |run: ProgramRun| run.at(&hosts, on).env("PARIO_STATS", "json");
    let outputs = compare_placed(&partition, host, ranks, SHAPES, settings, place);
    for (setting, output) in settings.iter().zip(&outputs) {
        expect_way(setting.hints, on.len() > 1, output);
    }
}

/// The bytes went the way that was asked for. `several`: the ranks are on several hosts.
#[track_caller]
fn expect_way(hints: &str, several: bool, output: &Output) {
    let reports = output.reports();
    // Every shape is a file that all ranks open together, besides what single ranks do before and after.
    assert!(reports.len() >= SHAPES.len(), "{output}");
    let sum = |name| reports.iter().map(|report| report.total(name)).sum::<u64>();
    assert!(sum("server_requests") > 0, "nothing was asked of a server: {output}");
    assert_eq!(sum("errors"), 0, "{output}");
    let by = |strategy| reports.iter().filter(|report| report.wrote_by(strategy)).count();
    match hints {
        SERVERS => {
            assert!(by("server-directed") >= SHAPES.len(), "{output}");
            assert_eq!(sum("messages"), 0, "ranks sent bytes to each other: {output}");
        }
        TWO_PHASE => {
            assert!(by("two-phase") > 0, "{output}");
            assert!(!several || sum("messages") > 0, "ranks of different hosts never talked: {output}");
        }
        CLIENTS => {
            assert!(by("client-directed") > 0 && sum("staged_bytes") > 0, "{output}");
            assert!(!several || sum("messages") > 0, "ranks of different hosts never talked: {output}");
        }
        _ => {}
    }
}

#[test]
fn all_servers_elsewhere() {
    compare(2, &[1], &[2], HostMpi::Mpich, 2, SETTINGS);
}

#[test]
fn servers_and_ranks_on_both_hosts() {
    compare(2, &[1, 2], &[1, 2], HostMpi::Mpich, 2, SETTINGS);
    compare(2, &[2, 1], &[1, 2], HostMpi::OpenMpi, 4, SETTINGS);
}

#[test]
fn some_ranks_beside_servers() {
    compare(3, &[1, 2], &[2, 3], HostMpi::OpenMpi, 4, SETTINGS);
    compare(3, &[1, 2, 3], &[3], HostMpi::Mpich, 2, &SETTINGS[1..2]);
}

#[test]
fn four_hosts() {
    compare(4, &[1, 2], &[3, 4], HostMpi::OpenMpi, 4, &SETTINGS[..3]);
    compare(4, &[1, 2, 3, 4], &[1, 2, 3, 4], HostMpi::OpenMpi, 4, &[SETTINGS[1], SETTINGS[3]]);
}

/// A run of `programs/hosts/cut.c`.
fn cut_run(
    host: HostMpi,
    ranks: u32,
    role: &str,
    file: &str,
    (dir, site): (&Scratch, &Site<'_>),
) -> ProgramRun {
    let source = workspace_dir().join("crates/conformance/programs/hosts/cut.c");
    let program = compile(host, source, SourceKind::C, &[]);
    let run = ProgramRun::new(host, ranks, program).preload(true).timeout(90);
    run.arg(role).arg(format!("pario:{NAME}/{file}")).arg(dir.path()).on(site, Path::new("/nowhere"))
}

/// Waits until a program has made a file of this name; whether it has.
fn heard(dir: &Scratch, name: &str) -> bool {
    eventually(Duration::from_secs(60), || dir.join(name).exists())
}

fn say(dir: &Scratch, name: &str) {
    std::fs::write(dir.join(name), "").expect("a scratch directory takes new files");
}

#[track_caller]
fn passed(output: Output) {
    let output = output.expect_success();
    assert!(output.stdout.contains("passed"), "{output}");
    for line in output.stdout.lines().filter(|line| *line != "passed") {
        eprintln!("{line}");
    }
}

/// The bytes that `cut.c` writes.
fn bytes(len: usize, round: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + 7 + round) as u8).collect()
}

/// A server's host is cut off: programs that need it fail in time, and one that does not goes on.
#[test]
fn a_host_of_a_server_is_cut_off() {
    let Some(hosts) = Hosts::new(3).map(Arc::new) else { return };
    let partition = TestPartition::at(&hosts, &[1, 2, 3], "stripe_size = 4096\ndeadline = \"2s\"\n");
    for (host, hints) in [(HostMpi::OpenMpi, SERVERS), (HostMpi::Mpich, CLIENTS)] {
        let dir = scratch();
        let site = Site { partition: &partition, hints, nodes: &[] };
        let needs = cut_run(host, 2, "server", "needs", (&dir, &site)).at(&hosts, &[1, 2]);
        let hints = format!("{hints};striping_factor=2;start_iodevice=0");
        let site = Site { partition: &partition, hints: &hints, nodes: &[] };
        let goes_on = cut_run(HostMpi::OpenMpi, 2, "on", "on", (&dir, &site)).at(&hosts, &[1, 2]);
        let [failed, went_on] = std::thread::scope(|scope| {
            scope.spawn(|| {
                if heard(&dir, "ready") {
                    hosts.cut(3);
                    say(&dir, "cut");
                }
            });
            ProgramRun::together([&needs, &goes_on])
        });
        hosts.mend(3);
        eprintln!("{}: ", site.hints);
        passed(failed);
        passed(went_on);
        // The file has exactly the bytes that had been synced before.
        same_bytes("what was synced and what is there", &bytes(128_000, 0), &partition.cat("/needs"));
        partition.pario(&["rm", &format!("{NAME}:/needs"), &format!("{NAME}:/on")]);
    }
}

/// The host of a program is cut off while its ranks cache dirty blocks of a file. Another program gets the leases of these blocks.
/// When the network is back, the dirty bytes of the first program do not overwrite those of the other. It gets an error, and
/// writes again.
#[test]
fn a_host_of_ranks_is_cut_off() {
    let Some(hosts) = Hosts::new(3).map(Arc::new) else { return };
    let partition = TestPartition::at(&hosts, &[1, 2], "stripe_size = 4096\ndeadline = \"4s\"\n");
    let (dir, site) = (scratch(), Site { partition: &partition, hints: CLIENTS, nodes: &[] });
    let lost = cut_run(HostMpi::Mpich, 2, "client", "file", (&dir, &site)).at(&hosts, &[3]);
    let beside = cut_run(HostMpi::OpenMpi, 2, "beside", "file", (&dir, &site)).at(&hosts, &[1, 2]);
    let [lost, beside] = std::thread::scope(|scope| {
        scope.spawn(|| {
            if heard(&dir, "ready") {
                hosts.cut(3);
                say(&dir, "cut");
                let _ = heard(&dir, "heard") && heard(&dir, "went on");
                hosts.mend(3);
                say(&dir, "mended");
            }
        });
        ProgramRun::together([&lost, &beside])
    });
    passed(lost);
    passed(beside);
    same_bytes("what was meant and what is there", &bytes(256_000, 0), &partition.cat("/file"));
}
