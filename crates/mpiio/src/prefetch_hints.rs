//! The hints `pario_access_ranges` and `pario_access_done`: ranges of a file that a rank will access soon, and ranges
//! that it no longer needs.
//!
//! On a partition the servers prefetch the ranges into their caches and refuse ranges beyond a limit. On a plain file
//! the kernel is advised to read the ranges, within limits of this module. Ranges that were in the page cache before
//! are not released, since other processes may use them.

use parking_lot::Mutex;
use std::ops::Range;

use pario_hints::Hints;
use pario_posix::PlainFile;
use pario_types::Offset;

use crate::file::File;
use crate::info::apply_info;
use crate::storage::Storage;

/// The limits of the prefetched ranges of a plain file, per rank.
const MAX_RANGES: usize = 64;
const MAX_BYTES: u64 = 64 << 20;

/// The prefetched ranges of a plain file, and whether the kernel was asked to read them.
#[derive(Default)]
pub(crate) struct PrefetchedRanges(Mutex<Vec<(Range<u64>, bool)>>);

impl PrefetchedRanges {
    /// Prefetches ranges. Returns the number of ranges taken, from the first on.
    fn prefetch(&self, file: &PlainFile, ranges: &[Range<u64>]) -> usize {
        let mut prefetched = self.0.lock();
        let bytes = |range: &Range<u64>| range.end - range.start;
        let mut room = MAX_BYTES - prefetched.iter().map(|(range, _)| bytes(range)).sum::<u64>();
        let refused = ranges.iter().position(|range| {
            let asked = !file.is_in_memory(Offset(range.start));
            let taken = prefetched.len() < MAX_RANGES
                && bytes(range) <= room
                && (!asked || file.prefetch(Offset(range.start)..Offset(range.end)));
            if taken {
                room -= bytes(range);
                prefetched.push((range.clone(), asked));
            }
            !taken
        });
        refused.unwrap_or(ranges.len())
    }

    /// Releases ranges that were prefetched.
    fn release(&self, file: &PlainFile, ranges: &[Range<u64>]) {
        let mut prefetched = self.0.lock();
        for range in ranges {
            let Some(index) = prefetched.iter().position(|(one, _)| one == range) else { continue };
            if prefetched.swap_remove(index).1 {
                // The kernel may ignore the advice.
                file.release(Offset(range.start)..Offset(range.end));
            }
        }
    }
}

impl File {
    /// Applies the prefetch hints of an info object that the program has passed.
    pub(crate) fn apply_prefetch_info(&self, info: &[(String, String)]) {
        let mut passed = Hints::new();
        apply_info(&mut passed, info, false);
        self.apply_prefetch_hints(&passed);
    }

    /// Applies prefetch hints. Errors are ignored: the accesses to the ranges report them.
    pub(crate) fn apply_prefetch_hints(&self, hints: &Hints) {
        let (done, soon) = (hints.access_done().unwrap_or_default(), hints.access_ranges());
        if done.is_empty() && soon.is_none() {
            return;
        }
        let wanted = soon.unwrap_or_default();
        let taken = match self.opened() {
            None => 0,
            Some(Storage::Plain(plain)) => {
                self.prefetched.release(plain, done);
                self.prefetched.prefetch(plain, wanted)
            }
            Some(Storage::Partition(on)) => {
                let _ = on.file.forget(done);
                on.file.prefetch(wanted).unwrap_or(0)
            }
        };
        if soon.is_some() {
            self.note_taken(taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_posix::{AccessAdvice, Errno, PlainOpenOptions, Syscalls};
    use std::sync::Arc;

    /// A kernel whose page cache has the bytes below offset 1000, and which records the advice that it gets.
    #[derive(Default)]
    struct RecordingKernel(Mutex<Vec<(bool, u64, u64)>>);

    impl Syscalls for RecordingKernel {
        fn is_in_memory(&self, _: i32, at: u64) -> bool {
            at < 1000
        }

        fn advise(&self, _: i32, advice: AccessAdvice, at: u64, len: u64) -> Result<(), Errno> {
            self.0.lock().push((advice == AccessAdvice::WillNeed, at, len));
            Ok(())
        }
    }

    #[test]
    fn prefetching_a_plain_file_respects_the_limits() {
        let path = std::env::temp_dir().join(format!("pario-ranges-{}", std::process::id()));
        std::fs::write(&path, [0; 10]).unwrap();
        let kernel = Arc::new(RecordingKernel::default());
        let file = PlainFile::open_with(
            &path,
            &PlainOpenOptions { read: true, ..PlainOpenOptions::default() },
            kernel.clone(),
            None,
        );
        std::fs::remove_file(&path).unwrap();
        let (file, prefetched) = (file.unwrap(), PrefetchedRanges::default());
        assert_eq!(prefetched.prefetch(&file, &[0..10, 2000..2010, 5000..5000 + MAX_BYTES, 7..8]), 2);
        prefetched.release(&file, &[0..10, 2000..2010, 2000..2010, 9..10]);
        assert_eq!(*kernel.0.lock(), [(true, 2000, 10), (false, 2000, 10)]);
        let many: Vec<_> = (0..100).map(|i| i..i + 1).collect();
        assert_eq!(prefetched.prefetch(&file, &many), MAX_RANGES);
        prefetched.release(&file, &many[..10]);
        assert_eq!(prefetched.prefetch(&file, &many[64..]), 10);
    }
}
