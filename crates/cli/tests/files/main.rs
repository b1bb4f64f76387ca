//! The commands on files and on the state of a partition, tried on partitions with real servers.

#[path = "../bench/mod.rs"]
#[allow(dead_code, reason = "other tests compile programs")]
mod bench;
mod check;
mod copies;
mod counts;
mod mounts;
mod names;
mod site;
mod state;
