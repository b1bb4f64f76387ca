//! Ranges that the program announced by a hint, prefetched within limits.
//!
//! A range that is in memory already is neither prefetched nor released: other processes may use it.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use pario_types::Offset;

use crate::file::PlainFile;

/// The largest number of prefetched ranges of a file.
const MAX_RANGES: usize = 64;

/// The largest number of prefetched bytes of a file.
const MAX_BYTES: u64 = 64 << 20;

/// The announced ranges of a file, and whether the system was asked for each of them.
#[derive(Default)]
pub(crate) struct HintedRanges(Mutex<Vec<(Range<u64>, bool)>>);

impl HintedRanges {
    /// Prefetches ranges. Returns how many are accepted, from the first on.
    pub fn prefetch(&self, file: &PlainFile, ranges: &[Range<u64>]) -> usize {
        let mut ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Releases accepted ranges.
    pub fn release(&self, file: &PlainFile, ranges: &[Range<u64>]) {
        let mut ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for range in ranges {
            let Some(index) = ready.iter().position(|(one, _)| one == range) else { continue };
            if ready.swap_remove(index).1 {
                // The call is advice. If the system ignores it, there is nothing to release.
                file.release(Offset(range.start)..Offset(range.end));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessAdvice, Errno, PlainOpenOptions, Syscalls};
    use std::sync::Arc;

    /// A system whose memory holds the bytes below 1000, and which records the advice it gets.
    #[derive(Default)]
    struct RecordingSystem(Mutex<Vec<(bool, u64, u64)>>);

    impl Syscalls for RecordingSystem {
        fn is_in_memory(&self, _: i32, at: u64) -> bool {
            at < 1000
        }

        fn advise(&self, _: i32, advice: AccessAdvice, at: u64, len: u64) -> Result<(), Errno> {
            self.0.lock().unwrap().push((advice == AccessAdvice::WillNeed, at, len));
            Ok(())
        }
    }

    #[test]
    fn a_plain_file_is_read_ahead_within_limits() {
        let path = std::env::temp_dir().join(format!("pario-ranges-{}", std::process::id()));
        std::fs::write(&path, [0; 10]).unwrap();
        let system = Arc::new(RecordingSystem::default());
        let file = PlainFile::open_with(
            &path,
            &PlainOpenOptions { read: true, ..PlainOpenOptions::default() },
            system.clone(),
            None,
        );
        std::fs::remove_file(&path).unwrap();
        let (file, ready) = (file.unwrap(), HintedRanges::default());
        assert_eq!(ready.prefetch(&file, &[0..10, 2000..2010, 5000..5000 + MAX_BYTES, 7..8]), 2);
        ready.release(&file, &[0..10, 2000..2010, 2000..2010, 9..10]);
        assert_eq!(*system.0.lock().unwrap(), [(true, 2000, 10), (false, 2000, 10)]);
        let many: Vec<_> = (0..100).map(|i| i..i + 1).collect();
        assert_eq!(ready.prefetch(&file, &many), MAX_RANGES);
        ready.release(&file, &many[..10]);
        assert_eq!(ready.prefetch(&file, &many[64..]), 10);
    }
}
