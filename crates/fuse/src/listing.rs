//! Open directories.
//!
//! Entries come from the server page by page and go to the kernel on request, so a large directory needs no memory. The
//! kernel continues at its last offset or starts again; a seek to another offset starts again and skips.

use std::iter::Peekable;

use fuser::{FileType, INodeNo, ReplyDirectory};
use pario_client::{Partition, ReadDir, Result};

/// A directory that a program reads.
pub(crate) struct Listing {
    path: String,
    /// Its number and its parent's, for `.` and `..`.
    numbers: [u64; 2],
    entries: Peekable<ReadDir>,
    /// The next entry, counted from 0 without `.` and `..`.
    next: u64,
}

const DOTS: [&str; 2] = [".", ".."];

impl Listing {
    pub fn new(partition: &Partition, path: String, numbers: [u64; 2]) -> Listing {
        Listing { entries: partition.read_dir(&path).peekable(), path, numbers, next: 0 }
    }

    /// Fills a reply with the entries from an offset on.
    pub fn fill(&mut self, partition: &Partition, offset: u64, reply: &mut ReplyDirectory) -> Result<()> {
        let dots = DOTS.len() as u64;
        for at in offset.min(dots)..dots {
            let (number, name) = (self.numbers[at as usize], DOTS[at as usize]);
            if reply.add(INodeNo(number), at + 1, FileType::Directory, name) {
                return Ok(());
            }
        }
        let filled = self.fill_from(partition, offset.saturating_sub(dots), reply);
        if filled.is_err() {
            // The server may answer a later request: it starts again from the beginning.
            self.next = u64::MAX;
        }
        filled
    }

    fn fill_from(&mut self, partition: &Partition, at: u64, reply: &mut ReplyDirectory) -> Result<()> {
        if at < self.next {
            *self = Listing::new(partition, std::mem::take(&mut self.path), self.numbers);
        }
        while let Some(entry) = self.entries.next_if(|entry| match entry {
            Ok(entry) if self.next >= at => {
                let kind = if entry.is_dir() { FileType::Directory } else { FileType::RegularFile };
                let after = self.next + DOTS.len() as u64 + 1;
                !reply.add(INodeNo(entry.id().0), after, kind, entry.name())
            }
            _ => true,
        }) {
            entry?;
            self.next += 1;
        }
        Ok(())
    }
}
