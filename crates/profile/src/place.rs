//! The placement of each chunk, by its users.
//!
//! | users | of whom write | placement |
//! |---|---|---|
//! | one | any | local |
//! | several | none | duplicate |
//! | several | one | broadcast |
//! | several | several | central |
//!
//! With a rule of dominance, a chunk of several users goes to the one whose share of the accesses, and of their bytes,
//! is large enough. In a broadcast the one who writes keeps the chunk too, and sends what it writes to all others. If
//! copies have to be cheaper than none, a chunk that the others do not read more than they would be sent, nor in more
//! accesses, is kept by the one who writes it, alone: as many bytes move, but when they are read, and by the links of
//! all readers at once.

use crate::profile::Profile;
use crate::sweep::{ByteRun, Fetched, Swept, sweep};
use pario_placement::{Chunk, GroupId, Placement, PlacementPlan, PlannedFile, ProcessGroup};

/// The options of placement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rule {
    /// The share, above one half, from which on a chunk of several users belongs to one of them.
    pub dominance: Option<f64>,
    /// When a chunk that one of several users writes has copies.
    pub broadcast: Broadcast,
}

/// When a chunk that one of several users writes has copies; else it stays with the one who writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Broadcast {
    /// Always: the rule of the table.
    #[default]
    Always,
    /// If updating them moves fewer bytes, or takes fewer accesses, than reading it where it was written.
    IfCheaper,
}

/// Makes a plan; `from` says to people what it was made from.
pub fn make(profile: &Profile, rule: Rule, from: &str) -> PlacementPlan {
    let weigh = rule.dominance.is_some() || rule.broadcast == Broadcast::IfCheaper;
    let Swept { groups, files } = sweep(profile, weigh);
    let mut by_time: Vec<(u64, u32, u32)> = Vec::new();
    for (file, runs) in files.iter().enumerate() {
        // A file has at most twice as many chunks as a profile has accesses, which are less than 2^31.
        by_time.extend(runs.iter().zip(0..).map(|(run, chunk)| (run.first, file as u32, chunk)));
    }
    by_time.sort_unstable();
    let chunk = |run: &ByteRun| {
        let group = &groups[run.group as usize];
        let placement = place(group, run, rule);
        Chunk {
            offset: run.offset,
            length: run.length,
            placement,
            group: GroupId(run.group),
            order: 0,
            read: run.read,
            written: run.written,
            moved: moved(group, run, placement),
        }
    };
    let mut files: Vec<PlannedFile> = files
        .iter()
        .zip(&profile.files)
        .map(|(runs, name)| PlannedFile { name: name.to_string(), chunks: runs.iter().map(chunk).collect() })
        .collect();
    for ((_, file, chunk), order) in by_time.into_iter().zip(0..) {
        files[file as usize].chunks[chunk as usize].order = order;
    }
    PlacementPlan { from: from.to_owned(), processes: profile.processes.clone(), groups, files }
}

fn place(group: &ProcessGroup, run: &ByteRun, rule: Rule) -> Placement {
    let dominates = |share| rule.dominance.is_some_and(|least| share >= least);
    let others = group.users.len() as u128 - 1;
    let is_dear = || {
        let fetched = run.weighed.and_then(|weighed| weighed.fetched);
        let is_less = |f: Fetched| f.bytes <= sent(group, run) && f.reads <= f.writes.saturating_mul(others);
        rule.broadcast == Broadcast::IfCheaper && fetched.is_some_and(is_less)
    };
    match (&group.users[..], run.weighed, &group.writers[..]) {
        ([only], _, _) => Placement::Local(*only),
        (_, Some(weighed), _) if dominates(weighed.share) => Placement::Local(weighed.heaviest),
        (_, _, []) => Placement::Duplicate,
        (_, _, [writer]) if is_dear() => Placement::Local(*writer),
        (_, _, [_]) => Placement::Broadcast,
        _ => Placement::Central,
    }
}

/// Bytes that the one who writes a run sends if each user has a copy.
fn sent(group: &ProcessGroup, run: &ByteRun) -> u64 {
    run.written.saturating_mul(group.users.len() as u64 - 1)
}

/// Bytes that go between nodes when the run is placed so.
fn moved(group: &ProcessGroup, run: &ByteRun, placement: Placement) -> u64 {
    let moved = match (placement, run.weighed) {
        (Placement::Local(_), None) | (Placement::Duplicate, _) => 0,
        (Placement::Local(holder), Some(weighed)) if holder == weighed.heaviest => weighed.others,
        (Placement::Local(_), Some(weighed)) => weighed.fetched.map_or(0, |fetched| fetched.bytes),
        (Placement::Broadcast, _) => sent(group, run),
        (Placement::Central, _) => run.read.saturating_add(run.written),
    };
    moved.min(i64::MAX as u64)
}
