//! Moves the messages of `pario-wire`: over Unix sockets within a host, over TCP between hosts, there in authenticated records.
//!
//! A client has a [`Connection`] per server: blocking calls with deadlines, of which several may be outstanding. A server has
//! [`Listener`]s, nonblocking [`Stream`]s and a [`ServerHandshake`] per new connection. The handshake works on bytes alone, and
//! the server waits as it likes (poll, epoll). This crate starts no threads, except to look up host names, and reads no clock
//! that the caller cannot see: a deadline is an instant that the caller gives.
#![deny(unsafe_code)]

mod address;
mod client_handshake;
mod connection;
mod deadline_stream;
mod error;
mod fork;
#[cfg_attr(pario_simulation, path = "simulated/listener.rs")]
mod listener;
mod records;
mod server_handshake;
mod socket_options;
#[cfg_attr(pario_simulation, path = "simulated/stream.rs")]
mod stream;
#[cfg_attr(pario_simulation, allow(dead_code))]
mod sys;

pub use address::Address;
pub use connection::{Connection, MOST_OUTSTANDING, MOST_OUTSTANDING_BYTES};
pub use error::{ConnectionAction, Error};
pub use fork::{is_forked, watch_forks};
pub use listener::Listener;
pub use records::{RecordReadError, RecordReader, RecordWriter};
pub use server_handshake::{AcceptedClient, HandshakeConfig, HandshakeStep, ServerHandshake};
pub use socket_options::{Interest, Ready, SocketOptions};
pub use stream::Stream;
pub use sys::{fresh_client, fresh_nonce, own_user};
