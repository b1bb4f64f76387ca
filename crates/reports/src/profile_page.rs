//! A page about a profile: advice, files, and pictures of the ranks. It needs no other file and no network.
//!
//! There are two kinds of pictures: how busy each rank is with reads and writes over time, and for each file which part
//! of it each rank uses. If there are more ranks than rows, several ranks share a row.

use crate::page::render;
use crate::text::{count, duration, printable};
use askama::Template;
use pario_profile::advice::{Advice, Numbers, Severity};
use pario_profile::{Profile, TracedProcess};
use pario_trace::{TraceEvent, TracedOp};
use pario_types::round_size;
use std::collections::HashMap;

/// The cells of a row.
const CELLS: usize = 160;
/// The most rows of a picture.
const ROWS: usize = 64;
/// The most files with a picture.
const FILES: usize = 12;
const ROW_HEIGHT: usize = 10;
const CELL_WIDTH: usize = 5;
const LEFT: usize = 70;

/// How busy each rank is over time.
pub struct Timeline {
    rows: HashMap<String, usize>,
    names: Vec<String>,
    span: (u64, u64),
    /// For each row and cell, nanoseconds in reads and in writes.
    busy: Vec<[(u64, u64); CELLS]>,
    /// The number of ranks in each row.
    ranks: Vec<u64>,
}

impl Timeline {
    /// For a profile whose operations are in this span of time.
    pub fn new(profile: &Profile, span: (u64, u64)) -> Timeline {
        let rows = row_of(profile.processes.len());
        let count = profile.processes.len().min(ROWS);
        let mut names = vec![String::new(); count];
        let mut ranks = vec![0; count];
        let mut by_label = HashMap::new();
        for (number, process) in profile.processes.iter().enumerate() {
            let row = rows(number);
            by_label.insert(process.label.clone(), row);
            ranks[row] += 1;
            if names[row].is_empty() {
                names[row].clone_from(&process.label);
            }
        }
        Timeline { rows: by_label, names, span, busy: vec![[(0, 0); CELLS]; count], ranks }
    }

    /// Adds an operation.
    pub fn add(&mut self, who: &TracedProcess, event: &TraceEvent) {
        let Some(&row) = self.rows.get(&*who.label) else { return };
        let is_write = match event.call.op {
            TracedOp::Read => false,
            TracedOp::Write => true,
            _ => return,
        };
        let (from, to) = (event.start_ns - self.span.0, event.end_ns() - self.span.0);
        let cell = self.cell_ns();
        for number in from / cell..=(to / cell).min(CELLS as u64 - 1) {
            let (start, end) = (number * cell, (number + 1) * cell);
            // An operation without a duration is drawn as well.
            let part = to.min(end).saturating_sub(from.max(start)).max(1);
            let (reads, writes) = &mut self.busy[row][number as usize];
            *(if is_write { writes } else { reads }) += part;
        }
    }

    /// The nanoseconds of a cell.
    fn cell_ns(&self) -> u64 {
        (self.span.1.saturating_sub(self.span.0) / CELLS as u64 + 1).max(1)
    }

    fn svg(&self) -> String {
        let cell_ns = self.cell_ns() as f64;
        let rows = self.busy.iter().zip(&self.names).enumerate().map(|(row, (cells, name))| {
            let share = |all: u64| (all as f64 / (cell_ns * self.ranks[row] as f64)).min(1.0);
            let title = |_: usize, reads: u64, writes: u64| {
                format!("rank {name}: reads {}, writes {}", duration(reads), duration(writes))
            };
            heat_row(row, name, cells, share, title)
        });
        heat_map("timeline", rows.collect())
    }
}

/// The row in which a process is drawn.
fn row_of(processes: usize) -> impl Fn(usize) -> usize {
    let each = processes.div_ceil(ROWS).max(1);
    move |process| process / each
}

/// The picture of a file: which part of it each rank uses. `None` if no rank does.
fn file_heat_map(profile: &Profile, file: usize) -> Option<String> {
    let of_file = || profile.accesses.iter().filter(|access| access.file() as usize == file);
    let end = of_file().map(|access| access.end).max()?;
    let row_of = row_of(profile.processes.len());
    let count = profile.processes.len().min(ROWS);
    let cell = end / CELLS as u64 + 1;
    let mut cells = vec![[(0u64, 0u64); CELLS]; count];
    for access in of_file() {
        for number in access.offset / cell..=(access.end - 1) / cell {
            let bytes = access.end.min((number + 1) * cell) - access.offset.max(number * cell);
            let (read, written) = &mut cells[row_of(access.process as usize)][number as usize];
            *(if access.is_write() { written } else { read }) += bytes;
        }
    }
    let most = cells.iter().flatten().map(|(read, written)| read + written).max().unwrap_or(1).max(1);
    let rows = cells.iter().enumerate().map(|(row, cells)| {
        let first = (0..profile.processes.len()).find(|&process| row_of(process) == row).unwrap_or(0);
        let name = &profile.processes[first].label;
        let share = |all: u64| all as f64 / most as f64;
        let title = |number: usize, read: u64, written: u64| {
            let at = round_size(number as u64 * cell);
            format!("rank {name} from {at}: {} read, {} written", round_size(read), round_size(written))
        };
        heat_row(row, name, cells, share, title)
    });
    Some(heat_map("heat", rows.collect()))
}

#[derive(Template)]
#[template(path = "heat_map.svg")]
struct HeatMap<'a> {
    class: &'a str,
    width: usize,
    height: usize,
    left: usize,
    label_x: usize,
    cells_width: usize,
    cell_width: usize,
    cell_height: usize,
    rows: Vec<HeatRow>,
}

struct HeatRow {
    name: String,
    y: usize,
    label_y: usize,
    cells: Vec<HeatCell>,
}

/// A cell; reads and writes are nanoseconds or bytes.
struct HeatCell {
    number: usize,
    read: u64,
    written: u64,
    x: usize,
    opacity: String,
    title: String,
}

impl HeatCell {
    fn colour(&self) -> &'static str {
        if self.written > self.read { "#d95f02" } else { "#1b6ca8" }
    }
}

/// A row with its cells that are not empty. `share` gives how dark a cell is, from 0 to 1.
fn heat_row(
    row: usize,
    name: &str,
    cells: &[(u64, u64)],
    share: impl Fn(u64) -> f64,
    title: impl Fn(usize, u64, u64) -> String,
) -> HeatRow {
    let used = cells.iter().enumerate().filter(|(_, (read, written))| read + written > 0);
    let cells = used.map(|(number, &(read, written))| HeatCell {
        number,
        read,
        written,
        x: LEFT + number * CELL_WIDTH,
        opacity: format!("{:.2}", 0.15 + 0.85 * share(read + written)),
        title: printable(&title(number, read, written)),
    });
    let y = row * ROW_HEIGHT;
    HeatRow { name: printable(name), y, label_y: y + ROW_HEIGHT - 2, cells: cells.collect() }
}

fn heat_map(class: &str, rows: Vec<HeatRow>) -> String {
    let picture = HeatMap {
        class,
        width: LEFT + CELLS * CELL_WIDTH,
        height: rows.len() * ROW_HEIGHT,
        left: LEFT,
        label_x: LEFT - 4,
        cells_width: CELLS * CELL_WIDTH,
        cell_width: CELL_WIDTH,
        cell_height: ROW_HEIGHT - 1,
        rows,
    };
    render(&picture)
}

#[derive(Template)]
#[template(path = "profile.html")]
struct ProfilePage {
    from: String,
    counts: String,
    span: String,
    advice: Vec<AdviceBlock>,
    files: Vec<FileRow>,
    timeline: String,
    heat_maps: Vec<(String, String)>,
    not_drawn: usize,
}

struct AdviceBlock {
    class: &'static str,
    topic: String,
    severity: String,
    file: String,
    evidence: String,
    remedy: String,
    pario: String,
}

struct FileRow {
    name: String,
    users: String,
    reads: u64,
    read: String,
    writes: u64,
    written: String,
    collective: u64,
}

/// The page. `from` names the profile.
pub fn profile_page(
    from: &str,
    advice: &[Advice],
    numbers: &Numbers,
    profile: &Profile,
    timeline: &Timeline,
) -> String {
    let counts = [
        count(profile.processes.len() as u64, "process"),
        count(profile.files.len() as u64, "file"),
        count(profile.accesses.len() as u64, "access"),
    ];
    let heat_maps = profile.files.iter().enumerate().take(FILES);
    let page = ProfilePage {
        from: printable(from),
        counts: counts.join(", "),
        span: duration(timeline.span.1.saturating_sub(timeline.span.0)),
        advice: advice.iter().map(advice_block).collect(),
        files: file_rows(numbers),
        timeline: timeline.svg(),
        heat_maps: heat_maps
            .filter_map(|(number, name)| Some((printable(name), file_heat_map(profile, number)?)))
            .collect(),
        not_drawn: profile.files.len().saturating_sub(FILES),
    };
    render(&page)
}

fn advice_block(advice: &Advice) -> AdviceBlock {
    AdviceBlock {
        class: match advice.severity {
            Severity::High => "high",
            Severity::Medium => "medium",
            Severity::Low => "low",
        },
        topic: advice.topic.to_string(),
        severity: advice.severity.to_string(),
        file: advice.file.as_deref().map(printable).unwrap_or_default(),
        evidence: printable(&advice.evidence),
        remedy: printable(&advice.remedy),
        pario: printable(&advice.pario),
    }
}

fn file_rows(numbers: &Numbers) -> Vec<FileRow> {
    let row = |file: &pario_profile::advice::FileNumbers| {
        let (reads, writes) = file.ways();
        FileRow {
            name: printable(&file.name),
            users: file.users().to_string(),
            reads: reads.count(),
            read: round_size(reads.bytes),
            writes: writes.count(),
            written: round_size(writes.bytes),
            collective: reads.collective + writes.collective,
        }
    };
    numbers.files.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        let row = heat_row(0, "<a> & \"b\"", &[(1, 0)], |_| 1.0, |_, _, _| "<t>".to_owned());
        let svg = heat_map("heat", vec![row]);
        assert!(!svg.contains("<a>") && !svg.contains("<t>") && !svg.contains("\"b\""), "{svg}");
    }
}
