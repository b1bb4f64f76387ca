//! Which trace files, and which of their operations; all of them as one stream.
//!
//! The files are merged by the time at which operations ended, which is the order in which each file has
//! them, so that traces of any length need little memory.

use super::Error;
use clap::Args;
use pario_trace::{
    DEFAULT_DIR, Pace, PointerKind, TraceEnding, TraceEvent, TraceHeader, TraceReader, TracedCall, TracedOp,
    read,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

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

/// One trace file being read.
pub struct Source {
    pub path: PathBuf,
    pub reader: TraceReader<BufReader<File>>,
    /// The operation that is next in line, read ahead for the merge.
    head: Option<TraceEvent>,
}

impl Source {
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
pub struct Merged {
    pub sources: Vec<Source>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    errors: bool,
    ranks: Vec<u32>,
    ops: Vec<String>,
}

impl Selection {
    /// All operations in this file or directory, of one job.
    pub fn of(path: &Path, job: Option<&str>) -> Selection {
        let (errors, rank, op) = (false, Vec::new(), Vec::new());
        Selection { paths: vec![path.to_owned()], errors, rank, op, job: job.map(str::to_owned) }
    }

    /// Opens the files.
    pub fn open(&self) -> Result<Merged, Error> {
        if let Some(word) = self.op.iter().find(|word| !is_op(word)) {
            return Err(Error::UnknownOp(word.clone()));
        }
        let default = [PathBuf::from(DEFAULT_DIR)];
        let mut sources = Vec::new();
        for path in if self.paths.is_empty() { &default[..] } else { &self.paths } {
            collect(path, &mut sources)?;
        }
        let sources = of_one_job(sources, self.job.as_deref())?;
        let (errors, ranks, ops) = (self.errors, self.rank.clone(), self.op.clone());
        let mut merged = Merged { sources, queue: BinaryHeap::new(), errors, ranks, ops };
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

/// A file as it is named, or the trace files of a directory; in a directory, what is no trace is passed over
/// with a word.
fn collect(path: &Path, into: &mut Vec<Source>) -> Result<(), Error> {
    let unlisted = |e| Error::Unlisted(path.to_owned(), e);
    if !std::fs::metadata(path).map_err(unlisted)?.is_dir() {
        let reader = read(path).map_err(Error::Unread)?;
        into.push(Source { path: path.to_owned(), reader, head: None });
        return Ok(());
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unlisted)? {
        let name = entry.map_err(unlisted)?.path();
        if name.extension().is_some_and(|e| e == "ptrace") {
            names.push(name);
        }
    }
    names.sort();
    if names.is_empty() {
        return Err(Error::Empty(path.to_owned()));
    }
    for path in names {
        match read(&path) {
            Ok(reader) => into.push(Source { path, reader, head: None }),
            Err(e) => eprintln!("pario: {e}; it is passed over"),
        }
    }
    Ok(())
}

/// The sources of the job asked for, or of the one that began last; traces without a job's word are taken to
/// be of one job.
fn of_one_job(mut sources: Vec<Source>, wanted: Option<&str>) -> Result<Vec<Source>, Error> {
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
        return Err(Error::UnknownJob(chosen.to_owned(), names().collect()));
    }
    if wanted.is_none() && jobs.len() > 1 {
        let all = names().collect::<Vec<_>>().join(", ");
        eprintln!(
            "pario: these are traces of several jobs ({all}); {latest:?}, the latest, is taken; see --job"
        );
    }
    sources.retain(|source| source.header().job == chosen);
    Ok(sources)
}

impl Merged {
    /// When the first of the processes began to record.
    pub fn began_ns(&self) -> u64 {
        self.sources.iter().map(|source| source.header().began_ns).min().unwrap_or(0)
    }

    /// Tells the user on standard error what is wrong with the files; to be called at the end.
    pub fn complain(&self) {
        self.complaints().iter().for_each(|line| eprintln!("pario: {line}"));
    }

    /// What is wrong with the files, in lines; known at the end.
    pub fn complaints(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut known = BTreeMap::new();
        for Source { path, reader, .. } in &self.sources {
            let TraceHeader { actor, rank, job, .. } = reader.header();
            if let Some(other) = known.insert((job, actor, rank), path) {
                let (one, other) = (other.display(), path.display());
                lines.push(format!(
                    "{one} and {other} are both of {actor} {rank}: the runs are mixed; name the files"
                ));
                break;
            }
        }
        lines.extend(self.sources.iter().flat_map(Source::complaints));
        lines
    }

    /// Puts the next selected operation of a source in line.
    fn advance(&mut self, index: usize) {
        let Merged { sources, queue, errors, ranks, ops } = self;
        let source = &mut sources[index];
        let rank = source.reader.header().rank;
        if !ranks.is_empty() && !ranks.contains(&rank) {
            return;
        }
        let wanted = |event: &TraceEvent| {
            (!*errors || event.is_failed() || event.is_short())
                && (ops.is_empty()
                    || ops.iter().any(|op| op == event.call.op.word() || *op == event.call.name()))
        };
        source.head = source.reader.by_ref().find(wanted);
        queue.extend(source.head.as_ref().map(|event| Reverse((event.end_ns(), index))));
    }
}

impl Iterator for Merged {
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
