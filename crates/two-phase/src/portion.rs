//! The bytes of one rank within one window.

use pario_buffer::UserBuffer;
use pario_domain::DomainWindow;
use pario_types::{Offset, Pos};
use pario_view::{Cursor, View};
use std::ops::Range;

/// `len` bytes of a view from position `at` on.
#[derive(Clone, Copy)]
pub(crate) struct ViewRange<'a> {
    pub view: &'a View,
    pub at: u64,
    pub len: u64,
}

/// The bytes of a view within one extent of a window.
#[derive(Clone, Debug)]
pub(crate) struct WindowPortion {
    /// The extent of the window, as file offsets.
    pub extent: Range<u64>,
    /// The offset of the extent in the memory of the window.
    pub window_offset: u64,
    /// The positions of the bytes in the view.
    pub positions: Range<u64>,
}

impl WindowPortion {
    pub fn len(&self) -> u64 {
        self.positions.end - self.positions.start
    }

    pub fn cursor(&self, view: &View) -> Cursor {
        view.cursor(Pos(self.positions.start), self.len())
    }

    /// The ranges of its pieces in the memory of the window.
    pub fn window_ranges(&self, view: &View) -> impl Iterator<Item = Range<u64>> + use<> {
        let (mut cursor, window_offset, first) = (self.cursor(view), self.window_offset, self.extent.start);
        std::iter::from_fn(move || {
            let piece = cursor.next_piece(u64::MAX)?;
            let at = window_offset + (piece.offset as u64 - first);
            Some(at..at + piece.len)
        })
    }
}

impl<'a> ViewRange<'a> {
    /// The portions within the extents of a window, below file offset `end`, in order. None is empty.
    pub fn portions(self, window: &'a DomainWindow, end: u64) -> impl Iterator<Item = WindowPortion> + 'a {
        let mut next = 0;
        window.extents().filter_map(move |extent| {
            let here = next;
            next += extent.end - extent.start;
            let position = |offset: u64| self.view.rank(Offset(offset)).0.clamp(self.at, self.at + self.len);
            let positions = position(extent.start)..position(extent.end.min(end).max(extent.start));
            (!positions.is_empty()).then_some(WindowPortion { extent, window_offset: here, positions })
        })
    }

    /// The number of bytes within a window.
    pub fn bytes_in(self, window: &'a DomainWindow) -> u64 {
        self.portions(window, u64::MAX).map(|portion| portion.len()).sum()
    }

    /// Copies a portion from the buffer of the rank into its extent of the window.
    pub fn copy_in(self, portion: &WindowPortion, buffer: &UserBuffer, to: &mut [u8]) {
        let at = portion.positions.start - self.at;
        let mut file = portion.cursor(self.view);
        buffer.scatter(at, portion.len(), &mut file, to, Offset(portion.extent.start));
    }

    /// Copies a portion from its extent of the window into the buffer of the rank.
    pub fn copy_out(self, portion: &WindowPortion, buffer: &UserBuffer, from: &[u8]) {
        let at = portion.positions.start - self.at;
        let mut file = portion.cursor(self.view);
        buffer.gather(at, portion.len(), &mut file, from, Offset(portion.extent.start));
    }
}
