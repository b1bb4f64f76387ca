//! Leases: teams of processes cache blocks of a file in their own memory, and yield them when other clients need them.
//!
//! [`lease_table`] has the leases. Requests use it through [`AccessGuard`], an access to data for its time, and [`LeaseRequest`], a
//! request for a lease; both end when they are dropped, however their request ends. An access to a file without leases only enters a
//! [gate](gates). A lease is granted when the table grants it, accesses that entered the gate before have ended, and the slots of its
//! blocks have become invalid for clients. [`log`] lets a successor restore the table of a killed server.

mod clients;
mod gates;
#[cfg(any(test, pario_simulation))]
mod invariants;
mod lease_table;
mod log;
mod mailboxes;
mod records;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use pario_cache::{Pool, SlotInvalidation};
use pario_locks::{LockExtent, LockId};
use pario_runtime::sync::{Mutex, MutexGuard};
use pario_runtime::time::Instant;
use pario_types::{ClientId, FileId};
use pario_wire::message::{BlockRange, ByteRange, LeaseCounters, LeaseRecall};

use crate::error::{Error, Result};
use crate::event_loop::LEASE_CHECK;
use crate::event_loop::timers::Timers;
use crate::handlers::RequestOrigin;
use gates::Gates;
use lease_table::{LeaseAttempt, LeaseStep, LeaseTable};
use log::LeaseLog;
use records::Record;

pub(crate) use lease_table::Team;

/// How soon the server checks again whether invalid slots are still pinned.
const PIN_CHECK: Duration = Duration::from_millis(1);

/// The largest number of extents of one request; a request with more counts as one for the range from the first to the last.
const MAX_EXTENTS: usize = 64;

/// The largest end of a range in messages, which means the end of all extents.
const MAX_END: u64 = i64::MAX as u64;

pub(crate) struct Leases {
    /// Leases consist of whole blocks of so many bytes.
    unit: u64,
    gates: Gates,
    table: Mutex<(LeaseTable, LeaseLog)>,
    timers: Arc<Timers>,
    /// Whether clients have joined teams.
    any_joined: AtomicBool,
    fenced: Mutex<Vec<FencedProcesses>>,
}

/// Processes of a team that were cut off, as long as they may know slots of the team's leases.
struct FencedProcesses {
    mailboxes: BTreeSet<ClientId>,
    leased: Vec<(FileId, LockExtent)>,
    invalidations: Option<Vec<SlotInvalidation>>,
}

/// The mailboxes and leases of a predecessor.
#[derive(Default)]
pub(crate) struct PreviousLeases(Vec<Record>);

impl PreviousLeases {
    /// Reads what a directory has for the pool with this mark, with leases of whole `unit`s. `None`: there is nothing, or it is
    /// damaged.
    pub fn of(directory: &Path, mark: u64, unit: u64) -> Option<PreviousLeases> {
        let records = LeaseLog::read(directory, mark)?;
        let is_consistent = LeaseTable::new(unit, Duration::ZERO).restore(records.iter().cloned());
        is_consistent.then_some(PreviousLeases(records))
    }

    /// Removes the file after it was read.
    pub fn remove(directory: &Path) {
        LeaseLog::remove(directory);
    }
}

impl Leases {
    /// Continues from the leases of a predecessor. What a successor has to know is logged in the directory, for the pool with this mark.
    pub fn new(
        unit: u64,
        grace: Duration,
        timers: Arc<Timers>,
        PreviousLeases(previous): PreviousLeases,
        (directory, mark): (&Path, u64),
    ) -> Arc<Leases> {
        let mut table = LeaseTable::new(unit, grace);
        assert!(table.restore(previous), "PreviousLeases::of has checked it");
        let log = LeaseLog::begin(directory, mark, &table.all_records());
        let leases = Leases {
            unit,
            gates: Gates::new(),
            table: Mutex::new((table, log)),
            timers,
            any_joined: AtomicBool::new(false),
            fenced: Mutex::default(),
        };
        // Closes the gates of files that the predecessor had leased.
        drop(leases.table());
        let leases = Arc::new(leases);
        #[cfg(pario_simulation)]
        invariants::watch(&leases);
        leases
    }

    /// Saves mailboxes and leases for a successor, which will not find the pool.
    pub fn save_for_successor(&self, directory: &Path) {
        let both = self.table.lock();
        both.1.save_for_successor(directory, &both.0.all_records());
    }

    /// Begins an access to these bytes of a file. It may proceed when [it is granted](AccessGuard::is_granted). An access that changes
    /// bytes, or lets the client change them, fails if the client's process was cut off.
    pub fn begin_access(
        self: &Arc<Self>,
        file: FileId,
        bytes: &AccessedBytes<'_>,
        changes: bool,
        origin: &RequestOrigin,
    ) -> Result<AccessGuard> {
        let leases = Arc::clone(self);
        if self.gates.enter(file) {
            let access = AccessGuard { leases, route: AccessRoute::Gate(file) };
            let is_fenced =
                changes && self.any_joined.load(SeqCst) && !self.table().may_change(origin.client);
            return if is_fenced { Err(Error::LeaseLost) } else { Ok(access) };
        }
        let mut table = self.table();
        if changes && !table.may_change(origin.client) {
            return Err(Error::LeaseLost);
        }
        let team = table.clients.team_of(origin.client).filter(|_| !bytes.is_removal());
        let tickets = table.begin_access(team, origin.session, file, &bytes.extents(self.unit))?;
        drop(table);
        Ok(AccessGuard { leases, route: AccessRoute::Locks { tickets, granted: false } })
    }

    /// Begins a request for a lease.
    pub fn request_lease(
        self: &Arc<Self>,
        team: Team,
        file: FileId,
        ranges: &[ByteRange],
        origin: &RequestOrigin,
    ) -> LeaseRequest {
        let extents = AccessedBytes::Ranges(ranges).extents(self.unit);
        let attempt = LeaseAttempt::new(origin.session, team, file, extents);
        LeaseRequest { leases: Arc::clone(self), attempt, invalidation: None }
    }

    pub fn join(&self, team: Team, mailbox: ClientId, origin: &RequestOrigin) -> Result<()> {
        let session = origin.is_own_session.then_some(origin.session);
        self.table().clients.join(origin.client, team, session, mailbox)
    }

    /// The recalls for the client's mailbox, which is created if necessary. `None`: the caller tries again.
    pub fn poll_recalls(
        &self,
        team: Team,
        anew: bool,
        origin: &RequestOrigin,
    ) -> Result<Option<Vec<LeaseRecall>>> {
        let mut table = self.table();
        if !table.add_mailbox(mailbox_session(origin)?, origin.client, team, anew)? {
            return Ok(None);
        }
        let recalls = table.next_recalls(origin.session).into_iter();
        let each = |(number, file, extent)| LeaseRecall { number, file, range: range(extent) };
        Ok(Some(recalls.map(each).collect()))
    }

    /// Ends the client's mailbox.
    pub fn close_mailbox(&self, origin: &RequestOrigin) -> Result<()> {
        self.table().close_mailbox(mailbox_session(origin)?);
        Ok(())
    }

    pub fn yielded(&self, number: u64, gone: ByteRange, origin: &RequestOrigin) -> Result<()> {
        let end = gone.at.checked_add(gone.len).ok_or(Error::BadRequest("ranges"))?;
        let end = if end >= MAX_END { u64::MAX } else { end };
        let gone = LockExtent::new(gone.at, end).ok_or(Error::BadRequest("ranges"))?;
        self.table().yielded(mailbox_session(origin)?, number, gone)?;
        pario_runtime::check_invariants();
        Ok(())
    }

    pub fn release(&self, team: Team, file: FileId) {
        self.table().release(team, file);
    }

    /// A connection has ended.
    pub fn client_left(&self, session: u64, client: ClientId) {
        self.table().client_left(session, client);
    }

    /// The sessions of processes that did not yield in time. These processes change nothing any more. The caller ends the sessions, and
    /// then calls [`invalidate_cut_off`](Leases::invalidate_cut_off).
    pub fn cut_off(&self) -> Vec<u64> {
        let cut_off = self.table().cut_off();
        let sessions = cut_off.iter().flat_map(|one| one.sessions.clone()).collect();
        let fenced = cut_off.into_iter().map(|one| FencedProcesses {
            mailboxes: one.mailboxes,
            leased: one.leased,
            invalidations: None,
        });
        self.fenced.lock().extend(fenced);
        sessions
    }

    /// Makes the slots of leases of cut-off processes invalid: such a process may still know them, and would need no request to change
    /// the blocks. After that the leases are released.
    pub fn invalidate_cut_off(&self, pool: &Pool) {
        let mut complete = BTreeSet::new();
        let mut fenced = self.fenced.lock();
        fenced.retain_mut(|one| {
            let begin = |(file, extent): &(FileId, LockExtent)| self.invalidate(pool, *file, *extent);
            let invalidations =
                one.invalidations.get_or_insert_with(|| one.leased.iter().map(begin).collect());
            invalidations.retain_mut(|invalidation| !invalidation.ready());
            if invalidations.is_empty() {
                complete.append(&mut one.mailboxes);
            }
            !invalidations.is_empty()
        });
        if !fenced.is_empty() {
            self.timers.set(Instant::now() + PIN_CHECK, LEASE_CHECK);
        }
        drop(fenced);
        if !complete.is_empty() {
            self.table().finish_cut_off(complete);
        }
    }

    fn invalidate(&self, pool: &Pool, file: FileId, extent: LockExtent) -> SlotInvalidation {
        pool.invalidate(file, extent.start() / self.unit..extent.end().div_ceil(self.unit))
    }

    pub fn status(&self) -> LeaseCounters {
        self.table().status()
    }

    /// Why a successor will know no leases, if so.
    pub fn log_error(&self) -> Option<String> {
        self.table.lock().1.error().map(str::to_owned)
    }

    fn table(&self) -> LockedTable<'_> {
        let mut both = self.table.lock();
        both.0.now = Instant::now();
        LockedTable { leases: self, both }
    }
}

/// The session of a mailbox. It must be the client's own connection to this server: the mailbox depends on its end.
fn mailbox_session(origin: &RequestOrigin) -> Result<u64> {
    if origin.is_own_session {
        Ok(origin.session)
    } else {
        Err(Error::BadRequest("mailbox and way through another server"))
    }
}

/// The locked table. When it is dropped, its changes are logged and their effects are executed, in this order: a successor knows a
/// change before any client does.
struct LockedTable<'a> {
    leases: &'a Leases,
    both: MutexGuard<'a, (LeaseTable, LeaseLog)>,
}

impl Deref for LockedTable<'_> {
    type Target = LeaseTable;

    fn deref(&self) -> &LeaseTable {
        &self.both.0
    }
}

impl DerefMut for LockedTable<'_> {
    fn deref_mut(&mut self) -> &mut LeaseTable {
        &mut self.both.0
    }
}

impl Drop for LockedTable<'_> {
    fn drop(&mut self) {
        let (table, log) = &mut *self.both;
        if !pario_runtime::is_planted("lease-log-skipped") {
            log.add(&table.take_records(), || table.all_records());
        }
        self.leases.any_joined.store(table.clients.any_joined(), SeqCst);
        let now = table.now;
        let effects = std::mem::take(&mut table.effects);
        effects.close.into_iter().for_each(|file| self.leases.gates.close(file));
        effects.open.into_iter().for_each(|file| self.leases.gates.open(file));
        effects.wake.into_iter().for_each(|session| self.leases.timers.set(now, session));
        if let Some(when) = effects.check_at {
            self.leases.timers.set(when, LEASE_CHECK);
        }
    }
}

/// The bytes of a file that a request accesses.
pub(crate) enum AccessedBytes<'a> {
    Ranges(&'a [ByteRange]),
    Blocks(&'a [BlockRange]),
    /// Everything from here on is removed, also from the caches of the client's own team.
    RemovedFrom(u64),
}

impl AccessedBytes<'_> {
    fn is_removal(&self) -> bool {
        matches!(self, AccessedBytes::RemovedFrom(_))
    }

    /// The bytes as whole units, sorted; extents that touch are merged.
    fn extents(&self, unit: u64) -> Vec<LockExtent> {
        let whole = |start: u64, end: u64| {
            let end = if end >= MAX_END { u64::MAX } else { end.next_multiple_of(unit) };
            LockExtent::new(start / unit * unit, end)
        };
        let mut all: Vec<LockExtent> = match self {
            AccessedBytes::Ranges(ranges) => ranges
                .iter()
                .filter(|range| range.len > 0)
                .filter_map(|range| whole(range.at, range.at.saturating_add(range.len)))
                .collect(),
            AccessedBytes::Blocks(blocks) => blocks
                .iter()
                .filter_map(|range| {
                    let end = range.first.saturating_add(range.count.into()).saturating_mul(unit);
                    whole(range.first.saturating_mul(unit), end)
                })
                .collect(),
            AccessedBytes::RemovedFrom(start) => whole(*start, u64::MAX).into_iter().collect(),
        };
        all.sort_unstable();
        let mut merged: Vec<LockExtent> = Vec::new();
        for extent in all {
            match merged.last_mut().filter(|last| last.end() >= extent.start()) {
                Some(last) => {
                    *last = LockExtent::new(last.start(), last.end().max(extent.end())).expect("not shorter");
                }
                None => merged.push(extent),
            }
        }
        if let (true, Some(first), Some(last)) = (merged.len() > MAX_EXTENTS, merged.first(), merged.last()) {
            merged = LockExtent::new(first.start(), last.end()).into_iter().collect();
        }
        merged
    }
}

fn range(extent: LockExtent) -> ByteRange {
    let (start, end) = (extent.start().min(MAX_END), extent.end().min(MAX_END));
    ByteRange { at: start, len: end - start }
}

/// An access to data, from its request to its end.
pub(crate) struct AccessGuard {
    leases: Arc<Leases>,
    route: AccessRoute,
}

enum AccessRoute {
    /// The file had no leases when the access began.
    Gate(FileId),
    /// The access holds locks in the table.
    Locks { tickets: Vec<u64>, granted: bool },
}

impl AccessGuard {
    /// Whether no other team has a lease on the bytes. Then none gets one until this is dropped.
    pub fn is_granted(&mut self) -> bool {
        match &mut self.route {
            AccessRoute::Gate(_) => true,
            AccessRoute::Locks { tickets, granted } => {
                *granted = *granted || self.leases.table().is_granted(tickets);
                *granted
            }
        }
    }

    /// Whether this is true of all other bytes of the file as well.
    pub fn is_file_unleased(&self) -> bool {
        matches!(self.route, AccessRoute::Gate(_))
    }
}

impl Drop for AccessGuard {
    fn drop(&mut self) {
        match &self.route {
            AccessRoute::Gate(file) => self.leases.gates.leave(*file),
            AccessRoute::Locks { tickets, .. } => self.leases.table().end(tickets),
        }
    }
}

/// A request for a lease, until it is answered.
pub(crate) struct LeaseRequest {
    leases: Arc<Leases>,
    attempt: LeaseAttempt,
    invalidation: Option<ExtentInvalidation>,
}

/// Extents whose slots are becoming invalid for clients.
struct ExtentInvalidation {
    extents: Vec<(LockId, LockExtent)>,
    pending: Vec<SlotInvalidation>,
}

impl LeaseRequest {
    /// Continues the request; the extents that the team has around the requested ones, after the lease is granted.
    pub fn step(&mut self, pool: &Pool) -> Result<Option<Vec<ByteRange>>> {
        loop {
            let step = self.leases.table().lease(&mut self.attempt)?;
            match step {
                LeaseStep::Wait => return Ok(None),
                // Slots become invalid only after these accesses have ended: they may be about to tell a client a slot.
                _ if !self.leases.gates.is_empty(self.attempt.file) => return Ok(None),
                LeaseStep::Done(extents) => return Ok(Some(extents.into_iter().map(range).collect())),
                LeaseStep::Invalidate(extents) => {
                    if !self.invalidate(extents, pool) {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Makes the slots of extents invalid for clients; whether that is complete.
    fn invalidate(&mut self, extents: Vec<(LockId, LockExtent)>, pool: &Pool) -> bool {
        let file = self.attempt.file;
        if self.invalidation.as_ref().is_none_or(|under_way| under_way.extents != extents) {
            let pending =
                extents.iter().map(|(_, extent)| self.leases.invalidate(pool, file, *extent)).collect();
            self.invalidation = Some(ExtentInvalidation { extents, pending });
        }
        let Some(under_way) = &mut self.invalidation else { return false };
        under_way.pending.retain_mut(|invalidation| !invalidation.ready());
        if !under_way.pending.is_empty() {
            return false;
        }
        self.leases.table().invalidated(self.attempt.team, &under_way.extents);
        self.invalidation = None;
        true
    }
}

impl Drop for LeaseRequest {
    fn drop(&mut self) {
        self.leases.table().end_attempt(&self.attempt);
    }
}
