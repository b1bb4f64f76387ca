//! A recorded run as a workload: its collective accesses, call by call.
//!
//! The n-th collective access of each rank to a file belongs to the n-th collective call on it. What a trace does not know (which
//! bytes of a span an access had) is taken to be spread evenly.

use super::error::Error;
use pario_simulate::{FileSpan, RecordedCalls, Workload};
use pario_trace::{Actor, TraceSelectionError, TracedOp, read, trace_files};
use pario_types::FileId;
use std::collections::BTreeMap;
use std::path::Path;

/// The spans of each rank in one call.
type Spans = BTreeMap<u32, FileSpan>;

/// The writes or reads of the traces in a directory, or of one file.
pub fn workload(path: &str, write: bool) -> Result<Workload, Error> {
    let wanted = if write { TracedOp::Write } else { TracedOp::Read };
    let mut files: BTreeMap<String, BTreeMap<usize, (u64, Spans)>> = BTreeMap::new();
    let mut ranks = 0;
    for file in trace_files(Path::new(path))? {
        let mut reader = read(&file).map_err(TraceSelectionError::from)?;
        if reader.header().actor != Actor::Task {
            continue;
        }
        let rank = reader.header().rank;
        ranks = ranks.max(rank + 1);
        let mut counted: BTreeMap<String, usize> = BTreeMap::new();
        for event in reader.by_ref() {
            let Some(name) = event.file.as_ref().filter(|_| event.call.collective && event.call.op == wanted)
            else {
                continue;
            };
            let number = counted.entry(name.to_string()).or_default();
            let span = FileSpan { lo: event.offset, hi: event.end, len: event.moved };
            let (began, spans) =
                files.entry(name.to_string()).or_default().entry(*number).or_insert((u64::MAX, Spans::new()));
            *began = event.start_ns.min(*began);
            spans.insert(rank, span);
            *number += 1;
        }
        if let Some(ending) = reader.ending().filter(|ending| **ending != pario_trace::TraceEnding::Finished)
        {
            eprintln!("pario: {} {ending}", file.display());
        }
    }
    let mut calls: Vec<(u64, FileId, Spans)> = Vec::new();
    for (file, of_file) in (1..).zip(files.into_values()) {
        calls.extend(of_file.into_values().map(|(began, spans)| (began, FileId(file), spans)));
    }
    calls.sort_by_key(|call| call.0);
    let mut recorded = RecordedCalls::new(ranks);
    for (_, file, spans) in calls {
        recorded.call(file, spans);
    }
    Ok(Workload::recorded("trace", recorded)?)
}
