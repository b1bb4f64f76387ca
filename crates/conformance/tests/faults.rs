//! Collective calls when something goes wrong at one rank: every rank gets an error of the right class, none
//! hangs, and the file stays usable; under every strategy, on one node and on several.
//!
//! Storage fails by a library that is preloaded before Pario (`programs/faults/failing.c`), so that the
//! failure occurs where it does in reality. The programs decide when and at which rank.

mod table;

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pario_conformance::{
    BOTH, HostMpi, Output, ProgramRun, RunStatus, Scratch, SourceKind, TmpfsMount, compile, eventually,
    execute, pario, scratch, workspace_dir,
};
use table::{all_hold, program};

/// Many rounds, under several ways to go about a collective access; the first is what Pario chooses itself.
const STRATEGIES: [&str; 6] = [
    "cb_buffer_size=4096",
    "pario_strategy=independent",
    "pario_strategy=two-phase;pario_fd_partition=even;cb_buffer_size=4096",
    "pario_strategy=two-phase;pario_fd_partition=static-cyclic;striping_unit=1024;cb_buffer_size=4096",
    "pario_strategy=two-phase;pario_fd_partition=group-cyclic;striping_unit=512;striping_factor=2;cb_buffer_size=2048",
    "pario_strategy=data-shipping;IBM_io_buffer_size=4096",
];

fn source(name: &str) -> PathBuf {
    workspace_dir().join("crates/conformance/programs/faults").join(name)
}

/// A run of the program that has faults, with a storage that can fail.
fn faults(host: HostMpi, ranks: u32, what: &str, hints: &str, dir: &Scratch) -> ProgramRun {
    let shim = compile(host, source("failing.c"), SourceKind::Library, &["-ldl"]);
    run(host, ranks, "faults.c", what, hints, dir).shim(shim)
}

/// A run of the program whose collectives are in company.
fn together(host: HostMpi, ranks: u32, what: &str, hints: &str, dir: &Scratch) -> ProgramRun {
    run(host, ranks, "together.c", what, hints, dir)
}

fn run(host: HostMpi, ranks: u32, name: &str, what: &str, hints: &str, dir: &Scratch) -> ProgramRun {
    let program = compile(host, source(name), SourceKind::C, &[]);
    let hints = format!("ind_rd_buffer_size=4096;ind_wr_buffer_size=4096;{hints}");
    ProgramRun::new(host, ranks, program)
        .arg(dir.path())
        .args(what.split(' '))
        .preload(true)
        .env("PARIO_HINTS", &hints)
        .env("FAULT_PATH", &dir.path().to_string_lossy())
        .env("FAULT_LOG", &dir.join("log").to_string_lossy())
        .timeout(60)
}

#[track_caller]
fn passes(run: ProgramRun) -> Output {
    let output = run.run();
    all_hold(&output);
    assert!(!output.stderr.contains("pario: hint"), "a hint was refused: {output}");
    output
}

/// The same under every strategy, with ranks on one node and on two.
fn under_every_strategy(what: &str) {
    for hints in STRATEGIES {
        passes(faults(HostMpi::OpenMpi, 3, what, hints, &scratch()));
    }
    for hints in [STRATEGIES[2], STRATEGIES[4]] {
        passes(faults(HostMpi::OpenMpi, 3, what, hints, &scratch()).nodes(&[0, 1, 1]));
    }
    passes(faults(HostMpi::Mpich, 2, what, STRATEGIES[2], &scratch()));
    passes(faults(HostMpi::Mpich, 2, what, STRATEGIES[2], &scratch()).nodes(&[0, 1]));
}

#[test]
fn one_ranks_bad_argument_is_known_to_all() {
    under_every_strategy("arguments");
}

#[test]
fn one_ranks_bad_argument_in_a_nonblocking_call_is_known_to_all() {
    under_every_strategy("later");
}

#[test]
fn one_ranks_failing_storage_is_known_to_all_and_a_partial_transfer_is_no_failure() {
    under_every_strategy("storage partial");
}

#[test]
fn one_ranks_file_size_limit_has_one_outcome() {
    for host in BOTH {
        passes(faults(host, 2, "limit", STRATEGIES[2], &scratch()));
    }
}

#[test]
fn a_disk_that_fills_up_in_a_collective_is_no_space() {
    for host in BOTH {
        for hints in &STRATEGIES[2..] {
            let dir = scratch();
            let Some(mount) = TmpfsMount::tmpfs(&dir.join("small"), "1m") else { return };
            let run = ProgramRun::new(host, 2, program(host, "badinput")).arg(mount.path()).arg("full");
            all_hold(&run.preload(true).env("PARIO_HINTS", hints).run());
        }
    }
}

/// Names in the shared-memory directory that are Pario's.
fn in_shared_memory() -> HashSet<String> {
    let names = fs::read_dir("/dev/shm").into_iter().flatten();
    names.filter_map(|e| e.ok()?.file_name().into_string().ok()).filter(|n| n.contains("pario")).collect()
}

/// New names there that stay: those of other programs come and go.
fn left_in_shared_memory(before: &HashSet<String>) -> Vec<String> {
    let mut left: Vec<String> = in_shared_memory().difference(before).cloned().collect();
    let _ = eventually(Duration::from_secs(2), || {
        let now = in_shared_memory();
        left.retain(|name| now.contains(name));
        left.is_empty()
    });
    left
}

#[test]
fn a_killed_rank_ends_the_job_and_leaves_nothing() {
    let before = in_shared_memory();
    for host in BOTH {
        for what in ["killed", "absent"] {
            for (hints, nodes) in
                [(STRATEGIES[2], vec![]), (STRATEGIES[2], vec![0, 1]), (STRATEGIES[5], vec![])]
            {
                let dir = scratch();
                let output = faults(host, 2, what, hints, &dir).nodes(&nodes).run();
                assert!(matches!(output.status, RunStatus::Ended(_)) && !output.success(), "{output}");
                assert!(!output.stdout.contains("survived"), "nobody was killed: {output}");
                assert_eq!(output.left, 0, "processes are left: {output}");
                let beside = fs::read_dir(dir.path()).expect("the directory is still there");
                let names: Vec<_> = beside.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
                assert_eq!(names, ["killed"], "left beside the file: {output}");
            }
        }
    }
    assert_eq!(left_in_shared_memory(&before), Vec::<String>::new());
}

#[test]
fn develop_mode_reports_ranks_that_disagree() {
    for host in BOTH {
        passes(faults(host, 2, "develop", "", &scratch()).env("PARIO_DEVELOP", "1"));
    }
    passes(
        faults(HostMpi::OpenMpi, 4, "develop", "", &scratch()).env("PARIO_DEVELOP", "1").nodes(&[0, 1, 1, 0]),
    );
}

#[test]
fn nonblocking_collectives_on_two_files_may_start_in_any_order() {
    for hints in STRATEGIES {
        passes(together(HostMpi::OpenMpi, 3, "orders", hints, &scratch()));
    }
    passes(together(HostMpi::OpenMpi, 4, "orders", STRATEGIES[2], &scratch()).nodes(&[0, 0, 1, 2]));
    passes(together(HostMpi::Mpich, 2, "orders", STRATEGIES[2], &scratch()));
    passes(together(HostMpi::Mpich, 2, "orders", STRATEGIES[2], &scratch()).nodes(&[0, 1]));
}

/// On MPICH a request makes no progress while its rank is in a call that has nothing to do with Pario, so
/// that between nodes, where the ranks need each other's messages, this is beyond what can be had.
#[test]
fn a_nonblocking_collective_goes_on_while_its_rank_is_in_another_call() {
    for host in BOTH {
        passes(together(host, 2, "between message", STRATEGIES[2], &scratch()));
        passes(together(host, 3, "between", STRATEGIES[2], &scratch()).nodes(&[0, 1, 1]));
    }
    passes(together(HostMpi::OpenMpi, 3, "message", STRATEGIES[2], &scratch()).nodes(&[0, 1, 1]));
}

#[test]
fn a_rank_that_waits_in_a_collective_call_progresses_its_messages() {
    for host in BOTH {
        for hints in [STRATEGIES[0], STRATEGIES[2]] {
            passes(together(host, 2, "rendezvous", hints, &scratch()));
        }
        passes(together(host, 2, "rendezvous", STRATEGIES[2], &scratch()).nodes(&[0, 1]));
    }
    passes(together(HostMpi::OpenMpi, 3, "rendezvous", STRATEGIES[2], &scratch()));
}

/// A number or word of a JSON object that stands on one line.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let from = line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {line}")).1;
    from.trim_start().split([',', '}']).next().unwrap_or_default().trim_matches('"')
}

/// Which rank did what, and with which error number.
fn injected(log: &str) -> Vec<String> {
    let mut faults: Vec<String> =
        log.lines().map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
    faults.sort();
    faults
}

/// The trace of errors holds the failures of the storage, each once and at its rank, and nothing else.
fn traced(host: HostMpi, ranks: u32, hints: &str) {
    let dir = scratch();
    let trace = dir.join("trace");
    let run = faults(host, ranks, "traced", hints, &dir);
    let output = passes(run.env("PARIO_TRACE", &format!("errors,dir={}", trace.display())));
    let mut show = Command::new(pario());
    show.args(["trace", "show", "--json"]).arg(&trace);
    let shown = execute(show, Duration::from_secs(60)).expect_success();
    let brief = |e: &str| format!("{} {} {}\n", field(e, "rank"), field(e, "op"), field(e, "errno"));
    let seen: String = shown.stdout.lines().map(brief).collect();
    let log = fs::read_to_string(dir.join("log")).expect("something was injected");
    assert_eq!(injected(&seen), injected(&log), "{output}\n{shown}");
    assert!(shown.stdout.lines().all(|e| field(e, "class") != "0"), "without its class: {shown}");
}

#[test]
fn the_trace_of_errors_holds_the_injected_failures() {
    for host in BOTH {
        traced(host, 2, STRATEGIES[2]);
        traced(host, 2, STRATEGIES[1]);
    }
}
