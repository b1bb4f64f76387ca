//! Operations on open files.

use std::io::{self, IoSliceMut};
use std::ops::Range;

use crate::{InjectedFault, InodeNumber, NodeStats, PAGE, SECTOR, StorageModel, UNLIMITED, fail};

impl StorageModel {
    /// The attributes of an inode.
    pub fn stats(&self, inode: InodeNumber) -> io::Result<NodeStats> {
        self.alive()?;
        let node = &self.nodes[inode.0];
        Ok(NodeStats {
            kind: node.kind,
            len: node.contents.live.len() as u64,
            used: node.contents.used(),
            mode: node.mode,
            modified: node.modified,
        })
    }

    /// Changes the permission bits.
    pub fn set_mode(&mut self, inode: InodeNumber, mode: u32) -> io::Result<()> {
        self.step()?;
        self.nodes[inode.0].mode = mode;
        Ok(())
    }

    /// The content of a file, as a read that no fault disturbs would find it.
    pub fn content(&self, inode: InodeNumber) -> &[u8] {
        &self.nodes[inode.0].contents.live
    }

    /// Reads at an offset; returns 0 bytes only at the end.
    pub fn read(&mut self, inode: InodeNumber, to: &mut [IoSliceMut<'_>], at: u64) -> io::Result<usize> {
        self.count_read()?;
        let live = &self.nodes[inode.0].contents.live;
        let (mut from, mut done) = ((at as usize).min(live.len()), 0);
        for piece in to {
            let some = piece.len().min(live.len() - from);
            piece[..some].copy_from_slice(&live[from..from + some]);
            (from, done) = (from + some, done + some);
        }
        Ok(done)
    }

    /// Writes once at an offset; returns the number of bytes written.
    pub fn write(&mut self, inode: InodeNumber, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.writable()?;
        // False success concerns whole blocks: a lost change of a few bytes could not be detected.
        let block = bytes.len() as u64 >= PAGE;
        let fault = self.change(|fault| match fault {
            InjectedFault::Lose | InjectedFault::Tear | InjectedFault::Misdirect => block,
            fault => fault != InjectedFault::FailSync,
        })?;
        let bytes = match self.room_from(inode, at, bytes.len()) {
            0 if !bytes.is_empty() => return fail(libc::ENOSPC),
            room => &bytes[..room],
        };
        let some = match fault {
            None => bytes.len(),
            Some(InjectedFault::Lose) => 0,
            Some(InjectedFault::Misdirect) => {
                let end = self.contents(inode.0).live.len() / SECTOR;
                let elsewhere = self.below(end.max(1)) * SECTOR;
                self.put(inode, bytes, elsewhere);
                return Ok(bytes.len());
            }
            Some(_) => self.below(bytes.len() + 1),
        };
        // A sector that the system has begun to copy is copied completely.
        let some = match some == bytes.len() {
            true => some,
            false => ((at as usize + some) / SECTOR * SECTOR).saturating_sub(at as usize),
        };
        self.put(inode, &bytes[..some], at as usize);
        match fault {
            None | Some(InjectedFault::Lose | InjectedFault::Tear) => Ok(bytes.len()),
            Some(InjectedFault::Fail(_)) if some > 0 => Ok(some),
            Some(InjectedFault::Fail(errno)) => fail(errno),
            _ => fail(libc::EIO),
        }
    }

    /// Sets the time of the last change.
    pub fn set_modified(&mut self, inode: InodeNumber, time: u64) {
        self.nodes[inode.0].modified = time;
    }

    fn put(&mut self, inode: InodeNumber, bytes: &[u8], at: usize) {
        self.contents(inode.0).write(bytes, at);
        self.nodes[inode.0].modified = self.time;
    }

    /// How many of `len` bytes have room, or find it.
    fn room_from(&self, inode: InodeNumber, at: u64, len: usize) -> usize {
        let end = at + len as u64;
        if self.capacity == UNLIMITED {
            return len;
        }
        let pages = &self.nodes[inode.0].contents.pages;
        let mut free = self.free() / PAGE;
        for page in at / PAGE..end.div_ceil(PAGE) {
            if !pages.contains(&page) {
                if free == 0 {
                    return (page * PAGE).saturating_sub(at) as usize;
                }
                free -= 1;
            }
        }
        len
    }

    /// Sets the length.
    pub fn set_len(&mut self, inode: InodeNumber, len: u64) -> io::Result<()> {
        self.step()?;
        self.contents(inode.0).set_len(len as usize);
        self.nodes[inode.0].modified = self.time;
        Ok(())
    }

    /// Allocates space for these bytes, also beyond the end, which does not move.
    pub fn allocate(&mut self, inode: InodeNumber, at: u64, len: u64) -> io::Result<()> {
        self.step()?;
        if self.room_from(inode, at, len as usize) < len as usize {
            return fail(libc::ENOSPC);
        }
        self.contents(inode.0).pages.extend(at / PAGE..(at + len).div_ceil(PAGE));
        Ok(())
    }

    /// Replaces these bytes by a hole.
    pub fn punch(&mut self, inode: InodeNumber, at: u64, len: u64) -> io::Result<()> {
        self.step()?;
        self.contents(inode.0).punch(at as usize, len as usize);
        Ok(())
    }

    /// The first byte at or after `at` that is not in a hole; `None` if there is none.
    pub fn next_data(&self, inode: InodeNumber, at: u64) -> io::Result<Option<u64>> {
        self.alive()?;
        let contents = &self.nodes[inode.0].contents;
        let page = contents.pages.range(at / PAGE..).next().map(|page| (page * PAGE).max(at));
        Ok(page.filter(|at| *at < contents.live.len() as u64))
    }

    /// Makes the content and length of a file survive a loss of power.
    pub fn sync(&mut self, inode: InodeNumber) -> io::Result<()> {
        let is_loss_unreported = std::mem::take(&mut self.contents(inode.0).is_loss_unreported);
        let outcome = self.sync_nodes(inode.0..inode.0 + 1);
        if is_loss_unreported { outcome.and_then(|()| fail(libc::EIO)) } else { outcome }
    }

    /// How often a sync lost bytes. A sync of the whole medium through a descriptor that was opened before such a loss reports it once.
    pub fn losing_syncs(&self) -> u64 {
        self.losing_syncs
    }

    /// Makes everything survive a loss of power.
    pub fn sync_all(&mut self) -> io::Result<()> {
        self.sync_nodes(0..self.nodes.len())?;
        self.sync_names(|_| true);
        Ok(())
    }

    /// Syncs files, or fails and drops some of the data.
    fn sync_nodes(&mut self, nodes: Range<usize>) -> io::Result<()> {
        let fault = self.change(|fault| {
            matches!(fault, InjectedFault::Kill | InjectedFault::Fail(_) | InjectedFault::FailSync)
        })?;
        // Without directories the model belongs to one process, which has the report already.
        let is_shared = nodes.len() > 1 && self.has_directories;
        self.losing_syncs += u64::from(fault == Some(InjectedFault::FailSync));
        for node in nodes {
            let loses = fault == Some(InjectedFault::FailSync) && !self.contents(node).dirty.is_empty();
            self.contents(node).is_loss_unreported |= is_shared && loses;
            for (sector, versions) in std::mem::take(&mut self.contents(node).dirty) {
                let last = versions[versions.len() - 1];
                match fault {
                    Some(InjectedFault::FailSync) => match self.below(3) {
                        0 => self.contents(node).make_stable(sector, &last),
                        1 => drop(self.contents(node).forgotten.insert(sector)),
                        _ => self.contents(node).revert(sector),
                    },
                    Some(_) if self.below(2) == 0 => {
                        self.contents(node).dirty.insert(sector, versions);
                    }
                    _ => self.contents(node).make_stable(sector, &last),
                }
            }
            if fault.is_none() {
                self.contents(node).make_len_stable();
            }
        }
        match fault {
            None => Ok(()),
            Some(InjectedFault::Fail(errno)) => fail(errno),
            Some(_) => fail(libc::EIO),
        }
    }
}
