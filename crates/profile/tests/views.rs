//! An access through a view is known by its pieces, byte for byte as the model has them.

use std::collections::BTreeSet;

use pario_profile::{Collector, Error, TracedProcess};
use pario_reference_model::{FlatView, arb_file_type};
use pario_trace::{TraceEvent, TracedCall, TracedOp, TracedPieces};
use pario_view::Pattern;
use proptest::prelude::*;

fn who() -> TracedProcess {
    TracedProcess { label: "0".into(), node: "".into() }
}

fn write(pieces: TracedPieces, len: u64, moved: u64) -> TraceEvent {
    TraceEvent {
        call: TracedCall::from(TracedOp::Write),
        file: Some("f".into()),
        offset: 0,
        end: 2 * len,
        len,
        moved,
        start_ns: 0,
        took_ns: 0,
        errno: 0,
        kind: None,
        class: 0,
        on_behalf_of: None,
        pieces,
    }
}

proptest! {
    #[test]
    fn pieces_are_those_of_the_model(
        filetype in arb_file_type(), disp in 0u64..100, at in 0u64..200, len in 1u64..300, moved in 1u64..300,
    ) {
        let flat = FlatView::new(disp, &filetype);
        prop_assume!(flat.tile_size() > 0);
        let tile = Pattern::native(&filetype).expect("a file type");
        let pattern = tile.to_bytes().into();
        let moved = moved.min(len);
        let event = write(TracedPieces::View { pattern, disp, at, len }, len, moved);
        let wanted: BTreeSet<u64> = (at..at + moved).map(|pos| flat.offset(pos) as u64).collect();
        let mut found = BTreeSet::new();
        for (offset, end) in Collector::new(false).pieces(&who(), &event).expect("a good view") {
            found.extend(offset..end);
        }
        prop_assert_eq!(found, wanted);
    }
}

#[test]
fn what_is_not_known_or_damaged_is_refused() {
    let mut collector = Collector::new(false);
    let unsaid = collector.add(&who(), &write(TracedPieces::Unsaid, 10, 10));
    assert!(matches!(unsaid, Err(Error::Unsaid { .. })), "{unsaid:?}");
    let view = |pattern: Vec<u8>, at| TracedPieces::View { pattern: pattern.into(), disp: 0, at, len: 10 };
    let damaged = collector.add(&who(), &write(view(vec![1, 2, 3], 0), 10, 10));
    assert!(matches!(damaged, Err(Error::View { .. })), "{damaged:?}");
    let beyond = collector.add(&who(), &write(view(Pattern::block(1).to_bytes(), u64::MAX - 20), 10, 10));
    assert!(matches!(beyond, Err(Error::View { .. })), "{beyond:?}");
    // An operation that moved nothing is ignored.
    collector.add(&who(), &write(TracedPieces::Unsaid, 10, 0)).expect("passed over");
    assert!(matches!(collector.finish(), Err(Error::Empty)));
}
