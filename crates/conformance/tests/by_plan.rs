//! A program is profiled on hosts of their own, a plan is made of that, and the program is run by it: the files are the
//! same, byte for byte, and less goes over the hosts' links than with all files on one of them. It takes root; elsewhere
//! these tests say so and pass.

use std::sync::Arc;

use pario_conformance::partition::{NAME, TestPartition};
use pario_conformance::{HostMpi, Hosts, Output, ProgramRun, same_directory, scratch, target_dir};
use pario_workloads::{WorkloadReport, build};

const HOSTS: usize = 3;

/// Hints that keep files on the server of the first host.
const SHARED: &str = "striping_factor=1;start_iodevice=0";

/// The bytes that the hosts sent to each other while a program ran with all its files on the first of them, and by plan.
struct Sent {
    central: u64,
    by_plan: u64,
}

/// Runs a workload in both ways and compares its files with those that the host's own MPI-IO makes. `None`: there are
/// no hosts.
#[track_caller]
fn run(host: HostMpi, workload: &[&str]) -> Option<Sent> {
    let hosts = Hosts::new(HOSTS).map(Arc::new)?;
    hosts.limit(Some(1000)).expect("links can be limited");
    let partition =
        TestPartition::in_memory_of(&hosts, &hosts.numbers(), "stripe_size = 65536\ncache = \"32M\"\n");
    let program = build(&host.mpicc(), &target_dir().join("conformance-programs")).expect("it compiles");
    let dir = scratch();
    let run = |to: &str| {
        let run = ProgramRun::new(host, HOSTS as u32, &program).args(workload.to_vec());
        run.args(["--keep", "--json", "-", "--dir", to]).timeout(60)
    };
    let expected = dir.join("expected");
    std::fs::create_dir(&expected).expect("a scratch directory takes directories");
    right(run(&expected.to_string_lossy()).run());

    let measured = |command: &str, options: &[&str], name: &str| {
        let run = run(&format!("pario:{NAME}")).hosts(&hosts).env("PARIO_HINTS", SHARED);
        let before: u64 = hosts.sent_bytes().iter().sum();
        right(run.by_pario(&partition, command, options).run());
        let sent = hosts.sent_bytes().iter().sum::<u64>() - before;
        let got = dir.join(name);
        partition.copy_out(&got);
        partition.remove(&same_directory(&expected, &got));
        sent
    };
    let [trace, plan] = ["trace", "plan"].map(|name| dir.join(name).to_string_lossy().into_owned());
    let central = measured("profile", &["--dir", &trace], "central");
    partition.pario(&["plan", &trace, "--out", &plan]);
    let by_plan = measured("run", &["--plan", &plan], "by plan");
    eprintln!("{workload:?}: the hosts sent {central} bytes, by plan {by_plan}");
    Some(Sent { central, by_plan })
}

/// The program has succeeded and has found every byte right.
#[track_caller]
fn right(output: Output) {
    let output = output.expect_success();
    let reports = WorkloadReport::parse(&output.stdout).expect("the program prints reports");
    assert!(reports.len() == 1 && reports[0].verified == Some(true), "{output}");
}

/// Every rank reads what it wrote, so that nothing but MPI's own messages goes between hosts.
#[test]
fn bytes_used_by_one_host_stay_on_it() {
    let Some(sent) = run(HostMpi::Mpich, &["perf", "--steps", "4"]) else { return };
    assert!(sent.by_plan < sent.central / 4, "{} of {} bytes", sent.by_plan, sent.central);
}

/// Ranks read what others wrote: it goes over a link once, not twice.
#[test]
fn bytes_read_by_all_hosts_cross_the_network_once() {
    let Some(sent) = run(HostMpi::OpenMpi, &["seismic"]) else { return };
    assert!(sent.by_plan < sent.central, "{} of {} bytes", sent.by_plan, sent.central);
}
