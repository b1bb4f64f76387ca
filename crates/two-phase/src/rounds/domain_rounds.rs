//! The windows of one file domain, round by round.

use pario_domain::{DomainWindow, FileDomain};

/// A file domain and its division into windows.
pub(crate) struct DomainRounds {
    domain: FileDomain,
    window: u64,
    count: u64,
}

impl DomainRounds {
    pub fn new(domain: FileDomain, window: u64) -> DomainRounds {
        let count = if domain.is_empty() { 0 } else { domain.windows(window) };
        DomainRounds { domain, window, count }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn window(&self, round: u64) -> DomainWindow {
        self.domain.window(round, self.window)
    }
}
