//! Reading and writing. An access takes one of four routes:
//!
//! - a *hit*: all bytes are in mapped pools, and are copied there and then (`file.rs`);
//! - *mapped I/O* ([`mapped_io`]): the server names the slots of missing blocks in its mapped pool;
//! - *messages* ([`server_pipeline`]): the bytes travel with requests and replies;
//! - *view I/O* ([`view_io`]): an access through a view copies pieces directly between the program's memory and mapped pools; for
//!   servers on other hosts it sends messages that name the view ([`named_view`]).
//!
//! [`plan`] divides an access into chunks for each server, and [`transfer`] runs all servers at the same time.

pub(crate) mod mapped_io;
pub(crate) mod memory;
pub(crate) mod named_view;
pub(crate) mod plan;
pub(crate) mod prefetch;
mod reserve;
pub(crate) mod server_pipeline;
pub(crate) mod transfer;
pub(crate) mod view_io;
