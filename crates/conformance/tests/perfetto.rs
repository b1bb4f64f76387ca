//! Perfetto's own trace processor takes our traces without a complaint, and finds in them what was recorded.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pario_conformance::{
    BOTH, Scratch, SourceKind, compile_text, execute, libpario, pario, scratch, target_dir,
};

/// Each rank writes, reads, and has eight accesses in flight at once, four times; it also reads beyond the
/// end.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, ranks;
    MPI_File file;
    MPI_Request requests[8];
    char *data = calloc(16, 4096);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_File_open(MPI_COMM_WORLD, "out.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    for (int round = 0; round < 4; round++) {
        MPI_Offset begin = (MPI_Offset)(round * ranks + rank) * 65536;
        MPI_File_write_at_all(file, begin, data, 65536, MPI_BYTE, MPI_STATUS_IGNORE);
        for (int i = 0; i < 8; i++)
            MPI_File_iwrite_at(file, begin + 4096 * i, data, 4096, MPI_BYTE, &requests[i]);
        MPI_File_read_at(file, begin, data + 32768, 100 + round, MPI_BYTE, MPI_STATUS_IGNORE);
        MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
    }
    MPI_File_read_at(file, 1 << 30, data, 100, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
"#;

/// Complaints of the import, of which there are none where all is well.
const COMPLAINTS: &str =
    "select name, value from stats where severity in ('error', 'data_loss') and value != 0";

/// ProcessHandle, name, start, duration, bytes and file of each slice.
const SLICES: &str = "select process.name, slice.name, slice.ts, slice.dur, \
     coalesce(extract_arg(slice.arg_set_id, 'args.bytes'), -1), extract_arg(slice.arg_set_id, 'args.file') \
     from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) \
     join process using (upid)";

/// Slices that do not lie beside each other on their track.
const NESTED: &str = "select count(*) from slice where depth != 0";

/// The Python that runs Perfetto's trace processor, and its directory; `None` where it could not be fetched.
fn judge() -> Option<(PathBuf, PathBuf)> {
    let venv = std::env::var_os("PARIO_TEST_PERFETTO")
        .map_or_else(|| target_dir().join("venv-perfetto"), PathBuf::from);
    let found =
        |file: &str| std::fs::read_to_string(venv.join(file)).ok().map(|path| PathBuf::from(path.trim()));
    let judge = found("node.path").zip(found("engine.path"));
    if judge.is_none() {
        eprintln!(
            "SKIPPED: there is no trace processor of Perfetto; `cargo xtask setup` fetches it, if it can"
        );
    }
    judge
}

/// The rows of each query on a trace.
fn ask((node, engine): &(PathBuf, PathBuf), trace: &Path, queries: &[&str]) -> Vec<Vec<String>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/apps/perfetto.js");
    let mut command = Command::new(node);
    command.arg(script).arg(engine).arg(trace).args(queries);
    let said = execute(command, Duration::from_secs(120)).expect_success().stdout;
    let mut answers = vec![Vec::new()];
    for line in said.lines() {
        match (line, answers.last_mut()) {
            ("", _) => answers.push(Vec::new()),
            (row, Some(last)) => last.push(row.to_owned()),
            (_, None) => (),
        }
    }
    answers.pop();
    assert_eq!(answers.len(), queries.len(), "{said}");
    answers
}

fn run(arguments: &[&str], dir: &Scratch) -> String {
    let mut command = Command::new(pario());
    command.args(arguments).current_dir(dir.path()).env("PARIO_LIB", libpario());
    execute(command, Duration::from_secs(60)).expect_success().stdout
}

/// The recorded operations in the words of [`SLICES`], starts counted from the first of them.
fn recorded(dir: &Scratch) -> Vec<String> {
    let lines = run(&["trace", "show", "--json"], dir);
    let operations: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let number = |operation: &serde_json::Value, name: &str| operation[name].as_u64().expect("a number");
    let first = operations.iter().map(|operation| number(operation, "start_ns")).min().expect("an operation");
    let mut rows: Vec<String> = operations
        .iter()
        .map(|operation| {
            let call = operation["call"].as_str().expect("a call");
            let (start, took) = (number(operation, "start_ns") - first, number(operation, "took_ns"));
            let access = call.contains("read") || call.contains("write");
            let bytes = if access { number(operation, "moved") as i64 } else { -1 };
            let file = operation["file"].as_str().unwrap_or_default();
            format!("rank {}\t{call}\t{start}\t{took}\t{bytes}\t{file}", operation["rank"])
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn the_trace_processor_finds_what_was_recorded() {
    let Some(judge) = judge() else { return };
    let program = compile_text(BOTH[0], "perfetto.c", PROGRAM, SourceKind::C, &[]);
    let dir = scratch();
    run(&["profile", "-n", "2", "--", program.to_str().expect("a path")], &dir);
    run(&["convert", "pario-trace", "--to", "perfetto", "run.json"], &dir);
    let answers = ask(&judge, &dir.join("run.json"), &[COMPLAINTS, NESTED, SLICES]);
    assert_eq!(answers[0], [""; 0], "Perfetto complains");
    assert_eq!(answers[1], ["0"], "slices lie on each other");
    let mut found: Vec<String> = answers[2].iter().map(|row| without_node(row)).collect();
    found.sort();
    assert_eq!(found.len(), 2 * (1 + 4 * (1 + 8 + 1) + 1 + 1));
    assert_eq!(found, recorded(&dir));
}

/// `rank 0 on node` is `rank 0`.
fn without_node(row: &str) -> String {
    let (who, rest) = row.split_once('\t').expect("fields");
    format!("{}\t{rest}", who.split(" on ").next().unwrap_or(who))
}

/// That it has no complaints would say nothing if it never had any.
#[test]
fn the_trace_processor_complains_of_slices_that_overlap() {
    let Some(judge) = judge() else { return };
    let dir = scratch();
    let slice = |ts| format!(r#"{{"name":"a","ph":"X","pid":1,"tid":0,"ts":{ts},"dur":4,"args":{{}}}}"#);
    let trace = format!(r#"{{"traceEvents":[{},{}]}}"#, slice(1), slice(3));
    std::fs::write(dir.join("bad.json"), trace).expect("written");
    let answers = ask(&judge, &dir.join("bad.json"), &[COMPLAINTS]);
    assert_eq!(answers[0], ["slice_drop_overlapping_complete_event\t1"]);
}
