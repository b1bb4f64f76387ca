//! Prefetch requests: the ranges that will be read soon, and those that will not any more.
//!
//! A range of the file is one range at each server that holds bytes of it. It counts as accepted if all of these servers
//! accept it; if one refuses it, the others are told to drop it. An open file knows its prefetched ranges and drops them
//! when it is closed.

use std::ops::Range;

use pario_types::ServerId;
use pario_wire::message;
use pario_wire::{Reply, Request};

use crate::client_core::unexpected;
use crate::error::Result;
use crate::file::{File, check};
use crate::io::plan::{ReplicaChoice, first_piece};
use crate::metadata::open_file::OpenFile;

/// The largest number of ranges in one request; servers refuse far fewer.
const MOST_RANGES: usize = 4096;

/// A server, and its part of ranges: the index of the range, and the local range.
type Share = (ServerId, Vec<(usize, message::ByteRange)>);

impl File {
    /// Makes the servers read ranges of the file into their caches and keep them there until they are read or
    /// [forgotten](File::forget). Returns the number of accepted ranges, from the first on; there is little space, so
    /// others may be accepted when those are done. It does not wait for storage, and a later read reports bytes that could
    /// not be read.
    pub fn prefetch(&self, ranges: &[Range<u64>]) -> Result<usize> {
        let open = self.open();
        open.reads()?;
        for range in ranges {
            check(range.end, 0)?;
        }
        let ranges = &ranges[..ranges.len().min(MOST_RANGES)];
        let shares = open.shares(ranges);
        let requests: Vec<_> =
            shares.iter().map(|share| (share.0, open.prefetch_request(&share.1))).collect();
        let mut all = ranges.len();
        let mut taken_of = Vec::with_capacity(shares.len());
        for (((server, request), reply), (_, share)) in
            requests.iter().zip(open.core.call_all(&requests)?).zip(&shares)
        {
            let Reply::Prefetched { taken } = reply else { return Err(unexpected(*server, request, &reply)) };
            let taken = (taken as usize).min(share.len());
            all = all.min(share.get(taken).map_or(ranges.len(), |(index, _)| *index));
            taken_of.push(taken);
        }
        // The ranges that are useless because another server refused them.
        let shares = shares.into_iter().zip(taken_of).map(|((server, mut share), taken)| {
            share.truncate(taken);
            share.retain(|(index, _)| *index >= all);
            (server, share)
        });
        open.tell_to_forget(shares.collect())?;
        open.ready.lock().extend_from_slice(&ranges[..all]);
        Ok(all)
    }

    /// Whether all blocks of a range are in their remembered slots, in mapped caches: then reading it needs no message, and
    /// prefetching it is useless.
    pub fn is_at_hand(&self, range: Range<u64>) -> bool {
        let open = self.open();
        open.shares(&[range]).iter().all(|(server, parts)| {
            let place = open.layout.place(*server).expect("a holder");
            open.server_connection(place).pool().as_ref().is_some_and(|pool| {
                parts.iter().all(|(_, part)| {
                    let mut blocks = part.at / pool.block()..=(part.at + part.len - 1) / pool.block();
                    blocks.all(|block| pool.find(open.file, block).is_some())
                })
            })
        })
    }

    /// Drops accepted ranges, each as it was given, and once for each time; others are ignored.
    pub fn forget(&self, ranges: &[Range<u64>]) -> Result<()> {
        let open = self.open();
        let mut known = Vec::new();
        {
            let mut ready = open.ready.lock();
            for range in ranges {
                let index = ready.iter().position(|one| one == range);
                known.extend(index.map(|index| ready.swap_remove(index)));
            }
        }
        open.tell_to_forget(open.shares(&known))
    }
}

impl OpenFile {
    /// At the end: it is a hint, so a server that does not receive it does not matter.
    pub fn forget_all(&self) {
        let ready = std::mem::take(&mut *self.ready.lock());
        let _ = self.tell_to_forget(self.shares(&ready));
    }

    /// Returns each server's part of ranges; of replicated ones, the part of the preferred server.
    fn shares(&self, ranges: &[Range<u64>]) -> Vec<Share> {
        let mut shares: Vec<Share> = self.layout.holders().map(|server| (server, Vec::new())).collect();
        for (index, range) in ranges.iter().enumerate() {
            if !self.layout.has_replicas() {
                for part in self.layout.shares(range.clone()) {
                    let place = self.layout.place(part.server).expect("a holder");
                    shares[usize::from(place)]
                        .1
                        .push((index, message::ByteRange { at: part.at, len: part.len }));
                }
                continue;
            }
            let mut at = range.start;
            while at < range.end {
                let first = |set| self.first_choice(set);
                let (place, local, len) =
                    first_piece(&self.layout, ReplicaChoice::One(&first), at, (range.end - at) as usize);
                let (place, len) = (place.expect("one is picked"), len as u64);
                match shares[usize::from(place)].1.last_mut() {
                    Some((last, part)) if *last == index && part.at + part.len == local => part.len += len,
                    _ => shares[usize::from(place)].1.push((index, message::ByteRange { at: local, len })),
                }
                at += len;
            }
        }
        shares.retain(|(_, share)| !share.is_empty());
        shares
    }

    fn prefetch_request(&self, share: &[(usize, message::ByteRange)]) -> Request {
        Request::Prefetch { file: self.file, ranges: share.iter().map(|(_, range)| *range).collect() }
    }

    fn tell_to_forget(&self, shares: Vec<Share>) -> Result<()> {
        let sent_views = shares.into_iter().filter(|(_, share)| !share.is_empty()).map(|(server, share)| {
            let ranges = share.into_iter().map(|(_, range)| range).collect();
            (server, Request::CancelPrefetch { file: self.file, ranges })
        });
        let requests: Vec<_> = sent_views.collect();
        match requests.is_empty() {
            true => Ok(()),
            false => self.core.call_all(&requests).map(drop),
        }
    }
}
