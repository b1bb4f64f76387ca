//! `pario convert`: a profile for other programs.

use super::error::complain;
use super::{Error, SourceArguments};
use clap::{Args, ValueEnum};
use pario_profile::darshan::Log;
use pario_profile::{Collector, ProfileSourceError, csv};
use pario_reports::{PerfettoTrace, profile_object};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Write a profile in a form that other programs read.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    #[command(flatten)]
    source: SourceArguments,
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
    let (source, out) = (arguments.source.value(), &arguments.out);
    let unwritten = |e| Error::Unwritten(out.clone(), e);
    let failed = ProfileSourceError::profile(&source.path);
    let mut output = BufWriter::with_capacity(1 << 20, File::create(out).map_err(unwritten)?);
    let facts = match arguments.to {
        Form::Csv => {
            writeln!(output, "{}", csv::COLUMNS.join(",")).map_err(unwritten)?;
            let mut pieces = Collector::new(false);
            source.each(|who, event| {
                let lines = csv::lines(&mut pieces, who, event).map_err(&failed)?;
                output.write_all(lines.as_bytes()).map_err(unwritten)
            })?
        }
        Form::Json => {
            source.each(|who, event| writeln!(output, "{}", profile_object(who, event)).map_err(unwritten))?
        }
        Form::Perfetto => {
            let mut began = u64::MAX;
            source.each(|_, event| {
                began = began.min(event.start_ns);
                Ok::<_, Error>(())
            })?;
            let mut perfetto = PerfettoTrace::new(&mut output, began);
            let facts = source.each(|who, event| perfetto.add(who, event).map_err(unwritten))?;
            perfetto.finish().map_err(unwritten)?;
            facts
        }
        Form::Darshan => {
            let mut log = Log::default();
            let facts = source.each(|who, event| Ok::<_, Error>(log.add(who, event).map_err(&failed)?))?;
            log.write(&source.path.display().to_string(), &mut output).map_err(unwritten)?;
            facts
        }
    };
    output.flush().map_err(unwritten)?;
    complain(&facts);
    Ok(())
}
