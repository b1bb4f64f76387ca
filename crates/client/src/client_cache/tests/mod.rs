//! The client cache over simulated servers.

mod behaviour;
mod model;
mod world;
