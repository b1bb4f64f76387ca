//! What calls and bytes cost on one file system, and the choice that follows.
//!
//! Five prices in nanoseconds: a read call, a read byte, a write call, a written byte, a lock. They start
//! from measured constants of the file system's class and follow the times of real operations. Locks are
//! timed by themselves. The rest of a measured time is either mostly calls or mostly bytes, as predicted; only
//! the prices of that part move, an eighth of the way to what would explain the time. So the price of a call
//! is learnt where there are many small ones, that of a byte where there are few large ones, and neither
//! disturbs the other. One outlier (a descheduled process) counts at most fourfold, and a price stays within
//! 1/16 and 64 times its start.
//!
//! The choice is made gap by gap. Two neighbouring pieces are joined into one access if the call that saves
//! costs more than moving the gap and copying the piece through scratch memory; so dense stretches are
//! sieved and sparse ones are not, within one request.

use crate::filesystem::{FileSystem, FsKind};
use crate::meter::Clock;
use crate::tuning::Toggle;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Copying a byte between scratch memory that stays in the processor's cache and the program's memory.
const COPY_BYTE: f64 = 0.08;

/// Windows of at most this many bytes for reads and for writes.
#[derive(Clone, Copy)]
struct Windows {
    read: usize,
    write: usize,
}

/// On a memory file system windows stay small enough for the processor's second-level cache: with four
/// processes, 512 KiB were measured at half the speed of 128 KiB, and 2 MiB at a third. A write waits for the
/// file's lock inside the kernel, once for each window, so its windows are larger: 384 KiB were measured a
/// tenth faster than 128 KiB on new files, and as fast on old ones.
const MEMORY_WINDOWS: Windows = Windows { read: 128 << 10, write: 384 << 10 };

/// On a local disk's file system a call costs more the larger the pages in its cache are, so windows are
/// larger: 512 KiB were measured up to half as fast again as 128 KiB.
const DISK_WINDOWS: Windows = Windows { read: 512 << 10, write: 512 << 10 };

/// On a remote file system the caller alone decides.
const REMOTE_WINDOWS: Windows = Windows { read: usize::MAX, write: usize::MAX };

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

/// The prices of one file system, as learnt so far by all files that this process had open on it.
pub(crate) struct Costs {
    seed: Prices,
    windows: Windows,
    clock: Clock,
    read_call: AtomicU64,
    read_byte: AtomicU64,
    write_call: AtomicU64,
    write_byte: AtomicU64,
    lock: AtomicU64,
}

/// How much work a measured stretch of time was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub read_calls: u64,
    pub read_bytes: u64,
    pub write_calls: u64,
    pub write_bytes: u64,
    pub copied: u64,
    pub locks: u64,
    /// What the locks took, on the wall.
    pub lock_time: Duration,
}

impl Costs {
    pub fn new(fs: &FileSystem) -> Costs {
        let (seed, windows, clock) = match fs.kind {
            FsKind::Tmpfs => (MEMORY, MEMORY_WINDOWS, Clock::Processor),
            _ if fs.is_local() => (DISK, DISK_WINDOWS, Clock::Processor),
            _ => (REMOTE, REMOTE_WINDOWS, Clock::Wall),
        };
        let cell = |ns: f64| AtomicU64::new(ns.to_bits());
        Costs {
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
    pub fn of_device(device: u64, fs: &FileSystem) -> Arc<Costs> {
        static KNOWN: Mutex<BTreeMap<u64, Arc<Costs>>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(device).or_insert_with(|| Arc::new(Costs::new(fs))).clone()
    }

    /// The window to read by where the caller allows `most` bytes of scratch memory.
    pub fn read_window(&self, most: usize) -> u64 {
        self.windows.read.min(most).clamp(1, LARGEST_WINDOW) as u64
    }

    /// The window to write by where the caller allows `most` bytes of scratch memory.
    pub fn write_window(&self, most: usize) -> u64 {
        self.windows.write.min(most).clamp(1, LARGEST_WINDOW) as u64
    }

    /// What the work on this file is measured by.
    pub fn clock(&self) -> Clock {
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

    /// Moves the prices towards what this work really took. A race between threads loses a sample, no more.
    pub fn learn(&self, work: &Work, took: Duration) {
        let now = self.prices();
        if work.locks > 0 {
            let each = work.lock_time.as_nanos() as f64 / work.locks as f64;
            move_by(&self.lock, self.seed.lock, each / now.lock);
        }
        // Waiting for locks takes no processor time.
        let waited = if self.clock == Clock::Wall { work.lock_time } else { Duration::ZERO };
        let rest = took.saturating_sub(waited).as_nanos() as f64;
        let calls = now.read_call * work.read_calls as f64 + now.write_call * work.write_calls as f64;
        let bytes = now.read_byte * work.read_bytes as f64 + now.write_byte * work.write_bytes as f64;
        let copies = COPY_BYTE * work.copied as f64;
        if calls > bytes + copies {
            let ratio = (rest - bytes - copies) / calls;
            move_if(work.read_calls, &self.read_call, self.seed.read_call, ratio);
            move_if(work.write_calls, &self.write_call, self.seed.write_call, ratio);
        } else if bytes > 0.0 {
            let ratio = (rest - calls - copies) / bytes;
            move_if(work.read_bytes, &self.read_byte, self.seed.read_byte, ratio);
            move_if(work.write_bytes, &self.write_byte, self.seed.write_byte, ratio);
        }
    }
}

fn move_if(count: u64, cell: &AtomicU64, seed: f64, ratio: f64) {
    if count > 0 {
        move_by(cell, seed, ratio);
    }
}

/// Moves a price an eighth of the way to `ratio` times itself.
fn move_by(cell: &AtomicU64, seed: f64, ratio: f64) {
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
        Toggle::Auto => call,
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

    fn costs() -> Costs {
        Costs::new(&FileSystem::new(FsKind::Tmpfs, 4096))
    }

    #[test]
    fn small_gaps_are_joined_and_large_ones_are_not() {
        let rule = JoinRule::for_read(&costs().prices(), Toggle::Auto);
        assert!(rule.joins(64, 64) && !rule.joins(1 << 20, 64));
        assert!(!JoinRule::for_read(&costs().prices(), Toggle::Disable).joins(1, 1));
        assert!(JoinRule::for_write(&costs().prices(), Toggle::Enable).joins(1 << 40, 1));
    }

    #[test]
    fn prices_follow_what_is_measured_within_bounds() {
        let costs = costs();
        let work = Work { write_calls: 1000, write_bytes: 1000, ..Work::default() };
        for _ in 0..2000 {
            costs.learn(&work, Duration::from_micros(20_000));
        }
        let learnt = costs.prices();
        assert!((15_000.0..21_000.0).contains(&learnt.write_call), "{learnt:?}");
        assert_eq!(learnt.read_call, MEMORY.read_call);
        for _ in 0..10_000 {
            costs.learn(&work, Duration::from_secs(1));
        }
        assert_eq!(costs.prices().write_call, MEMORY.write_call * 64.0);
    }

    #[test]
    fn windows_do_not_teach_the_price_of_small_calls() {
        let costs = costs();
        let window = 128 << 10;
        let work = Work {
            read_calls: 1,
            read_bytes: window,
            write_calls: 1,
            write_bytes: window,
            ..Work::default()
        };
        for _ in 0..100 {
            costs.learn(&work, Duration::from_micros(200));
        }
        let learnt = costs.prices();
        assert_eq!((learnt.read_call, learnt.write_call), (MEMORY.read_call, MEMORY.write_call));
        assert!((1.2..1.7).contains(&(learnt.read_byte + learnt.write_byte)), "{learnt:?}");
    }

    #[test]
    fn waiting_for_locks_makes_locks_dear_and_nothing_else() {
        let costs = costs();
        let (locks, lock_time) = (10, Duration::from_micros(500));
        let work = Work { locks, lock_time, ..Work::default() };
        for _ in 0..200 {
            costs.learn(&work, lock_time);
        }
        let learnt = costs.prices();
        assert!((45_000.0..50_001.0).contains(&learnt.lock), "{learnt:?}");
        assert_eq!(Prices { lock: MEMORY.lock, ..learnt }, MEMORY);
    }

    #[test]
    fn dear_calls_make_sieving_pay() {
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
        let remote = Costs::new(&FileSystem::new(FsKind::Lustre, 4096));
        assert_eq!(remote.write_window(4 << 20), 4 << 20);
        assert_eq!(remote.read_window(usize::MAX), LARGEST_WINDOW as u64);
        assert_eq!(costs().write_window(0), 1);
    }
}
