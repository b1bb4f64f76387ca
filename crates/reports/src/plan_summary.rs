//! A placement plan in numbers, and as JSON.

use crate::text::{count, printable};
use pario_placement::{Chunk, ChunkHolder, Placement, PlacementPlan, PlanSummary, ProcessId, StorageShare};
use pario_types::round_size;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The most processes that are listed.
const MOST_LINES: usize = 32;

/// Writes a plan in numbers. `idle` operations of the profile moved nothing.
pub fn write_plan_summary(plan: &PlacementPlan, idle: u64, output: &mut impl Write) -> io::Result<()> {
    let summary = PlanSummary::of(plan);
    let (files, processes) = (plan.files.len(), plan.processes.len());
    writeln!(
        output,
        "{}, {} and {} of {}",
        count(summary.chunks as u64, "chunk"),
        count(files as u64, "file"),
        count(processes as u64, "process"),
        printable(&plan.from)
    )?;
    if idle > 0 {
        writeln!(output, "{} that moved no byte left out", count(idle, "operation"))?;
    }
    writeln!(
        output,
        "\n  {:16} {:>12} {:>12} {:>12} {:>12}",
        "process", "local", "duplicate", "broadcast", "central"
    )?;
    for (process, share) in plan.processes.iter().zip(&summary.processes).take(MOST_LINES) {
        row(output, &printable(&process.label), share)?;
    }
    if processes > MOST_LINES {
        writeln!(output, "  … and {} more; --json has all", processes - MOST_LINES)?;
    }
    row(output, "all, each once", &summary.bytes)?;
    writeln!(output, "\nBetween nodes, by the profile:")?;
    writeln!(output, "  {:>12}  if everything is in shared storage", wide(summary.accessed))?;
    writeln!(output, "  {:>12}  with this plan", wide(summary.moved))?;
    let saved = summary.saved();
    let percent = if summary.accessed == 0 { 0.0 } else { saved as f64 * 100.0 / summary.accessed as f64 };
    match u128::try_from(saved) {
        Ok(saved) => writeln!(output, "  {:>12}  saved, {percent:.1} %", wide(saved))?,
        Err(_) => writeln!(
            output,
            "  {:>12}  more than without it: updates of broadcast chunks cost more than they save",
            wide(saved.unsigned_abs())
        )?,
    }
    if summary.laid_out > 0 {
        writeln!(
            output,
            "  {:>12}  of input to be copied to where it is read, before the run",
            wide(summary.laid_out)
        )?;
    }
    order(plan, output)
}

fn row(output: &mut impl Write, name: &str, share: &StorageShare) -> io::Result<()> {
    let bytes = |bytes: u64| if bytes == 0 { "-".to_owned() } else { round_size(bytes) };
    let StorageShare { local, duplicate, broadcast, central } = *share;
    let [local, duplicate, broadcast, central] = [local, duplicate, broadcast, central].map(bytes);
    writeln!(output, "  {name:16} {local:>12} {duplicate:>12} {broadcast:>12} {central:>12}")
}

/// The first chunks of each partition.
fn order(plan: &PlacementPlan, output: &mut impl Write) -> io::Result<()> {
    const MOST_CHUNKS: usize = 6;
    let chunks: Vec<_> = plan.chunks().collect();
    let several = plan.files.len() > 1;
    writeln!(output, "\nChunks by first use:")?;
    for partition in plan.partitions().iter().take(MOST_LINES) {
        let name = match partition.holder {
            ChunkHolder::Process(process) => plan.label(process),
            ChunkHolder::Central => "central",
        };
        let word = |&number: &usize| {
            let (_, file, chunk) = chunks[number];
            let range = format!("{}+{}", chunk.offset, chunk.length);
            if several { format!("{}:{range}", printable(&file.name)) } else { range }
        };
        let mut words: Vec<String> = partition.chunks.iter().take(MOST_CHUNKS).map(word).collect();
        match partition.chunks.len() {
            0 => words.push("none".to_owned()),
            all if all > MOST_CHUNKS => words.push(format!("… {} more", all - MOST_CHUNKS)),
            _ => (),
        }
        writeln!(output, "  {:16} {}", printable(name), words.join(", "))?;
    }
    Ok(())
}

/// Writes all of a plan as JSON, chunk by chunk.
pub fn write_plan_json(plan: &PlacementPlan, output: &mut impl Write) -> io::Result<()> {
    let summary = PlanSummary::of(plan);
    let processes: Vec<Value> = plan
        .processes
        .iter()
        .zip(&summary.processes)
        .map(|(process, share)| json!({ "label": process.label, "node": process.node, "bytes": share_object(share) }))
        .collect();
    writeln!(output, "{{\"version\": 1, \"from\": {},", Value::from(plan.from.as_str()))?;
    writeln!(output, "\"processes\": {},", Value::from(processes))?;
    let saved = i64::try_from(summary.saved()).unwrap_or(i64::MAX);
    let short = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
    let numbers = json!({
        "chunks": summary.chunks,
        "bytes": share_object(&summary.bytes),
        "accessed": short(summary.accessed),
        "moved": short(summary.moved),
        "saved": saved,
        "laid_out": short(summary.laid_out),
    });
    writeln!(output, "\"summary\": {numbers},")?;
    writeln!(output, "\"chunks\": [")?;
    let mut comma = "";
    for (number, file, chunk) in plan.chunks() {
        write!(output, "{comma}{}", chunk_object(plan, number, &file.name, chunk))?;
        comma = ",\n";
    }
    writeln!(output, "],\n\"partitions\": [")?;
    comma = "";
    for partition in plan.partitions() {
        let (kind, process) = match partition.holder {
            ChunkHolder::Process(process) => ("local", Some(plan.label(process))),
            ChunkHolder::Central => ("central", None),
        };
        write!(output, "{comma}{}", json!({ "kind": kind, "process": process, "chunks": partition.chunks }))?;
        comma = ",\n";
    }
    writeln!(output, "]}}")
}

fn share_object(share: &StorageShare) -> Value {
    let StorageShare { local, duplicate, broadcast, central } = share;
    json!({ "local": local, "duplicate": duplicate, "broadcast": broadcast, "central": central })
}

fn chunk_object(plan: &PlacementPlan, number: usize, file: &str, chunk: &Chunk) -> Value {
    let labels =
        |list: &[ProcessId]| -> Vec<&str> { list.iter().map(|&process| plan.label(process)).collect() };
    let group = plan.group(chunk);
    let home = match chunk.placement {
        Placement::Local(process) => Some(plan.label(process)),
        _ => None,
    };
    json!({
        "id": number,
        "file": file,
        "offset": chunk.offset,
        "length": chunk.length,
        "placement": chunk.placement.word(),
        "home": home,
        "processes": labels(&group.users),
        "writers": labels(&group.writers),
        "order": chunk.order,
        "read": chunk.read,
        "written": chunk.written,
        "moved": chunk.moved,
    })
}

fn wide(bytes: u128) -> String {
    round_size(u64::try_from(bytes).unwrap_or(u64::MAX))
}
