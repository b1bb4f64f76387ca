//! Where each chunk goes, by who uses it.
//!
//! | users | of whom write | placement |
//! |---|---|---|
//! | one | any | local |
//! | several | none | duplicate |
//! | several | one | broadcast |
//! | several | several | central |
//!
//! With a rule of dominance, a chunk of several users goes to the one whose share of the accesses, and of their bytes,
//! is large enough. In a broadcast the one who writes keeps the chunk too, and sends what it writes to all others.

use crate::profile::Profile;
use crate::sweep::{Run, Swept, sweep};
use pario_plan::{Chunk, File, Group, GroupId, Placement, Plan};

/// How chunks are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rule {
    /// The share, above one half, from which on a chunk of several users belongs to one of them.
    pub dominance: Option<f64>,
}

/// Makes a plan; `from` says to people what it was made from.
pub fn make(profile: &Profile, rule: Rule, from: &str) -> Plan {
    let Swept { groups, files } = sweep(profile, rule.dominance.is_some());
    let mut by_time: Vec<(u64, u32, u32)> = Vec::new();
    for (file, runs) in files.iter().enumerate() {
        // A file has at most twice as many chunks as a profile has accesses, which are less than 2^31.
        by_time.extend(runs.iter().zip(0..).map(|(run, chunk)| (run.first, file as u32, chunk)));
    }
    by_time.sort_unstable();
    let chunk = |run: &Run| {
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
    let mut files: Vec<File> = files
        .iter()
        .zip(&profile.files)
        .map(|(runs, name)| File { name: name.to_string(), chunks: runs.iter().map(chunk).collect() })
        .collect();
    for ((_, file, chunk), order) in by_time.into_iter().zip(0..) {
        files[file as usize].chunks[chunk as usize].order = order;
    }
    Plan { from: from.to_owned(), processes: profile.processes.clone(), groups, files }
}

fn place(group: &Group, run: &Run, rule: Rule) -> Placement {
    let dominates = |share| rule.dominance.is_some_and(|least| share >= least);
    match (&group.users[..], run.heaviest, group.writers.len()) {
        ([only], _, _) => Placement::Local(*only),
        (_, Some(heaviest), _) if dominates(heaviest.share) => Placement::Local(heaviest.process),
        (_, _, 0) => Placement::Duplicate,
        (_, _, 1) => Placement::Broadcast,
        _ => Placement::Central,
    }
}

/// Bytes that go between nodes when the run is placed so.
fn moved(group: &Group, run: &Run, placement: Placement) -> u64 {
    let moved = match placement {
        Placement::Local(_) => run.heaviest.map_or(0, |heaviest| heaviest.others),
        Placement::Duplicate => 0,
        Placement::Broadcast => run.written.saturating_mul(group.users.len() as u64 - 1),
        Placement::Central => run.read.saturating_add(run.written),
    };
    moved.min(i64::MAX as u64)
}
