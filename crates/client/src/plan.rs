//! Which bytes of the user's memory go to which byte of which server: pure arithmetic.
//!
//! An access is a list of *segments* (a place in the file and memory of that length). It is cut into
//! *chunks*: bytes that lie together in memory, in the file and in one server's local part. For a server
//! whose pool is mapped, chunks are cut once more at blocks, and those of a block that follow each other make
//! a *group*.

use std::ops::Range;

use pario_layout::Striping;
use pario_units::Offset;

/// Most chunks that are planned at once, and most bytes: what an access costs in memory besides the user's
/// own.
pub(crate) const MOST_CHUNKS: usize = 16 << 10;
pub(crate) const MOST_BYTES: u64 = 64 << 20;

/// Bytes that lie together in memory and in a server's local part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Of which segment.
    pub segment: usize,
    /// Where in its memory.
    pub at: usize,
    pub len: usize,
    /// Where in the server's local part.
    pub local: u64,
}

impl Chunk {
    pub fn local_end(&self) -> u64 {
        self.local + self.len as u64
    }

    /// The first `len` bytes, which become shorter by that.
    pub fn take_front(&mut self, len: usize) -> Chunk {
        let front = Chunk { len, ..*self };
        self.at += len;
        self.len -= len;
        self.local += len as u64;
        front
    }
}

/// A place in a list of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub segment: usize,
    pub at: usize,
}

/// The chunks of the next bytes of an access, by the place of their server among the file's holders, and
/// where they end. `segments` are pairs of offset and length; bytes at or beyond `ceiling` are left out.
pub(crate) fn plan(
    striping: &Striping,
    segments: impl Fn(usize) -> Option<(u64, usize)>,
    from: Place,
    ceiling: u64,
) -> (Vec<Vec<Chunk>>, Place) {
    let mut shares = vec![Vec::new(); usize::from(striping.count())];
    let (mut count, mut bytes) = (0, 0);
    let mut place = from;
    while let Some((offset, len)) = segments(place.segment) {
        let end = ceiling.saturating_sub(offset).min(len as u64);
        while (place.at as u64) < end {
            if count == MOST_CHUNKS || bytes == MOST_BYTES {
                return (shares, place);
            }
            let most = (end - place.at as u64).min(MOST_BYTES - bytes);
            let start = offset + place.at as u64;
            let piece = striping.pieces(start..start + most).next().expect("there are bytes");
            let index = striping.place(piece.server).expect("a holder");
            let (segment, at, len) = (place.segment, place.at, piece.len as usize);
            shares[usize::from(index)].push(Chunk { segment, at, len, local: piece.local });
            place.at += len;
            bytes += piece.len;
            count += 1;
        }
        place = Place { segment: place.segment + 1, at: 0 };
    }
    (shares, place)
}

/// Leaves out of chunks what lies at or beyond an offset of the file. `offset_of` is that of a segment.
pub(crate) fn clip(chunks: &mut Vec<Chunk>, ceiling: u64, offset_of: impl Fn(usize) -> u64) {
    chunks.retain_mut(|chunk| {
        let start = offset_of(chunk.segment) + chunk.at as u64;
        chunk.len = chunk.len.min(usize::try_from(ceiling.saturating_sub(start)).unwrap_or(usize::MAX));
        chunk.len > 0
    });
}

/// How many leading bytes of an access lie below the file's size.
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

/// Chunks of one block that follow each other in an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub block: u64,
    /// Which chunks.
    pub chunks: Range<usize>,
    /// They are all of the block, each byte once and in order.
    pub whole: bool,
}

/// Cuts chunks at blocks.
pub(crate) fn group(chunks: &[Chunk], block: u64) -> (Vec<Chunk>, Vec<Group>) {
    let mut cut = Vec::with_capacity(chunks.len());
    let mut groups: Vec<Group> = Vec::new();
    // How far the last group covers its block without a gap; `None` once there was one.
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

/// Where an access at one offset goes first: server, its place, local offset and how many bytes stay
/// together.
pub(crate) fn first_piece(striping: &Striping, offset: u64, len: usize) -> (u16, u64, usize) {
    let piece = striping.piece(Offset(offset));
    let together = if striping.count() == 1 { len as u64 } else { piece.len.min(len as u64) };
    (striping.place(piece.server).expect("a holder"), piece.local, together as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_units::ServerId;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn any_striping() -> impl Strategy<Value = Striping> {
        (1u64..40, 1u16..6).prop_flat_map(|(stripe, servers)| {
            (1..=servers, 0..servers)
                .prop_map(move |(count, first)| Striping::new(stripe, count, first, servers).expect("sound"))
        })
    }

    fn any_segments() -> impl Strategy<Value = Vec<(u64, usize)>> {
        prop::collection::vec((0u64..500, 0usize..120), 0..8)
    }

    fn servers(striping: &Striping) -> Vec<ServerId> {
        striping.holders().collect()
    }

    proptest! {
        /// Every byte below the ceiling is planned once, where the striping says.
        #[test]
        fn chunks_are_the_bytes_one_by_one(
            striping in any_striping(), segments in any_segments(), ceiling in 0u64..700,
        ) {
            let mut naive = BTreeMap::new();
            for (segment, (offset, len)) in segments.iter().enumerate() {
                for at in 0..*len {
                    let byte = offset + at as u64;
                    if byte < ceiling {
                        let piece = striping.piece(Offset(byte));
                        naive.insert((segment, at), (piece.server, piece.local));
                    }
                }
            }
            let (shares, end) = plan(&striping, |i| segments.get(i).copied(), Place::default(), ceiling);
            prop_assert_eq!(end, Place { segment: segments.len(), at: 0 });
            let mut planned = BTreeMap::new();
            for (chunks, server) in shares.iter().zip(servers(&striping)) {
                prop_assert!(chunks.is_sorted_by_key(|c| (c.segment, c.at)), "memory in order");
                for chunk in chunks {
                    for i in 0..chunk.len {
                        let place = (server, chunk.local + i as u64);
                        let known = planned.insert((chunk.segment, chunk.at + i), place);
                        prop_assert_eq!(known, None);
                    }
                }
            }
            prop_assert_eq!(planned, naive);
        }

        #[test]
        fn clipping_later_is_planning_with_the_ceiling(
            striping in any_striping(), segments in any_segments(), ceiling in 0u64..700,
        ) {
            let of = |i: usize| segments.get(i).copied();
            let (mut shares, _) = plan(&striping, of, Place::default(), u64::MAX);
            for chunks in &mut shares {
                clip(chunks, ceiling, |segment| segments[segment].0);
            }
            prop_assert_eq!(shares, plan(&striping, of, Place::default(), ceiling).0);
        }

        #[test]
        fn groups_are_the_chunks_block_by_block(
            striping in any_striping(), segments in any_segments(), block in 1u64..64,
        ) {
            let (shares, _) = plan(&striping, |i| segments.get(i).copied(), Place::default(), u64::MAX);
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
        fn leading_bytes_end_at_the_first_beyond_the_size(segments in any_segments(), size in 0u64..700) {
            let each = segments.iter().flat_map(|(offset, len)| (0..*len as u64).map(move |i| offset + i));
            let naive = each.take_while(|byte| *byte < size).count();
            prop_assert_eq!(leading(segments.iter().copied(), size), naive);
        }

        #[test]
        fn the_first_piece_is_the_first_chunk(
            striping in any_striping(), offset in 0u64..900, len in 1usize..200,
        ) {
            let one = |i| (i == 0).then_some((offset, len));
            let (shares, _) = plan(&striping, one, Place::default(), u64::MAX);
            let (place, local, together) = first_piece(&striping, offset, len);
            prop_assert_eq!(shares[usize::from(place)][0], Chunk { segment: 0, at: 0, len: together, local });
        }
    }

    #[test]
    fn a_large_access_is_planned_in_steps() {
        let striping = Striping::new(1, 2, 0, 2).expect("sound");
        let segments = |i| (i == 0).then_some((0, MOST_CHUNKS + 5));
        let (shares, next) = plan(&striping, segments, Place::default(), u64::MAX);
        assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), MOST_CHUNKS);
        assert_eq!(next, Place { segment: 0, at: MOST_CHUNKS });
        let (shares, next) = plan(&striping, segments, next, u64::MAX);
        assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), 5);
        assert_eq!(next, Place { segment: 1, at: 0 });
    }
}
