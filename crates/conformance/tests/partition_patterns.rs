//! MPI programs on partitions: the same shapes as on plain files, and the bytes are the host's.

mod pattern;

use pario_conformance::partition::TestPartition;
use pario_conformance::{HostMpi, ProgramRun};
use pattern::{PLAIN, Setting, compare_on, compare_placed};

/// A shape whose ranks leave holes.
const HOLES: &str = "holes:size=30,piece=17,old=1,cut=1";

/// Every shape, operation and kind of memory at least once.
const SHAPES: &[&str] = &[
    "block3d:size=13,calls=2",
    "block3d:size=6,op=iall,mem=spread",
    "flash:size=2,mem=guarded",
    "s3d:size=6,op=split",
    "tile:size=7,op=at",
    "tile:size=5,op=iat,mem=backwards",
    "random:size=12,piece=1024",
    "random:size=30,piece=64,op=splitat,calls=2,cut=1",
    "strided:size=50,piece=1,mem=spread,old=1",
    "strided:size=40,piece=64,op=split,calls=3,old=1,cut=1",
    "strided:size=2,piece=65536,op=iall,old=1",
    "tiles:size=60,piece=5,calls=4,mem=backwards,old=1",
    HOLES,
    "holes:size=20,piece=1000,op=iall,calls=2,old=1",
    "holes:size=30,piece=100,old=2,calls=3,ours=1",
    "doubled:size=20,piece=33,old=1",
    "uneven:size=4,piece=50,op=splitat,calls=2,old=1,cut=1",
    "single:size=30,piece=7,calls=2,old=1",
    "segments:size=1000,op=iat,calls=2,cut=1",
    "far:size=5,piece=30,ours=1",
    "ordered:size=100,op=ordered,old=1",
    "ordered:size=60,op=splitordered,old=1,cut=1",
];

/// Server-directed, and through windows of one and of several nodes.
const SETTINGS: &[Setting] = &[
    PLAIN,
    Setting { hints: "pario_strategy=two-phase;cb_buffer_size=4096", nodes: &[] },
    Setting { hints: "", nodes: &[0, 1] },
    Setting { hints: "pario_strategy=two-phase", nodes: &[0, 1] },
    Setting { hints: "pario_strategy=client-directed", nodes: &[] },
    Setting { hints: "pario_strategy=client-directed;pario_tier1_size=64k", nodes: &[0, 1] },
];

#[test]
fn any_shape_mpich() {
    // Stripes smaller than a block of the cache, and a cache that holds everything.
    let partition = TestPartition::up(3, 4096, "8M");
    compare_on(&partition, HostMpi::Mpich, 1, SHAPES, &SETTINGS[..1]);
    compare_on(&partition, HostMpi::Mpich, 2, SHAPES, SETTINGS);
}

#[test]
fn any_shape_openmpi() {
    // A cache that holds next to nothing.
    let partition = TestPartition::up(2, 65536, "1M");
    compare_on(&partition, HostMpi::OpenMpi, 2, SHAPES, SETTINGS);
    compare_on(&partition, HostMpi::OpenMpi, 4, SHAPES, &SETTINGS[..1]);
}

/// Windows with holes go the way that was asked for, and what was written says so.
#[test]
fn holes_are_written_as_the_strategy_says() {
    const STRATEGIES: [&str; 2] = ["data-shipping", "client-directed"];
    let settings = [
        Setting { hints: "pario_strategy=data-shipping", nodes: &[] },
        Setting { hints: "pario_strategy=client-directed", nodes: &[0, 1] },
    ];
    let partition = TestPartition::up(2, 4096, "4M");
    let with_reports = |run: ProgramRun| run.env("PARIO_STATS", "json");
    let outputs = compare_placed(&partition, HostMpi::Mpich, 2, &[HOLES], &settings, with_reports);
    for (output, strategy) in outputs.iter().zip(STRATEGIES) {
        let reports = output.reports();
        assert!(reports.iter().any(|report| report.wrote_by(strategy)), "{output}");
        assert!(!reports.iter().any(|report| report.wrote_by("server-directed")), "{output}");
    }
}
