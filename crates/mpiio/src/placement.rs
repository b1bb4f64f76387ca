//! Placement by plan: a new file is placed as the plan says, on the servers of the nodes where its ranks run now.
//!
//! Each rank has a *home server*, its local storage: the server that the user names for it, else one on its node,
//! assigned cyclically to the ranks there. The home servers of all ranks and the plan determine the placement table of
//! a new file. Each rank reads replicas at its home server. If the plan does not fit the run, it is ignored, and rank
//! 0 prints the reason.

use std::sync::OnceLock;

use pario_client as client;
use pario_layout::{PlacementMap, PlacementMapId};
use pario_placement::{PlacementPlan, PlannedProcess, ServerAssignments};
use pario_types::ServerId;

use crate::env::{env, warn};
use crate::error::Result;
use crate::file_group::FileGroup;
use crate::file_name::FileName;
use crate::storage::{self, Storage};

/// The home servers of the ranks of a file.
pub(crate) struct HomeServers {
    /// By rank in MPI_COMM_WORLD.
    of: Vec<Option<ServerId>>,
    /// The host name of each rank's node.
    nodes: Vec<String>,
}

/// The home server of this rank, if it has one.
pub(crate) fn home_server(group: &FileGroup, partition: &client::Partition) -> Option<ServerId> {
    let servers = partition.local_servers();
    let node = group.node_map().node_of[group.rank as usize];
    let turn = group.node_map().ranks_of(node).position(|rank| rank == group.rank).unwrap_or(0);
    let label = group.host.world_rank().to_string();
    let named = places().of(&label, &env().host_name());
    let named = named.filter(|server| partition.servers().any(|known| known == *server));
    named.or_else(|| servers.get(turn % servers.len().max(1)).copied())
}

impl HomeServers {
    /// Gathers the home servers of all ranks. Collective.
    pub fn gather(group: &FileGroup, name: &FileName) -> Result<HomeServers> {
        let [program] = group.root_bcast(|| Ok([storage::program_number()]))?;
        storage::join_program(program);
        // If the partition cannot be opened, opening the file reports the error later.
        let mine = storage::partition_of(name)
            .and_then(Result::ok)
            .and_then(|partition| home_server(group, &partition));
        let mine =
            mine.map_or(0, |server| u64::from(server.0) + 1) | u64::from(group.host.world_rank()) << 32;
        let all = group.allgather_array(&mine.to_ne_bytes())?;
        let size = group.host.world_size() as usize;
        let (mut of, mut nodes) = (vec![None; size], vec![String::new(); size]);
        for (word, rank) in all.into_iter().map(u64::from_ne_bytes).zip(0..) {
            let (number, home) = ((word >> 32) as usize, word as u32);
            if let Some(known) = of.get_mut(number) {
                *known = home.checked_sub(1).map(|server| ServerId(server as u16));
                nodes[number] = group.names[group.node_map().node_of[rank] as usize].clone();
            }
        }
        Ok(HomeServers { of, nodes })
    }

    /// The placement table of a new file, if the plan has one for it. Rank 0 calls this, and prints the reason if
    /// there is none.
    pub fn table(&self, name: &FileName) -> Option<PlacementMap> {
        let plan = plan()?;
        if let Some(Ok(partition)) = storage::partition_of(name)
            && let Some(server) = places().servers().find(|server| partition.servers().all(|s| s != *server))
        {
            let count = partition.servers().count();
            warn(&format!(
                "PARIO_PLACE names server {server}, and partition {} has {count}",
                partition.name()
            ));
        }
        let file = plan.file_named(&name.shown().to_string_lossy())?;
        let ranks = self.of.len();
        let planned = plan.ranks();
        if let Some(planned) = planned.filter(|planned| *planned as usize != ranks) {
            warn(&format!(
                "{}: the plan is for {planned} ranks, these are {ranks}, so it does not count; \
                 'pario plan --rescale-to ranks={ranks}' makes one that fits",
                name.shown().display()
            ));
            return None;
        }
        let rank_of = |label: &str| match planned {
            Some(_) => label.parse().ok(),
            None => self.nodes.iter().position(|node| node == label),
        };
        let home = |process: &PlannedProcess| rank_of(&process.label).and_then(|rank: usize| self.of[rank]);
        let homes: Vec<Option<ServerId>> = plan.processes.iter().map(home).collect();
        let table = plan.table(file, |process| homes[process.0 as usize]);
        if table.as_ref().is_none_or(|table| table.end() == 0) {
            warn(&format!(
                "{}: by the plan all of it is shared, or no rank has a server for its local storage, so the \
                 plan does not count; --place LABEL=SERVER names servers",
                name.shown().display()
            ));
        }
        table.filter(|table| table.end() > 0)
    }
}

/// Rank 0 has opened a placed file with this table and broadcasts the table to the ranks that do not know it. Else
/// every rank would load megabytes from the metadata server. Collective.
pub(crate) fn share_table(
    group: &FileGroup,
    name: &FileName,
    id: PlacementMapId,
    root_storage: Option<&Storage>,
) -> Result<()> {
    // If the partition cannot be opened, opening the file reports the error later.
    let partition = storage::partition_of(name).and_then(Result::ok);
    let is_new = partition.as_ref().is_some_and(|partition| !partition.knows_table(id));
    let mut missing = [u64::from(is_new)];
    group.agree_on(Ok(()), &[], &mut missing)?;
    if missing[0] > 0 {
        let table = root_storage.and_then(Storage::table);
        let mut bytes = table.map_or_else(|| vec![0; id.len as usize], PlacementMap::to_bytes);
        group.bcast_from_root(&mut bytes)?;
        if let Some(partition) = partition.filter(|_| is_new) {
            partition.tell_table(bytes);
        }
    }
    Ok(())
}

/// The plan of this run. Rank 0 reads it once.
fn plan() -> Option<&'static PlacementPlan> {
    static PLAN: OnceLock<Option<PlacementPlan>> = OnceLock::new();
    let read = || {
        let path = env().plan.as_ref()?;
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string());
        match text.and_then(|text| PlacementPlan::from_text(&text).map_err(|e| e.to_string())) {
            Ok(plan) => Some(plan),
            Err(why) => {
                warn(&format!("plan {} does not count: {why}", path.display()));
                None
            }
        }
    };
    PLAN.get_or_init(read).as_ref()
}

/// The home servers that the user names.
fn places() -> &'static ServerAssignments {
    static PLACES: OnceLock<ServerAssignments> = OnceLock::new();
    let read = || match env().place.parse() {
        Ok(places) => places,
        Err(why) => {
            warn(&format!("PARIO_PLACE does not count: {why}"));
            ServerAssignments::default()
        }
    };
    PLACES.get_or_init(read)
}
