//! What came out, and how close it is to what was aimed at.

use std::time::Instant;

use super::CONTENDERS;
use super::options::Job;
use super::outcome::Seconds;
use crate::host::Host;
use crate::numbers::Times;

/// Of one contender, one entry for each turn.
#[derive(Default)]
struct Column {
    write: Times,
    read: Times,
    open_to_close: Times,
    /// The host's time in memory divided by this one's.
    ratios: [Times; 3],
}

pub struct Table {
    host: &'static str,
    job: Job,
    columns: Vec<Column>,
    bytes: f64,
    /// Seconds for copying as many bytes in memory, by as many threads.
    memcpy: Times,
}

/// Server-directed writes shall take no longer than this many times what copying the bytes takes.
const OF_MEMCPY: f64 = 0.7;

impl Table {
    pub fn new(host: &Host, job: &Job) -> Table {
        let columns = CONTENDERS.iter().map(|_| Column::default()).collect();
        Table { host: host.label, job: *job, columns, bytes: 0.0, memcpy: Times::default() }
    }

    /// One turn of all contenders.
    pub fn add(&mut self, turn: &[(&str, Seconds)]) {
        let of = |name: &str| turn.iter().find(|(known, _)| *known == name).map(|(_, seconds)| *seconds);
        let Some(memory) = of(CONTENDERS[0].0) else { return };
        self.bytes = memory.bytes;
        for ((name, _), column) in CONTENDERS.iter().zip(&mut self.columns) {
            let Some(seconds) = of(name) else { continue };
            column.write.add(seconds.write);
            column.read.add(seconds.read);
            column.open_to_close.add(seconds.open_to_close);
            let pairs = [
                (memory.write, seconds.write),
                (memory.read, seconds.read),
                (memory.open_to_close, seconds.open_to_close),
            ];
            for (ratio, (host, mine)) in column.ratios.iter_mut().zip(pairs) {
                ratio.add(host / mine);
            }
        }
    }

    /// How long it takes to copy the bytes in memory that has been used before.
    pub fn limit(&mut self, turns: u32) {
        let threads = self.job.ranks as usize;
        let part = (self.bytes as usize / threads).max(1);
        let mut memory: Vec<(Vec<u8>, Vec<u8>)> =
            (0..threads).map(|_| (vec![1; part], vec![2; part])).collect();
        for _ in 0..turns {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for (from, to) in &mut memory {
                    scope.spawn(|| to.copy_from_slice(from));
                }
            });
            self.memcpy.add(start.elapsed().as_secs_f64());
        }
    }

    pub fn show(&self) {
        let (host, job, mib) = (self.host, &self.job, self.bytes / f64::from(1 << 20));
        println!("\n{host}: {job}, {mib:.0} MiB in pieces of about {} bytes", job.piece);
        println!("  {:<18}{:>26}{:>26}{:>28}", "", "write ms (×)", "read ms (×)", "open to close ms (×)");
        for ((name, _), column) in CONTENDERS.iter().zip(&self.columns) {
            let cell =
                |times: &Times, ratio: &Times| format!("{:.1} [{}]", times.median() * 1e3, ratio.as_ratio());
            println!(
                "  {name:<18}{:>26}{:>26}{:>28}",
                cell(&column.write, &column.ratios[0]),
                cell(&column.read, &column.ratios[1]),
                cell(&column.open_to_close, &column.ratios[2]),
            );
        }
        println!(
            "  copying as much in memory by {} threads: {:.1} ms; server-directed write {:.2} of that speed",
            job.ranks,
            self.memcpy.median() * 1e3,
            self.of_memcpy(),
        );
    }

    fn of_memcpy(&self) -> f64 {
        self.memcpy.median() / self.columns[3].write.median()
    }

    /// The best strategy's ratio to the host in memory.
    fn best(&self, which: usize) -> f64 {
        self.columns[2..].iter().map(|column| column.ratios[which].median()).fold(0.0, f64::max)
    }
}

/// How often the aims were met: the better of the hosts counts, as different hosts measure the same jobs.
pub fn aims(tables: &[Table]) {
    let all = tables.len();
    let met = |which: usize, aim: f64| tables.iter().filter(|table| table.best(which) >= aim).count();
    let mean = |which: usize| {
        let logs: f64 = tables.iter().map(|table| table.best(which).ln()).sum();
        (logs / all as f64).exp()
    };
    println!("\nBest strategy against the host in memory, {all} tables (aims in brackets):");
    for (which, word, aim) in [(0, "write", 4.0), (1, "read", 4.0), (2, "open to close", 1.5)] {
        println!(
            "  {word}: geometric mean {:.1} × (≥ {aim}), met in {} of {all}",
            mean(which),
            met(which, aim)
        );
    }
    let near: Vec<f64> = tables.iter().filter(|table| table.job.piece >= 512).map(Table::of_memcpy).collect();
    let met = near.iter().filter(|share| **share >= OF_MEMCPY).count();
    println!(
        "  server-directed writes at {OF_MEMCPY} of memcpy's speed, pieces ≥ 512 B: {met} of {}",
        near.len()
    );
}
