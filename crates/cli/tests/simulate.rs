//! `pario simulate` as users and scripts call it.

use pario_trace::{Actor, Pace, PointerKind, Record, Recorder, TraceSetup, TracedCall, TracedOp};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn pario(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
    command.arg("simulate").args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = pario(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    all.as_array().expect("an array").clone()
}

fn bench(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    dir
}

const SMALL: [&str; 8] = ["--servers", "4", "--edge", "32", "--calls", "2", "--stripe", "64k"];

#[test]
fn results_are_complete_and_repeatable() {
    let arguments =
        [&SMALL[..], &["--procs", "16,64", "--protocol", "server,token", "--write", "--read", "--json"]]
            .concat();
    let first = rows(&arguments);
    assert_eq!(first.len(), 2 * 2 * 2 * 4);
    assert_eq!(first, rows(&arguments), "the same seed");
    for row in &first {
        for name in ["protocol", "partition", "op"] {
            assert!(row[name].is_string(), "{name}: {row}");
        }
        for name in
            ["procs", "aggregators", "servers", "lock_requests", "conflicts", "revocations", "messages"]
        {
            assert!(row[name].is_u64(), "{name}: {row}");
        }
        assert!(row["bandwidth_mib_s"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        assert!(row["io_phase_share"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)), "{row}");
        assert!(row["op"] != "read" || row["conflicts"] == 0, "{row}");
    }
    assert_ne!(first, rows(&[&arguments[..], &["--seed", "2"]].concat()));
}

#[test]
fn a_sweep_becomes_a_table_a_page_and_pictures() {
    let dir = bench("simulate-charts");
    let (svg, html) = (dir.join("a.svg"), dir.join("a.html"));
    let files = ["--svg", svg.to_str().expect("a path"), "--html", html.to_str().expect("a path"), "--csv"];
    let output = pario(&[&SMALL[..], &["--procs", "16,32"], &files].concat());
    let csv = text(&output.stdout);
    assert_eq!(csv.lines().count(), 1 + 8, "{csv}");
    let columns = csv.lines().map(|line| line.split(',').count()).collect::<Vec<_>>();
    assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{csv}");
    let (svg, html) =
        (std::fs::read_to_string(svg).expect("a picture"), std::fs::read_to_string(html).expect("a page"));
    // Bandwidth and share of the I/O phase, four curves each.
    assert_eq!(svg.matches("<polyline").count(), 8);
    assert_eq!(html.matches("<polyline").count(), 8);
    assert!(!html.contains("src=") && !html.contains("href="), "it needs nothing else");
    assert!(html.contains("group-cyclic") && html.contains("lock req."));
}

#[test]
fn strategies_say_what_saturates() {
    let strategies = ["--strategy", "server-directed,client-directed,two-phase", "--procs", "64", "--json"];
    let rows = rows(&[&SMALL[..], &strategies].concat());
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert!(row["bandwidth_mib_s"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        assert!(
            row["narrowest"].is_string() && row["open_seconds"].as_f64().is_some_and(|s| s > 0.0),
            "{row}"
        );
    }
}

#[test]
fn a_trace_is_a_workload() {
    let dir = bench("simulate-trace");
    let call =
        TracedCall { op: TracedOp::Write, place: PointerKind::At, collective: true, pace: Pace::Blocking };
    let setup = TraceSetup::parse("all,clock=system").expect("good").expect("a trace");
    let setup = TraceSetup { dir: dir.clone(), ..setup };
    for rank in 0..4u32 {
        let recorder = Recorder::start(&setup, Actor::Task, rank, 4);
        let (file, began) = (recorder.file("out.dat"), Instant::now());
        for n in 0..3u64 {
            let offset = (n * 4 + u64::from(rank)) << 20;
            let start = recorder.at(began + Duration::from_millis(n));
            let (end, len) = (offset + (1 << 20), 1 << 20);
            recorder.record(&Record {
                offset,
                end,
                len,
                moved: len,
                ..Record::new(call, Some(&file), start, start)
            });
        }
    }
    let from = format!("trace:{}", dir.display());
    let rows = rows(&["--workload", &from, "--servers", "4", "--json", "--set", "processes_per_node=1"]);
    assert_eq!(rows.len(), 4);
    assert!(
        rows.iter().all(|row| row["bytes"] == 12 << 20 && row["procs"] == 4 && row["aggregators"] == 4),
        "{rows:?}"
    );
    let none = pario(&["--workload", &from, "--read"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("no collective access"), "{}", text(&none.stderr));
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let cases: &[(&[&str], &str)] = &[
        (&["--workload", "btio"], "no workload is called"),
        (&["--workload", "bt", "--procs", "63"], "square"),
        (&["--workload", "trace:/nowhere/at/all"], "no trace in"),
        (&["--set", "latencey=3"], "did you mean \"latency\""),
        (&["--procs", "0"], "number of processes"),
        (&["--servers", "0"], "stripes"),
    ];
    for (arguments, word) in cases {
        let output = pario(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(word) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}

#[test]
fn the_machine_is_no_secret() {
    let listed = text(&pario(&["--machine"]).stdout);
    assert!(listed.contains("client_rate") && listed.contains("ns"), "{listed}");
}
