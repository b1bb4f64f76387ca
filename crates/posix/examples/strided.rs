//! Interleaved strided access by several processes: which strategy is how fast.
//!
//! `cargo run --release -p pario-posix --example strided -- [ranks [MiB [directory...]]]`
//! prints MB/s of all ranks together and, behind the stroke, MB per second of processor time (which a busy
//! machine disturbs less), medians of five: rank r owns every `ranks`-th piece of the file.
//! "new" writes begin with an empty file, "old" ones and reads with a full one in the page cache.

use pario_buffer::UserBuffer;
use pario_posix::{PlainFile, PlainOpenOptions};
use pario_types::{AccessTuning, Toggle};
use pario_types::{Offset, Pos};
use pario_view::{Datatype, Pattern, Shape, View};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 5;
const PIECES: [u64; 8] = [64, 256, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "rank") {
        return rank(&args[1..]);
    }
    let number = |i: usize, default: u64| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let (ranks, total) = (number(0, 4), number(1, 64) << 20);
    let given: Vec<&str> = args.iter().skip(2).map(String::as_str).collect();
    let places = if given.is_empty() { vec!["/dev/shm", "/tmp"] } else { given };
    for place in places {
        println!("{place}: {ranks} ranks, {} MiB, MB/s", total >> 20);
        println!("{:>8} {:>10} {:>13} {:>13} {:>13}", "piece", "", "pieces", "sieve", "auto");
        for piece in PIECES {
            for kind in ["write-new", "write-old", "read"] {
                let speed = |toggle| measure(Path::new(place), kind, toggle, piece, ranks, total);
                let [pieces, sieve, auto] = ["disable", "enable", "auto"].map(speed);
                println!("{piece:>8} {kind:>10} {pieces:>13} {sieve:>13} {auto:>13}");
            }
        }
    }
}

struct Peer {
    child: Child,
    go: ChildStdin,
    done: ChildStdout,
}

/// The median speeds of one setting, by the clock and by processor time.
fn measure(place: &Path, kind: &str, toggle: &str, piece: u64, ranks: u64, total: u64) -> String {
    let path = place.join(format!("pario-strided-{}", std::process::id()));
    std::fs::write(&path, vec![1; total as usize]).expect("the directory is writable");
    let start = |rank: u64| {
        let mut child = Command::new(std::env::current_exe().expect("own path"))
            .args(["rank", path.to_str().expect("a plain path"), kind, toggle])
            .args([piece, rank, ranks, total].map(|n| n.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let (go, done) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Peer { child, go, done }
    };
    let mut peers: Vec<Peer> = (0..ranks).map(start).collect();
    wait_all(&mut peers);
    let (mut times, mut burnt): (Vec<f64>, Vec<f64>) = (0..ROUNDS)
        .map(|_| {
            if kind == "write-new" {
                std::fs::File::create(&path).expect("an empty file");
            }
            let begin = Instant::now();
            peers.iter_mut().for_each(|peer| peer.go.write_all(b"g").expect("a living peer"));
            let burnt = wait_all(&mut peers);
            (begin.elapsed().as_secs_f64(), burnt as f64 / 1e9)
        })
        .unzip();
    for peer in &mut peers {
        peer.go.write_all(b"q").expect("a living peer");
        peer.child.wait().expect("a peer that ends");
    }
    std::fs::remove_file(&path).expect("own file");
    let speed = |list: &mut Vec<f64>| {
        list.sort_by(f64::total_cmp);
        total as f64 / list[ROUNDS / 2] / 1e6
    };
    format!("{:.0} |{:5.0}", speed(&mut times), speed(&mut burnt))
}

/// Waits until all are done; returns the nanoseconds of processor time they used together.
fn wait_all(peers: &mut [Peer]) -> u64 {
    let mut answer = [0; 8];
    let mut each = |peer: &mut Peer| {
        peer.done.read_exact(&mut answer).expect("a living peer");
        u64::from_ne_bytes(answer)
    };
    peers.iter_mut().map(&mut each).sum()
}

/// The processor time this process has used, in nanoseconds.
fn processor_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// One process: an access for every `g` on standard input, an answer after each.
fn rank(args: &[String]) {
    let numbers: Vec<u64> = args[3..].iter().map(|a| a.parse().expect("a number")).collect();
    let [piece, rank, ranks, total] = numbers[..] else { panic!("piece, rank, ranks, total") };
    let toggle = match args[2].as_str() {
        "disable" => Toggle::Disable,
        "enable" => Toggle::Enable,
        _ => Toggle::Automatic,
    };
    let stagger = (rank as u32, ranks as u32);
    let tune = AccessTuning { sieve_read: toggle, sieve_write: toggle, stagger, ..AccessTuning::default() };
    let file = PlainFile::open(
        Path::new(&args[0]),
        &PlainOpenOptions { write: true, ..PlainOpenOptions::default() },
    )
    .expect("the file");
    let view = View::new(Offset(rank * piece), every(piece, piece * ranks));
    let len = total / ranks / piece * piece;
    let mut memory = vec![rank as u8; len as usize];
    // SAFETY: the vector holds `len` bytes and outlives the buffer.
    let buffer = unsafe { UserBuffer::new(memory.as_mut_ptr(), Pattern::block(len), 1) };
    let (mut go, mut before) = ([0], processor_time());
    loop {
        let used = processor_time() - before;
        std::io::stdout()
            .write_all(&used.to_ne_bytes())
            .and_then(|()| std::io::stdout().flush())
            .expect("a parent");
        std::io::stdin().read_exact(&mut go).expect("a parent");
        before = processor_time();
        match (go[0], args[1].as_str()) {
            (b'q', _) => return,
            (_, "read") => file.read(&view, Pos(0), &buffer, 0, len, &tune).expect("a read"),
            _ => file.write(&view, Pos(0), &buffer, 0, len, &tune).expect("a write"),
        };
    }
}

/// `len` bytes every `stride`.
fn every(len: u64, stride: u64) -> Pattern {
    let (lb, extent) = (0, stride as i64);
    let bytes = Shape::Contiguous { count: len, child: Arc::new(Datatype::byte()) };
    let child = Arc::new(Datatype { lb, extent: len as i64, shape: bytes });
    Pattern::native(&Datatype { lb, extent, shape: Shape::Resized { lb, extent, child } }).expect("a layout")
}
