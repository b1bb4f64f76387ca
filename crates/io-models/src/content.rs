//! The written bytes: each is a function of its location, so that a reader detects a
//! byte that is at the wrong offset, of another file or of an earlier run.
//!
//! One pseudo-random sequence of [`PERIOD`] bytes repeats without end; a file begins somewhere in it. Bytes to
//! write are then a slice of a buffer that holds the sequence a bit more than once, and take no time to make. The
//! period is a prime number of cache lines: offsets that differ by a few stripes of any power of two fall on
//! different bytes.

const LINE: usize = 64;
/// After how many bytes the sequence repeats.
pub const PERIOD: usize = 4093 * LINE;

/// The bytes of a run's files.
pub struct Content {
    bytes: Vec<u8>,
}

impl Content {
    /// For pieces of at most `longest` bytes.
    pub fn new(longest: usize) -> Content {
        let mut bytes = Vec::with_capacity(PERIOD + longest);
        let mut state = 0x243f_6a88_85a3_08d3_u64;
        while bytes.len() < PERIOD {
            // splitmix64
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = state;
            word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            bytes.extend_from_slice(&(word ^ word >> 31).to_le_bytes());
        }
        while bytes.len() < PERIOD + longest {
            let more = (PERIOD + longest - bytes.len()).min(PERIOD);
            bytes.extend_from_within(..more);
        }
        Content { bytes }
    }

    /// The bytes that belong at an offset of a file; `turn` differs from run to run.
    pub fn at(&self, turn: u64, file: u32, offset: u64, len: usize) -> &[u8] {
        assert!(PERIOD + len <= self.bytes.len(), "pieces are as long as was said");
        let lines = (PERIOD / LINE) as u64;
        // Files and turns begin a number of lines apart that is prime, and not near a stripe's.
        let begin = (turn % lines * 1031 + u64::from(file) * 37) % lines * LINE as u64;
        let from = ((offset % PERIOD as u64 + begin) % PERIOD as u64) as usize;
        &self.bytes[from..from + len]
    }
}

/// The first byte that differs, if one does.
pub fn difference(found: &[u8], wanted: &[u8]) -> Option<usize> {
    if found == wanted {
        return None;
    }
    let common = found.iter().zip(wanted).position(|(one, other)| one != other);
    Some(common.unwrap_or(found.len().min(wanted.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_byte_depends_on_its_place_alone(
            turn: u64, file in 0u32..4096, offset in 0u64..1 << 40, cut in 0usize..1000,
        ) {
            let (whole, parts) = (Content::new(1000), Content::new(1000));
            let bytes = whole.at(turn, file, offset, 1000);
            prop_assert_eq!(&bytes[..cut], parts.at(turn, file, offset, cut));
            prop_assert_eq!(&bytes[cut..], parts.at(turn, file, offset + cut as u64, 1000 - cut));
        }

        #[test]
        fn what_is_misplaced_shows(
            turn in 0u64..4000, file in 0u32..64, stripe in 9u32..24, place in 0u64..64, other in 0u64..64,
        ) {
            let content = Content::new(512);
            let at = |turn, file, place| content.at(turn, file, place << stripe, 512);
            let here = at(turn, file, place);
            prop_assert!(place == other || here != at(turn, file, other));
            prop_assert!(here != at(turn, file + 1, place));
            prop_assert!(here != at(turn + 1, file, place));
        }
    }

    #[test]
    fn differences_are_found_at_their_byte() {
        assert_eq!(difference(b"abc", b"abc"), None);
        assert_eq!(difference(b"abc", b"abd"), Some(2));
        assert_eq!(difference(b"ab", b"abd"), Some(2));
    }
}
