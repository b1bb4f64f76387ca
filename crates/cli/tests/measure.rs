//! `pario bench` with real runs on Open MPI. The library that is preloaded is empty: what is tried here is the measuring.

mod bench;

use bench::{Bench, text};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// `pario bench` in a directory of its own; the built workloads are shared.
fn pario(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bench.pario(&[&["bench"], arguments].concat());
    command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    command
}

fn place(name: &str) -> Bench {
    let bench = Bench::new(&format!("measure-{name}"));
    bench.library();
    bench
}

fn run(bench: &Bench, arguments: &[&str]) -> Output {
    pario(bench, arguments).output().expect("pario starts")
}

const SMALL: [&str; 8] =
    ["compare", "--mpi", "openmpi", "-n", "2", "--workload", "partitioning:small", "--repeat"];

fn measure(bench: &Bench, options: &[&str]) -> Output {
    run(bench, &[&SMALL[..], &["3"], options].concat())
}

/// What is left in the directory besides what the tests put there.
fn left(bench: &Bench) -> Vec<String> {
    let entries = std::fs::read_dir(bench.path(".")).expect("the directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    names.filter(|name| name.starts_with("pario-bench")).collect()
}

#[test]
fn the_same_is_no_regression_and_a_delay_is() {
    let bench = place("diff");
    let first = measure(&bench, &["--json", "first.json", "--html", "page.html"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let table = text(&first.stdout);
    assert_eq!(table.lines().count(), 5, "{table}");
    assert!(table.contains("(baseline)") && table.contains("pario"), "{table}");
    assert_eq!(text(&first.stderr).lines().count(), 6, "a line for each run");
    let page = std::fs::read_to_string(bench.path("page.html")).expect("the page");
    assert!(page.contains("<svg") && page.contains("partitioning:small"));

    // Each of a rank's 64 calls takes 2 ms longer, however busy the machine is.
    let slow = measure(&bench, &["--json", "slow.json", "--quiet", "--", "--delay-us", "2000"]);
    assert!(slow.status.success() && slow.stderr.is_empty(), "{}", text(&slow.stderr));
    let results = std::fs::read_to_string(bench.path("slow.json")).expect("the file");
    let mut results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    let mut phases = 0;
    for series in results["series"].as_array_mut().expect("series") {
        for run in series["runs"].as_array_mut().expect("runs") {
            for phase in ["writing", "reading"] {
                let seconds = run["seconds"][phase].as_f64().expect("a number");
                assert!(seconds >= 64.0 * 0.002, "{seconds}");
                phases += 1;
                // What it might be without the delay.
                run["seconds"][phase] = (0.01 + 0.0001 * f64::from(phases % 5)).into();
            }
        }
    }
    assert_eq!(phases, 2 * 3 * 2);
    bench.file("fast.json", &results.to_string());

    let alike = run(&bench, &["diff", "first.json", "first.json"]);
    assert_eq!(alike.status.code(), Some(0), "{}", text(&alike.stdout));
    let slower = run(&bench, &["diff", "fast.json", "slow.json"]);
    assert_eq!(slower.status.code(), Some(1), "{}", text(&slower.stdout));
    assert_eq!(text(&slower.stdout).matches("SLOWER").count(), 4, "{}", text(&slower.stdout));
    let faster = run(&bench, &["diff", "slow.json", "fast.json"]);
    assert_eq!(faster.status.code(), Some(0), "{}", text(&faster.stdout));
    let wide = run(&bench, &["diff", "fast.json", "slow.json", "--margin", "1000000"]);
    assert_eq!(wide.status.code(), Some(0), "{}", text(&wide.stdout));
    assert_eq!(left(&bench), [""; 0]);
}

#[test]
fn an_interrupted_comparison_keeps_what_it_has() {
    let bench = place("interrupted");
    let mut command = pario(&bench, &[&SMALL[..], &["1000", "--json", "part.json"]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pario starts");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    for _ in 0..3 {
        said.next().expect("a line for each run").expect("readable");
    }
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.expect("kill starts").success());
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{rest:?}");
    assert!(text(&output.stdout).contains("This is not all"), "{}", text(&output.stdout));
    let part = std::fs::read_to_string(bench.path("part.json")).expect("the file");
    assert!(part.contains("\"complete\": false") && part.matches("bytes_written").count() >= 3, "{part}");
    assert_eq!(left(&bench), [""; 0]);
}

#[test]
fn a_run_that_fails_is_said() {
    let bench = place("fails");
    let output = measure(&bench, &["--json", "failed.json", "--quiet", "--", "--nonsense"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert_eq!(table.matches("pario-workload: '--nonsense' is not known").count(), 2, "{table}");
    let empty = run(&bench, &["diff", "failed.json", "failed.json"]);
    assert_eq!(empty.status.code(), Some(2));
    assert!(text(&empty.stderr).contains("in common"), "{}", text(&empty.stderr));
    assert_eq!(left(&bench), [""; 0]);
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    let bench = place("refused");
    bench.script("broken", "echo 'mpi.h: error: no such file' >&2; exit 1");
    for (arguments, word) in [
        (&["--workload", "nothing"][..], "there is no workload \"nothing\""),
        (&["--workload", "btio:huge", "-n", "4"], "has no preset \"huge\", but small, medium, bt-A"),
        (&["--workload", "btio", "-n", "3"], "btio does not run on 3 ranks: it has to be a square"),
        (&["--workload", "fft", "-n", "6"], "it has to be a power of two"),
        (&["--workload", "perf", "--mpi", "mpich", "--against", "ompio"], "--against ompio needs Open MPI"),
        (
            &["--workload", "perf", "--mpi", "openmpi", "--mpicc", "mpicc.mpich"],
            "is of MPICH, not of Open MPI",
        ),
        (&["--workload", "perf", "--mpicc", "./nowhere"], "nowhere: not found; install"),
        (&["--workload", "perf", "--mpicc", "./broken"], "cannot compile the workloads: mpi.h: error"),
        (
            &["--workload", "perf", "--mpi", "openmpi", "--dir", "nowhere"],
            "nowhere: cannot be used for the files",
        ),
    ] {
        let output = run(&bench, &[&["compare"], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{arguments:?}: {said}");
        assert!(said.contains(word), "{said}");
    }
    let strategy = run(&bench, &["compare", "--strategy", "two-phase,clever"]);
    assert_eq!(strategy.status.code(), Some(2));
    assert!(text(&strategy.stderr).contains("clever"), "{}", text(&strategy.stderr));
    let missing = run(&bench, &["diff", "nowhere.json", "nowhere.json"]);
    assert_eq!(missing.status.code(), Some(2));
    let list = run(&bench, &["list"]);
    assert!(list.status.success() && text(&list.stdout).contains("bt-C"));
    let built = run(&bench, &["build", "--mpi", "openmpi"]);
    assert!(Path::new(text(&built.stdout).trim()).is_file(), "{}", text(&built.stderr));
}
