//! Why a placement plan places a chunk as it does.

use crate::text::{count, duration, printable};
use pario_placement::{Chunk, Placement, PlacementPlan, PlannedFile};
use pario_profile::{Profile, Rule};
use pario_types::round_size;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The accesses of a process to a chunk.
#[derive(Default)]
struct Use {
    reads: u64,
    read: u64,
    writes: u64,
    written: u64,
    first: Option<u64>,
}

/// Writes what a chunk is, how processes use it, and by which rule it is placed. `name` is its number, or FILE:OFFSET of a
/// byte in it. Returns false if there is no such chunk.
pub fn write_chunk_explanation(
    plan: &PlacementPlan,
    profile: Option<&Profile>,
    name: &str,
    rule: Rule,
    output: &mut impl Write,
) -> io::Result<bool> {
    let Some((number, file, chunk)) = find(plan, name) else { return Ok(false) };
    writeln!(
        output,
        "chunk {number}: {} bytes at {} of {}",
        chunk.length,
        chunk.offset,
        printable(&file.name)
    )?;
    writeln!(output, "placement: {}", chunk.placement.word())?;
    writeln!(output, "because: {}", because(plan, chunk, rule))?;
    writeln!(
        output,
        "use: {} read, {} written, of which {} still go between nodes",
        round_size(chunk.read),
        round_size(chunk.written),
        round_size(chunk.moved)
    )?;
    match profile {
        None => {
            let labels: Vec<&str> = plan.group(chunk).users.iter().map(|&user| plan.label(user)).collect();
            writeln!(output, "users: {} (the profile says more about them)", labels.join(", "))?;
        }
        Some(profile) => {
            writeln!(
                output,
                "\n  {:16} {:>9} {:>12} {:>9} {:>12} {:>12}",
                "process", "reads", "bytes", "writes", "bytes", "first use"
            )?;
            let began = profile.accesses.iter().map(|access| access.time).min().unwrap_or(0);
            for (process, seen) in uses(profile, file, chunk) {
                let first = seen.first.map_or("-".to_owned(), |time| duration(time - began));
                writeln!(
                    output,
                    "  {:16} {:>9} {:>12} {:>9} {:>12} {first:>12}",
                    printable(&profile.processes[process as usize].label),
                    seen.reads,
                    round_size(seen.read),
                    seen.writes,
                    round_size(seen.written),
                )?;
            }
        }
    }
    Ok(true)
}

/// By number, or by file and offset; the file may be left out if there is only one.
fn find<'a>(plan: &'a PlacementPlan, word: &str) -> Option<(usize, &'a PlannedFile, &'a Chunk)> {
    if let Ok(number) = word.parse::<usize>() {
        return plan.chunks().nth(number);
    }
    let (name, offset) = word.rsplit_once(':')?;
    let offset = offset.parse::<u64>().ok()?;
    plan.chunks().find(|(_, file, chunk)| {
        (file.name == name || name.is_empty() && plan.files.len() == 1)
            && chunk.offset <= offset
            && offset < chunk.end()
    })
}

fn because(plan: &PlacementPlan, chunk: &Chunk, rule: Rule) -> String {
    let group = plan.group(chunk);
    let users = group.users.len();
    let several = count(users as u64, "process");
    let sent = chunk.written.saturating_mul(users as u64 - 1);
    match chunk.placement {
        Placement::Local(process) if users == 1 => {
            format!("process {} alone uses it", plan.label(process))
        }
        Placement::Local(process)
            if rule.dominance.is_none() && group.writers == [process] && chunk.moved <= sent =>
        {
            format!(
                "of {several}, {} alone writes it, and the others read no more of it than copies would be sent",
                plan.label(process)
            )
        }
        Placement::Local(process) => {
            let least =
                rule.dominance.map_or(String::new(), |least| format!(" at least {:.0} % of", least * 100.0));
            format!("of {several}, {} does{least} the accesses and their bytes", plan.label(process))
        }
        Placement::Duplicate => format!("{several} read it and none writes it"),
        Placement::Broadcast => {
            let writer = group.writers.first().map_or("-", |&writer| plan.label(writer));
            format!("of {several}, {writer} alone writes it, and updates the others' copies")
        }
        Placement::Central => {
            let writers = group.writers.len();
            format!("{several} use it and {writers} of them write it")
        }
    }
}

fn uses(profile: &Profile, file: &PlannedFile, chunk: &Chunk) -> BTreeMap<u32, Use> {
    let mut uses: BTreeMap<u32, Use> = BTreeMap::new();
    let Some(number) = profile.files.iter().position(|name| **name == *file.name) else { return uses };
    let touches = |access: &&pario_profile::ProfiledAccess| {
        access.file() as usize == number && access.offset < chunk.end() && access.end > chunk.offset
    };
    for access in profile.accesses.iter().filter(touches) {
        let bytes = access.end.min(chunk.end()) - access.offset.max(chunk.offset);
        let seen = uses.entry(access.process).or_default();
        let (count, sum) = if access.is_write() {
            (&mut seen.writes, &mut seen.written)
        } else {
            (&mut seen.reads, &mut seen.read)
        };
        *count += 1;
        *sum = sum.saturating_add(bytes);
        seen.first = Some(seen.first.map_or(access.time, |first| first.min(access.time)));
    }
    uses
}
