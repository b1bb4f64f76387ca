//! Replicas on servers that have lost the content of their pools.
//!
//! Such a server has an older version of bytes that were not synced, while other replicas may have the latest. Its replicas are not read
//! before all replicas of the file have been compared, so two reads never return different versions.
//!
//! The client asks each server for unresolved losses before it first reads replicas there, and again after the server has lost its pool, which
//! the client notices when it connects. If a loss is unresolved, it makes all replicas equal ([`OpenFile::equalize`]): those of the servers with
//! the fewest unresolved losses count. They are synced before they count as equal. Otherwise another loss could bring back a version that is
//! older than one that a read has returned. If replicas cannot be equalised, for instance because a server is down, the client reads only replicas
//! that are verified; if there are none, the read fails.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pario_layout::ExtentLocation;
use pario_runtime::sync::Mutex;
use pario_runtime::time::Instant;
use pario_wire::{Reply, Request};

use crate::client_core::unexpected;
use crate::error::{Error, Result};
use crate::metadata::open_file::OpenFile;

/// The pause after an attempt to equalise replicas that failed, while others can be read.
const PAUSE: Duration = Duration::from_secs(3);

/// The number of times that servers may lose their pools while replicas are read or equalised.
const TRIES: u32 = 8;

/// Which replicas of an open file may be read.
#[derive(Default)]
pub(crate) struct VerifiedReplicas {
    /// For each place the server's losses, as this client counts them, when it had no unresolved one, plus 1; 0: never.
    places: Box<[AtomicU64]>,
    /// When the next attempt to equalise replicas may be made.
    next: Mutex<Option<Instant>>,
}

impl VerifiedReplicas {
    pub fn new(count: u16) -> VerifiedReplicas {
        VerifiedReplicas { places: (0..count).map(|_| AtomicU64::new(0)).collect(), next: Mutex::default() }
    }
}

impl OpenFile {
    /// Whether the server at this place has lost nothing since its replicas were found to be equal to the others.
    pub fn is_verified(&self, place: u16) -> bool {
        let verified = self.verified.places[usize::from(place)].load(Ordering::Acquire);
        verified == self.server_connection(place).losses() + 1
    }

    fn set_verified(&self, place: u16, losses: u64) {
        self.verified.places[usize::from(place)].store(losses + 1, Ordering::Release);
    }

    /// Reads bytes of these ranges, of replicas that are verified before and after the read.
    pub fn read_verified<T>(
        &self,
        ranges: impl IntoIterator<Item = Range<u64>> + Clone,
        mut read: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        if !self.layout.has_replicas() || pario_runtime::is_planted("unequal-replicas-read") {
            return read();
        }
        for _ in 0..TRIES {
            let losses = self.core.losses();
            ranges.clone().into_iter().try_for_each(|range| self.verify_range(range))?;
            let outcome = read();
            if self.core.losses() == losses {
                return outcome;
            }
        }
        Err(self.unequal())
    }

    fn unequal(&self) -> Error {
        Error::Unequal { file: self.file }
    }

    fn verify_range(&self, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let extent = self.layout.extent_at(at, range.end - at);
            if let ExtentLocation::Replicas { places, .. } = extent.at {
                self.verify(places)?;
            }
            at += extent.len;
        }
        Ok(())
    }

    /// Verifies the replicas at these places, as far as their servers answer at once; fails if there is none that may be read.
    fn verify(&self, places: &[u16]) -> Result<()> {
        let is_unequal = self.verify_at_once(places);
        if places.iter().any(|place| self.is_verified(*place)) {
            self.equalize_later(is_unequal);
            return Ok(());
        }
        if !is_unequal && self.verify_first(places[0])? {
            return Ok(());
        }
        self.equalize()
    }

    /// Waits for a server, and returns whether its replicas may be read.
    fn verify_first(&self, place: u16) -> Result<bool> {
        let losses = self.server_connection(place).losses();
        let reply = self.core.call(self.layout.server(place), &self.list_divergent())?;
        let is_equal = matches!(reply, Reply::Divergent { unresolved: 0, .. });
        if is_equal {
            self.set_verified(place, losses);
        }
        Ok(is_equal)
    }

    /// Verifies the replicas at these places, as far as their servers answer at once. Returns whether any may differ from the others.
    fn verify_at_once(&self, places: &[u16]) -> bool {
        let mut is_unequal = false;
        for place in places.iter().copied().filter(|place| !self.is_verified(*place)) {
            let losses = self.server_connection(place).losses();
            match self.ask_at_once(place, &self.list_divergent()) {
                Some(Reply::Divergent { unresolved: 0, .. }) => self.set_verified(place, losses),
                Some(Reply::Divergent { .. }) => is_unequal = true,
                _ => {}
            }
        }
        is_unequal
    }

    /// Makes replicas equal that need not be read now, if that is likely to succeed at once.
    fn equalize_later(&self, is_unequal: bool) {
        if is_unequal && self.may_equalize() && self.equalize().is_err() {
            *self.verified.next.lock() = Some(Instant::now() + PAUSE);
        }
    }

    /// Whether an attempt does not make a read wait that can use other replicas.
    fn may_equalize(&self) -> bool {
        let is_early = self.verified.next.lock().is_some_and(|next| Instant::now() < next);
        !is_early && (0..self.layout.count()).all(|place| !self.server_connection(place).is_down())
    }

    pub fn list_divergent(&self) -> Request {
        Request::ListDivergent { file: self.replica_lock_file() }
    }

    /// Verifies all replicas, and makes them equal if a server has lost its pool.
    pub fn equalize_if_lost(&self) -> Result<()> {
        let is_verified = (0..self.layout.count()).all(|place| self.is_verified(place));
        if !self.layout.has_replicas() || is_verified { Ok(()) } else { self.equalize() }
    }

    /// Makes all replicas of the file equal if a server has an unresolved loss.
    fn equalize(&self) -> Result<()> {
        for _ in 0..TRIES {
            if self.try_equalize()? {
                return Ok(());
            }
        }
        Err(self.unequal())
    }

    /// The same, unless another server loses its pool meanwhile.
    fn try_equalize(&self) -> Result<bool> {
        let places = 0..self.layout.count();
        let seen: Vec<u64> = places.clone().map(|place| self.server_connection(place).losses()).collect();
        let request = self.list_divergent();
        let requests: Vec<_> = self.layout.holders().map(|server| (server, request.clone())).collect();
        let (mut counts, mut unresolved, mut writers) = (Vec::new(), Vec::new(), Vec::new());
        for ((server, request), reply) in requests.iter().zip(self.core.call_all(&requests)?) {
            let Reply::Divergent { clients, losses, unresolved: open, .. } = reply else {
                return Err(unexpected(*server, request, &reply));
            };
            counts.push(losses);
            unresolved.push(open);
            writers.extend(clients);
        }
        if unresolved.iter().any(|open| *open > 0) {
            self.expel(&writers)?;
            let size = self.ask_holders()?;
            self.repair_range(0..size, &unresolved)?;
            let sync = Request::Sync { file: self.file, durable: true };
            let syncs: Vec<_> = self.layout.holders().map(|server| (server, sync.clone())).collect();
            self.core.call_all(&syncs)?;
        }
        if places.clone().any(|place| self.server_connection(place).losses() != seen[usize::from(place)]) {
            return Ok(false);
        }
        let file = self.replica_lock_file();
        let resolved = self.layout.holders().zip(counts.iter().zip(&unresolved));
        let resolved = resolved.filter(|(_, (_, open))| **open > 0);
        let marks: Vec<_> = resolved
            .map(|(server, (losses, _))| (server, Request::MarkEqual { file, losses: *losses }))
            .collect();
        self.core.call_all(&marks)?;
        places.for_each(|place| self.set_verified(place, seen[usize::from(place)]));
        Ok(true)
    }

    /// Syncs the file on all servers. A loss of memory that made replicas differ is resolved first: otherwise synced bytes could be lost with the
    /// next one.
    pub fn sync_equal(&self) -> Result<()> {
        for _ in 0..TRIES {
            self.equalize_if_lost()?;
            let losses = self.core.losses();
            self.sync_once(true)?;
            if !self.layout.has_replicas() || self.core.losses() == losses {
                return Ok(());
            }
        }
        Err(self.unequal())
    }

    /// Resolves losses from before a new file was created, if its servers answer at once. The file may not be empty any more: the client may have
    /// created it by a request that it had to repeat.
    pub fn verify_new(&self) {
        if self.layout.has_replicas() {
            let places: Vec<u16> = (0..self.layout.count()).collect();
            let is_unequal = self.verify_at_once(&places);
            self.equalize_later(is_unequal);
        }
    }
}
