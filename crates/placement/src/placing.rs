//! A plan on servers: the server that is the local storage of each process, and the resulting table of a file.

use std::collections::HashMap;
use std::str::FromStr;

use pario_layout::PlacementMap;
use pario_types::ServerId;

use crate::{Error, PlacementPlan, PlannedFile, PlannedProcess, ProcessId};

/// The user's choice of the local storage of processes: `LABEL=SERVER,…`, where a label is that of a process or the name of
/// a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerAssignments(Vec<(String, ServerId)>);

impl FromStr for ServerAssignments {
    type Err = Error;

    fn from_str(text: &str) -> Result<ServerAssignments, Error> {
        let pair = |word: &str| {
            let (label, server) = word.trim().rsplit_once('=')?;
            let server = server.trim().parse().ok().map(ServerId)?;
            Some((label.trim().to_owned(), server)).filter(|(label, _)| !label.is_empty())
        };
        let words = text.split(',').filter(|word| !word.trim().is_empty());
        let pairs = words.map(|word| pair(word).ok_or_else(|| Error::Place(word.trim().to_owned())));
        pairs.collect::<Result<_, _>>().map(ServerAssignments)
    }
}

impl ServerAssignments {
    /// The server of a process, if the user named one for it, or else for its node.
    pub fn of(&self, label: &str, node: &str) -> Option<ServerId> {
        let named =
            |wanted: &str| self.0.iter().find(|(label, _)| label == wanted).map(|(_, server)| *server);
        named(label).or_else(|| named(node))
    }

    /// The servers in the list.
    pub fn servers(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.0.iter().map(|(_, server)| *server)
    }
}

impl PlacementPlan {
    /// Returns the plan's entry of a file: the one of that name, or else the only one with the same last path component, or
    /// else `*`, which is any file.
    pub fn file_named(&self, name: &str) -> Option<&PlannedFile> {
        let last = |name: &str| name.rsplit(['/', ':']).next().unwrap_or_default().to_owned();
        let exact = self.files.iter().find(|file| file.name == name);
        let alike = || {
            let wanted = last(name);
            let mut alike = self.files.iter().filter(|file| last(&file.name) == wanted);
            alike.next().filter(|_| alike.next().is_none())
        };
        exact.or_else(alike).or_else(|| self.files.iter().find(|file| file.name == "*"))
    }

    /// The number of ranks that it is for; `None` if its processes are not the ranks from 0 on.
    pub fn ranks(&self) -> Option<u32> {
        let mut ranks: Vec<u32> =
            self.processes.iter().map(|p| p.label.parse().ok()).collect::<Option<_>>()?;
        ranks.sort_unstable();
        ranks.iter().zip(0..).all(|(rank, number)| *rank == number).then_some(ranks.len() as u32)
    }

    /// Returns for each process a server on its node, in turn if there are several; `on` lists the servers of a node. The
    /// user's choice takes precedence.
    pub fn homes<'a>(
        &'a self,
        places: &ServerAssignments,
        on: impl Fn(&str) -> Vec<ServerId>,
    ) -> Vec<Option<ServerId>> {
        // The servers of each node, and the number of its processes so far.
        let mut nodes: HashMap<&str, (Vec<ServerId>, usize)> = HashMap::new();
        let home = |process: &'a PlannedProcess| {
            let (servers, turn) = nodes.entry(&process.node).or_insert_with(|| (on(&process.node), 0));
            *turn += 1;
            let near = servers.get((*turn - 1) % servers.len().max(1)).copied();
            places.of(&process.label, &process.node).or(near)
        };
        self.processes.iter().map(home).collect()
    }

    /// Returns the table of a file, if each process has this server for its local storage, and the order in which its
    /// chunks are first used; chunks of processes without a server are shared. `None` if so many different processes use
    /// the file together that no table can describe it.
    pub fn table(
        &self,
        file: &PlannedFile,
        home: impl Fn(ProcessId) -> Option<ServerId>,
    ) -> Option<PlacementMap> {
        let kept = |chunk: &crate::Chunk| {
            let servers = self.holders(chunk).iter().filter_map(|process| home(*process)).collect();
            (chunk.offset..chunk.end(), servers)
        };
        let table = PlacementMap::new(file.chunks.iter().map(kept))?;
        let mut by_use: Vec<&crate::Chunk> = file.chunks.iter().collect();
        by_use.sort_unstable_by_key(|chunk| chunk.order);
        let ranges: Vec<_> = by_use.into_iter().map(|chunk| chunk.offset..chunk.end()).collect();
        table.in_order(&ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, GroupId, Placement, ProcessGroup};

    fn plan(names: &[&str]) -> PlacementPlan {
        let process = |(label, node): (&str, &str)| PlannedProcess { label: label.into(), node: node.into() };
        let processes = [("0", "a"), ("1", "a"), ("2", "b")].map(process).into();
        let group = |users: &[u32], writers: &[u32]| {
            let [users, writers] = [users, writers].map(|list| list.iter().copied().map(ProcessId).collect());
            ProcessGroup { users, writers }
        };
        let groups =
            vec![group(&[1], &[1]), group(&[0, 2], &[]), group(&[0, 1], &[0]), group(&[0, 1], &[0, 1])];
        let chunk = |(i, placement): (u64, Placement)| Chunk {
            offset: i * 10,
            length: 10,
            placement,
            group: GroupId(i as u32),
            order: i,
            read: 0,
            written: 0,
            moved: 0,
        };
        let placements =
            [Placement::Local(ProcessId(1)), Placement::Duplicate, Placement::Broadcast, Placement::Central];
        let chunks: Vec<Chunk> = (0..).zip(placements).map(chunk).collect();
        let files = names.iter().map(|name| PlannedFile { name: (*name).to_owned(), chunks: chunks.clone() });
        PlacementPlan { from: String::new(), processes, groups, files: files.collect() }
    }

    #[test]
    fn chunks_go_to_the_servers_of_their_processes() {
        let plan = plan(&["f"]);
        let of = |homes: [Option<u16>; 3]| {
            let table =
                plan.table(&plan.files[0], |process| homes[process.0 as usize].map(ServerId)).unwrap();
            let kept = |kept: pario_layout::PlacedExtent<'_>| {
                (kept.range.start, kept.range.end, kept.servers.iter().map(|s| s.0).collect::<Vec<_>>())
            };
            table.extents().map(kept).collect::<Vec<_>>()
        };
        assert_eq!(
            of([Some(4), Some(5), Some(6)]),
            [(0, 10, vec![5]), (10, 20, vec![4, 6]), (20, 30, vec![4, 5])]
        );
        assert_eq!(of([Some(1), Some(1), Some(1)]), [(0, 30, vec![1])]);
        assert_eq!(of([None, None, Some(2)]), [(0, 10, vec![]), (10, 20, vec![2])]);
        assert_eq!(of([None, None, None]), []);
    }

    #[test]
    fn chunks_are_in_the_order_of_their_first_use() {
        let mut plan = plan(&["f"]);
        let order = |plan: &PlacementPlan, home: fn(ProcessId) -> Option<ServerId>| {
            let table = plan.table(&plan.files[0], home).unwrap();
            table.order().iter().map(|range| (range.start, range.end)).collect::<Vec<_>>()
        };
        let together = |_| Some(ServerId(0));
        // The order of the file, which needs no table.
        assert_eq!(order(&plan, together), []);
        let orders = [2, 3, 0, 1];
        plan.files[0].chunks.iter_mut().zip(orders).for_each(|(chunk, order)| chunk.order = order);
        assert_eq!(order(&plan, together), [(20, 40), (0, 20)]);
        // The order between servers that have nothing in common does not matter.
        plan.files[0].chunks.truncate(2);
        plan.files[0].chunks[0].order = 4;
        assert_eq!(order(&plan, together), [(10, 20), (0, 10)]);
        assert_eq!(order(&plan, |process| Some(ServerId(process.0 as u16))), []);
    }

    #[test]
    fn homes_are_on_the_node_or_where_the_user_says() {
        let plan = plan(&["f"]);
        let on = |node: &str| if node == "a" { vec![ServerId(7), ServerId(8)] } else { Vec::new() };
        let homes =
            |places: &str| plan.homes(&places.parse().unwrap(), on).into_iter().map(|s| s.map(|s| s.0));
        assert!(homes("").eq([Some(7), Some(8), None]));
        assert!(homes("1=3, b=0").eq([Some(7), Some(3), Some(0)]));
        for wrong in ["1", "=3", "a=b", "1=70000", "1=-1"] {
            assert_eq!(wrong.parse::<ServerAssignments>(), Err(Error::Place(wrong.to_owned())));
        }
        assert_eq!((plan.ranks(), PlacementPlan::default().ranks()), (Some(3), Some(0)));
    }

    #[test]
    fn files_are_known_by_name_or_alone_by_its_end() {
        let plan = plan(&["/run/a", "pario:run/out/b", "x/c", "y/c"]);
        let found = |name| plan.file_named(name).map(|file| &file.name[..]);
        assert_eq!(found("/run/a"), Some("/run/a"));
        assert_eq!(found("pario:other/a"), Some("/run/a"));
        assert_eq!(found("pario:b"), Some("pario:run/out/b"));
        assert_eq!((found("x/c"), found("z/c"), found("d")), (Some("x/c"), None, None));
        let plan = self::plan(&["a", "*"]);
        assert_eq!(plan.file_named("x/d").map(|file| &file.name[..]), Some("*"));
    }
}
