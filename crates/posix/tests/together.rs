//! Many writers of one file: processes and threads, sieving and not, lose no byte of each other.
//!
//! A process is this test binary once more, told by the environment which part to play.

mod fixture;

use fixture::*;
use pario_posix::PlainFile;
use pario_types::{AccessTuning, Toggle};
use pario_types::{Offset, Pos};
use std::path::Path;
use std::process::Command;

const ROUNDS: u64 = 6;
const PIECE: u64 = 24;
const PIECES: u64 = 300;

/// The writes of rank `rank` of `size`: neighbours differ.
fn tuning(rank: u64, size: u64) -> AccessTuning {
    let sieve_write = [Toggle::Enable, Toggle::Disable, Toggle::Automatic][rank as usize % 3];
    let write_buffer = [512, 700, 4096, 512 << 10][rank as usize % 4];
    AccessTuning { sieve_write, write_buffer, stagger: (rank as u32, size as u32), ..AccessTuning::default() }
}

fn value(rank: u64, round: u64, i: u64) -> u8 {
    (rank * 31 + round * 7 + i) as u8 | 1
}

/// Writes all pieces of a rank, over and over, each time with other bytes.
fn write_as(file: &PlainFile, rank: u64, size: u64, tune: &AccessTuning) {
    let view = strided(0, PIECE, PIECE * size, 1).view(rank * PIECE);
    let mut memory = whole(PIECE * PIECES);
    for round in 0..ROUNDS {
        memory.fill(|i| value(rank, round, i));
        file.write(&view, Pos(0), &memory.buffer, 0, PIECE * PIECES, tune).unwrap();
        // And what this rank wrote is still there.
        let back = whole(PIECE * PIECES);
        let got = file.read(&view, Pos(0), &back.buffer, 0, PIECE * PIECES, tune).unwrap();
        assert_eq!(got, PIECE * PIECES);
        assert!(memory.bytes == back.bytes, "rank {rank} lost bytes in round {round}");
    }
}

fn check(path: &Path, size: u64) {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes.len() as u64, PIECE * PIECES * size, "the file ends with the last piece");
    for (offset, byte) in bytes.iter().enumerate() {
        let (piece, within) = (offset as u64 / PIECE, offset as u64 % PIECE);
        let (rank, i) = (piece % size, piece / size * PIECE + within);
        assert_eq!(*byte, value(rank, ROUNDS - 1, i), "byte {offset} of rank {rank}");
    }
}

#[test]
fn concurrent_processes_lose_no_write() {
    if let Ok(part) = std::env::var("PARIO_TEST_WRITER") {
        let numbers: Vec<u64> = part.split(' ').take(2).map(|n| n.parse().unwrap()).collect();
        let path = part.splitn(3, ' ').nth(2).unwrap();
        return write_as(
            &open_lingering(Path::new(path)),
            numbers[0],
            numbers[1],
            &tuning(numbers[0], numbers[1]),
        );
    }
    let (path, size) = (TempPath::with(&[]), 5);
    let start = |rank| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "concurrent_processes_lose_no_write"])
            .env("PARIO_TEST_WRITER", format!("{rank} {size} {}", path.0.display()))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let all: Vec<_> = (0..size).map(start).collect();
    for mut child in all {
        assert!(child.wait().unwrap().success());
    }
    check(&path.0, size);
}

#[test]
fn threads_on_one_handle_lose_no_write() {
    for sole in [false, true] {
        let (path, size) = (TempPath::with(&[]), 4);
        let file = open_lingering(&path.0);
        std::thread::scope(|scope| {
            for rank in 0..size {
                let file = &file;
                scope.spawn(move || write_as(file, rank, size, &AccessTuning { sole, ..tuning(rank, size) }));
            }
        });
        check(&path.0, size);
    }
}

/// Every atomic write puts one value everywhere it reaches, so an atomic read must never see two.
#[test]
fn atomic_requests_are_seen_whole() {
    let path = TempPath::with(&vec![0; 4000]);
    let layout = strided(5, 7, 31, 1);
    let (len, atomic) = (
        7 * 100,
        AccessTuning { atomic: true, write_buffer: 256, read_buffer: 256, ..AccessTuning::default() },
    );
    let handles = [open_lingering(&path.0), open_lingering(&path.0)];
    std::thread::scope(|scope| {
        for (number, file) in handles.iter().enumerate() {
            for toggle in [Toggle::Enable, Toggle::Disable] {
                let (layout, atomic) = (&layout, &atomic);
                scope.spawn(move || {
                    let tune = AccessTuning { sieve_write: toggle, sieve_read: toggle, ..*atomic };
                    for round in 0..30 {
                        let mut memory = whole(len);
                        memory.fill(|_| (round * 4 + number) as u8);
                        file.write(&layout.view(0), Pos(0), &memory.buffer, 0, len, &tune).unwrap();
                        let back = whole(len);
                        file.read(&layout.view(0), Pos(0), &back.buffer, 0, len, &tune).unwrap();
                        assert!(back.bytes.iter().all(|b| *b == back.bytes[0]), "a torn read");
                    }
                });
            }
        }
    });
}

/// Plain writes beyond the end of the file, while a neighbour sieves windows that reach beyond it too.
#[test]
fn bytes_beyond_the_end_survive_a_neighbours_window() {
    let path = TempPath::with(&[]);
    let (sieving, plain) = (open_lingering(&path.0), open(&path.0));
    let rounds = 400u64;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let tune = AccessTuning { sieve_write: Toggle::Enable, ..AccessTuning::default() };
            let mut memory = whole(16);
            memory.fill(|_| 1);
            let view = strided(0, 8, 32, 1).view(0);
            for round in 0..rounds {
                sieving.write(&view, Pos(round * 16), &memory.buffer, 0, 16, &tune).unwrap();
            }
        });
        scope.spawn(|| {
            for piece in 0..2 * rounds {
                plain.write_bytes(Offset(piece * 32 + 8), &[2; 24]).unwrap();
            }
        });
    });
    let bytes = path.bytes();
    assert_eq!(bytes.len() as u64, 64 * rounds);
    let wrong = bytes.iter().enumerate().find(|(i, b)| **b != if i % 32 < 8 { 1 } else { 2 });
    assert_eq!(wrong, None);
}
