//! What one record costs, its writing included: the best of a few rounds, since a busy machine only adds.
//!
//! `cargo run --release -p pario-trace --example record_cost [DIR]`

use std::time::{Duration, Instant};

use pario_trace::{Actor, Op, Record, Recorder, Setup};

const RECORDS: u64 = 500_000;
const ROUNDS: u32 = 8;

fn main() {
    let dir = std::env::args_os().nth(1).map_or_else(|| std::env::temp_dir().join("record-cost"), Into::into);
    for text in ["all", "errors"] {
        let setup = Setup::parse(text).expect("a setting").expect("a trace");
        let setup = Setup { dir: dir.clone(), ..setup };
        let best = (0..ROUNDS).map(|_| round(&setup)).min().expect("a round");
        println!("{text:8} {:5.1} ns per record", best.as_nanos() as f64 / RECORDS as f64);
    }
    std::fs::remove_dir_all(&dir).expect("removed");
}

fn round(setup: &Setup) -> Duration {
    let recorder = Recorder::start(setup, Actor::Task, 0, 1);
    let file = recorder.file("out.dat");
    let began = Instant::now();
    // The clock is the caller's, so it is read once, not once per record.
    let pattern = Record { len: 4096, moved: 4096, ..Record::new(Op::Write, Some(&file), began) };
    for n in 0..RECORDS {
        recorder.record(&Record { offset: n << 12, end: (n + 1) << 12, ..pattern });
    }
    recorder.finish().expect("written");
    began.elapsed()
}
