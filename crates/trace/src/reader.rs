//! Reads a trace file entry by entry. The contents of the file are untrusted.
//!
//! A reader trusts nothing: a truncated or damaged file returns the complete entries before that place, and
//! [`TraceReader::ending`] says how it ended. Memory is used only for the names of files and the patterns of views.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pario_types::ErrorKind;

use crate::clock::Scale;
use crate::event::{TraceEvent, TracedPieces};
use crate::format::{self, Entry, HEADER, MAGIC, Operation, TraceHeader, VERSION};
use crate::plain::Run;

/// Opens a trace file.
pub fn read(path: &Path) -> Result<TraceReader<BufReader<File>>, TraceReadError> {
    let file = File::open(path).map_err(|e| TraceReadError::Unreadable(path.to_owned(), e))?;
    TraceReader::new(BufReader::with_capacity(64 << 10, file), path)
}

/// The reason why a file has no readable trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceReadError {
    /// It cannot be read.
    #[error("{path} cannot be read: {1}", path = .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// It is no trace file.
    #[error("{} is not a trace file of Pario", .0.display())]
    NotATrace(PathBuf),
    /// It was written by another version of Pario.
    #[error(
        "{path} has version {1} of the trace format; this program reads up to version {VERSION}",
        path = .0.display()
    )]
    Version(PathBuf, u32),
}

impl TraceReadError {
    /// The kind, on which a caller can act.
    pub fn kind(&self) -> ErrorKind {
        match self {
            TraceReadError::Unreadable(_, e) => e.raw_os_error().map_or(ErrorKind::Io, ErrorKind::from_errno),
            TraceReadError::NotATrace(_) | TraceReadError::Version(..) => ErrorKind::BadFile,
        }
    }
}

/// The end of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEnding {
    /// With its trailer: the process finished its trace.
    Finished,
    /// Without a trailer, after a whole entry: the process did not finish.
    Unfinished,
    /// Within an entry that begins at this byte: the process was stopped while it wrote.
    Torn(u64),
    /// With bytes, from this one on, that are no entry.
    Damaged(u64),
    /// Where reading failed.
    Unreadable(String),
}

impl fmt::Display for TraceEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceEnding::Finished => write!(f, "complete"),
            TraceEnding::Unfinished => write!(f, "ends without trailer: the process did not finish"),
            TraceEnding::Torn(at) => {
                write!(f, "ends within the entry at byte {at}: the process did not finish")
            }
            TraceEnding::Damaged(at) => write!(f, "is damaged from byte {at} on; what follows is not shown"),
            TraceEnding::Unreadable(why) => write!(f, "could not be read to its end: {why}"),
        }
    }
}

/// The operations of a trace file, in the order in which they were recorded.
#[derive(Debug)]
pub struct TraceReader<R> {
    header: TraceHeader,
    input: R,
    at: u64,
    names: HashMap<u32, Arc<str>>,
    patterns: HashMap<u32, Arc<[u8]>>,
    /// The pattern whose parts are being read, and the parts so far.
    coming: (u32, Vec<u8>),
    entry: Vec<u8>,
    given: u64,
    lost: u64,
    /// The start of the last operation in ticks, from which the next may count.
    last: u64,
    scale: Scale,
    run: Option<Running>,
    cost_ns: Option<u64>,
    ending: Option<TraceEnding>,
}

/// A run, and the number of its operations that have been returned.
#[derive(Debug)]
struct Running {
    run: Run,
    at: usize,
}

impl<R: Read> TraceReader<R> {
    /// Reads the header; `path` is for error messages.
    pub fn new(mut input: R, path: &Path) -> Result<TraceReader<R>, TraceReadError> {
        let unreadable = |e| TraceReadError::Unreadable(path.to_owned(), e);
        let not_a_trace = || TraceReadError::NotATrace(path.to_owned());
        let mut fixed = [0; HEADER];
        let got = fill(&mut input, &mut fixed).map_err(unreadable)?;
        if got < HEADER || fixed[..8] != MAGIC {
            return Err(not_a_trace());
        }
        let version = format::u32_at(&fixed, 8);
        if !(1..=VERSION).contains(&version) {
            return Err(TraceReadError::Version(path.to_owned(), version));
        }
        let size = usize::from(format::u16_at(&fixed, 12));
        let mut texts = vec![0; size.checked_sub(HEADER).ok_or_else(not_a_trace)?];
        let got = fill(&mut input, &mut texts).map_err(unreadable)?;
        let header = TraceHeader::decode(&fixed, &texts[..got]).ok_or_else(not_a_trace)?;
        Ok(TraceReader {
            header,
            input,
            at: size as u64,
            names: HashMap::new(),
            patterns: HashMap::new(),
            coming: (0, Vec::new()),
            entry: Vec::new(),
            given: 0,
            lost: 0,
            last: 0,
            scale: Scale::PLAIN,
            run: None,
            cost_ns: None,
            ending: None,
        })
    }

    /// The header.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// The end of the file; known when all operations have been read.
    pub fn ending(&self) -> Option<&TraceEnding> {
        self.ending.as_ref()
    }

    /// Operations that are missing because they could not be written, as far as the file has been read.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The cost of recording in nanoseconds, as the process measured it; known when all has been read.
    pub fn cost_ns(&self) -> Option<u64> {
        self.cost_ns
    }

    /// Returns the next entry, or the end of the file.
    fn next_entry(&mut self) -> Result<Entry, TraceEnding> {
        let unreadable = |e: io::Error| TraceEnding::Unreadable(e.to_string());
        let mut size = [0; 2];
        match fill(&mut self.input, &mut size).map_err(unreadable)? {
            0 => return Err(TraceEnding::Unfinished),
            1 => return Err(TraceEnding::Torn(self.at)),
            _ => (),
        }
        self.entry.clear();
        self.entry.extend(size);
        self.entry.resize(usize::from(u16::from_le_bytes(size)).max(2), 0);
        let got = fill(&mut self.input, &mut self.entry[2..]).map_err(unreadable)?;
        if got + 2 < self.entry.len() {
            return Err(TraceEnding::Torn(self.at));
        }
        let entry = Entry::decode(&self.entry).ok_or(TraceEnding::Damaged(self.at))?;
        self.at += self.entry.len() as u64;
        Ok(entry)
    }

    /// Adds the next part of a pattern. Parts that do not follow each other make none.
    fn take_part(&mut self, pattern: u32, size: u32, at: u32, bytes: &[u8]) {
        let (number, whole) = &mut self.coming;
        if at == 0 {
            *number = pattern;
            whole.clear();
        }
        if *number != pattern || whole.len() != at as usize {
            *number = 0;
            return;
        }
        whole.extend_from_slice(bytes);
        if whole.len() == size as usize {
            self.patterns.insert(pattern, std::mem::take(whole).into());
            *number = 0;
        }
    }

    fn pieces(&self, operation: &Operation) -> TracedPieces {
        match operation.window {
            Some(window) => match self.patterns.get(&window.pattern).cloned() {
                Some(pattern) => {
                    TracedPieces::View { pattern, disp: window.disp, at: window.at, len: window.len }
                }
                None => TracedPieces::Unsaid,
            },
            None if operation.end.saturating_sub(operation.offset) == operation.len => TracedPieces::All,
            None => TracedPieces::Unsaid,
        }
    }

    /// The next operation of the run that is being read.
    fn next_of_run(&mut self) -> Option<Operation> {
        let Running { run, at } = self.run.as_mut()?;
        let Some(&(since, took)) = run.times.get(*at) else {
            self.run = None;
            return None;
        };
        let (len, start) = (u64::from(run.len), self.last.wrapping_add(u64::from(since)));
        let operation = Operation::plain_one(run.call, run.file, run.offset, len, start, u64::from(took));
        run.offset = run.offset.wrapping_add(run.stride);
        *at += 1;
        Some(operation)
    }

    fn event(&mut self, operation: &Operation) -> TraceEvent {
        self.given += 1;
        self.last = operation.start;
        let number = operation.file;
        let named = || self.names.get(&number).cloned().unwrap_or_else(|| format!("file {number}").into());
        TraceEvent {
            call: operation.call,
            file: (number != 0).then(named),
            offset: operation.offset,
            end: operation.end,
            len: operation.len,
            moved: operation.moved,
            start_ns: self.header.began_ns.saturating_add(self.scale.when(operation.start)),
            took_ns: self.scale.span(operation.took),
            errno: operation.errno,
            // A kind of a later version is still an error.
            kind: (operation.kind != 0)
                .then(|| ErrorKind::from_code(u64::from(operation.kind)).unwrap_or(ErrorKind::Io)),
            class: operation.class,
            on_behalf_of: operation.behalf.checked_sub(1),
            pieces: self.pieces(operation),
        }
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = TraceEvent;

    fn next(&mut self) -> Option<TraceEvent> {
        if let Some(operation) = self.next_of_run() {
            return Some(self.event(&operation));
        }
        while self.ending.is_none() {
            match self.next_entry() {
                Ok(Entry::Operation(operation)) => return Some(self.event(&operation)),
                Ok(Entry::Plain(operation)) => {
                    let start = self.last.wrapping_add(operation.start);
                    return Some(self.event(&Operation { start, ..operation }));
                }
                Ok(Entry::Run(run)) => {
                    self.run = Some(Running { run, at: 0 });
                    if let Some(operation) = self.next_of_run() {
                        return Some(self.event(&operation));
                    }
                }
                Ok(Entry::Clock(scale)) => self.scale = scale,
                Ok(Entry::Name { file, name }) => {
                    self.names.insert(file, String::from_utf8_lossy(&name).into());
                }
                Ok(Entry::Part { pattern, size, at, bytes }) => self.take_part(pattern, size, at, &bytes),
                Ok(Entry::Gap { lost }) => self.lost = lost,
                Ok(Entry::Trailer { kept, lost, cost_ns }) => {
                    (self.lost, self.cost_ns) = (lost, cost_ns);
                    let whole = kept == self.given;
                    self.ending =
                        Some(if whole { TraceEnding::Finished } else { TraceEnding::Damaged(self.at) });
                }
                Ok(Entry::Unknown) => (),
                Err(ending) => self.ending = Some(ending),
            }
        }
        None
    }
}

/// Reads as much as there is; fewer bytes than requested mean the end of the input.
fn fill(input: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match input.read(&mut into[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}
