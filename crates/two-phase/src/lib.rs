//! The machine that runs one collective access: who moves which bytes where, in which order.
//!
//! All ranks of an open file come to a [`Meeting`] with a [`Claim`]: what they want, or why they cannot.
//! From the claims each rank computes the same [`Way`]: every rank by itself, or through *windows*: the
//! accessed region is dealt out to aggregators ([`pario_domain`]), and each domain is worked off in rounds of
//! one window. On one node windows lie in memory that all its ranks share ([`Node`]): a rank copies its bytes
//! straight from the program's memory into the window, and whoever comes last writes it to the file; reads go
//! the other way, whoever comes first reads. Ranks of other nodes send their bytes, in view order, to the
//! aggregator, which knows their views and puts the bytes in their places. A second meeting settles whether
//! all went well.
//!
//! The machine does no I/O and waits for nothing: [`Access::step`] goes as far as it can and says whether it
//! is done. Files and other nodes are the [`World`] that the caller brings. So blocking, split and
//! nonblocking calls are three drivers of it, and tests run many pretended ranks in one thread.
#![forbid(unsafe_code)]

mod access;
mod claim;
mod cost;
mod coverage;
mod meeting;
mod moving;
mod node;
mod part;
mod plan;
mod seat;
mod tally;
mod world;

pub use access::{Access, Job, Outcome, Step};
pub use claim::{Call, Claim};
pub use cost::{Costs, Guess, Lesson, Prior};
pub use coverage::Coverage;
pub use meeting::Meeting;
pub use node::{CELL, Node, Shape};
pub use pario_shm::{Ticket, cores, is_alive};
pub use plan::{Choice, Settings, Strategy, Way, plan};
pub use seat::{Seat, Seating};
pub use tally::Tally;
pub use world::{Messages, World};
