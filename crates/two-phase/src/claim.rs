//! What a rank brings to the meeting of a collective access.

use pario_types::{ErrorKind, Pos};
use pario_view::View;

use crate::coverage::Coverage;
use crate::node::CELL;

/// The kind of call; ranks that meet in different calls have a bug that must not become a hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Whether bytes go to the file.
    pub write: bool,
    /// A number that tells the call's other properties apart, below 2^32.
    pub form: u32,
}

/// One rank's part in a collective access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Why this rank cannot take part, if so.
    pub error: Option<ErrorKind>,
    /// The call it is in.
    pub call: Call,
    /// The first byte of the file that it accesses and the end of the last; equal if none.
    pub lo: u64,
    /// See `lo`.
    pub hi: u64,
    /// Bytes of the access.
    pub bytes: u64,
    /// About how many pieces they are in, at least 1 if there are bytes.
    pub pieces: u64,
    /// The fingerprint of the bytes' offsets; for writes.
    pub print: u64,
    /// The access has to be made by the rank itself.
    pub alone: bool,
    /// No windows with holes: the access must not wait for others with a lock in hand, or was told not to read
    /// before it writes.
    pub no_holes: bool,
    /// The view's content hash.
    pub view: u128,
    /// Where in the view the access begins.
    pub at: u64,
    /// A digest of what must be the same on all ranks for them to plan alike.
    pub settings: u64,
}

impl Claim {
    /// The claim of a rank that has nothing to do.
    pub fn nothing(call: Call, settings: u64) -> Claim {
        let (error, alone, no_holes) = (None, false, false);
        Claim {
            error,
            call,
            lo: 0,
            hi: 0,
            bytes: 0,
            pieces: 0,
            print: 0,
            alone,
            no_holes,
            view: 0,
            at: 0,
            settings,
        }
    }

    /// The claim of a rank whose arguments are bad.
    pub fn failed(call: Call, settings: u64, error: ErrorKind) -> Claim {
        Claim { error: Some(error), ..Claim::nothing(call, settings) }
    }

    /// The claim for `len` bytes of a view from `at` on. `alone` says that the rank must do it by itself.
    pub fn access(
        call: Call,
        settings: u64,
        view: &View,
        at: Pos,
        len: u64,
        alone: bool,
        coverage: Option<&Coverage>,
    ) -> Claim {
        let Some((lo, hi)) = view.bounds(at, len) else { return Claim::nothing(call, settings) };
        let alone = alone || !view.is_monotone();
        let pieces = match view.is_contiguous() {
            true => 1,
            false => pieces(view, at, len),
        };
        let print = match coverage {
            Some(coverage) if !alone => coverage.pieces(view.cursor(at, len)),
            _ => 0,
        };
        let view = u128::from_le_bytes(view.hash().0);
        let (lo, hi, bytes) = (lo.0, hi.0, len);
        Claim { lo, hi, bytes, pieces, print, alone, view, at: at.0, ..Claim::nothing(call, settings) }
    }

    pub(crate) fn words(&self) -> [u64; CELL] {
        let mut words = [0; CELL];
        let flags = u64::from(self.call.write)
            | u64::from(self.alone) << 1
            | u64::from(self.no_holes) << 2
            | u64::from(self.call.form) << 32;
        let filled = [
            self.error.map_or(0, ErrorKind::code),
            flags,
            self.lo,
            self.hi,
            self.bytes,
            self.pieces,
            self.print,
            (self.view >> 64) as u64,
            self.view as u64,
            self.at,
            self.settings,
        ];
        words[..filled.len()].copy_from_slice(&filled);
        words
    }

    pub(crate) fn from_words(words: &[u64; CELL]) -> Claim {
        let [code, flags, lo, hi, bytes, pieces, print, view_high, view_low, at, settings, ..] = *words;
        Claim {
            error: (code != 0).then(|| ErrorKind::from_code(code).unwrap_or(ErrorKind::Intern)),
            call: Call { write: flags & 1 != 0, form: (flags >> 32) as u32 },
            alone: flags & 2 != 0,
            no_holes: flags & 4 != 0,
            lo,
            hi,
            bytes,
            pieces,
            print,
            view: u128::from(view_high) << 64 | u128::from(view_low),
            at,
            settings,
        }
    }
}

/// About how many contiguous pieces `len` bytes of a view are in.
fn pieces(view: &View, at: Pos, len: u64) -> u64 {
    // The whole access in one piece is common enough (one block of a large array) to be told exactly.
    if view.cursor(at, len).next_piece(len).is_some_and(|piece| piece.len == len) {
        return 1;
    }
    ((len as f64 / view.density().piece).ceil() as u64).clamp(1, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_types::Offset;

    #[test]
    fn claims_survive_the_table() {
        let call = Call { write: true, form: 77 };
        let view = View::contiguous(Offset(100));
        let coverage = Coverage::new(5);
        let claim = Claim::access(call, 9, &view, Pos(10), 50, false, Some(&coverage));
        assert_eq!((claim.lo, claim.hi, claim.pieces), (110, 160, 1));
        assert_eq!(claim.print, coverage.range(110..160));
        assert_eq!(Claim::from_words(&claim.words()), claim);
        let failed = Claim::failed(call, 9, ErrorKind::Count);
        assert_eq!(Claim::from_words(&failed.words()), failed);
    }
}
