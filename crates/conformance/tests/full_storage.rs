//! Programs that fill up the storage of their partition: every rank gets an error at once, and other accesses
//! continue. (`programs/partitions/full.c` checks the results; the storage is 20 MiB of memory, and two ranks write 64 MiB.)

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pario_conformance::{
    BOTH, Front, HostMpi, Output, ProgramRun, SourceKind, TmpfsMount, compile, libpario, pario, scratch,
};

/// No single call may take longer, on a machine however slow, and neither may the end of the run.
const LONGEST_CALL_S: f64 = 20.0;
const LONGEST_RUN: Duration = Duration::from_secs(100);

fn program(host: HostMpi, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/partitions").join(name);
    compile(host, source, SourceKind::C, &[])
}

/// Runs the program with `pario run --servers 1 --storage` on a fresh small medium.
fn fill_up(host: HostMpi, how: &str, hints: &str, cache: &str) {
    let dir = scratch();
    let Some(small) = TmpfsMount::tmpfs(&dir.join("small"), "20m") else { return };
    let mount = dir.join("on");
    let mut run = ProgramRun::new(host, 2, program(host, "full.c")).arg(&mount).arg(how).arg("32");
    run.by = Some(on_demand(small.path(), &mount, cache));
    let output = run.env("PARIO_HINTS", hints).timeout(LONGEST_RUN.as_secs()).run().expect_success();
    assert!(output.stdout.contains("passed"), "{output}");
    all_heard_of_it(&output);
    assert_eq!(output.left, 0, "processes are left: {output}");
    let left = fs::read_dir(small.path()).expect("it is mounted").count();
    assert_eq!(left, 0, "the partition is left: {output}");
}

/// `pario run` with a partition of its own on this storage.
fn on_demand(storage: &Path, mount: &Path, cache: &str) -> Front {
    let mut words: Vec<OsString> =
        ["run", "--servers", "1", "--no-mount", "--cache", cache].map(Into::into).into();
    words.extend(["--storage".into(), storage.into(), "--mount".into(), mount.into()]);
    // Not on the storage, which fills up.
    Front { words, env: vec![("PARIO_LIB", libpario()), ("PARIO_HOME", mount.with_file_name("home"))] }
}

#[track_caller]
fn all_heard_of_it(output: &Output) {
    for rank in 0..2 {
        let line =
            output.stdout.lines().find(|line| line.starts_with(&format!("rank {rank}: "))).unwrap_or("");
        assert!(line.contains("no-space"), "rank {rank} did not hear of it: {output}");
        let longest = line.rsplit(' ').nth(1).and_then(|text| text.parse::<f64>().ok());
        assert!(longest.is_some_and(|longest| longest < LONGEST_CALL_S), "{line}: {output}");
    }
}

#[test]
fn a_full_disk_is_no_space_at_an_independent_write_at_once() {
    BOTH.into_iter().for_each(|host| fill_up(host, "independent", "", "256M"));
}

/// With a cache that is smaller than the medium, room is not reserved until it is scarce.
#[test]
fn a_full_disk_is_no_space_with_a_small_cache_too() {
    BOTH.into_iter().for_each(|host| fill_up(host, "independent", "", "2M"));
}

#[test]
fn a_full_disk_is_no_space_on_every_rank_of_a_collective_write() {
    for host in BOTH {
        for (how, strategy) in [("collective", "server-directed"), ("pieces", "two-phase")] {
            fill_up(host, how, &format!("pario_strategy={strategy}"), "256M");
        }
    }
}

/// Bytes that ranks cache in tier 1 are refused when they are staged, which may be at the sync.
#[test]
fn a_full_disk_is_no_space_on_every_rank_with_tier_1() {
    for host in BOTH {
        fill_up(host, "pieces", "pario_strategy=client-directed", "256M");
        fill_up(host, "pieces", "pario_strategy=client-directed;pario_tier1_size=1m", "2M");
    }
}

#[test]
fn a_full_disk_is_no_space_at_the_sync_after_a_nonblocking_write() {
    BOTH.into_iter().for_each(|host| fill_up(host, "nonblocking", "", "256M"));
}

/// Preallocation reserves room: what it promises can be written, and what it cannot promise it refuses at once.
#[test]
fn preallocation_on_a_partition_reserves_room_or_is_refused_at_once() {
    for host in BOTH {
        let dir = scratch();
        let Some(small) = TmpfsMount::tmpfs(&dir.join("small"), "20m") else { return };
        let mount = dir.join("on");
        let mut run = ProgramRun::new(host, 2, program(host, "reserve.c")).arg(&mount).arg("8").arg("64");
        run.by = Some(on_demand(small.path(), &mount, "2M"));
        let output = run.timeout(LONGEST_RUN.as_secs()).run().expect_success();
        assert!(output.stdout.contains("passed"), "{output}");
        all_heard_of_it(&output);
    }
}

/// The program takes the room that was there when its write was accepted. The run ends soon, says what is where, leaves no
/// process, and what was written can be had once there is room.
#[test]
fn a_run_that_cannot_store_everything_ends_and_reports_where_the_data_is() {
    for host in BOTH {
        let dir = scratch();
        let Some(small) = TmpfsMount::tmpfs(&dir.join("small"), "20m") else { return };
        let (mount, ballast) = (dir.join("on"), small.path().join("ballast"));
        let mut run =
            ProgramRun::new(host, 1, program(host, "taken.c")).arg(mount.join("file")).arg(&ballast);
        run.by = Some(on_demand(small.path(), &mount, "1M"));
        let output = run.timeout(LONGEST_RUN.as_secs()).run();
        assert!(output.stdout.contains("written"), "{output}");
        assert_eq!(output.left, 0, "processes are left: {output}");
        if output.code() != Some(125) {
            // The flusher was faster than the program.
            assert_eq!(fs::read_dir(small.path()).expect("it is mounted").count(), 1, "{output}");
            continue;
        }
        assert!(output.stderr.contains("256 KiB that were written cannot be stored"), "{output}");
        assert!(output.stderr.contains("it was stopped by force"), "no server runs any more: {output}");
        assert!(!output.stderr.contains("goes on running"), "no server runs any more: {output}");
        fs::remove_file(&ballast).expect("it is there");
        let home = dir.join("home");
        let name = output.stderr.split(" down --erase ").nth(1).and_then(|rest| rest.split('\'').next());
        let name = name.expect("it says how the partition is called");
        let run_pario = |words: &[&str]| {
            let said = Command::new(pario()).args(words).env("PARIO_HOME", &home).output().expect("it runs");
            assert!(said.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said.stderr));
            said.stdout
        };
        run_pario(&["up", name]);
        let wanted: Vec<u8> = (0..1 << 18).map(|i: u32| (i * 7 + 1) as u8).collect();
        assert!(run_pario(&["cat", &format!("{name}:/file")]) == wanted, "it is not what was written");
        run_pario(&["down", "--erase", name]);
        assert_eq!(fs::read_dir(small.path()).expect("it is mounted").count(), 0, "the partition is left");
    }
}
