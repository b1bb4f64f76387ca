//! Profiles of programs' file accesses, and what follows from them.
//!
//! A profile is a stream of operations, each with the process that did it: from a trace of Pario, from a table
//! ([`csv`]) or from Darshan ([`darshan`]). Out of it come
//! - a plan ([`make`]): the accesses of all processes ([`Profile`]) are swept once from the first byte of a file to the
//!   last ([`sweep`](mod@sweep)), which gives the chunks and who uses them, and each chunk is placed by that ([`place`]);
//! - a plan for another size ([`rescale`](mod@rescale));
//! - advice ([`advice`]): what a program does to its files that it should not.
//!
//! [`ProfileSource`] opens a profile, however it is stored. All else is pure; the crate knows no clocks and no environment.
#![forbid(unsafe_code)]

pub mod advice;
pub mod csv;
pub mod darshan;
mod error;
mod interned;
pub mod place;
mod profile;
mod ranks;
mod regular;
pub mod rescale;
mod rescale_target;
mod source;
pub mod sweep;

pub use error::Error;
pub use place::{Broadcast, Rule, make};
pub use profile::{Collector, Profile, ProfiledAccess, TracedProcess};
pub use source::{ProfileSource, ProfileSourceError, SourceFacts, recorded_aggregators, statistics_file};
