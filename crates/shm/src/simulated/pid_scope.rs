//! The scope in which numbers of simulated processes are comparable.

use std::io;

use pario_runtime::simulation::process;

/// A boot of a simulated host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidScope {
    /// The id of this boot.
    pub boot: u128,
    /// Simulated processes have no namespaces.
    pub namespaces: u64,
}

impl PidScope {
    /// The scope of this process.
    pub fn current() -> io::Result<PidScope> {
        Ok(PidScope { boot: process::boot_of_current_host().into(), namespaces: 1 })
    }
}
