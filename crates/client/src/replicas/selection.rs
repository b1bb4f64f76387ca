//! Files whose bytes lie on several servers.
//!
//! A *reader* uses one replica: that of its home server, else one on its host, else one that its client number selects, so that
//! readers spread over the servers. If that server cannot be reached, it counts as down for a while, and the bytes are read from
//! another one. The same holds if its part ends before them and another replica reaches further. Replicas that may be out of date are not
//! read ([`crate::replicas::verified`]).
//!
//! A *writer* writes all replicas before it returns. Meanwhile a lock at the file's first server excludes other writers of the
//! same bytes: without it, two writes could arrive in different order at different servers. The writer does not queue for the
//! lock but asks again, because a queued request would block the connection for the thread that holds the lock. If a writer
//! crashes before it has written all replicas, that server remembers the bytes, and the next open of the file makes their
//! replicas equal ([`crate::replicas::repair`]).

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use pario_layout::ExtentLocation;
use pario_runtime::time::Instant;
use pario_types::{ErrorKind, FileId, ServerId};
use pario_wire::message::{self, REPLICA_LOCK_BIT};
use pario_wire::{Reply, Request};

use crate::client_core::unexpected;
use crate::error::{Error, Result};
use crate::io::plan::Chunk;
use crate::io::transfer::Work;
use crate::metadata::open_file::OpenFile;

/// The pause between attempts to lock.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// A lock on replicated bytes of a file.
pub(crate) struct ReplicaLock {
    server: ServerId,
    lock: u64,
}

impl OpenFile {
    /// For each set of servers the order in which readers try them. It is computed once, with the `home` of that time.
    fn preferences(&self) -> &[Box<[u16]>] {
        self.preferences.get_or_init(|| {
            let (target, far) = (self.core.target(), self.core.options.far);
            let is_local = |place: &u16| target.is_local(self.layout.server(*place), far);
            let home = self.home.load(std::sync::atomic::Ordering::Relaxed);
            let order = |set| {
                let mut places = self.layout.places(set).to_vec();
                let spread = self.core.client.0 % places.len().max(1) as u128;
                places.rotate_left(spread as usize);
                // The servers in front keep their order.
                places.sort_by_key(|place| (u32::from(*place) + 1 != home, !is_local(place)));
                places.into()
            };
            (0..self.layout.sets()).map(order).collect()
        })
    }

    /// The place of the preferred server of a set, whether it is down or not.
    pub fn first_choice(&self, set: u16) -> u16 {
        self.preferences()[usize::from(set)][0]
    }

    /// The place of the server from which bytes of a set are read: of those with verified replicas, one that is not down.
    pub fn pick(&self, set: u16) -> u16 {
        let places = &self.preferences()[usize::from(set)];
        let mut verified = places.iter().filter(|place| self.is_verified(**place)).peekable();
        let first = verified.peek().copied().unwrap_or(&places[0]);
        *verified.find(|place| !self.server_connection(**place).is_down()).unwrap_or(first)
    }

    /// Whether all of these chunks of a read, which one server was to deliver, could come from others that are not down.
    /// Each lies within one extent of the file.
    pub fn have_others(&self, server: ServerId, chunks: &[Chunk], offset_of: impl Fn(&Chunk) -> u64) -> bool {
        let here = self.layout.place(server);
        self.layout.has_replicas()
            && chunks.iter().all(|chunk| match self.layout.extent_at(offset_of(chunk), 1).at {
                ExtentLocation::One { .. } => false,
                ExtentLocation::Replicas { places, .. } => places
                    .iter()
                    .filter(|place| Some(**place) != here && self.is_verified(**place))
                    .any(|place| !self.server_connection(*place).is_down()),
            })
    }

    /// Returns the servers from which the remaining chunks are to be read instead.
    pub fn read_elsewhere(&self, chunks: Vec<Chunk>, offset_of: impl Fn(&Chunk) -> u64) -> Work {
        let elsewhere = |chunk: Chunk| {
            let offset = offset_of(&chunk);
            let place = match self.layout.extent_at(offset, chunk.len as u64).at {
                ExtentLocation::One { place, .. } => place,
                ExtentLocation::Replicas { set, .. } => self.pick(set),
            };
            let local = self.layout.local(place, offset);
            (self.layout.server(place), vec![Chunk { local, ..chunk }])
        };
        chunks.into_iter().map(elsewhere).collect()
    }

    /// Redirects chunks of a read to the replicas that reach furthest, because a server that lost its storage has nothing
    /// where others have bytes. Returns whether any chunk is to come from another server now.
    pub fn read_furthest(&self, work: &mut Work, offset_of: impl Fn(&Chunk) -> u64) -> bool {
        let mut ends = BTreeMap::new();
        let mut moved = Vec::new();
        for (server, chunks) in work.iter_mut() {
            let here = self.layout.place(*server);
            chunks.retain(|chunk| {
                let offset = offset_of(chunk);
                let ExtentLocation::Replicas { places, .. } = self.layout.extent_at(offset, 1).at else {
                    return true;
                };
                let mut reach = |place: u16| {
                    let end = *ends.entry(place).or_insert_with(|| self.end_at(place));
                    end.saturating_sub(self.layout.local(place, offset)).min(chunk.len as u64)
                };
                let mine = here.map_or(0, &mut reach);
                let verified = places.iter().copied().filter(|place| self.is_verified(*place));
                let furthest = verified.max_by_key(|place| reach(*place));
                let better = furthest.filter(|place| reach(*place) > mine);
                if let Some(place) = better {
                    let local = self.layout.local(place, offset);
                    moved.push((self.layout.server(place), vec![Chunk { local, ..*chunk }]));
                }
                better.is_none()
            });
        }
        let any = !moved.is_empty();
        work.extend(moved);
        any
    }

    /// The end of a server's part; 0 if the server does not answer at once.
    fn end_at(&self, place: u16) -> u64 {
        match self.ask_at_once(place, &Request::End { file: self.file }) {
            Some(Reply::End { end }) => end,
            _ => 0,
        }
    }

    /// The reply of a server whose bytes have other replicas, unless it is down.
    pub fn ask_at_once(&self, place: u16, request: &Request) -> Option<Reply> {
        let server_connection = self.server_connection(place);
        if server_connection.is_down() {
            return None;
        }
        let asked = self.core.call_at_once(server_connection.server, request);
        if asked.is_err() {
            server_connection.mark_down();
        }
        asked.ok()
    }

    /// Locks ranges, which are sorted and disjoint, against writers of replicas, and if it is for `writing` also against
    /// checks; waits for the lock.
    pub fn lock_replicas(&self, ranges: &[message::ByteRange], writing: bool) -> Result<ReplicaLock> {
        let server = self.layout.server(0);
        let begun = Instant::now();
        let deadline = begun + self.core.options.deadline;
        let (file, ranges) = (self.replica_lock_file(), ranges.to_vec());
        let request = Request::TryLock { file, ranges, exclusive: writing };
        let mut pause = FIRST_PAUSE;
        loop {
            match self.core.call(server, &request) {
                Ok(Reply::Locked { lock }) => return Ok(ReplicaLock { server, lock }),
                Ok(reply) => return Err(unexpected(server, &request, &reply)),
                Err(error) if error.kind() != ErrorKind::FileInUse => return Err(error),
                Err(_) if Instant::now() >= deadline => {
                    return Err(Error::Contended { file: self.file, waited: begun.elapsed() });
                }
                Err(_) => {}
            }
            pario_runtime::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Releases the lock; returns whether it was held all the time. If not, the server was killed meanwhile, and others may
    /// have written. `equal`: all replicas of the locked bytes are equal.
    pub fn unlock_replicas(&self, lock: ReplicaLock, equal: bool) -> Result<bool> {
        let ReplicaLock { server, lock } = lock;
        let request = if equal { Request::Unlock { lock } } else { Request::MarkDivergent { lock } };
        match self.core.call(server, &request) {
            Ok(_) => Ok(true),
            Err(Error::Server { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The id under which replicas of the file are locked.
    pub fn replica_lock_file(&self) -> FileId {
        FileId(self.file.0 | REPLICA_LOCK_BIT)
    }
}

/// The ranges to lock for writing these bytes: exactly those, sorted and disjoint.
pub(crate) fn to_lock(mut written: Vec<Range<u64>>) -> Vec<message::ByteRange> {
    written.retain(|range| !range.is_empty());
    written.sort_unstable_by_key(|range| range.start);
    written.dedup_by(|next, before| {
        let touch = next.start <= before.end;
        if touch {
            before.end = before.end.max(next.end);
        }
        touch
    });
    written
        .into_iter()
        .map(|range| message::ByteRange { at: range.start, len: range.end - range.start })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_locked_ranges_are_the_written_ones(
            written in prop::collection::vec((0u64..300, 0u64..20).prop_map(|(at, len)| at..at + len), 0..40),
        ) {
            let locked = to_lock(written.clone());
            prop_assert!(locked.is_sorted_by(|a, b| a.at + a.len < b.at), "in order and apart: {locked:?}");
            let bytes: BTreeSet<u64> = locked.iter().flat_map(|range| range.at..range.at + range.len).collect();
            prop_assert_eq!(bytes, written.into_iter().flatten().collect::<BTreeSet<u64>>());
        }
    }
}
