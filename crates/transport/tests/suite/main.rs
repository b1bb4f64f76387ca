//! One suite for every way in which two processes can be connected: Unix sockets, TCP, within a process.

mod calls;
mod doors;
mod faults;
mod listening;
mod records;
mod support;
