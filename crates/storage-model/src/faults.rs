//! Planned faults, kills and loss of power.

use std::io;
use std::path::Path;

use crate::contents::Contents;
use crate::{StorageModel, fail};

/// The fault of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The process is killed in the middle of it.
    Kill,
    /// It fails with this error number; of a write, the beginning may be done.
    Fail(i32),
    /// A sync fails, and the system drops the data that it could not write.
    FailSync,
    /// A write is reported as done and never happens.
    Lose,
    /// A write is reported as done, and only its beginning was.
    Tear,
    /// A write is reported as done, and happens elsewhere in the file.
    Misdirect,
}

impl StorageModel {
    /// The number of operations that have changed something.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The number of starts of the machine.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// Plans a fault for the first operation of its kind after so many more that change something.
    pub fn plan(&mut self, after: u64, fault: InjectedFault) {
        self.planned.push((self.changes + after, fault));
    }

    /// Plans that a read fails with EIO, after so many others.
    pub fn plan_read_error(&mut self, after: u64) {
        self.failing_reads.push(self.reads + after);
    }

    /// Counts a read, which may fail.
    pub(crate) fn count_read(&mut self) -> io::Result<()> {
        self.alive()?;
        self.reads += 1;
        let due = self.failing_reads.iter().position(|at| *at < self.reads);
        match due.map(|index| self.failing_reads.remove(index)) {
            Some(_) => fail(libc::EIO),
            None => Ok(()),
        }
    }

    /// Removes planned faults; returns whether any of them had occurred.
    pub fn clear_faults(&mut self) -> bool {
        let came = self.planned.is_empty();
        self.planned.clear();
        self.failing_reads.clear();
        came
    }

    /// Whether the process was killed.
    pub fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// Kills the process now.
    pub fn kill(&mut self) {
        self.is_dead = true;
    }

    /// A new process may use it; only planned faults are dropped.
    pub fn restart(&mut self) {
        self.is_dead = false;
        self.planned.clear();
        self.failing_reads.clear();
    }

    /// Memory is short: sectors that the system has dropped are evicted.
    pub fn evict(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.contents.evict());
    }

    /// Inverts bits of a byte that is stored.
    pub fn rot(&mut self, path: &Path, at: u64, bits: u8) -> bool {
        let Some(node) = self.names.get(path) else { return false };
        self.nodes[node].contents.rot(at as usize, bits)
    }

    /// The machine stops and starts again: any subset of the unsynced data survives.
    pub fn lose_power(&mut self) {
        self.restart();
        self.boot += 1;
        // Nothing, everything, whole files, or sector by sector.
        let way = self.below(4);
        for change in std::mem::take(&mut self.renamed) {
            if way == 1 || way > 1 && self.below(2) == 0 {
                change.names.iter().for_each(|(name, node)| self.stable.set(name, *node));
            }
        }
        self.names = self.stable.clone();
        self.remove_orphans();
        for node in 0..self.nodes.len() {
            let all = way == 1 || way == 2 && self.below(2) == 0;
            for (sector, versions) in std::mem::take(&mut self.contents(node).dirty) {
                let count = versions.len();
                let taken = if all {
                    count
                } else if way == 3 {
                    self.below(count + 1)
                } else {
                    0
                };
                if let Some(version) = taken.checked_sub(1).map(|index| versions[index]) {
                    self.contents(node).make_stable(sector, &version);
                }
            }
            let mut lengths = vec![self.contents(node).stable_len];
            lengths.append(&mut self.contents(node).lengths);
            let index = if all {
                lengths.len() - 1
            } else if way == 3 {
                self.below(lengths.len())
            } else {
                0
            };
            self.contents(node).start_over(lengths[index]);
        }
    }

    /// Fails if the process was killed.
    pub(crate) fn alive(&self) -> io::Result<()> {
        if self.is_dead { fail(libc::EIO) } else { Ok(()) }
    }

    /// Counts an operation that changes something; returns the fault that was planned for it.
    pub(crate) fn change(
        &mut self,
        fits: impl Fn(InjectedFault) -> bool,
    ) -> io::Result<Option<InjectedFault>> {
        self.alive()?;
        self.changes += 1;
        let due = |(at, fault): &(u64, InjectedFault)| *at < self.changes && fits(*fault);
        let found = self.planned.iter().position(due);
        let fault = found.map(|index| self.planned.remove(index).1);
        self.is_dead |= fault == Some(InjectedFault::Kill);
        Ok(fault)
    }

    /// Fails if the medium is read-only.
    pub(crate) fn writable(&self) -> io::Result<()> {
        if self.is_read_only { fail(libc::EROFS) } else { Ok(()) }
    }

    /// Counts an operation that is done completely or fails.
    pub(crate) fn step(&mut self) -> io::Result<()> {
        self.writable()?;
        self.step_of_sync()
    }

    /// The same for a sync of names, which a read-only medium allows.
    pub(crate) fn step_of_sync(&mut self) -> io::Result<()> {
        match self.change(|fault| matches!(fault, InjectedFault::Kill | InjectedFault::Fail(_)))? {
            Some(InjectedFault::Fail(errno)) => fail(errno),
            Some(_) if self.below(2) == 0 => fail(libc::EIO),
            _ => Ok(()),
        }
    }

    pub(crate) fn contents(&mut self, node: usize) -> &mut Contents {
        &mut self.nodes[node].contents
    }
}
