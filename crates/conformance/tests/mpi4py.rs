//! mpi4py's own tests of files, file I/O and error handlers, under Pario on both hosts.
//!
//! The same modules run on the host alone first: tests that pass on the host must pass under Pario,
//! so a test may be skipped under Pario only if the host alone skips it too. Then the tests of file I/O that
//! mpi4py skips because of known faults of the host's own I/O run under Pario as well: the faults are not ours.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pario_conformance::partition::{Site, TestPartition};
use pario_conformance::{HostMpi, InstalledKind, Output, ProgramRun, Scratch, scratch, workspace_dir};

const MODULES: [&str; 3] = ["test_io", "test_file", "test_errhandler"];

/// The outcome of one test on one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
    /// It began and never ended.
    Hung,
}

type Outcomes = BTreeMap<String, Outcome>;

fn python(host: HostMpi) -> PathBuf {
    let variable = format!("PARIO_TEST_PYTHON_{}", host.name().to_uppercase());
    let fallback = format!("target/venv-{}/bin/python", host.name());
    provided(&variable, &fallback)
}

fn test_directory() -> PathBuf {
    provided("PARIO_TEST_MPI4PY_SRC", "target/mpi4py-src").join("test")
}

fn provided(variable: &str, fallback: &str) -> PathBuf {
    let path = std::env::var_os(variable).map_or_else(|| workspace_dir().join(fallback), PathBuf::from);
    assert!(path.exists(), "{} is missing: run `cargo xtask setup` or set {variable}", path.display());
    path
}

/// One run of the suite: every rank's outcomes, and what the run said.
fn suite(
    host: HostMpi,
    ranks: u32,
    preload: bool,
    options: &[&str],
    site: Option<&Site<'_>>,
) -> (Vec<Outcomes>, Output) {
    let dir: Scratch = scratch();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/apps/mpi4py_suite.py");
    let run = ProgramRun::new(host, ranks, python(host)).arg(script).arg(test_directory()).arg(dir.path());
    // The tests' own files fall into the scratch directory.
    let run = run.args(options).env("TMPDIR", &dir.path().to_string_lossy());
    let run = match site {
        Some(site) => run.on(site, dir.path()),
        None => run,
    };
    let output = run.dir(dir.path()).preload(preload).timeout(180).run();
    let outcomes = (0..ranks).map(|rank| record(&dir.join(format!("rank-{rank}.txt")))).collect();
    (outcomes, output)
}

fn record(path: &Path) -> Outcomes {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut outcomes = Outcomes::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, '\t');
        let (Some(outcome), Some(test)) = (fields.next(), fields.next()) else { continue };
        let reason = fields.next().unwrap_or_default().to_string();
        let outcome = match outcome {
            "begun" => Outcome::Hung,
            "passed" => Outcome::Passed,
            "skipped" => Outcome::Skipped(reason),
            _ => Outcome::Failed(reason),
        };
        outcomes.insert(test.to_string(), outcome);
    }
    outcomes
}

/// Panics with every test that failed or hung on any rank.
#[track_caller]
fn all_passed(outcomes: &[Outcomes], output: &Output) {
    let mut bad = String::new();
    for (rank, outcomes) in outcomes.iter().enumerate() {
        assert!(!outcomes.is_empty(), "rank {rank} ran no test: {output}");
        for (test, outcome) in outcomes {
            match outcome {
                Outcome::Passed | Outcome::Skipped(_) => {}
                Outcome::Failed(why) => bad += &format!("rank {rank}: {test}: {why}\n"),
                Outcome::Hung => bad += &format!("rank {rank}: {test}: never ended\n"),
            }
        }
    }
    assert!(bad.is_empty() && output.success(), "{bad}{output}");
}

/// The tests that were really run, on every rank.
fn run_by_all(outcomes: &[Outcomes]) -> BTreeSet<String> {
    let run = |o: &Outcomes| -> BTreeSet<String> {
        o.iter().filter(|(_, o)| !matches!(o, Outcome::Skipped(_))).map(|(test, _)| test.clone()).collect()
    };
    let mut sets = outcomes.iter().map(run);
    let first = sets.next().unwrap_or_default();
    sets.fold(first, |all, set| all.intersection(&set).cloned().collect())
}

/// The tests that pass on the host alone with this number of ranks; they run once.
fn host_runs(host: HostMpi, ranks: u32) -> BTreeSet<String> {
    static KNOWN: Mutex<BTreeMap<(&'static str, u32), BTreeSet<String>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let tests = known.entry((host.name(), ranks)).or_insert_with(|| {
        let (outcomes, output) = suite(host, ranks, false, &MODULES, None);
        all_passed(&outcomes, &output);
        assert_eq!(output.pario_calls(), 0, "Pario is present without being preloaded: {output}");
        run_by_all(&outcomes)
    });
    tests.clone()
}

fn no_less_than_the_host(host: HostMpi, ranks: u32) {
    let expected = host_runs(host, ranks);
    assert!(expected.len() > 50, "the host itself runs only {} tests", expected.len());
    let (outcomes, output) = suite(host, ranks, true, &MODULES, None);
    all_passed(&outcomes, &output);
    assert!(output.pario_calls() > 0, "calls went past Pario: {output}");
    let missing: Vec<_> = expected.difference(&run_by_all(&outcomes)).cloned().collect();
    assert!(missing.is_empty(), "skipped under Pario only: {missing:?}");
}

/// File tests without mpi4py's list of known host faults: nothing of them may be skipped, all must pass.
fn host_faults_are_not_ours(host: HostMpi, ranks: u32) {
    let (outcomes, output) = suite(host, ranks, true, &["--no-skip-mpi", "test_io", "test_file"], None);
    all_passed(&outcomes, &output);
    let skipped: Vec<_> =
        outcomes[0].iter().filter(|(_, outcome)| matches!(outcome, Outcome::Skipped(_))).collect();
    assert!(skipped.is_empty(), "{skipped:?}");
}

/// The tests' files on a partition, by way of the servers and of the ranks' own cache.
fn on_a_partition(host: HostMpi, ranks: u32) {
    for (servers, cache, hints) in
        [(1, "1M", ""), (3, "8M", "pario_strategy=client-directed;pario_tier1_size=128k")]
    {
        let partition = TestPartition::up(servers, 65536, cache);
        let site = Site { partition: &partition, hints, nodes: &[] };
        let (outcomes, output) = suite(host, ranks, true, &["test_io", "test_file"], Some(&site));
        all_passed(&outcomes, &output);
        assert!(output.stderr.contains("pario:   requests to servers"), "nothing went there: {output}");
    }
}

macro_rules! at {
    ($($name:ident: $check:ident($host:ident, $ranks:literal);)*) => {$(
        #[test]
        fn $name() {
            $check(HostMpi::$host, $ranks);
        }
    )*};
}

at! {
    mpi4py_mpich_1: no_less_than_the_host(Mpich, 1);
    mpi4py_mpich_2: no_less_than_the_host(Mpich, 2);
    mpi4py_mpich_4: no_less_than_the_host(Mpich, 4);
    mpi4py_openmpi_1: no_less_than_the_host(OpenMpi, 1);
    mpi4py_openmpi_2: no_less_than_the_host(OpenMpi, 2);
    mpi4py_openmpi_4: no_less_than_the_host(OpenMpi, 4);
    mpi4py_partition_mpich: on_a_partition(Mpich, 2);
    mpi4py_partition_openmpi: on_a_partition(OpenMpi, 3);
    mpi4py_host_faults_mpich: host_faults_are_not_ours(Mpich, 2);
    mpi4py_host_faults_openmpi: host_faults_are_not_ours(OpenMpi, 2);
}

/// The Python of an MPI of `cargo xtask test-mpis`. The package from PyPI has no module for the standard ABI.
fn installed() -> Option<HostMpi> {
    HostMpi::installed().filter(|host| *host != HostMpi::Installed(InstalledKind::StandardAbi))
}

#[test]
fn installed_mpi4py_on_plain_files() {
    let Some(host) = installed() else { return };
    let (outcomes, output) = suite(host, 2, true, &["test_io", "test_file"], None);
    all_passed(&outcomes, &output);
    assert!(output.pario_calls() > 0, "calls went past Pario: {output}");
}

#[test]
fn installed_mpi4py_on_a_partition() {
    let Some(host) = installed() else { return };
    let partition = TestPartition::up(2, 65536, "4M");
    let site = Site { partition: &partition, hints: "", nodes: &[] };
    let (outcomes, output) = suite(host, 2, true, &["test_io", "test_file"], Some(&site));
    all_passed(&outcomes, &output);
}
