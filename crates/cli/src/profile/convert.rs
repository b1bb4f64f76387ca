//! `pario convert`: a profile for other programs.

use super::Error;
use super::source::Source;
use clap::{Args, ValueEnum};
use pario_profile::darshan::Log;
use pario_profile::{Collector, TracedProcess, csv};
use pario_reports::PerfettoTrace;
use pario_trace::{TraceEvent, TracedOp, TracedPieces, kind_word};
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Write a profile in a form that other programs read.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    #[command(flatten)]
    source: Source,
    /// The form
    #[arg(long, value_enum, value_name = "FORM")]
    to: Form,
    /// The file to write
    #[arg(value_name = "OUT")]
    out: PathBuf,
}

const NOTES: &str = "\
Forms:
  csv       a line per read or write, process,file,offset,length,op,time; an access
            with gaps has a line per piece. 'pario plan' reads it
  json      a line of JSON per operation, with all that the trace has
  perfetto  a Chrome JSON trace for https://ui.perfetto.dev: a track per rank, and one per
            nonblocking access of a rank that is in flight at the same time
  darshan   a log of Darshan (DXT, MPI-IO level) for pydarshan and darshan-dxt-parser; an
            access with gaps is one segment per piece

Examples:
  pario convert pario-trace --to csv accesses.csv
  pario convert pario-trace --to perfetto run.json";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A line per contiguous read or write
    Csv,
    /// A line of JSON per operation
    Json,
    /// A trace for Perfetto or Chrome
    Perfetto,
    /// A log of Darshan with extended tracing
    Darshan,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<(), Error> {
    let Arguments { source, to, out } = arguments;
    let unwritten = |e| Error::Unwritten(out.clone(), e);
    let mut output = BufWriter::with_capacity(1 << 20, File::create(out).map_err(unwritten)?);
    let facts = match to {
        Form::Csv => {
            writeln!(output, "{}", csv::COLUMNS.join(",")).map_err(unwritten)?;
            let mut pieces = Collector::new(false);
            source.each(|who, event| {
                let lines = lines(&mut pieces, who, event).map_err(Error::profile(&source.path))?;
                output.write_all(lines.as_bytes()).map_err(unwritten)
            })?
        }
        Form::Json => {
            source.each(|who, event| writeln!(output, "{}", object(who, event)).map_err(unwritten))?
        }
        Form::Perfetto => {
            let mut began = u64::MAX;
            source.each(|_, event| {
                began = began.min(event.start_ns);
                Ok(())
            })?;
            let mut perfetto = PerfettoTrace::new(&mut output, began);
            let facts = source.each(|who, event| perfetto.add(who, event).map_err(unwritten))?;
            perfetto.finish().map_err(unwritten)?;
            facts
        }
        Form::Darshan => {
            let mut log = Log::default();
            let facts =
                source.each(|who, event| log.add(who, event).map_err(Error::profile(&source.path)))?;
            log.write(&source.path.display().to_string(), &mut output).map_err(unwritten)?;
            facts
        }
    };
    output.flush().map_err(unwritten)?;
    facts.complain();
    Ok(())
}

/// An access as lines of a table, one per piece.
fn lines(
    pieces: &mut Collector,
    who: &TracedProcess,
    event: &TraceEvent,
) -> Result<String, pario_profile::Error> {
    let mut text = String::new();
    if !matches!(event.call.op, TracedOp::Read | TracedOp::Write) || event.moved == 0 {
        return Ok(text);
    }
    for (offset, end) in pieces.pieces(who, event)? {
        let moved = end - offset;
        csv::line(
            &who.label,
            &TraceEvent { offset, end, moved, len: moved, pieces: TracedPieces::All, ..event.clone() },
            &mut text,
        );
    }
    Ok(text)
}

fn object(who: &TracedProcess, event: &TraceEvent) -> serde_json::Value {
    json!({
        "process": &*who.label,
        "node": &*who.node,
        "op": event.call.op.word(),
        "call": event.call.name(),
        "collective": event.call.collective,
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
    })
}
