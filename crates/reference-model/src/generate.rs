//! Random datatypes from a seed, for programs that want many types without a test framework.

use std::sync::Arc;

use pario_view::{Datatype, DistArg, Distrib, Order, Shape};

use crate::typemap::{BASICS, Representation, expand, natural};

/// A small deterministic generator of random numbers (xorshift64*).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A sequence that depends on the seed only.
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n > 0`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next_u64() >> 11) % n
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Most data bytes that a generated type has.
const MAX_BYTES: usize = 4096;
/// Longest extent of a generated type.
const MAX_EXTENT: i64 = 1 << 16;

/// Any datatype: negative displacements and strides, overlap, any order, empty parts.
pub fn memory_type(rng: &mut Rng, depth: u32) -> Datatype {
    let child = if depth == 0 { Arc::new(leaf(rng)) } else { Arc::new(memory_type(rng, depth - 1)) };
    let any = |rng: &mut Rng| rng.between(-6, 6);
    let shape = match rng.below(13) {
        0 => Shape::Dup(child),
        1 => Shape::Contiguous { count: rng.below(5), child },
        2 => Shape::Vector { count: rng.below(5), blocklen: rng.below(4), stride: any(rng), child },
        3 => Shape::Hvector {
            count: rng.below(5),
            blocklen: rng.below(4),
            stride: rng.between(-40, 40),
            child,
        },
        4 => Shape::Indexed { blocks: list(rng, |rng| (rng.below(4), any(rng))), child },
        5 => Shape::Hindexed { blocks: list(rng, |rng| (rng.below(4), rng.between(-50, 50))), child },
        6 => Shape::IndexedBlock { blocklen: rng.below(4), disps: list(rng, any), child },
        7 => Shape::HindexedBlock {
            blocklen: rng.below(4),
            disps: list(rng, |rng| rng.between(-50, 50)),
            child,
        },
        8 => {
            let other = Arc::new(leaf(rng));
            let fields = list(rng, |rng| {
                let child = if rng.chance(50) { &child } else { &other };
                (rng.below(3), rng.between(-50, 50), Arc::clone(child))
            });
            return fitting(padded(rng, Shape::Struct { fields }), rng);
        }
        9 => subarray(rng, child, 0),
        10 => darray(rng, child),
        11 => Shape::Resized { lb: rng.between(-9, 9), extent: rng.between(-9, 60), child },
        _ => return leaf(rng),
    };
    fitting(natural(shape), rng)
}

/// A datatype that is legal as a file type of a writable file: displacements not negative, in order, without
/// overlap, in itself and when tiled.
pub fn file_type(rng: &mut Rng, depth: u32) -> Datatype {
    let child = if depth == 0 { Arc::new(leaf(rng)) } else { Arc::new(file_type(rng, depth - 1)) };
    let shape = match rng.below(12) {
        0 => Shape::Dup(child),
        1 => Shape::Contiguous { count: 1 + rng.below(4), child },
        2 | 3 => {
            let blocklen = 1 + rng.below(3);
            let stride = (blocklen + rng.below(4)) as i64;
            Shape::Vector { count: 1 + rng.below(5), blocklen, stride, child }
        }
        4 => {
            let blocklen = 1 + rng.below(3);
            let stride = blocklen as i64 * child.extent + rng.between(0, 40);
            Shape::Hvector { count: 1 + rng.below(5), blocklen, stride, child }
        }
        5 => Shape::Indexed { blocks: ascending(rng, 1, 5), child },
        6 => {
            let blocks = ascending(rng, child.extent, 40);
            Shape::Hindexed { blocks, child }
        }
        7 => {
            let blocklen = 1 + rng.below(3);
            let mut at = rng.between(0, 5);
            let disps = list(rng, |rng| {
                let here = at;
                at += blocklen as i64 + rng.between(0, 5);
                here
            });
            Shape::IndexedBlock { blocklen, disps, child }
        }
        8 => {
            let other = Arc::new(leaf(rng));
            let mut at = rng.between(0, 9);
            let fields = list(rng, |rng| {
                let child = if rng.chance(50) { &child } else { &other };
                let (len, here) = (rng.below(3), at);
                at += len as i64 * child.extent + rng.between(0, 30);
                (len, here, Arc::clone(child))
            });
            let mut t = natural(Shape::Struct { fields });
            // A struct's lower bound may lie above 0; tiles then still keep clear of each other.
            t.extent += rng.between(0, 8);
            return fitting_file(t, rng);
        }
        9 => subarray(rng, child, 1),
        10 => darray(rng, child),
        _ => {
            let map = expand(&child, Representation::Native);
            let bytes = map.bytes();
            let (low, high) = (bytes.iter().min().map_or(0, |b| *b), bytes.iter().max().map_or(0, |b| b + 1));
            let lb = rng.between(0, low.max(0));
            Shape::Resized { lb, extent: high - low + rng.between(0, 50), child }
        }
    };
    fitting_file(natural(shape), rng)
}

/// A basic type, or now and then a pair.
fn leaf(rng: &mut Rng) -> Datatype {
    let pick = |rng: &mut Rng| BASICS[rng.below(BASICS.len() as u64) as usize];
    if rng.chance(10) {
        let (value, index) = (pick(rng), BASICS[3]);
        let disp = i64::from(value.native.next_multiple_of(4));
        return padded(rng, Shape::Pair(value, index, disp));
    }
    Datatype::basic(pick(rng))
}

/// With the trailing padding that a compiler might add.
fn padded(rng: &mut Rng, shape: Shape) -> Datatype {
    let mut t = natural(shape);
    if rng.chance(50) {
        t.extent += rng.between(0, 7);
    }
    t
}

fn list<T>(rng: &mut Rng, mut item: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    // Sometimes long enough for a packed list.
    let n = if rng.chance(15) { 20 + rng.below(60) } else { rng.below(6) };
    (0..n).map(|_| item(rng)).collect()
}

/// Blocks in order: a block of `n` takes `n * unit`, then a gap follows.
fn ascending(rng: &mut Rng, unit: i64, gap: i64) -> Vec<(u64, i64)> {
    let mut at = rng.between(0, gap);
    list(rng, |rng| {
        let (len, here) = (rng.below(4), at);
        at += len as i64 * unit + rng.between(0, gap);
        (len, here)
    })
}

fn order(rng: &mut Rng) -> Order {
    if rng.chance(50) { Order::C } else { Order::Fortran }
}

fn subarray(rng: &mut Rng, child: Arc<Datatype>, least: u64) -> Shape {
    let (mut sizes, mut subsizes, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..1 + rng.below(3) {
        let size = 1 + rng.below(5);
        let subsize = least + rng.below(size + 1 - least);
        sizes.push(size);
        subsizes.push(subsize);
        starts.push(rng.below(size - subsize + 1));
    }
    Shape::Subarray { sizes, subsizes, starts, order: order(rng), child }
}

fn darray(rng: &mut Rng, child: Arc<Datatype>) -> Shape {
    let (mut gsizes, mut distribs, mut dargs, mut psizes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..1 + rng.below(3) {
        let n = 1 + rng.below(7);
        let mut procs = 1 + rng.below(3);
        let (how, arg) = match rng.below(5) {
            0 => {
                procs = 1;
                (Distrib::None, DistArg::Default)
            }
            1 => (Distrib::Block, DistArg::Default),
            2 => (Distrib::Block, DistArg::Given(n.div_ceil(procs) + rng.below(2))),
            3 => (Distrib::Cyclic, DistArg::Default),
            _ => (Distrib::Cyclic, DistArg::Given(1 + rng.below(3))),
        };
        gsizes.push(n);
        psizes.push(procs);
        distribs.push(how);
        dargs.push(arg);
    }
    let size = psizes.iter().product();
    Shape::Darray { size, rank: rng.below(size), gsizes, distribs, dargs, psizes, order: order(rng), child }
}

/// The type if it is small, else a basic one.
fn fitting(t: Datatype, rng: &mut Rng) -> Datatype {
    if is_small(&t) { t } else { leaf(rng) }
}

fn fitting_file(t: Datatype, rng: &mut Rng) -> Datatype {
    if is_small(&t) && is_file_type(&t) { t } else { leaf(rng) }
}

pub(crate) fn is_small(t: &Datatype) -> bool {
    t.extent.abs() <= MAX_EXTENT && expand(t, Representation::Native).bytes().len() <= MAX_BYTES
}

/// Whether displacements increase and tiles follow each other.
pub(crate) fn is_file_type(t: &Datatype) -> bool {
    let bytes = expand(t, Representation::Native).bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            *first >= 0 && bytes.windows(2).all(|w| w[0] < w[1]) && t.extent > last - first
        }
        _ => true,
    }
}
