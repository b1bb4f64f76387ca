//! Throughput of independent strided accesses of several ranks, straight and shipped.
//!
//! `cargo run --release -p pario-data-shipping --example shipped [directory] [ranks] [piece bytes]`
//!
//! Ranks are threads with an open file each; every rank owns the blocks that the map gives it. Prints the
//! median of several runs in MB/s of program data.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use pario_buffer::lend;
use pario_data_shipping::{Agent, AgentConfig, BlockMap, Shipper, ShippingGroup, ShippingLimits};
use pario_posix::{PlainFile, PlainOpenOptions};
use pario_types::{AccessTuning, PrefetchLimits};
use pario_types::{Offset, Pos};
use pario_view::{Datatype, Pattern, Shape, View};

const TOTAL: u64 = 32 << 20;
const UNIT: u64 = 1 << 20;
const RUNS: usize = 7;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Straight,
    Shipped,
    Partitioned,
}

/// All agents and shippers are on one node.
const NODE: u64 = 7;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().unwrap_or("/dev/shm".into()));
    let ranks = arguments.next().map_or(2, |text| text.parse().expect("a number of ranks"));
    let piece = arguments.next().map_or(64, |text| text.parse().expect("bytes of a piece"));
    println!("{ranks} ranks, pieces of {piece} bytes, MB/s");
    println!("{:>9} {:>12} {:>8} {:>8}", "request", "mode", "write", "read");
    for request in [4 << 10, 64 << 10, 1 << 20] {
        for (mode, name) in
            [(Mode::Straight, "straight"), (Mode::Shipped, "shipped"), (Mode::Partitioned, "partitioned")]
        {
            let path = directory.join(format!("pario-strided-{}", std::process::id()));
            let [written, read] = [true, false].map(|write| {
                let mut runs: Vec<f64> =
                    (0..RUNS).map(|_| run(&path, mode, ranks, piece, request, write)).collect();
                runs.sort_by(f64::total_cmp);
                runs[RUNS / 2]
            });
            println!("{request:>9} {name:>12} {written:>8.0} {read:>8.0}");
            std::fs::remove_file(&path).expect("remove the file");
        }
    }
}

/// One pass over the file; returns MB/s.
fn run(path: &Path, mode: Mode, ranks: u32, piece: u64, request: u64, write: bool) -> f64 {
    let how = PlainOpenOptions { read: true, write: true, create: true, ..PlainOpenOptions::default() };
    let files: Vec<_> =
        (0..ranks).map(|_| Arc::new(PlainFile::open(path, &how).expect("open the file"))).collect();
    let (map, secret, limits) =
        (BlockMap::new(UNIT, (0..ranks).collect()).expect("a map"), 7, ShippingLimits::default());
    let (tuning, partitioned) = (AccessTuning::default(), mode == Mode::Partitioned);
    let serve = |(rank, file): (u32, &Arc<PlainFile>)| {
        let (map, file, prefetch) = (map.clone(), file.clone(), PrefetchLimits::OFF);
        let (tcp, report) = (None, None);
        let service = AgentConfig {
            file,
            map,
            rank,
            node: NODE,
            secret,
            tuning,
            prefetch,
            partitioned,
            tcp,
            limits,
            report,
        };
        Agent::start(service).expect("start an agent")
    };
    let agents: Vec<Agent> = (0..ranks).zip(&files).map(serve).collect();
    let addresses: Vec<_> = agents.iter().map(|agent| Some(agent.address())).collect();
    let barrier = Barrier::new(ranks as usize + 1);
    std::thread::scope(|scope| {
        for (rank, file) in (0..ranks).zip(&files) {
            let (map, addresses, barrier, node) = (map.clone(), addresses.clone(), &barrier, NODE);
            let team = ShippingGroup { map, addresses, rank, node, secret, partitioned, limits };
            scope.spawn(move || {
                let shipper = Shipper::new(team, file.clone()).expect("make a shipper");
                let view = strided(rank, ranks, piece);
                let mut memory = vec![rank as u8; request as usize];
                barrier.wait();
                for at in (0..TOTAL / u64::from(ranks)).step_by(request as usize) {
                    let at = Pos(at);
                    let moved = lend(&mut memory, |buffer| match (mode, write) {
                        (Mode::Straight, true) => file.write(&view, at, buffer, 0, request, &tuning).ok(),
                        (Mode::Straight, false) => file.read(&view, at, buffer, 0, request, &tuning).ok(),
                        (_, true) => shipper.write(&view, at, buffer, 0, request, &tuning).ok(),
                        (_, false) => shipper.read(&view, at, buffer, 0, request, &tuning).ok(),
                    });
                    assert_eq!(moved, Some(request));
                }
                barrier.wait();
            });
        }
        barrier.wait();
        let start = Instant::now();
        barrier.wait();
        TOTAL as f64 / start.elapsed().as_secs_f64() / 1e6
    })
}

/// This rank's pieces, in turn with those of the others.
fn strided(rank: u32, ranks: u32, piece: u64) -> View {
    let block = Datatype {
        lb: 0,
        extent: piece as i64,
        shape: Shape::Contiguous { count: piece, child: Arc::new(Datatype::byte()) },
    };
    let extent = (piece * u64::from(ranks)) as i64;
    let tile = Datatype { lb: 0, extent, shape: Shape::Resized { lb: 0, extent, child: Arc::new(block) } };
    View::new(Offset(u64::from(rank) * piece), Pattern::native(&tile).expect("a pattern"))
}
