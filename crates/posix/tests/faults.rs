//! Faults put in at the system calls: retries, short counts, errors with their place, and fallbacks.

mod fixture;

use fixture::*;
use pario_posix::{Errno, Error, FileOperation, FileSystem, FsKind, Linux, LockOp, PlainFile, Syscalls};
use pario_types::{AccessTuning, Toggle};
use pario_types::{ErrorKind, Offset, Pos};
use proptest::prelude::*;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Linux with faults. Data calls are counted from 1 on.
#[derive(Default)]
struct Faulty {
    calls: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    locks: AtomicU64,
    /// This data call fails with this number.
    fail: Option<(u64, i32)>,
    /// Every call but each n-th is interrupted.
    interrupt: u64,
    /// No call moves more than this.
    most: Option<usize>,
    /// Writes accept nothing from this call on.
    stall: Option<u64>,
    /// Locks fail with this number, after so many calls that worked.
    refuse_locks: Option<(u64, i32)>,
    refuse_allocate: bool,
}

impl Faulty {
    /// The result of the next data call: an error, "nothing", or up to so many bytes.
    fn next(&self, len: usize, write: bool) -> Result<usize, Errno> {
        let call = self.calls.fetch_add(1, Relaxed) + 1;
        if write { &self.writes } else { &self.reads }.fetch_add(1, Relaxed);
        match self.fail {
            Some((k, errno)) if k == call => return Err(Errno(errno)),
            _ => {}
        }
        if self.interrupt > 0 && !call.is_multiple_of(self.interrupt) {
            return Err(Errno(libc::EINTR));
        }
        if write && self.stall.is_some_and(|from| call >= from) {
            return Ok(0);
        }
        Ok(self.most.unwrap_or(usize::MAX).min(len))
    }
}

impl Syscalls for Faulty {
    unsafe fn pread(&self, fd: RawFd, to: *mut u8, len: usize, at: u64) -> Result<usize, Errno> {
        let len = self.next(len, false)?;
        // SAFETY: not more than the caller's length.
        unsafe { Linux.pread(fd, to, len, at) }
    }

    unsafe fn pwrite(&self, fd: RawFd, from: *const u8, len: usize, at: u64) -> Result<usize, Errno> {
        let len = self.next(len, true)?;
        // SAFETY: not more than the caller's length.
        unsafe { Linux.pwrite(fd, from, len, at) }
    }

    unsafe fn preadv(&self, fd: RawFd, to: &[libc::iovec], at: u64) -> Result<usize, Errno> {
        let first = to.iter().find(|piece| piece.iov_len > 0).unwrap();
        // SAFETY: a part of the first piece, as a short count may be.
        unsafe { self.pread(fd, first.iov_base.cast(), first.iov_len, at) }
    }

    unsafe fn pwritev(&self, fd: RawFd, from: &[libc::iovec], at: u64) -> Result<usize, Errno> {
        let first = from.iter().find(|piece| piece.iov_len > 0).unwrap();
        // SAFETY: a part of the first piece, as a short count may be.
        unsafe { self.pwrite(fd, first.iov_base.cast(), first.iov_len, at) }
    }

    fn lock(&self, fd: RawFd, op: LockOp, wait: bool, start: u64, len: u64) -> Result<(), Errno> {
        let call = self.locks.fetch_add(1, Relaxed);
        match self.refuse_locks {
            Some((after, errno)) if call >= after => Err(Errno(errno)),
            _ if self.interrupt > 0 && call.is_multiple_of(2) => Err(Errno(libc::EINTR)),
            _ => Linux.lock(fd, op, wait, start, len),
        }
    }

    fn allocate(&self, fd: RawFd, keep_size: bool, at: u64, len: u64) -> Result<(), Errno> {
        match self.refuse_allocate {
            true => Err(Errno(libc::EOPNOTSUPP)),
            false => Linux.allocate(fd, keep_size, at, len),
        }
    }
}

fn open_faulty(path: &TempPath, faulty: Faulty) -> (PlainFile, Arc<Faulty>) {
    let faulty = Arc::new(faulty);
    let fs = FileSystem::new(FsKind::Tmpfs, 4096);
    (PlainFile::open_with(&path.0, &both(), faulty.clone(), Some(fs)).unwrap(), faulty)
}

fn forced(toggle: Toggle) -> AccessTuning {
    AccessTuning {
        sieve_read: toggle,
        sieve_write: toggle,
        write_buffer: 256,
        read_buffer: 256,
        ..AccessTuning::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn interruptions_and_short_counts_change_nothing(
        most in 1usize..40, interrupt in prop_oneof![Just(0u64), Just(2), Just(3)],
        sieve in any::<bool>(), layout in ascending(), coarse in any::<bool>(),
    ) {
        let len = 700;
        let path = TempPath::with(&[7; 900]);
        let (file, _) = open_faulty(&path, Faulty { most: Some(most), interrupt, ..Faulty::default() });
        let mem = if coarse { strided(0, 1500, 1600, 1) } else { strided(1, 3, 5, 40) };
        let mut memory = Memory::new(&mem, 2 * len);
        memory.fill(|i| (i % 253) as u8);
        let tune = forced(if sieve { Toggle::Enable } else { Toggle::Disable });
        file.write(&layout.view(0), Pos(0), &memory.buffer, 900 % len, len, &tune).unwrap();
        let mut expected = vec![7; 900];
        for i in 0..len {
            let offset = layout.offset(i) as usize;
            expected.resize(expected.len().max(offset + 1), 0);
            expected[offset] = memory.get(900 % len + i);
        }
        prop_assert_eq!(path.bytes(), expected);
        let back = Memory::new(&mem, len);
        prop_assert_eq!(file.read(&layout.view(0), Pos(0), &back.buffer, 0, len, &tune).unwrap(), len);
        prop_assert!((0..len).all(|i| back.get(i) == memory.get(900 % len + i)));
    }

    #[test]
    fn an_error_says_how_many_leading_bytes_are_done(
        k in 1u64..40, sieve in any::<bool>(), most in prop::option::of(1usize..30), write in any::<bool>(),
        rank in 0u32..3,
    ) {
        let (layout, len) = (strided(0, 10, 30, 5), 200);
        let path = TempPath::with(&[7; 700]);
        let (file, _) = open_faulty(&path, Faulty { fail: Some((k, libc::EIO)), most, ..Faulty::default() });
        let mut memory = whole(len);
        if write {
            memory.fill(|i| 100 + (i % 100) as u8);
        }
        let toggle = if sieve { Toggle::Enable } else { Toggle::Disable };
        let tune = AccessTuning { stagger: (rank, 3), ..forced(toggle) };
        let view = layout.view(0);
        let result = match write {
            true => file.write(&view, Pos(0), &memory.buffer, 0, len, &tune),
            false => file.read(&view, Pos(0), &memory.buffer, 0, len, &tune),
        };
        let now = path.bytes();
        let right = |i: u64| now[layout.offset(i) as usize] == memory.get(i);
        match result {
            Ok(done) => {
                prop_assert_eq!(done, len);
                prop_assert!((0..len).all(right));
            }
            Err(error) => {
                prop_assert_eq!(error.errno(), Some(libc::EIO));
                prop_assert!(error.done() < len);
                prop_assert!((0..error.done()).all(right), "{} bytes were said to be done", error.done());
            }
        }
        // Gaps keep their bytes after any failure.
        let mine: Vec<usize> = (0..len).map(|i| layout.offset(i) as usize).collect();
        prop_assert!((0..700).filter(|i| !mine.contains(i)).all(|i| now[i] == 7));
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_the_offset() {
    let path = TempPath::with(&[]);
    let (file, _) = open_faulty(&path, Faulty { fail: Some((3, libc::ENOSPC)), ..Faulty::default() });
    let memory = whole(40);
    let view = strided(100, 10, 50, 1).view(0);
    let error = file.write(&view, Pos(0), &memory.buffer, 0, 40, &forced(Toggle::Disable)).unwrap_err();
    assert_eq!((error.kind(), error.done()), (ErrorKind::NoSpace, 20));
    assert!(
        matches!(error, Error::System { action: FileOperation::Write, at: Some(Offset(200)), .. }),
        "{error}"
    );
}

#[test]
fn a_write_that_accepts_nothing_is_an_error() {
    let path = TempPath::with(&[]);
    let (file, _) = open_faulty(&path, Faulty { stall: Some(2), most: Some(4), ..Faulty::default() });
    let error = file.write_bytes(Offset(10), &[1; 20]).unwrap_err();
    assert!(matches!(error, Error::NoProgress { at: Offset(14), done: 4, .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn without_locks_writes_go_piece_by_piece_and_atomic_mode_is_refused() {
    for errno in [libc::ENOSYS, libc::EOPNOTSUPP, libc::EINVAL, libc::ENOLCK] {
        let path = TempPath::with(&[7; 400]);
        let (file, calls) =
            open_faulty(&path, Faulty { refuse_locks: Some((0, errno)), ..Faulty::default() });
        let mut memory = whole(100);
        memory.fill(|i| i as u8);
        let view = strided(0, 10, 30, 1).view(0);
        file.write(&view, Pos(0), &memory.buffer, 0, 100, &forced(Toggle::Enable)).unwrap();
        assert_eq!((calls.reads.load(Relaxed), calls.writes.load(Relaxed)), (0, 10));
        assert_eq!(calls.locks.load(Relaxed), 1, "asked once and remembered");
        assert!(!file.can_sieve_writes());
        let atomic = AccessTuning { atomic: true, ..AccessTuning::default() };
        let error = file.write(&view, Pos(0), &memory.buffer, 0, 100, &atomic).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedOperation);
        // A sole owner needs no lock of the kernel.
        let sole = AccessTuning { sole: true, ..forced(Toggle::Enable) };
        file.write(&view, Pos(0), &memory.buffer, 0, 100, &sole).unwrap();
        assert!(calls.reads.load(Relaxed) > 0);
    }
}

#[test]
fn a_lock_that_fails_after_others_worked_is_an_error() {
    let path = TempPath::with(&[7; 400]);
    let (file, _) = open_faulty(&path, Faulty { refuse_locks: Some((2, libc::ENOLCK)), ..Faulty::default() });
    drop(file.lock(Offset(0)..Offset(10), true).unwrap());
    let error = file.write_bytes(Offset(0), &[1; 4]).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Io, Some(libc::ENOLCK)));
    assert_eq!(path.bytes(), [7; 400]);
}

#[test]
fn windows_are_sieved_under_one_lock_each_and_pieces_under_one_in_all() {
    let path = TempPath::with(&[7; 4000]);
    let (file, calls) = open_faulty(&path, Faulty::default());
    let memory = whole(400);
    let view = strided(0, 10, 30, 1).view(0);
    let count = |tune: &AccessTuning| {
        let before = [&calls.reads, &calls.writes, &calls.locks].map(|c| c.load(Relaxed));
        file.write(&view, Pos(0), &memory.buffer, 0, 400, tune).unwrap();
        let after = [&calls.reads, &calls.writes, &calls.locks].map(|c| c.load(Relaxed));
        [after[0] - before[0], after[1] - before[1], after[2] - before[2]]
    };
    // 1180 bytes in cells of 256: five windows, each locked and released.
    assert_eq!(count(&forced(Toggle::Enable)), [5, 5, 10]);
    assert_eq!(count(&AccessTuning { sole: true, ..forced(Toggle::Enable) }), [5, 5, 0]);
    assert_eq!(count(&forced(Toggle::Disable)), [0, 40, 2]);
    assert_eq!(count(&AccessTuning { peers_sieve: false, ..forced(Toggle::Disable) }), [0, 40, 0]);
    // In atomic mode one lock covers everything.
    assert_eq!(count(&AccessTuning { atomic: true, ..forced(Toggle::Enable) }), [5, 5, 2]);
    assert_eq!(count(&AccessTuning { atomic: true, ..forced(Toggle::Disable) }), [0, 40, 2]);
}

#[test]
fn space_is_reserved_by_zeros_where_the_system_cannot() {
    let path = TempPath::with(b"data");
    let (file, calls) = open_faulty(&path, Faulty { refuse_allocate: true, ..Faulty::default() });
    file.set_size(100_000).unwrap();
    file.write_bytes(Offset(99_998), b"zz").unwrap();
    file.preallocate(150_000).unwrap();
    assert!(calls.writes.load(Relaxed) > 1);
    let mut expected = vec![0; 150_000];
    expected[..4].copy_from_slice(b"data");
    expected[99_998..100_000].copy_from_slice(b"zz");
    assert_eq!(path.bytes(), expected);
    file.preallocate(10).unwrap();
    assert_eq!(file.size().unwrap(), 150_000);
}

#[test]
fn try_lock_succeeds_for_the_holder_and_fails_for_others() {
    let path = TempPath::with(&[7; 100]);
    let (one, two) = (open(&path.0), open(&path.0));
    let held = one.try_lock_owned(Offset(0)..Offset(50), true).unwrap().unwrap();
    assert!(two.try_lock_owned(Offset(49)..Offset(60), false).unwrap().is_none());
    assert!(two.try_lock_owned(Offset(50)..Offset(60), true).unwrap().is_some());
    one.write_bytes(Offset(10), b"inside").unwrap();
    two.write_locked(Offset(16), b" on behalf of").unwrap();
    assert_eq!(&path.bytes()[10..29], b"inside on behalf of");
    held.release().unwrap();
    assert!(two.try_lock_owned(Offset(49)..Offset(60), false).unwrap().is_some());
    let (refusing, _) =
        open_faulty(&path, Faulty { refuse_locks: Some((0, libc::ENOLCK)), ..Faulty::default() });
    let error = refusing.try_lock_owned(Offset(0)..Offset(1), true).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::UnsupportedOperation);
}
