//! Which trace files, and which of their operations; all of them as one stream.
//!
//! The files are merged by the time at which operations ended, which is the order in which each file has
//! them, so that traces of any length need little memory.

use crate::event::{Pace, PointerKind, TraceEvent, TracedCall, TracedOp};
use crate::format::TraceHeader;
use crate::reader::{TraceEnding, TraceReadError, TraceReader, read};
use crate::setup::DEFAULT_DIR;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// Which operations of which traces.
#[derive(Clone, Debug, Default)]
pub struct TraceSelection {
    /// Trace files, or directories with them; if there is none, the directory `pario-trace`.
    pub paths: Vec<PathBuf>,
    /// Only operations that failed or moved less than was asked.
    pub errors_only: bool,
    /// Only these ranks (their tasks and agents); all if there is none.
    pub ranks: Vec<u32>,
    /// Only these operations, by kind (`write`) or call (`write_at_all`); all if there is none.
    pub operations: Vec<String>,
    /// Only this job, or `all`; without, the latest.
    pub job: Option<String>,
}

/// The reason why there is no trace to read.
#[derive(Debug, thiserror::Error)]
pub enum TraceSelectionError {
    /// A directory or file is not there or cannot be listed.
    #[error("{}", unlisted_text(.0, .1))]
    Unlisted(PathBuf, #[source] io::Error),
    /// A directory without trace files.
    #[error("no trace files (*.ptrace) in {}; a run with PARIO_TRACE=all makes some", .0.display())]
    Empty(PathBuf),
    /// A file gave no trace.
    #[error(transparent)]
    Unread(#[from] TraceReadError),
    /// No operation is called so.
    #[error("no operation is called {0:?}; examples: write, write_at_all, iread, open, set_view")]
    UnknownOperation(String),
    /// No file is of that job; the jobs there are.
    #[error("no trace is of job {0:?}; there are: {jobs}", jobs = .1.join(", "))]
    UnknownJob(String, Vec<String>),
}

fn unlisted_text(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!("no trace in {path}: {error}; a run with PARIO_TRACE=all makes one")
        }
        _ => format!("cannot look into {path}: {error}"),
    }
}

/// One trace file being read.
#[derive(Debug)]
pub struct TraceSource {
    /// The file.
    pub path: PathBuf,
    /// Its reader.
    pub reader: TraceReader<BufReader<File>>,
    /// The operation that is next in line, read ahead for the merge.
    head: Option<TraceEvent>,
}

impl TraceSource {
    /// Its header.
    pub fn header(&self) -> &TraceHeader {
        self.reader.header()
    }

    /// What a user should know about how the file ends, if it has been read to its end.
    fn complaints(&self) -> Vec<String> {
        let name = self.path.display();
        let mut lines = Vec::new();
        match self.reader.ending() {
            None | Some(TraceEnding::Finished) => (),
            Some(ending) => lines.push(format!("{name} {ending}")),
        }
        match self.reader.lost() {
            0 => (),
            lost => lines.push(format!("{name} misses {lost} operations, which could not be written")),
        }
        lines
    }
}

/// The selected operations of several files, in one order.
#[derive(Debug)]
pub struct MergedTrace {
    /// The files.
    pub sources: Vec<TraceSource>,
    /// What the user should know about the choice of files, in lines.
    pub notes: Vec<String>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    errors_only: bool,
    ranks: Vec<u32>,
    operations: Vec<String>,
}

impl TraceSelection {
    /// All operations in this file or directory, of one job.
    pub fn of(path: &Path, job: Option<&str>) -> TraceSelection {
        TraceSelection {
            paths: vec![path.to_owned()],
            job: job.map(str::to_owned),
            ..TraceSelection::default()
        }
    }

    /// Opens the files.
    pub fn open(&self) -> Result<MergedTrace, TraceSelectionError> {
        if let Some(word) = self.operations.iter().find(|word| !is_op(word)) {
            return Err(TraceSelectionError::UnknownOperation(word.clone()));
        }
        let default = [PathBuf::from(DEFAULT_DIR)];
        let (mut sources, mut notes) = (Vec::new(), Vec::new());
        for path in if self.paths.is_empty() { &default[..] } else { &self.paths } {
            collect(path, &mut sources, &mut notes)?;
        }
        let sources = of_one_job(sources, self.job.as_deref(), &mut notes)?;
        let mut merged = MergedTrace {
            sources,
            notes,
            queue: BinaryHeap::new(),
            errors_only: self.errors_only,
            ranks: self.ranks.clone(),
            operations: self.operations.clone(),
        };
        (0..merged.sources.len()).for_each(|index| merged.advance(index));
        Ok(merged)
    }
}

/// Whether some call has this name or is of this kind.
fn is_op(word: &str) -> bool {
    let known = |call: TracedCall| word == call.op.word() || word == call.name();
    let calls = |op| {
        PointerKind::ALL.iter().flat_map(move |&place| {
            let of = move |pace, collective| TracedCall { op, place, collective, pace };
            Pace::ALL.iter().flat_map(move |&pace| [of(pace, false), of(pace, true)])
        })
    };
    TracedOp::ALL.iter().any(|&op| calls(op).any(known))
}

/// The trace files of a directory, by name, or the file that the path names.
pub fn trace_files(path: &Path) -> Result<Vec<PathBuf>, TraceSelectionError> {
    let unlisted = |e| TraceSelectionError::Unlisted(path.to_owned(), e);
    if !std::fs::metadata(path).map_err(unlisted)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unlisted)? {
        let file = entry.map_err(unlisted)?.path();
        if file.extension().is_some_and(|e| e == "ptrace") {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(TraceSelectionError::Empty(path.to_owned()));
    }
    Ok(files)
}

/// Opens a file as it is named, or the trace files of a directory. In a directory, files that are no traces are skipped with a
/// note.
fn collect(
    path: &Path,
    into: &mut Vec<TraceSource>,
    notes: &mut Vec<String>,
) -> Result<(), TraceSelectionError> {
    for file in trace_files(path)? {
        match read(&file) {
            Ok(reader) => into.push(TraceSource { path: file, reader, head: None }),
            Err(error) if file == path => return Err(error.into()),
            Err(error) => notes.push(format!("{error}; it is passed over")),
        }
    }
    Ok(())
}

/// The sources of the job asked for, or of the one that began last; traces without a job's word are taken to
/// be of one job.
fn of_one_job(
    mut sources: Vec<TraceSource>,
    wanted: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Vec<TraceSource>, TraceSelectionError> {
    let mut jobs: BTreeMap<String, u64> = BTreeMap::new();
    for source in &sources {
        let began = jobs.entry(source.header().job.clone()).or_default();
        *began = source.header().began_ns.max(*began);
    }
    let latest = jobs.iter().max_by_key(|&(_, began)| *began).map(|(job, _)| job.clone()).unwrap_or_default();
    let chosen = wanted.unwrap_or(&latest);
    if chosen == "all" {
        return Ok(sources);
    }
    let names = || jobs.keys().map(|job| if job.is_empty() { "''".to_owned() } else { job.clone() });
    if wanted.is_some() && !jobs.contains_key(chosen) {
        return Err(TraceSelectionError::UnknownJob(chosen.to_owned(), names().collect()));
    }
    if wanted.is_none() && jobs.len() > 1 {
        let all = names().collect::<Vec<_>>().join(", ");
        notes.push(format!(
            "these are traces of several jobs ({all}); {latest:?}, the latest, is taken; see --job"
        ));
    }
    sources.retain(|source| source.header().job == chosen);
    Ok(sources)
}

impl MergedTrace {
    /// When the first of the processes began to record.
    pub fn began_ns(&self) -> u64 {
        self.sources.iter().map(|source| source.header().began_ns).min().unwrap_or(0)
    }

    /// Remarks on damaged files, one per line; known at the end.
    pub fn complaints(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut known = BTreeMap::new();
        for TraceSource { path, reader, .. } in &self.sources {
            let TraceHeader { actor, rank, job, .. } = reader.header();
            if let Some(other) = known.insert((job, actor, rank), path) {
                let (one, other) = (other.display(), path.display());
                lines.push(format!(
                    "{one} and {other} are both of {actor} {rank}: the runs are mixed; name the files"
                ));
                break;
            }
        }
        lines.extend(self.sources.iter().flat_map(TraceSource::complaints));
        lines
    }

    /// Puts the next selected operation of a source in line.
    fn advance(&mut self, index: usize) {
        let MergedTrace { sources, queue, errors_only, ranks, operations, .. } = self;
        let source = &mut sources[index];
        let rank = source.reader.header().rank;
        if !ranks.is_empty() && !ranks.contains(&rank) {
            return;
        }
        let wanted = |event: &TraceEvent| {
            (!*errors_only || event.is_failed() || event.is_short())
                && (operations.is_empty()
                    || operations.iter().any(|op| op == event.call.op.word() || *op == event.call.name()))
        };
        source.head = source.reader.by_ref().find(wanted);
        queue.extend(source.head.as_ref().map(|event| Reverse((event.end_ns(), index))));
    }
}

impl Iterator for MergedTrace {
    /// An operation and the number of its source.
    type Item = (usize, TraceEvent);

    fn next(&mut self) -> Option<(usize, TraceEvent)> {
        let Reverse((_, index)) = self.queue.pop()?;
        let event = self.sources[index].head.take()?;
        self.advance(index);
        Some((index, event))
    }
}

#[cfg(test)]
mod tests {
    use super::is_op;

    #[test]
    fn kinds_and_calls_are_operations() {
        for word in ["read", "write_at_all", "iread_shared", "write_ordered_begin", "open", "set_view"] {
            assert!(is_op(word), "{word}");
        }
        for word in ["", "wirte", "read_at_al", "open_all"] {
            assert!(!is_op(word), "{word}");
        }
    }
}
