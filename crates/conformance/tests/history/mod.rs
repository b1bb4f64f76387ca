//! Random histories of calls on one file: scripts, and a reference that knows what must come of them.

mod play;
mod spec;
mod world;
mod write;

pub use play::play;
use write::{Script, script};
