//! Darshan's logs: pydarshan reads ours as it should, and we read those of real programs as pydarshan does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pario_conformance::{Scratch, execute, pario, scratch, target_dir};

/// The Python with pydarshan; none where it could not be fetched.
fn python() -> Option<PathBuf> {
    let path = std::env::var_os("PARIO_TEST_PYDARSHAN")
        .map_or_else(|| target_dir().join("venv-pydarshan/bin/python"), PathBuf::from);
    if path.as_os_str().is_empty() || !path.exists() {
        eprintln!("SKIPPED: there is no pydarshan; `cargo xtask setup` fetches it, if it can");
        return None;
    }
    Some(path)
}

fn run(program: &Path, arguments: &[&str], dir: &Scratch) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir.path());
    execute(command, Duration::from_secs(60)).expect_success().stdout
}

fn ask(python: &Path, arguments: &[&str], dir: &Scratch) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/apps/pydarshan.py");
    let all: Vec<&str> = [script.to_str().expect("a path")].iter().chain(arguments).copied().collect();
    run(python, &all, dir)
}

/// ProcessHandle, file, offset, length, operation and time in nanoseconds.
type Row = (String, String, u64, u64, String, u64);

fn row(line: &str) -> Row {
    let fields: Vec<&str> = line.split(',').collect();
    let [process, file, offset, length, op, time] = fields[..] else { panic!("{line}") };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    // In seconds with nine decimals, or in nanoseconds.
    let time = number(&time.replace('.', ""));
    (process.to_owned(), file.to_owned(), number(offset), number(length), op.to_owned(), time)
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.retain(|row| row.3 > 0);
    rows.sort();
    rows
}

/// The counters that Pario finds in a profile.
fn ours(profile: &str, dir: &Scratch) -> Vec<Row> {
    run(&pario(), &["convert", profile, "--to", "csv", "rows.csv"], dir);
    let table = std::fs::read_to_string(dir.join("rows.csv")).expect("written");
    sorted(table.lines().skip(1).map(row).collect())
}

/// The counters that pydarshan finds in a log.
fn theirs(python: &Path, log: &str, dir: &Scratch) -> Vec<Row> {
    sorted(ask(python, &["rows", log], dir).lines().map(row).collect())
}

#[test]
fn pydarshan_opens_our_log() {
    let Some(python) = python() else { return };
    let dir = scratch();
    // More than a region of 1 MiB, of two files and four ranks.
    let mut table = "process,file,offset,length,op,time_ns\n".to_owned();
    for step in 0..10_000u64 {
        for rank in 0..4 {
            let (file, op) = (step % 2, if step % 3 == 0 { "read" } else { "write" });
            let (offset, time) = ((4 * step + rank) * 4096, 1000 * step + rank);
            table += &format!("{rank},/data/file {file},{offset},{},{op},{time}\n", 1 + step % 4096);
        }
    }
    std::fs::write(dir.join("many.csv"), table).expect("written");
    run(&pario(), &["convert", "many.csv", "--to", "darshan", "many.darshan"], &dir);
    let wanted = ours("many.csv", &dir);
    assert_eq!(wanted.len(), 40_000);
    assert!(theirs(&python, "many.darshan", &dir) == wanted, "pydarshan finds something else");
    assert!(ours("many.darshan", &dir) == wanted, "we find something else");
}

#[test]
fn logs_of_real_programs_are_read_as_pydarshan_reads_them() {
    let Some(python) = python() else { return };
    let dir = scratch();
    let mut with_accesses = 0;
    for log in ask(&python, &["logs"], &dir).lines() {
        let mut command = Command::new(pario());
        command.args(["convert", log, "--to", "csv", "rows.csv"]).current_dir(dir.path());
        let output = execute(command, Duration::from_secs(60));
        if !output.success() {
            assert!(output.stderr.contains("does not have single accesses"), "{log}: {}", output.stderr);
            assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
            continue;
        }
        with_accesses += 1;
        let found = ours(log, &dir);
        assert!(!found.is_empty() && found == theirs(&python, log, &dir), "{log}");
        ask(&python, &["convert", log, "new.darshan"], &dir);
        let version = std::fs::read(dir.join("new.darshan")).expect("written");
        assert!(version.starts_with(b"3.41\0"), "the newest version");
        assert_eq!(ours("new.darshan", &dir), found, "{log}");
    }
    assert!(with_accesses >= 3, "only {with_accesses} logs with single accesses");
}
