//! What an interrupted copy leaves for the next one: which bytes of which version of the source are in which
//! file.
//!
//! It is a small JSON file beside the destination, written every second or so, after the bytes it tells
//! of have been brought to the medium:
//!
//! ```json
//! {
//!   "version": 1, "source": "in.dat", "size": 1000, "modified_ns": 1700000000000000000,
//!   "part": [64768, 12], "done": [[0, 500]]
//! }
//! ```
//!
//! `part` is device and inode of the file so far, or 0 and its number in the partition.

use super::super::text::nanoseconds;
use super::ranges::Ranges;
use super::side::{Info, Side};
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

/// A state with more than this was not written by a copy.
pub const MOST_BYTES: usize = 1 << 20;

/// How far a copy has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    version: u32,
    source: String,
    size: u64,
    modified_ns: i64,
    /// Which file holds the bytes so far.
    part: (u64, u64),
    done: Vec<(u64, u64)>,
}

impl State {
    /// That these bytes of the source are in the file `part`.
    pub fn new(source: &Side, info: &Info, part: (u64, u64), done: &Ranges) -> State {
        State {
            version: VERSION,
            source: source.show(),
            size: info.size,
            modified_ns: nanoseconds(info.modified),
            part,
            done: done.iter().map(|range| (range.start, range.end)).collect(),
        }
    }

    /// For writing it down.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("numbers and words can be written as JSON");
        text.push(b'\n');
        text
    }

    /// The bytes that need not be copied again: only if this is a state, of this source as it is now, and of
    /// this file.
    pub fn trusted(bytes: &[u8], source: &Side, info: &Info, part: (u64, u64)) -> Option<Ranges> {
        let state: State = serde_json::from_slice(bytes).ok()?;
        let expected =
            State { done: state.done.clone(), ..State::new(source, info, part, &Ranges::default()) };
        let sound = |(start, end): &(u64, u64)| start < end && *end <= info.size;
        if state != expected || !state.done.iter().all(sound) {
            return None;
        }
        let mut done = Ranges::default();
        state.done.iter().for_each(|(start, end)| done.insert(*start..*end));
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::super::side::Kind;
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn only_the_same_source_and_part_are_trusted() {
        let source = Side::Here("a".into());
        let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_000_001);
        let info =
            Info { kind: Kind::File, size: 100, mode: 0o644, accessed: modified, modified, id: (1, 2) };
        let mut done = Ranges::default();
        done.insert(0..10);
        done.insert(50..60);
        let bytes = State::new(&source, &info, (3, 4), &done).encode();
        assert_eq!(State::trusted(&bytes, &source, &info, (3, 4)), Some(done.clone()));

        assert_eq!(State::trusted(&bytes, &Side::Here("b".into()), &info, (3, 4)), None);
        assert_eq!(State::trusted(&bytes, &source, &Info { size: 101, ..info }, (3, 4)), None);
        let later = Info { modified: modified + Duration::from_nanos(1), ..info };
        assert_eq!(State::trusted(&bytes, &source, &later, (3, 4)), None);
        assert_eq!(State::trusted(&bytes, &source, &info, (3, 5)), None);
        assert_eq!(State::trusted(&bytes[..bytes.len() - 9], &source, &info, (3, 4)), None);

        done.insert(90..101);
        let beyond = State::new(&source, &info, (3, 4), &done).encode();
        assert_eq!(State::trusted(&beyond, &source, &info, (3, 4)), None);
    }
}
