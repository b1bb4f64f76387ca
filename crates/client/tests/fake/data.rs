//! A server's data: parts of files in a map, and a pool over them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pario_cache::{BlockFlush, Geometry, LedgerId, Lookup, Pool, PoolIdentity, PoolTruncation, SweepStep};
use pario_layout::StripedView;
use pario_types::{ErrorKind, FileId, ServerId};
use pario_wire::message::{
    AcquireIntent, BlockRange, BlockSlot, ByteRange, ByteSelection, Failure, StorageSpace,
};
use pario_wire::{Reply, Request};

use super::PARTITION;

pub const BLOCK: u32 = 4096;

pub struct Data {
    path: PathBuf,
    identity: PoolIdentity,
    slots: u32,
    pool: Mutex<Option<Pool>>,
    parts: Mutex<HashMap<FileId, Vec<u8>>>,
    /// The remembered view, and for how many accesses.
    view: Mutex<Option<(StripedView, u32)>>,
    /// The prefetch requests that it accepted, and its limit.
    pub kept: Mutex<Vec<ByteRange>>,
    pub most_kept: AtomicUsize,
    locked: AtomicBool,
}

impl Data {
    pub fn new(directory: &Path, server: ServerId, slots: u32) -> Data {
        let data = Data {
            path: directory.join(format!("{server}.pool")),
            identity: PoolIdentity { partition: PARTITION, server },
            slots,
            pool: Mutex::default(),
            parts: Mutex::default(),
            view: Mutex::default(),
            kept: Mutex::default(),
            most_kept: AtomicUsize::new(0),
            locked: AtomicBool::new(false),
        };
        data.make_pool();
        data
    }

    fn make_pool(&self) {
        let geometry = Geometry { block: BLOCK, slots: self.slots, ledgers: 64 };
        let pool =
            (self.slots > 0).then(|| Pool::create(&self.path, geometry, self.identity).expect("a pool"));
        *self.pool.lock().unwrap() = pool;
    }

    /// As if the server's host had restarted: the pool is empty.
    pub fn lose_pool(&self) {
        if let Some(pool) = self.pool.lock().unwrap().take() {
            pool.discard().expect("removed");
        }
        self.make_pool();
    }

    pub fn pool(&self) -> Option<Pool> {
        self.pool.lock().unwrap().clone()
    }

    /// Performs a request about data; `None` if it is about names.
    pub fn apply(
        &self,
        request: &Request,
        payload: &[u8],
        answer: &mut [u8],
        ledger: Option<LedgerId>,
    ) -> Option<Reply> {
        Some(match request {
            Request::Acquire { file, intent, blocks, .. } => {
                Reply::Slots(self.acquire(*file, *intent, blocks, ledger.expect("a ledger")))
            }
            Request::Read { file, what } => match self.ranges(what) {
                None => Reply::NoView,
                Some(ranges) => {
                    self.each(&ranges, |at, from, to| self.read(*file, at, &mut answer[from..to]));
                    Reply::Data { end: self.end(*file) }
                }
            },
            Request::Write { file, what } => match self.ranges(what) {
                None => Reply::NoView,
                Some(ranges) => {
                    self.each(&ranges, |at, from, to| self.write(*file, at, &payload[from..to]));
                    Reply::Done
                }
            },
            Request::PutView { hash, .. } => {
                let seen = StripedView::from_bytes(payload).expect("a view");
                assert_eq!(seen.hash(), *hash);
                *self.view.lock().unwrap() = Some((seen, 3));
                Reply::Done
            }
            Request::End { file } => Reply::End { end: self.end(*file) },
            Request::Truncate { file, end, .. } => {
                let mut cut = self.pool().map(|pool| {
                    loop {
                        if let Some(cut) = pool.begin_truncation(*file, *end) {
                            break cut;
                        }
                        std::thread::yield_now();
                    }
                });
                if let Some(cut) = &mut cut {
                    cut.wait(Duration::from_secs(10)).expect("cut");
                }
                self.parts.lock().unwrap().entry(*file).or_default().resize(*end as usize, 0);
                cut.iter_mut().for_each(PoolTruncation::finish);
                Reply::Done
            }
            Request::Sync { file, .. } => {
                self.sync(*file);
                Reply::Done
            }
            Request::Prefetch { ranges, .. } => {
                let mut kept = self.kept.lock().unwrap();
                let room = self.most_kept.load(Ordering::Relaxed).saturating_sub(kept.len());
                let taken = ranges.len().min(room);
                kept.extend_from_slice(&ranges[..taken]);
                Reply::Prefetched { taken: taken as u32 }
            }
            Request::CancelPrefetch { ranges, .. } => {
                let mut kept = self.kept.lock().unwrap();
                for range in ranges {
                    let index = kept.iter().position(|one| one == range).expect("forgets what is kept");
                    kept.remove(index);
                }
                Reply::Done
            }
            Request::TryLock { .. } if self.locked.swap(true, Ordering::Relaxed) => {
                let (kind, text) = (ErrorKind::FileInUse, "in use".into());
                Reply::Failed(Failure { kind, errno: 0, text })
            }
            Request::TryLock { .. } => Reply::Locked { lock: 7 },
            Request::Unlock { lock: 7 } => {
                self.locked.store(false, Ordering::Relaxed);
                Reply::Done
            }
            Request::Ping => Reply::Done,
            Request::StorageSpace => {
                Reply::StorageSpace(StorageSpace { total: 100, free: 60, used: 40, parts: 1 })
            }
            _ => return None,
        })
    }

    /// Returns the location of the bytes; `None` if the view is not the remembered one.
    fn ranges(&self, what: &ByteSelection) -> Option<Vec<ByteRange>> {
        let (view, at, len, bytes) = match what {
            ByteSelection::Ranges(ranges) => return Some(ranges.clone()),
            ByteSelection::View { view, at, len, bytes } => (*view, *at, *len, *bytes),
        };
        let mut known = self.view.lock().unwrap();
        let (seen, uses) = known.as_mut().filter(|(seen, uses)| seen.hash() == view && *uses > 0)?;
        *uses -= 1;
        let place = seen.striping().place(self.identity.server).expect("a holder");
        let extent = seen.extent(place, at..at + len).expect("not too much");
        assert_eq!(extent.bytes, bytes, "client and server count alike");
        Some(seen.pieces(place, at..at + len).map(|(at, len)| ByteRange { at, len }).collect())
    }

    fn each(&self, ranges: &[ByteRange], mut act: impl FnMut(u64, usize, usize)) {
        let mut done = 0;
        for range in ranges {
            act(range.at, done, done + range.len as usize);
            done += range.len as usize;
        }
    }

    fn stored(&self, file: FileId, at: u64, out: &mut [u8]) -> u64 {
        let parts = self.parts.lock().unwrap();
        let part = parts.get(&file).map_or(&[][..], Vec::as_slice);
        out.fill(0);
        let from = (at as usize).min(part.len());
        let to = (at as usize + out.len()).min(part.len());
        out[..to - from].copy_from_slice(&part[from..to]);
        part.len() as u64
    }

    fn store(&self, file: FileId, at: u64, bytes: &[u8]) {
        let mut parts = self.parts.lock().unwrap();
        let part = parts.entry(file).or_default();
        let end = at as usize + bytes.len();
        if part.len() < end {
            part.resize(end, 0);
        }
        part[at as usize..end].copy_from_slice(bytes);
    }

    fn end(&self, file: FileId) -> u64 {
        let cached = self.pool().map_or(0, |pool| pool.end(file));
        cached.max(self.parts.lock().unwrap().get(&file).map_or(0, |part| part.len() as u64))
    }

    fn read(&self, file: FileId, at: u64, out: &mut [u8]) {
        let Some(pool) = self.pool() else {
            self.stored(file, at, out);
            return;
        };
        blocks(at, out.len(), |block, within, range| match self.get(&pool, file, block) {
            Lookup::Hit(pin) => pin.read(within, &mut out[range]),
            _ => unreachable!("only hits come back"),
        });
    }

    fn write(&self, file: FileId, at: u64, bytes: &[u8]) {
        let Some(pool) = self.pool() else { return self.store(file, at, bytes) };
        blocks(at, bytes.len(), |block, within, range| match self.get(&pool, file, block) {
            Lookup::Hit(pin) => pin.write(within, &bytes[range]).expect("not retired"),
            _ => unreachable!("only hits come back"),
        });
    }

    /// A block, filled if need be.
    fn get(&self, pool: &Pool, file: FileId, block: u64) -> Lookup {
        loop {
            match pool.get(file, block) {
                Lookup::Hit(pin) => return Lookup::Hit(pin),
                Lookup::Fill(mut fill) => {
                    let at = block * u64::from(BLOCK);
                    let mut bytes = vec![0; BLOCK as usize];
                    let end = self.stored(file, at, &mut bytes);
                    fill.bytes(0..BLOCK, |slot| slot.copy_from_slice(&bytes));
                    fill.done(end.saturating_sub(at).min(u64::from(BLOCK)) as u32);
                }
                Lookup::Busy => std::thread::yield_now(),
                Lookup::Full => self.flush(pool.next_dirty(4)),
            }
        }
    }

    fn acquire(
        &self,
        file: FileId,
        intent: AcquireIntent,
        runs: &[BlockRange],
        ledger: LedgerId,
    ) -> Vec<BlockSlot> {
        let pool = self.pool().expect("a pool");
        let mut slots = Vec::new();
        for block in runs.iter().flat_map(|run| (0..u64::from(run.count)).map(|i| run.first + i)) {
            let mut found = pool.get(file, block);
            // The first block is waited for: the reply needs at least one.
            while slots.is_empty() && matches!(found, Lookup::Busy | Lookup::Full) {
                self.flush(pool.next_dirty(4));
                std::thread::yield_now();
                found = pool.get(file, block);
            }
            let (place, pending) = match found {
                Lookup::Hit(pin) => (pin.slot_ref(), false),
                Lookup::Fill(fill) if intent == AcquireIntent::Overwrite => (fill.lend(ledger, false), true),
                Lookup::Fill(fill) => {
                    drop(fill);
                    match self.get(&pool, file, block) {
                        Lookup::Hit(pin) => (pin.slot_ref(), false),
                        _ => unreachable!("only hits come back"),
                    }
                }
                Lookup::Busy | Lookup::Full => break,
            };
            slots.push(BlockSlot { block, slot: place.slot, generation: place.generation, pending });
        }
        slots
    }

    fn flush(&self, flushes: Vec<BlockFlush>) {
        for flush in flushes {
            let mut bytes = vec![0; flush.end() as usize];
            flush.copy_to(&mut bytes);
            self.store(flush.file(), flush.block() * u64::from(BLOCK), &bytes);
            flush.clean();
        }
    }

    fn sync(&self, file: FileId) {
        let Some(pool) = self.pool() else { return };
        let mut sweep = pool.sweep(Some(file).filter(|file| *file != FileId(0)));
        loop {
            match sweep.next(16) {
                SweepStep::Flush(flushes) => self.flush(flushes),
                SweepStep::Wait => std::thread::yield_now(),
                SweepStep::Done => return,
            }
        }
    }
}

fn blocks(at: u64, len: usize, mut act: impl FnMut(u64, u32, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let here = at + done as u64;
        let within = (here % u64::from(BLOCK)) as usize;
        let end = (done + BLOCK as usize - within).min(len);
        act(here / u64::from(BLOCK), within as u32, done..end);
        done = end;
    }
}
