//! The accesses of a program's ranks, call by call, as compact views instead of lists of pieces.
//!
//! A workload knows for each rank and call a view and a range of it, and for each range of the file a short list of ranks
//! that may have bytes in it. The view gives the number of bytes. So memory does not grow with the number of pieces, and
//! time only with the number of (rank, window) pairs that overlap.

mod array;
mod recorded;

use std::ops::Range;
use std::sync::OnceLock;

use pario_types::{FileId, Offset, Pos};
use pario_view::View;

use crate::error::Error;

pub use array::{Grid, Slices};
pub use recorded::{FileSpan, RecordedCalls};

/// The access of one rank in one call.
#[derive(Clone, Debug)]
pub enum Access<'a> {
    /// A range of a view.
    View {
        /// The view.
        view: &'a View,
        /// The position in the view.
        at: Pos,
        /// The number of bytes.
        len: u64,
    },
    /// Bytes spread evenly over a span of the file: a trace records no more.
    Spread(FileSpan),
}

impl Access<'_> {
    /// The number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Access::View { len, .. } => *len,
            Access::Spread(span) => span.len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that lie in a range of the file.
    pub fn bytes_in(&self, range: &Range<u64>) -> u64 {
        match self {
            Access::View { view, at, len } => {
                let below = |offset| view.rank(Offset(offset)).0.clamp(at.0, at.0 + len);
                below(range.end) - below(range.start)
            }
            Access::Spread(span) => span.below(range.end) - span.below(range.start),
        }
    }

    /// The mean length of a contiguous piece, at least 1.
    pub fn piece(&self) -> u64 {
        match self {
            Access::View { view, len, .. } => (view.density().piece.min(*len as f64) as u64).max(1),
            Access::Spread(span) => span.len.max(1),
        }
    }
}

/// A program's accesses to its files.
#[derive(Debug)]
pub struct Workload {
    /// The name on the command line.
    pub name: String,
    ranks: u32,
    calls: u32,
    shape: Shape,
    /// Views, created when they are first used: by kind, then rank.
    views: Vec<OnceLock<View>>,
}

#[derive(Debug)]
enum Shape {
    /// Arrays in turn, each distributed to all ranks.
    Arrays(Vec<Grid>),
    /// Block-tridiagonal: as many slices as the square root of the ranks.
    Slices(Slices),
    /// Each rank's own contiguous part, of a size that depends on the rank.
    Parts { block: u64 },
    /// Accesses from a trace.
    Recorded(RecordedCalls),
}

/// The sizes of a workload; 0 selects the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The edge of each rank's block (coll_perf, s3d, flash), of the whole array (bt), of a tile, or the KiB of each rank
    /// (contiguous).
    pub edge: u64,
    /// The number of collective calls.
    pub calls: u32,
}

impl Workload {
    /// The names of the built-in workloads.
    pub const NAMES: &'static [&'static str] = &["coll_perf", "bt", "flash", "s3d", "tile", "contiguous"];

    /// Creates a built-in workload on so many ranks.
    pub fn named(name: &str, ranks: u32, size: Size) -> Result<Workload, Error> {
        if ranks == 0 {
            return Err(Error::Number("number of processes"));
        }
        let edge = |usual| if size.edge == 0 { usual } else { size.edge };
        let calls = |usual| if size.calls == 0 { usual } else { size.calls };
        let (shape, calls) = match name {
            "coll_perf" => (Shape::Arrays(vec![Grid::blocks(ranks, edge(128), 1, 4)?]), calls(10)),
            "s3d" => {
                let one = |fourth| Grid::blocks(ranks, edge(50), fourth, 8);
                (Shape::Arrays(vec![one(11)?, one(3)?, one(1)?, one(1)?]), calls(40))
            }
            "tile" => {
                let (width, height) = (edge(1024), edge(1024) * 3 / 4);
                (Shape::Arrays(vec![Grid::tiles(ranks, width, height, 3)?]), calls(10))
            }
            "contiguous" => (Shape::Arrays(vec![Grid::row(ranks, edge(4096) << 10)?]), calls(4)),
            "bt" => (Shape::Slices(Slices::new(ranks, edge(162), 40)?), calls(40)),
            "flash" => {
                let edge = edge(32);
                if edge > 4096 {
                    return Err(Error::Number("edge of a block"));
                }
                (Shape::Parts { block: edge.pow(3) * 8 }, calls(24))
            }
            _ => return Err(Error::Unknown(name.to_owned())),
        };
        let kinds = match &shape {
            Shape::Arrays(arrays) => arrays.len(),
            _ => 1,
        };
        let views = (0..kinds * ranks as usize).map(|_| OnceLock::new()).collect();
        Ok(Workload { name: name.to_owned(), ranks, calls, shape, views })
    }

    /// Creates a workload from a trace.
    pub fn recorded(name: &str, recorded: RecordedCalls) -> Result<Workload, Error> {
        let (ranks, calls) = (recorded.ranks(), recorded.calls());
        if ranks == 0 || calls == 0 {
            return Err(Error::NothingRecorded);
        }
        Ok(Workload {
            name: name.to_owned(),
            ranks,
            calls,
            shape: Shape::Recorded(recorded),
            views: Vec::new(),
        })
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The number of collective calls.
    pub fn calls(&self) -> u32 {
        self.calls
    }

    /// Returns the file of a call: the calls of a checkpoint share one file, all others use one file.
    pub fn file(&self, call: u32) -> FileId {
        match &self.shape {
            Shape::Arrays(arrays) if arrays.len() > 1 => FileId(1 + u64::from(call) / arrays.len() as u64),
            Shape::Recorded(recorded) => recorded.file(call),
            _ => FileId(1),
        }
    }

    /// Returns the access of a rank in a call.
    pub fn access(&self, rank: u32, call: u32) -> Access<'_> {
        match &self.shape {
            Shape::Recorded(recorded) => Access::Spread(recorded.transfer_ns(rank, call)),
            Shape::Arrays(arrays) => {
                let kind = call as usize % arrays.len();
                let view = self.view(kind, rank, || {
                    let base = arrays[..kind].iter().map(Grid::bytes).sum();
                    View::new(Offset(base), arrays[kind].pattern(rank))
                });
                // A file for each round of arrays, or one array after the other in one file.
                let tile = if arrays.len() > 1 { 0 } else { u64::from(call) };
                let len = view.tile().size();
                Access::View { view, at: Pos(tile * len), len }
            }
            Shape::Slices(slices) => {
                let view = self.view(0, rank, || View::new(Offset(0), slices.pattern(rank)));
                let len = view.tile().size();
                Access::View { view, at: Pos(u64::from(call) * len), len }
            }
            Shape::Parts { block } => {
                let total = parts_before(self.ranks) * block;
                let from = parts_before(rank) * block;
                let len = parts_before(rank + 1) * block - from;
                let view = self.view(0, rank, || View::new(Offset(from), array::every(len, total)));
                Access::View { view, at: Pos(u64::from(call) * len), len }
            }
        }
    }

    /// Puts the ranks that may have bytes in a range of the file in this call into `ranks`, in order, each once. Every rank
    /// with bytes there is among them.
    pub fn ranks_in(&self, call: u32, range: &Range<u64>, ranks: &mut Vec<u32>) {
        ranks.clear();
        match &self.shape {
            Shape::Recorded(recorded) => recorded.ranks_in(call, range, ranks),
            Shape::Arrays(arrays) => {
                let kind = call as usize % arrays.len();
                let base = match arrays.len() {
                    1 => u64::from(call) * arrays[0].bytes(),
                    _ => arrays[..kind].iter().map(Grid::bytes).sum(),
                };
                arrays[kind].ranks_in(&within(range, base, arrays[kind].bytes()), ranks);
            }
            Shape::Slices(slices) => {
                let base = u64::from(call) * slices.bytes();
                slices.ranks_in(&within(range, base, slices.bytes()), ranks);
            }
            Shape::Parts { block } => {
                let total = parts_before(self.ranks) * block;
                let range = within(range, u64::from(call) * total, total);
                if !range.is_empty() {
                    let owner = |offset: u64| {
                        let number = offset / block;
                        // Three ranks have 243 blocks; the first of them 80, the second 81.
                        let rest = number % 243;
                        let within = u64::from(rest >= 80) + u64::from(rest >= 161);
                        (number / 243 * 3 + within) as u32
                    };
                    ranks.extend(owner(range.start)..=owner(range.end - 1));
                }
            }
        }
    }

    /// Returns the final size of a call's file.
    pub fn size(&self, call: u32) -> u64 {
        let times = u64::from(self.calls);
        match &self.shape {
            Shape::Arrays(arrays) if arrays.len() > 1 => arrays.iter().map(Grid::bytes).sum(),
            Shape::Arrays(arrays) => arrays[0].bytes() * times,
            Shape::Slices(slices) => slices.bytes() * times,
            Shape::Parts { block } => parts_before(self.ranks) * block * times,
            Shape::Recorded(recorded) => recorded.size(call),
        }
    }

    /// Bytes of all ranks in all calls.
    pub fn bytes(&self) -> u64 {
        let one = |call| (0..self.ranks).map(|rank| self.access(rank, call).len()).sum::<u64>();
        match &self.shape {
            Shape::Recorded(_) => (0..self.calls).map(one).sum(),
            Shape::Arrays(arrays) => {
                let kinds = arrays.len() as u32;
                let rounds = |kind: u32| u64::from(self.calls / kinds + u32::from(kind < self.calls % kinds));
                (0..kinds.min(self.calls)).map(|kind| one(kind) * rounds(kind)).sum()
            }
            Shape::Slices(_) | Shape::Parts { .. } => one(0) * u64::from(self.calls),
        }
    }

    fn view(&self, kind: usize, rank: u32, make: impl FnOnce() -> View) -> &View {
        self.views[kind * self.ranks as usize + rank as usize].get_or_init(make)
    }
}

/// Returns the number of blocks of the ranks before this one; rank r has 80 + r mod 3.
fn parts_before(rank: u32) -> u64 {
    let (threes, rest) = (u64::from(rank / 3), u64::from(rank % 3));
    threes * 243 + rest * 80 + u64::from(rest == 2)
}

/// Returns a range relative to `base`, clipped to `len` bytes from there.
fn within(range: &Range<u64>, base: u64, len: u64) -> Range<u64> {
    range.start.saturating_sub(base).min(len)..range.end.saturating_sub(base).min(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_workload() -> impl Strategy<Value = Workload> {
        let small = prop_oneof![
            (Just("coll_perf"), 1u32..30, 1u64..6),
            (Just("s3d"), 1u32..30, 1u64..4),
            (Just("tile"), 1u32..20, 4u64..16),
            (Just("flash"), 1u32..12, 1u64..3),
            (Just("contiguous"), 1u32..9, Just(1u64)),
            (Just("bt"), (1u32..5).prop_map(|n| n * n), 5u64..9),
        ];
        small.prop_map(|(name, ranks, edge)| {
            Workload::named(name, ranks, Size { edge, calls: 5 }).expect("sound")
        })
    }

    /// Returns the offset of every byte of the access.
    fn offsets(access: &Access) -> Vec<u64> {
        match access {
            Access::View { view, at, len } => {
                (at.0..at.0 + len).map(|p| view.select(Pos(p)).expect("a byte").0).collect()
            }
            Access::Spread(_) => unreachable!("not recorded"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn ranks_with_bytes_in_a_range_are_found(work in any_workload(), from in 0.0..1.0f64, part in 0.0..0.3f64) {
            let call = 3;
            let all: Vec<Vec<u64>> = (0..work.ranks()).map(|r| offsets(&work.access(r, call))).collect();
            let (lo, hi) = (all.iter().flatten().min().unwrap(), all.iter().flatten().max().unwrap() + 1);
            let start = lo + ((hi - lo) as f64 * from) as u64;
            let range = start..start + ((hi - lo) as f64 * part) as u64 + 1;
            let mut found = Vec::new();
            work.ranks_in(call, &range, &mut found);
            prop_assert!(found.is_sorted() && found.windows(2).all(|pair| pair[0] < pair[1]));
            for (rank, offsets) in (0..).zip(&all) {
                let naive = offsets.iter().filter(|o| range.contains(o)).count() as u64;
                prop_assert_eq!(work.access(rank, call).bytes_in(&range), naive);
                prop_assert!(naive == 0 || found.contains(&rank), "rank {}", rank);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn calls_cover_the_file_without_gaps(work in any_workload()) {
            let tiles = work.name == "tile";
            let mut seen = std::collections::BTreeMap::new();
            for call in 0..work.calls() {
                for rank in 0..work.ranks() {
                    for offset in offsets(&work.access(rank, call)) {
                        *seen.entry((work.file(call), offset)).or_insert(0) += 1;
                    }
                }
            }
            prop_assert_eq!(seen.values().sum::<u64>(), work.bytes());
            prop_assert!(tiles || seen.values().all(|&times| times == 1));
            for file in seen.keys().map(|key| key.0).collect::<std::collections::BTreeSet<_>>() {
                let bytes: Vec<u64> = seen.keys().filter(|key| key.0 == file).map(|key| key.1).collect();
                prop_assert_eq!(bytes.len() as u64, bytes.last().unwrap() + 1, "no holes");
                let call = (0..work.calls()).find(|&call| work.file(call) == file).unwrap();
                // The last checkpoint may be cut short.
                prop_assert!(bytes.len() as u64 == work.size(call) || work.name == "s3d");
            }
        }
    }

    #[test]
    fn the_sizes_are_those_of_the_programs() {
        let bytes = |name, ranks| Workload::named(name, ranks, Size::default()).expect("sound").bytes();
        assert_eq!(bytes("coll_perf", 64), 10 * 64 * 128 * 128 * 128 * 4);
        assert_eq!(bytes("bt", 16), 40 * 162 * 162 * 162 * 40);
        assert_eq!(bytes("s3d", 8), 10 * 8 * 16 * 50 * 50 * 50 * 8);
        assert_eq!(bytes("flash", 3), 24 * 243 * 32 * 32 * 32 * 8);
    }

    #[test]
    fn impossible_workloads_are_refused() {
        let refused = |name, ranks| Workload::named(name, ranks, Size::default()).expect_err("refused");
        assert_eq!(refused("bt", 63), Error::NotSquare(63));
        assert_eq!(refused("btio", 64), Error::Unknown("btio".into()));
        assert_eq!(refused("flash", 0), Error::Number("number of processes"));
    }
}
