//! A placement plan applied to a partition: the table of each file that is copied there. For files that a program
//! creates, the library in its ranks does the same.

use crate::error::Error;
use pario_client::PlacementMap;
use pario_placement::{PlacementPlan, ServerAssignments};
use pario_registry::Entry;
use pario_types::ServerId;
use std::path::Path;

/// A plan, and the server that is local storage for each of its processes.
#[derive(Debug)]
pub struct PlanPlacement {
    plan: PlacementPlan,
    homes: Vec<Option<ServerId>>,
}

impl PlanPlacement {
    /// Reads a plan.
    pub fn read_plan(path: &Path) -> Result<PlacementPlan, Error> {
        let text =
            pario_runtime::fs::read_to_string(path).map_err(Error::on_host("cannot read the plan", path))?;
        PlacementPlan::from_text(&text).map_err(|cause| Error::Plan(path.to_owned(), cause))
    }

    /// The plan on a partition. `places` names servers for processes or nodes; the others use the servers on the nodes
    /// that the profile knows.
    pub fn new(
        plan: PlacementPlan,
        places: &ServerAssignments,
        entry: &Entry,
    ) -> Result<PlanPlacement, Error> {
        let count = entry.members() as u16;
        if let Some(server) = places.servers().find(|server| server.0 >= count) {
            return Err(Error::NoServer { partition: entry.name().to_owned(), server: server.0, count });
        }
        let on_node = |node: &str| {
            (0..count).map(ServerId).filter(|server| entry.host_of(*server) == Some(node)).collect()
        };
        let homes = plan.homes(places, on_node);
        Ok(PlanPlacement { plan, homes })
    }

    /// The table of a file of this name, if the plan has one.
    pub fn table(&self, name: &str) -> Option<PlacementMap> {
        let file = self.plan.file_named(name)?;
        self.plan.table(file, |process| self.homes[process.0 as usize]).filter(|table| table.end() > 0)
    }
}
