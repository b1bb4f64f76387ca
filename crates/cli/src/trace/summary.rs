//! `pario trace summary`: recorded operations in numbers, per file and call.

use super::select::{Merged, Source};
use super::{Error, Selection};
use clap::Args;
use pario_reports::TraceSummary;
use pario_trace::TraceHeader;
use serde_json::{Value, json};
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

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<(), Error> {
    write(&arguments.selection, arguments.json, &mut io::stdout().lock())
}

/// Writes the summary, and prints on standard error what is wrong with the traces.
pub fn write(selection: &Selection, json: bool, output: &mut impl Write) -> Result<(), Error> {
    let mut merged = selection.open()?;
    let mut summary = TraceSummary::default();
    while let Some((source, event)) = merged.next() {
        let &TraceHeader { actor, rank, .. } = merged.sources[source].header();
        summary.add(actor, rank, &event);
    }
    let text = if json { format!("{:#}\n", object(&merged, &summary)) } else { summary.text() };
    output.write_all(text.as_bytes())?;
    merged.complain();
    Ok(())
}

fn object(merged: &Merged, summary: &TraceSummary) -> Value {
    let traces: Vec<Value> = merged.sources.iter().map(trace_object).collect();
    json!({ "span_ns": summary.span_ns(), "files": summary.files_object(), "traces": traces })
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
