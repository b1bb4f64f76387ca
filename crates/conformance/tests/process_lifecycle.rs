//! Events in the life of a process that has files open: it is killed, exits without closing them, forks, executes another program,
//! may have no more descriptors or memory, closes the library. On plain files and partitions, on both MPIs.

mod table;

use pario_conformance::partition::{Site, TestPartition};
use pario_conformance::{BOTH, HostMpi, Output, Scratch, libpario, scratch};
use table::{all_hold, table_run};

/// Bytes of one rank in a row, and how many rows (`life.c`).
const PIECE: usize = 100;
const PIECES: usize = 2000;

/// All ranks' bytes are there.
#[track_caller]
fn is_written(bytes: &[u8], ranks: u32, output: &Output) {
    assert!(output.stdout.contains("written") && !output.stdout.contains("FAIL"), "{output}");
    assert_eq!(bytes.len(), PIECE * PIECES * ranks as usize, "{output}");
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        let right = b'a' + (number % ranks as usize) as u8;
        assert!(piece.iter().all(|byte| *byte == right), "piece {number} is lost: {output}");
    }
}

/// Checks that other ranks read the bytes of ranks to which `what` happened.
fn leaves_on(partition: &TestPartition, host: HostMpi, what: &str, hints: &str, nodes: &[u32]) {
    let (dir, site) = (scratch(), Site { partition, hints, nodes });
    let output = table_run(host, 2, "life", &dir).arg(what).on(&site, dir.path()).run();
    is_written(&partition.cat("/life"), 2, &output);
    partition.remove(&["life".into()]);
}

#[test]
fn collective_writes_without_tier_1_outlive_their_ranks() {
    let partition = TestPartition::described(
        2,
        "stripe_size = 4096\ncache = \"4M\"\nlisten = \"127.0.0.1\"\ntier1 = \"off\"\n",
    );
    for host in BOTH {
        // One rank as if on another host, where tier 1 would be the default; and hints that ask for it.
        leaves_on(&partition, host, "killed", "", &[0, 1]);
        leaves_on(&partition, host, "killed", "pario_tier1=enable", &[]);
        leaves_on(&partition, host, "killed", "pario_strategy=client-directed", &[0, 1]);
    }
}

#[test]
fn synced_bytes_outlive_their_ranks() {
    let partition = TestPartition::up(2, 4096, "4M");
    for host in BOTH {
        for what in ["synced", "leaves"] {
            leaves_on(&partition, host, what, "", &[]);
            leaves_on(&partition, host, what, "pario_strategy=client-directed", &[0, 1]);
            let dir = scratch();
            let output = table_run(host, 2, "life", &dir).arg(what).run();
            is_written(&std::fs::read(dir.join("life")).expect("it is there"), 2, &output);
        }
    }
}

/// The program on plain files and on partitions, on both MPIs, by several ways to access files.
fn everywhere(what: &str) {
    let partition = TestPartition::up(2, 65536, "4M");
    for host in BOTH {
        let dir = scratch();
        all_hold(&table_run(host, 2, "life", &dir).arg(what).run());
        for (hints, nodes) in [("", &[][..]), ("pario_tier1=enable", &[]), ("", &[0, 1])] {
            let (dir, site) = (scratch(), Site { partition: &partition, hints, nodes });
            all_hold(&table_run(host, 2, "life", &dir).arg(what).on(&site, dir.path()).run());
        }
    }
}

#[test]
fn calls_of_a_forked_child_fail_and_its_parent_continues() {
    everywhere("forks");
}

#[test]
fn a_program_that_a_rank_executes_inherits_nothing() {
    everywhere("execs");
}

#[test]
fn running_out_of_descriptors_is_an_error() {
    everywhere("files");
}

#[test]
fn running_out_of_memory_is_an_error() {
    everywhere("memory");
}

#[test]
fn a_program_that_closes_the_library_continues() {
    let partition = TestPartition::up(2, 65536, "4M");
    for host in BOTH {
        let run = |dir: &Scratch| table_run(host, 2, "unloaded", dir).arg(libpario()).preload(false);
        let dir = scratch();
        all_hold(&run(&dir).run());
        let site = Site { partition: &partition, hints: "", nodes: &[] };
        all_hold(&run(&dir).on(&site, dir.path()).run());
    }
}
