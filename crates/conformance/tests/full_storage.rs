//! Programs that fill up the storage of the partition that they run on: every rank hears of it at once, and everything else
//! goes on. (`programs/partitions/full.c` checks what it finds; the storage is 20 MiB of memory, and two ranks write 64 MiB.)

use std::fs;
use std::path::Path;
use std::time::Duration;

use pario_conformance::{BOTH, Front, Host, Kind, Mount, Output, Run, compile, libpario, scratch};

/// No single call may take longer, on a machine however slow, and neither may the end of the run.
const LONGEST_CALL_S: f64 = 20.0;
const LONGEST_RUN: Duration = Duration::from_secs(100);

/// Runs the program with `pario run --servers 1 --storage` on a fresh small medium.
fn fill_up(host: Host, how: &str, hints: &str, cache: &str) {
    let dir = scratch();
    let Some(small) = Mount::tmpfs(&dir.join("small"), "20m") else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/partitions/full.c");
    let program = compile(host, source, Kind::C, &[]);
    let (storage, mount) = (small.path().as_os_str().to_owned(), dir.join("on"));
    let mut words: Vec<_> = ["run", "--servers", "1", "--no-mount", "--cache", cache].map(Into::into).into();
    words.extend(["--storage".into(), storage, "--mount".into(), mount.clone().into_os_string()]);
    let mut run = Run::new(host, 2, program).arg(&mount).arg(how).arg("32").env("PARIO_HINTS", hints);
    run.by = Some(Front { words, env: vec![("PARIO_LIB", libpario())] });
    let output = run.timeout(LONGEST_RUN.as_secs()).run().expect_success();
    assert!(output.stdout.contains("passed"), "{output}");
    all_heard_of_it(&output);
    assert_eq!(output.left, 0, "processes are left: {output}");
    let left = fs::read_dir(small.path()).expect("it is mounted").count();
    assert_eq!(left, 0, "the partition is left: {output}");
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

/// What ranks keep in their own memory is refused when it goes to the servers, which may be at the sync.
#[test]
fn a_full_disk_is_no_space_on_every_rank_that_keeps_blocks_itself() {
    for host in BOTH {
        fill_up(host, "pieces", "pario_strategy=client-directed", "256M");
        fill_up(host, "pieces", "pario_strategy=client-directed;pario_tier1_size=1m", "2M");
    }
}

#[test]
fn a_full_disk_is_no_space_at_the_sync_after_a_nonblocking_write() {
    BOTH.into_iter().for_each(|host| fill_up(host, "nonblocking", "", "256M"));
}
