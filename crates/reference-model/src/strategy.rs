//! The same kinds of datatypes as strategies that shrink.

use std::sync::Arc;

use pario_view::{Basic, Datatype, DistArg, Distrib, Order, Shape};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::generate::{is_file_type, is_small};
use crate::typemap::{BASICS, natural};

type Boxed = BoxedStrategy<Datatype>;

/// Any datatype that is small enough to write out.
pub fn arb_memory_type() -> impl Strategy<Value = Datatype> {
    arb_leaf().prop_recursive(3, 24, 4, any_shape).prop_filter("small", is_small)
}

/// A datatype that is legal as a file type of a writable file.
pub fn arb_file_type() -> impl Strategy<Value = Datatype> {
    arb_leaf()
        .prop_recursive(3, 24, 4, ordered_shape)
        .prop_filter("small and in order", |t| is_small(t) && is_file_type(t))
}

fn arb_basic() -> impl Strategy<Value = Basic> {
    prop::sample::select(&BASICS[..])
}

fn arb_leaf() -> Boxed {
    let pair = (arb_basic(), 0..8i64).prop_map(|(value, pad)| {
        let disp = i64::from(value.native.next_multiple_of(4));
        let mut t = natural(Shape::Pair(value, BASICS[3], disp));
        t.extent += pad;
        t
    });
    prop_oneof![8 => arb_basic().prop_map(Datatype::basic), 1 => pair].boxed()
}

fn arb_order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::C), Just(Order::Fortran)]
}

/// Mostly short lists, now and then one that is worth packing.
fn lists<T: std::fmt::Debug + Clone + 'static>(
    item: impl Strategy<Value = T> + Clone + 'static,
) -> BoxedStrategy<Vec<T>> {
    prop_oneof![6 => vec(item.clone(), 0..6), 1 => vec(item, 20..80)].boxed()
}

fn any_shape(child: Boxed) -> Boxed {
    let c = || child.clone().prop_map(Arc::new);
    let n = || 0..5u64;
    let made = prop_oneof![
        c().prop_map(Shape::Dup),
        (n(), c()).prop_map(|(count, child)| Shape::Contiguous { count, child }),
        (n(), n(), -6..7i64, c()).prop_map(|(count, blocklen, stride, child)| Shape::Vector {
            count,
            blocklen,
            stride,
            child
        }),
        (n(), n(), -40..41i64, c()).prop_map(|(count, blocklen, stride, child)| Shape::Hvector {
            count,
            blocklen,
            stride,
            child
        }),
        (lists((0..4u64, -6..7i64)), c()).prop_map(|(blocks, child)| Shape::Indexed { blocks, child }),
        (lists((0..4u64, -50..51i64)), c()).prop_map(|(blocks, child)| Shape::Hindexed { blocks, child }),
        (n(), lists(-6..7i64), c()).prop_map(|(blocklen, disps, child)| Shape::IndexedBlock {
            blocklen,
            disps,
            child
        }),
        (n(), lists(-50..51i64), c()).prop_map(|(blocklen, disps, child)| Shape::HindexedBlock {
            blocklen,
            disps,
            child
        }),
        arb_subarray(child.clone(), 0),
        arb_darray(child.clone()),
        (-9..10i64, -9..61i64, c()).prop_map(|(lb, extent, child)| Shape::Resized { lb, extent, child }),
    ];
    let record = (vec((0..3u64, -50..51i64, c()), 0..5), 0..8i64).prop_map(|(fields, pad)| {
        let mut t = natural(Shape::Struct { fields });
        t.extent += pad;
        t
    });
    prop_oneof![11 => made.prop_map(natural), 1 => record].boxed()
}

fn ordered_shape(child: Boxed) -> Boxed {
    let c = || child.clone().prop_map(Arc::new);
    let made = prop_oneof![
        (1..5u64, c()).prop_map(|(count, child)| Shape::Contiguous { count, child }),
        (1..6u64, 1..4u64, 0..4i64, c()).prop_map(|(count, blocklen, gap, child)| {
            Shape::Vector { count, blocklen, stride: blocklen as i64 + gap, child }
        }),
        (1..6u64, 1..4u64, 0..40i64, c()).prop_map(|(count, blocklen, gap, child)| {
            Shape::Hvector { count, blocklen, stride: blocklen as i64 * child.extent + gap, child }
        }),
        (lists((0..4u64, 0..5i64)), c())
            .prop_map(|(gaps, child)| Shape::Indexed { blocks: from_gaps(&gaps, 1), child }),
        (lists((0..4u64, 0..40i64)), c())
            .prop_map(|(gaps, child)| Shape::Hindexed { blocks: from_gaps(&gaps, child.extent), child }),
        (1..4u64, lists(0..5i64), c()).prop_map(|(blocklen, gaps, child)| {
            let gaps: Vec<_> = gaps.iter().map(|&g| (blocklen, g)).collect();
            let disps = from_gaps(&gaps, 1).iter().map(|b| b.1).collect();
            Shape::IndexedBlock { blocklen, disps, child }
        }),
        (vec((0..3u64, 0..30i64, c()), 0..5)).prop_map(|mut fields| {
            let mut at = 0;
            for (len, disp, child) in &mut fields {
                at += *disp;
                *disp = at;
                at += *len as i64 * child.extent;
            }
            Shape::Struct { fields }
        }),
        arb_subarray(child.clone(), 1),
        arb_darray(child.clone()),
        (0..60i64, c()).prop_map(|(more, child)| Shape::Resized {
            lb: 0,
            extent: child.extent + more,
            child
        }),
    ];
    made.prop_map(natural).boxed()
}

/// Blocks from (length, gap before it).
fn from_gaps(gaps: &[(u64, i64)], unit: i64) -> Vec<(u64, i64)> {
    let mut at = 0;
    let mut blocks = Vec::with_capacity(gaps.len());
    for &(len, gap) in gaps {
        at += gap;
        blocks.push((len, at));
        at += len as i64 * unit;
    }
    blocks
}

fn arb_subarray(child: Boxed, least: u64) -> BoxedStrategy<Shape> {
    let dim = (1..6u64).prop_flat_map(move |size| {
        (least..=size).prop_flat_map(move |sub| (Just(size), Just(sub), 0..=size - sub))
    });
    (vec(dim, 1..4), arb_order(), child)
        .prop_map(|(dims, order, child)| Shape::Subarray {
            sizes: dims.iter().map(|d| d.0).collect(),
            subsizes: dims.iter().map(|d| d.1).collect(),
            starts: dims.iter().map(|d| d.2).collect(),
            order,
            child: Arc::new(child),
        })
        .boxed()
}

fn arb_darray(child: Boxed) -> BoxedStrategy<Shape> {
    let dim = (1..8u64, 1..4u64, 0..5u8, 1..4u64).prop_map(|(n, procs, how, k)| match how {
        0 => (n, 1, Distrib::None, DistArg::Default),
        1 => (n, procs, Distrib::Block, DistArg::Default),
        2 => (n, procs, Distrib::Block, DistArg::Given(n.div_ceil(procs) + k - 1)),
        3 => (n, procs, Distrib::Cyclic, DistArg::Default),
        _ => (n, procs, Distrib::Cyclic, DistArg::Given(k)),
    });
    (vec(dim, 1..4), any::<u64>(), arb_order(), child)
        .prop_map(|(dims, rank, order, child)| {
            let psizes: Vec<u64> = dims.iter().map(|d| d.1).collect();
            let size = psizes.iter().product();
            Shape::Darray {
                size,
                rank: rank % size,
                gsizes: dims.iter().map(|d| d.0).collect(),
                distribs: dims.iter().map(|d| d.2).collect(),
                dargs: dims.iter().map(|d| d.3).collect(),
                psizes,
                order,
                child: Arc::new(child),
            }
        })
        .boxed()
}
