//! The choice of aggregators.
//!
//! The host list of `cb_config_list` says which ranks may aggregate, in order of preference: items from
//! left to right, and within an item alternating between nodes. `*:*` with two aggregators therefore means
//! two nodes. `cb_nodes`, or else the number of servers, gives the number of aggregators. They are ordered
//! so that neighbours are on different nodes. The file domains of neighbours are adjacent, so the work on
//! any part of the file is spread over the nodes.

use crate::ConfigList;
use std::collections::HashMap;

/// The criteria for the choice.
#[derive(Clone, Copy, Debug)]
pub struct AggregatorRequest<'a> {
    /// The number of aggregators. `None` means all that the list allows, or a number that matches the
    /// servers. There are fewer if the list does not allow that many.
    pub cb_nodes: Option<u32>,
    /// The hosts on which they may run.
    pub config: &'a ConfigList,
    /// The number of servers that store the file, if known. Without `cb_nodes`, the number of aggregators
    /// is the largest allowed number that divides the number of servers or is a multiple of it.
    pub servers: Option<u32>,
}

/// The ranks that aggregate, in the order of file domains. There is at least one, and no rank occurs twice.
/// All ranks compute the same result. `node[r]` is the node of rank r, and `names[n]` is the host name of
/// node n.
///
/// A list that allows no rank counts as `*:1`.
pub fn choose_aggregators(node: &[u32], names: &[String], wanted: &AggregatorRequest) -> Vec<u32> {
    let mut allowed = preferred(node, names, wanted.config);
    if allowed.is_empty() {
        allowed = preferred(node, names, &ConfigList::default());
    }
    let most = allowed.len();
    let number = match (wanted.cb_nodes, wanted.servers) {
        (Some(asked), _) => (asked as usize).clamp(1, most.max(1)),
        (None, Some(servers)) => largest_matching(servers as usize, most),
        (None, None) => most,
    };
    allowed.truncate(number);
    alternate_nodes(&allowed, node)
}

/// All ranks that the list allows, in order of preference.
fn preferred(node: &[u32], names: &[String], config: &ConfigList) -> Vec<u32> {
    // For each node: its item, the largest number of aggregators, and the number chosen so far.
    let mut nodes: HashMap<u32, (usize, usize, usize)> = HashMap::new();
    let mut allowed = Vec::new();
    for (rank, &n) in (0..).zip(node) {
        let (item, most, used) = nodes.entry(n).or_insert_with(|| {
            let name = names.get(n as usize).map_or("", String::as_str);
            let (item, most) = config.find(name).unwrap_or((0, 0));
            (item, most, 0)
        });
        if *used < *most {
            allowed.push((*item, *used, rank));
            *used += 1;
        }
    }
    allowed.sort_unstable();
    allowed.into_iter().map(|(_, _, rank)| rank).collect()
}

/// Reorders ranks to alternate between nodes: the first rank of each node, then the second of each, and so
/// on.
fn alternate_nodes(ranks: &[u32], node: &[u32]) -> Vec<u32> {
    let mut used: HashMap<u32, usize> = HashMap::new();
    let mut turns = Vec::with_capacity(ranks.len());
    for (place, &rank) in ranks.iter().enumerate() {
        let turn = used.entry(node[rank as usize]).or_default();
        turns.push((*turn, place, rank));
        *turn += 1;
    }
    turns.sort_unstable();
    turns.into_iter().map(|(_, _, rank)| rank).collect()
}

/// The largest number up to `most` that divides `servers` or is a multiple of it.
fn largest_matching(servers: usize, most: usize) -> usize {
    match most.checked_div(servers) {
        None => most,
        Some(0) => (1..=most).rev().find(|n| servers.is_multiple_of(*n)).unwrap_or(most),
        Some(times) => times * servers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks on nodes n0, n1, ..., `each` consecutive ranks per node.
    fn machine(nodes: u32, each: u32) -> (Vec<u32>, Vec<String>) {
        ((0..nodes * each).map(|r| r / each).collect(), (0..nodes).map(|n| format!("n{n}")).collect())
    }

    fn on(nodes: u32, each: u32, list: &str, cb_nodes: Option<u32>, servers: Option<u32>) -> Vec<u32> {
        let (node, names) = machine(nodes, each);
        let config = &ConfigList::parse(list).expect("a list");
        choose_aggregators(&node, &names, &AggregatorRequest { cb_nodes, config, servers })
    }

    #[test]
    fn one_per_node_by_default() {
        assert_eq!(on(3, 4, "*:1", None, None), [0, 4, 8]);
        assert_eq!(on(1, 4, "*:1", None, None), [0]);
    }

    #[test]
    fn nodes_take_turns() {
        assert_eq!(on(2, 3, "*:*", None, None), [0, 3, 1, 4, 2, 5]);
        assert_eq!(on(2, 3, "*:*", Some(2), None), [0, 3]);
        assert_eq!(on(2, 3, "*:2", Some(3), None), [0, 3, 1]);
        // Ranks assigned to the nodes cyclically give the same result.
        let (_, names) = machine(2, 2);
        let config = &ConfigList::parse("*:*").expect("a list");
        let wanted = AggregatorRequest { cb_nodes: Some(3), config, servers: None };
        assert_eq!(choose_aggregators(&[0, 1, 0, 1], &names, &wanted), [0, 1, 2]);
    }

    #[test]
    fn the_list_sets_the_preference() {
        assert_eq!(on(4, 3, "n1:2,n2,*:3,*:*", None, None), [3, 6, 0, 9, 4, 1, 10, 2, 11]);
        // Both ranks of n1 are chosen first, but are not neighbours.
        assert_eq!(on(4, 3, "n1:2,n2,*:3", Some(3), None), [3, 6, 4]);
        assert_eq!(on(4, 3, "n3,n0", None, None), [9, 0]);
        assert_eq!(on(4, 3, "n3:0,*:1", None, None), [0, 3, 6]);
    }

    #[test]
    fn more_than_there_are_means_all() {
        assert_eq!(on(2, 2, "*:1", Some(9), None), [0, 2]);
        assert_eq!(on(2, 2, "n1:7", None, None), [2, 3]);
    }

    #[test]
    fn a_list_without_allowed_nodes_is_the_default() {
        for nobody in ["*:0", "elsewhere:4", "n0:0,n1:0"] {
            assert_eq!(on(2, 2, nobody, None, None), [0, 2], "{nobody}");
        }
        assert_eq!(on(2, 2, "*:1", Some(0), None), [0]);
    }

    #[test]
    fn the_number_suits_the_servers_unless_asked_for() {
        let number = |most, cb_nodes, servers| on(most, 1, "*:1", cb_nodes, Some(servers)).len();
        // The numbers of processes of the block-tridiagonal runs, with 64 servers.
        for (most, suits) in [(9, 8), (13, 8), (25, 16), (36, 32), (64, 64), (144, 128)] {
            assert_eq!(number(most, None, 64), suits);
        }
        assert_eq!([number(5, None, 12), number(5, None, 7), number(5, None, 1)], [4, 1, 5]);
        assert_eq!(number(9, Some(9), 64), 9);
    }

    #[test]
    fn nodes_that_have_no_name_or_repeat_one_still_count() {
        let config = &ConfigList::default();
        let wanted = AggregatorRequest { cb_nodes: None, config, servers: None };
        assert_eq!(choose_aggregators(&[7, 7, u32::MAX], &[], &wanted), [0, 2]);
        let same = ["n0".to_owned(), "n0".to_owned()];
        assert_eq!(choose_aggregators(&[0, 0, 1, 1], &same, &wanted), [0, 2]);
    }
}
