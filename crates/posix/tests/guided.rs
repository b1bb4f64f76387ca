//! Guided prefetch: the hints to the system about irregular reads, and the correctness of the bytes.
#![allow(clippy::single_range_in_vec_init)] // lists of ranges are what this is about

mod fixture;

use fixture::*;
use pario_file_backend::{BackendError, read_ranges};
use pario_posix::{AccessAdvice, Errno, FileSystem, FsKind, Linux, PlainFile, Syscalls};
use pario_types::Pos;
use pario_types::{AccessTuning, PrefetchLimits};
use proptest::prelude::*;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Linux that records its hints: `soon 3..9`, `done 3..9`, `read 3..9`.
#[derive(Default)]
struct Listening {
    said: Mutex<Vec<String>>,
    advised: AtomicU64,
    /// Prefetches with these numbers, from 0 on, are refused.
    refuse: Vec<u64>,
    /// Reads at or beyond this offset fail.
    fail_from: Option<u64>,
    /// Bytes from here on are in memory.
    kept_from: Option<u64>,
}

impl Listening {
    fn say(&self, word: &str, at: u64, len: u64) {
        self.said.lock().unwrap().push(format!("{word} {at}..{}", at + len));
    }

    fn said(&self, word: &str) -> Vec<String> {
        let said = self.said.lock().unwrap();
        said.iter().filter_map(|s| s.strip_prefix(word)).map(|s| s.trim().to_string()).collect()
    }
}

impl Syscalls for Listening {
    unsafe fn pread(&self, fd: RawFd, to: *mut u8, len: usize, at: u64) -> Result<usize, Errno> {
        self.say("read", at, len as u64);
        if self.fail_from.is_some_and(|from| at >= from) {
            return Err(Errno(libc::EIO));
        }
        // SAFETY: passed on.
        unsafe { Linux.pread(fd, to, len, at) }
    }

    fn is_in_memory(&self, _: RawFd, at: u64) -> bool {
        self.kept_from.is_some_and(|from| at >= from)
    }

    fn advise(&self, _: RawFd, advice: AccessAdvice, at: u64, len: u64) -> Result<(), Errno> {
        if advice == AccessAdvice::WillNeed {
            if self.refuse.contains(&self.advised.fetch_add(1, Relaxed)) {
                return Err(Errno(libc::EAGAIN));
            }
            self.say("soon", at, len);
        } else {
            self.say("done", at, len);
        }
        Ok(())
    }
}

fn open_listening(path: &TempPath, sys: Listening) -> (PlainFile, Arc<Listening>) {
    let sys = Arc::new(sys);
    let fs = FileSystem::new(FsKind::Gpfs, 4096);
    (PlainFile::open_with(&path.0, &both(), sys.clone(), Some(fs)).unwrap(), sys)
}

fn contents(len: u64) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn parts(list: &[Range<u64>]) -> Vec<Range<Pos>> {
    list.iter().map(|part| Pos(part.start)..Pos(part.end)).collect()
}

const LIMITS: PrefetchLimits = PrefetchLimits { block: 100, max_pre: 2, max_acc: 1 };

/// Reads `list` of the layout, piece by piece, and tells what the system was told.
fn told(layout: &Layout, list: &[Range<u64>], limits: PrefetchLimits) -> String {
    let path = TempPath::with(&contents(5000));
    let (file, sys) = open_listening(&path, Listening::default());
    let len = list.iter().map(|part| part.end - part.start).sum();
    let memory = whole(len);
    let tune = AccessTuning { sieve_read: pario_types::Toggle::Disable, ..AccessTuning::default() };
    let got = read_ranges(&file, &layout.view(0), &parts(list), &memory.buffer, 0, &tune, limits);
    assert_eq!(got.unwrap(), len);
    let positions = list.iter().flat_map(Range::clone);
    let expected: Vec<u8> = positions.map(|at| contents(5000)[layout.offset(at) as usize]).collect();
    assert_eq!(memory.bytes[..len as usize], expected);
    sys.said.lock().unwrap().join(", ")
}

fn irregular() -> Layout {
    Layout { pieces: vec![(5, 10), (120, 30), (160, 10), (390, 20)], extent: 500 }
}

#[test]
fn an_irregular_list_is_prefetched_and_released_block_by_block() {
    assert_eq!(
        told(&irregular(), &[0..70], LIMITS),
        "soon 5..15, soon 120..170, read 5..15, done 5..15, soon 390..400, read 120..150, read 160..170, \
         done 120..170, soon 400..410, read 390..400, done 390..400, read 400..410, done 400..410"
    );
}

#[test]
fn only_the_bytes_of_the_parts_count() {
    assert_eq!(
        told(&irregular(), &[0..10, 12..14, 50..60], LIMITS),
        "soon 5..15, soon 122..124, read 5..15, done 5..15, soon 390..400, read 122..124, done 122..124, \
         read 390..400, done 390..400"
    );
}

#[test]
fn regular_lists_and_single_ranges_are_left_to_read_ahead() {
    let vector = strided(3, 10, 130, 1);
    // Every other block of a strided request, and a request cut within pieces: regular all the same.
    for list in [&[0..100][..], &[0..7, 20..35], &[4..96], &[17..18]] {
        let told = told(&vector, list, LIMITS);
        assert!(!told.contains("soon") && !told.contains("done"), "{list:?}: {told}");
    }
    assert_eq!(told(&irregular(), &[11..39], LIMITS), "read 121..149");
    assert_eq!(told(&irregular(), &[], LIMITS), "");
}

#[test]
fn max_acc_0_turns_it_off() {
    let told = told(&irregular(), &[0..70], PrefetchLimits { max_acc: 0, ..LIMITS });
    assert_eq!(told, "read 5..15, read 120..150, read 160..170, read 390..410");
}

#[test]
fn cached_pages_are_neither_prefetched_nor_released() {
    let path = TempPath::with(&contents(5000));
    let (file, sys) = open_listening(&path, Listening { kept_from: Some(390), ..Listening::default() });
    let memory = whole(70);
    let view = irregular().view(0);
    let got =
        read_ranges(&file, &view, &parts(&[0..70]), &memory.buffer, 0, &AccessTuning::default(), LIMITS);
    assert_eq!(got.unwrap(), 70);
    assert_eq!(sys.said("soon"), ["5..15", "120..170"]);
    assert_eq!(sys.said("done"), sys.said("soon"));
}

#[test]
fn an_error_names_its_offset_and_leaves_nothing_prefetched() {
    let path = TempPath::with(&contents(5000));
    let (file, sys) = open_listening(&path, Listening { fail_from: Some(150), ..Listening::default() });
    let tune = AccessTuning { sieve_read: pario_types::Toggle::Disable, ..AccessTuning::default() };
    let limits = PrefetchLimits { max_pre: 3, max_acc: 3, ..LIMITS };
    let memory = whole(70);
    let result = read_ranges(&file, &irregular().view(0), &parts(&[0..70]), &memory.buffer, 0, &tune, limits);
    let BackendError { at, done, errno, .. } = result.unwrap_err();
    assert_eq!((at.map(|at| at.0), done, errno), (Some(160), 40, Some(libc::EIO)));
    assert_eq!(sys.said("soon"), ["5..15", "120..170", "390..400"]);
    assert_eq!(sys.said("done"), sys.said("soon"));
}

#[test]
fn prefetching_stops_at_the_end_of_the_file() {
    let path = TempPath::with(&contents(130));
    let (file, sys) = open_listening(&path, Listening::default());
    let memory = whole(70);
    let view = irregular().view(0);
    let got =
        read_ranges(&file, &view, &parts(&[0..70]), &memory.buffer, 0, &AccessTuning::default(), LIMITS);
    assert_eq!(got.unwrap(), 20);
    assert_eq!(sys.said("done"), sys.said("soon"));
    assert!(sys.said("read").iter().all(|range| !range.starts_with("390")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn bytes_are_right_and_prefetches_released(
        layout in prop_oneof![ascending(), scrambled()], disp in 0u64..50, skip in 0u64..9,
        list in prop::collection::vec((0u64..60, 0u64..80), 0..8), size in 0u64..9000,
        block in 1u64..600, max_pre in 0usize..5, max_acc in 0usize..5,
        refuse in prop::collection::vec(0u64..30, 0..10), fail_from in prop::option::of(0u64..9000),
        kept_from in prop::option::of(0u64..9000),
    ) {
        let mut at = 0;
        let list: Vec<Range<u64>> = list.into_iter().map(|(gap, len)| {
            let part = at + gap..at + gap + len;
            at = part.end;
            part
        }).collect();
        let bytes = contents(size);
        let path = TempPath::with(&bytes);
        let (file, sys) = open_listening(&path, Listening { refuse, fail_from, kept_from, ..Listening::default() });
        let len: u64 = list.iter().map(|part| part.end - part.start).sum();
        let memory = whole(skip + len);
        let limits = PrefetchLimits { block, max_pre, max_acc };
        let (view, tune) = (layout.view(disp), AccessTuning::default());
        let got = read_ranges(&file, &view, &parts(&list), &memory.buffer, skip, &tune, limits);
        prop_assert_eq!(sys.said("done"), sys.said("soon"));
        prop_assert!(max_acc > 0 || sys.said("soon").is_empty());
        let offsets = list.iter().flat_map(Range::clone).map(|at| disp + layout.offset(at) as u64);
        let there: Vec<u8> = offsets.map_while(|offset| bytes.get(offset as usize).copied()).collect();
        match got {
            Ok(got) => {
                prop_assert_eq!(got, there.len() as u64);
                let mut expected = vec![UNTOUCHED; skip as usize];
                expected.extend(there);
                expected.resize(memory.bytes.len(), UNTOUCHED);
                prop_assert_eq!(&memory.bytes, &expected);
            }
            Err(error) => prop_assert!(fail_from.is_some(), "{}", error),
        }
    }
}
