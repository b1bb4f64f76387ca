//! The server's side of a pool.

use crate::SlotRef;
use crate::adopt::{Adopted, read_table};
use crate::advance::PageAdvance;
use crate::error::{Error, Result};
use crate::flush::{BlockFlush, DirtySweep};
use crate::geometry::{
    AT_ASLEEP, AT_BLOCK, AT_BOOT, AT_HIGH, AT_LEDGERS, AT_LOW, AT_MAGIC, AT_MARK, AT_NAMESPACES,
    AT_PARTITION, AT_SERVER, AT_SLOTS, AT_SUM, AT_VERSION, Geometry, HEADER, MAGIC, PoolIdentity, VERSION,
};
use crate::invalidation::SlotInvalidation;
use crate::ledger::LedgerId;
use crate::memory::PoolMemory;
use crate::pin::{Pin, SlotFill};
use crate::state::{CLOSED, DIRTY, generation};
use crate::table::{SlotPhase, SlotTable};
use crate::truncation::PoolTruncation;
use pario_runtime::sync::{Mutex, MutexGuard};
use pario_shm::{ExclusiveLock, PidScope, Segment};
use pario_types::FileId;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A server's block cache. Clones share the pool; all threads of the server use it.
///
/// When the last clone and all values from it ([`Pin`], [`BlockFlush`], …) are dropped, the file stays for a successor, as
/// after a kill; [`discard`](Pool::discard) removes it.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) inner: Arc<PoolInner>,
}

#[derive(Debug)]
pub(crate) struct PoolInner {
    pub memory: Arc<PoolMemory>,
    pub pins: Arc<[AtomicU32]>,
    table: Mutex<SlotTable>,
    /// The progress of the preparation of slots.
    pub advance: PageAdvance,
    path: PathBuf,
    /// The claim of this process to serve the pool.
    _claim: ExclusiveLock,
}

/// The result of [`Pool::get`].
#[derive(Debug)]
pub enum Lookup {
    /// The block is in the pool.
    Hit(Pin),
    /// It is not, and this slot is for it.
    Fill(SlotFill),
    /// Another thread fills it, or its file is being truncated: try again in a millisecond, and hold no [`Pin`] or
    /// [`SlotFill`] meanwhile, since the truncation waits for those.
    Busy,
    /// Every slot is dirty or pinned: flush some ([`Pool::next_dirty`]), then try again.
    Full,
}

/// Counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Slots that hold a block.
    pub valid: u32,
    /// Of them, the dirty ones.
    pub dirty: u32,
    /// Slots that are pinned.
    pub pinned: u32,
    /// Slots that clients are filling.
    pub lent: u32,
    /// Ledgers that are in use.
    pub ledgers: u32,
    /// Blocks that the server and clients found in the pool.
    pub hits: u64,
    /// Blocks that were not in the pool.
    pub misses: u64,
    /// Blocks that were evicted.
    pub evictions: u64,
}

impl Pool {
    /// Creates an empty pool in a new file, which belongs in a memory file system. Its memory is reserved at once.
    pub fn create(path: &Path, geometry: Geometry, identity: PoolIdentity) -> Result<Pool> {
        let len = geometry.check()?;
        let failed = |what| move |error| Error::System { what, path: path.into(), error };
        let origin = PidScope::current().map_err(failed("tell the machine's boot for"))?;
        // It has another name until it is complete: a server that is killed meanwhile leaves no incomplete pool.
        let fresh = path.with_extension("new");
        match pario_runtime::fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("replace")(error)),
            _ => {}
        }
        let segment = Segment::create_file(&fresh, len).map_err(failed("create"))?;
        let claim = claim(&fresh).inspect_err(|_| drop(pario_runtime::fs::remove_file(&fresh)))?;
        let memory = PoolMemory::new(segment, geometry);
        let header: [(usize, u64); 13] = [
            (AT_VERSION, VERSION),
            (AT_PARTITION, identity.partition.0 as u64),
            (AT_PARTITION + 8, (identity.partition.0 >> 64) as u64),
            (AT_SERVER, u64::from(identity.server.0)),
            (AT_BLOCK, u64::from(geometry.block)),
            (AT_SLOTS, u64::from(geometry.slots)),
            (AT_LEDGERS, u64::from(geometry.ledgers)),
            (AT_MARK, RandomState::new().hash_one(path)),
            (AT_BOOT, origin.boot as u64),
            (AT_BOOT + 8, (origin.boot >> 64) as u64),
            (AT_NAMESPACES, origin.namespaces),
            (AT_HIGH, u64::from(geometry.slots.div_ceil(2))),
            (AT_LOW, u64::from(geometry.slots / 4)),
        ];
        for (at, value) in header {
            memory.header(at).put(value);
        }
        memory.header(AT_SUM).put(PoolMemory::sum(&memory.segment));
        for slot in 0..geometry.slots {
            memory.state(slot).put(generation(1));
        }
        memory.header(AT_MAGIC).put(MAGIC);
        let named = pario_runtime::fs::hard_link(&fresh, path);
        let _ = pario_runtime::fs::remove_file(&fresh);
        named.map_err(failed("create"))?;
        let memory = Arc::new(memory);
        let pins = pins(geometry);
        let table = SlotTable::new(Arc::clone(&memory), Arc::clone(&pins));
        Ok(Pool::with(path, memory, pins, table, claim))
    }

    /// Takes over the pool of a killed server: its valid blocks stay, those it was storing are dirty again, and those that
    /// were being filled are dropped.
    ///
    /// Ledgers of processes that are gone are cleared. Those of others wait for [`resume_ledger`](Pool::resume_ledger):
    /// such clients may have used the pool all the time.
    ///
    /// A pool of another boot of the machine is refused: it is unknown which of its bytes a disk has kept. A truncated one
    /// has the rest of its blocks, and its full length again.
    pub fn adopt(path: &Path, identity: PoolIdentity) -> Result<(Pool, Adopted)> {
        let claim = claim(path)?;
        let failed = |what| move |error| Error::System { what, path: path.into(), error };
        let origin = PidScope::current().map_err(failed("tell the machine's boot for"))?;
        let segment = Segment::open_file(path).map_err(failed("open"))?;
        let kept = segment.len();
        if kept < HEADER {
            return Err(Error::Emptied(path.into()));
        }
        let (_, len) = PoolMemory::read_header(&segment)?;
        let segment = if kept < len { segment.grow(len).map_err(failed("extend"))? } else { segment };
        let memory = PoolMemory::open(segment)?;
        let server = memory.header(AT_SERVER).peek();
        if memory.wide(AT_PARTITION) != identity.partition.0 || server != u64::from(identity.server.0) {
            return Err(Error::OtherPool(path.into()));
        }
        if memory.wide(AT_BOOT) != origin.boot {
            return Err(Error::OtherBoot(path.into()));
        }
        let foreign = memory.header(AT_NAMESPACES).peek() != origin.namespaces;
        let memory = Arc::new(memory);
        let pins = pins(memory.geometry);
        let (table, adopted) = read_table(Arc::clone(&memory), Arc::clone(&pins), kept);
        Ok((Pool::with(path, memory, pins, table, claim), Adopted { foreign, ..adopted }))
    }

    fn with(
        path: &Path,
        memory: Arc<PoolMemory>,
        pins: Arc<[AtomicU32]>,
        table: SlotTable,
        claim: ExclusiveLock,
    ) -> Pool {
        let advance = PageAdvance::new(table.unused, memory.geometry);
        let table = Mutex::new(table);
        let inner = Arc::new(PoolInner { memory, pins, table, advance, path: path.into(), _claim: claim });
        #[cfg(pario_simulation)]
        crate::invariants::watch(&inner);
        pario_runtime::check_invariants();
        Pool { inner }
    }

    /// The segment that clients map.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.inner.memory.segment.descriptor().expect("the segment of a pool is a file")
    }

    /// Its size.
    pub fn geometry(&self) -> Geometry {
        self.inner.memory.geometry
    }

    /// A random number of this pool: a client that reconnects with another one has mapped another pool.
    pub fn mark(&self) -> u64 {
        self.inner.memory.mark()
    }

    /// Returns a ledger for a client, which is this process of the same host. `None` if there is none left, or if the
    /// process is not visible from here: such a client has to use messages.
    pub fn take_ledger(&self, pid: u32) -> Option<LedgerId> {
        self.inner.table().take_ledger(pid)
    }

    /// Returns the ledger of a client that has reconnected, after its connection broke or the pool was adopted. `None`: it
    /// needs another one.
    pub fn resume_ledger(&self, ledger: LedgerId, pid: u32) -> bool {
        self.inner.table().resume_ledger(ledger, pid)
    }

    /// The client's session is over. If its process is gone its pins and loans end at once, else as soon as it releases
    /// them.
    pub fn give_ledger(&self, ledger: LedgerId) {
        self.inner.table().give_ledger(ledger);
    }

    /// Returns a block, or a slot for it.
    pub fn get(&self, file: FileId, block: u64) -> Lookup {
        let mut table = self.inner.table();
        if table.is_truncated(file, block) {
            return Lookup::Busy;
        }
        table.tick();
        if let Some(slot) = table.find(file, block) {
            match table.update_phase(slot) {
                SlotPhase::Valid => {
                    self.inner.memory.used(slot).note(table.clock);
                    table.tally.hits += 1;
                    return Lookup::Hit(Pin::new(&self.inner, &table, slot));
                }
                SlotPhase::Filling | SlotPhase::Lent { .. } => return Lookup::Busy,
                SlotPhase::Free => {}
            }
        }
        match table.allocate(file, block) {
            Some((slot, blank)) => {
                table.tally.misses += 1;
                if blank {
                    self.inner.advance.taken(table.unused);
                }
                Lookup::Fill(SlotFill::new(&self.inner, &table, slot, blank))
            }
            None => Lookup::Full,
        }
    }

    /// Publishes a block in the directory, until it leaves the pool or is [invalidated](Pool::invalidate).
    pub fn announce(&self, file: FileId, block: u64, place: SlotRef) {
        self.inner.memory.announce(file, block, place);
    }

    /// Returns up to `most` dirty blocks that no other thread flushes: the least recently modified first, of any file, each
    /// with the dirty blocks right after it and before it. They are in order of files and blocks, so that neighbours can be
    /// stored with one write. Blocks that could not be stored just now are left out.
    pub fn next_dirty(&self, most: usize) -> Vec<BlockFlush> {
        BlockFlush::oldest(&self.inner, most)
    }

    /// Makes up to `most` blocks that could not be stored [due](Pool::next_dirty) again: something may have changed.
    pub fn retry_failed(&self, most: usize) {
        let mut table = self.inner.table();
        let resting = table.entries.iter_mut().filter(|entry| entry.retry.is_some());
        resting.take(most).for_each(|entry| entry.retry = None);
    }

    /// Whether there are blocks that could not be stored just now, and none is being stored: with those alone, no slot
    /// becomes clean.
    pub fn is_stuck(&self) -> bool {
        let mut table = self.inner.table();
        let mut rests = false;
        for slot in 0..self.geometry().slots {
            let entry = table.entry(slot);
            if entry.flushing {
                return false;
            }
            if entry.retry.is_some() && table.update_phase(slot) == SlotPhase::Valid {
                rests |= self.inner.memory.state(slot).get() & DIRTY != 0;
            }
        }
        rests
    }

    /// Returns a sweep of the blocks that are dirty now, of one file or of all.
    pub fn sweep(&self, file: Option<FileId>) -> DirtySweep {
        DirtySweep::new(&self.inner, file)
    }

    /// The end of the file's local part, as far as the blocks here tell; 0 if there are none. A flushed block may leave the
    /// pool at any time: ask the pool first, the store after it, and take the larger.
    pub fn end(&self, file: FileId) -> u64 {
        self.inner.table().end(file)
    }

    /// Starts truncating a file's local part to `end`. `None` while another truncation of the file
    /// is under way.
    pub fn begin_truncation(&self, file: FileId, end: u64) -> Option<PoolTruncation> {
        PoolTruncation::start(&self.inner, file, end)
    }

    /// Returns the truncations that a killed predecessor had recorded. The store knows of each whether it was applied: then
    /// [finish](PoolTruncation::finish) it, else [roll it back](PoolTruncation::roll_back). Until then the blocks concerned
    /// are busy.
    pub fn interrupted_truncations(&self) -> Vec<PoolTruncation> {
        let found = std::mem::take(&mut self.inner.table().interrupted);
        found.into_iter().map(|found| PoolTruncation::resume(&self.inner, found)).collect()
    }

    /// Starts to invalidate these blocks.
    pub fn invalidate(&self, file: FileId, blocks: Range<u64>) -> SlotInvalidation {
        SlotInvalidation::start(&self.inner, file, blocks)
    }

    /// The approximate number of dirty slots.
    pub fn dirty(&self) -> u32 {
        self.inner.memory.dirty()
    }

    /// The number of dirty slots from which on the flusher works, and the number at which it stops.
    pub fn watermarks(&self) -> (u32, u32) {
        let mark = |at| self.inner.memory.header(at).peek().min(u64::from(self.geometry().slots)) as u32;
        let high = mark(AT_HIGH).max(1);
        (high, mark(AT_LOW).min(high - 1))
    }

    /// Sets the watermarks; `high` is at least 1, `low` is less.
    pub fn set_watermarks(&self, high: u32, low: u32) {
        let high = high.clamp(1, self.geometry().slots);
        self.inner.memory.header(AT_HIGH).put(u64::from(high));
        self.inner.memory.header(AT_LOW).put(u64::from(low.min(high - 1)));
        self.wake();
    }

    /// Returns the signal on which a flushing thread waits; one for each such thread.
    pub fn flush_signal(&self) -> FlushSignal {
        let seen = self.inner.memory.event().load(Ordering::SeqCst);
        FlushSignal { pool: self.clone(), seen }
    }

    /// Returns the preparer for the thread that allocates the memory of slots.
    pub fn page_preparer(&self) -> PagePreparer {
        PagePreparer { pool: self.clone(), seen: self.inner.advance.event() }
    }

    /// Wakes all threads that wait on a [`FlushSignal`] or in a [`PagePreparer`].
    pub fn wake(&self) {
        self.inner.memory.ring(true);
        self.inner.advance.wake();
    }

    /// Returns the counters; it examines every slot.
    pub fn counters(&self) -> PoolCounters {
        let mut table = self.inner.table();
        let held = table.held();
        let mut counters = PoolCounters {
            ledgers: table
                .ledgers
                .iter()
                .filter(|ledger| **ledger != crate::ledger::LedgerState::Free)
                .count() as u32,
            hits: table.tally.hits.wrapping_add(table.client_hits()),
            misses: table.tally.misses,
            evictions: table.tally.evictions,
            ..PoolCounters::default()
        };
        for slot in 0..self.geometry().slots {
            match table.update_phase(slot) {
                SlotPhase::Valid => {
                    let dirty =
                        table.entry(slot).flushing || self.inner.memory.state(slot).get() & DIRTY != 0;
                    counters.valid += 1;
                    counters.dirty += u32::from(dirty);
                }
                SlotPhase::Lent { .. } => counters.lent += 1,
                SlotPhase::Free | SlotPhase::Filling => {}
            }
            counters.pinned += u32::from(table.pinned_here(slot) || held.binary_search(&slot).is_ok());
        }
        counters
    }

    /// Excludes all clients from the blocks: for a server that is about to [give up](Pool::retire) the pool. Returns
    /// whether all have released them; if not, ask again in a millisecond, for as long as their writes are worth waiting
    /// for.
    pub fn close(&self) -> bool {
        let mut table = self.inner.table();
        let mut free = true;
        let mut closed = Vec::new();
        for slot in 0..self.geometry().slots {
            match table.update_phase(slot) {
                SlotPhase::Valid => {
                    self.inner.memory.state(slot).set(CLOSED);
                    closed.push(slot);
                }
                SlotPhase::Filling | SlotPhase::Lent { .. } => free = false,
                SlotPhase::Free => {}
            }
        }
        // All slots are closed now, so none of them is pinned after this search of the ledgers.
        let held = table.held();
        free && !closed.iter().any(|slot| held.binary_search(slot).is_ok())
    }

    /// Gives the pool up: blocks that are dirty now can be stored for the last time. A write that ends later is
    /// [refused](crate::PinError::Retired), and so is every pin; a client that is stopped in the middle of a copy learns it
    /// when it continues, whatever happened to this server.
    pub fn retire(&self) {
        self.inner.table().set_retired(true);
    }

    /// The server continues after all.
    pub fn reopen(&self) {
        let mut table = self.inner.table();
        table.set_retired(false);
        for slot in 0..self.geometry().slots {
            if table.update_phase(slot) == SlotPhase::Valid && !table.entry(slot).truncating {
                self.inner.memory.state(slot).clear(CLOSED);
            }
        }
    }

    /// Removes the pool's file, so that it cannot be adopted. Dirty blocks are lost.
    pub fn discard(self) -> Result<()> {
        let path = &self.inner.path;
        match pario_runtime::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::System { what: "remove", path: path.clone(), error })
            }
            _ => Ok(()),
        }
    }
}

impl PoolInner {
    pub fn table(&self) -> MutexGuard<'_, SlotTable> {
        self.table.lock()
    }

    /// Looks at the table unless a thread holds its lock.
    #[cfg(pario_simulation)]
    pub fn inspect<R>(&self, look: impl FnOnce(&SlotTable) -> R) -> Option<R> {
        self.table.inspect(look)
    }
}

/// A flushing thread waits on this event counter. It notices every event since it last waited.
#[derive(Debug)]
pub struct FlushSignal {
    pool: Pool,
    seen: u32,
}

impl FlushSignal {
    /// Sleeps until there is a reason to check: the number of dirty slots has reached the high watermark, the first slot
    /// has become dirty, [`Pool::wake`] was called, or the time is over. It may also return without a reason.
    pub fn wait_for_work(&mut self, limit: Duration) {
        self.sleep(limit, true);
    }

    /// The same, however many slots are dirty: for a thread that cannot store them at the moment.
    pub fn rest(&mut self, limit: Duration) {
        self.sleep(limit, false);
    }

    fn sleep(&mut self, limit: Duration, unless_full: bool) {
        let memory = &self.pool.inner.memory;
        let event = memory.event();
        memory.header(AT_ASLEEP).put(1);
        let full = unless_full && memory.dirty() >= self.pool.watermarks().0;
        if !full && event.load(Ordering::SeqCst) == self.seen {
            pario_shm::futex_wait(event, self.seen, limit);
        }
        self.seen = event.load(Ordering::SeqCst);
    }
}

/// Prepares the slots that are used next: allocates their memory, which takes the kernel longer than a copy, and overwrites
/// old content with zeros.
#[derive(Debug)]
pub struct PagePreparer {
    pool: Pool,
    seen: u32,
}

impl PagePreparer {
    /// Prepares some slots; if there is nothing to do, sleeps until there may be, [`Pool::wake`] is called, or the time is
    /// over.
    pub fn step(&mut self, limit: Duration) {
        let inner = &self.pool.inner;
        let mut table = inner.table();
        let (soiled, unused) = (table.take_soiled(inner.advance.ahead()), table.unused);
        drop(table);
        match soiled {
            Some(slot) => {
                inner.memory.zero_tail(slot, 0);
                inner.table().give_blank(slot);
            }
            None => inner.advance.step(&inner.memory, unused, &mut self.seen, limit),
        }
    }
}

fn claim(path: &Path) -> Result<ExclusiveLock> {
    match ExclusiveLock::try_acquire(path) {
        Ok(Some(claim)) => Ok(claim),
        Ok(None) => Err(Error::InUse(path.into())),
        Err(error) => Err(Error::System { what: "lock", path: path.into(), error }),
    }
}

fn pins(geometry: Geometry) -> Arc<[AtomicU32]> {
    (0..geometry.slots).map(|_| AtomicU32::new(0)).collect()
}
