//! `pario plan`, `profile`, `advise` and `convert` as users and scripts call them.

#[allow(dead_code, reason = "other tests run scripts")]
mod bench;

use bench::{Bench, text};
use pario_trace::{Actor, Pace, PointerKind, Record, Recorder, TraceSetup, TracedCall, TracedOp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;
use std::time::{Duration, Instant};

/// The paper's first figure: processes w to z, chunks a to j of ten bytes, j with a byte before it.
const FIGURE: &str = include_str!("../../profile/tests/figure.csv");

fn pario(bench: &Bench, arguments: &[&str]) -> Output {
    bench.pario(arguments).output().expect("pario runs")
}

fn good(bench: &Bench, arguments: &[&str]) -> String {
    let output = pario(bench, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The one line that a failing command says.
fn refused(bench: &Bench, arguments: &[&str]) -> String {
    let output = pario(bench, arguments);
    let line = text(&output.stderr);
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    assert!(output.stdout.is_empty(), "{output:?}");
    line
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Two ranks that write a block in turns, eight times; rank 1 with two accesses in flight at once.
fn record(bench: &Bench, mode: &str) {
    let began = Instant::now();
    for rank in 0..2u32 {
        let setup = TraceSetup::parse(&format!("{mode},clock=system")).expect("good").expect("a trace");
        let setup = TraceSetup { dir: bench.path("pario-trace"), job: "j".to_owned(), ..setup };
        let recorder = Recorder::start(&setup, Actor::Task, rank, 2);
        let file = recorder.file("out.dat");
        recorder.record(&Record::new(TracedOp::Open, Some(&file), recorder.at(began), recorder.now()));
        for step in 0..8u64 {
            let pace = if rank == 1 { Pace::Nonblocking } else { Pace::Blocking };
            let call = TracedCall { op: TracedOp::Write, place: PointerKind::At, collective: false, pace };
            let offset = (2 * step + u64::from(rank)) * 4096;
            let start = began + Duration::from_millis(1000 + 10 * step);
            let [start, over] =
                [start, start + Duration::from_millis(15)].map(|instant| recorder.at(instant));
            recorder.record(&Record {
                offset,
                end: offset + 4096,
                len: 4096,
                moved: 4096,
                ..Record::new(call, Some(&file), start, over)
            });
        }
    }
}

#[test]
fn a_table_becomes_a_plan() {
    let bench = Bench::new("plan_table");
    std::fs::write(bench.path("fig.csv"), FIGURE).expect("written");
    let plan = json(&good(&bench, &["plan", "fig.csv", "--json"]));
    let chunks = plan["chunks"].as_array().expect("chunks");
    let placements: Vec<&str> =
        chunks.iter().map(|chunk| chunk["placement"].as_str().expect("a word")).collect();
    assert_eq!(
        placements,
        ["local", "broadcast", "local", "local", "central", "local", "local", "duplicate", "local", "local"]
    );
    assert_eq!((&chunks[7]["offset"], &chunks[7]["length"]), (&Value::from(70), &Value::from(10)));
    assert_eq!(chunks[7]["processes"], serde_json::json!(["y", "z"]));
    let partitions = plan["partitions"].as_array().expect("partitions");
    assert_eq!(partitions.len(), 5);
    assert_eq!(partitions[0]["chunks"], serde_json::json!([2, 1, 0]));
    assert_eq!(
        (&partitions[4]["kind"], &partitions[4]["chunks"]),
        (&"central".into(), &serde_json::json!([4]))
    );

    // The file says the same.
    let summary = good(&bench, &["plan", "fig.csv", "--out", "fig.plan"]);
    assert!(summary.contains("10 chunks") && summary.contains("saved, 76.7 %"), "{summary}");
    let again = json(&good(&bench, &["plan", "fig.plan", "--json"]));
    assert_eq!((&again["chunks"], &again["partitions"]), (&plan["chunks"], &plan["partitions"]));

    let why = good(&bench, &["plan", "fig.csv", "--explain", "f:45"]);
    assert!(why.contains("chunk 4") && why.contains("2 processes use it and 2 of them write it"), "{why}");
    let why = good(&bench, &["plan", "fig.plan", "--explain", "1"]);
    assert!(why.contains("x alone writes it"), "{why}");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let bench = Bench::new("plan_wrong");
    let write = |name: &str, text: &str| std::fs::write(bench.path(name), text).expect("written");
    write("bad.csv", "process,file,offset,length,op,time\nw,f,0,10,append,3\n");
    write("none.csv", "process,file,offset,length,op,time\n");
    write("fig.csv", FIGURE);
    write("old.plan", "version = 7\n");
    for (arguments, part) in [
        (&["plan", "nowhere"][..], "no profile in nowhere"),
        (&["plan", "bad.csv"], "bad.csv: line 2: op is \"append\""),
        (&["plan", "none.csv"], "no read or write"),
        (&["plan", "old.plan"], "version 7"),
        (&["plan", "fig.csv", "--explain", "f:4500"], "no chunk"),
        (&["plan", "fig.csv", "--by", "node"], "nodes"),
        (&["plan", "fig.csv", "--rescale-to", "size=2x"], "neither come again"),
        (&["advise", "nowhere"], "no profile"),
    ] {
        let line = refused(&bench, arguments);
        assert!(line.contains(part), "{arguments:?}: {line}");
    }
    record(&bench, "all,min=1");
    assert!(refused(&bench, &["plan", "pario-trace"]).contains("without min"));
}

#[test]
fn a_trace_becomes_a_plan_at_any_size() {
    let bench = Bench::new("plan_trace");
    record(&bench, "all");
    let plan = json(&good(&bench, &["plan", "pario-trace", "--out", "small.plan", "--json"]));
    assert_eq!(plan["chunks"].as_array().map(Vec::len), Some(16));
    let large = good(&bench, &["plan", "small.plan", "--rescale-to", "size=1M,ranks=4", "--json"]);
    let large = json(&large);
    let chunks = large["chunks"].as_array().expect("chunks");
    assert_eq!(chunks.len(), 256);
    assert_eq!((&chunks[255]["offset"], &chunks[255]["home"]), (&Value::from(255 * 4096), &"3".into()));
    let told = ["plan", "pario-trace", "--rescale-to", "size=2x", "--trend", "larger-chunks", "--json"];
    assert_eq!(json(&good(&bench, &told))["chunks"][15]["length"], 8192);
}

#[test]
fn a_profile_goes_to_other_programs_and_back() {
    let bench = Bench::new("convert");
    record(&bench, "all");
    good(&bench, &["convert", "pario-trace", "--to", "csv", "all.csv"]);
    good(&bench, &["convert", "pario-trace", "--to", "darshan", "run.darshan"]);
    let plan = |name: &str| {
        let mut plan = json(&good(&bench, &["plan", name, "--json"]));
        (plan["chunks"].take(), plan["partitions"].take())
    };
    let wanted = plan("pario-trace");
    assert_eq!(wanted.0.as_array().map(Vec::len), Some(16));
    assert_eq!((plan("all.csv"), plan("run.darshan")), (wanted.clone(), wanted));

    good(&bench, &["convert", "pario-trace", "--to", "json", "all.json"]);
    let lines = std::fs::read_to_string(bench.path("all.json")).expect("written");
    assert_eq!(lines.lines().map(json).filter(|event| event["op"] == "write").count(), 16);

    let log = std::fs::read(bench.path("run.darshan")).expect("written");
    let stored = |bytes: usize| 2 + 5 + bytes + 4;
    assert_eq!(log.len(), 360 + stored(4096) + stored(16) + stored(2 * 104 + 16 * 32));
    let mut foreign = log.clone();
    foreign[8..16].reverse();
    std::fs::write(bench.path("big.darshan"), foreign).expect("written");
    let line = refused(&bench, &["plan", "big.darshan"]);
    assert!(line.contains("big-endian") && line.contains("darshan-dxt-parser"), "{line}");
    std::fs::write(bench.path("cut.darshan"), &log[..log.len() - 1]).expect("written");
    assert!(refused(&bench, &["plan", "cut.darshan"]).contains("damaged"));

    good(&bench, &["convert", "pario-trace", "--to", "perfetto", "run.json"]);
    let trace = json(&std::fs::read_to_string(bench.path("run.json")).expect("written"));
    let tracks = tracks(&trace);
    let of = |rank: u64| {
        tracks.iter().filter(|((pid, _), _)| *pid == rank + 1).map(|(_, track)| track).collect::<Vec<_>>()
    };
    let names = |rank| of(rank).iter().map(|track| track.name.as_str()).collect::<Vec<_>>();
    // Rank 1 has two accesses in flight at once; those of rank 0 overlap, as if two threads did them.
    assert_eq!((names(0), names(1)), (vec!["calls", "calls 2"], vec!["calls", "request 1", "request 2"]));
    assert_eq!(of(0).iter().chain(&of(1)).map(|track| track.slices.len()).sum::<usize>(), 18);
    let starts = tracks.values().flat_map(|track| track.slices.iter().map(|slice| slice.0));
    assert_eq!(starts.min(), Some(0));
}

/// A track of a Chrome trace: its name, and its slices in nanoseconds, start and end.
#[derive(Default)]
struct Track {
    name: String,
    slices: Vec<(u64, u64)>,
}

/// The tracks of a Chrome trace, every rule of whose format is checked: which fields an event has and of which type,
/// names that come once and before their slices, times that are not negative, and slices of a track that do not overlap.
fn tracks(trace: &Value) -> BTreeMap<(u64, u64), Track> {
    let object = |value: &Value, keys: &[&str]| {
        let object = value.as_object().expect("an object");
        let found: BTreeSet<&str> = object.keys().map(String::as_str).collect();
        assert_eq!(found, keys.iter().copied().collect(), "{value}");
    };
    object(trace, &["displayTimeUnit", "traceEvents"]);
    assert!(["ms", "ns"].map(Value::from).contains(&trace["displayTimeUnit"]));
    let mut processes = BTreeSet::new();
    let mut tracks: BTreeMap<(u64, u64), Track> = BTreeMap::new();
    for event in trace["traceEvents"].as_array().expect("events") {
        let number = |key: &str| event[key].as_u64().expect("a number that is not negative");
        let (pid, tid) = (number("pid"), number("tid"));
        let name = event["name"].as_str().filter(|name| !name.is_empty()).expect("a name");
        match event["ph"].as_str() {
            Some("M") => {
                object(event, &["name", "ph", "pid", "tid", "args"]);
                object(&event["args"], &["name"]);
                let given = event["args"]["name"].as_str().filter(|name| !name.is_empty()).expect("a name");
                let is_new = match name {
                    "process_name" => processes.insert(pid),
                    "thread_name" => {
                        let track = Track { name: given.to_owned(), ..Track::default() };
                        tracks.insert((pid, tid), track).is_none()
                    }
                    _ => panic!("{event}"),
                };
                assert!(is_new, "{event}");
            }
            Some("X") => {
                object(event, &["name", "cat", "ph", "pid", "tid", "ts", "dur", "args"]);
                assert!(event["cat"].is_string() && event["args"].is_object(), "{event}");
                let nanoseconds = |key: &str| {
                    let micros = event[key].as_f64().filter(|micros| *micros >= 0.0).expect("a time");
                    (micros * 1e3).round() as u64
                };
                let start = nanoseconds("ts");
                assert!(processes.contains(&pid), "{event}");
                let track = tracks.get_mut(&(pid, tid)).expect("a track with a name");
                track.slices.push((start, start + nanoseconds("dur")));
            }
            _ => panic!("{event}"),
        }
    }
    for track in tracks.values_mut() {
        track.slices.sort_unstable();
        assert!(track.slices.windows(2).all(|two| two[0].1 <= two[1].0), "{:?}", track.slices);
    }
    tracks
}

#[test]
fn advice_has_numbers_and_a_page_that_stands_alone() {
    let bench = Bench::new("advise");
    std::fs::write(bench.path("fig.csv"), FIGURE).expect("written");
    assert!(good(&bench, &["advise", "fig.csv"]).contains("no advice"));

    let mut table = "process,file,offset,length,op,time\n".to_owned();
    for step in 0..100 {
        for rank in 0..4 {
            table += &format!("{rank},<b>,{},4096,write,{step}\n", (4 * step + rank) * 4096);
        }
    }
    std::fs::write(bench.path("turns.csv"), table).expect("written");
    let output = json(&good(&bench, &["advise", "turns.csv", "--json", "--html", "page.html"]));
    let advice = output["advice"].as_array().expect("advice");
    assert_eq!(
        (advice.len(), &advice[0]["topic"], &advice[0]["severity"]),
        (1, &"independent".into(), &"high".into())
    );
    assert!(advice[0]["evidence"].as_str().is_some_and(|line| line.contains("400 independent")));
    let page = std::fs::read_to_string(bench.path("page.html")).expect("written");
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(page.contains("&lt;b&gt;") && !page.contains("<b>,") && page.ends_with("</body></html>\n"));
    assert!(!["http:", "https:", "<script", "<link", "url("].iter().any(|word| page.contains(word)));

    let told = good(&bench, &["advise", "fig.csv", "--hints", "cb_nodes=9;romio_cb_read=maybe"]);
    assert_eq!(told.matches("low: hints").count(), 2, "{told}");
}

#[test]
fn a_profiled_program_ends_as_it_would() {
    let bench = Bench::new("profile");
    bench.library();
    let program =
        "#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); MPI_Finalize(); return 7; }\n";
    for (compiler, launcher) in [("mpicc.mpich", "mpiexec.mpich"), ("mpicc.openmpi", "mpiexec.openmpi")] {
        let file = bench.compile(compiler, program, &["-o", compiler]);
        let file = file.to_str().expect("a path");
        // An empty library stands in for Pario's, so that nothing is recorded; that is said.
        for arguments in
            [&["profile", "-n", "1", "--", file][..], &["profile", "--", launcher, "-n", "1", file]]
        {
            let output = pario(&bench, arguments);
            assert_eq!(output.status.code(), Some(7), "{arguments:?}: {}", text(&output.stderr));
            assert!(text(&output.stderr).contains("no trace files"), "{}", text(&output.stderr));
        }
    }
    let shown =
        good(&bench, &["profile", "--dry-run", "--dir", "t", "--", "mpiexec.mpich", "-n", "3", "./x"]);
    assert!(shown.contains("PARIO_TRACE all,dir=") && shown.contains("-n 3 ./x"), "{shown}");
    assert!(
        refused(&bench, &["profile", "-n", "2", "--", "mpiexec.mpich", "-n", "3", "./x"])
            .contains("leave -n out")
    );
}
