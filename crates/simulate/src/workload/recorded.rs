//! Accesses from a trace: for each call and rank a span of the file and a number of bytes in it.
//!
//! A trace does not record which bytes of its span an access had. The simulation spreads them evenly, which gives each
//! window its share. The lengths of the pieces are unknown and cost nothing.

use std::ops::Range;

use pario_types::FileId;

/// A number of bytes somewhere in a span of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSpan {
    /// The first byte.
    pub lo: u64,
    /// The offset behind the last byte.
    pub hi: u64,
    /// The number of bytes, at most the length of the span.
    pub len: u64,
}

impl FileSpan {
    /// Returns the number of its bytes below an offset.
    pub fn below(&self, offset: u64) -> u64 {
        let (reach, all) =
            (offset.clamp(self.lo, self.hi.max(self.lo)) - self.lo, self.hi.saturating_sub(self.lo));
        if all == 0 { 0 } else { (u128::from(self.len) * u128::from(reach) / u128::from(all)) as u64 }
    }
}

/// The collective calls of a trace.
#[derive(Clone, Debug, Default)]
pub struct RecordedCalls {
    ranks: u32,
    calls: Vec<Call>,
}

#[derive(Clone, Debug)]
struct Call {
    file: FileId,
    /// The span of each rank, in order.
    spans: Vec<FileSpan>,
    /// Ranks with bytes, ordered by the start of their spans; with each, the largest end of all spans up to it.
    by_place: Vec<(u64, u64, u32)>,
}

impl RecordedCalls {
    /// Creates a trace of `ranks` ranks without calls.
    pub fn new(ranks: u32) -> RecordedCalls {
        RecordedCalls { ranks, calls: Vec::new() }
    }

    /// Adds a call with the span of each rank; ranks that are not listed have no bytes.
    pub fn call(&mut self, file: FileId, asked: impl IntoIterator<Item = (u32, FileSpan)>) {
        let mut spans = vec![FileSpan::default(); self.ranks as usize];
        for (rank, span) in asked {
            let hi = span.hi.max(span.lo);
            if let Some(place) = spans.get_mut(rank as usize) {
                *place = FileSpan { hi, len: span.len.min(hi - span.lo), ..span };
            }
        }
        let mut by_place: Vec<(u64, u64, u32)> =
            (0..).zip(&spans).filter(|(_, s)| s.len > 0).map(|(rank, s)| (s.lo, s.hi, rank)).collect();
        by_place.sort_unstable();
        let mut reach = 0;
        for entry in &mut by_place {
            reach = reach.max(entry.1);
            entry.1 = reach;
        }
        if !by_place.is_empty() {
            self.calls.push(Call { file, spans, by_place });
        }
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The number of calls with bytes.
    pub fn calls(&self) -> u32 {
        self.calls.len() as u32
    }

    /// The file of a call.
    pub fn file(&self, call: u32) -> FileId {
        self.calls[call as usize].file
    }

    /// Returns the end of a call's file, over all calls.
    pub fn size(&self, call: u32) -> u64 {
        let file = self.file(call);
        let calls = self.calls.iter().filter(|call| call.file == file);
        calls.filter_map(|call| call.by_place.last()).map(|last| last.1).max().unwrap_or(0)
    }

    /// Returns the span of a rank.
    pub fn transfer_ns(&self, rank: u32, call: u32) -> FileSpan {
        self.calls[call as usize].spans[rank as usize]
    }

    /// Adds the ranks with spans in a range, in order.
    pub fn ranks_in(&self, call: u32, range: &Range<u64>, ranks: &mut Vec<u32>) {
        let call = &self.calls[call as usize];
        let upto = call.by_place.partition_point(|entry| entry.0 < range.end);
        let reaching = call.by_place[..upto].iter().rev().take_while(|entry| entry.1 > range.start);
        ranks.extend(reaching.map(|entry| entry.2));
        ranks.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_rank_with_bytes_in_a_range_is_found(
            spans in prop::collection::vec((0u64..100, 0u64..30, 0u64..40), 1..12),
            from in 0u64..120,
            len in 1u64..30,
        ) {
            let mut recorded = RecordedCalls::new(spans.len() as u32);
            let asked = (0..).zip(&spans).map(|(rank, &(lo, length, len))| (rank, FileSpan { lo, hi: lo + length, len }));
            recorded.call(FileId(4), asked);
            prop_assume!(recorded.calls() == 1);
            let range = from..from + len;
            let mut found = Vec::new();
            recorded.ranks_in(0, &range, &mut found);
            for rank in 0..recorded.ranks() {
                let span = recorded.transfer_ns(rank, 0);
                let bytes = span.below(range.end) - span.below(range.start);
                prop_assert!(bytes == 0 || found.contains(&rank));
                prop_assert_eq!((span.below(0), span.below(1000)), (0, span.len));
            }
        }
    }
}
