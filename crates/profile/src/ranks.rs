//! A plan for another number of ranks: rounds in which each rank has its turn get as many turns as there are ranks.
//!
//! A turn is the same for each rank: chunks that are the rank's own, and chunks that all ranks use. What belongs to
//! neighbours, or to some ranks only, is refused. The head of a file may belong to one rank, which keeps it, or to all.
//! Chunks are ordered by turns.

use crate::regular::{LONGEST_HEAD, rounds};
use crate::rescale::{Grown, MOST_CHUNKS, Ratio, RescaleError, Trend, end as end_of, in_order, resized};
use pario_placement::{
    Chunk, GroupId, Placement, PlacementPlan, PlannedFile, PlannedProcess, ProcessGroup, ProcessId,
};
use std::collections::HashMap;

/// The users of a chunk, in a form that is valid for any number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    /// The rank whose turn it is.
    Own { writes: bool },
    /// This rank, whatever the turn; in a head only.
    One(ProcessId, bool),
    /// All ranks, of which so many write.
    All(Writers),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writers {
    None,
    /// The rank whose turn it is.
    Own,
    /// This rank, whatever the turn.
    One(ProcessId),
    All,
}

/// The plan for `ranks` ranks and files of another size.
pub fn rescale(
    plan: &PlacementPlan,
    trend: Trend,
    size: Ratio,
    ranks: u32,
) -> Result<PlacementPlan, RescaleError> {
    let is_rank = |(number, process): (usize, &PlannedProcess)| process.label == number.to_string();
    if ranks == 0 || !plan.processes.iter().enumerate().all(is_rank) {
        return Err(RescaleError::NotRanks);
    }
    let process = |rank: u32| match plan.processes.get(rank as usize) {
        Some(known) => known.clone(),
        None => PlannedProcess { label: rank.to_string(), node: String::new() },
    };
    let mut groups = Groups { ranks, known: HashMap::new(), list: Vec::new() };
    let mut files = Vec::new();
    for file in &plan.files {
        files.push((file.name.clone(), deal(plan, file, trend, size, &mut groups)?));
    }
    Ok(PlacementPlan {
        from: plan.from.clone(),
        processes: (0..ranks).map(process).collect(),
        groups: groups.list,
        files: in_order(files),
    })
}

/// Groups for the new ranks, each once.
struct Groups {
    ranks: u32,
    known: HashMap<ProcessGroup, GroupId>,
    list: Vec<ProcessGroup>,
}

impl Groups {
    fn of(&mut self, users: Users, turn: u32) -> GroupId {
        let turn = ProcessId(turn);
        let all = || (0..self.ranks).map(ProcessId).collect::<Vec<_>>();
        let one = |process, writes: bool| ProcessGroup {
            users: vec![process],
            writers: writes.then_some(process).into_iter().collect(),
        };
        let group = match users {
            Users::Own { writes } => one(turn, writes),
            Users::One(process, writes) => one(process, writes),
            Users::All(Writers::None) => ProcessGroup { users: all(), writers: Vec::new() },
            Users::All(Writers::Own) => ProcessGroup { users: all(), writers: vec![turn] },
            Users::All(Writers::One(process)) => ProcessGroup { users: all(), writers: vec![process] },
            Users::All(Writers::All) => ProcessGroup { users: all(), writers: all() },
        };
        if let Some(&known) = self.known.get(&group) {
            return known;
        }
        let number = GroupId(self.list.len() as u32);
        self.list.push(group.clone());
        self.known.insert(group, number);
        number
    }
}

/// The chunks of a file for the new ranks.
fn deal(
    plan: &PlacementPlan,
    file: &PlannedFile,
    trend: Trend,
    size: Ratio,
    groups: &mut Groups,
) -> Result<Vec<Grown>, RescaleError> {
    let not_by_rank = || RescaleError::NotByRank(file.name.clone());
    let too_large = || RescaleError::TooLarge(file.name.clone());
    let old = plan.processes.len();
    let Turns { head, count, span } = turns(plan, file).ok_or_else(not_by_rank)?;
    let mut dealt = Vec::new();
    for chunk in &file.chunks[..head] {
        let users =
            in_head(plan, chunk).filter(|users| keeps(*users, groups.ranks)).ok_or_else(not_by_rank)?;
        dealt.push(placed(chunk, users, 0, old, groups, (0, chunk.order)));
    }
    if count == 0 {
        return Ok(dealt);
    }
    let turn = &file.chunks[head..head + count];
    let users: Vec<Users> =
        turn.iter().map(|chunk| in_turn(plan, chunk, 0)).collect::<Option<_>>().ok_or_else(not_by_rank)?;
    let begin = turn[0].offset;
    let end = end_of(file).and_then(|end| size.times(end)).ok_or_else(too_large)?;
    let body =
        end.checked_sub(begin).filter(|&body| body > 0).ok_or(RescaleError::TooSmall(file.name.clone()))?;
    let ranks = u64::from(groups.ranks);
    let new_span = match trend {
        Trend::MoreChunks => span,
        // As many turns of each rank as before, in what there is now; the last one is shorter if need be.
        Trend::LargerChunks => {
            let old_body = end_of(file).unwrap_or(0) - begin;
            let all = u128::from(span) * u128::from(body) * old as u128;
            let parts = u128::from(old_body) * u128::from(ranks);
            u64::try_from(all.div_ceil(parts.max(1))).map_err(|_| too_large())?
        }
    };
    if body.checked_div(new_span).is_none_or(|turns| turns.saturating_mul(count as u64) > MOST_CHUNKS) {
        return Err(too_large());
    }
    let grow = Ratio { to: new_span, of: span };
    for number in 0u64.. {
        let rank = (number % ranks) as u32;
        for (chunk, &users) in turn.iter().zip(&users) {
            let place = |at: u64| grow.times(at - begin).map(|within| begin + number * new_span + within);
            let (from, to) =
                (place(chunk.offset).ok_or_else(too_large)?, place(chunk.end()).ok_or_else(too_large)?);
            if from >= end {
                return Ok(dealt);
            }
            if from == to {
                return Err(RescaleError::TooSmall(file.name.clone()));
            }
            let chunk = resized(chunk, from, to.min(end) - from);
            dealt.push(placed(&chunk, users, rank, old, groups, (number + 1, chunk.order)));
        }
    }
    Ok(dealt)
}

/// The distribution of the chunks of a file.
struct Turns {
    /// Chunks before the first turn.
    head: usize,
    /// Chunks of a turn; 0 if all of the file is its head.
    count: usize,
    /// Bytes from the beginning of a turn to that of the next.
    span: u64,
}

fn turns(plan: &PlacementPlan, file: &PlannedFile) -> Option<Turns> {
    let chunks = &file.chunks;
    let ranks = plan.processes.len();
    if let Some(found) = rounds(chunks) {
        let count = found.period / ranks;
        let by_rank = found.period.is_multiple_of(ranks)
            && are_turns(plan, &chunks[found.head..found.head + found.period], count);
        let span = found.span / ranks as u64;
        return by_rank.then_some(Turns { head: found.head, count, span });
    }
    // A single round. Its start is unknown, but a turn belongs to one rank.
    let single = (0..=LONGEST_HEAD.min(chunks.len())).find_map(|head| {
        let body = &chunks[head..];
        let count = body.len() / ranks;
        let by_rank = count > 0 && body.len().is_multiple_of(ranks) && are_turns(plan, body, count);
        let turn = &body[..count];
        let own = turn.iter().any(|chunk| matches!(in_turn(plan, chunk, 0), Some(Users::Own { .. })));
        let span = || match body.get(count) {
            Some(next) => next.offset - body[0].offset,
            None => turn[count - 1].end() - body[0].offset,
        };
        (by_rank && own).then(|| Turns { head, count, span: span() })
    });
    let all_head = || chunks.len() <= 1 && chunks.iter().all(|chunk| in_head(plan, chunk).is_some());
    single.or_else(|| all_head().then_some(Turns { head: chunks.len(), count: 0, span: 0 }))
}

/// Whether these chunks are a round: the turn of rank 0, of rank 1 and so on, all alike. The last may be shorter.
fn are_turns(plan: &PlacementPlan, round: &[Chunk], count: usize) -> bool {
    let span = match round.get(count) {
        Some(next) => next.offset - round[0].offset,
        None => return count > 0 && round.iter().all(|chunk| in_turn(plan, chunk, 0).is_some()),
    };
    round.iter().enumerate().all(|(number, chunk)| {
        let (rank, model) = ((number / count) as u32, &round[number % count]);
        let users = in_turn(plan, chunk, rank);
        let is_last = number + 1 == round.len();
        let length = chunk.length == model.length || (is_last && chunk.length < model.length);
        users.is_some()
            && users == in_turn(plan, model, 0)
            && length
            && chunk.offset == model.offset + u64::from(rank) * span
    })
}

/// The users of a chunk of a turn.
fn in_turn(plan: &PlacementPlan, chunk: &Chunk, rank: u32) -> Option<Users> {
    let ProcessGroup { users, writers } = plan.group(chunk);
    let own = ProcessId(rank);
    match (&users[..], &writers[..]) {
        ([one], writers) if *one == own => Some(Users::Own { writes: !writers.is_empty() }),
        ([_], _) => None,
        // A chunk that belongs to the one who uses it most is not one that all have.
        _ if matches!(chunk.placement, Placement::Local(_)) => None,
        (users, writers) if users.len() == plan.processes.len() => match writers {
            [] => Some(Users::All(Writers::None)),
            [one] if *one == own => Some(Users::All(Writers::Own)),
            writers if writers.len() == users.len() => Some(Users::All(Writers::All)),
            _ => None,
        },
        _ => None,
    }
}

/// The users of a chunk of a head.
fn in_head(plan: &PlacementPlan, chunk: &Chunk) -> Option<Users> {
    let ProcessGroup { users, writers } = plan.group(chunk);
    match (&users[..], &writers[..]) {
        ([one], writers) => Some(Users::One(*one, !writers.is_empty())),
        (users, [one]) if users.len() == plan.processes.len() => Some(Users::All(Writers::One(*one))),
        _ => in_turn(plan, chunk, u32::MAX),
    }
}

/// Whether there are still the ranks that this speaks of.
fn keeps(users: Users, ranks: u32) -> bool {
    match users {
        Users::One(process, _) | Users::All(Writers::One(process)) => process.0 < ranks,
        _ => true,
    }
}

fn placed(
    chunk: &Chunk,
    users: Users,
    turn: u32,
    old: usize,
    groups: &mut Groups,
    time: (u64, u64),
) -> Grown {
    let group = groups.of(users, turn);
    let new = Ratio { to: u64::from(groups.ranks), of: old as u64 };
    let mut chunk = Chunk { group, ..*chunk };
    match users {
        Users::Own { .. } => chunk.placement = Placement::Local(ProcessId(turn)),
        Users::One(process, _) => chunk.placement = Placement::Local(process),
        // One rank is not several.
        Users::All(_) if groups.ranks == 1 => {
            chunk.placement = Placement::Local(ProcessId(0));
            chunk.moved = 0;
        }
        Users::All(writers) => {
            let more = |bytes| new.times(bytes).unwrap_or(i64::MAX as u64);
            chunk.read = more(chunk.read);
            if writers == Writers::All {
                chunk.written = more(chunk.written);
            }
            chunk.moved = match chunk.placement {
                Placement::Broadcast => {
                    chunk.written.saturating_mul(u64::from(groups.ranks) - 1).min(i64::MAX as u64)
                }
                Placement::Central => chunk.read.saturating_add(chunk.written).min(i64::MAX as u64),
                Placement::Local(_) | Placement::Duplicate => 0,
            };
        }
    }
    Grown { chunk, time }
}
