//! Where the bytes of a payload lie in a local part, one piece after the other: as a request lists them, or as a view
//! shows them.

use std::sync::Arc;
use std::vec::IntoIter;

use pario_layout::{StripedPieces, StripedView};
use pario_types::ServerId;
use pario_wire::message::{ByteRange, ByteSelection};

use crate::error::{Error, Result};
use crate::views::Views;

pub(crate) struct Pieces {
    source: Source,
    /// The piece at hand, and what is left of it.
    next: Option<ByteRange>,
    /// If most blocks up to here hold pieces: the end of the last piece.
    dense_to: u64,
    /// From the first byte to the last, if a view says which.
    span: Option<ByteRange>,
}

enum Source {
    Listed(IntoIter<ByteRange>),
    Seen(Box<StripedPieces<Arc<StripedView>>>),
}

impl Pieces {
    /// Those of a list.
    pub fn listed(ranges: Vec<ByteRange>) -> Pieces {
        Pieces { source: Source::Listed(ranges.into_iter()), next: None, dense_to: 0, span: None }
    }

    /// `None` if the view is not known.
    pub fn of(what: &ByteSelection, views: &Views, server: ServerId, block: u64) -> Result<Option<Pieces>> {
        match what {
            ByteSelection::Ranges(ranges) => {
                check(ranges)?;
                Ok(Some(Pieces::listed(ranges.clone())))
            }
            ByteSelection::View { view, at, len, bytes } => {
                let Some(seen) = views.get(*view) else { return Ok(None) };
                let positions = *at..at.saturating_add(*len);
                let place = seen.striping().place(server).filter(|_| seen.covers(*at, *len));
                let extent = place.and_then(|place| seen.extent(place, positions.clone()));
                let (Some(place), Some(extent)) = (place, extent.filter(|extent| extent.bytes == *bytes))
                else {
                    return Err(Error::BadRequest("bytes of the view"));
                };
                let density = seen.view().density();
                let dense = density.piece + density.gap <= block as f64;
                let source = Source::Seen(Box::new(StripedPieces::new(seen, place, positions)));
                let std::ops::Range { start, end } = extent.local;
                let span = Some(ByteRange { at: start, len: end - start });
                Ok(Some(Pieces { source, next: None, dense_to: if dense { end } else { 0 }, span }))
            }
        }
    }

    /// Where the bytes of a view lie, with what lies between.
    pub fn span(&self) -> Vec<ByteRange> {
        self.span.into_iter().collect()
    }

    /// What comes next.
    pub fn peek(&mut self) -> Option<ByteRange> {
        while self.next.is_none_or(|next| next.len == 0) {
            self.next = match &mut self.source {
                Source::Listed(ranges) => ranges.next(),
                Source::Seen(pieces) => pieces.next().map(|(at, len)| ByteRange { at, len }),
            };
            self.next?;
        }
        self.next
    }

    /// So many bytes of it are done.
    pub fn advance(&mut self, len: u64) {
        if let Some(next) = &mut self.next {
            next.at += len;
            next.len -= len;
        }
    }

    /// How far it is worth to read at once.
    pub fn upto(&self) -> u64 {
        self.next.map_or(0, |next| next.at + next.len).max(self.dense_to)
    }
}

/// That ranges lie within the largest file.
pub(crate) fn check(ranges: &[ByteRange]) -> Result<()> {
    let fits = |range: &ByteRange| range.at.checked_add(range.len).is_some_and(|end| end <= i64::MAX as u64);
    if ranges.iter().all(fits) { Ok(()) } else { Err(Error::BadRequest("ranges")) }
}
