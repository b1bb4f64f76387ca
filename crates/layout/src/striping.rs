//! Round-robin striping.

use std::ops::Range;

use pario_types::{ErrorKind, Offset, ServerId};

/// The striping of one file; it never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Striping {
    stripe: u64,
    count: u16,
    first: u16,
    servers: u16,
}

/// Consecutive bytes of a file that are consecutive on one server as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripePiece {
    /// The server that holds them.
    pub server: ServerId,
    /// The offset in the file.
    pub offset: Offset,
    /// The offset in the server's local part.
    pub local: u64,
    /// The number of bytes.
    pub len: u64,
}

/// A server's share of a contiguous range of a file: contiguous in its local part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalRange {
    /// The server.
    pub server: ServerId,
    /// The offset in its local part.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
}

impl Striping {
    /// Stripes of `stripe` bytes over `count` of `servers` servers, beginning with `first`.
    pub fn new(stripe: u64, count: u16, first: u16, servers: u16) -> Result<Striping, ErrorKind> {
        let sound = stripe > 0 && stripe <= 1 << 40 && count > 0 && count <= servers && first < servers;
        if sound { Ok(Striping { stripe, count, first, servers }) } else { Err(ErrorKind::Arg) }
    }

    /// Bytes of a stripe.
    pub fn stripe(&self) -> u64 {
        self.stripe
    }

    /// The number of servers that hold stripes.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The server of the first stripe.
    pub fn first(&self) -> u16 {
        self.first
    }

    /// The number of servers of the partition when the file was created.
    pub fn servers(&self) -> u16 {
        self.servers
    }

    /// The servers that hold stripes, in order of their stripes.
    pub fn holders(&self) -> impl Iterator<Item = ServerId> + use<> {
        let striping = *self;
        (0..self.count).map(move |place| striping.server(place))
    }

    /// The holder at a place.
    #[inline]
    pub fn server(&self, place: u16) -> ServerId {
        ServerId(((u32::from(self.first) + u32::from(place)) % u32::from(self.servers)) as u16)
    }

    /// A server's place among the holders, if it is one.
    pub fn place(&self, server: ServerId) -> Option<u16> {
        let (s, first, n) = (u32::from(server.0), u32::from(self.first), u32::from(self.servers));
        let place = (s + n - first) % n;
        (s < n && place < u32::from(self.count)).then_some(place as u16)
    }

    /// The location of the byte at `offset` and of the rest of its stripe.
    pub fn piece(&self, offset: Offset) -> StripePiece {
        let (stripe, within) = (offset.0 / self.stripe, offset.0 % self.stripe);
        let (row, column) = (stripe / u64::from(self.count), stripe % u64::from(self.count));
        let server = (u64::from(self.first) + column) % u64::from(self.servers);
        let local = row * self.stripe + within;
        StripePiece { server: ServerId(server as u16), offset, local, len: self.stripe - within }
    }

    /// The range stripe by stripe, in order.
    pub fn pieces(&self, range: Range<u64>) -> StripePieces {
        StripePieces { striping: *self, range }
    }

    /// Each holder's share of a contiguous range, in order of holders; empty shares are left out.
    pub fn shares(&self, range: Range<u64>) -> impl Iterator<Item = LocalRange> + use<> {
        let striping = *self;
        (0..self.count).zip(self.holders()).filter_map(move |(place, server)| {
            let (at, end) = (striping.below(place, range.start), striping.below(place, range.end));
            (end > at).then_some(LocalRange { server, at, len: end - at })
        })
    }

    /// The local end at a server of a file of `size` bytes: how many of its bytes the server holds.
    pub fn local_end(&self, server: ServerId, size: u64) -> u64 {
        self.place(server).map_or(0, |place| self.below(place, size))
    }

    /// The smallest size of a file for which a server's local part has this end.
    pub fn size_from(&self, server: ServerId, end: u64) -> u64 {
        match (self.place(server), end.checked_sub(1)) {
            (Some(place), Some(last)) => self.offset(place, last) + 1,
            _ => 0,
        }
    }

    /// Returns the file offset of a byte of a server's local part.
    pub fn offset_of(&self, server: ServerId, local: u64) -> Option<Offset> {
        self.place(server).map(|place| Offset(self.offset(place, local)))
    }

    /// The first byte of the file at or after `offset` that the holder at `place` has.
    pub(crate) fn first_from(&self, place: u16, offset: u64) -> u64 {
        let stripe = offset / self.stripe;
        let (column, count) = (stripe % u64::from(self.count), u64::from(self.count));
        match (u64::from(place) + count - column) % count {
            0 => offset,
            ahead => (stripe + ahead).saturating_mul(self.stripe),
        }
    }

    fn offset(&self, place: u16, local: u64) -> u64 {
        let row = local / self.stripe;
        (row * u64::from(self.count) + u64::from(place)) * self.stripe + local % self.stripe
    }

    /// Bytes below `offset` that the holder at `place` has.
    pub(crate) fn below(&self, place: u16, offset: u64) -> u64 {
        let (stripe, within) = (offset / self.stripe, offset % self.stripe);
        let (row, column) = (stripe / u64::from(self.count), stripe % u64::from(self.count));
        match u64::from(place).cmp(&column) {
            std::cmp::Ordering::Less => (row + 1) * self.stripe,
            std::cmp::Ordering::Equal => row * self.stripe + within,
            std::cmp::Ordering::Greater => row * self.stripe,
        }
    }
}

/// See [`Striping::pieces`].
#[derive(Clone, Debug)]
pub struct StripePieces {
    striping: Striping,
    range: Range<u64>,
}

impl Iterator for StripePieces {
    type Item = StripePiece;

    fn next(&mut self) -> Option<StripePiece> {
        if self.range.is_empty() {
            return None;
        }
        let mut piece = self.striping.piece(Offset(self.range.start));
        piece.len = match self.striping.count {
            1 => self.range.end - self.range.start,
            _ => piece.len.min(self.range.end - self.range.start),
        };
        self.range.start += piece.len;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_striping() -> impl Strategy<Value = Striping> {
        (1u64..40, 1u16..7).prop_flat_map(|(stripe, servers)| {
            (1..=servers, 0..servers)
                .prop_map(move |(count, first)| Striping::new(stripe, count, first, servers).expect("sound"))
        })
    }

    #[test]
    fn stripes_go_round() {
        let striping = Striping::new(10, 3, 1, 4).unwrap();
        let where_is = |offset| {
            let piece = striping.piece(Offset(offset));
            (piece.server.0, piece.local, piece.len)
        };
        assert_eq!(where_is(0), (1, 0, 10));
        assert_eq!(where_is(15), (2, 5, 5));
        assert_eq!(where_is(29), (3, 9, 1));
        assert_eq!(where_is(30), (1, 10, 10));
        assert_eq!(striping.local_end(ServerId(1), 35), 15);
        assert_eq!(striping.local_end(ServerId(0), 35), 0);
        assert_eq!(striping.size_from(ServerId(3), 1), 21);
    }

    #[test]
    fn invalid_stripings_are_refused() {
        for (stripe, count, first, servers) in [(0, 1, 0, 1), (1, 0, 0, 1), (1, 2, 0, 1), (1, 1, 1, 1)] {
            assert_eq!(Striping::new(stripe, count, first, servers), Err(ErrorKind::Arg));
        }
    }

    proptest! {
        #[test]
        fn every_byte_has_one_place_and_the_place_knows_its_byte(s in any_striping(), offset in 0u64..5000) {
            let piece = s.piece(Offset(offset));
            prop_assert_eq!(s.offset_of(piece.server, piece.local), Some(Offset(offset)));
            // Counting byte by byte gives the local ends.
            let mut ends = std::collections::HashMap::new();
            for o in 0..offset.min(600) {
                *ends.entry(s.piece(Offset(o)).server).or_insert(0u64) += 1;
            }
            for server in (0..s.servers()).map(ServerId) {
                let end = ends.get(&server).copied().unwrap_or(0);
                prop_assert_eq!(s.local_end(server, offset.min(600)), end);
            }
        }

        #[test]
        fn the_size_is_the_largest_that_a_server_knows_of(s in any_striping(), size in 0u64..2000) {
            let sizes = s.holders().map(|server| s.size_from(server, s.local_end(server, size)));
            prop_assert_eq!(sizes.max(), Some(size));
        }

        #[test]
        fn pieces_and_shares_cover_a_range(s in any_striping(), from in 0u64..3000, len in 0u64..500) {
            let mut at = from;
            let mut held: std::collections::BTreeMap<ServerId, (u64, u64)> = Default::default();
            for piece in s.pieces(from..from + len) {
                prop_assert_eq!(piece.offset.0, at);
                at += piece.len;
                let (begin, end) = held.entry(piece.server).or_insert((piece.local, piece.local));
                prop_assert_eq!(*end, piece.local);
                *end += piece.len;
                prop_assert!(*begin <= *end);
            }
            prop_assert_eq!(at, from + len);
            let shares: std::collections::BTreeMap<_, _> =
                s.shares(from..from + len).map(|l| (l.server, (l.at, l.at + l.len))).collect();
            prop_assert_eq!(shares, held);
        }
    }
}
