//! Runs a program of `programs/table` under Pario and reads its lines of named checks.

use std::path::PathBuf;

use pario_conformance::{HostMpi, Output, ProgramRun, Scratch, SourceKind, compile, scratch, workspace_dir};

/// The executable of a table program for this host.
#[track_caller]
pub fn program(host: HostMpi, name: &str) -> PathBuf {
    let source = workspace_dir().join("crates/conformance/programs/table").join(name).with_extension("c");
    compile(host, source, SourceKind::C, &["-ldl"])
}

/// A run of a table program under Pario; its files go into `dir`.
#[track_caller]
pub fn table_run(host: HostMpi, ranks: u32, name: &str, dir: &Scratch) -> ProgramRun {
    ProgramRun::new(host, ranks, program(host, name)).arg(dir.path()).preload(true).timeout(180)
}

/// Panics with the failed checks unless the program came to its end and every check held.
#[track_caller]
pub fn all_hold(output: &Output) {
    let failed: Vec<&str> = output.stdout.lines().filter(|l| l.starts_with("FAIL")).collect();
    let ended = output.stdout.lines().any(|l| l == "done, 0 failed");
    assert!(failed.is_empty() && ended && output.success(), "{}\n{output}", failed.join("\n"));
}

/// Runs the program in a fresh directory, with these arguments more, and sees that all holds.
#[track_caller]
#[allow(dead_code)] // not every test file of this directory's needs it
pub fn passes(host: HostMpi, ranks: u32, name: &str, args: &[&str]) -> Output {
    let dir = scratch();
    let output = table_run(host, ranks, name, &dir).args(args.iter().copied()).run();
    all_hold(&output);
    output
}
