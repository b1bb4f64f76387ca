//! Measures the rate at which pieces are walked and copied, and the memory of large views.
//!
//! Prints one line per piece size and layout: nanoseconds per piece for walking (cursor only), packing to and
//! unpacking from a contiguous buffer, and scattering from strided memory into a strided file window, beside
//! a plain `memcpy` of the same bytes. Every figure is the median of interleaved repeats, with the middle half
//! of them as the spread. `PARIO_BENCH_MIB` sets the data per repeat (default 16), `PARIO_BENCH_REPEATS` the
//! repeats (default 15).

use std::hint::black_box;
use std::sync::Arc;

use pario_buffer::UserBuffer;
use pario_types::{Offset, Pos};
use pario_view::{Cursor, Datatype, Order, Pattern, Shape, View};

fn main() {
    let mib = setting("PARIO_BENCH_MIB", 16);
    let repeats = setting("PARIO_BENCH_REPEATS", 15) as usize;
    println!("{:<48} {:>12} {:>12} {:>14}", "view", "pieces", "memory B", "RSS growth KiB");
    memory("vector of 100 million 8-byte pieces", big_vector);
    memory("4-D subarray of more than 10^9 doubles", big_subarray);
    memory("indexed list of 1 million irregular pieces", || irregular(64, 1_000_000));
    println!();
    println!("{mib} MiB of data per repeat, {repeats} interleaved repeats, CPU time of the thread");
    println!("median [lower..upper quartile] ns per piece");
    println!(
        "{:<10} {:>6} {:>9}  {:>20} {:>20} {:>20} {:>20} {:>20} {:>8}",
        "layout", "piece", "pieces", "walk", "pack", "unpack", "scatter", "memcpy", "pack/mc"
    );
    for piece in [8u64, 64, 4096] {
        let count = (mib << 20) / piece;
        row("strided", piece, &strided(piece, count), repeats);
        row("irregular", piece, &irregular(piece, count), repeats);
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Pieces with gaps of their own length.
fn strided(piece: u64, count: u64) -> Pattern {
    let child = Arc::new(Datatype::byte());
    let shape = Shape::Hvector { count, blocklen: piece, stride: 2 * piece as i64, child };
    native(2 * (piece * count) as i64, shape)
}

/// Pieces with gaps of half to one and a half times their length, no two alike for long.
fn irregular(piece: u64, count: u64) -> Pattern {
    let mut seed = 88172645463325252u64;
    let mut at = 0i64;
    let blocks = (0..count)
        .map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let here = at;
            at += (piece + piece / 2 + 1 + seed % piece) as i64;
            (piece, here)
        })
        .collect();
    native(at, Shape::Hindexed { blocks, child: Arc::new(Datatype::byte()) })
}

fn native(extent: i64, shape: Shape) -> Pattern {
    Pattern::native(&Datatype { lb: 0, extent, shape }).expect("a legal type")
}

fn big_vector() -> Pattern {
    let child = Arc::new(Datatype::byte());
    let shape = Shape::Hvector { count: 100_000_000, blocklen: 8, stride: 16, child };
    native(1_600_000_000, shape)
}

fn big_subarray() -> Pattern {
    let eight = Datatype {
        lb: 0,
        extent: 8,
        shape: Shape::Contiguous { count: 8, child: Arc::new(Datatype::byte()) },
    };
    let shape = Shape::Subarray {
        sizes: vec![200; 4],
        subsizes: vec![178; 4],
        starts: vec![3; 4],
        order: Order::C,
        child: Arc::new(eight),
    };
    native(200 * 200 * 200 * 200 * 8, shape)
}

/// Times the five ways in turn, so that whatever disturbs the machine disturbs all of them.
fn row(layout: &str, piece: u64, pattern: &Pattern, repeats: usize) {
    let size = pattern.size() as usize;
    let span = pattern.true_ub() as usize;
    let mut memory = vec![1u8; span];
    let mut window = vec![2u8; span];
    let mut packed = vec![3u8; size];
    // SAFETY: `memory` covers the pattern and outlives the buffer.
    let buffer = unsafe { UserBuffer::new(memory.as_mut_ptr(), pattern.clone(), 1) };
    let view = View::new(Offset(0), pattern.clone());
    let source = vec![4u8; size];
    let mut times: [Vec<f64>; 5] = Default::default();
    let pieces = pattern.pieces() as f64;
    for round in 0..repeats + 2 {
        let took = [
            time(|| walk(pattern)),
            time(|| buffer.pack(0, black_box(&mut packed))),
            time(|| buffer.unpack(0, black_box(&packed))),
            time(|| {
                buffer.scatter(0, size as u64, &mut view.cursor(Pos(0), size as u64), &mut window, Offset(0))
            }),
            time(|| black_box(&mut packed).copy_from_slice(black_box(&source))),
        ];
        if round >= 2 {
            took.iter().zip(&mut times).for_each(|(ns, all)| all.push(ns / pieces));
        }
    }
    let quartiles = times.map(|mut all| {
        all.sort_by(f64::total_cmp);
        [all[all.len() / 4], all[all.len() / 2], all[all.len() * 3 / 4]]
    });
    let text = quartiles.map(|[low, median, high]| format!("{median:.2} [{low:.2}..{high:.2}]"));
    let ratio = quartiles[1][1] / quartiles[4][1];
    print!("{layout:<10} {piece:>6} {:>9} ", pattern.pieces());
    text.iter().for_each(|t| print!(" {t:>20}"));
    println!(" {ratio:>8.2}");
}

fn walk(pattern: &Pattern) {
    let mut cursor = Cursor::over(pattern, 1, 0);
    let mut sum = 0;
    while let Some(piece) = cursor.next_piece(u64::MAX) {
        sum += piece.offset ^ piece.len as i64;
    }
    black_box(sum);
}

/// Nanoseconds of CPU time, which other programs on the machine disturb less than the clock on the wall.
fn time(work: impl FnOnce()) -> f64 {
    let start = cpu_ns();
    work();
    cpu_ns() - start
}

fn cpu_ns() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the answer.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    assert_eq!(failed, 0, "no CPU clock on this system");
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Builds a small view a thousand times, a big one once, and shows what one of them takes. The growth of a big
/// one includes what the allocator keeps of the index list it was made from.
fn memory(name: &str, build: impl Fn() -> Pattern) {
    let before = resident();
    let mut kept = vec![build()];
    if kept[0].memory() < 4096 {
        kept.extend((1..1000).map(|_| build()));
    }
    let grown = resident().saturating_sub(before) as f64 / kept.len() as f64;
    println!("{name:<48} {:>12} {:>12} {grown:>14.2}", kept[0].pieces(), kept[0].memory());
    std::mem::forget(kept); // so that the next view cannot use this one's memory
}

/// Resident memory of this process in KiB, 0 where `/proc` does not tell.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:"));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}
