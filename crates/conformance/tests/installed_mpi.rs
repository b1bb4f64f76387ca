//! The rules of the standard and programs on an MPI that `cargo xtask test-mpis` has installed, on plain files and on a partition.

mod table;

use pario_conformance::partition::{Site, TestPartition};
use pario_conformance::{HostMpi, scratch};
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
fn installed_rules_on_plain_files() {
    let Some(host) = HostMpi::installed() else { return };
    for (program, ranks) in PROGRAMS.iter().chain(&[("invalid", 2)]) {
        passes(host, *ranks, program, &[]);
    }
}

#[test]
fn installed_rules_on_a_partition() {
    let Some(host) = HostMpi::installed() else { return };
    let partition = TestPartition::up(2, 4096, "4M");
    for (program, ranks) in PROGRAMS {
        let (site, dir) = (Site { partition: &partition, hints: "", nodes: &[] }, scratch());
        all_hold(&table_run(host, *ranks, program, &dir).on(&site, dir.path()).run());
    }
}

#[test]
fn installed_programs() {
    let Some(host) = HostMpi::installed() else { return };
    files_equal_those_of(host);
}
