//! The multiple-access-range hint: ranges of a file that a rank says it will access soon, and those it is done with.
//!
//! On a partition the servers take the ranges, keep them in their caches and refuse what is too much. Elsewhere the
//! system is asked to read them ahead, within limits of our own; what was in its memory anyway is not given up, since
//! it may be there for others.

use parking_lot::Mutex;
use std::ops::Range;

use pario_hints::Hints;
use pario_posix::PlainFile;
use pario_types::Offset;

use crate::file::File;
use crate::open::apply_info;
use crate::storage::Storage;

/// What a rank may have ready of a plain file: so many ranges, so many bytes.
const MAX_RANGES: usize = 64;
const MAX_BYTES: u64 = 64 << 20;

/// Ranges of a plain file that are ready, and whether the system was asked for them.
#[derive(Default)]
pub(crate) struct PrefetchedRanges(Mutex<Vec<(Range<u64>, bool)>>);

impl PrefetchedRanges {
    /// Gets ranges ready; how many of them, from the first on.
    fn prefetch(&self, file: &PlainFile, ranges: &[Range<u64>]) -> usize {
        let mut ready = self.0.lock();
        let bytes = |range: &Range<u64>| range.end - range.start;
        let mut room = MAX_BYTES - ready.iter().map(|(range, _)| bytes(range)).sum::<u64>();
        let refused = ranges.iter().position(|range| {
            let asked = !file.is_in_memory(Offset(range.start));
            let taken = ready.len() < MAX_RANGES
                && bytes(range) <= room
                && (!asked || file.prefetch(Offset(range.start)..Offset(range.end)));
            if taken {
                room -= bytes(range);
                ready.push((range.clone(), asked));
            }
            !taken
        });
        refused.unwrap_or(ranges.len())
    }

    /// Gives up ranges as they were made ready.
    fn forget(&self, file: &PlainFile, ranges: &[Range<u64>]) {
        let mut ready = self.0.lock();
        for range in ranges {
            let Some(index) = ready.iter().position(|(one, _)| one == range) else { continue };
            if ready.swap_remove(index).1 {
                // A system that does not care about it has nothing to give up.
                file.release(Offset(range.start)..Offset(range.end));
            }
        }
    }
}

impl File {
    /// Heeds the ranges of an info that the program has passed.
    pub(crate) fn apply_prefetch_info(&self, info: &[(String, String)]) {
        let mut passed = Hints::new();
        apply_info(&mut passed, info, false);
        self.apply_prefetch_hints(&passed);
    }

    /// Heeds the ranges among hints. Whatever goes wrong is told to who accesses them.
    pub(crate) fn apply_prefetch_hints(&self, hints: &Hints) {
        let (done, soon) = (hints.access_done().unwrap_or_default(), hints.access_ranges());
        if done.is_empty() && soon.is_none() {
            return;
        }
        let wanted = soon.unwrap_or_default();
        let taken = match self.opened() {
            None => 0,
            Some(Storage::Plain(plain)) => {
                self.ready.forget(plain, done);
                self.ready.prefetch(plain, wanted)
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

    /// A system whose memory holds what lies below 1000, and which notes what it is told.
    #[derive(Default)]
    struct Told(Mutex<Vec<(bool, u64, u64)>>);

    impl Syscalls for Told {
        fn is_in_memory(&self, _: i32, at: u64) -> bool {
            at < 1000
        }

        fn advise(&self, _: i32, advice: AccessAdvice, at: u64, len: u64) -> Result<(), Errno> {
            self.0.lock().push((advice == AccessAdvice::WillNeed, at, len));
            Ok(())
        }
    }

    #[test]
    fn a_plain_file_is_read_ahead_within_limits() {
        let path = std::env::temp_dir().join(format!("pario-ranges-{}", std::process::id()));
        std::fs::write(&path, [0; 10]).unwrap();
        let told = Arc::new(Told::default());
        let file = PlainFile::open_with(
            &path,
            &PlainOpenOptions { read: true, ..PlainOpenOptions::default() },
            told.clone(),
            None,
        );
        std::fs::remove_file(&path).unwrap();
        let (file, ready) = (file.unwrap(), PrefetchedRanges::default());
        assert_eq!(ready.prefetch(&file, &[0..10, 2000..2010, 5000..5000 + MAX_BYTES, 7..8]), 2);
        ready.forget(&file, &[0..10, 2000..2010, 2000..2010, 9..10]);
        assert_eq!(*told.0.lock(), [(true, 2000, 10), (false, 2000, 10)]);
        let many: Vec<_> = (0..100).map(|i| i..i + 1).collect();
        assert_eq!(ready.prefetch(&file, &many), MAX_RANGES);
        ready.forget(&file, &many[..10]);
        assert_eq!(ready.prefetch(&file, &many[64..]), 10);
    }
}
