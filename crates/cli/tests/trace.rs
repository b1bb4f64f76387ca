//! `pario trace` as users and scripts call it.

use pario_trace::{Actor, Pace, PointerKind, Record, Recorder, TraceSetup, TracedCall, TracedOp};
use pario_types::ErrorKind;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const WRITE_AT_ALL: TracedCall =
    TracedCall { op: TracedOp::Write, place: PointerKind::At, collective: true, pace: Pace::Blocking };

/// A test's directory.
struct Bench(PathBuf);

impl Bench {
    /// An empty directory for the test of that name.
    fn new(name: &str) -> Bench {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("a directory");
        Bench(dir)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn recorder(bench: &Bench, dir: &str, job: &str, actor: Actor, rank: u32) -> Recorder {
    let setup = TraceSetup::parse("all,clock=system").expect("good").expect("a trace");
    Recorder::start(&TraceSetup { dir: bench.0.join(dir), job: job.to_owned(), ..setup }, actor, rank, 3)
}

/// Three ranks and an agent: rank r writes at 100, 200, 300, …; a write of rank 1 fails, a read of rank 2 is
/// short, and rank 2 does not finish.
fn record(bench: &Bench) {
    let began = Instant::now();
    for rank in 0..3u32 {
        let recorder = recorder(bench, "pario-trace", "j1", Actor::Task, rank);
        let file = recorder.file("out.dat");
        let at = |instant| recorder.at(instant);
        recorder.record(&Record::new(TracedOp::Open, Some(&file), recorder.at(began), recorder.now()));
        for n in 1..=4u64 {
            let start = began + Duration::from_secs(n) + Duration::from_millis(rank.into());
            let fails = rank == 1 && n == 3;
            recorder.record(&Record {
                offset: 100 * n,
                end: 100 * n + 64,
                len: 64,
                moved: if fails { 0 } else { 64 },
                errno: if fails { 28 } else { 0 },
                kind: fails.then_some(ErrorKind::NoSpace),
                class: if fails { 36 } else { 0 },
                ..Record::new(WRITE_AT_ALL, Some(&file), at(start), at(start + Duration::from_micros(10)))
            });
        }
        if rank == 2 {
            let start = at(began + Duration::from_secs(9));
            let read = Record::new(TracedOp::Read, Some(&file), start, start);
            let read = Record { len: 5000, end: 5000, moved: 10, ..read };
            recorder.record(&read);
            recorder.flush().expect("written");
            std::mem::forget(recorder);
        }
    }
    let agent = recorder(bench, "pario-trace", "j1", Actor::Agent, 0);
    let file = agent.file("out.dat");
    let start = agent.at(began + Duration::from_secs(10));
    let write = Record::new(TracedOp::Write, Some(&file), start, start);
    agent.record(&Record { len: 8, end: 8, moved: 8, on_behalf_of: Some(2), ..write });
}

fn trace(bench: &Bench, arguments: &[&str]) -> Output {
    let mut pario = Command::new(env!("CARGO_BIN_EXE_pario"));
    pario.arg("trace").args(arguments).current_dir(&bench.0).output().expect("pario runs")
}

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().skip(1).map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn show_merges_the_files_by_time() {
    let bench = Bench::new("trace-show");
    record(&bench);
    let output = trace(&bench, &["show"]);
    let shown = lines(&output);
    assert_eq!(shown.len(), 3 + 12 + 1 + 1);
    let writes: Vec<_> = shown.iter().filter(|l| l.contains("write_at_all")).collect();
    for (n, line) in writes.iter().enumerate() {
        assert!(line.contains(&format!("task {} write_at_all", n % 3)), "{line}");
        assert!(line.contains(&format!(" {0}00..{0}64 10.0 out.dat", n / 3 + 1)), "{line}");
    }
    assert!(writes[7].ends_with(
        "0/64 300..364 10.0 out.dat no-space, No space left on device (os error 28), MPI class 36"
    ));
    assert!(shown[16].contains("agent 0 write 8 0..8") && shown[16].ends_with("out.dat for rank 2"));
    let said = text(&output.stderr);
    assert!(said.contains("task-2.ptrace ends without trailer: the process did not finish"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn show_selects() {
    let bench = Bench::new("trace-select");
    record(&bench);
    let count = |arguments: &[&str]| lines(&trace(&bench, &[&["show"], arguments].concat())).len();
    assert_eq!(count(&["--errors"]), 2);
    assert_eq!(count(&["--rank", "1"]), 5);
    assert_eq!(count(&["--rank", "0,2", "--op", "open,read"]), 3);
    assert_eq!(count(&["--op", "write"]), 13);
    assert_eq!(count(&["--op", "write_at_all", "--limit", "5"]), 5);
    assert_eq!(count(&["pario-trace/task-1.ptrace"]), 5);
}

#[test]
fn show_writes_an_object_per_line() {
    let bench = Bench::new("trace-json");
    record(&bench);
    let output = trace(&bench, &["show", "--json", "--errors"]);
    let objects: Vec<Value> =
        text(&output.stdout).lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["call"], "write_at_all");
    assert_eq!((objects[0]["rank"].as_u64(), objects[0]["errno"].as_u64()), (Some(1), Some(28)));
    assert_eq!((&objects[0]["kind"], &objects[0]["collective"]), (&"no-space".into(), &true.into()));
    assert_eq!((&objects[1]["moved"], &objects[1]["len"]), (&10.into(), &5000.into()));
}

#[test]
fn summary_counts_per_file_and_call() {
    let bench = Bench::new("trace-summary");
    record(&bench);
    let output = trace(&bench, &["summary"]);
    let said = text(&output.stdout);
    assert!(said.starts_with("17 operations in "), "{said}");
    let shown = lines(&output);
    for line in [
        "out.dat (ranks 0-2)",
        "write_at_all 12 704 B 10.0 µs 10.0 µs 10.0 µs 1",
        "64 B ██████████████████████████████ 12",
        "no-space: 1, on rank 1",
        "short: 1, on rank 2",
    ] {
        assert!(shown.iter().any(|l| l == line), "{line:?} is not in\n{said}");
    }
    let all: Value = serde_json::from_slice(&trace(&bench, &["summary", "--json"]).stdout).expect("JSON");
    let calls = all["files"][0]["calls"].as_array().expect("a list");
    let names: Vec<_> = calls.iter().map(|c| c["call"].as_str().expect("a name")).collect();
    assert_eq!(names, ["agent write", "open", "read", "write_at_all"]);
    assert_eq!((&calls[3]["count"], &calls[3]["moved"]), (&12.into(), &704.into()));
    assert_eq!(calls[3]["errors"][0]["what"], "no-space");
    assert_eq!(all["traces"].as_array().map(Vec::len), Some(4));
}

#[test]
fn the_latest_job_is_taken_unless_another_is_named() {
    let bench = Bench::new("trace-jobs");
    for (job, len) in [("one", 1), ("two", 2)] {
        let recorder = recorder(&bench, "t", job, Actor::Task, 0);
        let file = recorder.file("f");
        recorder.record(&Record {
            len,
            end: len,
            moved: len,
            ..Record::new(TracedOp::Write, Some(&file), recorder.now(), recorder.now())
        });
    }
    let output = trace(&bench, &["show", "t"]);
    assert!(lines(&output)[0].contains(" 0..2 "));
    assert!(text(&output.stderr).contains("several jobs (one, two)"));
    assert!(lines(&trace(&bench, &["show", "t", "--job", "one"]))[0].contains(" 0..1 "));
    assert_eq!(lines(&trace(&bench, &["show", "t", "--job", "all"])).len(), 2);
    let output = trace(&bench, &["show", "t", "--job", "three"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("one, two"));
}

#[test]
fn runs_that_cannot_be_told_apart_are_pointed_out() {
    let bench = Bench::new("trace-mixed");
    (0..2).for_each(|_| drop(recorder(&bench, "t", "", Actor::Task, 0)));
    let said = text(&trace(&bench, &["summary", "t"]).stderr);
    assert!(said.contains("task-0.2.ptrace and") && said.contains("runs are mixed"), "{said}");
}

#[test]
fn what_is_no_trace_is_refused_or_passed_over() {
    let bench = Bench::new("trace-refused");
    let fails = |arguments: &[&str], word: &str| {
        let output = trace(&bench, arguments);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(word), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    };
    fails(&["show"], "no trace in pario-trace");
    fails(&["summary", "."], "no trace files (*.ptrace) in .");
    std::fs::write(bench.0.join("x.ptrace"), "no trace").expect("written");
    fails(&["show", "x.ptrace"], "not a trace file");
    drop(recorder(&bench, ".", "", Actor::Task, 0));
    fails(&["show", "--op", "wirte", "."], "no operation is called \"wirte\"");
    let output = trace(&bench, &["show", "."]);
    assert!(lines(&output).is_empty());
    assert!(text(&output.stderr).contains("x.ptrace is not a trace file of Pario; it is passed over"));
}

#[test]
fn help_teaches_the_setting() {
    let bench = Bench::new("trace-help");
    let help = text(&trace(&bench, &["--help"]).stdout);
    for word in [
        "PARIO_TRACE=errors|all[,min=OFFSET][,dir=DIR][,clock=system]",
        "task-RANK.ptrace",
        "pario trace summary",
    ] {
        assert!(help.contains(word), "{help}");
    }
}
