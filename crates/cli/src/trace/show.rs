//! `pario trace show`: one line per operation.

use super::Error;
use super::select::{self, Selection};
use clap::Args;
use pario_reports::{trace_heading, trace_line, trace_object};
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
    let mut merged = select::open(&arguments.selection.value())?;
    let mut output = BufWriter::new(io::stdout().lock());
    let began = merged.began_ns();
    if !arguments.json {
        writeln!(output, "{}", trace_heading())?;
    }
    for _ in 0..arguments.limit.unwrap_or(usize::MAX) {
        let Some((source, event)) = merged.next() else { break };
        let header = merged.sources[source].header();
        if arguments.json {
            writeln!(output, "{}", trace_object(header, &event))?;
        } else {
            writeln!(output, "{}", trace_line(header, &event, began))?;
        }
    }
    output.flush()?;
    select::complain(&merged);
    Ok(())
}
