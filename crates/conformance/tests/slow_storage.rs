//! Storage that is slow: client-directed writes wait for memory only, and close waits for the storage.

use std::path::Path;
use std::time::Duration;

use pario_conformance::partition::{NAME, Site, TestPartition};
use pario_conformance::{HostMpi, ProgramRun, SourceKind, StatsReport, compile, workspace_dir};

/// A block of storage.
const BLOCK: u64 = 64 << 10;
/// Each takes this long.
const DELAY: Duration = Duration::from_millis(20);
/// Blocks that the server's pool holds: as few as there can be.
const POOL: u32 = 16;
/// Blocks of the file, and in how many calls they are written.
const BLOCKS: u32 = 96;
const CALLS: u32 = 6;

struct Times {
    /// Of the calls that write, together.
    writes: Duration,
    /// Of the close.
    close: Duration,
    report: StatsReport,
}

fn write_file(partition: &TestPartition, name: &str, hints: &str) -> Times {
    let source = workspace_dir().join("crates/conformance/programs/partitions/staged.c");
    let program = compile(HostMpi::OpenMpi, source, SourceKind::C, &[]);
    let bytes = BLOCK * u64::from(BLOCKS / CALLS);
    let run = ProgramRun::new(HostMpi::OpenMpi, 2, program).arg(format!("pario:{NAME}/{name}"));
    let run = run.args([bytes.to_string(), CALLS.to_string()]).preload(true).env("PARIO_STATS", "json");
    let site = Site { partition, hints, nodes: &[] };
    let output = run.on(&site, Path::new("/nowhere")).run().expect_success();
    let line = output.stdout.lines().find_map(|line| line.strip_prefix("writes "));
    let seconds = |text: &str| text.trim_end_matches(" s").parse().map(Duration::from_secs_f64).ok();
    let times = line.and_then(|line| line.split_once(", close "));
    let times = times.and_then(|(writes, close)| Some((seconds(writes)?, seconds(close)?)));
    let Some((writes, close)) = times else { panic!("no times: {output}") };
    let report = output.reports().into_iter().next().expect("a report on each file");
    eprintln!(
        "{name}: writes {writes:.2?} (of which exchange {:.2?} and I/O {:.2?}), close {close:.2?}, staged {} bytes",
        Duration::from_nanos(report.largest("exchange_ns")),
        Duration::from_nanos(report.largest("io_ns")),
        report.total("staged_bytes"),
    );
    Times { writes, close, report }
}

/// Every block is stored before the file is closed, one after the other, which takes at least `all`; those that the pool
/// does not hold are stored before the last server-directed call returns.
#[test]
fn tier_1_hides_slow_storage() {
    let partition = TestPartition::slow(1, BLOCK, "1M", DELAY.as_micros() as u64);
    let all = DELAY * BLOCKS;
    let written = BLOCK * u64::from(BLOCKS);
    let direct = write_file(&partition, "direct", "pario_strategy=server-directed");
    assert_eq!(direct.report.total("staged_bytes"), 0);
    assert!(direct.writes >= DELAY * (BLOCKS - POOL), "the storage is not slow: {:?}", direct.writes);
    assert!(direct.writes + direct.close >= all);
    let kept = write_file(&partition, "kept", "pario_strategy=client-directed;pario_tier1_size=32M");
    eprintln!("the storage took {all:.2?} at least for each of them");
    assert!(kept.report.wrote_by("client-directed"));
    assert_eq!(kept.report.total("staged_bytes"), written);
    assert!(kept.writes + kept.close >= all, "close did not wait for the storage");
    // In truth it is less than a hundredth.
    assert!(kept.writes * 2 < all, "writing waited for the storage: {:?} of {all:?}", kept.writes);
}
