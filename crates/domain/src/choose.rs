//! Which ranks aggregate.
//!
//! The list of hosts says who may and whom to prefer: items from left to right, and within an item the nodes
//! in turn, so that `*:*` with two aggregators means two nodes. `cb_nodes`, or else the number of servers,
//! says how many of them do. Those are then put in an order in which neighbours lie on different nodes: the
//! neighbours' domains touch, and so the work of any stretch of the file is spread over the nodes.

use crate::ConfigList;
use std::collections::HashMap;

/// What is asked of the choice.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// How many aggregators; `None` means all that the list allows, or as suits the servers. If the list does
    /// not allow as many there are fewer.
    pub cb_nodes: Option<u32>,
    /// Where they may run.
    pub config: &'a ConfigList,
    /// How many servers store the file, where that is known. Without `cb_nodes`, the number of aggregators is
    /// the largest allowed one that divides it or is a multiple of it.
    pub servers: Option<u32>,
}

/// Which ranks aggregate, in the order of aggregators: distinct ranks, at least one, and the same wherever
/// this is computed. `node[r]` is the number of rank r's node and `names[n]` the name of node n's host.
///
/// A list that allows nobody counts as `*:1`.
pub fn choose(node: &[u32], names: &[String], wanted: &Wanted) -> Vec<u32> {
    let mut allowed = preferred(node, names, wanted.config);
    if allowed.is_empty() {
        allowed = preferred(node, names, &ConfigList::default());
    }
    let most = allowed.len();
    let number = match (wanted.cb_nodes, wanted.servers) {
        (Some(asked), _) => (asked as usize).clamp(1, most.max(1)),
        (None, Some(servers)) => suiting(servers as usize, most),
        (None, None) => most,
    };
    allowed.truncate(number);
    in_turns(&allowed, node)
}

/// All ranks that the list allows, the preferred ones first.
fn preferred(node: &[u32], names: &[String], config: &ConfigList) -> Vec<u32> {
    // Of each node: its item, the most aggregators on it, and how many it has already.
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

/// The ranks node by node in turn: of each node the first, then of each that has more the second, and so on.
fn in_turns(ranks: &[u32], node: &[u32]) -> Vec<u32> {
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
fn suiting(servers: usize, most: usize) -> usize {
    match most.checked_div(servers) {
        None => most,
        Some(0) => (1..=most).rev().find(|n| servers.is_multiple_of(*n)).unwrap_or(most),
        Some(times) => times * servers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks dealt to `nodes` nodes n0, n1, ... in blocks of `each`.
    fn machine(nodes: u32, each: u32) -> (Vec<u32>, Vec<String>) {
        ((0..nodes * each).map(|r| r / each).collect(), (0..nodes).map(|n| format!("n{n}")).collect())
    }

    fn on(nodes: u32, each: u32, list: &str, cb_nodes: Option<u32>, servers: Option<u32>) -> Vec<u32> {
        let (node, names) = machine(nodes, each);
        let config = &ConfigList::parse(list).expect("a list");
        choose(&node, &names, &Wanted { cb_nodes, config, servers })
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
        // Ranks dealt to the nodes one by one give the same.
        let (_, names) = machine(2, 2);
        let config = &ConfigList::parse("*:*").expect("a list");
        let wanted = Wanted { cb_nodes: Some(3), config, servers: None };
        assert_eq!(choose(&[0, 1, 0, 1], &names, &wanted), [0, 1, 2]);
    }

    #[test]
    fn the_list_says_whom_to_prefer() {
        assert_eq!(on(4, 3, "n1:2,n2,*:3,*:*", None, None), [3, 6, 0, 9, 4, 1, 10, 2, 11]);
        // Both of n1 before anybody else, but not side by side.
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
    fn a_list_that_allows_nobody_is_the_default() {
        for nobody in ["*:0", "elsewhere:4", "n0:0,n1:0"] {
            assert_eq!(on(2, 2, nobody, None, None), [0, 2], "{nobody}");
        }
        assert_eq!(on(2, 2, "*:1", Some(0), None), [0]);
    }

    #[test]
    fn the_number_suits_the_servers_unless_asked_for() {
        let number = |most, cb_nodes, servers| on(most, 1, "*:1", cb_nodes, Some(servers)).len();
        // The block-tridiagonal runs with 64 servers.
        for (most, suits) in [(9, 8), (13, 8), (25, 16), (36, 32), (64, 64), (144, 128)] {
            assert_eq!(number(most, None, 64), suits);
        }
        assert_eq!([number(5, None, 12), number(5, None, 7), number(5, None, 1)], [4, 1, 5]);
        assert_eq!(number(9, Some(9), 64), 9);
    }

    #[test]
    fn nodes_that_have_no_name_or_repeat_one_still_count() {
        let config = &ConfigList::default();
        let wanted = Wanted { cb_nodes: None, config, servers: None };
        assert_eq!(choose(&[7, 7, u32::MAX], &[], &wanted), [0, 2]);
        let same = ["n0".to_owned(), "n0".to_owned()];
        assert_eq!(choose(&[0, 0, 1, 1], &same, &wanted), [0, 2]);
    }
}
