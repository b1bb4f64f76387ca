//! The fourteen workloads on both hosts: what the host's own MPI-IO writes Pario reads, and the other way
//! round.
//!
//! The program checks every byte that it reads; here the files are checked as well, against what their
//! contents should be by their offsets alone, so that program and files cannot be wrong together.

use std::path::{Path, PathBuf};

use pario_conformance::partition::TestPartition;
use pario_conformance::{HostMpi, Output, ProgramRun, Scratch, same_bytes, same_file, scratch, target_dir};
use pario_workloads::{WORKLOADS, WorkloadReport, build};

const SEED: u64 = 7;
const RANKS: u32 = 4;

fn program(host: HostMpi) -> PathBuf {
    build(&host.mpicc(), &target_dir().join("workloads")).unwrap_or_else(|e| panic!("{e}"))
}

/// A run on files in `dir`; the option says which half of the work.
fn run(host: HostMpi, pario: bool, names: &str, dir: &Path, options: &[&str]) -> Output {
    let seed = SEED.to_string();
    let run = ProgramRun::new(host, RANKS, program(host)).preload(pario).arg(names).arg("--dir").arg(dir);
    run.args(["--seed", &seed]).args(options).run()
}

fn fresh(pario: bool) -> Scratch {
    let dir = scratch();
    std::fs::create_dir(dir.join(name_of(pario))).expect("a directory");
    dir
}

fn name_of(pario: bool) -> &'static str {
    if pario { "pario" } else { "host" }
}

/// One writes, the other reads; returns the directory.
fn across(host: HostMpi, pario_writes: bool) -> Scratch {
    let dir = fresh(pario_writes);
    let at = dir.join(name_of(pario_writes));
    let results = dir.join("results");
    let json = ["--json", results.to_str().expect("UTF-8")];
    let wrote = run(host, pario_writes, "all", &at, &["--write-only"]).expect_success();
    let read = run(host, !pario_writes, "all", &at, &[&["--read-only"][..], &json].concat()).expect_success();
    assert_eq!((wrote.pario_calls() > 0, read.pario_calls() > 0), (pario_writes, !pario_writes));
    let reports =
        WorkloadReport::parse(&std::fs::read_to_string(&results).expect("results")).expect("reports");
    assert_eq!(reports.len(), WORKLOADS.len());
    for report in reports {
        assert_eq!((report.verified, report.wrong_bytes), (Some(true), 0), "{}", report.workload);
        assert_eq!((report.ranks, report.each.len()), (4, 4));
        assert!(report.all.seconds["reading"] > 0.0 && report.all.bytes_written == 0);
    }
    dir
}

fn both_ways(host: HostMpi) {
    let (host_wrote, pario_wrote) = (across(host, false), across(host, true));
    let mut files = 0;
    for entry in std::fs::read_dir(host_wrote.join("host")).expect("a directory") {
        let entry = entry.expect("an entry");
        let (host_file, pario_file) = (entry.path(), pario_wrote.join("pario").join(entry.file_name()));
        let name = entry.file_name().into_string().expect("UTF-8");
        // Bytes between the pieces are undefined; some hosts write bytes of their memory there.
        if name != "ranges.ranges" {
            same_file(host_file, &pario_file);
        }
        check_contents(&name, &pario_file);
        files += 1;
    }
    assert_eq!(files, 22);
    check_transform(&host_wrote.join("host"));
}

#[test]
fn all_workloads_mpich() {
    both_ways(HostMpi::Mpich);
}

#[test]
fn all_workloads_openmpi() {
    both_ways(HostMpi::OpenMpi);
}

/// Without MPI-IO, too: what pwrite wrote is read by Pario, with more ranks than cells divide evenly.
#[test]
fn plain_system_calls_and_another_number_of_ranks() {
    let dir = fresh(true);
    let at = dir.join("pario");
    let names = "coll_perf,flash,s3d,tile,contiguous,discontiguous,ranges,mandelbrot,jacobi,seismic";
    let go = |preload: bool, options: &[&str]| {
        let run = ProgramRun::new(HostMpi::OpenMpi, 3, program(HostMpi::OpenMpi)).preload(preload);
        run.arg(names).arg("--dir").arg(&at).args(options).run().expect_success()
    };
    go(false, &["--write-only", "--posix"]);
    go(true, &["--read-only"]);
    go(true, &["--read-only", "--independent"]);
    go(true, &["--sync", "--overwrite", "--keep", "--hint", "cb_buffer_size=4096"]);
    go(false, &["--read-only", "--posix"]);
    go(false, &["--posix"]);
    assert_eq!(std::fs::read_dir(&at).expect("a directory").count(), 0, "files are removed in the end");
}

/// All on a partition, with small stripes and a cache that does not hold the larger files.
#[test]
fn all_workloads_on_a_partition() {
    let partition = TestPartition::up(2, 65536, "4M");
    let run = ProgramRun::new(HostMpi::OpenMpi, RANKS, program(HostMpi::OpenMpi)).preload(true);
    let run =
        run.env("PARIO_HOME", &partition.home().to_string_lossy()).args(["all", "--dir", "pario:trial/"]);
    let done = run.run().expect_success();
    assert_eq!(done.stdout.matches("all bytes right").count(), WORKLOADS.len(), "{done}");
}

#[test]
fn damaged_files_are_detected_and_reported() {
    let host = HostMpi::OpenMpi;
    let dir = fresh(true);
    let (at, results) = (dir.join("pario"), dir.join("results"));
    run(host, true, "tile", &at, &["--write-only"]).expect_success();
    let file = at.join("tile.tiles");
    let whole = std::fs::read(&file).expect("the file");

    let mut damaged = whole.clone();
    damaged[123_457] ^= 0x10;
    std::fs::write(&file, &damaged).expect("written");
    let json = ["--read-only", "--json", results.to_str().expect("UTF-8")];
    let read = run(host, true, "tile", &at, &json);
    assert_eq!(read.code(), Some(3), "{read}");
    assert!(read.stderr.contains("1 bytes are wrong, the first at offset 123457 of"), "{read}");
    let report = WorkloadReport::parse(&std::fs::read_to_string(&results).expect("results"))
        .expect("a report")
        .remove(0);
    assert_eq!((report.verified, report.wrong_bytes), (Some(false), 1));
    assert_eq!(report.first_wrong.map(|place| place.offset), Some(123_457));

    // With another seed everything should be different.
    std::fs::write(&file, &whole).expect("written");
    assert_eq!(run(host, false, "tile", &at, &["--read-only", "--seed", "8"]).code(), Some(3));

    // A file that has lost its end, and one that is not there.
    std::fs::write(&file, &whole[..whole.len() - 1]).expect("written");
    for pario in [false, true] {
        let short = run(host, pario, "tile", &at, &["--read-only"]);
        assert_eq!(short.code(), Some(3), "{short}");
        assert!(short.stderr.contains("bytes long, not"), "{short}");
    }
    std::fs::remove_file(&file).expect("removed");
    let gone = run(host, true, "tile", &at, &["--read-only"]);
    assert!(!gone.success() && gone.stderr.contains("MPI_File_open"), "{gone}");
}

/// The mixing function of the contents, written down a second time.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// `len` bytes from `at` on, of a variable at a step.
fn contents(variable: u64, step: u64, at: usize, len: usize) -> Vec<u8> {
    let key = mix(mix(mix(SEED).wrapping_add(variable)).wrapping_add(step));
    let byte = |offset: usize| mix(key.wrapping_add(offset as u64 / 8)).to_le_bytes()[offset % 8];
    (at..at + len).map(byte).collect()
}

/// Compares a file with parts of so many shares each, one after the other, each a variable at a step.
fn compare(name: &str, got: &[u8], parts: &[(usize, u64, u64)]) {
    let shares: usize = parts.iter().map(|part| part.0).sum();
    assert_eq!(got.len() % shares, 0, "{name}");
    let mut at = 0;
    for &(share, variable, step) in parts {
        let len = got.len() / shares * share;
        same_bytes(name, &got[at..at + len], &contents(variable, step, at, len));
        at += len;
    }
}

fn check_contents(name: &str, path: &Path) {
    let got = std::fs::read(path).expect("a file of the workload");
    let variables = |from: u64, count: u64| (from..from + count).map(|v| (1, v, 0)).collect::<Vec<_>>();
    let steps = |count: u64| (0..count).map(|step| (1, 0, step)).collect::<Vec<_>>();
    let field = |step: u64| [(11, 0, step), (3, 1, step), (1, 2, step), (1, 3, step)];
    match name {
        "coll_perf.array" => compare(name, &got, &steps(2)),
        "btio.solution" => compare(name, &got, &steps(5)),
        "flash.checkpoint.0000" => compare(name, &got, &variables(0, 24)),
        "flash.plot_centre.0000" => compare(name, &got, &variables(24, 4)),
        "flash.plot_corner.0000" => compare(name, &got, &variables(28, 4)),
        "s3d.field.0000" => compare(name, &got, &field(0)),
        "s3d.field.0001" => compare(name, &got, &field(1)),
        "tile.tiles"
        | "contiguous.regions"
        | "discontiguous.blocks"
        | "partitioning.blocks"
        | "perf.plain"
        | "perf.synced"
        | "seismic.traces" => compare(name, &got, &steps(1)),
        "ranges.ranges" => {
            let right = contents(0, 0, 0, got.len());
            let pieces = got.chunks(1024).zip(right.chunks(1024));
            let (written, rest): (Vec<_>, Vec<_>) = pieces.partition(|(got, right)| got == right);
            assert_eq!(written.len(), 4 * 8 * 16);
            assert!(rest.iter().all(|(got, _)| got.iter().all(|byte| *byte == 0)), "only pieces are written");
        }
        "jacobi.grid0" => check_grid(&got, 2),
        "jacobi.grid1" => check_grid(&got, 1),
        // A picture is computed alike only by the same code; the transform is checked as a whole.
        "mandelbrot.picture" => assert!(got.contains(&60) && got.contains(&1)),
        _ => assert!(name.starts_with("fft."), "{name} is not known"),
    }
}

/// 256 x 128 doubles, i² + j² + a i + b j + c, and one more for each sweep.
fn check_grid(got: &[u8], sweeps: u64) {
    let seed = mix(SEED) >> 1;
    let (a, b, c) = (seed % 1009, seed / 1009 % 1013, seed / 1_022_117 % 1019);
    let point = |i: u64, j: u64| (i * i + j * j + a * i + b * j + c + sweeps) as f64;
    let right: Vec<u8> = (0..256 * 128).flat_map(|at| point(at / 128, at % 128).to_ne_bytes()).collect();
    same_bytes("the grid and its formula", got, &right);
}

/// The result is the discrete Fourier transform of the input, as its definition says, at some frequencies.
fn check_transform(dir: &Path) {
    let numbers = |name: &str| -> Vec<(f64, f64)> {
        let bytes = std::fs::read(dir.join(name)).expect("a file of the transform");
        let float = |b: &[u8]| f64::from(f32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
        bytes.chunks(8).map(|b| (float(b), float(&b[4..]))).collect()
    };
    let (input, result) = (numbers("fft.input"), numbers("fft.result"));
    let n = input.len() as u64;
    assert_eq!((n, result.len() as u64), (65_536, n));
    for k in (0..12).map(|i| mix(i) % n) {
        let (mut re, mut im) = (0.0, 0.0);
        for (i, (x, y)) in input.iter().enumerate() {
            let (sin, cos) = (-std::f64::consts::TAU * (i as u64 * k % n) as f64 / n as f64).sin_cos();
            re += x * cos - y * sin;
            im += x * sin + y * cos;
        }
        let got = result[k as usize];
        assert!((got.0 - re).abs() < 0.01 && (got.1 - im).abs() < 0.01, "{k}: {got:?}, not {re} {im}");
    }
}
