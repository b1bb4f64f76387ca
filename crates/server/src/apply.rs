//! What each request does.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pario_cache::{LEDGER_WORDS, LedgerId, PoolTruncation};
use pario_layout::units;
use pario_locks::LockExtent;
use pario_types::{ClientId, FileId, RequestId};
use pario_wire::message::{
    self, AcquireIntent, ByteSelection, NamespaceCounters, PoolStatus, Reply, Request, ServerStatus,
    TrafficCounters,
};

use crate::core::Core;
use crate::divergent_replicas::DivergentExtents;
use crate::ending::Asked;
use crate::error::{Error, Result};
use crate::flush::{Progress, Syncing};
use crate::leases::{Leasing, Passage, Team, Touched};
use crate::names::Names;
use crate::payload::Payload;
use crate::pieces::{Pieces, check};
use crate::tier::{BATCH, Bytes, Moved, Piece};

/// Reads of at least so many bytes, in at most so many ranges, are sent straight from the pool.
const LEAST_PINNED: usize = 64 << 10;
const MOST_PINNED_RANGES: usize = 16;

/// Blocks that one `Verify` looks at.
const MOST_VERIFIED: u64 = 1024;

/// How long a poll for recalls waits at most; and of the time for which its answer is good, so that the next one comes
/// before that is over.
const MOST_WAIT: Duration = Duration::from_secs(10);
const OF_GOOD: u32 = 3;

/// A request whose blocks are in use by others fails after this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a `Shutdown` looks whether everything is stored.
const DRAINING: Duration = Duration::from_millis(5);

/// Stands for a session in requests of the server itself: no session has this number.
const NO_SESSION: u64 = u64::MAX;

/// A request being carried out.
pub(crate) struct Task {
    request: Request,
    /// Bytes of the payload moved so far, and where the others lie.
    moved: usize,
    pieces: Option<Pieces>,
    /// Files removed so far.
    removed: usize,
    truncation: Option<PoolTruncation>,
    syncing: Option<Syncing>,
    /// A lock that was asked for and is not granted.
    lock: Option<u64>,
    /// For access to data.
    passage: Option<Passage>,
    leasing: Option<Leasing>,
    /// For the end of the server.
    asked: Option<Asked>,
    begun: Instant,
}

/// For whom.
pub(crate) struct RequestOrigin {
    pub client: ClientId,
    pub id: RequestId,
    /// Through this connection; of the client itself, not of another server for it.
    pub session: u64,
    pub is_here: bool,
    /// Whether it is connected to this server, so that this server learns when it goes.
    pub direct: bool,
    /// If it has mapped the pool.
    pub ledger: Option<LedgerId>,
}

pub(crate) enum Verdict {
    Done(Reply),
    /// It goes on when more of its payload is here.
    Starved,
    /// It goes on at once, but others shall have their turn in between.
    More,
    /// Something that it needs is in use: call again.
    Later,
    /// There is nothing to say yet: call again then, or when it is woken.
    Until(Instant),
}

impl Task {
    pub fn new(request: Request) -> Task {
        Task {
            request,
            moved: 0,
            pieces: None,
            removed: 0,
            truncation: None,
            syncing: None,
            lock: None,
            passage: None,
            leasing: None,
            asked: None,
            begun: Instant::now(),
        }
    }

    /// It will not be carried on with; what it waited for in vain.
    pub fn give_up(&mut self, core: &Core) -> Error {
        if let Some(number) = self.lock.take() {
            let holders = core.locks.in_the_way(number).into_iter().map(|client| core.name_of(client));
            let holders = holders.collect::<Vec<_>>().join(", ");
            core.locks.cancel(number);
            return Error::LockHeld(holders);
        }
        let leased = self.leasing.is_some() || self.passage.as_mut().is_some_and(|p| !p.is_free());
        if leased { Error::Leased } else { Error::Busy }
    }

    /// Whether others have given up what they leased of the bytes that it needs now, as long as there are any.
    fn is_admitted(&mut self, core: &Core, who: &RequestOrigin) -> Result<bool> {
        if self.passage.is_some() {
            return Ok(self.passage.as_mut().is_some_and(Passage::is_free));
        }
        let span;
        let (file, touched) = match &self.request {
            Request::Acquire { file, blocks, .. } => (*file, Touched::Blocks(blocks)),
            Request::Read { file, what } | Request::Write { file, what } => {
                let block = u64::from(core.tier.pool.geometry().block);
                if self.pieces.is_none() {
                    self.pieces = Pieces::of(what, &core.views, core.config.server, block)?;
                }
                span = match &self.pieces {
                    Some(pieces) => pieces.span(),
                    // It is told that the view is not known.
                    None => return Ok(true),
                };
                match what {
                    ByteSelection::Ranges(ranges) => (*file, Touched::Ranges(ranges)),
                    ByteSelection::View { .. } => (*file, Touched::Ranges(&span)),
                }
            }
            Request::Truncate { file, end, .. } => (*file, Touched::Cut(*end)),
            Request::RemoveParts { files } => match files.get(self.removed) {
                Some(file) => (*file, Touched::Cut(0)),
                None => return Ok(true),
            },
            _ => return Ok(true),
        };
        let changes = match &self.request {
            Request::Acquire { intent, .. } => *intent != AcquireIntent::Read,
            request => matches!(request, Request::Write { .. }),
        };
        let passage = self.passage.insert(core.leases.enter(known(file)?, &touched, changes, who)?);
        Ok(passage.is_free())
    }

    /// How long it may wait for others.
    pub fn patience(&self, core: &Core) -> Duration {
        match self.request {
            // Whoever asks shall hear the reason, and not only that nobody answers.
            Request::Lock { .. } => (core.config.deadline * 4 / 5).min(PATIENCE),
            _ => PATIENCE,
        }
    }

    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Carries out a request of the server itself, which has no payload.
    pub fn run_here(mut self, core: &Core, patience: Duration) -> Result<()> {
        let client = core.peers.client();
        let session = NO_SESSION;
        let who =
            RequestOrigin { client, id: RequestId(0), session, is_here: false, direct: false, ledger: None };
        loop {
            match self.go(core, &who, &mut Payload::default(), &mut [])? {
                Verdict::Done(Reply::Failed(failure)) => return Err(Error::Elsewhere(failure)),
                Verdict::Done(_) => return Ok(()),
                _ if self.begun.elapsed() >= patience || core.stop.load(Ordering::Acquire) => {
                    return Err(self.give_up(core));
                }
                Verdict::More => {}
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Bytes that the reply carries if all goes well.
    pub fn reply_payload(&self) -> usize {
        self.request.reply_payload() as usize
    }

    /// If it asked for the server's end: what keeps the server from ending before the answer is sent.
    pub fn take_asked(&mut self) -> Option<Asked> {
        self.asked.take()
    }

    /// For a large read: its blocks, all of them pinned, and the reply that they go with. `None` if they have to be
    /// copied after all.
    pub fn pinned(&mut self, core: &Core, who: &RequestOrigin) -> Option<(Reply, Vec<Piece>)> {
        let Request::Read { what: ByteSelection::Ranges(ranges), .. } = &self.request else { return None };
        let large = ranges.len() <= MOST_PINNED_RANGES && self.reply_payload() >= LEAST_PINNED;
        // What goes wrong here goes wrong again where it is told.
        if !large || self.moved > 0 || !self.is_admitted(core, who).ok()? {
            return None;
        }
        let Request::Read { file, what: ByteSelection::Ranges(ranges) } = &self.request else { return None };
        let _ready = core.tier.meet(who.client, *file, ranges);
        let mut pieces = Vec::new();
        for range in ranges {
            if !core.tier.pin_all(*file, range.at, range.len, &mut pieces, &core.counters).ok()? {
                return None;
            }
        }
        let end = core.tier.end(*file).ok()?;
        core.counters.read_bytes.add(self.reply_payload() as u64);
        Some((Reply::Data { end }, pieces))
    }

    /// Goes on with it. `payload` comes with the request, `room` is for the reply's.
    pub fn run(
        &mut self,
        core: &Core,
        who: &RequestOrigin,
        payload: &mut Payload,
        room: &mut [u8],
    ) -> Verdict {
        match self.go(core, who, payload, room) {
            Ok(verdict) => verdict,
            Err(e) => Verdict::Done(Reply::Failed(e.to_failure())),
        }
    }

    fn go(
        &mut self,
        core: &Core,
        who: &RequestOrigin,
        payload: &mut Payload,
        room: &mut [u8],
    ) -> Result<Verdict> {
        if !self.is_admitted(core, who)? {
            return Ok(Verdict::Later);
        }
        let (tier, counters) = (&core.tier, &core.counters);
        let reply = match &self.request {
            Request::Acquire { file, intent, blocks, ahead } => {
                let ledger = who.ledger.ok_or(Error::NotLocal)?;
                let wanted = blocks.iter().map(|run| run.first..run.first.saturating_add(run.count.into()));
                let _ready = tier.prefetches.meet(who.client, *file, wanted);
                let mut slots = tier.acquire(known(*file)?, *intent, blocks, ledger, counters)?;
                let asked = blocks.iter().map(|run| u64::from(run.count)).sum();
                let wide = self.passage.as_ref().is_some_and(Passage::is_wide);
                if *ahead > 0 && wide && slots.len() as u64 == asked {
                    tier.acquire_ahead(*file, *intent, *ahead, &mut slots, counters);
                }
                if wide {
                    tier.announce(*file, &slots);
                }
                match slots.is_empty() && !blocks.is_empty() {
                    true => return Ok(Verdict::Later),
                    false => Reply::Slots(slots),
                }
            }
            Request::Read { file, what } | Request::Write { file, what } => {
                let file = known(*file)?;
                let Some(pieces) = &mut self.pieces else { return Ok(Verdict::Done(Reply::NoView)) };
                let reads = matches!(self.request, Request::Read { .. });
                let here = payload.bytes();
                let bytes = if reads { Bytes::Out(&mut room[self.moved..]) } else { Bytes::In(here) };
                let _ready = match what {
                    ByteSelection::Ranges(ranges) => tier.meet(who.client, file, ranges),
                    ByteSelection::View { .. } => tier.meet(who.client, file, &pieces.span()),
                };
                let mut done = 0;
                let outcome = tier.transfer(file, pieces, bytes, &mut done, counters);
                self.moved += done;
                if !reads {
                    payload.consume(done);
                }
                match outcome? {
                    Moved::All => {}
                    Moved::Some => return Ok(Verdict::Later),
                    Moved::Available if payload.is_last() => return Err(Error::BadRequest("payload")),
                    Moved::Available => {
                        // Nobody shall wait for what this client has not sent.
                        self.passage = None;
                        return Ok(Verdict::Starved);
                    }
                }
                let counter = if reads { &counters.read_bytes } else { &counters.written_bytes };
                counter.add(self.moved as u64);
                if reads { Reply::Data { end: tier.end(file)? } } else { Reply::Done }
            }
            Request::PutView { hash, .. } => {
                core.views.put(*hash, payload.bytes())?;
                Reply::Done
            }
            Request::Counter { key, change } => {
                Reply::Counted { before: core.shared_counters.change(who.client, who.id, *key, *change)? }
            }
            Request::End { file } => Reply::End { end: tier.end(known(*file)?)? },
            Request::Truncate { file, end, truncation } => {
                if *end > i64::MAX as u64 {
                    return Err(Error::BadRequest("end"));
                }
                if !tier.truncate(known(*file)?, *end, *truncation, &mut self.truncation)? {
                    return Ok(Verdict::Later);
                }
                tier.note_freed(counters);
                Reply::Done
            }
            Request::Fence { file, truncation } => match tier.fence(known(*file)?, *truncation)? {
                true => Reply::Done,
                false => return Ok(Verdict::Later),
            },
            Request::AbortTruncate { file, truncation } => {
                let names = core.names.as_ref().ok_or(Error::NotMetadata)?;
                match names.abort_truncate(who.client, who.id, *file, *truncation)? {
                    true => Reply::Done,
                    false => return Ok(Verdict::Later),
                }
            }
            Request::Sync { file, durable } => {
                let syncing = self.syncing.get_or_insert_with(|| tier.start_sync(*file));
                match tier.sync(syncing, counters)? {
                    Progress::Done => {}
                    Progress::Some => return Ok(Verdict::More),
                    Progress::None => return Ok(Verdict::Later),
                }
                match (*durable, *file) {
                    // A close after a sync that failed fails, too, until what it should have stored is on the medium.
                    (false, file) => tier.store.sync_failure(file)?,
                    (true, FileId(0)) => tier.store.sync_all()?,
                    (true, file) => tier.store.sync(file)?,
                }
                if let (Some(names), true) = (&core.names, *durable) {
                    names.sync()?;
                }
                Reply::Done
            }
            Request::Arrange { file, ranges } => {
                check(ranges)?;
                let ranges = ranges.iter().map(|range| range.at..range.at + range.len);
                let blocks = units(ranges, u64::from(tier.pool.geometry().block));
                tier.store.arrange(known(*file)?, &blocks)?;
                Reply::Done
            }
            Request::RemoveParts { files } => {
                if let Some(file) = files.get(self.removed) {
                    if !tier.remove(known(*file)?, &mut self.truncation)? {
                        return Ok(Verdict::Later);
                    }
                    tier.note_freed(counters);
                    core.locks.removed(*file);
                    self.removed += 1;
                    self.passage = None;
                }
                if self.removed < files.len() {
                    return Ok(Verdict::More);
                }
                tier.store.reclaim()?;
                Reply::Done
            }
            Request::ListParts { after, most } => {
                let most = (*most).clamp(1, 10_000) as usize;
                let parts = tier.store.list(*after, most)?;
                let more = parts.len() == most;
                let parts =
                    parts.into_iter().map(|part| message::LocalPart { file: part.file, end: part.end });
                Reply::Parts { parts: parts.collect(), more }
            }
            Request::VerifyBlocks { file, from, most } => {
                // What is still in the pool would be judged by what it replaces.
                let syncing = self.syncing.get_or_insert_with(|| tier.start_sync(*file));
                match tier.sync(syncing, counters)? {
                    Progress::Done => {}
                    Progress::Some => return Ok(Verdict::More),
                    Progress::None => return Ok(Verdict::Later),
                }
                let found = tier.store.verify(known(*file)?, *from, (*most).clamp(1, MOST_VERIFIED))?;
                counters.damaged.add(found.damaged.len() as u64);
                Reply::Verified { damaged: found.damaged, next: found.next }
            }
            Request::AcceptBlocks { file, blocks } => {
                tier.store.accept(known(*file)?, blocks)?;
                Reply::Done
            }
            Request::Lock { file, range, exclusive } => {
                let number = match self.lock {
                    Some(number) => number,
                    None => core.locks.request(who.client, known(*file)?, *range, *exclusive)?,
                };
                self.lock = Some(number);
                if !core.locks.is_granted(number)? {
                    return Ok(Verdict::Later);
                }
                self.lock = None;
                Reply::Locked { lock: number }
            }
            Request::Unlock { lock } => {
                core.locks.unlock(who.client, *lock)?;
                Reply::Done
            }
            Request::JoinTeam { team, mailbox } => {
                core.leases.join(Team(*team), *mailbox, who)?;
                Reply::Done
            }
            Request::Lease { team, file, ranges } => {
                check(ranges)?;
                let file = known(*file)?;
                // What is kept ready would be in the way; who wanted it asks for it when he reads.
                tier.prefetches.let_go(file);
                let begin = || core.leases.lease(Team(*team), file, ranges, who);
                match self.leasing.get_or_insert_with(begin).step(&tier.pool)? {
                    Some(extents) => Reply::Leased { extents },
                    None => return Ok(Verdict::Later),
                }
            }
            Request::PollRecalls { team, anew, wait_ms } => {
                let Some(recalls) = core.leases.recalls(Team(*team), *anew, who)? else {
                    return Ok(Verdict::Later);
                };
                // Who does not yield is cut off no sooner than that.
                let good = core.config.grace;
                let wait = Duration::from_millis((*wait_ms).into());
                let until = self.begun + wait.min(MOST_WAIT).min(good / OF_GOOD);
                if recalls.is_empty() && Instant::now() < until {
                    return Ok(Verdict::Until(until));
                }
                Reply::Recalled { recalls, good_ms: u32::try_from(good.as_millis()).unwrap_or(u32::MAX) }
            }
            Request::Yield { number, gone } => {
                core.leases.yielded(*number, *gone, who)?;
                Reply::Done
            }
            Request::CloseMailbox => {
                core.leases.leave(who)?;
                Reply::Done
            }
            Request::ReleaseLeases { team, file } => {
                core.leases.release(Team(*team), known(*file)?);
                Reply::Done
            }
            Request::Prefetch { file, ranges } => {
                let file = known(*file)?;
                check(ranges)?;
                Reply::Prefetched {
                    taken: if who.direct { tier.prefetch(who.client, file, ranges) } else { 0 },
                }
            }
            Request::CancelPrefetch { file, ranges } => {
                tier.prefetches.forget(who.client, *file, ranges);
                Reply::Done
            }
            Request::TryLock { file, ranges, exclusive } => {
                Reply::Locked { lock: core.locks.attempt(who.client, known(*file)?, ranges, *exclusive)? }
            }
            Request::MarkDivergent { lock } => {
                core.locks.tear(who.client, *lock)?;
                Reply::Done
            }
            Request::ListDivergent { file } => {
                let DivergentExtents { extents, clients } = core.locks.torn(known(*file)?);
                let range = |extent: &LockExtent| message::ByteRange {
                    at: extent.start(),
                    len: extent.end() - extent.start(),
                };
                Reply::Divergent { ranges: extents.iter().map(range).collect(), clients }
            }
            // Who asks is at work, and cannot be sent away.
            Request::Disconnect { client } if *client == who.client => Reply::Done,
            Request::Disconnect { client } => match core.try_expel(*client) {
                true => Reply::Done,
                false => return Ok(Verdict::Later),
            },
            Request::Ping if core.peers.are_known() => Reply::Done,
            Request::Ping => return Err(Error::Starting),
            Request::StorageSpace => Reply::StorageSpace(core.storage_space()?),
            Request::Status => Reply::Status(Box::new(core.status()?)),
            Request::Shutdown => {
                let asked = self.asked.get_or_insert_with(|| core.ending.ask());
                match asked.outcome() {
                    None => return Ok(Verdict::Until(Instant::now() + DRAINING)),
                    Some(Ok(())) => Reply::Done,
                    Some(Err(failure)) => Reply::Failed(failure),
                }
            }
            Request::PutTable { table } => {
                core.names.as_ref().ok_or(Error::NotMetadata)?.put_table(*table, payload.bytes())?;
                Reply::Done
            }
            Request::GetTable { table } => {
                core.names.as_ref().ok_or(Error::NotMetadata)?.copy_table(*table, room)?;
                Reply::Data { end: table.len.into() }
            }
            about_names => {
                let names = core.names.as_ref().ok_or(Error::NotMetadata)?;
                names.apply(who.client, who.id, about_names)?
            }
        };
        Ok(Verdict::Done(reply))
    }
}

/// A file's id in a request about data.
fn known(file: FileId) -> Result<FileId> {
    if file == FileId(0) { Err(Error::BadRequest("file id")) } else { Ok(file) }
}

const _: () = assert!(BATCH <= LEDGER_WORDS as usize);

impl Core {
    pub fn storage_space(&self) -> Result<message::StorageSpace> {
        let room = self.tier.store.room()?;
        Ok(message::StorageSpace { total: room.total, free: room.free, used: room.used, parts: room.parts })
    }

    pub fn status(&self) -> Result<ServerStatus> {
        let names = self.names.as_ref().map(|names| names.counts()).unwrap_or_default();
        let troubles = self.names.as_ref().and_then(Names::trouble).into_iter().chain(self.leases.trouble());
        Ok(ServerStatus {
            pid: std::process::id(),
            started: self.counters.started,
            traffic: self.traffic(),
            pool: self.pool_status(),
            storage: self.counters.storage(),
            prefetches: self.tier.prefetches.counts(),
            names: NamespaceCounters {
                files: names.files,
                directories: names.directories,
                open_files: names.open_files,
            },
            leases: self.leases.status(),
            range_locks: self.locks.status(),
            space: self.storage_space()?,
            last_errors: troubles.chain(self.counters.last_errors()).collect(),
        })
    }

    fn traffic(&self) -> TrafficCounters {
        let counters = &self.counters;
        let (sessions, local_sessions) = self.count_sessions();
        TrafficCounters {
            sessions,
            local_sessions,
            requests: counters.requests.get(),
            forwarded: counters.forwarded.get(),
            refused: counters.refused.get(),
            errors: counters.errors.get(),
            read_bytes: counters.read_bytes.get(),
            written_bytes: counters.written_bytes.get(),
        }
    }

    fn pool_status(&self) -> PoolStatus {
        let pool = self.tier.pool.counters();
        let geometry = self.tier.pool.geometry();
        let (high_water, low_water) = self.tier.pool.watermarks();
        PoolStatus {
            block: geometry.block,
            slots: geometry.slots,
            valid_slots: pool.valid,
            dirty_slots: pool.dirty,
            pinned_slots: pool.pinned,
            high_water,
            low_water,
            hits: pool.hits,
            misses: pool.misses,
            evictions: pool.evictions,
        }
    }
}
