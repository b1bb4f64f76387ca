//! A plan for another size, where the profile shows how the program grows.
//!
//! Programs grow in one of two ways: they use *more chunks* of the same size in the same pattern, or *larger chunks* in
//! the same number. Two profiles of different size show which: what one of them becomes by a trend is the other. A
//! single profile shows it if it is regular: where processes come back round by round there will be more rounds; where
//! each has one part there will be larger parts. Anything else is refused.
//!
//! With more chunks the rounds of a file go on to its new end, after its head as it is. With larger chunks every chunk
//! grows by the same factor. Another number of ranks needs rounds in which each rank has its turn.

use crate::ranks;
use crate::regular::{Rounds, rounds};
use pario_placement::{Chunk, Placement, PlacementPlan, PlannedFile};
use std::collections::BTreeMap;

pub use crate::rescale_target::Rescaling;

/// How a program grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// More chunks of the same size in the same pattern.
    MoreChunks,
    /// The same number of chunks, each larger.
    LargerChunks,
}

/// A factor: a number of bytes to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// The new number.
    pub to: u64,
    /// The old number, not 0.
    pub of: u64,
}

/// What a plan is to be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RescaleTarget {
    /// How much larger files are.
    pub size: Ratio,
    /// How many ranks there are, if not as many as before.
    pub ranks: Option<u32>,
}

/// Why a plan is not rescaled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RescaleError {
    /// A file shows neither rounds nor equal parts.
    #[error(
        "the chunks of {0} neither come again round by round nor are equal parts of the processes, so that they do not show how \
         they grow; {SAMPLE}, or profile at the size that is wanted"
    )]
    Irregular(String),
    /// One file shows one trend, another file the other.
    #[error("{0} grows by one trend and {1} by the other; profile at the size that is wanted")]
    Disagree(String, String),
    /// No file shows a trend.
    #[error("no file has two chunks, so that nothing shows how they grow; {SAMPLE}")]
    Nothing,
    /// Neither trend makes the second profile's chunks of this file from the first one's.
    #[error(
        "the chunks of {0} in one profile become those in the other neither by more nor by larger chunks; profile at the size \
         that is wanted"
    )]
    NoTrend(String),
    /// Both profiles are of the same size.
    #[error("the two profiles have the same chunks, so that they do not show how they grow")]
    SameSize,
    /// This file would end within its head, or a chunk would vanish.
    #[error("so little would be left of {0} that its chunks vanish")]
    TooSmall(String),
    /// So large that its plan cannot be held.
    #[error("{0} would have more than {MOST_CHUNKS} chunks, or end beyond the largest file")]
    TooLarge(String),
    /// A process does not use its chunks of a file round by round.
    #[error(
        "process {process} does not use its chunks of {file} round by round, so that the order of further ones is not known; \
         profile at the size that is wanted"
    )]
    OutOfOrder {
        /// The file.
        file: String,
        /// The process.
        process: String,
    },
    /// The processes are not called by ranks.
    #[error("the processes of the profile are not called 0, 1, 2 …, so that other ranks cannot be named")]
    NotRanks,
    /// The chunks of this file are not dealt out rank by rank.
    #[error(
        "the chunks of {0} are not dealt out to the ranks in their order, alike for each, so that those of other ranks are not \
         known; profile with the number of ranks that is wanted"
    )]
    NotByRank(String),
}

/// The advice where one profile is not enough.
const SAMPLE: &str = "profile a run of another size and name it with --sample";

impl Ratio {
    /// Nothing changes.
    pub const ONE: Ratio = Ratio { to: 1, of: 1 };

    /// So much more of that many bytes.
    pub(crate) fn times(self, bytes: u64) -> Option<u64> {
        let product = u128::from(bytes) * u128::from(self.to) / u128::from(self.of);
        u64::try_from(product).ok().filter(|&bytes| bytes <= i64::MAX as u64)
    }
}

impl Trend {
    /// As people write it.
    pub fn word(self) -> &'static str {
        match self {
            Trend::MoreChunks => "more-chunks",
            Trend::LargerChunks => "larger-chunks",
        }
    }
}

/// The trend that a single profile shows.
pub fn shown(plan: &PlacementPlan) -> Result<Trend, RescaleError> {
    let mut found: Option<(Trend, &PlannedFile)> = None;
    for file in &plan.files {
        let trend = match rounds(&file.chunks) {
            Some(_) => Trend::MoreChunks,
            // Nothing can be said of it.
            None if file.chunks.len() < 2 => continue,
            None if has_equal_parts(file) => Trend::LargerChunks,
            None => return Err(RescaleError::Irregular(file.name.clone())),
        };
        match found {
            Some((other, first)) if other != trend => {
                return Err(RescaleError::Disagree(first.name.clone(), file.name.clone()));
            }
            _ => found = Some((trend, file)),
        }
    }
    found.map(|(trend, _)| trend).ok_or(RescaleError::Nothing)
}

/// The trend that leads from the smaller of two profiles of a program to the larger.
pub fn between(one: &PlacementPlan, other: &PlacementPlan) -> Result<Trend, RescaleError> {
    let size = |plan: &PlacementPlan| plan.files.iter().filter_map(end).map(u128::from).sum::<u128>();
    let (small, large) = if size(one) <= size(other) { (one, other) } else { (other, one) };
    let mut found = None;
    for file in &small.files {
        let same_name = |other: &&PlannedFile| other.name == file.name;
        let Some(grown) = large.files.iter().find(same_name) else {
            return Err(RescaleError::NoTrend(file.name.clone()));
        };
        if shape(small, file) == shape(large, grown) {
            continue;
        }
        let (Some(of), Some(to)) = (end(file), end(grown)) else { continue };
        let makes = |trend| {
            let chunks = grow(small, file, trend, Ratio { to, of }).ok()?;
            let chunks = chunks.into_iter().map(|grown| grown.chunk).collect();
            let made = PlannedFile { name: file.name.clone(), chunks };
            (shape(small, &made) == shape(large, grown)).then_some(trend)
        };
        let trend = [Trend::MoreChunks, Trend::LargerChunks].into_iter().find_map(makes);
        match (trend, found) {
            (None, _) => return Err(RescaleError::NoTrend(file.name.clone())),
            (Some(trend), Some((other, first))) if trend != other => {
                return Err(RescaleError::Disagree(first, file.name.clone()));
            }
            (Some(trend), _) => found = Some((trend, file.name.clone())),
        }
    }
    found.map(|(trend, _)| trend).ok_or(RescaleError::SameSize)
}

/// The plan for another size or number of ranks.
pub fn rescale(
    plan: &PlacementPlan,
    trend: Trend,
    target: RescaleTarget,
) -> Result<PlacementPlan, RescaleError> {
    if let Some(ranks) = target.ranks {
        return ranks::rescale(plan, trend, target.size, ranks);
    }
    let mut files = Vec::new();
    for file in &plan.files {
        files.push((file.name.clone(), grow(plan, file, trend, target.size)?));
    }
    Ok(PlacementPlan { files: in_order(files), ..plan.clone() })
}

/// A chunk of a rescaled file, and by what it is ordered: its round (0 for the head) and its time in there.
pub(crate) struct Grown {
    pub chunk: Chunk,
    pub time: (u64, u64),
}

/// Chunks of a rescaled plan, at most.
pub(crate) const MOST_CHUNKS: u64 = 1 << 26;

fn grow(
    plan: &PlacementPlan,
    file: &PlannedFile,
    trend: Trend,
    size: Ratio,
) -> Result<Vec<Grown>, RescaleError> {
    match (trend, rounds(&file.chunks)) {
        (Trend::LargerChunks, _) => larger(file, size),
        (Trend::MoreChunks, Some(rounds)) => more(plan, file, rounds, size),
        // What has one chunk, or none, does not have more of them.
        (Trend::MoreChunks, None) if file.chunks.len() < 2 => {
            Ok(file.chunks.iter().map(|&chunk| Grown { chunk, time: (0, chunk.order) }).collect())
        }
        (Trend::MoreChunks, None) => Err(RescaleError::Irregular(file.name.clone())),
    }
}

fn larger(file: &PlannedFile, size: Ratio) -> Result<Vec<Grown>, RescaleError> {
    let grow = |chunk: &Chunk| {
        let too_large = || RescaleError::TooLarge(file.name.clone());
        let offset = size.times(chunk.offset).ok_or_else(too_large)?;
        let end = size.times(chunk.end()).ok_or_else(too_large)?;
        if end == offset {
            return Err(RescaleError::TooSmall(file.name.clone()));
        }
        let grown = resized(chunk, offset, end - offset);
        Ok(Grown { chunk: grown, time: (0, chunk.order) })
    };
    file.chunks.iter().map(grow).collect()
}

fn more(
    plan: &PlacementPlan,
    file: &PlannedFile,
    rounds: Rounds,
    size: Ratio,
) -> Result<Vec<Grown>, RescaleError> {
    let Rounds { head, period, span } = rounds;
    in_rounds(plan, file, rounds)?;
    let too_large = || RescaleError::TooLarge(file.name.clone());
    let end = end(file).and_then(|end| size.times(end)).ok_or_else(too_large)?;
    if end <= file.chunks[head].offset {
        return Err(RescaleError::TooSmall(file.name.clone()));
    }
    if (end / span).saturating_mul(period as u64) > MOST_CHUNKS {
        return Err(too_large());
    }
    let (before, body) = file.chunks.split_at(head);
    let mut grown: Vec<Grown> = before.iter().map(|&chunk| Grown { chunk, time: (0, chunk.order) }).collect();
    for round in 0.. {
        for chunk in &body[..period] {
            let offset = chunk.offset + round * span;
            if offset >= end {
                return Ok(grown);
            }
            let chunk = resized(chunk, offset, chunk.length.min(end - offset));
            grown.push(Grown { chunk, time: (round + 1, chunk.order) });
        }
    }
    Ok(grown)
}

/// That each process uses its own chunks of a file round by round, and within each round in the same order.
fn in_rounds(
    plan: &PlacementPlan,
    file: &PlannedFile,
    Rounds { head, period, .. }: Rounds,
) -> Result<(), RescaleError> {
    // Of each process the chunks by their order: which round, and when in the first one.
    let mut own: BTreeMap<u32, BTreeMap<u64, (usize, u64)>> = BTreeMap::new();
    for (number, chunk) in file.chunks[head..].iter().enumerate() {
        if let Placement::Local(process) = chunk.placement {
            let turn = (number / period, file.chunks[head + number % period].order);
            own.entry(process.0).or_default().insert(chunk.order, turn);
        }
    }
    for (process, turns) in own {
        if !turns.values().is_sorted() {
            let process = plan.processes[process as usize].label.clone();
            return Err(RescaleError::OutOfOrder { file: file.name.clone(), process });
        }
    }
    Ok(())
}

/// The same chunk elsewhere and of another length, with the bytes that are used of it in proportion.
pub(crate) fn resized(chunk: &Chunk, offset: u64, length: u64) -> Chunk {
    let ratio = Ratio { to: length, of: chunk.length };
    let part = |bytes| ratio.times(bytes).unwrap_or(i64::MAX as u64);
    let (read, written, moved) = (part(chunk.read), part(chunk.written), part(chunk.moved));
    Chunk { offset, length, read, written, moved, ..*chunk }
}

/// Files of grown chunks, which get their places in the order of all.
pub(crate) fn in_order(files: Vec<(String, Vec<Grown>)>) -> Vec<PlannedFile> {
    let mut by_time: Vec<((u64, u64), usize, usize)> = Vec::new();
    for (file, (_, chunks)) in files.iter().enumerate() {
        by_time.extend(chunks.iter().enumerate().map(|(number, grown)| (grown.time, file, number)));
    }
    by_time.sort_unstable();
    let plain = |(name, chunks): (String, Vec<Grown>)| PlannedFile {
        name,
        chunks: chunks.into_iter().map(|grown| grown.chunk).collect(),
    };
    let mut files: Vec<PlannedFile> = files.into_iter().map(plain).collect();
    for ((_, file, number), order) in by_time.into_iter().zip(0..) {
        files[file].chunks[number].order = order;
    }
    files
}

/// Where a file's last chunk ends.
pub(crate) fn end(file: &PlannedFile) -> Option<u64> {
    file.chunks.last().map(Chunk::end)
}

/// Offset, length, placement, users and writers of a chunk.
type Shape<'a> = (u64, u64, &'static str, Vec<&'a str>, Vec<&'a str>);

/// What two plans' chunks of a file are compared by; their numbers of processes and groups may differ.
fn shape<'a>(plan: &'a PlacementPlan, file: &PlannedFile) -> Vec<Shape<'a>> {
    let labels = |list: &[pario_placement::ProcessId]| list.iter().map(|&one| plan.label(one)).collect();
    let of = |chunk: &Chunk| {
        let group = plan.group(chunk);
        (chunk.offset, chunk.length, chunk.placement.word(), labels(&group.users), labels(&group.writers))
    };
    file.chunks.iter().map(of).collect()
}

/// Whether the processes that have chunks of the file to themselves are several and have as many and as long ones,
/// each as the others; the last chunk may be shorter.
fn has_equal_parts(file: &PlannedFile) -> bool {
    let Some((last, before)) = file.chunks.split_last() else { return false };
    let longest = before.iter().map(|chunk| chunk.length).max().unwrap_or(0);
    let lengths = before.iter().map(|chunk| (chunk, chunk.length)).chain([(last, last.length.max(longest))]);
    let mut parts: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (chunk, length) in lengths {
        if let Placement::Local(process) = chunk.placement {
            parts.entry(process.0).or_default().push(length);
        }
    }
    let first = parts.values().next();
    parts.len() > 1 && parts.values().all(|part| Some(part) == first)
}
