//! What one record costs, two readings of the clock and its writing included: the best of a few rounds, since a busy machine only adds.
//!
//! `cargo run --release -p pario-trace --example record_cost [DIR]`

use std::time::{Duration, Instant};

use pario_trace::{Actor, Op, Recorder, Setup};

const RECORDS: u64 = 20_000;
const ROUNDS: u32 = 200;

fn main() {
    let dir = std::env::args_os().nth(1).map_or_else(|| std::env::temp_dir().join("record-cost"), Into::into);
    for text in ["all", "all,clock=system", "errors"] {
        let setup = Setup::parse(text).expect("a setting").expect("a trace");
        let setup = Setup { dir: dir.clone(), ..setup };
        let best = (0..ROUNDS).map(|_| round(&setup)).min().expect("a round");
        println!("{text:16} {:5.1} ns per record", best.as_nanos() as f64 / RECORDS as f64);
    }
    std::fs::remove_dir_all(&dir).expect("removed");
}

fn round(setup: &Setup) -> Duration {
    let recorder = Recorder::start(setup, Actor::Task, 0, 1);
    let file = recorder.file("out.dat");
    let began = Instant::now();
    for n in 0..RECORDS {
        recorder.plain(Op::Write.into(), &file, n << 12, 4096, recorder.now());
    }
    recorder.finish().expect("written");
    began.elapsed()
}
