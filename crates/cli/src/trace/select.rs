//! The arguments that select traces and operations.

use super::Error;
use clap::Args;
use pario_trace::{MergedTrace, TraceSelection};
use std::path::PathBuf;

#[derive(Args)]
pub struct Selection {
    /// Trace files, or directories with them [default: pario-trace]
    #[arg(value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Only operations that failed or moved less than was asked
    #[arg(long)]
    errors: bool,
    /// Only these ranks (their tasks and agents)
    #[arg(long, value_name = "RANK", value_delimiter = ',')]
    rank: Vec<u32>,
    /// Only these operations: a kind (read, write, open …) or a call (write_at_all, iread …)
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    op: Vec<String>,
    /// Only this job, of several that left traces in one place; 'all' for all of them [default: the latest]
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
}

impl Selection {
    /// The selection that the arguments describe.
    pub fn value(&self) -> TraceSelection {
        TraceSelection {
            paths: self.paths.clone(),
            errors_only: self.errors,
            ranks: self.rank.clone(),
            operations: self.op.clone(),
            job: self.job.clone(),
        }
    }
}

/// Opens traces, and prints on standard error what the user should know about the choice.
pub fn open(selection: &TraceSelection) -> Result<MergedTrace, Error> {
    let merged = selection.open()?;
    merged.notes.iter().for_each(|note| eprintln!("pario: {note}"));
    Ok(merged)
}

/// Prints on standard error how the traces are incomplete; to be called at their end.
pub fn complain(merged: &MergedTrace) {
    merged.complaints().iter().for_each(|line| eprintln!("pario: {line}"));
}
