//! Ranks on hosts of their own, where no memory is shared, process ids mean nothing, and every message takes a
//! network: the bytes are the expected ones, agents are reached, all ranks get errors, and a killed rank ends
//! the job. These tests need root; without it they print that and pass.
//!
//! `programs/patterns` and `programs/hosts` know every byte of their files beforehand and verify what they read
//! and what is on disk.

mod table;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use pario_conformance::{
    BOTH, HostMpi, Hosts, Output, ProgramRun, RunStatus, Scratch, SourceKind, compile, scratch, workspace_dir,
};
use table::all_hold;

/// Blocking, split and nonblocking, with holes and without, beyond the end, irregular, and empty on some ranks.
const SPECS: &[&str] = &[
    "block3d:size=9,op=split",
    "random:size=10,piece=512,calls=2",
    "tiles:size=70,piece=9,calls=3,mem=spread,old=1",
    "holes:size=40,piece=100,op=iall,old=1,cut=1",
    "holes:size=20,piece=300,op=split,old=2,ours=1",
    "doubled:size=10,piece=500,old=1",
    "uneven:size=4,piece=60,op=at,calls=2,old=1,cut=1",
    "segments:size=3000,op=iat,calls=2",
    "ordered:size=100,op=ordered,old=1",
];

const EVEN: &str = "pario_strategy=two-phase;pario_fd_partition=even;cb_buffer_size=2000";
const ALIGNED: &str = "pario_strategy=two-phase;pario_fd_partition=aligned;striping_unit=1000;cb_nodes=3";
const CYCLIC: &str = "pario_strategy=two-phase;pario_fd_partition=static-cyclic;striping_unit=300;cb_nodes=2";
const GROUPS: &str =
    "pario_strategy=two-phase;pario_fd_partition=group-cyclic;striping_unit=512;striping_factor=2";
const SHIPPED: &str = "pario_strategy=data-shipping;IBM_io_buffer_size=4096";

const RANKS: u32 = 6;

fn three_hosts() -> Option<Arc<Hosts>> {
    Hosts::new(3).map(Arc::new)
}

fn program(host: HostMpi, name: &str) -> PathBuf {
    compile(host, workspace_dir().join("crates/conformance/programs").join(name), SourceKind::C, &[])
}

/// A run with Pario in front, spread over the hosts.
fn on(hosts: &Arc<Hosts>, host: HostMpi, name: &str, hints: &str) -> ProgramRun {
    ProgramRun::new(host, RANKS, program(host, name))
        .hosts(hosts)
        .preload(true)
        .env("PARIO_HINTS", hints)
        .env("PARIO_STATS", "json")
        .timeout(60)
}

/// It passes on every rank, with Pario and with these hints, and leaves nothing on the hosts.
#[track_caller]
fn passes(hosts: &Hosts, run: ProgramRun) -> Output {
    let output = run.run().expect_success();
    assert!(!output.stderr.contains("pario: hint"), "a hint was refused: {output}");
    assert_eq!(output.stats().len(), RANKS as usize, "not every rank reported: {output}");
    assert_eq!(hosts.remains(), Vec::<String>::new(), "left on the hosts: {output}");
    output
}

fn patterns(hosts: &Arc<Hosts>, host: HostMpi, specs: &[&str], hints: &str) {
    let dir = scratch();
    let run = on(hosts, host, "patterns/patterns.c", hints).arg("pario").arg(dir.path()).args(specs.to_vec());
    let output = passes(hosts, run);
    assert!(output.stdout.contains("passed"), "{output}");
    let talked = output.reports().iter().any(|report| report.total("messages") > 0);
    assert!(talked, "the ranks of different hosts never talked: {output}");
}

/// MPICH's ranks spin while they wait, so that on few cores its runs are few and short.
#[test]
fn any_file_domains_over_three_hosts_mpich() {
    let Some(hosts) = three_hosts() else { return };
    patterns(&hosts, HostMpi::Mpich, SPECS, EVEN);
    patterns(&hosts, HostMpi::Mpich, &SPECS[3..6], ALIGNED);
    patterns(&hosts, HostMpi::Mpich, &SPECS[..4], CYCLIC);
    patterns(&hosts, HostMpi::Mpich, &SPECS[4..], GROUPS);
}

#[test]
fn any_file_domains_over_three_hosts_openmpi() {
    let Some(hosts) = three_hosts() else { return };
    for hints in [EVEN, ALIGNED, CYCLIC, GROUPS] {
        patterns(&hosts, HostMpi::OpenMpi, SPECS, hints);
    }
}

#[test]
fn any_strategy_over_three_hosts() {
    let Some(hosts) = three_hosts() else { return };
    patterns(&hosts, HostMpi::Mpich, SPECS, SHIPPED);
    patterns(&hosts, HostMpi::OpenMpi, SPECS, SHIPPED);
    patterns(&hosts, HostMpi::OpenMpi, SPECS, "");
}

/// Independent accesses go to the agents of all hosts by TCP, without the help of any rank.
#[test]
fn agents_serve_the_ranks_of_other_hosts() {
    let Some(hosts) = three_hosts() else { return };
    for host in BOTH {
        let dir = scratch();
        let before = hosts.sent_bytes();
        let run = on(&hosts, host, "hosts/independent.c", SHIPPED).arg(dir.path());
        let output = passes(&hosts, run);
        assert!(output.stdout.contains("passed"), "{output}");
        // Each host has two of six agents, so two thirds of what its ranks write, 28000 bytes each, go away.
        for (before, after) in before.into_iter().zip(hosts.sent_bytes()) {
            assert!(after - before > 50_000, "a host sent {} bytes only: {output}", after - before);
        }
    }
}

/// The program that has faults, with a storage that can fail.
fn faults(hosts: &Arc<Hosts>, host: HostMpi, what: &str, hints: &str, dir: &Scratch) -> ProgramRun {
    let shim = workspace_dir().join("crates/conformance/programs/faults/failing.c");
    let shim = compile(host, shim, SourceKind::Library, &["-ldl"]);
    let run = on(hosts, host, "faults/faults.c", hints).arg(dir.path()).args(what.split(' '));
    run.shim(shim).env("FAULT_PATH", &dir.path().to_string_lossy())
}

#[test]
fn one_ranks_failure_is_known_on_all_hosts() {
    let Some(hosts) = three_hosts() else { return };
    for (host, what) in [(HostMpi::Mpich, "later"), (HostMpi::OpenMpi, "arguments later storage")] {
        let output = passes(&hosts, faults(&hosts, host, what, EVEN, &scratch()));
        all_hold(&output);
    }
}

#[test]
fn a_killed_rank_ends_the_job_on_all_hosts() {
    let Some(hosts) = three_hosts() else { return };
    for host in BOTH {
        for (what, hints) in [("killed", EVEN), ("absent", CYCLIC), ("killed", SHIPPED)] {
            let dir = scratch();
            let output = faults(&hosts, host, what, hints, &dir).run();
            assert!(matches!(output.status, RunStatus::Ended(_)) && !output.success(), "{output}");
            assert!(!output.stdout.contains("survived"), "nobody was killed: {output}");
            assert_eq!((output.left, hosts.remains()), (0, Vec::new()), "something is left: {output}");
            let beside = fs::read_dir(dir.path()).expect("the directory is still there");
            let names: Vec<_> = beside.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
            assert_eq!(names, ["killed"], "left beside the file: {output}");
        }
    }
}
