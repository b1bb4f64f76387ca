//! A view of a striped file, divided by the servers that hold the file.
//!
//! An access through a view is a range of view positions. A server holds those of these bytes that are in its stripes.
//! `rank` and `select` of the view find them stripe by stripe and skip what lies between; pieces are enumerated only
//! while bytes are copied. So client and server agree on the bytes of a message and their order by two numbers and a
//! hash.
//!
//! As bytes: stripe `u64`, count `u16`, first `u16`, servers `u16`, little-endian; then the view as
//! [`View::to_bytes`] has it.

use std::ops::Range;

use pario_types::{Offset, Pos};
use pario_view::{Cursor, Error, View};

use crate::striping::Striping;

/// The length of the header before the encoded view.
const HEAD: usize = 14;

/// Longer encodings are refused.
const MOST_BYTES: usize = 4 << 20;

/// A monotone view of a file with a given striping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripedView {
    view: View,
    striping: Striping,
}

/// View bytes that one server holds in one stripe: they follow each other in the view and, with holes, in the local
/// part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeShare {
    /// The position in the view.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
    /// The file offset of the first byte.
    pub offset: u64,
    /// The offset of the first byte in the server's local part.
    pub local: u64,
}

/// The part of a view range that one server holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalExtent {
    /// The number of bytes.
    pub bytes: u64,
    /// The range from the first to the last of them in the local part, gaps included.
    pub local: Range<u64>,
}

impl StripedView {
    /// The most stripes, with or without bytes of the server, that one message may cover.
    pub const MOST_STEPS: u64 = 1 << 16;

    /// `None` if the offsets of the view do not ascend: its bytes in a stripe would not follow each other.
    pub fn new(view: &View, striping: &Striping) -> Option<StripedView> {
        view.is_monotone().then(|| StripedView { view: view.clone(), striping: *striping })
    }

    /// The view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The striping.
    pub fn striping(&self) -> &Striping {
        &self.striping
    }

    /// Content hash: the first 16 bytes of the BLAKE3 of the view's hash and the striping as in [`StripedView::to_bytes`].
    pub fn hash(&self) -> u128 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.view.hash().0);
        hasher.update(&self.head());
        let hash = hasher.finalize();
        u128::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i]))
    }

    /// The encoding of view and striping.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head().to_vec();
        bytes.extend(self.view.to_bytes());
        bytes
    }

    /// From bytes that may come from anywhere: everything is checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<StripedView, Error> {
        if bytes.len() > MOST_BYTES {
            return Err(Error::Encoding("too long"));
        }
        let (head, view) =
            bytes.split_first_chunk::<HEAD>().ok_or(Error::Encoding("a view needs a striping"))?;
        let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let stripe = u64::from_le_bytes(std::array::from_fn(|i| head[i]));
        let striping = Striping::new(stripe, word(8), word(10), word(12))
            .map_err(|_| Error::Encoding("an impossible striping"))?;
        let view = View::from_bytes(view)?;
        StripedView::new(&view, &striping).ok_or(Error::Encoding("a view that jumps about"))
    }

    /// Bytes that it takes in memory.
    pub fn memory(&self) -> usize {
        self.view.tile().memory() + size_of::<StripedView>()
    }

    /// Whether the view has these bytes, all at offsets that a file can have.
    pub fn covers(&self, at: u64, len: u64) -> bool {
        let sound =
            || self.view.bounds(Pos(at), len).is_some() && self.view.cursor(Pos(at), len).remaining() == len;
        len == 0 || sound()
    }

    /// The view bytes in `range`, which the view [covers](StripedView::covers), that the holder at `place` has; stripe by
    /// stripe.
    pub fn shares(&self, place: u16, range: Range<u64>) -> StripeShares<'_> {
        StripeShares { seen: self, place, range }
    }

    /// The same piece by piece: the offset in the local part, and the number of bytes.
    pub fn pieces(&self, place: u16, range: Range<u64>) -> StripedPieces<&StripedView> {
        StripedPieces::new(self, place, range)
    }

    /// The part of the view bytes in `range`, which the view covers, that the holder at `place` has; `None` if more than
    /// [`StripedView::MOST_STEPS`] stripes would have to be examined.
    pub fn extent(&self, place: u16, mut range: Range<u64>) -> Option<LocalExtent> {
        let mut extent = LocalExtent { bytes: 0, local: 0..0 };
        let mut steps = StripedView::MOST_STEPS;
        while let Some(share) = self.share(place, &mut range, &mut steps) {
            let start = if extent.bytes == 0 { share.local } else { extent.local.start };
            extent.local = start..self.local(&share, share.at + share.len - 1) + 1;
            extent.bytes += share.len;
        }
        range.is_empty().then_some(extent)
    }

    /// The offset of a byte of a share in the server's local part.
    pub fn local(&self, share: &StripeShare, at: u64) -> u64 {
        let offset = self.view.select(Pos(at)).map_or(share.offset, |offset| offset.0);
        share.local + (offset - share.offset)
    }

    /// Returns the next share and removes it from the range; examines at most so many stripes.
    fn share(&self, place: u16, range: &mut Range<u64>, steps: &mut u64) -> Option<StripeShare> {
        while !range.is_empty() && *steps > 0 {
            *steps -= 1;
            let offset = self.view.select(Pos(range.start))?.0;
            let mine = self.striping.first_from(place, offset);
            if mine > offset {
                range.start = self.view.rank(Offset(mine)).0;
                continue;
            }
            let piece = self.striping.piece(Offset(offset));
            let end = match self.striping.count() {
                1 => range.end,
                _ => self.view.rank(Offset(offset + piece.len)).0.min(range.end),
            };
            let share = StripeShare { at: range.start, len: end - range.start, offset, local: piece.local };
            range.start = end;
            return Some(share);
        }
        None
    }

    fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&self.striping.stripe().to_le_bytes());
        head[8..10].copy_from_slice(&self.striping.count().to_le_bytes());
        head[10..12].copy_from_slice(&self.striping.first().to_le_bytes());
        head[12..].copy_from_slice(&self.striping.servers().to_le_bytes());
        head
    }
}

/// See [`StripedView::shares`].
#[derive(Clone, Debug)]
pub struct StripeShares<'a> {
    seen: &'a StripedView,
    place: u16,
    range: Range<u64>,
}

impl Iterator for StripeShares<'_> {
    type Item = StripeShare;

    fn next(&mut self) -> Option<StripeShare> {
        self.seen.share(self.place, &mut self.range, &mut { u64::MAX })
    }
}

/// See [`StripedView::pieces`]. `S` is a reference to the view, or owns it.
#[derive(Clone, Debug)]
pub struct StripedPieces<S> {
    seen: S,
    place: u16,
    range: Range<u64>,
    /// The current stripe and the rest of it.
    share: Option<(StripeShare, Cursor)>,
}

impl<S: std::ops::Deref<Target = StripedView>> StripedPieces<S> {
    /// See [`StripedView::pieces`].
    pub fn new(seen: S, place: u16, range: Range<u64>) -> StripedPieces<S> {
        StripedPieces { seen, place, range, share: None }
    }
}

impl<S: std::ops::Deref<Target = StripedView>> Iterator for StripedPieces<S> {
    /// The offset in the local part, and the number of bytes.
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            if let Some((share, cursor)) = &mut self.share
                && let Some(piece) = cursor.next_piece(u64::MAX)
            {
                return Some((share.local + (piece.offset as u64 - share.offset), piece.len));
            }
            let share = self.seen.share(self.place, &mut self.range, &mut { u64::MAX })?;
            self.share = Some((share, self.seen.view.cursor(Pos(share.at), share.len)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_view::{Datatype, Pattern, Shape};
    use proptest::prelude::*;

    fn any_striping() -> impl Strategy<Value = Striping> {
        (1u64..40, 1u16..6).prop_flat_map(|(stripe, servers)| {
            (1..=servers, 0..servers)
                .prop_map(move |(count, first)| Striping::new(stripe, count, first, servers).expect("sound"))
        })
    }

    /// Pieces at growing displacements, tiled with a gap.
    fn any_view() -> impl Strategy<Value = View> {
        let pieces = prop::collection::vec((0i64..30, 1u64..20), 1..8);
        (pieces, 0i64..40, 0u64..100).prop_map(|(pieces, gap, disp)| {
            let (mut at, mut blocks) = (0, Vec::new());
            for (skip, len) in pieces {
                blocks.push((len, at + skip));
                at += skip + len as i64;
            }
            let child = Datatype::byte().into();
            let shape = Shape::Hindexed { blocks, child };
            let all = Datatype { lb: 0, extent: at, shape };
            let shape = Shape::Resized { lb: 0, extent: at + gap, child: all.into() };
            let tile = Pattern::native(&Datatype { lb: 0, extent: at + gap, shape }).expect("a pattern");
            View::new(Offset(disp), tile)
        })
    }

    proptest! {
        /// Byte by byte: the bytes that the view selects and the server holds, in view order, at their local offsets.
        #[test]
        fn the_shares_of_a_server_are_its_bytes_one_by_one(
            view in any_view(), striping in any_striping(), at in 0u64..600, len in 0u64..400,
        ) {
            let seen = StripedView::new(&view, &striping).expect("monotone");
            prop_assert!(seen.covers(at, len));
            for (place, server) in (0..).zip(striping.holders()) {
                let mut naive = Vec::new();
                for position in at..at + len {
                    let piece = striping.piece(view.select(Pos(position)).expect("there"));
                    if piece.server == server {
                        naive.push((position, piece.local));
                    }
                }
                let locals: Vec<u64> =
                    seen.pieces(place, at..at + len).flat_map(|(local, len)| local..local + len).collect();
                prop_assert_eq!(&locals, &naive.iter().map(|(_, local)| *local).collect::<Vec<_>>());
                let mut positions = Vec::new();
                for share in seen.shares(place, at..at + len) {
                    prop_assert!(share.len > 0);
                    for position in share.at..share.at + share.len {
                        positions.push((position, seen.local(&share, position)));
                    }
                }
                let ends = naive.first().zip(naive.last()).map_or(0..0, |(first, last)| first.1..last.1 + 1);
                let extent = LocalExtent { bytes: naive.len() as u64, local: ends };
                prop_assert_eq!(seen.extent(place, at..at + len), Some(extent));
                prop_assert_eq!(positions, naive);
            }
        }

        #[test]
        fn bytes_and_hash_are_those_of_what_they_say(
            view in any_view(), striping in any_striping(), other in any_striping(), spoil in any::<(usize, u8)>(),
        ) {
            let seen = StripedView::new(&view, &striping).expect("monotone");
            let mut bytes = seen.to_bytes();
            let again = StripedView::from_bytes(&bytes).expect("its own bytes");
            prop_assert_eq!((again.hash(), &again), (seen.hash(), &seen));
            let differently = StripedView::new(&view, &other).expect("monotone");
            prop_assert_eq!(differently.hash() == seen.hash(), other == striping);
            // Any other accepted bytes decode to another value.
            let index = spoil.0 % bytes.len();
            bytes[index] ^= spoil.1;
            if let Ok(found) = StripedView::from_bytes(&bytes) {
                prop_assert_eq!(found.hash() == seen.hash(), spoil.1 == 0);
                prop_assert_eq!(found.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn a_search_without_result_is_bounded() {
        let striping = Striping::new(1, 2, 0, 2).expect("sound");
        let child = Datatype::byte().into();
        let shape = Shape::Resized { lb: 0, extent: 2, child };
        let tile = Pattern::native(&Datatype { lb: 0, extent: 2, shape }).expect("a pattern");
        let seen = StripedView::new(&View::new(Offset(0), tile), &striping).expect("monotone");
        assert_eq!(seen.extent(1, 0..1000), Some(LocalExtent { bytes: 0, local: 0..0 }));
        assert_eq!(seen.extent(1, 0..1 << 50), None);
    }
}
