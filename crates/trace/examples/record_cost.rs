//! Measures the cost of recording beside reads of 4 KiB from the page cache, including writing the trace.
//!
//! Batches of reads with and without recording take turns in one thread, so that both see the same machine, however busy it
//! is. Prints the quartiles of both and of their difference, in nanoseconds per read.
//!
//! `cargo run --release -p pario-trace --example record_cost [DIR]`

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use pario_trace::{Actor, Recorder, TraceSetup, TracedOp};

const SIZE: u64 = 4096;
const BLOCKS: u64 = 8192;
/// A small number, so that a busy machine does not interrupt most batches.
const BATCH: u64 = 2000;
const TURNS: usize = 1000;

fn main() {
    let dir = std::env::args_os().nth(1).map_or_else(|| std::env::temp_dir().join("record-cost"), Into::into);
    for text in ["all", "all,clock=system", "errors"] {
        let setup = TraceSetup::parse(text).expect("a setting").expect("a trace");
        let recorder = Recorder::start(&TraceSetup { dir: dir.clone(), ..setup }, Actor::Task, 0, 1);
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("data");
        std::fs::write(&path, vec![1; (SIZE * BLOCKS) as usize]).expect("written");
        let data = File::open(&path).expect("there");
        let id = recorder.file(&path);
        let (mut at, mut block) = (0, vec![0; SIZE as usize]);
        let mut batch = |recorded: bool| {
            let began = Instant::now();
            for _ in 0..BATCH {
                at = (at + 1) % BLOCKS;
                let start = recorded.then(|| recorder.now());
                data.read_exact_at(&mut block, at * SIZE).expect("read");
                if let Some(start) = start {
                    recorder.plain(TracedOp::Read.into(), &id, at * SIZE, SIZE, start);
                }
            }
            if recorded {
                recorder.flush().expect("written");
            }
            began.elapsed().as_nanos() as f64 / BATCH as f64
        };
        let mut times: Vec<[f64; 3]> = (0..TURNS)
            .map(|_| [batch(false), batch(true)])
            .map(|[without, with]| [without, with, with - without])
            .collect();
        print!("{text:16}");
        for (which, name) in ["without", "recorded", "more"].iter().enumerate() {
            times.sort_by(|a, b| a[which].total_cmp(&b[which]));
            let [low, middle, high] = [1, 2, 3].map(|quarter| times[TURNS * quarter / 4][which]);
            print!("  {name} {low:.0} {middle:.0} {high:.0}");
        }
        println!(" ns");
        recorder.finish().expect("written");
    }
    std::fs::remove_dir_all(&dir).expect("removed");
}
