//! Runs clients and servers in a simulated world of faults, and compares every result with what it may be: `cargo xtask simulate`.
//!
//! Each history runs in a process of its own, because a simulation leaks the memory of killed processes. A seed determines a history: its
//! partition, its calls, its faults and the order of all steps.

#![deny(unsafe_code)]

#[cfg(pario_simulation)]
mod arguments;
#[cfg(pario_simulation)]
mod bugs;
#[cfg(pario_simulation)]
mod call_log;
#[cfg(pario_simulation)]
#[allow(unsafe_code)]
mod child;
#[cfg(pario_simulation)]
mod client;
#[cfg(pario_simulation)]
mod client_names;
#[cfg(pario_simulation)]
mod cluster;
#[cfg(pario_simulation)]
mod copies;
#[cfg(pario_simulation)]
mod disk_faults;
#[cfg(pario_simulation)]
mod events;
#[cfg(pario_simulation)]
mod faults;
#[cfg(pario_simulation)]
mod focus;
#[cfg(pario_simulation)]
mod history;
#[cfg(pario_simulation)]
mod host_faults;
#[cfg(pario_simulation)]
mod lock_calls;
#[cfg(pario_simulation)]
mod managed;
#[cfg(pario_simulation)]
mod name_calls;
#[cfg(pario_simulation)]
mod orphans;
#[cfg(pario_simulation)]
mod plan;
#[cfg(pario_simulation)]
mod program;
#[cfg(pario_simulation)]
mod records;
#[cfg(pario_simulation)]
mod runner;
#[cfg(pario_simulation)]
mod scaling;
#[cfg(pario_simulation)]
mod settings;
#[cfg(pario_simulation)]
mod shrink;
#[cfg(pario_simulation)]
mod statistics;
#[cfg(pario_simulation)]
mod swarm;
#[cfg(pario_simulation)]
mod unanswered;

#[cfg(pario_simulation)]
mod storage_damage;

#[cfg(pario_simulation)]
fn main() -> std::process::ExitCode {
    runner::main()
}

#[cfg(not(pario_simulation))]
fn main() {
    eprintln!("this program is built without simulation: use `cargo xtask simulate`");
    std::process::exit(2);
}
