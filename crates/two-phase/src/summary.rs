//! The summary of its access that each rank sends to all ranks before a collective access.

use pario_types::{ErrorKind, Pos};
use pario_view::View;

use crate::coverage::CoverageHash;
use crate::node_segment::WORDS_PER_RANK;

/// The kind of a collective call. Ranks that are in different calls get an error instead of a hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallKind {
    /// True for a write to the file.
    pub write: bool,
    /// A number below 2^32 that identifies the other properties of the call.
    pub form: u32,
}

/// The part of one rank in a collective access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessSummary {
    /// The error in the arguments of this rank, if any.
    pub error: Option<ErrorKind>,
    /// The call of this rank.
    pub call: CallKind,
    /// The offset of the first accessed byte. It equals `hi` if there are none.
    pub lo: u64,
    /// The end of the last accessed byte.
    pub hi: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The approximate number of contiguous pieces, at least 1 if there are bytes.
    pub pieces: u64,
    /// The coverage fingerprint of the bytes of a write.
    pub fingerprint: u64,
    /// The rank must access the file by itself.
    pub independent_only: bool,
    /// Windows with holes are not allowed: the access must not hold a lock while it waits for other ranks,
    /// or data sieving is disabled.
    pub no_holes: bool,
    /// The content hash of the view.
    pub view_hash: u128,
    /// The position in the view at which the access begins.
    pub position: u64,
    /// A digest of the settings that must be the same on all ranks.
    pub settings_digest: u64,
}

impl AccessSummary {
    /// The summary of a rank without bytes.
    pub fn empty(call: CallKind, settings_digest: u64) -> AccessSummary {
        AccessSummary {
            error: None,
            call,
            lo: 0,
            hi: 0,
            bytes: 0,
            pieces: 0,
            fingerprint: 0,
            independent_only: false,
            no_holes: false,
            view_hash: 0,
            position: 0,
            settings_digest,
        }
    }

    /// The summary of a rank whose arguments are invalid.
    pub fn failed(call: CallKind, settings_digest: u64, error: ErrorKind) -> AccessSummary {
        AccessSummary { error: Some(error), ..AccessSummary::empty(call, settings_digest) }
    }

    /// The summary of an access to `len` bytes of a view from position `at` on. `independent_only` says
    /// that the rank must access the file by itself.
    pub fn of_access(
        call: CallKind,
        settings_digest: u64,
        view: &View,
        at: Pos,
        len: u64,
        independent_only: bool,
        coverage: Option<&CoverageHash>,
    ) -> AccessSummary {
        let Some((lo, hi)) = view.bounds(at, len) else { return AccessSummary::empty(call, settings_digest) };
        let independent_only = independent_only || !view.is_monotone();
        let pieces = if view.is_contiguous() { 1 } else { estimate_pieces(view, at, len) };
        let fingerprint = match coverage {
            Some(coverage) if !independent_only => coverage.of_pieces(view.cursor(at, len)),
            _ => 0,
        };
        AccessSummary {
            lo: lo.0,
            hi: hi.0,
            bytes: len,
            pieces,
            fingerprint,
            independent_only,
            view_hash: u128::from_le_bytes(view.hash().0),
            position: at.0,
            ..AccessSummary::empty(call, settings_digest)
        }
    }

    pub(crate) fn encode(&self) -> [u64; WORDS_PER_RANK] {
        let mut words = [0; WORDS_PER_RANK];
        let flags = u64::from(self.call.write)
            | u64::from(self.independent_only) << 1
            | u64::from(self.no_holes) << 2
            | u64::from(self.call.form) << 32;
        let filled = [
            self.error.map_or(0, ErrorKind::code),
            flags,
            self.lo,
            self.hi,
            self.bytes,
            self.pieces,
            self.fingerprint,
            (self.view_hash >> 64) as u64,
            self.view_hash as u64,
            self.position,
            self.settings_digest,
        ];
        words[..filled.len()].copy_from_slice(&filled);
        words
    }

    pub(crate) fn decode(words: &[u64; WORDS_PER_RANK]) -> AccessSummary {
        let [
            code,
            flags,
            lo,
            hi,
            bytes,
            pieces,
            fingerprint,
            view_high,
            view_low,
            position,
            settings_digest,
            ..,
        ] = *words;
        AccessSummary {
            error: (code != 0).then(|| ErrorKind::from_code(code).unwrap_or(ErrorKind::Intern)),
            call: CallKind { write: flags & 1 != 0, form: (flags >> 32) as u32 },
            independent_only: flags & 2 != 0,
            no_holes: flags & 4 != 0,
            lo,
            hi,
            bytes,
            pieces,
            fingerprint,
            view_hash: u128::from(view_high) << 64 | u128::from(view_low),
            position,
            settings_digest,
        }
    }
}

/// The approximate number of contiguous pieces of `len` bytes of a view.
fn estimate_pieces(view: &View, at: Pos, len: u64) -> u64 {
    // An access in one piece, such as one block of a large array, is common enough for an exact answer.
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
    fn a_summary_survives_encoding() {
        let call = CallKind { write: true, form: 77 };
        let view = View::contiguous(Offset(100));
        let coverage = CoverageHash::new(5);
        let summary = AccessSummary::of_access(call, 9, &view, Pos(10), 50, false, Some(&coverage));
        assert_eq!((summary.lo, summary.hi, summary.pieces), (110, 160, 1));
        assert_eq!(summary.fingerprint, coverage.of_range(110..160));
        assert_eq!(AccessSummary::decode(&summary.encode()), summary);
        let failed = AccessSummary::failed(call, 9, ErrorKind::Count);
        assert_eq!(AccessSummary::decode(&failed.encode()), failed);
    }
}
