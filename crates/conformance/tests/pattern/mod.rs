//! Runs `programs/patterns`: the host's own MPI-IO once, Pario under several settings, and compares the files with what they have to
//! be and with those of the host.

use std::fs;
use std::path::{Path, PathBuf};

use pario_conformance::partition::{NAME, TestPartition};
use pario_conformance::{
    HostMpi, Output, ProgramRun, SourceKind, compile, same_file, scratch, workspace_dir,
};

/// Under what a program runs with Pario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting {
    /// Hints for every file, as `PARIO_HINTS` has them.
    pub hints: &'static str,
    /// The node of each rank; empty: all on one.
    pub nodes: &'static [u32],
}

/// No hints, one node.
#[allow(dead_code)] // not every test file needs it
pub const PLAIN: Setting = Setting { hints: "", nodes: &[] };

fn program(host: HostMpi) -> PathBuf {
    let source = workspace_dir().join("crates/conformance/programs/patterns/patterns.c");
    compile(host, source, SourceKind::C, &[])
}

fn run(host: HostMpi, ranks: u32, who: &str, dir: &Path, specs: &[&str]) -> ProgramRun {
    fs::create_dir(dir).expect("a scratch directory takes new directories");
    ProgramRun::new(host, ranks, program(host)).arg(who).arg(dir).args(specs.iter().copied()).timeout(60)
}

/// Every spec passes under each setting, and each file has the bytes that it has to have. Those of the host alone are equal, too,
/// except for a spec with `ours=1`, which is beyond the hosts.
#[allow(dead_code)] // not every test file needs it
#[track_caller]
pub fn compare(host: HostMpi, ranks: u32, specs: &[&str], settings: &[Setting]) {
    let dir = scratch();
    let reference = Reference::make(host, ranks, &dir.join("host"), specs);
    for (index, setting) in settings.iter().enumerate() {
        let mine = dir.join(index.to_string());
        let mut run = run(host, ranks, "pario", &mine, specs).preload(true).nodes(setting.nodes);
        if !setting.hints.is_empty() {
            run = run.env("PARIO_HINTS", setting.hints);
        }
        let output = run.run().expect_success();
        assert!(output.stdout.contains("passed"), "{output}");
        assert!(!output.stderr.contains("pario: hint"), "a hint was refused: {output}");
        assert_eq!(output.stats().len(), ranks as usize, "not every rank reported: {output}");
        assert!(output.stats().iter().all(|rank| rank.calls > 0), "calls went past Pario: {output}");
        reference.compare(&mine, specs);
    }
}

/// The files to compare with.
struct Reference {
    /// `N.expected` is what file N has to be; the program writes it with plain calls, without MPI-IO.
    expected: PathBuf,
    /// The files of the host's own MPI-IO, if it got them right.
    host: Option<PathBuf>,
}

impl Reference {
    /// Runs the host's own MPI-IO. With many ranks on few cores Open MPI's now and then reads back wrong bytes, which the program
    /// notices; then it runs again, at most three times.
    fn make(host: HostMpi, ranks: u32, dir: &Path, specs: &[&str]) -> Reference {
        for attempt in 0..3 {
            let dir = dir.with_extension(attempt.to_string());
            let alone = run(host, ranks, "host", &dir, specs).run();
            assert_eq!(alone.pario_calls(), 0, "{alone}");
            if alone.stdout.contains("passed") {
                return Reference { expected: dir.clone(), host: Some(dir) };
            }
        }
        eprintln!("SKIPPED: the comparison with {host:?}, which gets its own files wrong with {ranks} ranks");
        Reference { expected: dir.with_extension("0"), host: None }
    }

    #[track_caller]
    fn compare(&self, files: &Path, specs: &[&str]) {
        for (number, spec) in specs.iter().enumerate() {
            let file = files.join(number.to_string());
            same_file(self.expected.join(format!("{number}.expected")), &file);
            if let Some(host) = self.host.as_ref().filter(|_| !spec.contains("ours=1")) {
                same_file(host.join(number.to_string()), &file);
            }
        }
    }
}

/// The same on a partition: files copied out of it are equal to the host's.
#[allow(dead_code)] // not every test file needs it
#[track_caller]
pub fn compare_on(
    partition: &TestPartition,
    host: HostMpi,
    ranks: u32,
    specs: &[&str],
    settings: &[Setting],
) {
    compare_placed(partition, host, ranks, specs, settings, |run| run);
}

/// The same with runs that are somewhere else, or different in another way; what came out of each.
#[track_caller]
pub fn compare_placed(
    partition: &TestPartition,
    host: HostMpi,
    ranks: u32,
    specs: &[&str],
    settings: &[Setting],
    place: impl Fn(ProgramRun) -> ProgramRun,
) -> Vec<Output> {
    let mut outputs = Vec::new();
    let dir = scratch();
    let reference = Reference::make(host, ranks, &dir.join("host"), specs);
    for (index, setting) in settings.iter().enumerate() {
        let name = format!("pario:{NAME}");
        let mut run = ProgramRun::new(host, ranks, program(host))
            .arg("partition")
            .arg(name)
            .args(specs.iter().copied());
        run = run.timeout(60).preload(true).nodes(setting.nodes);
        run = run.env("PARIO_HOME", &partition.home().to_string_lossy());
        if !setting.hints.is_empty() {
            run = run.env("PARIO_HINTS", setting.hints);
        }
        let output = place(run).run().expect_success();
        assert!(output.stdout.contains("passed"), "{output}");
        let out = dir.join(format!("out{index}"));
        partition.copy_out(&out);
        reference.compare(&out, specs);
        outputs.push(output);
    }
    outputs
}
