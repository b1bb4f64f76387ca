//! The windows of one aggregator, round by round.

use pario_domain::{Domain, Window};

/// A domain and how it is cut.
pub(crate) struct Lane {
    domain: Domain,
    window: u64,
    rounds: u64,
}

impl Lane {
    pub fn new(domain: Domain, window: u64) -> Lane {
        let rounds = if domain.is_empty() { 0 } else { domain.windows(window) };
        Lane { domain, window, rounds }
    }

    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    pub fn window(&self, round: u64) -> Window {
        self.domain.window(round, self.window)
    }
}
