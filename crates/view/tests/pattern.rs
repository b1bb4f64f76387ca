//! Patterns against the naive type map.

use pario_reference_model::{
    Representation, Rng, TypeMap, arb_datatype, arb_file_type, expand, file_type, memory_type,
};
use pario_view::{Basic, Cursor, Datatype, Pattern, Piece, Run};
use proptest::prelude::*;

fn runs(p: &Pattern, count: u64, at: u64, limit: u64) -> Vec<Run> {
    let mut cursor = Cursor::over(p, count, at);
    let mut out = Vec::new();
    while let Some(run) = cursor.next_run(limit) {
        assert!(run.len * run.count <= limit && run.len > 0 && run.count > 0);
        out.push(run);
    }
    assert_eq!(cursor.remaining(), 0);
    out
}

fn pieces(p: &Pattern) -> Vec<(i64, u64)> {
    let mut cursor = Cursor::over(p, 1, 0);
    std::iter::from_fn(|| cursor.next_piece(u64::MAX)).map(|Piece { offset, len }| (offset, len)).collect()
}

fn bytes_of(runs: &[Run]) -> Vec<i64> {
    runs.iter()
        .flat_map(|r| {
            (0..r.count as i64).flat_map(move |i| (0..r.len as i64).map(move |j| r.offset + i * r.stride + j))
        })
        .collect()
}

fn check_against(p: &Pattern, map: &TypeMap) {
    let bytes = map.bytes();
    let want = map.pieces();
    assert_eq!(p.size(), bytes.len() as u64, "size");
    assert_eq!((p.lb(), p.extent()), (map.lb, map.extent()), "bounds");
    assert_eq!(p.true_lb(), bytes.iter().min().map_or(0, |b| *b), "true lb");
    assert_eq!(p.true_ub(), bytes.iter().max().map_or(0, |b| b + 1), "true ub");
    assert_eq!(pieces(p), want, "pieces");
    assert_eq!(p.pieces(), want.len() as u64, "number of pieces");
    let ordered = want.windows(2).all(|w| w[0].0 <= w[1].0) && bytes.first().is_none_or(|&b| b >= 0);
    assert_eq!(p.is_monotone(), ordered, "monotone");
    let mut sorted = bytes.clone();
    sorted.sort_unstable();
    assert_eq!(p.has_overlap(), sorted.windows(2).any(|w| w[0] == w[1]), "overlap");
    let contiguous = want.len() == 1 && want[0].0 == 0 && want[0].1 as i64 == map.extent();
    assert_eq!(p.is_contiguous(), contiguous, "contiguous");
}

fn check_type(t: &Datatype) {
    let native = expand(t, Representation::Native);
    let p = Pattern::native(t).unwrap();
    check_against(&p, &native);
    check_against(&Pattern::external(t).unwrap(), &expand(t, Representation::External));
    check_typed(t, &native);
    check_codec(&p);
}

/// The typed pattern has the same bytes, each run of one basic type, in whole values.
fn check_typed(t: &Datatype, map: &TypeMap) {
    let p = Pattern::typed(t).unwrap();
    let mut values: Vec<(i64, Basic)> = Vec::new();
    for run in runs(&p, 1, 0, u64::MAX) {
        let native = u64::from(run.basic.native);
        assert_eq!(run.len % native, 0);
        for i in 0..run.count as i64 {
            values.extend(
                (0..run.len / native).map(|k| (run.offset + i * run.stride + (k * native) as i64, run.basic)),
            );
        }
    }
    let want: Vec<_> = map.entries.iter().map(|&(disp, basic, _)| (disp, basic)).collect();
    assert_eq!(values, want);
    let external: u64 = map.entries.iter().map(|e| u64::from(e.1.external)).sum();
    assert_eq!(p.external_size(), Ok(external));
    check_codec(&p);
}

fn check_codec(p: &Pattern) {
    let bytes = p.to_bytes();
    let back = Pattern::from_bytes(&bytes).unwrap();
    assert_eq!(back.to_bytes(), bytes);
    assert_eq!(back.hash(), p.hash());
    assert_eq!(
        (back.size(), back.lb(), back.extent(), back.pieces()),
        (p.size(), p.lb(), p.extent(), p.pieces())
    );
    assert_eq!(pieces(&back), pieces(p));
}

/// Several instances, from anywhere, with any limits.
fn check_tiled(t: &Datatype, count: u64, at: u64, limit: u64) {
    let map = expand(t, Representation::Native);
    let p = Pattern::native(t).unwrap();
    let bytes = map.bytes();
    let all: Vec<i64> = (0..count as i64).flat_map(|i| bytes.iter().map(move |b| b + i * t.extent)).collect();
    let at = at.min(all.len() as u64);
    let rest = &all[at as usize..];
    assert_eq!(Cursor::over(&p, count, at).remaining(), rest.len() as u64);
    assert_eq!(bytes_of(&runs(&p, count, at, limit)), rest);
    let mut cursor = Cursor::over(&p, count, at);
    let mut seen = Vec::new();
    let mut last: Option<Piece> = None;
    while let Some(piece) = cursor.next_piece(u64::MAX) {
        assert!(last.is_none_or(|l| l.offset + l.len as i64 != piece.offset), "pieces that touch are merged");
        seen.extend(piece.offset..piece.offset + piece.len as i64);
        last = Some(piece);
    }
    assert_eq!(seen, rest);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_type_is_its_type_map(t in arb_datatype()) {
        check_type(&t);
    }

    #[test]
    fn file_types_are_their_type_maps(t in arb_file_type()) {
        check_type(&t);
        let p = Pattern::native(&t).unwrap();
        prop_assert!(p.is_monotone() && !p.has_overlap());
    }

    #[test]
    fn tiles_are_walked_in_order(t in arb_datatype(), count in 0..5u64, at in 0..200u64, limit in 1..100u64) {
        check_tiled(&t, count, at, limit);
    }

    #[test]
    fn damaged_bytes_never_make_a_wrong_pattern(t in arb_datatype(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let p = Pattern::typed(&t).unwrap();
        let mut bytes = p.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // Damage is refused, or the bytes are another pattern that is whole in itself.
        if let Ok(other) = Pattern::from_bytes(&bytes) {
            prop_assert_eq!(other.to_bytes(), bytes);
            prop_assert!(other.hash() != p.hash());
            if other.pieces() < 10_000 {
                let total: u64 = pieces(&other).iter().map(|p| p.1).sum();
                prop_assert_eq!(total, other.size());
            }
        }
        let cut = p.to_bytes();
        prop_assert!(Pattern::from_bytes(&cut[..at]).is_err());
    }

    #[test]
    fn noise_is_refused_or_whole(bytes in prop::collection::vec(0..12u8, 0..60)) {
        let mut bytes = bytes;
        bytes.insert(0, 1);
        if let Ok(p) = Pattern::from_bytes(&bytes) {
            prop_assert_eq!(p.to_bytes(), bytes);
        }
    }
}

#[test]
fn generated_types_are_their_type_maps() {
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let t = memory_type(&mut rng, 2);
        check_type(&t);
        check_tiled(&t, rng.below(4), rng.below(100), 1 + rng.below(64));
        let t = file_type(&mut rng, 2);
        check_type(&t);
        assert!(Pattern::native(&t).unwrap().is_monotone());
    }
}
