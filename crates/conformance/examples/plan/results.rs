//! The results of the measurement.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::jobs::{CONTENDERS, Contender, Job};
use crate::options::Options;

/// Of one run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// From the start of `pario run` to its end.
    pub run_s: f64,
    /// In calls of MPI-IO.
    pub io_s: f64,
    /// The times that the program reports for its kinds of calls, each of the slowest rank.
    pub calls_s: BTreeMap<String, f64>,
    /// All bytes that the hosts sent to each other and to the head: MPI's messages, start and end.
    pub sent_bytes: u64,
    /// The share of time that the machine's processors were busy, whatever with.
    pub busy: f64,
}

/// How many bytes of files a plan places in which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    pub local: u64,
    pub duplicate: u64,
    pub broadcast: u64,
    pub central: u64,
    pub chunks: u64,
}

/// Of each contender that has a plan.
pub type PlanShares = [Option<Shares>; CONTENDERS.len()];

impl Shares {
    /// From the summary of `pario plan --json`.
    pub fn of(summary: &Value) -> Shares {
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no number in {summary}"));
        let bytes = |name: &str| number(&summary["bytes"][name]);
        Shares {
            local: bytes("local"),
            duplicate: bytes("duplicate"),
            broadcast: bytes("broadcast"),
            central: bytes("central"),
            chunks: number(&summary["chunks"]),
        }
    }

    fn json(&self) -> Value {
        let Shares { local, duplicate, broadcast, central, chunks } = self;
        json!({
            "chunks": chunks, "local": local, "duplicate": duplicate, "broadcast": broadcast, "central": central,
        })
    }

    fn bytes(&self) -> u64 {
        self.local + self.duplicate + self.broadcast + self.central
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.bytes().max(1) as f64;
        let kinds = [
            ("local", self.local),
            ("duplicate", self.duplicate),
            ("broadcast", self.broadcast),
            ("central", self.central),
        ];
        let shares: Vec<String> = kinds
            .into_iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(kind, bytes)| format!("{kind} {}", percent(100.0 * bytes as f64 / all)))
            .collect();
        f.write_str(&shares.join(", "))
    }
}

/// With two digits that count.
fn percent(share: f64) -> String {
    if share < 1.0 { format!("{share:.2} %") } else { format!("{share:.0} %") }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Of one program on links of one speed.
pub struct Result {
    job: Job,
    mbit: u32,
    shares: PlanShares,
    /// For each contender, one for each turn.
    runs: [Vec<Measured>; CONTENDERS.len()],
}

impl Result {
    pub fn new(job: &Job, mbit: u32, shares: PlanShares) -> Result {
        Result { job: *job, mbit, shares, runs: Default::default() }
    }

    pub fn add(&mut self, contender: Contender, measured: Measured) {
        self.runs[contender as usize].push(measured);
    }

    /// Those that were run.
    fn contenders(&self) -> impl Iterator<Item = Contender> {
        CONTENDERS.into_iter().filter(|contender| !self.runs[*contender as usize].is_empty())
    }

    fn of(&self, contender: Contender, what: impl Fn(&Measured) -> f64) -> Spread {
        Spread::of(self.runs[contender as usize].iter().map(what))
    }

    /// Per cent less run time than the first contender, turn by turn.
    fn less(&self, contender: Contender) -> Spread {
        let pairs = self.runs[0].iter().zip(&self.runs[contender as usize]);
        Spread::of(pairs.map(|(first, this)| 100.0 * (1.0 - this.run_s / first.run_s)))
    }

    fn json(&self) -> Value {
        let Job { workload, preset, steps, paper_percent } = self.job;
        let runs = |contender: Contender| -> Value {
            let list = &self.runs[contender as usize];
            json!({
                "contender": contender.name(),
                "plan": self.shares[contender as usize].as_ref().map(Shares::json),
                "run_s": list.iter().map(|run| run.run_s).collect::<Vec<_>>(),
                "io_s": list.iter().map(|run| run.io_s).collect::<Vec<_>>(),
                "calls_s": list.iter().map(|run| &run.calls_s).collect::<Vec<_>>(),
                "sent_bytes": list.iter().map(|run| run.sent_bytes).collect::<Vec<_>>(),
                "busy": list.iter().map(|run| run.busy).collect::<Vec<_>>(),
                "less_percent": self.less(contender).median,
            })
        };
        json!({
            "mbit_per_s": self.mbit,
            "workload": workload,
            "preset": preset,
            "steps": steps,
            "paper_less_percent": paper_percent,
            "runs": self.contenders().map(runs).collect::<Vec<_>>(),
        })
    }
}

/// Rows of a table whose head is [`heading`].
impl fmt::Display for Result {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.shares.iter().flatten().next().map_or(0, Shares::bytes);
        for contender in self.contenders() {
            let what = match (contender, self.shares[contender as usize]) {
                (Contender::Central, _) => format!("`{}`, {:.1} MiB", self.job, mib(bytes)),
                (_, shares) => shares.map_or(String::new(), |shares| shares.to_string()),
            };
            let less = match contender {
                Contender::Central => String::new(),
                _ => self.less(contender).with(0),
            };
            let paper = match contender {
                Contender::ByPlan | Contender::IfCheaper => format!("{:.1}", self.job.paper_percent),
                _ => String::new(),
            };
            let sent = self.of(contender, |run| mib(run.sent_bytes));
            writeln!(
                f,
                "| {what} | {} | {} | {} | {:.1} | {:.0} | {less} | {paper} |",
                contender.name(),
                self.of(contender, |run| run.run_s).with(2),
                self.of(contender, |run| run.io_s).with(2),
                sent.median,
                self.of(contender, |run| 100.0 * run.busy).median,
            )?;
        }
        Ok(())
    }
}

/// Of several measurements.
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let last = sorted.len().saturating_sub(1);
        Spread { min: at(0), median: f64::midpoint(at(last / 2), at(last.div_ceil(2))), max: at(last) }
    }

    /// `median (min–max)` with so many decimals.
    fn with(&self, decimals: usize) -> String {
        let Spread { min, median, max } = self;
        format!("{median:.decimals$} ({min:.decimals$}–{max:.decimals$})")
    }
}

pub fn legend(options: &Options) -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "4 hosts on one machine of {cores} cores, a rank and a server on each, {}, {} of cache a server, {} turns; load \
         before: {}.\nMedians (least–most). Run time: of the launcher, all in all. Less: run time than central's of the \
         same turn.",
        options.host.name(),
        options.cache,
        options.turns,
        load.split(' ').next().unwrap_or("unknown"),
    )
}

pub fn heading(mbit: u32) -> String {
    format!(
        "Links of {mbit} Mbit/s in each direction\n\n\
         | program, plan | files | run time, s | I/O of it, s | sent by hosts, MiB | processors busy, % | less, % | paper, % |\n\
         |---|---|---|---|---|---|---|---|"
    )
}

pub fn json(options: &Options, results: &[Result]) -> String {
    let results: Vec<Value> = results.iter().map(Result::json).collect();
    let all = json!({
        "mpi": options.host.name(), "cache": options.cache, "turns": options.turns, "results": results,
    });
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::JOBS;

    fn run(run_s: f64) -> Measured {
        Measured { run_s, io_s: run_s / 2.0, calls_s: BTreeMap::new(), sent_bytes: 3 << 20, busy: 0.5 }
    }

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(Spread::of([3.0, 1.0, 7.0].into_iter()).with(0), "3 (1–7)");
        assert_eq!(Spread::of([3.0, 1.0, 7.0, 4.0].into_iter()).with(1), "3.5 (1.0–7.0)");
        assert_eq!(Spread::of([2.0].into_iter()).with(2), "2.00 (2.00–2.00)");
        assert!(Spread::of(std::iter::empty()).median.is_nan());
    }

    #[test]
    fn the_difference_is_between_results_of_the_same_turn() {
        let shares = Shares { local: 3 << 20, duplicate: 0, broadcast: 1 << 20, central: 0, chunks: 2 };
        let mut result = Result::new(&JOBS[0], 100, [None, None, Some(shares), None]);
        for (central, by_plan) in [(4.0, 1.0), (10.0, 9.0), (8.0, 4.0)] {
            result.add(Contender::Central, run(central));
            result.add(Contender::Striped, run(central));
            result.add(Contender::ByPlan, run(by_plan));
        }
        assert_eq!(result.less(Contender::ByPlan).with(0), "50 (10–75)");
        let text = result.to_string();
        let last = "| local 75 %, broadcast 25 % | by plan | 4.00 (1.00–9.00) | 2.00 (0.50–4.50) | 3.0 | 50 | 50 (10–75) | 47.2 |";
        assert_eq!(text.lines().last(), Some(last), "{text}");
        assert!(text.starts_with("| `btio medium`, 4.0 MiB | central | 8.00 (4.00–10.00) |"), "{text}");
    }
}
