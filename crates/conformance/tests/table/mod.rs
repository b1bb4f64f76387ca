//! Runs a program of `programs/table` under Pario and reads its lines of named checks.

use std::path::PathBuf;

use pario_conformance::{
    HostMpi, Output, ProgramRun, Scratch, SourceKind, compile, same_file, scratch, workspace_dir,
};

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

/// Applications write the same files with Pario as with this host's own MPI-IO.
#[track_caller]
#[allow(dead_code)] // not every test file of this directory's needs it
pub fn files_equal_those_of(host: HostMpi) {
    for name in ["block3d.c", "strided.c", "shared.c", "nonblocking.c", "split.c"] {
        let source = workspace_dir().join("crates/conformance/programs/apps").join(name);
        let (program, dir) = (compile(host, source, SourceKind::C, &[]), scratch());
        for (file, preload) in [("host", false), ("pario", true)] {
            let run = ProgramRun::new(host, 2, &program).arg(dir.join(file)).preload(preload);
            let output = run.run().expect_success();
            assert_eq!(output.pario_calls() > 0, preload, "{output}");
        }
        same_file(dir.join("host"), dir.join("pario"));
    }
}
