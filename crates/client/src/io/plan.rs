//! Divides an access among servers: the mapping of the program's memory to local offsets of servers. Pure arithmetic.
//!
//! An access is a list of *segments*: an offset in the file and memory of some length. It is divided into *chunks*: bytes that are
//! contiguous in memory, in the file and in one server's local part. For a server whose pool is mapped, chunks are divided at
//! block boundaries as well, and consecutive chunks of one block form a *group*.

use std::ops::Range;

use pario_layout::{ExtentLocation, Layout};
use pario_wire::message::MAX_LOCK_RANGES;

/// The largest number of chunks and bytes that are planned at once; this bounds the memory of an access besides the user's
/// own.
pub(crate) const MOST_CHUNKS: usize = 16 << 10;
pub(crate) const MOST_BYTES: u64 = 64 << 20;

/// Bytes that lie together in memory and in a server's local part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The index of its segment.
    pub segment: usize,
    /// The offset in the segment's memory.
    pub at: usize,
    pub len: usize,
    /// The offset in the server's local part.
    pub local: u64,
}

impl Chunk {
    pub fn local_end(&self) -> u64 {
        self.local + self.len as u64
    }

    /// Splits off the first `len` bytes.
    pub fn take_front(&mut self, len: usize) -> Chunk {
        let front = Chunk { len, ..*self };
        self.at += len;
        self.len -= len;
        self.local += len as u64;
        front
    }
}

/// A position in a list of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentPosition {
    pub segment: usize,
    pub at: usize,
}

/// The servers that take part in an access to replicated bytes.
#[derive(Clone, Copy)]
pub(crate) enum ReplicaChoice<'a> {
    /// All, for a write.
    All,
    /// Of each set the one at this place, for a read.
    One(&'a dyn Fn(u16) -> u16),
}

/// The next bytes of an access.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlannedTransfer {
    /// By the place of their server among the file's holders.
    pub shares: Vec<Vec<Chunk>>,
    /// The file ranges that are written to several servers, in the order of the access.
    pub copied: Vec<Range<u64>>,
    /// Their end.
    pub next: SegmentPosition,
}

/// The chunks of the next bytes of an access. `segments` are pairs of offset and length; bytes at or beyond `ceiling` are
/// left out.
pub(crate) fn plan(
    layout: &Layout,
    copies: ReplicaChoice<'_>,
    segments: impl Fn(usize) -> Option<(u64, usize)>,
    from: SegmentPosition,
    ceiling: u64,
) -> PlannedTransfer {
    let mut shares = vec![Vec::new(); usize::from(layout.count())];
    let mut copied: Vec<Range<u64>> = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    let mut place = from;
    while let Some((offset, len)) = segments(place.segment) {
        let end = ceiling.saturating_sub(offset).min(len as u64);
        while (place.at as u64) < end {
            if count >= MOST_CHUNKS || bytes == MOST_BYTES || copied.len() == MAX_LOCK_RANGES {
                return PlannedTransfer { shares, copied, next: place };
            }
            let most = (end - place.at as u64).min(MOST_BYTES - bytes);
            let start = offset + place.at as u64;
            let extent = layout.extent_at(start, most);
            let (segment, at, len) = (place.segment, place.at, extent.len as usize);
            let mut add = |place, local| {
                shares[usize::from(place)].push(Chunk { segment, at, len, local });
                count += 1;
            };
            match (extent.at, copies) {
                (ExtentLocation::One { place, local }, _) => add(place, local),
                (ExtentLocation::Replicas { set, .. }, ReplicaChoice::One(pick)) => {
                    let place = pick(set);
                    add(place, layout.local(place, start));
                }
                (ExtentLocation::Replicas { places, .. }, ReplicaChoice::All) => {
                    places.iter().for_each(|place| add(*place, layout.local(*place, start)));
                    let end = start + extent.len;
                    match copied.last_mut() {
                        Some(last) if last.end == start => last.end = end,
                        _ => copied.push(start..end),
                    }
                }
            }
            place.at += len;
            bytes += extent.len;
        }
        place = SegmentPosition { segment: place.segment + 1, at: 0 };
    }
    PlannedTransfer { shares, copied, next: place }
}

/// Removes from chunks the bytes at or beyond an offset of the file. `offset_of` is that of a segment.
pub(crate) fn clip(chunks: &mut Vec<Chunk>, ceiling: u64, offset_of: impl Fn(usize) -> u64) {
    chunks.retain_mut(|chunk| {
        let start = offset_of(chunk.segment) + chunk.at as u64;
        chunk.len = chunk.len.min(usize::try_from(ceiling.saturating_sub(start)).unwrap_or(usize::MAX));
        chunk.len > 0
    });
}

/// The number of leading bytes of an access below the file's size.
pub(crate) fn leading(segments: impl Iterator<Item = (u64, usize)>, size: u64) -> usize {
    let mut sum = 0;
    for (offset, len) in segments {
        let within = size.saturating_sub(offset).min(len as u64) as usize;
        sum += within;
        if within < len {
            break;
        }
    }
    sum
}

/// Consecutive chunks of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub block: u64,
    /// The indexes of the chunks.
    pub chunks: Range<usize>,
    /// Whether they cover the whole block, each byte once and in order.
    pub whole: bool,
}

/// Divides chunks at block boundaries.
pub(crate) fn group(chunks: &[Chunk], block: u64) -> (Vec<Chunk>, Vec<Group>) {
    let mut cut = Vec::with_capacity(chunks.len());
    let mut groups: Vec<Group> = Vec::new();
    // The end of the last group's gapless part of its block; `None` once there was a gap.
    let mut covered: Option<u64> = None;
    for chunk in chunks {
        let mut rest = *chunk;
        while rest.len > 0 {
            let (number, within) = (rest.local / block, rest.local % block);
            let part = rest.take_front((block - within).min(rest.len as u64) as usize);
            match groups.last_mut() {
                Some(last) if last.block == number => last.chunks.end += 1,
                _ => {
                    groups.push(Group { block: number, chunks: cut.len()..cut.len() + 1, whole: false });
                    covered = Some(0);
                }
            }
            cut.push(part);
            covered = covered.filter(|reached| *reached == within).map(|reached| reached + part.len as u64);
            if let Some(last) = groups.last_mut() {
                last.whole = covered == Some(block);
            }
        }
    }
    (cut, groups)
}

/// Returns the first part of an access at one offset: the place of the server if there is only one, the local offset there
/// and the number of contiguous bytes.
#[inline]
pub(crate) fn first_piece(
    layout: &Layout,
    copies: ReplicaChoice<'_>,
    offset: u64,
    len: usize,
) -> (Option<u16>, u64, usize) {
    let extent = layout.extent_at(offset, len as u64);
    let (place, local) = match (extent.at, copies) {
        (ExtentLocation::One { place, local }, _) => (Some(place), local),
        (ExtentLocation::Replicas { set, .. }, ReplicaChoice::One(pick)) => {
            let place = pick(set);
            (Some(place), layout.local(place, offset))
        }
        (ExtentLocation::Replicas { .. }, ReplicaChoice::All) => (None, 0),
    };
    (place, local, extent.len as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_layout::{PlacementMap, Striping};
    use pario_types::ServerId;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Of each set the last.
    fn last(layout: &Layout) -> impl Fn(u16) -> u16 + '_ {
        |set| *layout.places(set).last().expect("a set has servers")
    }

    fn any_layout() -> impl Strategy<Value = Layout> {
        let extents = |servers| {
            let holders = prop::collection::vec((0..servers).prop_map(ServerId), 0..4);
            prop::collection::vec((1u64..60, holders), 0..8)
        };
        (1u64..40, 1u16..6).prop_flat_map(move |(stripe, servers)| {
            (1..=servers, 0..servers, extents(servers)).prop_map(move |(count, first, extents)| {
                let striping = Striping::new(stripe, count, first, servers).expect("sound");
                let mut at = 0;
                let table = PlacementMap::new(extents.into_iter().map(|(len, holders)| {
                    at += len;
                    (at - len..at, holders)
                }));
                Layout::placed(striping, table.expect("in order")).expect("servers that are there")
            })
        })
    }

    /// Returns the location of a byte: all replicas of it, or the one that is read.
    fn places(layout: &Layout, copies: ReplicaChoice<'_>, byte: u64) -> Vec<(ServerId, u64)> {
        let at = match (layout.extent_at(byte, 1).at, copies) {
            (ExtentLocation::One { place, .. }, _) => vec![place],
            (ExtentLocation::Replicas { set, .. }, ReplicaChoice::One(pick)) => vec![pick(set)],
            (ExtentLocation::Replicas { places, .. }, ReplicaChoice::All) => places.to_vec(),
        };
        let mut found: Vec<_> =
            at.into_iter().map(|place| (layout.server(place), layout.local(place, byte))).collect();
        found.sort_unstable();
        found
    }

    fn any_segments() -> impl Strategy<Value = Vec<(u64, usize)>> {
        prop::collection::vec((0u64..500, 0usize..120), 0..8)
    }

    proptest! {
        /// Every byte below the ceiling is planned once, where the layout says; once for each replica if it is written.
        #[test]
        fn the_chunks_of_a_plan_are_those_of_single_bytes(
            layout in any_layout(), segments in any_segments(), ceiling in 0u64..700, write: bool,
        ) {
            let pick = last(&layout);
            let copies = if write { ReplicaChoice::All } else { ReplicaChoice::One(&pick) };
            let (mut naive, mut copied) = (BTreeMap::new(), BTreeSet::new());
            for (segment, (offset, len)) in segments.iter().enumerate() {
                for at in 0..*len {
                    let byte = offset + at as u64;
                    if byte < ceiling {
                        let found = places(&layout, copies, byte);
                        copied.extend((found.len() > 1).then_some(byte));
                        naive.insert((segment, at), found);
                    }
                }
            }
            let planned = plan(&layout, copies, |i| segments.get(i).copied(), SegmentPosition::default(), ceiling);
            prop_assert_eq!(planned.next, SegmentPosition { segment: segments.len(), at: 0 });
            prop_assert_eq!(planned.copied.into_iter().flatten().collect::<BTreeSet<u64>>(), copied);
            let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for (chunks, server) in planned.shares.iter().zip(layout.holders()) {
                prop_assert!(chunks.is_sorted_by_key(|c| (c.segment, c.at)), "memory in order");
                for chunk in chunks {
                    for i in 0..chunk.len {
                        let place = (server, chunk.local + i as u64);
                        found.entry((chunk.segment, chunk.at + i)).or_default().push(place);
                    }
                }
            }
            found.values_mut().for_each(|places| places.sort_unstable());
            prop_assert_eq!(found, naive);
        }

        #[test]
        fn clipping_a_plan_equals_planning_with_the_limit(
            layout in any_layout(), segments in any_segments(), ceiling in 0u64..700,
        ) {
            let of = |i: usize| segments.get(i).copied();
            let mut shares = plan(&layout, ReplicaChoice::All, of, SegmentPosition::default(), u64::MAX).shares;
            for chunks in &mut shares {
                clip(chunks, ceiling, |segment| segments[segment].0);
            }
            prop_assert_eq!(shares, plan(&layout, ReplicaChoice::All, of, SegmentPosition::default(), ceiling).shares);
        }

        #[test]
        fn groups_are_the_chunks_of_each_block(
            layout in any_layout(), segments in any_segments(), block in 1u64..64,
        ) {
            let of = |i: usize| segments.get(i).copied();
            let shares = plan(&layout, ReplicaChoice::All, of, SegmentPosition::default(), u64::MAX).shares;
            for chunks in shares {
                let (cut, groups) = group(&chunks, block);
                let bytes = |chunks: &[Chunk]| -> Vec<(usize, usize, u64)> {
                    let each = |c: &Chunk| {
                        let c = *c;
                        (0..c.len).map(move |i| (c.segment, c.at + i, c.local + i as u64))
                    };
                    chunks.iter().flat_map(each).collect()
                };
                prop_assert_eq!(bytes(&cut), bytes(&chunks));
                let mut next = 0;
                for group in groups {
                    prop_assert_eq!(group.chunks.start, next);
                    next = group.chunks.end;
                    let locals: Vec<u64> = bytes(&cut[group.chunks]).into_iter().map(|b| b.2).collect();
                    prop_assert!(locals.iter().all(|local| local / block == group.block));
                    let all: Vec<u64> = (group.block * block..(group.block + 1) * block).collect();
                    prop_assert_eq!(group.whole, locals == all);
                }
                prop_assert_eq!(next, cut.len());
            }
        }

        #[test]
        fn the_count_of_leading_bytes_ends_at_the_file_size(segments in any_segments(), size in 0u64..700) {
            let each = segments.iter().flat_map(|(offset, len)| (0..*len as u64).map(move |i| offset + i));
            let naive = each.take_while(|byte| *byte < size).count();
            prop_assert_eq!(leading(segments.iter().copied(), size), naive);
        }

        #[test]
        fn the_first_piece_is_the_first_chunk(
            layout in any_layout(), offset in 0u64..900, len in 1usize..200,
        ) {
            let one = |i| (i == 0).then_some((offset, len));
            let pick = last(&layout);
            for copies in [ReplicaChoice::All, ReplicaChoice::One(&pick)] {
                let shares = plan(&layout, copies, one, SegmentPosition::default(), u64::MAX).shares;
                let (place, local, together) = first_piece(&layout, copies, offset, len);
                let first = shares.iter().flatten().filter(|chunk| chunk.at == 0).collect::<Vec<_>>();
                prop_assert_eq!(first[0].len, together);
                prop_assert_eq!(first.len() == 1, place.is_some());
                if let Some(place) = place {
                    let chunk = Chunk { segment: 0, at: 0, len: together, local };
                    prop_assert_eq!(shares[usize::from(place)][0], chunk);
                }
            }
        }
    }

    #[test]
    fn a_large_access_is_planned_in_steps() {
        let layout = Striping::new(1, 2, 0, 2).expect("sound").into();
        let segments = |i| (i == 0).then_some((0, MOST_CHUNKS + 5));
        let PlannedTransfer { shares, next, .. } =
            plan(&layout, ReplicaChoice::All, segments, SegmentPosition::default(), u64::MAX);
        assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), MOST_CHUNKS);
        assert_eq!(next, SegmentPosition { segment: 0, at: MOST_CHUNKS });
        let PlannedTransfer { shares, next, .. } =
            plan(&layout, ReplicaChoice::All, segments, next, u64::MAX);
        assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), 5);
        assert_eq!(next, SegmentPosition { segment: 1, at: 0 });
    }
}
