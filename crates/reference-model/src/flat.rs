//! A view as the plain list of its bytes' offsets, and a file as a vector.

use pario_view::Datatype;

use crate::typemap::{Representation, TypeMap, expand};

/// A naive view.
#[derive(Clone, Debug)]
pub struct FlatView {
    disp: i64,
    extent: i64,
    tile: Vec<i64>,
}

impl FlatView {
    /// A file type tiled from a displacement, in the native representation.
    pub fn new(disp: u64, filetype: &Datatype) -> FlatView {
        FlatView::of(disp, &expand(filetype, Representation::Native))
    }

    /// A type map tiled from a displacement.
    pub fn of(disp: u64, map: &TypeMap) -> FlatView {
        FlatView { disp: disp as i64, extent: map.extent(), tile: map.bytes() }
    }

    /// Data bytes of one tile.
    pub fn tile_size(&self) -> u64 {
        self.tile.len() as u64
    }

    /// File offset of view byte `at`. The tile must not be empty; offsets may be negative if it is not a
    /// legal file type.
    pub fn offset(&self, at: u64) -> i64 {
        let n = self.tile.len() as u64;
        self.disp + (at / n) as i64 * self.extent + self.tile[(at % n) as usize]
    }

    /// View bytes below a file offset, in a view with increasing offsets.
    pub fn rank(&self, offset: u64) -> u64 {
        if self.tile.is_empty() {
            return 0;
        }
        (0..).take_while(|&at| self.offset(at) < offset as i64).count() as u64
    }

    /// The number of `len` bytes from `at` on that precede the first at or beyond the end of the file.
    pub fn visible(&self, at: u64, len: u64, file_size: u64) -> u64 {
        if self.tile.is_empty() {
            return 0;
        }
        (at..at + len).take_while(|&p| self.offset(p) < file_size as i64).count() as u64
    }

    /// Lowest offset and end of the highest of `len` bytes from `at`.
    pub fn bounds(&self, at: u64, len: u64) -> Option<(i64, i64)> {
        if self.tile.is_empty() || len == 0 {
            return None;
        }
        let offsets = || (at..at + len).map(|p| self.offset(p));
        Some((offsets().min()?, offsets().max()? + 1))
    }

    /// Reads from a view position: all bytes, or fewer at the end of the file.
    pub fn read(&self, file: &[u8], at: u64, len: u64) -> Vec<u8> {
        let n = self.visible(at, len, file.len() as u64);
        (at..at + n).map(|p| file[self.offset(p) as usize]).collect()
    }

    /// Writes at a view position; the file grows, with zeros in between.
    pub fn write(&self, file: &mut Vec<u8>, at: u64, data: &[u8]) {
        for (p, byte) in (at..).zip(data) {
            let offset = self.offset(p) as usize;
            if file.len() <= offset {
                file.resize(offset + 1, 0);
            }
            file[offset] = *byte;
        }
    }
}
