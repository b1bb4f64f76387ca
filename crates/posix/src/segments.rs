//! Cuts the pieces of a request into accesses: single extents, and windows that join pieces across gaps.
//!
//! The pieces come as strided runs in stream order, and a run is joined by arithmetic, not piece by piece.
//! A window never moves backwards, never exceeds its limit, starts at the first byte needed and ends after
//! the last. Touching pieces are one extent whatever the rule says, and a extent that stands alone may be
//! of any length.

use crate::cost::JoinRule;

/// `count` pieces of `len` bytes, `stride` apart, from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StridedRun {
    pub offset: u64,
    pub len: u64,
    pub stride: i64,
    pub count: u64,
}

/// One access: the next `data` bytes of the stream lie within `[lo, hi)`, with holes if `extents` > 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub lo: u64,
    pub hi: u64,
    pub data: u64,
    pub extents: u64,
}

/// The limit of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// This many bytes from its first.
    Span(u64),
    /// To the next multiple of this: windows of different processes then coincide. A piece that
    /// straddles the border is cut there.
    Grid(u64),
}

impl Limit {
    fn end(self, lo: u64) -> u64 {
        match self {
            Limit::Span(span) => lo.saturating_add(span),
            Limit::Grid(cell) => (lo / cell + 1).saturating_mul(cell),
        }
    }
}

pub(crate) struct Segments<F> {
    next_run: F,
    run: Option<StridedRun>,
    open: Option<Segment>,
    end: u64,
    rule: JoinRule,
    limit: Limit,
}

impl<F: FnMut() -> Option<StridedRun>> Segments<F> {
    pub fn new(next_run: F, rule: JoinRule, limit: Limit) -> Segments<F> {
        Segments { next_run, run: None, open: None, end: 0, rule, limit }
    }

    /// Decides by another rule from here on.
    pub fn set_rule(&mut self, rule: JoinRule) {
        self.rule = rule;
    }

    /// Takes `count` whole pieces off the front of the current run.
    fn consume(&mut self, run: StridedRun, count: u64) {
        let left = run.count - count;
        self.run = (left > 0).then(|| StridedRun {
            offset: run.offset.wrapping_add_signed(run.stride.wrapping_mul(count as i64)),
            count: left,
            ..run
        });
    }

    /// Takes the first `part` bytes of the first piece and keeps the rest of that piece for next.
    fn split(&mut self, run: StridedRun, part: u64) {
        debug_assert!(part < run.len);
        let rest = StridedRun { offset: run.offset + part, len: run.len - part, stride: 0, count: 1 };
        if run.count == 1 {
            self.run = Some(rest);
        } else {
            // The rest touches the border, where a new segment begins; it opens that segment at once.
            self.consume(run, 1);
            self.pending_open(rest);
        }
    }

    fn pending_open(&mut self, rest: StridedRun) {
        self.open = Some(Segment { lo: rest.offset, hi: rest.offset + rest.len, data: rest.len, extents: 1 });
        self.end = self.limit.end(rest.offset);
    }

    fn open_with(&mut self, run: StridedRun) {
        self.consume(run, 1);
        self.pending_open(run);
    }

    /// The number of pieces of the run (at least 1) that fit the window `[.., end)` in one stride.
    fn fitting(&self, run: &StridedRun) -> u64 {
        let Ok(stride) = u64::try_from(run.stride) else { return 1 };
        if run.count == 1 || stride <= run.len || !self.rule.joins(stride - run.len, run.len) {
            return 1;
        }
        let room = self.end - (run.offset + run.len);
        1 + (room / stride).min(run.count - 1)
    }
}

impl<F: FnMut() -> Option<StridedRun>> Iterator for Segments<F> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        loop {
            let Some(run) = self.run.take().or_else(&mut self.next_run) else { return self.open.take() };
            let Some(seg) = self.open else {
                self.open_with(run);
                continue;
            };
            let (start, piece_end) = (run.offset, run.offset + run.len);
            let touching = start == seg.hi;
            if touching && seg.extents == 1 {
                self.consume(run, 1);
                self.open = Some(Segment { hi: piece_end, data: seg.data + run.len, ..seg });
                continue;
            }
            let copied = run.len + if seg.extents == 1 { seg.data } else { 0 };
            let apart = start < seg.hi
                || start >= self.end
                || seg.hi > self.end
                || !(touching || self.rule.joins(start - seg.hi, copied))
                || (piece_end > self.end && matches!(self.limit, Limit::Span(_)));
            if apart {
                self.run = Some(run);
                return self.open.take();
            }
            let extents = seg.extents + u64::from(!touching);
            if piece_end > self.end {
                let part = self.end - start;
                let full = Segment { lo: seg.lo, hi: self.end, data: seg.data + part, extents };
                self.open = None;
                self.split(run, part);
                return Some(full);
            }
            let count = self.fitting(&run);
            let hi = piece_end + (count - 1) * run.stride.unsigned_abs();
            let data = seg.data + count * run.len;
            self.consume(run, count);
            self.open = Some(Segment { lo: seg.lo, hi, data, extents: extents + count - 1 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::CostModel;
    use crate::filesystem::{FileSystem, FsKind};
    use pario_types::Toggle;
    use proptest::prelude::*;

    fn rule(toggle: Toggle) -> JoinRule {
        JoinRule::for_read(&CostModel::new(&FileSystem::new(FsKind::Tmpfs, 1)).prices(), toggle)
    }

    fn segments(runs: &[StridedRun], toggle: Toggle, limit: Limit) -> Vec<Segment> {
        let mut left = runs.iter().copied();
        Segments::new(move || left.next(), rule(toggle), limit).collect()
    }

    fn run(offset: u64, len: u64, stride: i64, count: u64) -> StridedRun {
        StridedRun { offset, len, stride, count }
    }

    #[test]
    fn a_dense_run_becomes_windows_on_the_grid() {
        let got = segments(&[run(4, 4, 16, 100)], Toggle::Automatic, Limit::Grid(1024));
        let first = Segment { lo: 4, hi: 1016, data: 256, extents: 64 };
        assert_eq!(got, [first, Segment { lo: 1028, hi: 1028 + 35 * 16 + 4, data: 144, extents: 36 }]);
    }

    #[test]
    fn without_sieving_pieces_are_separate_and_adjacent_ones_are_merged() {
        let got = segments(&[run(0, 4, 8, 2), run(12, 4, 0, 1)], Toggle::Disable, Limit::Span(1 << 20));
        let one = |lo, hi| Segment { lo, hi, data: hi - lo, extents: 1 };
        assert_eq!(got, [one(0, 4), one(8, 16)]);
    }

    #[test]
    fn a_straddling_piece_is_cut_at_the_grid_only_in_a_window() {
        let got = segments(&[run(0, 10, 12, 2)], Toggle::Enable, Limit::Grid(16));
        let a = Segment { lo: 0, hi: 16, data: 14, extents: 2 };
        assert_eq!(got, [a, Segment { lo: 16, hi: 22, data: 6, extents: 1 }]);
        let alone = segments(&[run(3, 100, 0, 1)], Toggle::Enable, Limit::Grid(16));
        assert_eq!(alone, [Segment { lo: 3, hi: 103, data: 100, extents: 1 }]);
    }

    #[test]
    fn a_large_gap_splits_a_window() {
        let got =
            segments(&[run(0, 8, 16, 4), run(1 << 30, 8, 16, 4)], Toggle::Automatic, Limit::Span(1 << 40));
        assert_eq!(got.len(), 2);
    }

    fn runs() -> impl Strategy<Value = Vec<StridedRun>> {
        let one = (0u64..500, 1u64..40, -60i64..200, 1u64..20);
        prop::collection::vec(one, 0..8).prop_map(|list| {
            let down = |s: &StridedRun| s.offset as i64 + s.stride * (s.count as i64 - 1) >= 0;
            list.into_iter().map(|(o, l, s, c)| run(o, l, s, c)).filter(down).collect()
        })
    }

    fn pieces(runs: &[StridedRun]) -> Vec<(u64, u64)> {
        let each = |s: &StridedRun| {
            let s = *s;
            (0..s.count).map(move |i| (s.offset.wrapping_add_signed(s.stride * i as i64), s.len))
        };
        runs.iter().flat_map(each).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn segments_cover_the_stream_in_order(
            runs in runs(),
            toggle in prop_oneof![Just(Toggle::Enable), Just(Toggle::Disable), Just(Toggle::Automatic)],
            limit in prop_oneof![(1u64..200).prop_map(Limit::Span), (1u64..200).prop_map(Limit::Grid)],
        ) {
            let mut bytes = pieces(&runs).into_iter().flat_map(|(o, l)| o..o + l);
            for seg in segments(&runs, toggle, limit) {
                let mine: Vec<u64> = bytes.by_ref().take(seg.data as usize).collect();
                prop_assert!(mine.is_sorted_by(|a, b| a < b));
                prop_assert_eq!((mine[0], mine[mine.len() - 1] + 1), (seg.lo, seg.hi));
                let holes = mine.windows(2).filter(|w| w[1] != w[0] + 1).count() as u64;
                prop_assert_eq!(seg.extents, holes + 1);
                if holes > 0 {
                    prop_assert!(seg.hi <= limit.end(seg.lo));
                    prop_assert!(toggle != Toggle::Disable);
                }
            }
            prop_assert_eq!(bytes.next(), None);
        }
    }
}
