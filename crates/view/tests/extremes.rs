//! Huge, deep and malformed types: right answers or errors, never a panic, never a loop over a count.

use std::sync::Arc;

use pario_reference_model::{BASICS, Rng};
use pario_types::{Offset, Pos};
use pario_view::{Cursor, Datatype, DistArg, Distrib, Error, Order, Pattern, Shape, View};

const HUGE: i64 = 1 << 62;

fn with(lb: i64, extent: i64, shape: Shape) -> Datatype {
    Datatype { lb, extent, shape }
}

fn double() -> Arc<Datatype> {
    Arc::new(Datatype::basic(BASICS[7]))
}

#[test]
fn counts_near_the_limit_of_64_bits() {
    let byte = Arc::new(Datatype::byte());
    let all = with(0, HUGE, Shape::Contiguous { count: HUGE as u64, child: Arc::clone(&byte) });
    let p = Pattern::native(&all).unwrap();
    assert!(p.is_contiguous() && p.size() == HUGE as u64);
    assert_eq!(View::new(Offset(9), p).select(Pos(HUGE as u64 + 1)), Some(Offset(HUGE as u64 + 10)));

    let count = (1u64 << 61) - 5;
    let odd = with(0, 2 * count as i64, Shape::Vector { count, blocklen: 1, stride: 2, child: byte });
    let view = View::new(Offset(0), Pattern::native(&odd).unwrap());
    assert_eq!(view.tile().pieces(), count);
    let at = count - 3;
    assert_eq!(view.select(Pos(at)), Some(Offset(2 * at)));
    assert_eq!(view.rank(Offset(2 * at)), Pos(at));
    let mut cursor = view.cursor(Pos(at), 2);
    let run = cursor.next_run(u64::MAX).unwrap();
    assert_eq!((run.offset, run.len, run.stride, run.count), (2 * at as i64, 1, 2, 2));
    assert_eq!(view.cursor(Pos(u64::MAX - 1), 5).remaining(), 0);
}

#[test]
fn overflow_is_an_error() {
    let byte = Arc::new(Datatype::byte());
    let too_many = with(0, 0, Shape::Contiguous { count: u64::MAX, child: Arc::clone(&byte) });
    assert_eq!(Pattern::native(&too_many).err(), Some(Error::TooLarge));
    let shape = Shape::Hvector { count: 3, blocklen: 1, stride: HUGE, child: byte };
    assert_eq!(Pattern::native(&with(0, 0, shape)).err(), Some(Error::TooLarge));
    let shape = Shape::Subarray {
        sizes: vec![4],
        subsizes: vec![3],
        starts: vec![2],
        order: Order::C,
        child: double(),
    };
    assert!(matches!(Pattern::native(&with(0, 32, shape)), Err(Error::Invalid(_))));
}

#[test]
fn the_promised_sizes_hold() {
    let vector = Shape::Vector { count: 100_000_000, blocklen: 1, stride: 2, child: double() };
    let p = Pattern::native(&with(0, 1_599_999_992, vector)).unwrap();
    assert_eq!(p.pieces(), 100_000_000);
    assert!(p.memory() < 1024, "{}", p.memory());
    let array = Shape::Subarray {
        sizes: vec![200, 200, 200, 200],
        subsizes: vec![179, 178, 177, 178],
        starts: vec![1, 2, 3, 4],
        order: Order::C,
        child: double(),
    };
    let p = Pattern::native(&with(0, 200 * 200 * 200 * 200 * 8, array)).unwrap();
    assert!(p.size() / 8 > 1_000_000_000);
    assert!(p.memory() < 1024, "{}", p.memory());
    let cyclic = Shape::Darray {
        size: 8,
        rank: 5,
        gsizes: vec![1_000_003; 3],
        distribs: vec![Distrib::Cyclic; 3],
        dargs: vec![DistArg::Given(7); 3],
        psizes: vec![2; 3],
        order: Order::Fortran,
        child: Arc::new(Datatype::byte()),
    };
    let p = Pattern::native(&with(0, 1_000_003i64.pow(3), cyclic)).unwrap();
    assert!(p.memory() < 4096, "{}", p.memory());
}

#[test]
fn deep_types_are_built_or_refused() {
    let nest = |levels: i64| {
        let mut t = Datatype::byte();
        for i in 0..levels {
            t = with(
                0,
                t.extent,
                Shape::Hvector { count: 2, blocklen: 1, stride: i % 3 + 1, child: Arc::new(t) },
            );
        }
        Pattern::native(&t)
    };
    assert_eq!(nest(50).unwrap().size(), 1 << 50);
    assert_eq!(nest(600).err(), Some(Error::TooLarge));
    let mut t = double();
    for i in 0..2000 {
        let fields = vec![(1, 0, Arc::clone(&t)), (1, t.extent + i * i % 7, double())];
        t = Arc::new(with(0, t.extent + 20, Shape::Struct { fields }));
    }
    assert_eq!(Pattern::native(&t).unwrap().size(), 8 * 2001);
    // Shared subtrees are visited once, not 2^40 times.
    let mut t = double();
    for _ in 0..40 {
        let fields = vec![(1, 0, Arc::clone(&t)), (1, t.extent + 8, Arc::clone(&t))];
        t = Arc::new(with(0, 2 * t.extent + 8, Shape::Struct { fields }));
    }
    assert_eq!(Pattern::native(&t).unwrap().size(), 8 << 40);
}

fn number(rng: &mut Rng) -> u64 {
    let all = [0, 1, 2, 3, 7, 1 << 20, 1 << 31, 1 << 40, HUGE as u64, i64::MAX as u64, 1 << 63, u64::MAX];
    let choices = if rng.below(3) > 0 { 5 } else { 12 };
    all[rng.below(choices) as usize]
}

fn signed(rng: &mut Rng) -> i64 {
    let all = [0, 1, -1, 2, -3, 8, 1 << 31, -(1 << 40), HUGE, -HUGE, i64::MAX, i64::MIN];
    let choices = if rng.below(3) > 0 { 6 } else { 12 };
    all[rng.below(choices) as usize]
}

fn many<T>(rng: &mut Rng, mut item: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    let n = if rng.below(8) == 0 { 20 } else { rng.below(4) };
    (0..n).map(|_| item(rng)).collect()
}

/// Any tree at all, consistent or not.
fn wild(rng: &mut Rng, depth: u32) -> Datatype {
    if depth == 0 || rng.below(6) == 0 {
        return Datatype::basic(BASICS[rng.below(13) as usize]);
    }
    let child = Arc::new(wild(rng, depth - 1));
    let shape = match rng.below(11) {
        0 => Shape::Contiguous { count: number(rng), child },
        1 => Shape::Vector { count: number(rng), blocklen: number(rng), stride: signed(rng), child },
        2 => Shape::Hvector { count: number(rng), blocklen: number(rng), stride: signed(rng), child },
        3 => Shape::Indexed { blocks: many(rng, |r| (number(r), signed(r))), child },
        4 => Shape::Hindexed { blocks: many(rng, |r| (number(r), signed(r))), child },
        5 => Shape::IndexedBlock { blocklen: number(rng), disps: many(rng, signed), child },
        6 => {
            let other = Arc::new(wild(rng, depth - 1));
            Shape::Struct { fields: many(rng, |r| (number(r), signed(r), Arc::clone(&other))) }
        }
        7 => {
            let d = 1 + rng.below(3) as usize;
            let some = |rng: &mut Rng| (0..d).map(|_| number(rng)).collect::<Vec<_>>();
            let (sizes, subsizes, starts) = (some(rng), some(rng), some(rng));
            Shape::Subarray { sizes, subsizes, starts, order: Order::C, child }
        }
        8 => {
            let gsizes = vec![number(rng), number(rng)];
            let psizes = vec![1 + rng.below(3), 1 + rng.below(3)];
            let arg = |rng: &mut Rng| {
                if rng.below(2) == 0 { DistArg::Default } else { DistArg::Given(number(rng)) }
            };
            let dargs = vec![arg(rng), arg(rng)];
            let how = [Distrib::Block, Distrib::Cyclic, Distrib::None];
            let distribs = vec![how[rng.below(3) as usize], how[rng.below(3) as usize]];
            let (size, rank) = (psizes[0] * psizes[1], rng.below(9));
            Shape::Darray { size, rank, gsizes, distribs, dargs, psizes, order: Order::Fortran, child }
        }
        9 => Shape::Pair(BASICS[7], BASICS[3], signed(rng)),
        _ => Shape::Resized { lb: signed(rng), extent: signed(rng), child },
    };
    with(signed(rng), signed(rng), shape)
}

fn exercise(p: &Pattern, rng: &mut Rng) {
    let _ = (p.hash(), p.memory(), p.is_contiguous(), p.has_overlap(), p.external_size());
    let back = Pattern::from_bytes(&p.to_bytes());
    assert!(back.is_ok(), "{back:?} from {p:?}");
    let view = View::new(Offset(number(rng)), p.clone());
    let _ = (view.density().share(), view.hash());
    for _ in 0..6 {
        let (at, len) = (number(rng), number(rng));
        let _ = (view.select(Pos(at)), view.rank(Offset(at)), view.bounds(Pos(at), len));
        assert!(view.visible_prefix(Pos(at), len, number(rng)) <= len);
        for mut cursor in [view.cursor(Pos(at), len), Cursor::over(p, number(rng), at)] {
            for _ in 0..8 {
                let before = cursor.remaining();
                let Some(run) = cursor.next_run(1 + number(rng).min(HUGE as u64)) else { break };
                assert_eq!(before - cursor.remaining(), run.len * run.count);
            }
            for _ in 0..8 {
                let _ = cursor.next_piece(1 + number(rng).min(HUGE as u64));
            }
        }
    }
}

#[test]
fn wild_types_never_panic() {
    let mut built = 0;
    for seed in 0..6000 {
        let mut rng = Rng::new(seed);
        let depth = 1 + rng.below(4) as u32;
        let t = wild(&mut rng, depth);
        for p in [Pattern::native(&t), Pattern::typed(&t), Pattern::external(&t)].into_iter().flatten() {
            built += 1;
            exercise(&p, &mut rng);
        }
    }
    assert!(built > 4000, "most of them should be buildable: {built}");
}
