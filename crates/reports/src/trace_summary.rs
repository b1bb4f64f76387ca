//! A trace in numbers, for each file and call.

use crate::distribution::Distribution;
use crate::text::{duration, printable, ranks};
use pario_trace::{Actor, MergedTrace, TraceEvent, TraceHeader, TraceSource, kind_word};
use pario_types::round_size;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The longest bar of a chart, in characters.
const BAR: u64 = 30;

/// The operations of one kind on one file.
#[derive(Default)]
struct Calls {
    moved: u128,
    took: Distribution,
    /// Bytes asked for, of operations on bytes.
    sizes: Distribution,
    ranks: BTreeSet<u32>,
    /// Failures: how often, and on which ranks.
    errors: BTreeMap<String, (u64, BTreeSet<u32>)>,
}

/// The operations of a trace, for each file and call.
pub struct TraceSummary {
    files: BTreeMap<String, BTreeMap<String, Calls>>,
    /// The begin of the first and the end of the last operation.
    first_ns: u64,
    last_ns: u64,
}

impl Default for TraceSummary {
    fn default() -> TraceSummary {
        TraceSummary { files: BTreeMap::new(), first_ns: u64::MAX, last_ns: 0 }
    }
}

impl TraceSummary {
    /// All operations of traces, which are read to their end.
    pub fn of(traces: &mut MergedTrace) -> TraceSummary {
        let mut summary = TraceSummary::default();
        while let Some((source, event)) = traces.next() {
            let &TraceHeader { actor, rank, .. } = traces.sources[source].header();
            summary.add(actor, rank, &event);
        }
        summary
    }

    /// The summary for programs, with the traces that it is of.
    pub fn object(&self, traces: &MergedTrace) -> Value {
        let sources: Vec<Value> = traces.sources.iter().map(source_object).collect();
        json!({ "span_ns": self.span_ns(), "files": self.files_object(), "traces": sources })
    }

    /// Adds an operation of a rank's task or agent.
    pub fn add(&mut self, actor: Actor, rank: u32, event: &TraceEvent) {
        self.first_ns = self.first_ns.min(event.start_ns);
        self.last_ns = self.last_ns.max(event.end_ns());
        let file = event.file.as_deref().unwrap_or("-");
        if !self.files.contains_key(file) {
            self.files.insert(file.to_owned(), BTreeMap::new());
        }
        if let Some(calls) = self.files.get_mut(file) {
            // The operations of agents are listed apart: the tasks' operations include them.
            let name = match actor {
                Actor::Task => event.call.name(),
                _ => format!("{actor} {}", event.call.name()),
            };
            calls.entry(name).or_default().add(rank, event);
        }
    }

    /// The nanoseconds from the first operation to the last.
    fn span_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }

    /// The summary as text.
    pub fn text(&self) -> String {
        text(&self.files, self.span_ns())
    }

    /// The files as JSON.
    fn files_object(&self) -> Vec<Value> {
        let file = |(file, calls): (&String, &BTreeMap<String, Calls>)| {
            let calls: Vec<Value> = calls.iter().map(|(name, calls)| calls_object(name, calls)).collect();
            json!({ "file": file, "calls": calls })
        };
        self.files.iter().map(file).collect()
    }
}

fn source_object(source: &TraceSource) -> Value {
    let header = source.header();
    json!({
        "path": source.path.display().to_string(),
        "actor": header.actor.word(),
        "rank": header.rank,
        "host": header.host,
        "job": header.job,
        "mode": header.mode.word(),
        "lost": source.reader.lost(),
        "ending": source.reader.ending().map(ToString::to_string),
    })
}

impl Calls {
    fn add(&mut self, rank: u32, event: &TraceEvent) {
        self.moved += u128::from(event.moved);
        self.took.add(event.took_ns);
        self.ranks.insert(rank);
        if event.len > 0 || event.call.op.on_bytes() {
            self.sizes.add(event.len);
        }
        let what = match event.kind {
            Some(kind) => kind_word(kind),
            None if event.errno != 0 => format!("errno {}", event.errno),
            None if event.class != 0 => format!("MPI class {}", event.class),
            None if event.is_short() => "short".to_owned(),
            None => return,
        };
        let (count, ranks) = self.errors.entry(what).or_default();
        *count += 1;
        ranks.insert(rank);
    }

    fn wrong(&self) -> u64 {
        self.errors.values().map(|(count, _)| count).sum()
    }
}

fn text(files: &BTreeMap<String, BTreeMap<String, Calls>>, span: u64) -> String {
    let calls = || files.values().flat_map(BTreeMap::values);
    let count: u64 = calls().map(|calls| calls.took.count).sum();
    let wrong: u64 = calls().map(Calls::wrong).sum();
    let mut text = format!("{count} operations in {}, {wrong} failed or short\n", duration(span));
    for (file, calls) in files {
        let all: BTreeSet<u32> = calls.values().flat_map(|calls| calls.ranks.iter().copied()).collect();
        let plural = if all.len() == 1 { "" } else { "s" };
        let _ = writeln!(text, "\n{}  (rank{plural} {})", printable(file), ranks(&all));
        let _ = writeln!(
            text,
            "  {:18} {:>9} {:>12} {:>9} {:>9} {:>9} {:>7}",
            "call", "count", "bytes", "mean", "median", "max", "wrong"
        );
        for (name, calls) in calls {
            row(&mut text, name, calls);
        }
    }
    text
}

fn row(text: &mut String, name: &str, calls: &Calls) {
    let bytes = match calls.sizes.count {
        0 => "-".to_owned(),
        _ => round_size(u64::try_from(calls.moved).unwrap_or(u64::MAX)),
    };
    let [mean, median, max] = [calls.took.mean(), calls.took.median(), calls.took.max].map(duration);
    let (count, wrong) = (calls.took.count, calls.wrong());
    let _ = writeln!(text, "  {name:18} {count:>9} {bytes:>12} {mean:>9} {median:>9} {max:>9} {wrong:>7}");
    let powers = calls.sizes.powers();
    let most = powers.iter().map(|&(_, count)| count).max().unwrap_or(1);
    for (power, count) in powers {
        let bar = "█".repeat(((count * BAR).div_ceil(most)) as usize);
        let _ = writeln!(text, "    {:>10}  {bar} {count}", round_size(power));
    }
    for (what, (count, on)) in &calls.errors {
        let plural = if on.len() == 1 { "" } else { "s" };
        let _ = writeln!(text, "    {what}: {count}, on rank{plural} {}", ranks(on));
    }
}

fn calls_object(name: &str, calls: &Calls) -> Value {
    let sizes: Vec<Value> =
        calls.sizes.powers().iter().map(|(from, count)| json!({ "from": from, "count": count })).collect();
    let errors: Vec<Value> = calls
        .errors
        .iter()
        .map(|(what, (count, ranks))| json!({ "what": what, "count": count, "ranks": ranks }))
        .collect();
    json!({
        "call": name,
        "count": calls.took.count,
        "moved": u64::try_from(calls.moved).unwrap_or(u64::MAX),
        "mean_ns": calls.took.mean(),
        "median_ns": calls.took.median(),
        "max_ns": calls.took.max,
        "sizes": sizes,
        "errors": errors,
        "ranks": calls.ranks,
    })
}
