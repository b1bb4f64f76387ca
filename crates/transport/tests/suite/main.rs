//! One suite for every way in which two processes can be connected: Unix sockets, TCP, within a process.

mod calls;
mod faults;
mod handshakes;
mod listening;
mod records;
mod support;
