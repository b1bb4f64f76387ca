//! Equal layouts from different constructors have equal hashes.

use std::sync::Arc;

use pario_reference_model::{BASICS, natural};
use pario_view::{Datatype, DistArg, Distrib, Order, Pattern, Shape};

fn double() -> Arc<Datatype> {
    Arc::new(Datatype::basic(BASICS[7]))
}

fn resized(t: Datatype, extent: i64) -> Datatype {
    natural(Shape::Resized { lb: 0, extent, child: Arc::new(t) })
}

fn same(types: &[Datatype]) {
    let hashes: Vec<_> = types.iter().map(|t| Pattern::native(t).unwrap().hash()).collect();
    for (i, hash) in hashes.iter().enumerate() {
        assert_eq!(*hash, hashes[0], "{:?}\n{:?}", types[0], types[i]);
    }
}

#[test]
fn contiguous_layouts_of_any_constructor_are_equal() {
    let c = double;
    same(&[
        natural(Shape::Contiguous { count: 12, child: c() }),
        natural(Shape::Vector { count: 4, blocklen: 3, stride: 3, child: c() }),
        natural(Shape::Hvector { count: 6, blocklen: 2, stride: 16, child: c() }),
        natural(Shape::Indexed { blocks: vec![(5, 0), (0, 99), (7, 5)], child: c() }),
        natural(Shape::Struct { fields: vec![(1, 0, c()), (11, 8, c())] }),
        natural(Shape::Subarray {
            sizes: vec![3, 4],
            subsizes: vec![3, 4],
            starts: vec![0, 0],
            order: Order::C,
            child: c(),
        }),
        natural(Shape::Contiguous { count: 96, child: Arc::new(Datatype::byte()) }),
    ]);
}

#[test]
fn strided_layouts_of_any_constructor_are_equal() {
    let c = double;
    let every = |t| resized(t, 320);
    same(&[
        every(natural(Shape::Vector { count: 8, blocklen: 2, stride: 5, child: c() })),
        every(natural(Shape::Hvector { count: 8, blocklen: 2, stride: 40, child: c() })),
        every(natural(Shape::Indexed { blocks: (0..8).map(|i| (2, i * 5)).collect(), child: c() })),
        every(natural(Shape::HindexedBlock {
            blocklen: 2,
            disps: (0..8).map(|i| i * 40).collect(),
            child: c(),
        })),
        every(natural(Shape::Struct { fields: (0..8).map(|i| (2, i * 40, c())).collect() })),
        every(natural(Shape::Subarray {
            sizes: vec![8, 5],
            subsizes: vec![8, 2],
            starts: vec![0, 0],
            order: Order::C,
            child: c(),
        })),
        every(natural(Shape::Darray {
            size: 3,
            rank: 0,
            gsizes: vec![8, 5],
            distribs: vec![Distrib::None, Distrib::Block],
            dargs: vec![DistArg::Default, DistArg::Default],
            psizes: vec![1, 3],
            order: Order::C,
            child: c(),
        })),
    ]);
}

#[test]
fn storage_orders_of_equal_layouts_are_equal() {
    let array = |sizes: [u64; 3], sub: [u64; 3], starts: [u64; 3], order| {
        natural(Shape::Subarray {
            sizes: sizes.to_vec(),
            subsizes: sub.to_vec(),
            starts: starts.to_vec(),
            order,
            child: double(),
        })
    };
    same(&[
        array([4, 5, 6], [2, 3, 4], [1, 2, 1], Order::C),
        array([6, 5, 4], [4, 3, 2], [1, 2, 1], Order::Fortran),
    ]);
}

#[test]
fn different_layouts_differ() {
    let vector = |count, extent| {
        resized(natural(Shape::Vector { count, blocklen: 1, stride: 2, child: double() }), extent)
    };
    let hash = |t: &Datatype| Pattern::native(t).unwrap().hash();
    let base = hash(&vector(4, 64));
    assert_ne!(base, hash(&vector(5, 64)));
    assert_ne!(base, hash(&vector(4, 72)), "tiled differently");
    assert_ne!(base, Pattern::typed(&vector(4, 64)).unwrap().hash(), "typed");
}
