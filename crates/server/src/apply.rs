//! What each request does.

use pario_cache::{Cut, LEDGER_WORDS, LedgerId};
use pario_units::{ClientId, FileId, RequestId};
use pario_wire::message::{self, Reply, Request, Status};

use crate::core::Core;
use crate::error::{Error, Result};
use crate::flush::{Progress, Syncing};
use crate::names::Names;
use crate::tier::{BATCH, Piece};

/// Reads of at least so many bytes, in at most so many ranges, are sent straight from the pool.
const LEAST_PINNED: usize = 64 << 10;
const MOST_PINNED_RANGES: usize = 16;

/// Blocks that one `Verify` looks at.
const MOST_VERIFIED: u64 = 1024;

/// A request being carried out.
pub(crate) struct Task {
    request: Request,
    /// Bytes of the payload moved so far.
    moved: usize,
    /// Ranges done, and bytes of the next one.
    range: usize,
    within: u64,
    cut: Option<Cut>,
    syncing: Option<Syncing>,
    /// A lock that was asked for and is not granted.
    lock: Option<u64>,
}

/// For whom.
pub(crate) struct Asker {
    pub client: ClientId,
    pub id: RequestId,
    /// Whether it is connected to this server, so that this server learns when it goes.
    pub direct: bool,
    /// If it has mapped the pool.
    pub ledger: Option<LedgerId>,
}

pub(crate) enum Verdict {
    Done(Reply),
    /// It goes on at once, but others shall have their turn in between.
    More,
    /// Something that it needs is in use: call again.
    Later,
}

impl Task {
    pub fn new(request: Request) -> Task {
        Task { request, moved: 0, range: 0, within: 0, cut: None, syncing: None, lock: None }
    }

    /// It will not be carried on with.
    pub fn give_up(&mut self, core: &Core) {
        if let Some(number) = self.lock.take() {
            core.locks.cancel(number);
        }
    }

    /// Bytes that the reply carries if all goes well.
    pub fn reply_payload(&self) -> usize {
        self.request.reply_payload() as usize
    }

    /// Whether the server is to end when it is done.
    pub fn ends_server(&self) -> bool {
        matches!(self.request, Request::Shutdown)
    }

    /// For a large read: its blocks, all of them pinned, and the reply that they go with. `None` if they have to be
    /// copied after all.
    pub fn pinned(&self, core: &Core, who: &Asker) -> Option<(Reply, Vec<Piece>)> {
        let Request::Read { file, ranges } = &self.request else { return None };
        let large = ranges.len() <= MOST_PINNED_RANGES && self.reply_payload() >= LEAST_PINNED;
        let fresh = self.moved == 0 && known(*file).is_ok() && sound(ranges).is_ok();
        if !(large && fresh) {
            return None;
        }
        let _ready = core.tier.meet(who.client, *file, ranges);
        let mut pieces = Vec::new();
        for range in ranges {
            // What goes wrong here goes wrong again where it is told.
            if !core.tier.pin_all(*file, range.at, range.len, &mut pieces, &core.counters).ok()? {
                return None;
            }
        }
        let end = core.tier.end(*file).ok()?;
        core.counters.read_bytes.add(self.reply_payload() as u64);
        Some((Reply::Data { end }, pieces))
    }

    /// Goes on with it. `payload` came with the request, `room` is for the reply's.
    pub fn run(&mut self, core: &Core, who: &Asker, payload: &[u8], room: &mut [u8]) -> Verdict {
        match self.go(core, who, payload, room) {
            Ok(verdict) => verdict,
            Err(e) => Verdict::Done(Reply::Failed(e.to_failure())),
        }
    }

    fn go(&mut self, core: &Core, who: &Asker, payload: &[u8], room: &mut [u8]) -> Result<Verdict> {
        let (tier, counters) = (&core.tier, &core.counters);
        let reply = match &self.request {
            Request::Acquire { file, intent, blocks, ahead } => {
                let ledger = who.ledger.ok_or(Error::NotLocal)?;
                let wanted = blocks.iter().map(|run| run.first..run.first.saturating_add(run.count.into()));
                let _ready = tier.prefetches.meet(who.client, *file, wanted);
                let mut slots = tier.acquire(known(*file)?, *intent, blocks, ledger, counters)?;
                let asked = blocks.iter().map(|run| u64::from(run.count)).sum();
                if *ahead > 0 && slots.len() as u64 == asked {
                    tier.acquire_ahead(*file, *intent, *ahead, &mut slots, counters);
                }
                match slots.is_empty() && !blocks.is_empty() {
                    true => return Ok(Verdict::Later),
                    false => Reply::Slots(slots),
                }
            }
            Request::Read { file, ranges } => {
                let file = known(*file)?;
                sound(ranges)?;
                let _ready = tier.meet(who.client, file, ranges);
                while let Some(range) = ranges.get(self.range) {
                    let here = self.moved..self.moved + (range.len - self.within) as usize;
                    let moved = tier.read(file, range.at + self.within, &mut room[here.clone()], counters)?;
                    self.moved += moved;
                    self.within += moved as u64;
                    if self.moved < here.end {
                        return Ok(Verdict::Later);
                    }
                    (self.range, self.within) = (self.range + 1, 0);
                }
                counters.read_bytes.add(room.len() as u64);
                Reply::Data { end: tier.end(file)? }
            }
            Request::Write { file, ranges } => {
                let file = known(*file)?;
                sound(ranges)?;
                let _ready = tier.meet(who.client, file, ranges);
                while let Some(range) = ranges.get(self.range) {
                    let here = self.moved..self.moved + (range.len - self.within) as usize;
                    let moved = tier.write(file, range.at + self.within, &payload[here.clone()], counters)?;
                    self.moved += moved;
                    self.within += moved as u64;
                    if self.moved < here.end {
                        return Ok(Verdict::Later);
                    }
                    (self.range, self.within) = (self.range + 1, 0);
                }
                counters.written_bytes.add(payload.len() as u64);
                Reply::Done
            }
            Request::End { file } => Reply::End { end: tier.end(known(*file)?)? },
            Request::Cut { file, end } => {
                if *end > i64::MAX as u64 {
                    return Err(Error::BadRequest("end"));
                }
                if !tier.cut(known(*file)?, *end, &mut self.cut)? {
                    return Ok(Verdict::Later);
                }
                Reply::Done
            }
            Request::Sync { file, durable } => {
                let syncing = self.syncing.get_or_insert_with(|| tier.start_sync(*file));
                match tier.sync(syncing, counters)? {
                    Progress::Done => {}
                    Progress::Some => return Ok(Verdict::More),
                    Progress::None => return Ok(Verdict::Later),
                }
                match (*durable, *file) {
                    (false, _) => {}
                    (true, FileId(0)) => tier.store.sync_all()?,
                    (true, file) => tier.store.sync(file)?,
                }
                if let (Some(names), true) = (&core.names, *durable) {
                    names.sync()?;
                }
                Reply::Done
            }
            Request::Remove { files } => {
                while let Some(file) = files.get(self.range) {
                    if !tier.remove(known(*file)?, &mut self.cut)? {
                        return Ok(Verdict::Later);
                    }
                    self.range += 1;
                }
                Reply::Done
            }
            Request::ListParts { after, most } => {
                let most = (*most).clamp(1, 10_000) as usize;
                let parts = tier.store.list(*after, most)?;
                let more = parts.len() == most;
                let parts = parts.into_iter().map(|part| message::Part { file: part.file, end: part.end });
                Reply::Parts { parts: parts.collect(), more }
            }
            Request::Verify { file, from, most } => {
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
            Request::Accept { file, blocks } => {
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
            Request::Prefetch { file, ranges } => {
                let file = known(*file)?;
                sound(ranges)?;
                Reply::Prefetched {
                    taken: if who.direct { tier.prefetch(who.client, file, ranges) } else { 0 },
                }
            }
            Request::Forget { file, ranges } => {
                tier.prefetches.forget(who.client, *file, ranges);
                Reply::Done
            }
            Request::TryLock { file, range, exclusive } => {
                Reply::Locked { lock: core.locks.attempt(who.client, known(*file)?, *range, *exclusive)? }
            }
            Request::Ping if core.peers.are_known() => Reply::Done,
            Request::Ping => return Err(Error::Starting),
            Request::Room => Reply::Room(core.room()?),
            Request::Status => Reply::Status(Box::new(core.status()?)),
            Request::Shutdown => {
                core.finish()?;
                Reply::Done
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

fn sound(ranges: &[message::Range]) -> Result<()> {
    let fits =
        |range: &message::Range| range.at.checked_add(range.len).is_some_and(|end| end <= i64::MAX as u64);
    if ranges.iter().all(fits) { Ok(()) } else { Err(Error::BadRequest("ranges")) }
}

const _: () = assert!(BATCH <= LEDGER_WORDS as usize);

impl Core {
    pub fn room(&self) -> Result<message::Room> {
        let room = self.tier.store.room()?;
        Ok(message::Room { total: room.total, free: room.free, used: room.used, parts: room.parts })
    }

    pub fn status(&self) -> Result<Status> {
        let (c, pool) = (&self.counters, self.tier.pool.counters());
        let geometry = self.tier.pool.geometry();
        let (high_water, low_water) = self.tier.pool.watermarks();
        let (sessions, local_sessions) = self.count_sessions();
        let names = self.names.as_ref().map(|names| names.counts()).unwrap_or_default();
        Ok(Status {
            pid: std::process::id(),
            started: c.started,
            sessions,
            local_sessions,
            requests: c.requests.get(),
            forwarded: c.forwarded.get(),
            refused: c.refused.get(),
            errors: c.errors.get(),
            read_bytes: c.read_bytes.get(),
            written_bytes: c.written_bytes.get(),
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
            flushed_blocks: c.flushed_blocks.get(),
            flush_errors: c.flush_errors.get(),
            filled_blocks: c.filled_blocks.get(),
            store_read_bytes: c.store_read_bytes.get(),
            store_written_bytes: c.store_written_bytes.get(),
            damaged: c.damaged.get(),
            prefetches: self.tier.prefetches.counts(),
            files: names.files,
            directories: names.directories,
            open_files: names.open_files,
            room: self.room()?,
            last_errors: self
                .names
                .as_ref()
                .and_then(Names::trouble)
                .into_iter()
                .chain(c.last_errors())
                .collect(),
        })
    }
}
