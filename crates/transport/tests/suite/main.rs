//! One suite for every kind of connection between two processes: Unix sockets, TCP, within a process.

mod calls;
mod faults;
mod handshakes;
mod listening;
mod records;
mod support;
