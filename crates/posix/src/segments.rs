//! Cuts the pieces of a request into accesses: single stretches, and windows that join pieces across gaps.
//!
//! The pieces come as strided runs in stream order, and a run is joined by arithmetic, not piece by piece.
//! A window never moves backwards, never exceeds its limit, starts at the first byte needed and ends after
//! the last. Touching pieces are one stretch whatever the rule says, and a stretch that stands alone may be
//! of any length.

use crate::cost::JoinRule;

/// `count` pieces of `len` bytes, `stride` apart, from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strip {
    pub offset: u64,
    pub len: u64,
    pub stride: i64,
    pub count: u64,
}

/// One access: the next `data` bytes of the stream lie within `[lo, hi)`, with holes if `stretches` > 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub lo: u64,
    pub hi: u64,
    pub data: u64,
    pub stretches: u64,
}

/// How far a window may reach.
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
    runs: F,
    strip: Option<Strip>,
    open: Option<Segment>,
    end: u64,
    rule: JoinRule,
    limit: Limit,
}

impl<F: FnMut() -> Option<Strip>> Segments<F> {
    pub fn new(runs: F, rule: JoinRule, limit: Limit) -> Segments<F> {
        Segments { runs, strip: None, open: None, end: 0, rule, limit }
    }

    /// Decides by another rule from here on.
    pub fn set_rule(&mut self, rule: JoinRule) {
        self.rule = rule;
    }

    /// Takes `count` whole pieces off the front of the current strip.
    fn consume(&mut self, strip: Strip, count: u64) {
        let left = strip.count - count;
        self.strip = (left > 0).then(|| Strip {
            offset: strip.offset.wrapping_add_signed(strip.stride.wrapping_mul(count as i64)),
            count: left,
            ..strip
        });
    }

    /// Takes the first `part` bytes of the first piece and keeps the rest of that piece for next.
    fn split(&mut self, strip: Strip, part: u64) {
        debug_assert!(part < strip.len);
        let rest = Strip { offset: strip.offset + part, len: strip.len - part, stride: 0, count: 1 };
        if strip.count == 1 {
            self.strip = Some(rest);
        } else {
            // The rest touches the border, where a new segment begins; it opens that segment at once.
            self.consume(strip, 1);
            self.pending_open(rest);
        }
    }

    fn pending_open(&mut self, rest: Strip) {
        self.open =
            Some(Segment { lo: rest.offset, hi: rest.offset + rest.len, data: rest.len, stretches: 1 });
        self.end = self.limit.end(rest.offset);
    }

    fn open_with(&mut self, strip: Strip) {
        self.consume(strip, 1);
        self.pending_open(strip);
    }

    /// How many pieces of the strip (at least 1) fit the window `[.., end)` in one stride.
    fn fitting(&self, strip: &Strip) -> u64 {
        let Ok(stride) = u64::try_from(strip.stride) else { return 1 };
        if strip.count == 1 || stride <= strip.len || !self.rule.joins(stride - strip.len, strip.len) {
            return 1;
        }
        let room = self.end - (strip.offset + strip.len);
        1 + (room / stride).min(strip.count - 1)
    }
}

impl<F: FnMut() -> Option<Strip>> Iterator for Segments<F> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        loop {
            let Some(strip) = self.strip.take().or_else(&mut self.runs) else { return self.open.take() };
            let Some(seg) = self.open else {
                self.open_with(strip);
                continue;
            };
            let (start, piece_end) = (strip.offset, strip.offset + strip.len);
            let touching = start == seg.hi;
            if touching && seg.stretches == 1 {
                self.consume(strip, 1);
                self.open = Some(Segment { hi: piece_end, data: seg.data + strip.len, ..seg });
                continue;
            }
            let copied = strip.len + if seg.stretches == 1 { seg.data } else { 0 };
            let apart = start < seg.hi
                || start >= self.end
                || seg.hi > self.end
                || !(touching || self.rule.joins(start - seg.hi, copied))
                || (piece_end > self.end && matches!(self.limit, Limit::Span(_)));
            if apart {
                self.strip = Some(strip);
                return self.open.take();
            }
            let stretches = seg.stretches + u64::from(!touching);
            if piece_end > self.end {
                let part = self.end - start;
                let full = Segment { lo: seg.lo, hi: self.end, data: seg.data + part, stretches };
                self.open = None;
                self.split(strip, part);
                return Some(full);
            }
            let count = self.fitting(&strip);
            let hi = piece_end + (count - 1) * strip.stride.unsigned_abs();
            let data = seg.data + count * strip.len;
            self.consume(strip, count);
            self.open = Some(Segment { lo: seg.lo, hi, data, stretches: stretches + count - 1 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::filesystem::{FileSystem, FsKind};
    use crate::tuning::Toggle;
    use proptest::prelude::*;

    fn rule(toggle: Toggle) -> JoinRule {
        JoinRule::for_read(&Costs::new(&FileSystem::new(FsKind::Tmpfs, 1)).prices(), toggle)
    }

    fn segments(strips: &[Strip], toggle: Toggle, limit: Limit) -> Vec<Segment> {
        let mut left = strips.iter().copied();
        Segments::new(move || left.next(), rule(toggle), limit).collect()
    }

    fn strip(offset: u64, len: u64, stride: i64, count: u64) -> Strip {
        Strip { offset, len, stride, count }
    }

    #[test]
    fn a_dense_run_becomes_windows_on_the_grid() {
        let got = segments(&[strip(4, 4, 16, 100)], Toggle::Auto, Limit::Grid(1024));
        let first = Segment { lo: 4, hi: 1016, data: 256, stretches: 64 };
        assert_eq!(got, [first, Segment { lo: 1028, hi: 1028 + 35 * 16 + 4, data: 144, stretches: 36 }]);
    }

    #[test]
    fn disabled_means_piece_by_piece_but_touching_pieces_are_one() {
        let got = segments(&[strip(0, 4, 8, 2), strip(12, 4, 0, 1)], Toggle::Disable, Limit::Span(1 << 20));
        let one = |lo, hi| Segment { lo, hi, data: hi - lo, stretches: 1 };
        assert_eq!(got, [one(0, 4), one(8, 16)]);
    }

    #[test]
    fn a_straddling_piece_is_cut_at_the_grid_only_in_a_window() {
        let got = segments(&[strip(0, 10, 12, 2)], Toggle::Enable, Limit::Grid(16));
        let a = Segment { lo: 0, hi: 16, data: 14, stretches: 2 };
        assert_eq!(got, [a, Segment { lo: 16, hi: 22, data: 6, stretches: 1 }]);
        let alone = segments(&[strip(3, 100, 0, 1)], Toggle::Enable, Limit::Grid(16));
        assert_eq!(alone, [Segment { lo: 3, hi: 103, data: 100, stretches: 1 }]);
    }

    #[test]
    fn a_great_gap_splits_a_window() {
        let got =
            segments(&[strip(0, 8, 16, 4), strip(1 << 30, 8, 16, 4)], Toggle::Auto, Limit::Span(1 << 40));
        assert_eq!(got.len(), 2);
    }

    fn strips() -> impl Strategy<Value = Vec<Strip>> {
        let one = (0u64..500, 1u64..40, -60i64..200, 1u64..20);
        prop::collection::vec(one, 0..8).prop_map(|list| {
            let down = |s: &Strip| s.offset as i64 + s.stride * (s.count as i64 - 1) >= 0;
            list.into_iter().map(|(o, l, s, c)| strip(o, l, s, c)).filter(down).collect()
        })
    }

    fn pieces(strips: &[Strip]) -> Vec<(u64, u64)> {
        let each = |s: &Strip| {
            let s = *s;
            (0..s.count).map(move |i| (s.offset.wrapping_add_signed(s.stride * i as i64), s.len))
        };
        strips.iter().flat_map(each).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn segments_cover_the_stream_in_order(
            strips in strips(),
            toggle in prop_oneof![Just(Toggle::Enable), Just(Toggle::Disable), Just(Toggle::Auto)],
            limit in prop_oneof![(1u64..200).prop_map(Limit::Span), (1u64..200).prop_map(Limit::Grid)],
        ) {
            let mut bytes = pieces(&strips).into_iter().flat_map(|(o, l)| o..o + l);
            for seg in segments(&strips, toggle, limit) {
                let mine: Vec<u64> = bytes.by_ref().take(seg.data as usize).collect();
                prop_assert!(mine.is_sorted_by(|a, b| a < b));
                prop_assert_eq!((mine[0], mine[mine.len() - 1] + 1), (seg.lo, seg.hi));
                let holes = mine.windows(2).filter(|w| w[1] != w[0] + 1).count() as u64;
                prop_assert_eq!(seg.stretches, holes + 1);
                if holes > 0 {
                    prop_assert!(seg.hi <= limit.end(seg.lo));
                    prop_assert!(toggle != Toggle::Disable);
                }
            }
            prop_assert_eq!(bytes.next(), None);
        }
    }
}
