//! Views against the flat list of their bytes.

use pario_reference_model::{FlatView, Rng, arb_datatype, arb_file_type, file_type};
use pario_types::{Offset, Pos};
use pario_view::{Datatype, Pattern, View};
use proptest::prelude::*;

fn both(disp: u64, t: &Datatype) -> (View, FlatView) {
    (View::new(Offset(disp), Pattern::native(t).unwrap()), FlatView::new(disp, t))
}

fn as_offset(wide: i64) -> Option<Offset> {
    u64::try_from(wide).ok().map(Offset)
}

fn check_monotone(t: &Datatype, disp: u64) {
    let (view, flat) = both(disp, t);
    assert!(view.is_monotone());
    if flat.tile_size() == 0 {
        assert_eq!((view.select(Pos(0)), view.rank(Offset(99))), (None, Pos(0)));
        return;
    }
    let n = 3 * flat.tile_size() + 2;
    for at in 0..n.min(700) {
        let offset = flat.offset(at);
        assert_eq!(view.select(Pos(at)), as_offset(offset), "select {at}");
        assert_eq!(view.rank(Offset(offset as u64)), Pos(at), "rank of byte {at}");
        assert_eq!(view.rank(Offset(offset as u64 + 1)), Pos(at + 1), "rank after byte {at}");
    }
    for offset in (0..flat.offset(n.min(300)) as u64).step_by(3) {
        assert_eq!(view.rank(Offset(offset)), Pos(flat.rank(offset)), "rank {offset}");
        assert_eq!(view.eof_pos(offset), Pos(flat.rank(offset)));
    }
}

fn check_any(t: &Datatype, disp: u64, at: u64, len: u64, size: u64) {
    let (view, flat) = both(disp, t);
    let want = flat.bounds(at, len).and_then(|(lo, hi)| Some((as_offset(lo)?, as_offset(hi)?)));
    assert_eq!(view.bounds(Pos(at), len), want, "bounds");
    assert_eq!(view.visible_prefix(Pos(at), len, size), flat.visible(at, len, size), "visible");
    if flat.tile_size() == 0 {
        assert_eq!(view.cursor(Pos(at), len).remaining(), 0);
        return;
    }
    if want.is_none() {
        return;
    }
    let mut cursor = view.cursor(Pos(at), len);
    assert_eq!(cursor.remaining(), len);
    let mut next = at;
    while let Some(piece) = cursor.next_piece(u64::MAX) {
        for offset in piece.offset..piece.offset + piece.len as i64 {
            assert_eq!(offset, flat.offset(next));
            assert_eq!(view.select(Pos(next)), as_offset(offset));
            next += 1;
        }
    }
    assert_eq!(next, at + len);
    if !view.is_monotone() {
        let rank = view.rank(Offset(size)).0;
        assert_eq!(rank.min(500), flat.visible(0, 500, size), "the fallback of rank");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rank_and_select_are_inverse(t in arb_file_type(), disp in 0..50u64) {
        check_monotone(&t, disp);
    }

    #[test]
    fn file_views_have_the_bounds_of_their_bytes(
        t in arb_file_type(), disp in 0..50u64, at in 0..300u64, len in 0..300u64, size in 0..800u64,
    ) {
        check_any(&t, disp, at, len, size);
    }

    #[test]
    fn any_view_has_the_bounds_of_its_bytes(t in arb_datatype(), at in 0..300u64, len in 0..300u64, size in 0..3000u64) {
        check_any(&t, 1500, at, len, size);
    }
}

#[test]
fn generated_file_types_make_views() {
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let t = file_type(&mut rng, 2);
        check_monotone(&t, rng.below(40));
        check_any(&t, rng.below(40), rng.below(300), rng.below(300), rng.below(900));
    }
}
