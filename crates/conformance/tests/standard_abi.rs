//! The standard ABI of MPI-5: the rules of the standard, patterns of real programs, random histories and applications on a library that
//! has it, on plain files and on a partition. `pario run` finds the launcher of such a program.

mod history;
mod pattern;
mod table;

use std::process::Command;

use history::play;
use pario_conformance::partition::{Site, TestPartition};
use pario_conformance::{HostMpi, SourceKind, compile, libpario, pario, scratch, workspace_dir};
use pattern::{PLAIN, compare};
use table::{all_hold, files_equal_those_of, passes, table_run};

/// The programs of rules, with a number of ranks that is enough for each.
const PROGRAMS: &[(&str, u32)] = &[
    ("views", 2),
    ("pointers", 2),
    ("opens", 2),
    ("collective", 3),
    ("atomic", 2),
    ("datarep", 2),
    ("handlers", 2),
    ("threads", 2),
];

#[test]
fn the_rules_hold_on_plain_files() {
    let Some(host) = HostMpi::standard_abi() else { return };
    for (program, ranks) in PROGRAMS {
        passes(host, *ranks, program, &[]);
    }
}

#[test]
fn the_rules_hold_on_a_partition() {
    let Some(host) = HostMpi::standard_abi() else { return };
    for hints in ["pario_strategy=server-directed", "pario_strategy=client-directed"] {
        let partition = TestPartition::up(2, 4096, "4M");
        for (program, ranks) in PROGRAMS {
            let (site, dir) = (Site { partition: &partition, hints, nodes: &[] }, scratch());
            all_hold(&table_run(host, *ranks, program, &dir).on(&site, dir.path()).run());
        }
    }
}

#[test]
fn files_equal_those_of_the_host() {
    let Some(host) = HostMpi::standard_abi() else { return };
    files_equal_those_of(host);
}

#[test]
fn patterns_and_histories_on_plain_files() {
    let Some(host) = HostMpi::standard_abi() else { return };
    let patterns = [
        "block3d:size=7",
        "tile:size=5,op=at",
        "random:size=5,piece=1024,op=iall",
        "holes:size=9,piece=300,op=iat",
    ];
    compare(host, 2, &patterns, &[PLAIN]);
    play(host, 1, 8, None);
    play(host, 2, 4, None);
}

/// Four ranks that are one program: without the right launcher each would be alone.
#[test]
fn pario_run_finds_the_launcher() {
    let Some(host) = HostMpi::standard_abi() else { return };
    let source = workspace_dir().join("crates/conformance/programs/apps/block3d.c");
    let (program, dir) = (compile(host, source, SourceKind::C, &[]), scratch());
    let mut run = Command::new(pario());
    run.args(["run", "--verbose", "-n", "4", "--"])
        .arg(program)
        .arg(dir.join("file"))
        .env("PARIO_LIB", libpario());
    let output = run.env("PARIO_STATS", "1").output().expect("pario runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("passed"), "{text}");
    assert!(text.contains("standard ABI"), "{text}");
}
