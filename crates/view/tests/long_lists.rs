//! Index lists that are long enough to be searched for regularity and packed.

use std::sync::Arc;

use pario_reference_model::{FlatView, Representation, Rng, expand, natural};
use pario_types::{Offset, Pos};
use pario_view::{Basic, Cursor, Datatype, Pattern, Shape, View};

/// Blocks made of stretches: regular, periodic, or random.
fn stretches(rng: &mut Rng, in_order: bool) -> Vec<(u64, i64)> {
    let mut blocks = Vec::new();
    let mut at = rng.between(0, 9);
    while blocks.len() < 600 {
        let n = 1 + rng.below(300);
        let gaps: Vec<i64> = (0..1 + rng.below(5)).map(|_| rng.between(0, 6)).collect();
        let random = rng.below(3) == 0;
        let len = 1 + rng.below(3);
        for i in 0..n {
            let len = if random { rng.below(4) } else { len };
            blocks.push((len, at));
            let gap = if random { rng.between(0, 6) } else { gaps[i as usize % gaps.len()] };
            at += len as i64 + gap;
        }
        if !in_order {
            at += rng.between(-300, 300);
        }
    }
    blocks
}

/// A child that fills its extent, and one with a hole.
fn children() -> [Arc<Datatype>; 2] {
    let byte = Arc::new(Datatype::byte());
    let full = natural(Shape::Contiguous { count: 3, child: Arc::clone(&byte) });
    let holed = natural(Shape::Vector { count: 2, blocklen: 1, stride: 2, child: byte });
    let holed = natural(Shape::Resized { lb: 0, extent: 4, child: Arc::new(holed) });
    [Arc::new(full), Arc::new(holed)]
}

fn bytes_from(p: &Pattern, at: u64) -> Vec<i64> {
    let mut cursor = Cursor::over(p, 1, at);
    std::iter::from_fn(|| cursor.next_piece(u64::MAX))
        .flat_map(|x| x.offset..x.offset + x.len as i64)
        .collect()
}

#[test]
fn long_lists_are_their_type_maps() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        for child in children() {
            let blocks = stretches(&mut rng, seed % 2 == 0);
            let t = natural(Shape::Indexed { blocks, child });
            let map = expand(&t, Representation::Native);
            let p = Pattern::native(&t).unwrap();
            let bytes = map.bytes();
            assert_eq!(bytes_from(&p, 0), bytes, "seed {seed}");
            assert_eq!(p.pieces(), map.pieces().len() as u64, "seed {seed}");
            let at = rng.below(bytes.len() as u64);
            assert_eq!(bytes_from(&p, at), bytes[at as usize..], "seed {seed} from {at}");
            let back = Pattern::from_bytes(&p.to_bytes()).unwrap();
            assert_eq!(bytes_from(&back, 0), bytes);
            check_view(&t, &p, &mut rng);
        }
    }
}

fn check_view(t: &Datatype, p: &Pattern, rng: &mut Rng) {
    let (view, flat) = (View::new(Offset(1 << 20), p.clone()), FlatView::new(1 << 20, t));
    for _ in 0..30 {
        let (at, len) = (rng.below(3 * p.size()), 1 + rng.below(2000));
        let offset = flat.offset(at);
        assert_eq!(view.select(Pos(at)), Some(Offset(offset as u64)));
        let (lo, hi) = flat.bounds(at, len).unwrap();
        assert_eq!(view.bounds(Pos(at), len), Some((Offset(lo as u64), Offset(hi as u64))));
        let size = (1 << 20) + rng.below(2 * t.extent as u64);
        assert_eq!(view.visible_prefix(Pos(at), len, size), flat.visible(at, len, size));
        if view.is_monotone() {
            assert_eq!(view.rank(Offset(offset as u64)), Pos(at));
            assert_eq!(view.rank(Offset(offset as u64 + 1)), Pos(at + 1));
        }
    }
}

#[test]
fn a_periodic_list_is_as_small_as_its_period() {
    let child = Arc::new(Datatype::byte());
    let blocks: Vec<(u64, i64)> = (0..30_000).map(|i| (4 + i as u64 % 3, i * 40 + i % 3 * 5)).collect();
    let p = Pattern::native(&natural(Shape::Hindexed { blocks, child })).unwrap();
    assert!(p.memory() < 1024, "{} bytes", p.memory());
    assert_eq!(p.pieces(), 30_000);
}

#[test]
fn irregular_pieces_take_less_than_eight_bytes() {
    let mut rng = Rng::new(7);
    for (max_gap, max_len) in [(100, 64), (10_000, 4096), (1 << 20, 1 << 16)] {
        let mut at = 0;
        let fields: Vec<(u64, i64)> = (0..100_000)
            .map(|_| {
                let len = 1 + rng.below(max_len);
                at += 1 + rng.below(max_gap) as i64;
                let here = at;
                at += len as i64;
                (len, here)
            })
            .collect();
        let byte = Arc::new(Datatype::basic(Basic::BYTE));
        // Bounds by hand: writing out the bytes would take the model too long.
        let t = Datatype { lb: 0, extent: at, shape: Shape::Hindexed { blocks: fields, child: byte } };
        let p = Pattern::native(&t).unwrap();
        let each = p.memory() as f64 / p.pieces() as f64;
        assert_eq!(p.pieces(), 100_000);
        assert!(each < 8.0, "{each} bytes per piece");
    }
}
