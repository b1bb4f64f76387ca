//! Plain operations: successful ones, by and for the actor itself, on all bytes from the first to the last.
//!
//! They are nearly all operations of nearly all programs. A single one takes 28 bytes of a trace; operations that continue
//! the two before them, at equal distances, form a run, in which each takes 8. Both entries are described in `format`.

use crate::event::TracedCall;
use crate::format::{Operation, head, u32_at, u64_at};

pub(crate) const PLAIN: usize = 28;
pub(crate) const RUN: usize = 32;
/// The largest number of operations in a run.
const TIMES: usize = 8;
/// The size of a run in bytes: entries have a size of two bytes.
const LONGEST_RUN: usize = u16::MAX as usize - TIMES;

/// Operation, file and length in bytes in one word: equal words mean that all are equal.
///
/// Bits 0-7 the operation, 8-15 the manner, 16-39 the file, 40-63 the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedCall(pub u64);

impl PackedCall {
    /// `None` if a value is too large for the word.
    #[inline]
    pub fn new(call: TracedCall, file: u32, len: u64) -> Option<PackedCall> {
        let fits = file < 1 << 24 && len < 1 << 24;
        let word =
            u64::from(call.op.code()) | u64::from(call.manner()) << 8 | u64::from(file) << 16 | len << 40;
        fits.then_some(PackedCall(word))
    }

    /// Operation, manner and file in the form of entries.
    fn bytes(self) -> [u8; 5] {
        let [op, manner, file, file_1, file_2, ..] = self.0.to_le_bytes();
        [op, manner, file, file_1, file_2]
    }

    fn len(self) -> u32 {
        (self.0 >> 40) as u32
    }
}

/// A plain operation before it is written; times are in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainOperation {
    pub start: u64,
    pub took: u32,
    pub offset: u64,
    pub what: PackedCall,
}

impl PlainOperation {
    pub fn over(&self) -> u64 {
        self.start.wrapping_add(u64::from(self.took))
    }

    /// The same as a general operation.
    pub fn operation(&self) -> Operation {
        let [op, manner, ..] = self.what.bytes();
        let (call, file) = (TracedCall::from_codes(op, manner), (self.what.0 >> 16) as u32 & 0x00ff_ffff);
        let (len, took) = (u64::from(self.what.len()), u64::from(self.took));
        Operation::plain_one(call, file, self.offset, len, self.start, took)
    }
}

/// A plain operation by itself.
pub(crate) fn entry(what: [u8; 5], offset: u64, len: u32, since: i32, took: u32) -> [u8; PLAIN] {
    let mut bytes = [0; PLAIN];
    bytes[..3].copy_from_slice(&head(PLAIN, 6)[..3]);
    bytes[3..8].copy_from_slice(&what);
    bytes[8..16].copy_from_slice(&offset.to_le_bytes());
    bytes[16..20].copy_from_slice(&len.to_le_bytes());
    bytes[20..24].copy_from_slice(&since.to_le_bytes());
    bytes[24..28].copy_from_slice(&took.to_le_bytes());
    bytes
}

/// An encoder of consecutive operations.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// The last operation, from whose start the next one counts.
    last: PlainOperation,
    /// Its distance from the one before it, if both are otherwise equal.
    stride: u64,
    /// The offset of the entry of its run.
    run: Option<usize>,
}

impl Encoder {
    /// Behind an operation that started at `start`.
    pub fn behind(start: u64) -> Encoder {
        Encoder {
            last: PlainOperation { start, took: 0, offset: 0, what: PackedCall(0) },
            stride: 0,
            run: None,
        }
    }

    /// The start of the last operation.
    pub fn last(&self) -> u64 {
        self.last.start
    }

    /// Encodes the next one; `false` if it is too far from the last.
    #[inline]
    pub fn add(&mut self, next: &PlainOperation, into: &mut Vec<u8>) -> bool {
        let since = next.start.wrapping_sub(self.last.start);
        let stride = next.offset.wrapping_sub(self.last.offset);
        if next.what != self.last.what || stride != self.stride || since > u64::from(u32::MAX) {
            return self.add_other(next, into);
        }
        let run = match self.run {
            Some(run) if into.len() - run < LONGEST_RUN => run,
            _ => begin_run(next, stride, into),
        };
        self.run = Some(run);
        into.extend_from_slice(&(since | u64::from(next.took) << 32).to_le_bytes());
        let [low, high] = ((into.len() - run) as u16).to_le_bytes();
        (into[run], into[run + 1]) = (low, high);
        (self.last.start, self.last.offset) = (next.start, next.offset);
        true
    }

    /// Encodes one that is in no run, but may be the first of one, or the second.
    #[cold]
    fn add_other(&mut self, next: &PlainOperation, into: &mut Vec<u8>) -> bool {
        let Ok(since) = i32::try_from(next.start.wrapping_sub(self.last.start) as i64) else { return false };
        into.extend_from_slice(&entry(next.what.bytes(), next.offset, next.what.len(), since, next.took));
        let stride = next.offset.wrapping_sub(self.last.offset);
        *self = Encoder { last: *next, stride, run: None };
        true
    }
}

/// Encodes the head of a run that begins with `first`; returns its offset.
fn begin_run(first: &PlainOperation, stride: u64, into: &mut Vec<u8>) -> usize {
    let run = into.len();
    into.extend_from_slice(&head(RUN, 8)[..3]);
    into.extend_from_slice(&first.what.bytes());
    into.extend_from_slice(&first.offset.to_le_bytes());
    into.extend_from_slice(&stride.to_le_bytes());
    into.extend_from_slice(&first.what.len().to_le_bytes());
    into.extend_from_slice(&[0; 4]);
    run
}

/// A run in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub call: TracedCall,
    pub file: u32,
    pub offset: u64,
    pub stride: u64,
    pub len: u32,
    /// For each operation the start, relative to that of the one before, and the duration.
    pub times: Vec<(u32, u32)>,
}

impl Run {
    /// Decodes an entry of at least [`RUN`] bytes; `None` if it has an incomplete operation.
    pub fn decode(bytes: &[u8]) -> Option<Run> {
        let times = bytes[RUN..].chunks_exact(TIMES);
        times.remainder().is_empty().then(|| Run {
            call: TracedCall::from_codes(bytes[3], bytes[4]),
            file: u32_at(bytes, 4) >> 8,
            offset: u64_at(bytes, 8),
            stride: u64_at(bytes, 16),
            len: u32_at(bytes, 24),
            times: times.map(|pair| (u32_at(pair, 0), u32_at(pair, 4))).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TracedOp;
    use crate::format::Entry;
    use proptest::prelude::*;

    const CALL: TracedCall = TracedCall { collective: true, op: TracedOp::Write, ..READ };
    const READ: TracedCall = TracedCall {
        op: TracedOp::Read,
        place: crate::PointerKind::Unsaid,
        collective: false,
        pace: crate::Pace::Blocking,
    };

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let what = PackedCall::new(CALL, 0x0007_0605, 9).expect("small");
        let at = |n: u64| PlainOperation { start: 1000 + n * 50, took: 8, offset: 0x0102 + n * 16, what };
        let mut bytes = Vec::new();
        assert!(Encoder::behind(1003).add(&at(0), &mut bytes));
        let wanted =
            [28, 0, 6, 5, 8, 5, 6, 7, 2, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 253, 255, 255, 255, 8, 0, 0, 0];
        assert_eq!(bytes, wanted);
        bytes.clear();
        let mut encoder = Encoder::behind(947);
        assert!([0, 1, 2, 3, 4].iter().all(|&n| encoder.add(&at(n), &mut bytes)));
        assert_eq!(encoder.last(), 1200);
        let bytes = &bytes[2 * PLAIN..];
        let wanted = [
            56, 0, 8, 5, 8, 5, 6, 7, 34, 1, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes[..32], wanted);
        let times = [50, 0, 0, 0, 8, 0, 0, 0];
        assert_eq!(bytes[32..], [times, times, times].concat());
        assert_eq!(Entry::decode(&bytes[..55]), None);
        assert_eq!((PackedCall::new(CALL, 1 << 24, 9), PackedCall::new(CALL, 1, 1 << 24)), (None, None));
    }

    fn decoded(bytes: &[u8], mut before: u64) -> Vec<PlainOperation> {
        let (mut all, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let size = usize::from(bytes[at]) | usize::from(bytes[at + 1]) << 8;
            match Entry::decode(&bytes[at..at + size]).expect("an entry") {
                Entry::Plain(one) => {
                    before = before.wrapping_add(one.start);
                    let what = PackedCall::new(one.call, one.file, one.len).expect("small");
                    all.push(PlainOperation {
                        start: before,
                        took: one.took as u32,
                        offset: one.offset,
                        what,
                    });
                }
                Entry::Run(run) => {
                    for (n, &(since, took)) in (0u64..).zip(&run.times) {
                        before += u64::from(since);
                        let offset = run.offset.wrapping_add(n.wrapping_mul(run.stride));
                        let what = PackedCall::new(run.call, run.file, u64::from(run.len)).expect("small");
                        all.push(PlainOperation { start: before, took, offset, what });
                    }
                }
                other => panic!("{other:?}"),
            }
            at += size;
        }
        all
    }

    /// Runs of any stride, interrupted by other operations.
    fn drawn() -> impl Strategy<Value = Vec<PlainOperation>> {
        let piece =
            (1usize..40, 0u64..1 << 40, -9000i64..9000, 1u32..4, 0u64..1 << 24, 0u64..3, any::<u32>());
        prop::collection::vec(piece, 0..8).prop_map(|pieces| {
            let mut start = 1 << 40;
            let mut all = Vec::new();
            for (count, offset, stride, file, len, since, took) in pieces {
                let what = PackedCall::new(if file == 1 { CALL } else { READ }, file, len).expect("small");
                for n in 0..count {
                    start += if n % 7 == 6 { since << 31 } else { since };
                    let offset = (offset + (1 << 20)).wrapping_add_signed(stride * n as i64);
                    all.push(PlainOperation { start, took, offset, what });
                }
            }
            all
        })
    }

    proptest! {
        #[test]
        fn any_operations_come_back(all in drawn()) {
            let (mut bytes, mut begun, mut got) = (Vec::new(), 1 << 40, Vec::new());
            let mut encoder = Encoder::behind(begun);
            for one in &all {
                if !encoder.add(one, &mut bytes) {
                    prop_assert!(one.start - encoder.last() > i32::MAX as u64, "it would have fitted");
                    got.extend(decoded(&bytes, begun));
                    bytes.clear();
                    begun = one.start;
                    encoder = Encoder::behind(begun);
                    prop_assert!(encoder.add(one, &mut bytes));
                }
            }
            got.extend(decoded(&bytes, begun));
            prop_assert_eq!(got, all);
        }

        #[test]
        fn a_long_run_is_short(count in 3usize..20_000) {
            let what = PackedCall::new(CALL, 1, 4096).expect("small");
            let all: Vec<_> = (0..count as u64).map(|n| PlainOperation { start: n * 3000, took: 2000, offset: n << 12, what }).collect();
            let mut bytes = Vec::new();
            let mut encoder = Encoder::behind(0);
            prop_assert!(all.iter().all(|one| encoder.add(one, &mut bytes)));
            prop_assert!(bytes.len() <= count * TIMES + (count / 8000 + 1) * RUN + 2 * PLAIN);
            prop_assert_eq!(decoded(&bytes, 0), all);
        }
    }
}
