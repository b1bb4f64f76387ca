//! Where the bytes of a payload lie in a local part, piece by piece: as a request lists them, or as a view selects them.

use std::sync::Arc;
use std::vec::IntoIter;

use pario_layout::{StripedPieces, StripedView};
use pario_types::ServerId;
use pario_wire::message::{ByteRange, ByteSelection};

use crate::error::{Error, Result};
use crate::views::ViewCache;

pub(crate) struct Pieces {
    source: Source,
    /// The rest of the current piece.
    next: Option<ByteRange>,
    /// The end of the last piece, if most blocks contain pieces; otherwise 0.
    dense_to: u64,
    /// From the first byte of a view to the last.
    span: Option<ByteRange>,
}

enum Source {
    Listed(IntoIter<ByteRange>),
    View(Box<StripedPieces<Arc<StripedView>>>),
}

impl Pieces {
    /// The pieces of a list.
    pub fn listed(ranges: Vec<ByteRange>) -> Pieces {
        Pieces { source: Source::Listed(ranges.into_iter()), next: None, dense_to: 0, span: None }
    }

    /// The pieces of a selection; `None` if the view is not known.
    pub fn of(
        what: &ByteSelection,
        views: &ViewCache,
        server: ServerId,
        block: u64,
    ) -> Result<Option<Pieces>> {
        match what {
            ByteSelection::Ranges(ranges) => {
                check_ranges(ranges)?;
                Ok(Some(Pieces::listed(ranges.clone())))
            }
            ByteSelection::View { view: hash, at, len, bytes } => {
                let Some(view) = views.get(*hash) else { return Ok(None) };
                let positions = *at..at.saturating_add(*len);
                let place = view.striping().place(server).filter(|_| view.covers(*at, *len));
                let extent = place.and_then(|place| view.extent(place, positions.clone()));
                let (Some(place), Some(extent)) = (place, extent.filter(|extent| extent.bytes == *bytes))
                else {
                    return Err(Error::BadRequest("bytes of the view"));
                };
                let density = view.view().density();
                let dense = density.piece + density.gap <= block as f64;
                let source = Source::View(Box::new(StripedPieces::new(view, place, positions)));
                let std::ops::Range { start, end } = extent.local;
                let span = Some(ByteRange { at: start, len: end - start });
                Ok(Some(Pieces { source, next: None, dense_to: if dense { end } else { 0 }, span }))
            }
        }
    }

    /// The range from the first byte of a view to the last; empty for a list.
    pub fn span(&self) -> Vec<ByteRange> {
        self.span.into_iter().collect()
    }

    /// The next piece, or the rest of the current one.
    pub fn peek(&mut self) -> Option<ByteRange> {
        while self.next.is_none_or(|next| next.len == 0) {
            self.next = match &mut self.source {
                Source::Listed(ranges) => ranges.next(),
                Source::View(pieces) => pieces.next().map(|(at, len)| ByteRange { at, len }),
            };
            self.next?;
        }
        self.next
    }

    /// Advances by so many bytes of the current piece.
    pub fn advance(&mut self, len: u64) {
        if let Some(next) = &mut self.next {
            next.at += len;
            next.len -= len;
        }
    }

    /// The end of the bytes that are worth reading at once.
    pub fn read_ahead_end(&self) -> u64 {
        self.next.map_or(0, |next| next.at + next.len).max(self.dense_to)
    }
}

/// Checks that ranges lie within the largest file.
pub(crate) fn check_ranges(ranges: &[ByteRange]) -> Result<()> {
    let fits = |range: &ByteRange| range.at.checked_add(range.len).is_some_and(|end| end <= i64::MAX as u64);
    if ranges.iter().all(fits) { Ok(()) } else { Err(Error::BadRequest("ranges")) }
}
