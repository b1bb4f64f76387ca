//! The cost model of one file system, and the decision between data sieving and single pieces.
//!
//! The model has five prices in nanoseconds: a read call, a read byte, a write call, a written byte and a lock. They
//! start from measured constants of the file system's class and follow the times of real operations. Locks are timed
//! separately. The rest of a measured time is predicted to be mostly calls or mostly bytes; only the prices of that part
//! change, by an eighth of the difference that would explain the time. So many small calls adjust the price of a call,
//! few large calls adjust the price of a byte, and neither disturbs the other. One outlier (a descheduled process) counts
//! at most fourfold, and a price stays between 1/16 and 64 times its start.
//!
//! The decision is made gap by gap. Two neighbouring pieces are joined into one access if the saved call costs more than
//! moving the gap and copying the piece through scratch memory. So within one request, dense regions are sieved and
//! sparse ones are not.

use crate::filesystem::{FileSystem, FsKind};
use crate::meter::TimeSource;
use pario_types::Toggle;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Copying a byte between scratch memory that stays in the processor's cache and the program's memory.
const COPY_BYTE: f64 = 0.08;

/// The largest windows, in bytes, for reads and for writes.
#[derive(Clone, Copy)]
struct WindowLimits {
    read: usize,
    write: usize,
}

/// On a memory file system windows stay small enough for the processor's second-level cache: with four
/// processes, 512 KiB were measured at half the speed of 128 KiB, and 2 MiB at a third. A write waits for the
/// file's lock inside the kernel, once for each window, so its windows are larger: 384 KiB were measured a
/// tenth faster than 128 KiB on new files, and as fast on old ones.
const MEMORY_WINDOWS: WindowLimits = WindowLimits { read: 128 << 10, write: 384 << 10 };

/// On a local disk's file system a call costs more the larger the pages in its cache are, so windows are
/// larger: 512 KiB were measured up to half as fast again as 128 KiB.
const DISK_WINDOWS: WindowLimits = WindowLimits { read: 512 << 10, write: 512 << 10 };

/// On a remote file system the caller alone decides.
const REMOTE_WINDOWS: WindowLimits = WindowLimits { read: usize::MAX, write: usize::MAX };

/// Beyond this a larger window gains nothing anywhere, whatever the caller allows.
const LARGEST_WINDOW: usize = 1 << 30;

/// The prices at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prices {
    pub read_call: f64,
    pub read_byte: f64,
    pub write_call: f64,
    pub write_byte: f64,
    pub lock: f64,
}

const MEMORY: Prices =
    Prices { read_call: 350.0, read_byte: 0.15, write_call: 800.0, write_byte: 0.15, lock: 1_000.0 };
/// ext4 takes 1 µs for a small write to a new file, 3 for one that needs a new page, and up to 8 where the
/// page cache holds large pages.
const DISK: Prices =
    Prices { read_call: 350.0, read_byte: 0.08, write_call: 2_500.0, write_byte: 0.12, lock: 1_000.0 };
const REMOTE: Prices =
    Prices { read_call: 20_000.0, read_byte: 0.5, write_call: 20_000.0, write_byte: 0.5, lock: 200_000.0 };

/// The prices of one file system, as adjusted so far by all files that this process had open on it.
pub(crate) struct CostModel {
    seed: Prices,
    windows: WindowLimits,
    clock: TimeSource,
    read_call: AtomicU64,
    read_byte: AtomicU64,
    write_call: AtomicU64,
    write_byte: AtomicU64,
    lock: AtomicU64,
}

/// The work that was done in a measured time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeasuredWork {
    pub read_calls: u64,
    pub read_bytes: u64,
    pub write_calls: u64,
    pub write_bytes: u64,
    pub copied: u64,
    pub locks: u64,
    /// Wall-clock time of the locks.
    pub lock_time: Duration,
}

impl CostModel {
    pub fn new(fs: &FileSystem) -> CostModel {
        let (seed, windows, clock) = match fs.kind {
            FsKind::Tmpfs => (MEMORY, MEMORY_WINDOWS, TimeSource::Processor),
            _ if fs.is_local() => (DISK, DISK_WINDOWS, TimeSource::Processor),
            _ => (REMOTE, REMOTE_WINDOWS, TimeSource::Wall),
        };
        let cell = |ns: f64| AtomicU64::new(ns.to_bits());
        CostModel {
            seed,
            windows,
            clock,
            read_call: cell(seed.read_call),
            read_byte: cell(seed.read_byte),
            write_call: cell(seed.write_call),
            write_byte: cell(seed.write_byte),
            lock: cell(seed.lock),
        }
    }

    /// The prices of the file system on this device, shared by all files on it.
    pub fn of_device(device: u64, fs: &FileSystem) -> Arc<CostModel> {
        static KNOWN: Mutex<BTreeMap<u64, Arc<CostModel>>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(device).or_insert_with(|| Arc::new(CostModel::new(fs))).clone()
    }

    /// The window to read by where the caller allows `most` bytes of scratch memory.
    pub fn read_window(&self, most: usize) -> u64 {
        self.windows.read.min(most).clamp(1, LARGEST_WINDOW) as u64
    }

    /// The window to write by where the caller allows `most` bytes of scratch memory.
    pub fn write_window(&self, most: usize) -> u64 {
        self.windows.write.min(most).clamp(1, LARGEST_WINDOW) as u64
    }

    /// The clock that measures the work on this file.
    pub fn time_source(&self) -> TimeSource {
        self.clock
    }

    pub fn prices(&self) -> Prices {
        let get = |cell: &AtomicU64| f64::from_bits(cell.load(Ordering::Relaxed));
        Prices {
            read_call: get(&self.read_call),
            read_byte: get(&self.read_byte),
            write_call: get(&self.write_call),
            write_byte: get(&self.write_byte),
            lock: get(&self.lock),
        }
    }

    /// Adjusts the prices to the time that this work took. A race between threads loses one sample only.
    pub fn update(&self, work: &MeasuredWork, took: Duration) {
        let now = self.prices();
        if work.locks > 0 {
            let each = work.lock_time.as_nanos() as f64 / work.locks as f64;
            scale_price(&self.lock, self.seed.lock, each / now.lock);
        }
        // Waiting for locks takes no processor time.
        let waited = if self.clock == TimeSource::Wall { work.lock_time } else { Duration::ZERO };
        let rest = took.saturating_sub(waited).as_nanos() as f64;
        let calls = now.read_call * work.read_calls as f64 + now.write_call * work.write_calls as f64;
        let bytes = now.read_byte * work.read_bytes as f64 + now.write_byte * work.write_bytes as f64;
        let copies = COPY_BYTE * work.copied as f64;
        if calls > bytes + copies {
            let ratio = (rest - bytes - copies) / calls;
            scale_price_if_used(work.read_calls, &self.read_call, self.seed.read_call, ratio);
            scale_price_if_used(work.write_calls, &self.write_call, self.seed.write_call, ratio);
        } else if bytes > 0.0 {
            let ratio = (rest - calls - copies) / bytes;
            scale_price_if_used(work.read_bytes, &self.read_byte, self.seed.read_byte, ratio);
            scale_price_if_used(work.write_bytes, &self.write_byte, self.seed.write_byte, ratio);
        }
    }
}

fn scale_price_if_used(count: u64, cell: &AtomicU64, seed: f64, ratio: f64) {
    if count > 0 {
        scale_price(cell, seed, ratio);
    }
}

/// Moves a price an eighth of the way to `ratio` times itself.
fn scale_price(cell: &AtomicU64, seed: f64, ratio: f64) {
    let price = f64::from_bits(cell.load(Ordering::Relaxed));
    let moved = price * (1.0 + (ratio.clamp(0.25, 4.0) - 1.0) / 8.0);
    cell.store(moved.clamp(seed / 16.0, seed * 64.0).to_bits(), Ordering::Relaxed);
}

/// When to join two pieces across a gap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinRule {
    per_gap_byte: f64,
    per_piece_byte: f64,
    saved: f64,
}

impl JoinRule {
    pub fn for_read(prices: &Prices, toggle: Toggle) -> JoinRule {
        JoinRule {
            per_gap_byte: prices.read_byte,
            per_piece_byte: COPY_BYTE,
            saved: saved(prices.read_call, toggle),
        }
    }

    pub fn for_write(prices: &Prices, toggle: Toggle) -> JoinRule {
        JoinRule {
            per_gap_byte: prices.read_byte + prices.write_byte,
            per_piece_byte: prices.read_byte + COPY_BYTE,
            saved: saved(prices.write_call, toggle),
        }
    }

    /// Whether a gap of `gap` bytes is worth crossing to join `piece` bytes.
    pub fn joins(&self, gap: u64, piece: u64) -> bool {
        gap as f64 * self.per_gap_byte + (piece as f64) * self.per_piece_byte < self.saved
    }
}

fn saved(call: f64, toggle: Toggle) -> f64 {
    match toggle {
        Toggle::Enable => f64::INFINITY,
        Toggle::Disable => 0.0,
        Toggle::Automatic => call,
    }
}

impl Prices {
    /// Whether to read, modify and write `span` bytes rather than write `pieces` pieces of `data` bytes in all.
    pub fn modify_pays(&self, span: u64, data: u64, pieces: u64, locked: bool) -> bool {
        let (span, data, pieces) = (span as f64, data as f64, pieces as f64);
        let lock = if locked { self.lock } else { 0.0 };
        let modify = lock
            + self.read_call
            + self.write_call
            + span * (self.read_byte + self.write_byte)
            + data * COPY_BYTE;
        modify < pieces * self.write_call + data * self.write_byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> CostModel {
        CostModel::new(&FileSystem::new(FsKind::Tmpfs, 4096))
    }

    #[test]
    fn small_gaps_are_joined_and_large_ones_are_not() {
        let rule = JoinRule::for_read(&costs().prices(), Toggle::Automatic);
        assert!(rule.joins(64, 64) && !rule.joins(1 << 20, 64));
        assert!(!JoinRule::for_read(&costs().prices(), Toggle::Disable).joins(1, 1));
        assert!(JoinRule::for_write(&costs().prices(), Toggle::Enable).joins(1 << 40, 1));
    }

    #[test]
    fn costs_follow_measurements_within_bounds() {
        let costs = costs();
        let work = MeasuredWork { write_calls: 1000, write_bytes: 1000, ..MeasuredWork::default() };
        for _ in 0..2000 {
            costs.update(&work, Duration::from_micros(20_000));
        }
        let learnt = costs.prices();
        assert!((15_000.0..21_000.0).contains(&learnt.write_call), "{learnt:?}");
        assert_eq!(learnt.read_call, MEMORY.read_call);
        for _ in 0..10_000 {
            costs.update(&work, Duration::from_secs(1));
        }
        assert_eq!(costs.prices().write_call, MEMORY.write_call * 64.0);
    }

    #[test]
    fn windows_do_not_change_the_cost_of_small_calls() {
        let costs = costs();
        let window = 128 << 10;
        let work = MeasuredWork {
            read_calls: 1,
            read_bytes: window,
            write_calls: 1,
            write_bytes: window,
            ..MeasuredWork::default()
        };
        for _ in 0..100 {
            costs.update(&work, Duration::from_micros(200));
        }
        let learnt = costs.prices();
        assert_eq!((learnt.read_call, learnt.write_call), (MEMORY.read_call, MEMORY.write_call));
        assert!((1.2..1.7).contains(&(learnt.read_byte + learnt.write_byte)), "{learnt:?}");
    }

    #[test]
    fn waiting_for_locks_raises_the_cost_of_locks_alone() {
        let costs = costs();
        let (locks, lock_time) = (10, Duration::from_micros(500));
        let work = MeasuredWork { locks, lock_time, ..MeasuredWork::default() };
        for _ in 0..200 {
            costs.update(&work, lock_time);
        }
        let learnt = costs.prices();
        assert!((45_000.0..50_001.0).contains(&learnt.lock), "{learnt:?}");
        assert_eq!(Prices { lock: MEMORY.lock, ..learnt }, MEMORY);
    }

    #[test]
    fn expensive_calls_make_sieving_worthwhile() {
        let costs = costs();
        assert!(costs.prices().modify_pays(128 << 10, 32 << 10, 512, true));
        assert!(!costs.prices().modify_pays(128 << 10, 32 << 10, 2, true));
        assert!(!costs.prices().modify_pays(200, 128, 2, true));
    }

    #[test]
    fn windows_keep_to_what_the_caller_allows() {
        assert_eq!(costs().read_window(16), 16);
        assert_eq!(costs().read_window(4 << 20), MEMORY_WINDOWS.read as u64);
        assert_eq!(costs().write_window(4 << 20), MEMORY_WINDOWS.write as u64);
        let remote = CostModel::new(&FileSystem::new(FsKind::Lustre, 4096));
        assert_eq!(remote.write_window(4 << 20), 4 << 20);
        assert_eq!(remote.read_window(usize::MAX), LARGEST_WINDOW as u64);
        assert_eq!(costs().write_window(0), 1);
    }
}
