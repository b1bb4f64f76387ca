//! Leases: teams of processes cache blocks of a file in their own memory, and give them up when others want them.
//!
//! [`book`] says who has what. This is the way to it from requests: [`Passage`] is an access to data for its time,
//! [`Leasing`] a request for a lease; both end when they are dropped, however their request ends. An access to a file that
//! nobody has leased only passes a [gate](gates). A lease is granted when the book says so, accesses that came through the
//! gate before have ended, and clients have forgotten where the blocks are that it covers. [`log`] lets a successor go on
//! with the book where a killed server ended.

mod book;
#[cfg(test)]
mod cases;
mod clients;
mod gates;
mod log;
mod mailboxes;
#[cfg(test)]
mod model;
mod records;

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pario_cache::{Pool, SlotInvalidation};
use pario_locks::{LockExtent, LockId};
use pario_types::{ClientId, FileId};
use pario_wire::message::{self, ByteRange, LeaseRecall};

use crate::apply::RequestOrigin;
use crate::core::lock;
use crate::error::{Error, Result};
use crate::timers::Timers;
use book::{Ask, Book, Step};
use gates::Gates;
use log::Log;
use records::Record;

pub(crate) use book::Team;

/// A timer for [`Leases::cut_off`] has this number instead of a session's.
pub(crate) const GRACE: u64 = 15;

/// How soon it is looked again whether somebody still uses blocks that are to be forgotten.
const AGAIN: Duration = Duration::from_millis(1);

/// Extents of one request; with more it is for everything between its first and last byte.
const MOST_EXTENTS: usize = 64;

/// Ends of ranges in messages; the same as the end of all extents.
const LAST: u64 = i64::MAX as u64;

pub(crate) struct Leases {
    unit: u64,
    gates: Gates,
    book: Mutex<(Book, Log)>,
    timers: Arc<Timers>,
    /// Whether clients have joined teams.
    joined: AtomicBool,
    fencing: Mutex<Vec<Fencing>>,
}

/// Processes of a team that were cut off, as long as they may know where blocks are.
struct Fencing {
    mailboxes: BTreeSet<ClientId>,
    leased: Vec<(FileId, LockExtent)>,
    renewals: Option<Vec<SlotInvalidation>>,
}

/// What a predecessor knew.
#[derive(Default)]
pub(crate) struct Past(Vec<Record>);

impl Past {
    /// As a directory has it for the time of the pool with this mark; with leases of so many bytes. `None`: it has not.
    pub fn of(directory: &Path, mark: u64, unit: u64) -> Option<Past> {
        let records = Log::read(directory, mark)?;
        let is_sound = Book::new(unit, Duration::ZERO).restore(records.iter().cloned());
        is_sound.then_some(Past(records))
    }

    /// There will be a newer one elsewhere.
    pub fn remove(directory: &Path) {
        Log::remove(directory);
    }
}

impl Leases {
    /// Leases are whole blocks of `unit` bytes. Goes on from the past; what a successor has to know goes to the directory,
    /// for the time of the pool with this mark.
    pub fn new(
        unit: u64,
        grace: Duration,
        timers: Arc<Timers>,
        Past(past): Past,
        (directory, mark): (&Path, u64),
    ) -> Arc<Leases> {
        let mut book = Book::new(unit, grace);
        assert!(book.restore(past), "it was tried before");
        let log = Log::begin(directory, mark, &book.all_records());
        let leases = Leases {
            unit,
            gates: Gates::new(),
            book: Mutex::new((book, log)),
            timers,
            joined: AtomicBool::new(false),
            fencing: Mutex::default(),
        };
        // The files of a predecessor are guarded from the beginning.
        drop(leases.book());
        Arc::new(leases)
    }

    /// Leaves to a successor, who will not find the pool, who has leased what.
    pub fn bequeath(&self, directory: &Path) {
        let both = lock(&self.book);
        both.1.bequeath(directory, &both.0.all_records());
    }

    /// An access to these bytes of a file begins: it can go on once [it may](Passage::is_free). Who is to change them, or
    /// to be able to, must not be of a process that was cut off.
    pub fn enter(
        self: &Arc<Self>,
        file: FileId,
        bytes: &Touched<'_>,
        changes: bool,
        who: &RequestOrigin,
    ) -> Result<Passage> {
        let leases = Arc::clone(self);
        if self.gates.pass(file) {
            let passage = Passage { leases, way: Way::Gate(file) };
            let is_fenced = changes && self.joined.load(SeqCst) && !self.book().may_change(who.client);
            return if is_fenced { Err(Error::LeaseLost) } else { Ok(passage) };
        }
        let mut book = self.book();
        if changes && !book.may_change(who.client) {
            return Err(Error::LeaseLost);
        }
        let team = book.clients.team_of(who.client).filter(|_| !bytes.are_cut());
        let tickets = book.demand(team, who.session, file, &bytes.extents(self.unit))?;
        drop(book);
        Ok(Passage { leases, way: Way::Book { tickets, free: false } })
    }

    /// A team wants to lease these.
    pub fn lease(
        self: &Arc<Self>,
        team: Team,
        file: FileId,
        ranges: &[ByteRange],
        who: &RequestOrigin,
    ) -> Leasing {
        let extents = Touched::Ranges(ranges).extents(self.unit);
        let ask = Ask::new(who.session, team, file, extents);
        Leasing { leases: Arc::clone(self), ask, forgetting: None }
    }

    pub fn join(&self, team: Team, mailbox: ClientId, who: &RequestOrigin) -> Result<()> {
        self.book().clients.join(who.client, team, who.is_here.then_some(who.session), mailbox)
    }

    /// Recalls for the asker's mailbox, which is made if it is not there. `None`: it cannot be yet.
    pub fn recalls(&self, team: Team, anew: bool, who: &RequestOrigin) -> Result<Option<Vec<LeaseRecall>>> {
        let mut book = self.book();
        if !book.add_mailbox(mailbox(who)?, who.client, team, anew)? {
            return Ok(None);
        }
        let recalls = book.next_recalls(who.session).into_iter();
        let each = |(number, file, extent)| LeaseRecall { number, file, range: range(extent) };
        Ok(Some(recalls.map(each).collect()))
    }

    /// The asker's mailbox ends.
    pub fn leave(&self, who: &RequestOrigin) -> Result<()> {
        self.book().leave(mailbox(who)?);
        Ok(())
    }

    pub fn yielded(&self, number: u64, gone: ByteRange, who: &RequestOrigin) -> Result<()> {
        let end = gone.at.checked_add(gone.len).ok_or(Error::BadRequest("ranges"))?;
        let end = if end >= LAST { u64::MAX } else { end };
        let gone = LockExtent::new(gone.at, end).ok_or(Error::BadRequest("ranges"))?;
        self.book().yielded(mailbox(who)?, number, gone)
    }

    pub fn release(&self, team: Team, file: FileId) {
        self.book().release(team, file);
    }

    /// A connection has ended.
    pub fn left(&self, session: u64, client: ClientId) {
        self.book().left(session, client);
    }

    /// The sessions of processes that did not yield in time: they change nothing any more and are to be ended, before
    /// [`forget_cut_off`](Leases::forget_cut_off).
    pub fn cut_off(&self) -> Vec<u64> {
        let cut_off = self.book().cut_off();
        let sessions = cut_off.iter().flat_map(|one| one.sessions.clone()).collect();
        let fencing = cut_off.into_iter().map(|one| Fencing {
            mailboxes: one.mailboxes,
            leased: one.leased,
            renewals: None,
        });
        lock(&self.fencing).extend(fencing);
        sessions
    }

    /// Goes on with making clients forget where the blocks are that a process had leased when it was cut off: it may know
    /// that still, and would need no request to change them. Others get at them after that.
    pub fn forget_cut_off(&self, pool: &Pool) {
        let mut ended = BTreeSet::new();
        let mut fencing = lock(&self.fencing);
        fencing.retain_mut(|one| {
            let renew = |(file, extent): &(FileId, LockExtent)| self.invalidate(pool, *file, *extent);
            let renewals = one.renewals.get_or_insert_with(|| one.leased.iter().map(renew).collect());
            renewals.retain_mut(|renewal| !renewal.ready());
            if renewals.is_empty() {
                ended.append(&mut one.mailboxes);
            }
            !renewals.is_empty()
        });
        if !fencing.is_empty() {
            self.timers.set(Instant::now() + AGAIN, GRACE);
        }
        drop(fencing);
        if !ended.is_empty() {
            self.book().ended(ended);
        }
    }

    fn invalidate(&self, pool: &Pool, file: FileId, extent: LockExtent) -> SlotInvalidation {
        pool.invalidate(file, extent.start() / self.unit..extent.end().div_ceil(self.unit))
    }

    pub fn status(&self) -> message::LeaseCounters {
        self.book().status()
    }

    /// Why a successor will not know who has leased what, if that is so.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.book).1.trouble().map(str::to_owned)
    }

    fn book(&self) -> Opened<'_> {
        let mut both = lock(&self.book);
        both.0.now = Instant::now();
        Opened { leases: self, both }
    }
}

/// A mailbox hears of its client's end, so it is a connection to this server.
fn mailbox(who: &RequestOrigin) -> Result<u64> {
    if who.is_here {
        Ok(who.session)
    } else {
        Err(Error::BadRequest("mailbox and way through another server"))
    }
}

/// The book, in somebody's hands; what follows from what they write is done when they close it. A successor knows of it
/// before anybody is told.
struct Opened<'a> {
    leases: &'a Leases,
    both: MutexGuard<'a, (Book, Log)>,
}

impl Deref for Opened<'_> {
    type Target = Book;

    fn deref(&self) -> &Book {
        &self.both.0
    }
}

impl DerefMut for Opened<'_> {
    fn deref_mut(&mut self) -> &mut Book {
        &mut self.both.0
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        let (book, log) = &mut *self.both;
        log.add(&book.take_records(), || book.all_records());
        self.leases.joined.store(book.clients.are_there(), SeqCst);
        let now = book.now;
        let effects = std::mem::take(&mut book.effects);
        effects.guard.into_iter().for_each(|file| self.leases.gates.guard(file));
        effects.open.into_iter().for_each(|file| self.leases.gates.open(file));
        effects.wake.into_iter().for_each(|session| self.leases.timers.set(now, session));
        if let Some(when) = effects.look_at {
            self.leases.timers.set(when, GRACE);
        }
    }
}

/// What an access touches.
pub(crate) enum Touched<'a> {
    Ranges(&'a [ByteRange]),
    Blocks(&'a [message::BlockRange]),
    /// Everything from here on is about to go, also for the team that has it.
    Cut(u64),
}

impl Touched<'_> {
    fn are_cut(&self) -> bool {
        matches!(self, Touched::Cut(_))
    }

    /// In whole units, in order, those that touch together.
    fn extents(&self, unit: u64) -> Vec<LockExtent> {
        let whole = |start: u64, end: u64| {
            let end = if end >= LAST { u64::MAX } else { end.next_multiple_of(unit) };
            LockExtent::new(start / unit * unit, end)
        };
        let mut all: Vec<LockExtent> = match self {
            Touched::Ranges(ranges) => ranges
                .iter()
                .filter(|range| range.len > 0)
                .filter_map(|range| whole(range.at, range.at.saturating_add(range.len)))
                .collect(),
            Touched::Blocks(runs) => runs
                .iter()
                .filter_map(|run| {
                    let end = run.first.saturating_add(run.count.into()).saturating_mul(unit);
                    whole(run.first.saturating_mul(unit), end)
                })
                .collect(),
            Touched::Cut(from) => whole(*from, u64::MAX).into_iter().collect(),
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
        if let (true, Some(first), Some(last)) = (merged.len() > MOST_EXTENTS, merged.first(), merged.last())
        {
            merged = LockExtent::new(first.start(), last.end()).into_iter().collect();
        }
        merged
    }
}

fn range(extent: LockExtent) -> ByteRange {
    let (start, end) = (extent.start().min(LAST), extent.end().min(LAST));
    ByteRange { at: start, len: end - start }
}

/// An access to data, from when it asks until it is over.
pub(crate) struct Passage {
    leases: Arc<Leases>,
    way: Way,
}

enum Way {
    Gate(FileId),
    Book { tickets: Vec<u64>, free: bool },
}

impl Passage {
    /// Whether nobody else has leased the bytes, and nobody can until the passage ends.
    pub fn is_free(&mut self) -> bool {
        match &mut self.way {
            Way::Gate(_) => true,
            Way::Book { tickets, free } => {
                *free = *free || self.leases.book().is_granted(tickets);
                *free
            }
        }
    }

    /// Whether that goes for all other bytes of the file, too.
    pub fn is_wide(&self) -> bool {
        matches!(self.way, Way::Gate(_))
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        match &self.way {
            Way::Gate(file) => self.leases.gates.leave(*file),
            Way::Book { tickets, .. } => self.leases.book().end(tickets),
        }
    }
}

/// A request for a lease, from when it asks until it is answered.
pub(crate) struct Leasing {
    leases: Arc<Leases>,
    ask: Ask,
    forgetting: Option<Forgetting>,
}

/// Blocks that clients are to forget.
struct Forgetting {
    extents: Vec<(LockId, LockExtent)>,
    renewals: Vec<SlotInvalidation>,
}

impl Leasing {
    /// What the team has around what it asked for, once it has that.
    pub fn step(&mut self, pool: &Pool) -> Result<Option<Vec<ByteRange>>> {
        loop {
            let step = self.leases.book().lease(&mut self.ask)?;
            match step {
                Step::Wait => return Ok(None),
                // Only after that: they may be about to tell a client where a block is.
                _ if !self.leases.gates.is_empty(self.ask.file) => return Ok(None),
                Step::Done(extents) => return Ok(Some(extents.into_iter().map(range).collect())),
                Step::Forget(extents) => {
                    if !self.forget(extents, pool) {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn forget(&mut self, extents: Vec<(LockId, LockExtent)>, pool: &Pool) -> bool {
        let file = self.ask.file;
        if self.forgetting.as_ref().is_none_or(|under_way| under_way.extents != extents) {
            let renewals =
                extents.iter().map(|(_, extent)| self.leases.invalidate(pool, file, *extent)).collect();
            self.forgetting = Some(Forgetting { extents, renewals });
        }
        let Some(under_way) = &mut self.forgetting else { return false };
        under_way.renewals.retain_mut(|renewal| !renewal.ready());
        if !under_way.renewals.is_empty() {
            return false;
        }
        self.leases.book().forgotten(self.ask.team, &under_way.extents);
        self.forgetting = None;
        true
    }
}

impl Drop for Leasing {
    fn drop(&mut self) {
        self.leases.book().end_ask(&self.ask);
    }
}
