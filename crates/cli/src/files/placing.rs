//! Laying files out by a plan: the options for that, and the table that a plan makes of a file that is copied into a
//! partition. Files that a program makes the library in its ranks lays out.

use super::error::Error;
use clap::Args;
use pario_layout::PlacementMap;
use pario_placement::{Places, Plan};
use pario_registry::Entry;
use pario_types::ServerId;
use std::path::{Path, PathBuf};

/// Which plan, and where processes have their local storage.
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
    text.parse::<Places>().map(|_| text.to_owned())
}

/// A plan on a partition.
pub struct Placing {
    plan: Plan,
    homes: Vec<Option<ServerId>>,
}

impl Options {
    /// What the plan says, if there is one.
    pub fn read(&self) -> Result<Option<Plan>, Error> {
        let Some(path) = &self.plan else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(Error::here("cannot read the plan", path))?;
        Plan::from_text(&text).map(Some).map_err(|why| Error::Plan(path.clone(), why))
    }

    /// The plan on a partition, as the nodes are that the profile knows.
    pub fn on(&self, entry: &Entry) -> Result<Option<Placing>, Error> {
        let Some(plan) = self.read()? else { return Ok(None) };
        let places: Places = self.place.as_deref().unwrap_or_default().parse().unwrap_or_default();
        let count = entry.description.structure().servers.len() as u16;
        if let Some(server) = places.servers().find(|server| server.0 >= count) {
            return Err(Error::NoServer { partition: entry.name().to_owned(), server: server.0, count });
        }
        let on = |node: &str| {
            (0..count).map(ServerId).filter(|server| entry.host_of(*server) == Some(node)).collect()
        };
        let homes = plan.homes(&places, on);
        Ok(Some(Placing { plan, homes }))
    }

    /// The plan's absolute path, for ranks that may be in another directory.
    pub fn absolute(&self) -> Option<PathBuf> {
        self.plan
            .as_deref()
            .map(|path| std::path::absolute(path).unwrap_or_else(|_| Path::new(path).to_owned()))
    }
}

impl Placing {
    /// The table of a file of this name, if the plan knows it.
    pub fn table(&self, name: &str) -> Option<PlacementMap> {
        let file = self.plan.file_named(name)?;
        self.plan.table(file, |process| self.homes[process.0 as usize]).filter(|table| table.end() > 0)
    }
}
