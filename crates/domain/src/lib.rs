//! File domains: the bytes of the file that each aggregator accesses in a collective call.
//!
//! A collective access covers one region of the file, from the lowest byte that any rank accesses to the
//! highest. [`FileDomains`] divides the region among the aggregators by one of four
//! [`PartitioningMethod`]s. Each aggregator processes its [`FileDomain`] in [`DomainWindow`]s no larger
//! than its buffer. [`default_method`] is the method that suits a file system, and [`choose_aggregators`]
//! returns the ranks that aggregate.
//!
//! All results are arithmetic on a few numbers that all ranks know. Each rank computes the domains and
//! windows of every other rank in constant time, and no lists are exchanged.
#![forbid(unsafe_code)]

mod aggregators;
mod config_list;
mod error;
mod file_domain;
mod file_domains;
mod method;

pub use aggregators::{AggregatorRequest, choose_aggregators};
pub use config_list::ConfigList;
pub use error::Error;
pub use file_domain::{DomainWindow, FileDomain};
pub use file_domains::FileDomains;
pub use method::{LockProtocol, PartitioningMethod, default_method};
