//! Measures the gain of an order of first use on a medium without cached data.
//!
//! `cargo run --release -p pario-store --example cold -- DIRECTORY [MIB [CHUNK_KIB [TURNS]]]` creates two parts in a new
//! directory, one with an order and one without, both of chunks that are used in random order. It reads both in that order,
//! in turn, each time after `dd iflag=nocache` has dropped them from the page cache.

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use pario_store::{FileStore, Store, StoreIdentity};
use pario_types::{FileId, PartitionId, ServerId};

const BLOCK: usize = 64 << 10;
const FILES: [(FileId, &str); 2] = [(FileId(1), "order of the file"), (FileId(2), "order of first use")];

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = Path::new(arguments.first().ok_or("usage: cold DIRECTORY [MIB [CHUNK_KIB [TURNS]]]")?);
    let number = |index: usize, default: u64| match arguments.get(index) {
        Some(text) => text.parse(),
        None => Ok(default),
    };
    let (mib, chunk_kib, turns) = (number(1, 512)?, number(2, 256)?, number(3, 5)?);
    let chunk = (chunk_kib << 10) / BLOCK as u64;
    if chunk == 0 || (mib << 10) < chunk_kib {
        return Err("chunks have at least a block of 64 KiB, and there is at least one".into());
    }
    let order = shuffled((mib << 10) / chunk_kib, chunk);
    make(directory, &order)?;
    let bytes = order.len() as u64 * chunk * BLOCK as u64;
    println!("{} MiB in {} chunks of {chunk_kib} KiB, read cold in their order", bytes >> 20, order.len());
    for _ in 0..turns {
        for (file, name) in FILES {
            forget(directory, file)?;
            let seconds = read(directory, file, &order, chunk as usize)?;
            println!("{name}: {:.0} MiB/s", bytes as f64 / seconds / (1 << 20) as f64);
        }
    }
    std::fs::remove_dir_all(directory)?;
    Ok(())
}

fn open(directory: &Path) -> Outcome<FileStore> {
    Ok(FileStore::open(directory, BLOCK, StoreIdentity { partition: PartitionId(1), server: ServerId(0) })?)
}

/// Returns so many chunks in the order in which they are used, always the same.
fn shuffled(count: u64, chunk: u64) -> Vec<Range<u64>> {
    let mut order: Vec<Range<u64>> = (0..count).map(|number| number * chunk..(number + 1) * chunk).collect();
    let mut state = 1u64;
    for last in (1..order.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
    order
}

/// Writes both parts from their first block to their last, each in a run like a server's flusher.
fn make(directory: &Path, order: &[Range<u64>]) -> Outcome<()> {
    std::fs::create_dir(directory)?;
    let store = open(directory)?;
    store.arrange(FILES[1].0, order)?;
    let blocks = order.iter().map(|run| run.end).max().unwrap_or(0);
    let bytes: Vec<u8> = (0..16 * BLOCK).map(|at| (at / 7) as u8).collect();
    for (file, _) in FILES {
        for first in (0..blocks).step_by(16) {
            let run: Vec<&[u8]> = bytes.chunks(BLOCK).take((blocks - first).min(16) as usize).collect();
            store.write(file, first, &run, u64::MAX)?;
        }
        store.sync(file)?;
    }
    Ok(())
}

/// Drops a part from the page cache.
fn forget(directory: &Path, file: FileId) -> Outcome<()> {
    let name = file.to_string();
    for entry in std::fs::read_dir(directory.join("parts").join(&name[14..]))? {
        let path = entry?.path();
        let dd = Command::new("dd")
            .arg(format!("if={}", path.display()))
            .args(["iflag=nocache", "count=0", "status=none"])
            .status()?;
        if !dd.success() {
            return Err(format!("dd cannot have {} forgotten", path.display()).into());
        }
    }
    Ok(())
}

/// Reads chunks in their order; returns the time in seconds.
fn read(directory: &Path, file: FileId, order: &[Range<u64>], chunk: usize) -> Outcome<f64> {
    let store = open(directory)?;
    let mut bytes = vec![0; chunk * BLOCK];
    let begun = Instant::now();
    for run in order {
        store.read(file, run.start, &mut bytes.chunks_mut(BLOCK).collect::<Vec<_>>())?;
    }
    Ok(begun.elapsed().as_secs_f64())
}
