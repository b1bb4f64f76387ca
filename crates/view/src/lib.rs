//! Views: MPI datatypes as compact layouts, and the arithmetic between positions and offsets.
//!
//! A [`Datatype`] is the tree of constructors as the host MPI describes it. It is lowered once to a [`Pattern`], a small
//! normalised graph whose size depends on the description of the type and never on the number of its pieces: a strided type
//! of 10^8 pieces takes a few hundred bytes. A [`View`] tiles a pattern over a file from a displacement; memory is a
//! pattern tiled a given number of times. One [`Cursor`] walks both and yields strided runs; `select` (position to offset)
//! and `rank` (offset to position) search them in one descent from the root to a leaf.
//!
//! The crate is pure: no I/O, no MPI, no clock, no unsafe code.
#![forbid(unsafe_code)]

mod build;
mod codec;
mod cursor;
mod datatype;
mod error;
mod fold;
mod list;
mod lower;
mod node;
mod overlap;
mod pattern;
mod search;
mod view;

pub use cursor::{Cursor, Piece, Run};
pub use datatype::{Basic, Datatype, DistArg, Distrib, Kind, Order, Shape};
pub use error::Error;
pub use pattern::{Pattern, ViewHash};
pub use view::{Density, View};
