//! A deterministic simulation of processes and their threads.
//!
//! - `scheduler`: which thread goes on, and virtual time.
//! - `process`: processes that die, stand still and go on, and their hosts.
//! - `sync`, `thread`, `local`: locks, condition variables, threads and thread-local values with the interfaces of the real ones.
//! - `command`, `process_table`: processes that start others, their exit states, signals and pipes, with the interface of `std::process`.
//! - `channel`, `scope`: channels, and threads that borrow.
//! - `host`: names and addresses of hosts.
//! - `stall`: long pauses of single threads.
//! - `once`: values that are computed once.
//! - `planned_kill`: kills of processes at a step that is chosen in advance.
//! - `planted`: bugs that are switched on to see whether the simulation finds them.
//! - `clock`: wall clocks of hosts.
//! - `limits`: descriptors and memory that run out.
//! - `counts`: counters of calls and faults.
//! - `random`: independent streams of random numbers.
//! - `network`: streams and listeners between simulated processes.
//! - `file_system`, `fs`, `simulated_file`, `simulated_metadata`: the files of hosts, and the interface of `std::fs` to them.
//! - `invariants`: what has to hold between any two steps.
//! - `run`: settings and results of a run.
//! - `interpose`: the C library's clocks and random numbers.

pub mod channel;
pub mod clock;
pub mod command;
pub mod counts;
pub mod file_system;
pub mod file_times;
pub mod fs;
pub mod futex;
pub mod host;
mod interpose;
pub mod invariants;
pub mod limits;
pub mod local;
pub mod network;
mod once;
pub mod planned_kill;
pub mod planted;
pub mod process;
pub mod process_table;
pub mod random;
pub mod run;
pub mod scheduler;
pub mod scope;
pub mod simulated_file;
pub mod simulated_metadata;
pub mod stall;
pub mod sync;
pub mod thread;
