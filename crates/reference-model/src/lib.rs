//! The flat-byte reference of MPI datatypes and views, for tests only.
//!
//! Everything here is the MPI standard's definition written down as naively as possible: a type is the list
//! of its entries, a view the list of the offsets of its bytes, a file a vector. It shares no code with the
//! fast crates, so agreement means something. Types must be small: the cost is that of their bytes.
#![forbid(unsafe_code)]

mod flat;
mod generate;
mod strategy;
mod typemap;

pub use flat::FlatView;
pub use generate::{Rng, file_type, memory_type};
pub use strategy::{arb_file_type, arb_memory_type};
pub use typemap::{BASICS, Representation, TypeMap, expand, natural};

use pario_view::Datatype;
use proptest::strategy::Strategy;

/// Datatypes of any kind: negative displacements, overlap, empty parts, any order.
pub fn arb_datatype() -> impl Strategy<Value = Datatype> {
    arb_memory_type()
}
