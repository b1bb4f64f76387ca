//! Data shipping and prefetching on partitions: accesses through I/O agents leave the same bytes as the host, on one node
//! and on two.

mod pattern;

use std::path::Path;

use pario_conformance::partition::{NAME, TestPartition};
use pario_conformance::{
    HostMpi, Output, ProgramRun, SourceKind, compile, same_file, scratch, workspace_dir,
};
use pattern::{Setting, compare_on};

/// Collective accesses of many kinds; those with holes fall back to what agents do for one rank.
const SHAPES: &[&str] = &[
    "block3d:size=9,calls=2",
    "random:size=12,piece=1024,op=splitat,calls=2,cut=1",
    "strided:size=40,piece=64,op=iall,calls=2,old=1",
    "holes:size=30,piece=17,old=1,cut=1",
    "segments:size=1000,op=iat,calls=2,cut=1",
    "ordered:size=100,op=ordered,old=1",
];

const SHIPPED: &str = "pario_strategy=data-shipping;IBM_io_buffer_size=4096";

const SETTINGS: &[Setting] = &[
    Setting { hints: SHIPPED, nodes: &[] },
    Setting { hints: "pario_strategy=data-shipping", nodes: &[0, 1] },
];

fn program(name: &str, host: HostMpi, arguments: &[&str]) -> ProgramRun {
    let source = workspace_dir().join("crates/conformance/programs/partitions").join(format!("{name}.c"));
    ProgramRun::new(host, 2, compile(host, source, SourceKind::C, &[]))
        .args(arguments.iter().copied())
        .timeout(60)
}

fn on(partition: &TestPartition, run: ProgramRun, hints: &str) -> Output {
    let run = run.preload(true).env("PARIO_HOME", &partition.home().to_string_lossy());
    let run = if hints.is_empty() { run } else { run.env("PARIO_HINTS", hints) };
    let output = run.run().expect_success();
    assert!(output.stdout.contains("passed"), "{output}");
    output
}

/// Runs a program on the host, then on a partition under settings, and compares the files.
fn independent(partition: &TestPartition, host: HostMpi, settings: &[(&str, &[u32], &str)]) {
    let dir = scratch();
    let theirs = dir.join("host");
    let alone = program("shipped", host, &[&theirs.to_string_lossy(), "shared"]).run().expect_success();
    assert_eq!(alone.pario_calls(), 0, "{alone}");
    for (index, (hints, nodes, how)) in settings.iter().enumerate() {
        let name = format!("pario:{NAME}/ship{index}");
        let output = on(partition, program("shipped", host, &[&name, how]).nodes(nodes), hints);
        assert!(output.stderr.contains("× data-shipping"), "nothing was shipped: {output}");
        let out = dir.join(format!("out{index}"));
        partition.copy_out(&out);
        same_file(&theirs, out.join(format!("ship{index}")));
        if *how == "unique" {
            // One for each of two agents, at the open and again when the unit changed; none for any access.
            assert!(output.stderr.contains("lock requests 4,"), "{output}");
        }
    }
}

const EITHER: &[(&str, &[u32], &str)] = &[
    (SHIPPED, &[], "shared"),
    ("pario_strategy=data-shipping;max_pre=3;max_acc=2;pario_agents=1,0,1", &[0, 1], "shared"),
    ("pario_strategy=data-shipping;IBM_io_buffer_size=64k;pario_agents=0,1", &[0, 1], "unique"),
];

#[test]
fn agents_on_a_partition_mpich() {
    let partition = TestPartition::up(2, 4096, "4M");
    compare_on(&partition, HostMpi::Mpich, 2, SHAPES, SETTINGS);
    independent(&partition, HostMpi::Mpich, EITHER);
}

#[test]
fn agents_on_a_partition_openmpi() {
    // A cache that holds next to nothing.
    let partition = TestPartition::up(3, 4096, "1M");
    compare_on(&partition, HostMpi::OpenMpi, 2, &SHAPES[2..], &SETTINGS[1..]);
    independent(&partition, HostMpi::OpenMpi, EITHER);
}

#[test]
fn a_locked_file_is_not_used_with_data_shipping() {
    let partition = TestPartition::up(2, 4096, "1M");
    let name = format!("pario:{NAME}/held");
    let hints = "pario_strategy=data-shipping;pario_agents=0,1";
    on(&partition, program("shipped", HostMpi::Mpich, &[&name, "unique"]), hints);
    let here = pario::Partition::open_by_name(&partition.home(), NAME, pario::Options::default()).unwrap();
    let file = here.open("/held", pario::OpenOptions::new().read(true).write(true)).unwrap();
    let lock = file.lock(7..8, true).unwrap();
    on(&partition, program("shipped", HostMpi::Mpich, &[&name, "refused"]), hints);
    lock.unlock().unwrap();
    on(&partition, program("shipped", HostMpi::Mpich, &[&name, "unique"]), hints);
    // They have let go.
    assert!(file.try_lock(0..100, true).unwrap().is_some());
}

/// A number of all servers together, from `pario status --metrics`.
fn metric(partition: &TestPartition, name: &str) -> u64 {
    let text = partition.pario(&["status", "--metrics"]);
    let values = text.lines().filter_map(|line| line.strip_prefix(&format!("pario_{name}{{")));
    values.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

#[test]
fn prefetch_ranges_are_accepted_refused_and_released() {
    // Sixteen blocks a server: four are for what was prefetched, two of them for one client.
    let partition = TestPartition::up(2, 65536, "1M");
    for (host, runs) in [(HostMpi::Mpich, 1), (HostMpi::OpenMpi, 2)] {
        let name = format!("pario:{NAME}/{}", host.name());
        let output = on(&partition, program("ranges", host, &[&name, "4"]), "");
        assert!(output.stderr.contains("pario_access_ranges: value \"5-9\""), "{output}");
        let counts =
            ["taken", "refused", "released"].map(|n| metric(&partition, &format!("prefetch_{n}_total")));
        // Four, two and one of each rank; of six two were refused.
        assert_eq!(counts, [14 * runs, 4 * runs, 14 * runs]);
        assert_eq!(metric(&partition, "prefetch_kept_blocks"), 0);
    }
    assert!(metric(&partition, "prefetch_loaded_blocks_total") > 0);
    // Agents prefetch what their ranks read here and there of a file that the caches do not hold.
    let name = format!("pario:{NAME}/{}", HostMpi::Mpich.name());
    on(
        &partition,
        program("ranges", HostMpi::Mpich, &[&name, "4"]),
        "pario_strategy=data-shipping;max_pre=2;max_acc=1",
    );
    let [taken, released] = ["taken", "released"].map(|n| metric(&partition, &format!("prefetch_{n}_total")));
    assert!(taken > 3 * 14 && taken == released, "{taken} taken, {released} released");
    // Elsewhere the system is told.
    let dir = scratch();
    let plain = dir.join("plain").to_string_lossy().into_owned();
    let output = program("ranges", HostMpi::Mpich, &[&plain, "6"]).preload(true).run().expect_success();
    assert!(output.stdout.contains("passed") && Path::new(&plain).exists(), "{output}");
}
