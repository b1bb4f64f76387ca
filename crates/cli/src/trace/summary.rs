//! `pario trace summary`: recorded operations in numbers, per file and call.

use super::Error;
use super::select::{self, Selection};
use clap::Args;
use pario_reports::TraceSummary;
use pario_trace::TraceSelection;
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
    write(&arguments.selection.value(), arguments.json, &mut io::stdout().lock())
}

/// Writes the summary, and prints on standard error what is wrong with the traces.
pub fn write(selection: &TraceSelection, json: bool, output: &mut impl Write) -> Result<(), Error> {
    let mut merged = select::open(selection)?;
    let summary = TraceSummary::of(&mut merged);
    let text = if json { format!("{:#}\n", summary.object(&merged)) } else { summary.text() };
    output.write_all(text.as_bytes())?;
    select::complain(&merged);
    Ok(())
}
