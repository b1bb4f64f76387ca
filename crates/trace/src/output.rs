//! The output file of a trace. It always ends with a complete entry.
//!
//! A file of an earlier job is never touched: the next free name is taken (`task-3.ptrace`,
//! `task-3.2.ptrace`, …).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::format::TraceHeader;

/// The number of jobs that may leave traces in one directory before it has to be cleaned up.
const MOST_JOBS: u32 = 10_000;

#[derive(Debug)]
pub(crate) struct Output {
    pub file: File,
    /// The offset of the next entry; a trailer may be there already.
    end: u64,
}

impl Output {
    /// Creates a file under the first free name; its header is written with the first entries.
    pub fn create(dir: &Path, header: &TraceHeader) -> io::Result<Output> {
        Ok(Output { file: create(dir, header)?, end: 0 })
    }

    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Writes a trailer, which the next entries overwrite.
    pub fn end_with(&self, trailer: &[u8]) -> io::Result<()> {
        self.file.write_all_at(trailer, self.end)
    }

    /// Writes all of both, or nothing.
    pub fn append(&mut self, first: &[u8], second: &[u8]) -> io::Result<()> {
        let middle = self.end + first.len() as u64;
        let written = self
            .file
            .write_all_at(first, self.end)
            .and_then(|()| self.file.write_all_at(second, middle))
            .inspect_err(|_| {
                // If this fails, too, readers stop at the torn entry and report it.
                let _ = self.file.set_len(self.end);
            });
        if written.is_ok() {
            self.end = middle + second.len() as u64;
        }
        written
    }
}

fn create(dir: &Path, header: &TraceHeader) -> io::Result<File> {
    std::fs::create_dir_all(dir)?;
    let (actor, rank) = (header.actor, header.rank);
    for job in 1..=MOST_JOBS {
        let name = match job {
            1 => format!("{actor}-{rank}.ptrace"),
            _ => format!("{actor}-{rank}.{job}.ptrace"),
        };
        match OpenOptions::new().write(true).create_new(true).open(dir.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => (),
            other => return other,
        }
    }
    Err(io::Error::other("too many traces of earlier jobs are there; name another directory"))
}
