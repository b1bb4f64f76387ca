//! File domains: which aggregator accesses which bytes of the file in a collective call.
//!
//! A collective access covers one region of the file, from the lowest byte that any rank touches to the
//! highest. A [`Partition`] deals the region out to the aggregators by one of four [`Method`]s; what one
//! aggregator gets is its [`Domain`], which it works through in [`Window`]s no larger than its buffer.
//! [`auto`] names the method that suits a file system, and [`choose`] the ranks that aggregate.
//!
//! Everything here is arithmetic on a few numbers that all ranks know: each rank computes every other
//! rank's domains and windows for itself, in constant time, and no lists are sent around.
#![forbid(unsafe_code)]

mod choose;
mod config;
mod domain;
mod error;
mod method;
mod partition;

pub use choose::{Wanted, choose};
pub use config::ConfigList;
pub use domain::{Domain, Window};
pub use error::Error;
pub use method::{Method, Protocol, auto};
pub use partition::Partition;
