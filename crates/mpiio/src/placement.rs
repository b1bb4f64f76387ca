//! Running by plan: a new file is placed as the plan has it, on the servers of the nodes where its ranks are now.
//!
//! Every rank knows its *home*, the server that is its local storage: the one that the user names for it, else one on its
//! node, in turn with the other ranks there. The homes of all ranks and the plan make the table of a new file; later
//! each rank reads copies at its home. A plan that does not fit the run is advice that is not taken, and rank 0 says why.

use std::sync::OnceLock;

use pario_client as client;
use pario_layout::{PlacementMap, PlacementMapId};
use pario_placement::{Places, Plan, Process};
use pario_types::ServerId;

use crate::env::{env, warn};
use crate::error::Result;
use crate::file_group::FileGroup;
use crate::file_name::FileName;
use crate::storage::{self, Storage};

/// Where the ranks of a file have their local storage.
pub(crate) struct HomeServers {
    /// By their number among all ranks of the program.
    of: Vec<Option<ServerId>>,
    /// On which node.
    nodes: Vec<String>,
}

/// This rank's home, if it has one.
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
    /// Everybody tells his. Collective.
    pub fn gather(group: &FileGroup, name: &FileName) -> Result<HomeServers> {
        let [program] = group.root_bcast(|| Ok([storage::program_number()]))?;
        storage::join_program(program);
        // Who cannot tell says so when he opens the file.
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

    /// The table of a new file, if the plan has one for it; rank 0 asks, and says why there is none.
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
        let home = |process: &Process| rank_of(&process.label).and_then(|rank: usize| self.of[rank]);
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

/// What a file's table is known by, if it has one, as ranks tell each other.
pub(crate) fn table_words(storage: &Storage) -> [u64; 3] {
    let id = storage.table().map(PlacementMap::id);
    id.map_or([0; 3], |id| [(id.hash >> 64) as u64, id.hash as u64, u64::from(id.len)])
}

/// Has rank 0, which has opened a placed file with this table, tell its table to those who do not know it: from the metadata server
/// everybody would get megabytes. Collective.
pub(crate) fn share_table(
    group: &FileGroup,
    name: &FileName,
    [high, low, len]: [u64; 3],
    first: Option<&Storage>,
) -> Result<()> {
    let id = PlacementMapId { hash: u128::from(high) << 64 | u128::from(low), len: len as u32 };
    // Who has no partition says so when he opens the file.
    let partition = storage::partition_of(name).and_then(Result::ok);
    let is_new = partition.as_ref().is_some_and(|partition| !partition.knows_table(id));
    let mut missing = [u64::from(is_new)];
    group.agree_on(Ok(()), &[], &mut missing)?;
    if missing[0] > 0 {
        let table = first.and_then(Storage::table);
        let mut bytes = table.map_or_else(|| vec![0; len as usize], PlacementMap::to_bytes);
        group.bcast_from_root(&mut bytes)?;
        if let Some(partition) = partition.filter(|_| is_new) {
            partition.tell_table(bytes);
        }
    }
    Ok(())
}

/// The plan of this run; read once, by rank 0.
fn plan() -> Option<&'static Plan> {
    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    let read = || {
        let path = env().plan.as_ref()?;
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string());
        match text.and_then(|text| Plan::from_text(&text).map_err(|e| e.to_string())) {
            Ok(plan) => Some(plan),
            Err(why) => {
                warn(&format!("plan {} does not count: {why}", path.display()));
                None
            }
        }
    };
    PLAN.get_or_init(read).as_ref()
}

/// What the user says about homes.
fn places() -> &'static Places {
    static PLACES: OnceLock<Places> = OnceLock::new();
    let read = || match env().place.parse() {
        Ok(places) => places,
        Err(why) => {
            warn(&format!("PARIO_PLACE does not count: {why}"));
            Places::default()
        }
    };
    PLACES.get_or_init(read)
}
