//! The program's description of itself, compared with the table and with the papers. Only the build is written.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pario_workloads::{Ranks, WORKLOADS, WorkloadDescription, build};
use serde::Deserialize;

const COMPILERS: [&str; 2] = ["mpicc.mpich", "mpicc.openmpi"];

fn program(mpicc: &str) -> PathBuf {
    build(Path::new(mpicc), Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap_or_else(|e| panic!("{e}"))
}

fn run(mpicc: &str, arguments: &[&str]) -> Output {
    Command::new(program(mpicc)).args(arguments).output().expect("the program starts")
}

fn described(mpicc: &str, workload: &str, preset: &str, ranks: u32, more: &[&str]) -> WorkloadDescription {
    let ranks = ranks.to_string();
    let arguments = [&[workload, "--preset", preset, "--describe", "--as-ranks", &ranks], more].concat();
    let output = run(mpicc, &arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    WorkloadDescription::parse(&text).expect("a description").remove(0)
}

fn describe(workload: &str, preset: &str, ranks: u32) -> WorkloadDescription {
    described(COMPILERS[0], workload, preset, ranks, &[])
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    about: String,
    steps: bool,
    presets: Vec<ListedPreset>,
}

#[derive(Deserialize)]
struct ListedPreset {
    name: String,
    about: String,
}

#[test]
fn the_table_is_the_programs() {
    for mpicc in COMPILERS {
        let listed: Vec<Listed> =
            serde_json::from_slice(&run(mpicc, &["--list"]).stdout).expect("JSON of the workloads");
        assert_eq!(listed.len(), WORKLOADS.len());
        for (says, known) in listed.iter().zip(WORKLOADS) {
            assert_eq!(
                (says.name.as_str(), says.about.as_str(), says.steps),
                (known.name, known.about, known.steps)
            );
            let presets: Vec<_> = says.presets.iter().map(|p| (p.name.as_str(), p.about.as_str())).collect();
            assert_eq!(presets, known.presets.iter().map(|p| (p.name, p.about)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn every_preset_writes_and_reads_as_much_as_it_should() {
    for workload in WORKLOADS {
        for preset in workload.presets {
            let counts: &[u32] = if preset.name == "small" { &[1, 2, 3, 4, 9, 16] } else { &[4] };
            for &ranks in counts.iter().filter(|ranks| workload.ranks.allow(**ranks)) {
                let what = describe(workload.name, preset.name, ranks);
                let name = format!("{} {} on {ranks}", workload.name, preset.name);
                assert_eq!(what.write.bytes, preset.written(ranks.into()), "{name}");
                assert_eq!(what.rank_bytes.iter().map(|b| b.0).sum::<u64>(), what.write.bytes, "{name}");
                assert_eq!(what.rank_bytes.iter().map(|b| b.1).sum::<u64>(), what.read.bytes, "{name}");
                let files: u64 = what.files.iter().map(|file| file.bytes).sum();
                match workload.name {
                    // Neighbours write shared bytes each for themselves.
                    "tile" => {
                        assert!(files <= what.write.bytes && files > what.write.bytes * 9 / 10, "{name}")
                    }
                    // Between the pieces nothing is written.
                    "ranges" => assert!(files > 3 * what.write.bytes, "{name}"),
                    // Each sweep writes one of two files.
                    "jacobi" => assert!(files <= what.write.bytes, "{name}"),
                    _ => assert_eq!(files, what.write.bytes, "{name}"),
                }
            }
        }
    }
}

#[test]
fn both_compilers_describe_alike() {
    for workload in WORKLOADS {
        let both = COMPILERS.map(|mpicc| described(mpicc, workload.name, "small", 4, &[]));
        assert_eq!(both[0], both[1]);
    }
}

/// AHPIOS, table 2. Where the cube cannot be cut evenly, the table names one of the two lengths that occur.
#[test]
fn btio_has_the_granularity_of_the_paper() {
    let table =
        [(9, 1360, 2160), (16, 1000, 1640), (25, 800, 1280), (36, 680, 1080), (49, 600, 920), (64, 480, 800)];
    for (ranks, b, c) in table {
        for (preset, bytes) in [("bt-B", b), ("bt-C", c)] {
            let lengths = described(COMPILERS[0], "btio", preset, ranks, &["--steps", "1"]).write.lengths;
            assert!(
                lengths.len() <= 2 && lengths.iter().any(|length| length.0 == bytes),
                "{ranks}: {lengths:?}"
            );
        }
    }
    // 6.34 GiB, 40 times 162 x 162 x 162 points of 5 doubles.
    let c = describe("btio", "bt-C", 16);
    assert_eq!((c.write.bytes, c.write.calls), (6_802_444_800, 16 * 40));
    assert_eq!(described(COMPILERS[0], "btio", "bt-B", 9, &["--steps", "5"]).write.calls, 9 * 5);
}

#[test]
fn the_amounts_are_the_papers() {
    // 20, 20.25 and 20.5 MiB for each of 24 variables; the rest is for the plot files.
    let flash = describe("flash", "fdp", 3);
    for (rank, bytes) in [(0, 20 << 20), (1, 81 << 18), (2, 41 << 19)] {
        assert!(flash.write.lengths.contains(&(bytes, 24)), "rank {rank}: {:?}", flash.write.lengths);
    }
    assert_eq!(
        flash.files.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(),
        ["checkpoint.0000", "plot_centre.0000", "plot_corner.0000"]
    );
    // About 15.26 MiB a rank and checkpoint.
    let s3d = describe("s3d", "fdp", 64);
    assert_eq!((s3d.rank_bytes[0].0, s3d.files.len()), (10 * 16_000_000, 10));
    assert_eq!(s3d.write.lengths, [(400, s3d.write.pieces)]);
    // 1 GiB in pieces of 4 KiB on any number of ranks.
    for ranks in [4, 8, 16, 32, 64] {
        let tile = describe("tile", "ahpios", ranks);
        assert_eq!((tile.write.bytes, &tile.write.lengths[..]), (1 << 30, &[(4096, 1 << 18)][..]));
    }
    // 2 KiB are shared with the next rank.
    assert_eq!(describe("tile", "profile", 4).files[0].bytes, 4 * 32768 - 3 * 2048);
    // A rank's block is the same whatever the number of ranks.
    let coll = describe("coll_perf", "fdp-100", 64);
    assert_eq!((coll.rank_bytes[63].0, &coll.write.lengths[..]), (40_000_000, &[(400, 64 * 100_000)][..]));
    // Written in long pieces, read in short ones: 1.6 GB.
    let seismic = describe("seismic", "profile", 24);
    assert_eq!((seismic.write.longest, seismic.read.longest), (96 << 10, 2 << 10));
    assert!((1_600_000_000..1_620_000_000).contains(&seismic.write.bytes));
    // 10,000 calls of 8 KiB; 100 blocks with 16 pieces of 1 KiB.
    let partitioning = describe("partitioning", "gpfs", 8);
    assert_eq!((partitioning.write.calls, partitioning.write.longest), (80_000, 8192));
    let ranges = describe("ranges", "gpfs", 8);
    assert_eq!((ranges.write.pieces, ranges.write.longest), (8 * 1600, 1024));
    // 1 Mi complex numbers of 8 bytes: an input, two temporary files, a result.
    let fft = describe("fft", "profile", 16);
    assert_eq!(fft.files.iter().map(|f| f.bytes).collect::<Vec<_>>(), [8 << 20; 4]);
    assert_eq!(
        describe("jacobi", "profile", 16).files.iter().map(|f| f.bytes).collect::<Vec<_>>(),
        [64 << 20; 2]
    );
    assert_eq!(describe("mandelbrot", "profile", 24).files[0].bytes, 256 << 20);
}

#[test]
fn wrong_numbers_of_ranks_are_refused() {
    for workload in WORKLOADS.iter().filter(|workload| workload.ranks != Ranks::Any) {
        let output = run(COMPILERS[0], &[workload.name, "--describe", "--as-ranks", "6"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(workload.name) && said.contains("number of ranks has to be"), "{said}");
    }
}

#[test]
fn nonsense_is_refused_in_one_line() {
    for arguments in [
        &["--describe", "--as-ranks", "4"][..],
        &["nothing", "--describe", "--as-ranks", "4"],
        &["btio", "--preset", "huge", "--describe", "--as-ranks", "4"],
        &["fft", "--steps", "2", "--describe", "--as-ranks", "4"],
        &["btio", "--steps", "0"],
        &["btio", "--hint", "no equals sign"],
        &["btio", "--write-only", "--read-only"],
        &["btio", "--dir"],
        &["btio", "--what"],
    ] {
        let output = run(COMPILERS[0], arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{arguments:?}: {said}");
    }
    let help = run(COMPILERS[0], &["--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.status.success() && WORKLOADS.iter().all(|workload| text.contains(workload.name)));
}
