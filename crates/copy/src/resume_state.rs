//! The record that an interrupted copy leaves for the next attempt: which bytes of which version of the source are in which
//! file.
//!
//! It is a small JSON file beside the destination. A copy writes it about every second, after it has synced the bytes
//! that the file lists:
//!
//! ```json
//! {
//!   "version": 1, "source": "in.dat", "size": 1000, "modified_ns": 1700000000000000000,
//!   "part": [64768, 12], "done": [[0, 500]]
//! }
//! ```
//!
//! `part` is device and inode of the partial file, or 0 and its number in the partition.

use crate::endpoint::{Endpoint, FileInfo};
use crate::range_set::RangeSet;
use pario_runtime::time::SystemTime;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const VERSION: u32 = 1;

/// A longer file was not written by a copy.
pub const MOST_BYTES: usize = 1 << 20;

/// The progress of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeState {
    version: u32,
    source: String,
    size: u64,
    modified_ns: i64,
    /// The file with the bytes so far.
    part: (u64, u64),
    done: Vec<(u64, u64)>,
}

impl ResumeState {
    /// The state in which these bytes of the source are in the file `part`.
    pub fn new(source: &Endpoint, info: &FileInfo, part: (u64, u64), done: &RangeSet) -> ResumeState {
        ResumeState {
            version: VERSION,
            source: source.show(),
            size: info.size,
            modified_ns: nanoseconds(info.modified),
            part,
            done: done.iter().map(|range| (range.start, range.end)).collect(),
        }
    }

    /// The contents of the state file.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("numbers and words can be written as JSON");
        text.push(b'\n');
        text
    }

    /// The bytes that need not be copied again. `None` unless this is the state of this source, as it is now, and of
    /// this partial file.
    pub fn copied_bytes(
        bytes: &[u8],
        source: &Endpoint,
        info: &FileInfo,
        part: (u64, u64),
    ) -> Option<RangeSet> {
        let state: ResumeState = serde_json::from_slice(bytes).ok()?;
        let expected = ResumeState {
            done: state.done.clone(),
            ..ResumeState::new(source, info, part, &RangeSet::default())
        };
        let sound = |(start, end): &(u64, u64)| start < end && *end <= info.size;
        if state != expected || !state.done.iter().all(sound) {
            return None;
        }
        let mut done = RangeSet::default();
        let gap = if pario_runtime::is_planted("copy-resumes-after-gap") { u64::MAX } else { 0 };
        state.done.iter().for_each(|(start, end)| done.insert(start.saturating_sub(gap)..*end));
        Some(done)
    }
}

/// Nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> i64 {
    let clamp = |distance: Duration| i64::try_from(distance.as_nanos()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => clamp(after),
        Err(before) => -clamp(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::FileKind;

    #[test]
    fn only_the_state_of_the_same_source_and_part_is_used() {
        let source = Endpoint::Host("a".into());
        let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_000_001);
        let info = FileInfo {
            kind: FileKind::File,
            size: 100,
            mode: 0o644,
            accessed: modified,
            modified,
            id: (1, 2),
        };
        let mut done = RangeSet::default();
        done.insert(0..10);
        done.insert(50..60);
        let bytes = ResumeState::new(&source, &info, (3, 4), &done).encode();
        assert_eq!(ResumeState::copied_bytes(&bytes, &source, &info, (3, 4)), Some(done.clone()));

        assert_eq!(ResumeState::copied_bytes(&bytes, &Endpoint::Host("b".into()), &info, (3, 4)), None);
        assert_eq!(ResumeState::copied_bytes(&bytes, &source, &FileInfo { size: 101, ..info }, (3, 4)), None);
        let later = FileInfo { modified: modified + Duration::from_nanos(1), ..info };
        assert_eq!(ResumeState::copied_bytes(&bytes, &source, &later, (3, 4)), None);
        assert_eq!(ResumeState::copied_bytes(&bytes, &source, &info, (3, 5)), None);
        assert_eq!(ResumeState::copied_bytes(&bytes[..bytes.len() - 9], &source, &info, (3, 4)), None);

        done.insert(90..101);
        let beyond = ResumeState::new(&source, &info, (3, 4), &done).encode();
        assert_eq!(ResumeState::copied_bytes(&beyond, &source, &info, (3, 4)), None);
    }
}
