//! A file view: a displacement and a pattern tiled from there on, forever.

use pario_types::{Offset, Pos};

use crate::codec;
use crate::cursor::Cursor;
use crate::error::Error;
use crate::pattern::{Pattern, ViewHash};
use crate::search;

/// The bytes of a file that a process sees, and their order.
///
/// A tile may be any pattern. Where tiles are in order and disjoint ([`View::is_monotone`]), all searches take one descent.
/// Tiles that interleave or are out of order are legal to read and are walked in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    disp: Offset,
    tile: Pattern,
}

/// The average pieces and gaps of a view, for the choice of an access method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Density {
    /// Mean length of a contiguous piece.
    pub piece: f64,
    /// Mean length of the holes between pieces.
    pub gap: f64,
}

impl Density {
    /// The part of the covered range that is data: 1 if there are no holes.
    pub fn share(&self) -> f64 {
        if self.piece > 0.0 { self.piece / (self.piece + self.gap) } else { 1.0 }
    }
}

impl View {
    /// Tiles of a pattern from `disp` on, each `extent` bytes after the one before.
    pub fn new(disp: Offset, tile: Pattern) -> View {
        View { disp, tile }
    }

    /// All bytes from `disp` on.
    pub fn contiguous(disp: Offset) -> View {
        View { disp, tile: Pattern::block(1) }
    }

    /// The offset of the first tile.
    pub fn disp(&self) -> Offset {
        self.disp
    }

    /// The tiled pattern.
    pub fn tile(&self) -> &Pattern {
        &self.tile
    }

    /// Whether the view is a stream of adjacent bytes from its displacement on.
    pub fn is_contiguous(&self) -> bool {
        self.tile.is_contiguous()
    }

    /// Whether file offsets strictly increase with positions: tiles are in order, in themselves and with
    /// each other, and nothing overlaps.
    pub fn is_monotone(&self) -> bool {
        let Some(facts) = self.tile.facts() else {
            return true;
        };
        self.tile.disp() >= 0 && facts.strict && self.tile.extent() >= facts.hi
    }

    /// Content hash over displacement and tile.
    pub fn hash(&self) -> ViewHash {
        codec::hash_at(self.disp.0, self.tile.hash())
    }

    /// The view as bytes: the displacement (8 bytes, little-endian), then the tile.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.disp.0.to_le_bytes().to_vec();
        bytes.extend(self.tile.to_bytes());
        bytes
    }

    /// The view of [`View::to_bytes`]; any other bytes are refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<View, Error> {
        let (disp, tile) =
            bytes.split_first_chunk::<8>().ok_or(Error::Encoding("a view needs a displacement"))?;
        let disp = u64::from_le_bytes(*disp);
        if disp > i64::MAX as u64 {
            return Err(Error::Encoding("a displacement beyond the largest file"));
        }
        Ok(View { disp: Offset(disp), tile: Pattern::from_bytes(tile)? })
    }

    /// Returns the file offset of the view byte at a position; at a tile's boundary that is the next tile's first byte.
    /// `None` if the tile has no bytes, or the offset is negative or beyond 2^63 - 1.
    pub fn select(&self, at: Pos) -> Option<Offset> {
        let facts = self.tile.facts()?;
        let within = search::select(self.tile.nodes(), self.tile.root(), at.0 % facts.size);
        offset(self.origin(at.0 / facts.size)? + i128::from(within))
    }

    /// The number of view bytes at file offsets below `off`.
    ///
    /// That is for monotone views. For others it is the number of *leading* view bytes below `off`: the position of the
    /// first byte at or beyond it (2^63 - 1 if there is none).
    pub fn rank(&self, off: Offset) -> Pos {
        let Some(facts) = self.tile.facts() else {
            return Pos(0);
        };
        if !self.is_monotone() {
            return Pos(self.first_beyond(0, off.0).unwrap_or(i64::MAX as u64));
        }
        let x = i128::from(off.0) - i128::from(self.disp.0) - i128::from(self.tile.disp());
        if x <= 0 {
            return Pos(0);
        }
        let extent = i128::from(self.tile.extent());
        let (tile, within) = (x / extent, (x % extent) as i64);
        let below = search::rank(self.tile.nodes(), self.tile.root(), within);
        let all = tile * i128::from(facts.size) + i128::from(below);
        Pos(u64::try_from(all).unwrap_or(u64::MAX))
    }

    /// The lowest file offset and the end of the highest among the `len` view bytes from `at` on, for any
    /// view. `None` if there are none, or some offset is negative or beyond 2^63 - 1.
    pub fn bounds(&self, at: Pos, len: u64) -> Option<(Offset, Offset)> {
        let facts = self.tile.facts()?;
        let end = at.0.checked_add(len)?;
        if len == 0 {
            return None;
        }
        if self.is_contiguous() {
            let lo = i128::from(self.disp.0) + i128::from(at.0);
            return Some((offset(lo)?, offset(lo + i128::from(len))?));
        }
        let (first, last) = (at.0 / facts.size, (end - 1) / facts.size);
        let (a, b) = (at.0 % facts.size, (end - 1) % facts.size + 1);
        let (mut lo, mut hi) = (i128::MAX, i128::MIN);
        let mut see = |tile: u64, (l, h): (i64, i64)| {
            let origin = self.origin(tile)?;
            lo = lo.min(origin + i128::from(l));
            hi = hi.max(origin + i128::from(h));
            Some(())
        };
        if first == last {
            see(first, self.tile_bounds(a, b))?;
        } else {
            see(first, self.tile_bounds(a, facts.size))?;
            see(last, self.tile_bounds(0, b))?;
            if last - first > 1 {
                see(first + 1, (facts.lo, facts.hi))?;
                see(last - 1, (facts.lo, facts.hi))?;
            }
        }
        Some((offset(lo)?, offset(hi)?))
    }

    /// The number of the `len` view bytes from `at` on that precede the first byte at or beyond the end of a file of
    /// `file_size` bytes: a read can deliver these.
    pub fn visible_prefix(&self, at: Pos, len: u64, file_size: u64) -> u64 {
        if self.tile.facts().is_none() {
            return 0;
        }
        if self.is_monotone() {
            return self.rank(Offset(file_size)).0.saturating_sub(at.0).min(len);
        }
        self.first_beyond(at.0, file_size).map_or(len, |found| (found - at.0).min(len))
    }

    /// The position at the end of a file: the number of view bytes below its size (see [`View::rank`]).
    pub fn eof_pos(&self, file_size: u64) -> Pos {
        self.rank(Offset(file_size))
    }

    /// Mean piece and gap of one tile.
    pub fn density(&self) -> Density {
        let (size, pieces) = (self.tile.size() as f64, self.tile.pieces() as f64);
        if self.is_contiguous() || pieces == 0.0 {
            return Density { piece: f64::INFINITY, gap: 0.0 };
        }
        let gap = (self.tile.extent() as f64 - size).max(0.0) / pieces;
        if gap == 0.0 && pieces == 1.0 {
            return Density { piece: f64::INFINITY, gap };
        }
        Density { piece: size / pieces, gap }
    }

    /// Walks the `len` view bytes from `at` on; offsets are absolute in the file. The walk is shorter (see
    /// [`Cursor::remaining`]) if it would leave 64-bit offsets; [`View::bounds`] says so beforehand.
    pub fn cursor(&self, at: Pos, len: u64) -> Cursor {
        match i64::try_from(self.disp.0) {
            Ok(origin) => Cursor::tiled(&self.tile, origin, u64::MAX, at.0, len),
            Err(_) => Cursor::tiled(&Pattern::block(0), 0, 0, 0, 0),
        }
    }

    /// The offset of a tile's first byte.
    fn origin(&self, tile: u64) -> Option<i128> {
        let moved = i128::from(tile).checked_mul(i128::from(self.tile.extent()))?;
        moved.checked_add(i128::from(self.disp.0) + i128::from(self.tile.disp()))
    }

    fn tile_bounds(&self, from: u64, to: u64) -> (i64, i64) {
        search::bounds(self.tile.nodes(), self.tile.root(), from, to)
    }

    fn first_beyond(&self, from: u64, size: u64) -> Option<u64> {
        let x = i128::from(size) - i128::from(self.disp.0) - i128::from(self.tile.disp());
        search::first_beyond_tiled(self.tile.nodes(), self.tile.root(), self.tile.extent(), from, x)
    }
}

fn offset(wide: i128) -> Option<Offset> {
    i64::try_from(wide).ok().filter(|&o| o >= 0).map(|o| Offset(o as u64))
}
