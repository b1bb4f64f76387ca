//! Writes a datatype in the prefix notation that `programs/table/history.c` reads.
//!
//! Every derived type is wrapped in a resize to the bounds that its node carries, so that its layout does not
//! depend on what padding a host adds by itself.

use pario_view::{Basic, Datatype, DistArg, Distrib, Kind, Order, Shape};

/// The datatype as words.
pub fn spec(datatype: &Datatype) -> String {
    let inner = match &datatype.shape {
        Shape::Basic(b) => return basic(*b),
        Shape::Pair(a, b, disp) => format!("struct 2 1 0 {} 1 {disp} {}", basic(*a), basic(*b)),
        Shape::Dup(child) => return format!("dup {}", spec(child)),
        Shape::Contiguous { count, child } => format!("contiguous {count} {}", spec(child)),
        Shape::Vector { count, blocklen, stride, child } => {
            format!("vector {count} {blocklen} {stride} {}", spec(child))
        }
        Shape::Hvector { count, blocklen, stride, child } => {
            format!("hvector {count} {blocklen} {stride} {}", spec(child))
        }
        Shape::Indexed { blocks, child } => format!("indexed {} {}", pairs(blocks), spec(child)),
        Shape::Hindexed { blocks, child } => format!("hindexed {} {}", pairs(blocks), spec(child)),
        Shape::IndexedBlock { blocklen, disps, child } => {
            format!("indexed_block {} {blocklen}{} {}", disps.len(), list(disps), spec(child))
        }
        Shape::HindexedBlock { blocklen, disps, child } => {
            format!("hindexed_block {} {blocklen}{} {}", disps.len(), list(disps), spec(child))
        }
        Shape::Struct { fields } => {
            let fields: Vec<String> =
                fields.iter().map(|(len, disp, child)| format!(" {len} {disp} {}", spec(child))).collect();
            format!("struct {}{}", fields.len(), fields.concat())
        }
        Shape::Subarray { sizes, subsizes, starts, order, child } => {
            let (n, order) = (sizes.len(), order_word(*order));
            format!("subarray {n}{}{}{} {order} {}", list(sizes), list(subsizes), list(starts), spec(child))
        }
        Shape::Darray { size, rank, gsizes, distribs, dargs, psizes, order, child } => {
            let how: Vec<u8> = distribs.iter().map(distribution).collect();
            let args: Vec<i64> = dargs.iter().map(argument).collect();
            let lists = [list(gsizes), list(&how), list(&args), list(psizes)].concat();
            format!("darray {size} {rank} {}{lists} {} {}", gsizes.len(), order_word(*order), spec(child))
        }
        Shape::Resized { lb, extent, child } => return format!("resized {lb} {extent} {}", spec(child)),
    };
    format!("resized {} {} {inner}", datatype.lb, datatype.extent)
}

/// Whether every host makes this datatype: the standard wants subarrays of at least one element, and Open MPI
/// refuses arrays of elements without extent.
pub fn can_be_made(datatype: &Datatype) -> bool {
    match &datatype.shape {
        Shape::Basic(_) | Shape::Pair(..) => true,
        Shape::Struct { fields } => fields.iter().all(|(_, _, child)| can_be_made(child)),
        Shape::Subarray { subsizes, child, .. } => {
            subsizes.iter().all(|n| *n > 0) && child.extent > 0 && can_be_made(child)
        }
        Shape::Darray { child, .. } => child.extent > 0 && can_be_made(child),
        Shape::Dup(child)
        | Shape::Contiguous { child, .. }
        | Shape::Vector { child, .. }
        | Shape::Hvector { child, .. }
        | Shape::Indexed { child, .. }
        | Shape::Hindexed { child, .. }
        | Shape::IndexedBlock { child, .. }
        | Shape::HindexedBlock { child, .. }
        | Shape::Resized { child, .. } => can_be_made(child),
    }
}

fn basic(b: Basic) -> String {
    let letter = match b.kind {
        Kind::Bytes => 'b',
        Kind::Character => 'c',
        Kind::Signed => 's',
        Kind::Unsigned => 'u',
        Kind::Float => 'f',
        Kind::Complex => 'z',
        Kind::Logical => 'l',
    };
    format!("{letter}{}", b.native)
}

fn pairs(blocks: &[(u64, i64)]) -> String {
    let words: Vec<String> = blocks.iter().map(|(len, disp)| format!(" {len} {disp}")).collect();
    format!("{}{}", blocks.len(), words.concat())
}

fn list<T: std::fmt::Display>(values: &[T]) -> String {
    values.iter().map(|value| format!(" {value}")).collect()
}

fn order_word(order: Order) -> char {
    match order {
        Order::C => 'C',
        Order::Fortran => 'F',
    }
}

fn distribution(distrib: &Distrib) -> u8 {
    match distrib {
        Distrib::None => 0,
        Distrib::Block => 1,
        Distrib::Cyclic => 2,
    }
}

fn argument(darg: &DistArg) -> i64 {
    match darg {
        DistArg::Default => -1,
        DistArg::Given(n) => *n as i64,
    }
}
