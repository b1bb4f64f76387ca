//! The rules of the MPI-IO chapter that implementations get wrong, one named check after the other.
//!
//! Each program of `programs/table` holds a group of clauses and says `ok clause N` for each; here they run on
//! both hosts with Pario in front. The clauses expected are listed, so that none drops out unseen.

mod table;

use pario_conformance::{BOTH, HostMpi};
use table::passes;

/// Runs the program on each host with these numbers of ranks and looks for every clause's line.
#[track_caller]
fn clauses(program: &str, ranks: &[u32], clauses: &[&str]) {
    for host in BOTH {
        for &ranks in ranks {
            let output = passes(host, ranks, program, &[]);
            for clause in clauses {
                let line = format!("ok clause {clause}:");
                let said = output.stdout.lines().any(|l| l.starts_with(&line));
                assert!(said, "clause {clause} was not tested: {output}");
            }
        }
    }
}

#[test]
fn views() {
    clauses("views", &[1, 2, 4], &["1", "2", "2b", "3", "4", "5", "6", "9", "14", "15"]);
}

#[test]
fn pointers() {
    clauses("pointers", &[1, 3], &["7", "8", "10", "18"]);
}

#[test]
fn opens() {
    clauses("opens", &[1, 2, 4], &["11", "12", "16", "17", "21", "22", "27", "open", "handles"]);
}

#[test]
fn collective() {
    clauses("collective", &[1, 2, 4], &["19", "24", "requests", "memory", "interleaved"]);
}

#[test]
fn atomic() {
    clauses("atomic", &[2, 3], &["20", "20b", "20c", "20d"]);
}

#[test]
fn data_representations() {
    clauses("datarep", &[1, 3], &["23", "23b", "23c", "23d", "23e", "23f"]);
}

#[test]
fn large_counts() {
    clauses("large", &[1, 2], &["25", "25b"]);
}

#[test]
fn one_write_beyond_two_gibibytes() {
    for host in BOTH {
        let output = passes(host, 1, "large", &["write"]);
        assert!(output.stdout.contains("ok clause 25c:"), "{output}");
    }
}

#[test]
fn threads() {
    clauses("threads", &[1, 2], &["threads"]);
}

#[test]
fn error_handlers() {
    clauses("handlers", &[1, 3], &["13", "13b", "13c", "13d"]);
}

/// `MPI_ERRORS_ARE_FATAL` is the one handler that must not return.
#[test]
fn fatal_errors_end_the_program() {
    for host in BOTH {
        let dir = pario_conformance::scratch();
        let output = table::table_run(host, 2, "handlers", &dir).arg("fatal").run();
        let survived = output.stdout.contains("survived");
        assert!(output.code().is_some_and(|code| code != 0) && !survived, "{output}");
    }
}

/// The programs themselves are right where the host is: Open MPI alone passes these.
#[test]
fn checks_hold_on_a_host_that_is_right() {
    let host = HostMpi::OpenMpi;
    let dir = pario_conformance::scratch();
    let output = table::table_run(host, 2, "views", &dir).preload(false).run();
    for clause in ["1", "2", "2b", "5", "14", "15"] {
        let line = format!("ok clause {clause}:");
        assert!(output.stdout.lines().any(|l| l.starts_with(&line)), "{output}");
    }
}
