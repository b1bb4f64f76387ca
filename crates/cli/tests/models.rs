//! `pario models` as users call it: real processes that write real files, and everything that may come between.

#[allow(dead_code, reason = "other tests use the rest of it")]
mod bench;
#[path = "files/site.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod site;

use bench::{Bench, text};
use pario_trace::{Actor, Record, Recorder, TraceSetup, TracedOp};
use serde_json::Value;
use site::{Site, await_that};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SMALL: [&str; 9] = ["models", "--size", "64K", "--nodes", "2", "--ppn", "2", "--stripe", "4K"];

struct Place {
    bench: Bench,
}

impl Place {
    fn new(name: &str) -> Place {
        let bench = Bench::new(&format!("models-{name}"));
        std::fs::create_dir(bench.path("data")).expect("a directory");
        Place { bench }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bench.pario(arguments);
        for name in ["PARIO_PARTITION", "PARIO_SSH", "SLURM_JOB_ID"] {
            command.env_remove(name);
        }
        command
    }

    fn small(&self, more: &[&str]) -> Command {
        let mut command = self.command(&SMALL);
        command.args(["--dir", "data"]).args(more);
        command
    }

    fn good(&self, arguments: &[&str]) -> String {
        succeeds(self.command(arguments))
    }

    fn bad(&self, code: i32, arguments: &[&str]) -> String {
        fails(code, self.command(arguments))
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.bench.path(name)).expect("written")
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).expect("JSON")
    }

    /// Lines of the CSV file after the first.
    fn rows(&self) -> usize {
        let text = std::fs::read_to_string(self.bench.path("m.csv")).unwrap_or_default();
        text.matches('\n').count().saturating_sub(1)
    }

    /// What the run's directory holds now.
    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.bench.path("data")).expect("there");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    /// The processes of runs in this directory, by the program's path.
    fn workers(&self, part: &str) -> Vec<u32> {
        let program = self.bench.path("bin/pario");
        let wanted = format!("{}\0models-worker\0--part\0{part}\0", program.display());
        let entries = std::fs::read_dir("/proc").expect("there");
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        ids.filter(|id| {
            std::fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| line == wanted.as_bytes())
        })
        .collect()
    }

    fn assert_nothing_left(&self) {
        assert_eq!(self.left(), Vec::<PathBuf>::new());
        for part in ["host", "process"] {
            await_that("no process is left", || self.workers(part).is_empty());
        }
    }

    /// A run that takes long, after its first measurements.
    fn long_run(&self) -> Child {
        let outputs = ["--csv", "m.csv", "--json", "m.json", "--html", "m.html", "--svg", "m.svg"];
        let mut command = self.small(&["--repeat", "1000"]);
        command.args(outputs).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let child = command.spawn().expect("pario runs");
        await_that("a few measurements", || self.rows() > 3);
        child
    }

    /// What was measured before the end is in all outputs, as partial.
    fn assert_partial(&self) {
        let (rows, object) = (self.rows(), self.json("m.json"));
        assert_eq!(object["measurements"].as_array().expect("rows").len(), rows);
        assert_eq!((&object["partial"], &object["planned"]), (&true.into(), &9000.into()));
        assert!((4..9000).contains(&rows), "{rows}");
        for name in ["m.html", "m.svg"] {
            assert!(self.read(name).contains(&format!("PARTIAL: {rows} of 9000 measurements")), "{name}");
        }
    }
}

fn succeeds(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("pario runs");
    assert!(status.success() && stderr.is_empty(), "{}{}", text(&stderr), text(&stdout));
    text(&stdout)
}

fn fails(code: i32, mut command: Command) -> String {
    let Output { status, stderr, .. } = command.output().expect("pario runs");
    let cried = text(&stderr);
    assert_eq!((status.code(), cried.lines().count()), (Some(code), 1), "{cried}");
    cried
}

/// Sends a signal to a process, or as a terminal does to the group of one.
fn signal(whom: &str, name: &str) {
    let kill = Command::new("kill").args(["-s", name, "--", whom]).status();
    assert!(kill.expect("kill runs").success());
}

#[test]
fn a_plan_lists_the_models() {
    let place = Place::new("plan");
    let plan = |size, nodes, ppn| {
        let text =
            place.good(&["models", "--plan", "--json", "--size", size, "--nodes", nodes, "--ppn", ppn]);
        serde_json::from_str::<Vec<Value>>(&text).expect("an array")
    };
    for (size, nodes, ppn, count) in
        [("1M", "1", "2", 3), ("1M", "2", "2", 9), ("1M", "4", "4", 36), ("4M", "8", "8", 100)]
    {
        assert_eq!(plan(size, nodes, ppn).len(), count);
    }
    let large = plan("32M", "32", "16");
    assert_eq!(large.len(), 315);
    for model in &large {
        let number = |name: &str| model[name].as_u64().expect(name);
        assert_eq!(number("procs") * number("bytes_per_proc"), 32 << 20);
        assert_eq!(number("files") * number("procs_per_file"), number("procs"));
        assert_eq!(number("nodes") * number("ppn"), number("procs"));
        assert!(number("files_per_node") <= number("ppn") && number("shared_nodes") <= number("nodes"));
    }
    let words = place.good(&["models", "--plan", "--size", "32M", "--nodes", "32", "--ppn", "16"]);
    assert!(words.starts_with("315 models in 55 cells, each writes 32 MiB\n"), "{words}");
    assert_eq!(words.lines().count(), 317);
}

#[test]
fn what_makes_no_sense_is_refused_in_a_line() {
    let place = Place::new("refused");
    let why = |size, nodes, ppn| place.bad(2, &["models", "--size", size, "--nodes", nodes, "--ppn", ppn]);
    assert!(why("1M", "3", "4").contains("3 nodes is not a power of two"));
    assert!(why("1M", "4", "6").contains("6 processes per node is not a power of two"));
    assert!(why("100K", "2", "2").contains("take 256 KiB or a smaller stripe"), "{}", why("100K", "2", "2"));
    assert!(why("1G", "64", "32").contains("2048 processes on one host"));
    let hosts = |hosts| place.bad(2, &[&SMALL[..], &["--hosts", hosts]].concat());
    assert!(hosts("a,b,c").contains("--hosts names 3"));
    assert!(hosts("a,a").contains("a twice"));
    let io = |io, dir| place.bad(2, &[&SMALL[..], &["--io", io, "--dir", dir]].concat());
    assert!(io("pario", "data").contains("'data' is a plain directory"));
    assert!(io("posix", "pario:some/where").contains("is on a partition"));
    let room = place.bad(1, &["models", "--size", "512T", "--nodes", "1", "--ppn", "1", "--dir", "data"]);
    assert!(room.contains("free, and each model writes 512 TiB"), "{room}");
    let missing = place.bad(1, &[&SMALL[..], &["--dir", "nowhere"]].concat());
    assert!(missing.contains("nowhere"), "{missing}");
    assert!(place.bad(1, &[&SMALL[..], &["--csv", "no/where.csv"]].concat()).contains("no/where.csv"));
    std::fs::write(place.bench.path("x.csv"), "a,b\n1,2\n").expect("written");
    assert!(place.bad(2, &["models", "--from", "x.csv"]).contains("row 2: there is no column op"));
    place.assert_nothing_left();
}

/// The attributes of the cells of a picture.
fn cells(picture: &str) -> Vec<String> {
    let tags = picture.split("<g class=\"cell\" ").skip(1);
    tags.map(|rest| rest.split('>').next().expect("a tag").to_owned()).collect()
}

#[test]
fn one_launch_measures_all_models_and_can_be_drawn_again() {
    let place = Place::new("whole");
    let outputs = ["--csv", "m.csv", "--json", "m.json", "--html", "m.html", "--svg", "m.svg"];
    let mut command = place.small(&["--reads", "--repeat", "2", "--fsync", "--transfer", "5000"]);
    command.args(outputs).args(["--note", "a note"]);
    let words = succeeds(command);
    assert!(words.contains("best throughput") && words.contains("nodes are virtual"), "{words}");
    assert!(!words.contains("PARTIAL"));
    place.assert_nothing_left();
    assert_eq!(place.rows(), 9 * 2 * 2);

    let object = place.json("m.json");
    assert_eq!(object["partial"], false);
    let rows = object["measurements"].as_array().expect("rows");
    assert_eq!(rows.len(), 36);
    for row in rows {
        let (seconds, throughput) = (row["seconds"].as_f64(), row["throughput"].as_f64());
        let wanted = 65536.0 / seconds.expect("seconds");
        assert!((throughput.expect("throughput") / wanted - 1.0).abs() < 1e-9, "{row}");
        assert_eq!(row["nodes_are"], "virtual");
    }
    assert_eq!(object["boards"][0]["cells"].as_array().expect("cells").len(), 6);

    let again = place.good(&["models", "--from", "m.csv", "--svg", "again.svg", "--html", "again.html"]);
    assert!(again.contains("best throughput") && !again.contains("PARTIAL"), "{again}");
    for (one, other, count) in [("m.svg", "again.svg", 36), ("m.html", "again.html", 12)] {
        let shown = cells(&place.read(one));
        assert_eq!((shown.len(), &shown), (count, &cells(&place.read(other))), "{one}");
    }
    assert!(place.read("m.svg").contains(">a note<"));
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let place = Place::new("interrupted");
    let child = place.long_run();
    signal(&format!("-{}", child.id()), "INT");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("interrupted after"), "{}", text(&output.stderr));
    place.assert_partial();
    place.assert_nothing_left();
}

#[test]
fn a_killed_run_leaves_nothing_behind() {
    let place = Place::new("killed");
    let mut child = place.long_run();
    child.kill().expect("killed");
    child.wait().expect("it ends");
    await_that("its files are removed", || place.left().is_empty());
    place.assert_nothing_left();
    // Its measurements up to then are complete rows.
    let again = place.good(&["models", "--from", "m.csv"]);
    assert!(again.contains("best throughput"), "{again}");
}

#[test]
fn a_process_that_dies_ends_the_run_with_a_word() {
    let place = Place::new("dies");
    let child = place.long_run();
    let victim = place.workers("process")[0];
    signal(&victim.to_string(), "KILL");
    let output = child.wait_with_output().expect("it ends");
    let cried = text(&output.stderr);
    assert_eq!((output.status.code(), cried.lines().count()), (Some(1), 1), "{cried}");
    assert!(cried.contains("node ") && cried.contains("it ended or was killed"), "{cried}");
    place.assert_partial();
    place.assert_nothing_left();
}

#[test]
fn wrong_contents_fail_the_run() {
    let place = Place::new("wrong");
    let mut child = place.long_run();
    // Damages whatever it finds, as often as it takes until a check sees it.
    let since = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        assert!(since.elapsed() < Duration::from_secs(60), "no damage is noticed");
        for directory in place.left() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let file = std::fs::OpenOptions::new().write(true).open(entry.path());
                let _ = file.and_then(|mut file| {
                    file.seek(SeekFrom::Start(1000))?;
                    file.write_all(b"damage")
                });
            }
        }
    }
    let output = child.wait_with_output().expect("it ends");
    let cried = text(&output.stderr);
    assert_eq!((output.status.code(), cried.lines().count()), (Some(1), 1), "{cried}");
    assert!(cried.contains("check of the model") && cried.contains("is not what was written"), "{cried}");
    place.assert_partial();
    place.assert_nothing_left();
}

#[test]
fn nodes_are_hosts_if_hosts_are_named() {
    let place = Place::new("hosts");
    let script = "echo welcome to this host
        while [ \"$1\" != -- ]; do shift; done
        [ \"$2\" != broken ] || { echo no route to $2 >&2; exit 255; }
        shift 2; exec sh -c \"$*\"";
    let ssh = place.bench.script("ssh", script);
    let run = |hosts| {
        let mut command = place.small(&["--hosts", hosts, "--reads", "--csv", "m.csv"]);
        command.env("PARIO_SSH", &ssh);
        command
    };
    let words = succeeds(run("n1.invalid,n2.invalid"));
    assert!(words.contains("each node is a host"), "{words}");
    assert_eq!(place.rows(), 18);
    assert_eq!(place.read("m.csv").matches(",hosts,").count(), 18);
    place.assert_nothing_left();

    let why = fails(1, run("n1.invalid,broken"));
    assert!(why.contains("broken") && why.contains("no route to broken"), "{why}");
    place.assert_nothing_left();
}

#[test]
fn partitions_are_measured_beside_directories() {
    let site = Site::new("models", 2, "");
    let outputs = ["--csv", "m.csv", "--dir", "pario:part/", "--dir", "."];
    let run = |more: &[&str]| site.good(&[&SMALL[..], &outputs, more].concat());
    let words = run(&["--reads"]);
    assert!(words.contains("write part:/ (pario)") && words.contains("(posix)"), "{words}");
    let rows = text(&site.read("m.csv"));
    for series in ["part:/,pario,write,", "part:/,pario,read,", ",posix,write,", ",posix,read,"] {
        assert_eq!(rows.matches(series).count(), 9, "{series}");
    }
    assert_eq!(site.good(&["ls", "part:/"]), "");
    let why = site.bad(1, &[&SMALL[..], &["--dir", "pario:nowhere/"]].concat());
    assert!(why.contains("nowhere"), "{why}");
}

/// Four ranks write one file; the first of them also a small one of its own.
fn record(place: &Place) {
    let setup = TraceSetup::parse("all,clock=system").expect("good").expect("a trace");
    let setup = TraceSetup { dir: place.bench.path("trace"), ..setup };
    let began = Instant::now();
    for rank in 0..4 {
        let recorder = Recorder::start(&setup, Actor::Task, rank, 4);
        let file = recorder.file("shared.dat");
        let [start, over] = [began, began + Duration::from_millis(500)].map(|instant| recorder.at(instant));
        let write = |offset: u64, len: u64| Record {
            offset,
            end: offset + len,
            len,
            moved: len,
            ..Record::new(TracedOp::Write, Some(&file), start, over)
        };
        recorder.record(&write(u64::from(rank) * 1000, 1000));
        recorder.record(&Record { call: TracedOp::Read.into(), ..write(0, 1000) });
        recorder.finish().expect("written");
    }
}

#[test]
fn a_traced_program_has_its_place() {
    let place = Place::new("mark");
    record(&place);
    let words = succeeds(place.small(&["--csv", "m.csv", "--svg", "m.svg", "--mark", "trace"]));
    assert!(words.contains("the traced program: 4 processes write, 4 per file, "), "{words}");
    assert!(words.contains(" kB/s while they do"), "{words}");
    assert!(words.contains("cell (2,2)") && words.contains("times as much"), "{words}");
    let picture = place.read("m.svg");
    assert_eq!(picture.matches("<g class=\"mark\" data-procs=\"2\" data-per-file=\"2\">").count(), 3);
    let why = place.bad(2, &["models", "--from", "m.csv", "--mark", "data"]);
    assert!(why.contains("no trace files"), "{why}");
}
