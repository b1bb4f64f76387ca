//! Building: one program for many builders, and a clear error where it fails.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pario_workloads::build;

/// An empty directory, and in it a compiler that runs the script.
fn place(name: &str, script: &str) -> (PathBuf, PathBuf) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a directory");
    let compiler = dir.join("mpicc");
    fs::write(&compiler, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).expect("permissions");
    (dir, compiler)
}

fn built(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect()
}

/// Counts its runs, and builds so slowly that other builders can meet an incomplete program.
const COMPILER: &str = r#"
case $1 in -show|--version) echo "$0 1.0"; exit;; esac
echo run >>"$(dirname "$0")/runs"
printf 'half' >pario-workload; sync; printf ' done' >>pario-workload"#;

#[test]
fn concurrent_builders_get_one_whole_program() {
    let (dir, compiler) = place("concurrent", COMPILER);
    let cache = dir.join("cache");
    let programs: Vec<PathBuf> = std::thread::scope(|scope| {
        let builders: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let program = build(&compiler, &cache).expect("a build");
                    assert_eq!(fs::read_to_string(&program).expect("a program"), "half done");
                    program
                })
            })
            .collect();
        builders.into_iter().map(|builder| builder.join().expect("no panic")).collect()
    });
    assert!(programs.iter().all(|program| *program == programs[0]));
    assert_eq!(built(&cache).len(), 1, "nothing else is left");
    let runs = || fs::read_to_string(dir.join("runs")).expect("runs").lines().count();
    let before = runs();
    build(&compiler, &cache).expect("a build");
    assert_eq!(runs(), before, "what is there is not built again");
}

#[test]
fn another_compiler_builds_another_program() {
    let (dir, compiler) = place("another", COMPILER);
    let first = build(&compiler, &dir).expect("a build");
    let newer = fs::read_to_string(&compiler).expect("the script").replace("1.0", "1.1");
    fs::write(&compiler, newer).expect("a file");
    assert_ne!(build(&compiler, &dir).expect("a build"), first);
}

#[test]
fn a_missing_compiler_is_one_clear_line() {
    let error =
        build(Path::new("mpicc.nowhere"), Path::new("/nonexistent")).expect_err("no compiler").to_string();
    assert!(error.starts_with("mpicc.nowhere: not found; install"), "{error}");
}

#[test]
fn a_compilers_refusal_is_passed_on() {
    let (dir, compiler) = place(
        "refusal",
        "case $1 in -show|--version) exit;; esac\necho note >&2\necho 'x.c:1: error: no mpi.h' >&2\nexit 1",
    );
    let error = build(&compiler, &dir.join("cache")).expect_err("a refusal").to_string();
    assert!(error.ends_with("cannot compile the workloads: x.c:1: error: no mpi.h"), "{error}");
    assert_eq!(built(&dir.join("cache")), [""; 0], "nothing is left");
}

#[test]
fn a_place_that_takes_no_files_is_named() {
    let (dir, compiler) = place("no_place", COMPILER);
    fs::write(dir.join("file"), "").expect("a file");
    let error = build(&compiler, &dir.join("file")).expect_err("no place").to_string();
    assert!(error.contains("no_place/file: cannot build the workloads there"), "{error}");
}
