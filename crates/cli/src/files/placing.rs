//! The options that place files by a plan. `pario cp` and `pario run` have them.

use super::error::Error;
use clap::Args;
use pario_copy::PlanPlacement;
use pario_placement::{PlacementPlan, ServerAssignments};
use pario_registry::Entry;
use std::path::PathBuf;

/// The plan, and the servers that are local storage of processes.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Place new files of the partition as this plan of 'pario plan' has it
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Servers that are the local storage of ranks or nodes, such as 0=2,node7=3 [default: those on their nodes]
    #[arg(long, value_name = "LABEL=SERVER,...", requires = "plan", value_parser = places)]
    pub place: Option<String>,
}

fn places(text: &str) -> Result<String, pario_placement::Error> {
    text.parse::<ServerAssignments>().map(|_| text.to_owned())
}

impl Options {
    /// The plan, if one is named.
    pub fn read(&self) -> Result<Option<PlacementPlan>, Error> {
        Ok(self.plan.as_deref().map(PlanPlacement::read_plan).transpose()?)
    }

    /// The plan applied to a partition.
    pub fn on(&self, entry: &Entry) -> Result<Option<PlanPlacement>, Error> {
        let Some(plan) = self.read()? else { return Ok(None) };
        let places: ServerAssignments = self.place.as_deref().unwrap_or_default().parse().unwrap_or_default();
        Ok(Some(PlanPlacement::new(plan, &places, entry)?))
    }

    /// The plan's absolute path, for ranks that may run in another directory.
    pub fn absolute(&self) -> Option<PathBuf> {
        let path = self.plan.as_deref()?;
        Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }
}
