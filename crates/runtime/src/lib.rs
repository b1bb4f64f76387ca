//! The only way of clients and servers to threads, locks, files and scheduling points.
//!
//! In a normal build every name here is the one of the standard library or of `parking_lot`, and [`point`] is empty: this crate costs
//! nothing. In a build with `--cfg pario_simulation` the same names belong to a scheduler that runs all threads of all simulated processes
//! in one thread, one at a time, in an order that a seed decides (`simulation`). A test that fails with some seed fails with it again.
//!
//! Clocks and random numbers are the standard library's in both builds: a simulation replaces the C library's `clock_gettime` and
//! `getrandom`, which the standard library and all crates call.

#[cfg(not(pario_simulation))]
pub mod fs;
#[cfg(pario_simulation)]
pub mod simulation;

/// Clocks. A simulation decides what they show.
pub mod time {
    pub use std::time::{Instant, SystemTime};
}

#[cfg(not(pario_simulation))]
pub mod host;

#[cfg(not(pario_simulation))]
mod real {
    /// Threads.
    pub mod thread {
        pub use std::thread::{
            Builder, JoinHandle, Scope, ScopedJoinHandle, available_parallelism, scope, sleep, spawn,
            yield_now,
        };
    }

    /// Processes: commands, their exit states and standard streams.
    pub mod process {
        pub use std::env::current_exe;
        pub use std::io::{stdin, stdout};
        pub use std::os::unix::process::{CommandExt, parent_id};
        pub use std::process::{
            Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitCode, ExitStatus, Stdio, id,
        };
    }

    /// Locks and condition variables.
    pub mod sync {
        /// Channels.
        pub use std::sync::mpsc;

        pub use std::sync::OnceLock;

        pub use parking_lot::{
            Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
        };
    }

    pub use std::thread_local;

    /// A place where a simulation may let another thread go on: between two accesses to memory that processes share.
    #[inline(always)]
    pub fn point() {}

    /// Whether a simulation has planted this bug, to see whether it is found. There is none here.
    #[inline(always)]
    pub const fn is_planted(_bug: &str) -> bool {
        false
    }

    /// Lets a simulation check the invariants of all programs, after a change that matters.
    #[inline(always)]
    pub fn check_invariants() {}

    /// Ends this process at once.
    pub fn abort() -> ! {
        std::process::abort()
    }
}

#[cfg(not(pario_simulation))]
pub use real::{abort, check_invariants, is_planted, point, process, sync, thread, thread_local};

#[cfg(pario_simulation)]
pub use simulation::{
    command as process, fs, host, invariants::check_now as check_invariants, planted::is_planted,
    process::abort, scheduler::point, sync, thread,
};
