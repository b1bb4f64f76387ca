//! The report on ranks that a collective call waits for, on both MPIs, and `pario status --ranks`.

mod table;

use pario_conformance::{BOTH, HostMpi, ProgramRun, Scratch, pario, scratch};
use table::{all_hold, table_run};

/// A run in which a wait of one second is reported.
fn run(host: HostMpi, what: &str, dir: &Scratch) -> ProgramRun {
    table_run(host, 4, "missing", dir).arg(what).env("PARIO_ROLLCALL", "1")
}

/// The lines that report missing ranks.
fn reports(dir: &Scratch) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("said")).expect("the ranks wrote it");
    let is_report = |line: &&str| line.starts_with("pario: rank") && line.contains(" waited ");
    text.lines().filter(is_report).map(str::to_owned).collect()
}

/// The one report that contains all of these.
#[track_caller]
fn has(reports: &[String], parts: &[&str]) {
    let found = reports.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
    assert_eq!(found, 1, "{parts:?} in {reports:#?}");
}

#[test]
fn a_rank_that_does_not_come_is_reported() {
    for host in BOTH {
        let dir = scratch();
        let status = format!("{} status --ranks test-job", pario().display());
        let output = run(host, "late", &dir).arg(status).env("PARIO_JOB", "test-job").run();
        all_hold(&output);
        let (file, other) = (dir.join("file"), dir.join("other"));
        let (file, other) = (file.display(), other.display());
        let lines = reports(&dir);
        assert_eq!(lines.len(), 2, "{lines:#?}");
        has(
            &lines,
            &[
                "pario: ranks 0, 2 of 4 have waited ",
                &format!(" s in MPI_File_write_at_all on {file} (since "),
                "rank 0 with 100 bytes, rank 2 with 200 bytes",
                &format!("is not there: its last MPI-IO call, MPI_File_write_at on {file}, has ended"),
                &format!("is not there: it waits in MPI_File_sync on {other}"),
            ],
        );
        has(&lines, &["rank 1 of 2 has waited ", " s in MPI_File_sync on ", "rank 0 (process "]);
        let shown: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with("status: ")).collect();
        let waits = |line: &&&str| line.contains(" waits ") && line.contains(" in MPI_File_write_at_all  ");
        assert_eq!(shown.iter().filter(waits).count(), 2, "{output}");
        assert!(
            shown.iter().any(|line| line.contains("MPI_File_sync") && line.contains("waits")),
            "{output}"
        );
        assert!(shown.iter().any(|line| line.contains("job test-job: 4 of 4 ranks")), "{output}");
    }
}

#[test]
fn a_rank_missing_from_a_nonblocking_access_is_reported() {
    for host in BOTH {
        for nodes in [&[][..], &[0, 0, 1, 1]] {
            let dir = scratch();
            all_hold(&run(host, "nonblocking", &dir).nodes(nodes).run());
            let ranks = if nodes.is_empty() { "ranks 0, 2-3 of 4" } else { "rank 0 of 4" };
            has(&reports(&dir), &[ranks, "MPI_File_iwrite_at_all", "rank 1 (process "]);
        }
    }
}

#[test]
fn ranks_in_different_collective_calls_are_reported() {
    for host in BOTH {
        let dir = scratch();
        run(host, "other", &dir).timeout(60).run();
        let lines = reports(&dir);
        has(
            &lines,
            &["ranks 0-2 of 4 have waited ", " in MPI_File_write_ordered on ", "in MPI_File_sync instead"],
        );
    }
}

#[test]
fn slow_accesses_are_not_reported() {
    for host in BOTH {
        let dir = scratch();
        all_hold(&run(host, "slow", &dir).run());
        assert_eq!(reports(&dir), [""; 0]);
    }
}

#[test]
fn a_node_whose_ranks_are_all_there_names_the_other_nodes() {
    for host in BOTH {
        let dir = scratch();
        all_hold(&run(host, "computes", &dir).nodes(&[0, 0, 1, 1]).run());
        let lines = reports(&dir);
        has(&lines, &["ranks 0-1 of 4 have waited", "ranks on other nodes are not there (node1)"]);
        has(&lines, &["rank 2 of 4 has waited", "rank 3 (process "]);
    }
}
