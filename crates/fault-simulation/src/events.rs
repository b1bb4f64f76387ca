//! The events of a history besides the calls.

use std::collections::BTreeMap;

use pario_conformance::torture::history::Call;
use pario_runtime::simulation::scheduler;

use crate::faults::Damage;

/// The events of a history besides the calls.
#[derive(Default)]
pub struct Events {
    /// When workers were killed.
    pub deaths: BTreeMap<u32, u64>,
    /// When hosts lost their memory.
    pub losses: Vec<u64>,
    /// When hosts lost power.
    pub power_losses: Vec<u64>,
    /// Whether stored bytes may be damaged: then a read may fail.
    pub is_storage_damaged: bool,
}

impl Events {
    pub fn take(&mut self, damage: Damage) {
        self.deaths.extend(damage.killed.into_iter().map(|worker| (worker, scheduler::now())));
        self.losses.extend(damage.loss);
        self.power_losses.extend(damage.power_loss);
        self.is_storage_damaged |= damage.is_storage_damaged;
    }

    /// Whether hosts lost memory or power between some time and the end of a call.
    pub fn has_loss(&self, since: u64, call: &Call) -> bool {
        let is_meanwhile = |loss: &u64| since < *loss && call.end.is_none_or(|end| *loss < end);
        self.losses.iter().chain(&self.power_losses).any(is_meanwhile)
    }

    /// Whether nothing was lost but processes: no memory, and nothing on disks.
    pub fn is_everything_kept(&self) -> bool {
        self.losses.is_empty() && self.power_losses.is_empty() && !self.is_storage_damaged
    }
}
