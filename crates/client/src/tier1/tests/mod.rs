//! Tier 1 over pretended servers.

mod behaviour;
mod model;
mod world;
