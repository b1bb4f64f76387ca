//! `pario trace summary`: recorded operations in numbers, per file and call.

use super::select::{Merged, Source};
use super::spread::Spread;
use super::text::{duration, printable, ranks};
use super::{Error, Selection};
use clap::Args;
use pario_trace::{Actor, Event, Header, kind_word, size_word};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Sum up recorded operations per file and call: counts, bytes, times, sizes, errors.
///
/// Times are per operation. The median is right to about 3 %. Sizes are the bytes asked for, counted by
/// powers of two: the bar at 4.0 KiB stands for operations of 4 KiB up to 8 KiB.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Write JSON, for programs
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  pario trace summary                    all of ./pario-trace
  pario trace summary --op read,write    data only
  pario trace summary --rank 0 my-trace  one rank, traces in my-trace
  pario trace summary --json | jq '.files[].calls[] | [.call, .count, .moved]'";

/// Longest bar of a chart, in characters.
const BAR: u64 = 30;

/// The operations of one kind on one file.
#[derive(Default)]
struct Calls {
    moved: u128,
    took: Spread,
    /// Bytes asked for, of operations on bytes.
    sizes: Spread,
    ranks: BTreeSet<u32>,
    /// What went wrong: how often, on which ranks.
    errors: BTreeMap<String, (u64, BTreeSet<u32>)>,
}

type Files = BTreeMap<String, BTreeMap<String, Calls>>;

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<(), Error> {
    write(&arguments.selection, arguments.json, &mut io::stdout().lock())
}

/// Writes the summary, and tells on standard error what is wrong with the traces.
pub fn write(selection: &Selection, json: bool, output: &mut impl Write) -> Result<(), Error> {
    let mut merged = selection.open()?;
    let mut files = Files::new();
    let (mut first, mut last) = (u64::MAX, 0);
    while let Some((source, event)) = merged.next() {
        let &Header { actor, rank, .. } = merged.sources[source].header();
        (first, last) = (first.min(event.start_ns), last.max(event.end_ns()));
        let file = event.file.as_deref().unwrap_or("-");
        if !files.contains_key(file) {
            files.insert(file.to_owned(), BTreeMap::new());
        }
        if let Some(calls) = files.get_mut(file) {
            // What agents do for tasks is not done by the program a second time.
            let name = match actor {
                Actor::Task => event.call.name(),
                _ => format!("{actor} {}", event.call.name()),
            };
            calls.entry(name).or_default().add(rank, &event);
        }
    }
    let span = last.saturating_sub(first);
    let text = if json { format!("{:#}\n", object(&merged, &files, span)) } else { text(&files, span) };
    output.write_all(text.as_bytes())?;
    merged.complain();
    Ok(())
}

impl Calls {
    fn add(&mut self, rank: u32, event: &Event) {
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

fn text(files: &Files, span: u64) -> String {
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
        _ => size_word(u64::try_from(calls.moved).unwrap_or(u64::MAX)),
    };
    let [mean, median, max] = [calls.took.mean(), calls.took.median(), calls.took.max].map(duration);
    let (count, wrong) = (calls.took.count, calls.wrong());
    let _ = writeln!(text, "  {name:18} {count:>9} {bytes:>12} {mean:>9} {median:>9} {max:>9} {wrong:>7}");
    let powers = calls.sizes.powers();
    let most = powers.iter().map(|&(_, count)| count).max().unwrap_or(1);
    for (power, count) in powers {
        let bar = "█".repeat(((count * BAR).div_ceil(most)) as usize);
        let _ = writeln!(text, "    {:>10}  {bar} {count}", size_word(power));
    }
    for (what, (count, on)) in &calls.errors {
        let plural = if on.len() == 1 { "" } else { "s" };
        let _ = writeln!(text, "    {what}: {count}, on rank{plural} {}", ranks(on));
    }
}

fn object(merged: &Merged, files: &Files, span: u64) -> Value {
    let files: Vec<Value> = files
        .iter()
        .map(|(file, calls)| {
            let calls: Vec<Value> = calls.iter().map(|(name, calls)| calls_object(name, calls)).collect();
            json!({ "file": file, "calls": calls })
        })
        .collect();
    let traces: Vec<Value> = merged.sources.iter().map(trace_object).collect();
    json!({ "span_ns": span, "files": files, "traces": traces })
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

fn trace_object(source: &Source) -> Value {
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
