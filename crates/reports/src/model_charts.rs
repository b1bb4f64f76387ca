//! The speed of I/O models as charts: two-dimensional histograms in SVG.
//!
//! Every cell carries what it shows (`data-series`, `data-metric`, `data-reducer`, `data-procs`, `data-per-file`,
//! `data-value`, `data-count`), with all digits, so that a program can read the picture.

use crate::color;
use crate::page::escaped;
use pario_io_models::{Bin, Board, Mark, Metric, Reducer, rate};
use std::fmt::Write as _;

const CELL: f64 = 62.0;
const HIGH: f64 = 34.0;
const LEFT: f64 = 74.0;
const TOP: f64 = 54.0;
const BELOW: f64 = 74.0;
const RIGHT: f64 = 26.0;

/// The choice of what one picture shows.
#[derive(Clone, Copy)]
pub(crate) struct ChartChoice {
    /// Of measurements.
    pub(crate) metric: Metric,
    /// Of a cell's models.
    pub(crate) reducer: Reducer,
}

impl ChartChoice {
    /// The words over the picture.
    pub(crate) fn title(self) -> String {
        match self.reducer {
            Reducer::Count => "models measured in each cell".to_owned(),
            Reducer::Variation => format!("coefficient of variation of {}", self.metric.title()),
            reducer => format!("{} of {}", reducer.word(), self.metric.title()),
        }
    }

    /// A value as a cell shows it.
    pub(crate) fn label(self, value: f64) -> String {
        match self.reducer {
            Reducer::Count => format!("{value:.0}"),
            Reducer::Variation => format!("{value:.3}"),
            _ => rate(value),
        }
    }
}

/// A picture for each board and metric: boards one below the other, metrics side by side.
pub fn model_charts(boards: &[Board], reducer: Reducer, mark: Option<&Mark>, notes: &[String]) -> String {
    let widest = boards.iter().map(|board| size(board).0).fold(300.0, f64::max);
    let heights: Vec<f64> = boards.iter().map(|board| size(board).1).collect();
    let width = widest * Metric::ALL.len() as f64;
    let height = heights.iter().sum::<f64>() + 18.0 * notes.len() as f64 + 14.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let mut y = 0.0;
    for ((number, board), height) in boards.iter().enumerate().zip(heights) {
        for (column, metric) in Metric::ALL.into_iter().enumerate() {
            let _ = writeln!(text, "<g transform=\"translate({} {y})\">", widest * column as f64);
            text += &panel(board, number, ChartChoice { metric, reducer }, mark);
            text += "</g>\n";
        }
        y += height;
    }
    for note in notes {
        y += 18.0;
        let _ = writeln!(
            text,
            "<text x=\"12\" y=\"{y}\" font-size=\"12\" fill=\"#555555\">{}</text>",
            escaped(note)
        );
    }
    text + "</svg>\n"
}

/// Width and height of one picture.
pub(crate) fn size(board: &Board) -> (f64, f64) {
    let Bin { procs, per_file } = board.extent();
    let width = LEFT + CELL * (f64::from(procs) + 1.0) + RIGHT;
    (width.max(440.0), TOP + HIGH * (f64::from(per_file) + 1.0) + BELOW)
}

/// One picture, without the element around it.
pub(crate) fn panel(board: &Board, number: usize, shown: ChartChoice, mark: Option<&Mark>) -> String {
    let most = board.extent();
    let range = board.range(shown.metric, shown.reducer);
    let bottom = TOP + HIGH * (f64::from(most.per_file) + 1.0);
    let (title, series) = (escaped(&shown.title()), escaped(&board.series.name()));
    let mut text = format!(
        "<text class=\"title\" x=\"{LEFT}\" y=\"22\" font-size=\"14\" font-weight=\"bold\">{title}</text>\n\
         <text class=\"series\" x=\"{LEFT}\" y=\"41\" font-size=\"12\" fill=\"#555555\">{series}</text>\n"
    );
    for (bin, cell) in board.cells() {
        let (x, y) = corner(bin, bottom);
        let value = cell.value(shown.metric, shown.reducer);
        let (fill, ink) = color::of(value, range);
        let (count, label) = (cell.entries().len(), shown.label(value));
        let (metric, reducer) = (shown.metric.word(), shown.reducer.word());
        let Bin { procs, per_file } = bin;
        let _ = writeln!(
            text,
            "<g class=\"cell\" data-series=\"{number}\" data-metric=\"{metric}\" data-reducer=\"{reducer}\" \
             data-procs=\"{procs}\" data-per-file=\"{per_file}\" data-count=\"{count}\" data-value=\"{value}\">\
             <title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{HIGH}\" fill=\"{fill}\" \
             stroke=\"#ffffff\"/><text x=\"{}\" y=\"{}\" font-size=\"12\" text-anchor=\"middle\" \
             fill=\"{ink}\">{label}</text></g>",
            tip(bin, count),
            x + CELL / 2.0,
            y + HIGH / 2.0 + 4.0,
        );
    }
    text += &axes(most, bottom);
    text += &mark.map(|mark| cross(mark, most, bottom)).unwrap_or_default();
    text
}

fn corner(bin: Bin, bottom: f64) -> (f64, f64) {
    (LEFT + CELL * f64::from(bin.procs), bottom - HIGH * (f64::from(bin.per_file) + 1.0))
}

fn tip(bin: Bin, count: usize) -> String {
    let (procs, per_file) = (1u64 << bin.procs, 1u64 << bin.per_file);
    let models = if count == 1 { "1 model".to_owned() } else { format!("{count} models") };
    format!("{procs} processes, {per_file} per file: {models}")
}

fn axes(most: Bin, bottom: f64) -> String {
    let mut text = String::new();
    let mut put = |x: f64, y: f64, anchor: &str, words: &str| {
        let _ = writeln!(
            text,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"12\" text-anchor=\"{anchor}\" fill=\"#333333\">{words}</text>"
        );
    };
    for procs in 0..=most.procs {
        let x = LEFT + CELL * (f64::from(procs) + 0.5);
        put(x, bottom + 18.0, "middle", &procs.to_string());
    }
    for per_file in 0..=most.per_file {
        put(LEFT - 8.0, bottom - HIGH * (f64::from(per_file) + 0.5) + 4.0, "end", &per_file.to_string());
    }
    put(LEFT, bottom + 38.0, "start", "log2 of processes that do I/O");
    put(LEFT, bottom + 56.0, "start", "bottom row: a file per process; diagonal: one file shared by all");
    let middle = (TOP + bottom) / 2.0;
    let _ = writeln!(
        text,
        "<text transform=\"translate(26 {middle}) rotate(-90)\" font-size=\"12\" text-anchor=\"middle\" \
         fill=\"#333333\"><tspan x=\"0\">log2 of</tspan><tspan x=\"0\" dy=\"14\">processes per file</tspan></text>"
    );
    text
}

/// The mark of a program, at the rim if it lies outside.
fn cross(mark: &Mark, most: Bin, bottom: f64) -> String {
    let within = |value: f64, most: u8| value.clamp(-0.4, f64::from(most) + 0.4) + 0.5;
    let x = LEFT + CELL * within(mark.procs, most.procs);
    let y = bottom - HIGH * within(mark.per_file, most.per_file);
    format!(
        "<g class=\"mark\" data-procs=\"{}\" data-per-file=\"{}\"><title>the traced program</title>\
         <circle cx=\"{x}\" cy=\"{y}\" r=\"14\" fill=\"none\" stroke=\"#ffffff\" stroke-width=\"5\"/>\
         <circle cx=\"{x}\" cy=\"{y}\" r=\"14\" fill=\"none\" stroke=\"#d62728\" stroke-width=\"3\"/></g>\n",
        mark.procs, mark.per_file
    )
}
