//! `pario trace show`: one line per operation.

use super::{Error, Selection};
use clap::Args;
use pario_reports::text::printable;
use pario_trace::{TraceEvent, TraceHeader, kind_word};
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};

/// Show recorded operations, one line each, in the order in which they ended.
///
/// A line has: seconds since the first process began to record, who did it, the call (an MPI function
/// without its MPI_File_), bytes moved (and of how many, if fewer than asked), the range of the file from the
/// first byte to behind the last, microseconds it took, the file, and what went wrong. A range longer than
/// the bytes has gaps.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Stop after so many operations
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Write JSON, an object per line, for programs
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  pario trace show                               all of ./pario-trace
  pario trace show --errors                      what failed or was short
  pario trace show --rank 0,3 --op write         writes of two ranks, of every kind
  pario trace show --op read_at_all --limit 20   the first twenty collective reads
  pario trace show --json | jq .took_ns          for a script";

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<(), Error> {
    let mut merged = arguments.selection.open()?;
    let mut output = BufWriter::new(io::stdout().lock());
    let began = merged.began_ns();
    if !arguments.json {
        writeln!(
            output,
            "{:>12}  {:9} {:18} {:>13}  {:>25} {:>11}  file",
            "seconds", "who", "call", "bytes", "range", "µs"
        )?;
    }
    for _ in 0..arguments.limit.unwrap_or(usize::MAX) {
        let Some((source, event)) = merged.next() else { break };
        let header = merged.sources[source].header();
        if arguments.json {
            writeln!(output, "{}", object(header, &event))?;
        } else {
            writeln!(output, "{}", line(header, &event, began))?;
        }
    }
    output.flush()?;
    merged.complain();
    Ok(())
}

fn line(header: &TraceHeader, event: &TraceEvent, began: u64) -> String {
    let on_bytes = event.len > 0 || event.call.op.on_bytes();
    let bytes = match (on_bytes, event.is_short()) {
        (false, _) => "-".to_owned(),
        (true, false) => event.moved.to_string(),
        (true, true) => format!("{}/{}", event.moved, event.len),
    };
    let range = if on_bytes { format!("{}..{}", event.offset, event.end) } else { "-".to_owned() };
    let mut line = format!(
        "{:12.6}  {:9} {:18} {bytes:>13}  {range:>25} {:11.1}  {}",
        event.start_ns.saturating_sub(began) as f64 / 1e9,
        format!("{} {}", header.actor, header.rank),
        event.call.name(),
        event.took_ns as f64 / 1e3,
        printable(event.file.as_deref().unwrap_or("-")),
    );
    if let Some(rank) = event.on_behalf_of {
        line += &format!("  for rank {rank}");
    }
    line + &wrong(event)
}

/// What went wrong, with two spaces before it.
fn wrong(event: &TraceEvent) -> String {
    let mut parts = Vec::new();
    parts.extend(event.kind.map(kind_word));
    if event.errno != 0 {
        parts.push(io::Error::from_raw_os_error(event.errno).to_string());
    }
    if event.class != 0 {
        parts.push(format!("MPI class {}", event.class));
    }
    if parts.is_empty() && event.is_short() {
        parts.push("short".to_owned());
    }
    if parts.is_empty() { String::new() } else { format!("  {}", parts.join(", ")) }
}

fn object(header: &TraceHeader, event: &TraceEvent) -> Value {
    json!({
        "actor": header.actor.word(),
        "rank": header.rank,
        "host": header.host,
        "job": header.job,
        "op": event.call.op.word(),
        "call": event.call.name(),
        "place": event.call.place.word(),
        "collective": event.call.collective,
        "pace": event.call.pace.word(),
        "file": event.file.as_deref(),
        "offset": event.offset,
        "end": event.end,
        "len": event.len,
        "moved": event.moved,
        "start_ns": event.start_ns,
        "took_ns": event.took_ns,
        "errno": event.errno,
        "kind": event.kind.map(kind_word),
        "class": event.class,
        "on_behalf_of": event.on_behalf_of,
    })
}
