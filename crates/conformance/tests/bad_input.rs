//! Bad input and failing storage: missing files, wrong and unequal arguments, full and read-only disks, limits,
//! rubbish in hint files, a rank that dies. Every rank gets an error of the right class; nothing hangs.
//!
//! Some worlds need root: a small file system to fill, one to make read-only, privileges to drop. Where they
//! cannot be had, the test says so and passes.

mod table;

use std::path::Path;
use std::process::Command;

use pario_conformance::{BOTH, HostMpi, Output, Scratch, TmpfsMount, scratch};
use table::{all_hold, passes, table_run};

fn done(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Runs `badinput` in one of its worlds, with its files in `dir`.
fn world(host: HostMpi, ranks: u32, dir: &Path, world: &str) -> Output {
    let args = [dir.as_os_str().to_owned(), world.into()];
    let mut run = table_run(host, ranks, "badinput", &scratch());
    run.args.clear();
    run.args(args).run()
}

#[test]
fn bad_arguments_are_errors_on_every_rank() {
    for host in BOTH {
        for ranks in [1, 3] {
            passes(host, ranks, "badinput", &["plain"]);
        }
    }
}

#[test]
fn invalid_handles_are_errors() {
    for host in BOTH.into_iter().chain(HostMpi::standard_abi()) {
        for ranks in [1, 2] {
            passes(host, ranks, "invalid", &[]);
        }
    }
}

#[test]
fn one_ranks_failure_in_collective_access_is_known_to_all() {
    for host in BOTH {
        for ranks in [1, 3] {
            passes(host, ranks, "badinput", &["agree"]);
        }
    }
}

#[test]
fn a_full_disk_is_no_space() {
    for host in BOTH {
        for ranks in [1, 2] {
            let dir = scratch();
            let Some(mount) = TmpfsMount::tmpfs(&dir.join("small"), "1m") else { return };
            all_hold(&world(host, ranks, mount.path(), "full"));
        }
    }
}

#[test]
fn a_limited_file_size_is_an_error() {
    for host in BOTH {
        passes(host, 2, "badinput", &["limit"]);
    }
}

#[test]
fn missing_permission_is_an_access_error() {
    if !done(Command::new("chown").arg("0").arg(scratch().path())) {
        eprintln!("skipped: not root, so there are no privileges to drop");
        return;
    }
    for host in BOTH {
        passes(host, 2, "badinput", &["nobody"]);
    }
}

#[test]
fn a_read_only_file_system_is_read_only() {
    for host in BOTH {
        let dir = scratch();
        let Some(mount) = TmpfsMount::tmpfs(&dir.join("fixed"), "1m") else { return };
        let ints: Vec<u8> = (0..10i32).flat_map(i32::to_ne_bytes).collect();
        std::fs::write(mount.path().join("file"), ints).expect("the new file system takes a file");
        mount.make_read_only();
        all_hold(&world(host, 2, mount.path(), "rofs"));
    }
}

fn hints_of(output: &Output) -> Vec<&str> {
    output.stdout.lines().filter(|line| line.starts_with("hint ")).collect()
}

fn hint_run(host: HostMpi, dir: &Scratch, variables: &[(&str, &str)]) -> Output {
    let mut run = table_run(host, 2, "badinput", dir).arg("hints");
    for (name, value) in variables {
        run = run.env(name, value);
    }
    let output = run.run();
    all_hold(&output);
    output
}

#[test]
fn an_invalid_hint_file_is_reported_once_and_changes_nothing() {
    for host in BOTH {
        let dir = scratch();
        let file = dir.join("hints");
        let text =
            b"cb_buffer_size 64Q\n\xff\xfe\x00 rubbish of many words\nromio_cb_write perhaps\nlonely\n\
                     ind_rd_buffer_size 2097152\n";
        std::fs::write(&file, text).expect("a scratch directory takes new files");
        let plain = hint_run(host, &dir, &[]);
        let file = file.to_string_lossy();
        let with = hint_run(host, &dir, &[("ROMIO_HINTS", &file)]);
        let complaint: Vec<&str> = with.stderr.lines().filter(|l| l.contains("cb_buffer_size")).collect();
        assert_eq!(complaint.len(), 1, "told once, by one rank: {with}");
        assert!(complaint[0].contains("64Q"), "the line names the value: {}", complaint[0]);
        let writes = with.stderr.lines().filter(|l| l.contains("romio_cb_write") && l.contains("perhaps"));
        assert_eq!(writes.count(), 1, "{with}");
        // The defaults hold, but for the one good line.
        let (before, after) = (hints_of(&plain), hints_of(&with));
        let changed: Vec<&&str> = after.iter().filter(|line| !before.contains(line)).collect();
        assert_eq!(changed, [&"hint ind_rd_buffer_size 2097152"], "{with}");
    }
}

#[test]
fn a_missing_hint_file_is_reported_and_ignored() {
    for host in BOTH {
        let dir = scratch();
        let output = hint_run(host, &dir, &[("ROMIO_HINTS", "/no/such/hint/file")]);
        let told = output.stderr.lines().filter(|line| line.contains("/no/such/hint/file"));
        assert_eq!(told.count(), 1, "{output}");
    }
}

#[test]
fn a_killed_rank_leaves_nothing_that_breaks_the_next_run() {
    for host in BOTH {
        let dir = scratch();
        let output = table_run(host, 2, "badinput", &dir).arg("killed").run();
        let ended = matches!(output.status, pario_conformance::RunStatus::Ended(_));
        assert!(ended && !output.success(), "the launcher ends the run: {output}");
        let left: Vec<_> = std::fs::read_dir(dir.path())
            .expect("the directory is still there")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name != "file")
            .collect();
        assert!(left.is_empty(), "left beside the file: {left:?}");
        all_hold(&table_run(host, 2, "badinput", &dir).arg("hints").run());
        all_hold(&table_run(host, 2, "pointers", &dir).run());
    }
}
