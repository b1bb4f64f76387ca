//! One rank's bytes within one window.

use pario_buffer::UserBuffer;
use pario_domain::Window;
use pario_types::{Offset, Pos};
use pario_view::{Cursor, View};
use std::ops::Range;

/// `len` bytes of a view from `at` on.
#[derive(Clone, Copy)]
pub(crate) struct Want<'a> {
    pub view: &'a View,
    pub at: u64,
    pub len: u64,
}

/// Bytes that lie together in an extent of a window.
#[derive(Clone, Debug)]
pub(crate) struct Portion {
    /// The extent in the file.
    pub extent: Range<u64>,
    /// Where the extent begins in the window's memory.
    pub place: u64,
    /// Positions in the view.
    pub positions: Range<u64>,
}

impl Portion {
    pub fn len(&self) -> u64 {
        self.positions.end - self.positions.start
    }

    pub fn cursor(&self, view: &View) -> Cursor {
        view.cursor(Pos(self.positions.start), self.len())
    }

    /// Where its pieces lie in the window's memory.
    pub fn marks(&self, view: &View) -> impl Iterator<Item = Range<u64>> + use<> {
        let (mut cursor, place, first) = (self.cursor(view), self.place, self.extent.start);
        std::iter::from_fn(move || {
            let piece = cursor.next_piece(u64::MAX)?;
            let at = place + (piece.offset as u64 - first);
            Some(at..at + piece.len)
        })
    }
}

impl<'a> Want<'a> {
    /// The parts of it in the extents of a window that lie below `end`, in order, none empty.
    pub fn portions(self, window: &'a Window, end: u64) -> impl Iterator<Item = Portion> + 'a {
        let mut place = 0;
        window.extents().filter_map(move |extent| {
            let here = place;
            place += extent.end - extent.start;
            let position = |offset: u64| self.view.rank(Offset(offset)).0.clamp(self.at, self.at + self.len);
            let positions = position(extent.start)..position(extent.end.min(end).max(extent.start));
            (!positions.is_empty()).then_some(Portion { extent, place: here, positions })
        })
    }

    /// Bytes of it in a window.
    pub fn bytes_in(self, window: &'a Window) -> u64 {
        self.portions(window, u64::MAX).map(|portion| portion.len()).sum()
    }

    /// Copies a portion from a buffer whose byte `skip` is the view's position `at`, to its places.
    pub fn copy_in(self, portion: &Portion, buffer: &UserBuffer, to: &mut [u8]) {
        let at = portion.positions.start - self.at;
        let mut file = portion.cursor(self.view);
        buffer.scatter(at, portion.len(), &mut file, to, Offset(portion.extent.start));
    }

    /// The reverse.
    pub fn copy_out(self, portion: &Portion, buffer: &UserBuffer, from: &[u8]) {
        let at = portion.positions.start - self.at;
        let mut file = portion.cursor(self.view);
        buffer.gather(at, portion.len(), &mut file, from, Offset(portion.extent.start));
    }
}
