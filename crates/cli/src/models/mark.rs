//! The traced program of `--mark`.

use super::error::Error;
use crate::trace::select;
use pario_benchmarks::{TracedAccesses, TracedProgram};
use pario_io_models::ModelOp;
use pario_trace::{Actor, TraceSelection};
use std::path::Path;

/// Reads the trace of a program.
pub fn read(path: &Path) -> Result<TracedProgram, Error> {
    let mut merged = select::open(&TraceSelection::of(path, None)).map_err(Error::Trace)?;
    let mut accesses = TracedAccesses::default();
    while let Some((source, event)) = merged.next() {
        let header = merged.sources[source].header();
        let op = match event.call.op {
            pario_trace::TracedOp::Write => ModelOp::Write,
            pario_trace::TracedOp::Read => ModelOp::Read,
            _ => continue,
        };
        // Agents do what tasks ask for; it counts once.
        if header.actor == Actor::Task {
            let file = event.file.as_deref().unwrap_or_default();
            accesses.add(op, header.rank, file, event.moved, (event.start_ns, event.end_ns()));
        }
    }
    select::complain(&merged);
    accesses.program().ok_or_else(|| pario_benchmarks::Error::NoData(path.to_owned()).into())
}
