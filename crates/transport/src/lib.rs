//! Moves what `pario-wire` writes: over Unix sockets within a host, over TCP between hosts, in records that nobody on the
//! way can change.
//!
//! A client has a [`Connection`] per server: blocking calls, each with a deadline, several outstanding if it
//! likes. A server has [`Listener`]s, nonblocking [`Stream`]s and a [`Handshake`] per newcomer, which works
//! on bytes alone; it waits as it likes (poll, epoll). Nothing here starts threads or reads a clock that the
//! caller cannot see: deadlines are moments that the caller names.
#![deny(unsafe_code)]

mod address;
mod connection;
mod error;
mod fork;
mod greet;
mod handshake;
mod listener;
mod patience;
mod records;
mod stream;
mod sys;

pub use address::Address;
pub use connection::{Connection, MOST_OUTSTANDING, MOST_OUTSTANDING_BYTES};
pub use error::{Action, Error};
pub use fork::{is_forked, watch_forks};
pub use handshake::{Accepted, Door, Handshake, Step};
pub use listener::Listener;
pub use records::{ReadError, RecordReader, RecordWriter};
pub use stream::{Interest, Ready, Stream, Tuning};
pub use sys::{fresh_client, fresh_nonce, own_user};
