//! Tests of the pool under every interleaving of its processes' steps.

pub mod explore;
mod races;
mod room_races;
