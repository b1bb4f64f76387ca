//! Random histories of calls on one file: scripts, and a reference that knows what must come of them.

mod spec;
mod world;
mod write;

pub use write::{Script, script};
