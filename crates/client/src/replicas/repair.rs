//! Compares the replicas of a file's bytes and makes them equal: for `pario check`, and when a file is opened whose writer
//! crashed.
//!
//! Replicas are equal unless a writer crashed between two of them, or a server lost data. Those of the servers that lost their pools least often
//! since the replicas were equal count. Which of these is right is not certain: the version that most of them have counts; else
//! the one that reaches furthest, since a server that lost bytes has none there; else the first one.

use std::ops::Range;

use pario_layout::ExtentLocation;
use pario_types::ClientId;
use pario_wire::message::{self, ByteSelection};
use pario_wire::{Reply, Request};

use crate::client_core::unexpected;
use crate::error::Result;
use crate::file::{File, check};
use crate::metadata::open_file::OpenFile;
use crate::replicas::selection::to_lock;

/// Bytes that are compared at once.
const PIECE: u64 = 1 << 20;

/// Differing bytes with a smaller gap than this form one range: single bytes are often equal by chance.
const NEAR: u64 = 4096;

impl File {
    /// The parts of a range whose replicas differ, or cannot all be read. With `repair` they are equal afterwards.
    pub fn compare_replicas(&self, range: Range<u64>, repair: bool) -> Result<Vec<Range<u64>>> {
        let open = self.open();
        check(range.end, 0)?;
        // Differences that servers know of are no finding.
        let equal = open.equalize_if_lost();
        if repair {
            equal?;
        }
        let mut found: Vec<Range<u64>> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let extent = open.layout.extent_at(at, range.end - at);
            let ExtentLocation::Replicas { places, .. } = extent.at else {
                at += extent.len;
                continue;
            };
            let piece = at..at + extent.len.min(PIECE);
            at = piece.end;
            if open.compare(&piece, places, &[], false)?.is_empty() {
                continue;
            }
            if repair && found.is_empty() {
                // A server that lost everything needs the order again in which to lay out what it gets back.
                open.arrange();
            }
            // A writer may have been active before; under the lock none is.
            let lock = open.lock_replicas(&to_lock(vec![piece.clone()]), repair)?;
            let different = open.compare(&piece, places, &[], repair);
            open.unlock_replicas(lock, different.is_ok())?;
            for range in different? {
                match found.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => found.push(range),
                }
            }
        }
        Ok(found)
    }
}

impl OpenFile {
    /// Repairs replicas that a crashed writer left divergent. Every open of the file tries that, if the first holder answers at
    /// once. If it fails, the next open tries again. A holder that lost its pool may have lost its notes about such writers, too, so then
    /// all replicas are compared.
    pub fn repair_divergent(&self) {
        if !self.layout.has_replicas() || pario_runtime::is_planted("divergence-not-repaired") {
            return;
        }
        let _ = match self.ask_at_once(0, &self.list_divergent()) {
            Some(Reply::Divergent { unresolved: 1.., .. }) => self.equalize_if_lost(),
            Some(Reply::Divergent { ranges, clients, .. }) if !ranges.is_empty() => {
                let repair =
                    |range: &message::ByteRange| self.repair_range(range.at..range.at + range.len, &[]);
                self.expel(&clients).and_then(|()| ranges.iter().try_for_each(repair))
            }
            _ => Ok(()),
        };
    }

    /// Requests of crashed clients must not be applied after the repair.
    pub fn expel(&self, clients: &[ClientId]) -> Result<()> {
        clients.iter().try_for_each(|client| {
            let expel = |server| (server, Request::Disconnect { client: *client });
            self.core.call_all(&self.layout.holders().map(expel).collect::<Vec<_>>()).map(drop)
        })
    }

    /// Makes the replicas of a range equal. `losses`: how often each holder lost its pool since they were equal; empty if none did.
    pub fn repair_range(&self, range: Range<u64>, losses: &[u64]) -> Result<()> {
        let size = self.ask_holders()?.clamp(range.start, range.end);
        let mut at = range.start;
        while at < size {
            let end = size.min(at + PIECE);
            self.repair_locked(at..end, |piece| self.repair_piece(piece, losses))?;
            at = end;
        }
        // There are no bytes in the rest of the range, unless they were written meanwhile.
        self.repair_locked(size..range.end, |rest| {
            let end = self.ask_holders()?.clamp(rest.start, rest.end);
            self.repair_piece(&(rest.start..end), losses)
        })
    }

    /// Repairs a range while it is locked against writers.
    fn repair_locked(&self, range: Range<u64>, repair: impl FnOnce(&Range<u64>) -> Result<()>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let lock = self.lock_replicas(&to_lock(vec![range.clone()]), true)?;
        let repaired = repair(&range);
        self.unlock_replicas(lock, repaired.is_ok())?;
        repaired
    }

    fn repair_piece(&self, piece: &Range<u64>, losses: &[u64]) -> Result<()> {
        let mut at = piece.start;
        while at < piece.end {
            let extent = self.layout.extent_at(at, piece.end - at);
            let part = at..at + extent.len;
            if let ExtentLocation::Replicas { places, .. } = extent.at {
                self.compare(&part, places, losses, true)?;
            }
            at = part.end;
        }
        Ok(())
    }
}

/// A server's replica of a piece.
struct ReplicaBytes {
    bytes: Vec<u8>,
    /// The number of its bytes before the end of the part.
    reach: u64,
    /// How often the server lost its pool since the replicas were equal.
    losses: u64,
}

impl OpenFile {
    /// The parts of a piece in which the replicas at these places differ.
    fn compare(
        &self,
        piece: &Range<u64>,
        places: &[u16],
        losses: &[u64],
        repair: bool,
    ) -> Result<Vec<Range<u64>>> {
        let losses = |place: u16| losses.get(usize::from(place)).copied().unwrap_or(0);
        let read = |place: &u16| self.read_replica(*place, piece, losses(*place));
        let mut copies: Vec<_> = places.iter().map(read).collect();
        let readable: Vec<&ReplicaBytes> = copies.iter().flatten().collect();
        let least = readable.iter().map(|copy| copy.losses).min().unwrap_or(0);
        let latest: Vec<&ReplicaBytes> =
            readable.iter().copied().filter(|copy| copy.losses == least).collect();
        let alike = |copy: &ReplicaBytes| latest.iter().filter(|other| other.bytes == copy.bytes).count();
        // Of equal ones the last is the largest.
        let best = latest.iter().rev().max_by_key(|copy| (alike(copy), copy.reach));
        let Some((right, reach)) = best.map(|copy| (&copy.bytes, copy.reach)) else {
            return Err(copies.swap_remove(0).err().expect("none can be read"));
        };
        let mut wrong = vec![copies.iter().any(Result::is_err); right.len()];
        for copy in &readable {
            let bytes = copy.bytes.iter().zip(right);
            wrong.iter_mut().zip(bytes).for_each(|(wrong, (byte, right))| *wrong |= byte != right);
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (offset, _) in (piece.start..).zip(&wrong).filter(|(_, wrong)| **wrong) {
            match ranges.last_mut() {
                Some(last) if offset - last.end < NEAR => last.end = offset + 1,
                _ => ranges.push(offset..offset + 1),
            }
        }
        for range in ranges.iter().filter(|_| repair) {
            let within = (range.start - piece.start) as usize..(range.end - piece.start) as usize;
            let bytes = &right[within.clone()];
            // A correct replica is not written again, so it keeps its location in storage.
            let is_right = |copy: &ReplicaBytes| copy.bytes[within.clone()] == *bytes && copy.reach >= reach;
            let wrong = places.iter().zip(&copies).filter(|(_, copy)| !copy.as_ref().is_ok_and(is_right));
            wrong
                .map(|(place, _)| *place)
                .try_for_each(|place| self.write_replica(place, range.start, bytes))?;
        }
        Ok(ranges)
    }

    fn read_replica(&self, place: u16, range: &Range<u64>, losses: u64) -> Result<ReplicaBytes> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let request =
            Request::Read { file: self.file, what: self.replica_range(place, range.start, bytes.len()) };
        let server = self.layout.server(place);
        match self.core.call_with(server, &request, &[], &mut bytes)? {
            Reply::Data { end } => {
                let reach = end.saturating_sub(self.layout.local(place, range.start));
                Ok(ReplicaBytes { reach: reach.min(bytes.len() as u64), bytes, losses })
            }
            reply => Err(unexpected(server, &request, &reply)),
        }
    }

    fn write_replica(&self, place: u16, offset: u64, bytes: &[u8]) -> Result<()> {
        let request =
            Request::Write { file: self.file, what: self.replica_range(place, offset, bytes.len()) };
        self.core.call_with(self.layout.server(place), &request, bytes, &mut []).map(drop)
    }

    fn replica_range(&self, place: u16, offset: u64, len: usize) -> ByteSelection {
        ByteSelection::Ranges(vec![message::ByteRange {
            at: self.layout.local(place, offset),
            len: len as u64,
        }])
    }
}
