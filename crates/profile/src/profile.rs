//! The accesses of a program, one by one, in little memory.
//!
//! An access with gaps is several accesses here. What moved no byte is left out and counted.

use crate::interned::Interned;
use crate::{Error, csv};
use pario_placement::PlannedProcess;
use pario_trace::{TraceEvent, TracedOp, TracedPieces};
use pario_types::{Offset, Pos};
use pario_view::{Cursor, Pattern, View};
use std::collections::HashMap;
use std::sync::Arc;

/// Accesses that are kept: 32 bytes each, and as many again while they are swept.
pub const MOST_ACCESSES: usize = 1 << 27;

/// The process that did an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TracedProcess {
    /// The process: its rank, or what the profile calls it.
    pub label: Arc<str>,
    /// Its node; empty where that is unknown.
    pub node: Arc<str>,
}

/// One process's access to contiguous bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfiledAccess {
    /// The first byte.
    pub offset: u64,
    /// One past the last byte.
    pub end: u64,
    /// When it began, in nanoseconds from some moment on.
    pub time: u64,
    /// Which of the profile's processes did it.
    pub process: u32,
    /// Twice the number of the file, and one more for a write.
    file_and_op: u32,
}

impl ProfiledAccess {
    /// An access to the file of that number.
    pub fn new(process: u32, file: u32, offset: u64, end: u64, write: bool, time: u64) -> ProfiledAccess {
        assert!(offset < end && file < 1 << 31, "an access has a byte, and a profile not so many files");
        ProfiledAccess { offset, end, time, process, file_and_op: file << 1 | u32::from(write) }
    }

    /// Which of the profile's files.
    pub fn file(&self) -> u32 {
        self.file_and_op >> 1
    }

    /// Whether it is a write.
    pub fn is_write(&self) -> bool {
        self.file_and_op & 1 != 0
    }
}

/// All accesses of a program.
#[derive(Debug, Default)]
pub struct Profile {
    /// The processes, in the order of their labels.
    pub processes: Vec<PlannedProcess>,
    /// The files, in the order of their first access.
    pub files: Vec<Arc<str>>,
    /// The accesses, in any order.
    pub accesses: Vec<ProfiledAccess>,
    /// Reads and writes that are left out because they moved no byte.
    pub idle: u64,
}

/// Collects a [`Profile`] from operations.
#[derive(Debug, Default)]
pub struct Collector {
    by_node: bool,
    processes: Interned,
    nodes: Vec<Arc<str>>,
    files: Interned,
    accesses: Vec<ProfiledAccess>,
    idle: u64,
    /// Decoded patterns by the address of their bytes, which stays theirs as long as they are kept here.
    patterns: HashMap<usize, (Arc<[u8]>, Pattern)>,
}

impl Collector {
    /// With `by_node`, the processes of a node count as one, with the node's name.
    pub fn new(by_node: bool) -> Collector {
        Collector { by_node, ..Collector::default() }
    }

    /// Takes an operation; what is no read or write is passed over.
    pub fn add(&mut self, who: &TracedProcess, event: &TraceEvent) -> Result<(), Error> {
        let write = match event.call.op {
            TracedOp::Write => true,
            TracedOp::Read => false,
            _ => return Ok(()),
        };
        let Some(name) = event.file.as_deref() else { return Ok(()) };
        if event.moved == 0 {
            self.idle += 1;
            return Ok(());
        }
        let process = self.processes.number(if self.by_node { &who.node } else { &who.label });
        if process as usize == self.nodes.len() {
            self.nodes.push(who.node.clone());
        }
        let file = self.files.number(name);
        for (offset, end) in self.pieces(who, event)? {
            if self.accesses.len() == MOST_ACCESSES {
                return Err(Error::TooMany);
            }
            self.accesses.push(ProfiledAccess::new(process, file, offset, end, write, event.start_ns));
        }
        Ok(())
    }

    /// The contiguous ranges, first byte and one past the last, that a read or write moved.
    pub fn pieces(&mut self, who: &TracedProcess, event: &TraceEvent) -> Result<PiecesOf, Error> {
        let file = || event.file.as_deref().unwrap_or("-").to_owned();
        match &event.pieces {
            TracedPieces::All => {
                let moved = event.moved.min(event.len);
                Ok(PiecesOf::One((moved > 0).then_some((event.offset, event.offset.saturating_add(moved)))))
            }
            TracedPieces::View { pattern, disp, at, len } => {
                let view = View::new(Offset(*disp), self.pattern(pattern, event)?);
                // Less was moved than asked for only where the bytes of the file are those of the program.
                let len = if event.moved < event.len { event.moved.min(*len) } else { *len };
                if len > 0 && view.bounds(Pos(*at), len).is_none() {
                    return Err(Error::View { file: file(), why: "it leaves the file".to_owned() });
                }
                Ok(PiecesOf::Many(Box::new(view.cursor(Pos(*at), len))))
            }
            TracedPieces::Unsaid => Err(Error::Unsaid { file: file(), process: who.label.to_string() }),
        }
    }

    fn pattern(&mut self, bytes: &Arc<[u8]>, event: &TraceEvent) -> Result<Pattern, Error> {
        let address = bytes.as_ptr() as usize;
        if let Some((_, pattern)) = self.patterns.get(&address) {
            return Ok(pattern.clone());
        }
        let file = event.file.as_deref().unwrap_or("-");
        let damaged = |e: pario_view::Error| Error::View { file: file.to_owned(), why: e.to_string() };
        let pattern = Pattern::from_bytes(bytes).map_err(damaged)?;
        self.patterns.insert(address, (bytes.clone(), pattern.clone()));
        Ok(pattern)
    }

    /// The profile; an error if there is no access in it.
    pub fn finish(self) -> Result<Profile, Error> {
        if self.accesses.is_empty() {
            return Err(Error::Empty);
        }
        let labels = self.processes.strings();
        let mut sorted: Vec<u32> = (0..labels.len() as u32).collect();
        sorted.sort_by(|&a, &b| csv::by_number(&labels[a as usize], &labels[b as usize]));
        let mut new = vec![0; sorted.len()];
        for (number, &old) in sorted.iter().enumerate() {
            new[old as usize] = number as u32;
        }
        let process = |&old: &u32| PlannedProcess {
            label: labels[old as usize].to_string(),
            node: self.nodes[old as usize].to_string(),
        };
        let processes = sorted.iter().map(process).collect();
        let mut accesses = self.accesses;
        accesses.iter_mut().for_each(|access| access.process = new[access.process as usize]);
        Ok(Profile { processes, files: self.files.strings().to_vec(), accesses, idle: self.idle })
    }
}

/// The contiguous ranges of an access, in the order of the program's data.
#[derive(Debug)]
pub enum PiecesOf {
    /// At most one.
    One(Option<(u64, u64)>),
    /// As a view has them.
    Many(Box<Cursor>),
}

impl Iterator for PiecesOf {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        match self {
            PiecesOf::One(range) => range.take(),
            // Within the file, as has been checked.
            PiecesOf::Many(cursor) => cursor.next_piece(u64::MAX).map(|piece| {
                let offset = piece.offset.max(0) as u64;
                (offset, offset + piece.len)
            }),
        }
    }
}
