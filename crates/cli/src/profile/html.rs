//! A report on a profile: one page with pictures in it, which needs no other file and no network.
//!
//! Two pictures: per rank, how busy it was with reads and writes over time; and per file and rank, which part of the
//! file it used. Ranks are drawn together where there are more of them than rows.

use super::show::count;
use crate::trace::text::{duration, printable};
use pario_profile::advice::{Advice, Numbers, Severity};
use pario_profile::{Profile, Who};
use pario_trace::{Event, Op, size_word};
use std::collections::HashMap;
use std::fmt::Write;

/// Cells of a row.
const CELLS: usize = 160;
/// Rows of a picture.
const ROWS: usize = 64;
/// Files with a picture of their own.
const FILES: usize = 12;
const ROW_HEIGHT: usize = 10;
const CELL_WIDTH: usize = 5;
const LEFT: usize = 70;

/// What is drawn of each rank over time.
pub struct Picture {
    rows: HashMap<String, usize>,
    names: Vec<String>,
    span: (u64, u64),
    /// Per row and cell, nanoseconds in reads and in writes.
    busy: Vec<[(u64, u64); CELLS]>,
    /// Ranks in a row.
    ranks: Vec<u64>,
}

impl Picture {
    /// For a profile whose operations lie in this span of time.
    pub fn new(profile: &Profile, span: (u64, u64)) -> Picture {
        let rows = row_of(profile.processes.len());
        let count = profile.processes.len().min(ROWS);
        let (mut names, mut ranks) = (vec![String::new(); count], vec![0; count]);
        let mut by_label = HashMap::new();
        for (number, process) in profile.processes.iter().enumerate() {
            let row = rows(number);
            by_label.insert(process.label.clone(), row);
            ranks[row] += 1;
            if names[row].is_empty() {
                names[row].clone_from(&process.label);
            }
        }
        Picture { rows: by_label, names, span, busy: vec![[(0, 0); CELLS]; count], ranks }
    }

    /// Draws an operation.
    pub fn add(&mut self, who: &Who, event: &Event) {
        let Some(&row) = self.rows.get(&*who.label) else { return };
        let write = match event.call.op {
            Op::Read => false,
            Op::Write => true,
            _ => return,
        };
        let (from, to) = (event.start_ns - self.span.0, event.end_ns() - self.span.0);
        let cell = self.cell();
        for number in from / cell..=(to / cell).min(CELLS as u64 - 1) {
            let (start, end) = (number * cell, (number + 1) * cell);
            // An operation without a duration is still to be seen.
            let part = to.min(end).saturating_sub(from.max(start)).max(1);
            let (reads, writes) = &mut self.busy[row][number as usize];
            *(if write { writes } else { reads }) += part;
        }
    }

    /// Nanoseconds of a cell.
    fn cell(&self) -> u64 {
        (self.span.1.saturating_sub(self.span.0) / CELLS as u64 + 1).max(1)
    }

    fn svg(&self) -> String {
        let mut svg = open_svg("timeline", self.names.len());
        let cell = self.cell() as f64;
        for (row, (cells, name)) in self.busy.iter().zip(&self.names).enumerate() {
            label(&mut svg, row, name);
            for (number, &(reads, writes)) in cells.iter().enumerate() {
                let all = reads + writes;
                if all > 0 {
                    let share = (all as f64 / (cell * self.ranks[row] as f64)).min(1.0);
                    let colour = if writes > reads { "#d95f02" } else { "#1b6ca8" };
                    let title =
                        format!("rank {name}: reads {}, writes {}", duration(reads), duration(writes));
                    let data = Data { name, read: reads, written: writes };
                    rect(&mut svg, (row, number), colour, share, &data, &title);
                }
            }
        }
        svg + "</svg>\n"
    }
}

/// In which row a process is drawn.
fn row_of(processes: usize) -> impl Fn(usize) -> usize {
    let each = processes.div_ceil(ROWS).max(1);
    move |process| process / each
}

/// Which part of a file each rank used.
fn heat(profile: &Profile, file: usize) -> Option<String> {
    let of_file = || profile.accesses.iter().filter(|access| access.file() as usize == file);
    let end = of_file().map(|access| access.end).max()?;
    let rows = row_of(profile.processes.len());
    let count = profile.processes.len().min(ROWS);
    let cell = end / CELLS as u64 + 1;
    let mut cells = vec![[(0u64, 0u64); CELLS]; count];
    for access in of_file() {
        for number in access.offset / cell..=(access.end - 1) / cell {
            let bytes = access.end.min((number + 1) * cell) - access.offset.max(number * cell);
            let (read, written) = &mut cells[rows(access.process as usize)][number as usize];
            *(if access.is_write() { written } else { read }) += bytes;
        }
    }
    let most = cells.iter().flatten().map(|(read, written)| read + written).max().unwrap_or(1).max(1);
    let mut svg = open_svg("heat", count);
    for (row, cells) in cells.iter().enumerate() {
        let first = (0..profile.processes.len()).find(|&process| rows(process) == row).unwrap_or(0);
        let name = &profile.processes[first].label;
        label(&mut svg, row, name);
        for (number, &(read, written)) in cells.iter().enumerate() {
            if read + written > 0 {
                let share = (read + written) as f64 / most as f64;
                let colour = if written > read { "#d95f02" } else { "#1b6ca8" };
                let at = size_word(number as u64 * cell);
                let title = format!(
                    "rank {name} from {at}: {} read, {} written",
                    size_word(read),
                    size_word(written)
                );
                let data = Data { name, read, written };
                rect(&mut svg, (row, number), colour, share, &data, &title);
            }
        }
    }
    Some(svg + "</svg>\n")
}

fn open_svg(class: &str, rows: usize) -> String {
    let (width, height) = (LEFT + CELLS * CELL_WIDTH, rows * ROW_HEIGHT);
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\
         <rect x=\"{LEFT}\" width=\"{}\" height=\"{height}\" fill=\"#f4f4f4\"/>\n",
        CELLS * CELL_WIDTH
    )
}

fn label(svg: &mut String, row: usize, name: &str) {
    let y = row * ROW_HEIGHT + ROW_HEIGHT - 2;
    // Writing to a string does not fail.
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{y}\">{}</text>", LEFT - 4, escaped(name));
}

/// What a cell stands for, for programs that read the page: of the rank, or the first of the row, nanoseconds or bytes.
struct Data<'a> {
    name: &'a str,
    read: u64,
    written: u64,
}

fn rect(
    svg: &mut String,
    (row, cell): (usize, usize),
    colour: &str,
    share: f64,
    data: &Data<'_>,
    title: &str,
) {
    let (x, y) = (LEFT + cell * CELL_WIDTH, row * ROW_HEIGHT);
    let opacity = 0.15 + 0.85 * share;
    let Data { name, read, written } = data;
    let _ = writeln!(
        svg,
        "<rect class=\"cell\" data-rank=\"{}\" data-cell=\"{cell}\" data-read=\"{read}\" data-written=\"{written}\" \
         x=\"{x}\" y=\"{y}\" width=\"{CELL_WIDTH}\" height=\"{}\" fill=\"{colour}\" opacity=\"{opacity:.2}\">\
         <title>{}</title></rect>",
        escaped(name),
        ROW_HEIGHT - 1,
        escaped(title)
    );
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;color:#222;padding:0 1rem}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse}td,th{padding:.2rem .8rem;\
text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:\
auto}svg text{font-size:8px;text-anchor:end;fill:#555}.advice{border-left:4px solid #999;padding:.1rem 1rem;margin:1rem 0;\
background:#fafafa}.high{border-color:#c0392b}.medium{border-color:#e08e0b}.low{border-color:#7f8c8d}.key span{display:\
inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}";

/// The page.
pub fn page(
    from: &str,
    advice: &[Advice],
    numbers: &Numbers,
    profile: &Profile,
    picture: &Picture,
) -> String {
    let title = format!("Profile {}", escaped(from));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style>\
         </head><body>\n<h1>{title}</h1>\n"
    );
    let span = picture.span.1.saturating_sub(picture.span.0);
    let _ = writeln!(
        page,
        "<p>{}, {}, {} in {}.</p>\n<h2>Advice</h2>",
        count(profile.processes.len(), "process"),
        count(profile.files.len(), "file"),
        count(profile.accesses.len(), "access"),
        duration(span)
    );
    if advice.is_empty() {
        page += "<p>None: nothing in this profile looks wrong.</p>\n";
    }
    for one in advice {
        advice_block(&mut page, one);
    }
    files_table(&mut page, numbers);
    let key = "<p class=\"key\"><span style=\"background:#1b6ca8\"></span>mostly reads<span style=\"background:#d95f02\">\
               </span>mostly writes; the darker, the more</p>\n";
    let _ = write!(page, "<h2>Ranks over time</h2>\n{key}{}", picture.svg());
    let _ = writeln!(page, "<p>From left to right: {}.</p>", duration(span));
    for (number, name) in profile.files.iter().enumerate().take(FILES) {
        if let Some(svg) = heat(profile, number) {
            let _ = write!(
                page,
                "<h2>Ranks in {}</h2>\n{key}{svg}<p>From the first byte to the last.</p>\n",
                escaped(name)
            );
        }
    }
    if profile.files.len() > FILES {
        let _ = writeln!(page, "<p>{} more files are not drawn.</p>", profile.files.len() - FILES);
    }
    page + "</body></html>\n"
}

fn advice_block(page: &mut String, advice: &Advice) {
    let class = match advice.severity {
        Severity::High => "high",
        Severity::Medium => "medium",
        Severity::Low => "low",
    };
    let file = advice.file.as_deref().map_or(String::new(), |file| format!(": {}", escaped(file)));
    let _ = writeln!(
        page,
        "<div class=\"advice {class}\"><p><b>{}</b> ({}){file}</p><p>{}</p><p><b>Do:</b> {}</p><p><b>Pario:</b> {}</p></div>",
        advice.topic,
        advice.severity,
        escaped(&advice.evidence),
        escaped(&advice.remedy),
        escaped(&advice.pario)
    );
}

fn files_table(page: &mut String, numbers: &Numbers) {
    page.push_str(
        "<h2>Files</h2>\n<table><tr><th>file</th><th>processes</th><th>reads</th><th>read</th><th>writes</th>\
         <th>written</th><th>collective</th></tr>\n",
    );
    for file in &numbers.files {
        let (reads, writes) = file.ways();
        let together = reads.collective + writes.collective;
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{together}</td></tr>",
            escaped(&file.name),
            file.users(),
            reads.count(),
            size_word(reads.bytes),
            writes.count(),
            size_word(writes.bytes)
        );
    }
    page.push_str("</table>\n");
}

/// Text that stands for itself in HTML.
fn escaped(text: &str) -> String {
    printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_stand_for_themselves() {
        assert_eq!(escaped("<a> & \"b\""), "&lt;a&gt; &amp; &quot;b&quot;");
    }
}
