//! Charts: bandwidth, and the I/O phase's share of the time, over the number of processes, a curve for each partitioning or strategy.
//!
//! One chart for each protocol, direction and measure, drawn as plain SVG that any browser shows; the page has them, and the table,
//! in one file.

use super::point::{Point, Result};
use super::report;
use std::fmt::Write;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
/// Space around the plotted area: left, top, right, bottom.
const MARGIN: [f64; 4] = [64.0, 34.0, 12.0, 78.0];
/// Colours that people with any eyesight tell apart, and marks for print.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#000000"];

/// One chart: curves of points (processes, value).
struct Chart {
    title: String,
    unit: &'static str,
    curves: Vec<(&'static str, Vec<(u32, f64)>)>,
}

/// What is drawn of a point, and in which unit.
type Measure = (&'static str, &'static str, fn(&Point) -> Option<f64>);

const MEASURES: [Measure; 2] = [
    ("bandwidth", "MiB/s", |point| Some(point.bandwidth())),
    ("I/O phase", "% of the time", |point| match &point.result {
        Result::FileSystem(_, _, outcome) => Some(outcome.io_share * 100.0),
        Result::Partition(..) => None,
    }),
];

fn charts(points: &[Point]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for (measure, unit, value) in MEASURES {
        for point in points {
            let Some(value) = value(point) else { continue };
            let place = match &point.result {
                Result::FileSystem(protocol, ..) => format!("{protocol} locks"),
                Result::Partition(..) => format!("{} servers", point.servers),
            };
            let title = format!("{}, {place}: {} {measure}", point.workload, point.op());
            let number = charts.iter().position(|chart| chart.title == title).unwrap_or_else(|| {
                charts.push(Chart { title, unit, curves: Vec::new() });
                charts.len() - 1
            });
            let curves = &mut charts[number].curves;
            let curve = curves.iter().position(|(name, _)| *name == point.curve()).unwrap_or_else(|| {
                curves.push((point.curve(), Vec::new()));
                curves.len() - 1
            });
            curves[curve].1.push((point.procs(), value));
        }
    }
    charts
}

/// All charts below each other in one picture.
pub fn svg(points: &[Point]) -> String {
    let charts = charts(points);
    let height = HEIGHT * charts.len() as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n"
    );
    for (number, chart) in charts.iter().enumerate() {
        let _ = writeln!(text, "<g transform=\"translate(0 {})\">", HEIGHT * number as f64);
        chart.draw(&mut text);
        text += "</g>\n";
    }
    text + "</svg>\n"
}

/// A page that needs nothing else.
pub fn html(points: &[Point]) -> String {
    let mut text = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>pario simulate</title>\n<style>body{font-family:sans-serif;\
         margin:2em}svg{width:460px;height:300px;margin:0 1em 1em 0}pre{overflow-x:auto}</style></head>\n<body><h1>pario simulate</h1>\n\
         <p>Simulated: bandwidths follow the numbers of a made-up machine (pario simulate --machine) and are to be compared with \
         each other.</p>\n",
    );
    for chart in charts(points) {
        let _ = writeln!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">"
        );
        chart.draw(&mut text);
        text += "</svg>\n";
    }
    let _ = write!(text, "<pre>{}</pre>\n</body></html>\n", escaped(&report::table(points)));
    text
}

impl Chart {
    fn draw(&self, text: &mut String) {
        let [left, top, right, bottom] = MARGIN;
        let (wide, high) = (WIDTH - left - right, HEIGHT - top - bottom);
        let mut procs: Vec<u32> =
            self.curves.iter().flat_map(|(_, row)| row.iter().map(|point| point.0)).collect();
        procs.sort_unstable();
        procs.dedup();
        let largest =
            self.curves.iter().flat_map(|(_, row)| row.iter().map(|point| point.1)).fold(0.0, f64::max);
        let step = step(largest);
        let most = (largest / step).ceil().max(1.0) * step;
        // Numbers of processes stand side by side, however far apart they are.
        let x = |n: u32| {
            let place = procs.binary_search(&n).unwrap_or(0) as f64;
            left + wide * if procs.len() > 1 { place / (procs.len() - 1) as f64 } else { 0.5 }
        };
        let y = |value: f64| top + high * (1.0 - value / most);
        let _ = writeln!(
            text,
            "<text x=\"{left}\" y=\"16\" font-weight=\"bold\">{}</text>",
            escaped(&self.title)
        );
        let _ = writeln!(text, "<text x=\"{left}\" y=\"29\" fill=\"#555\">{}</text>", self.unit);
        let mut line = 0.0;
        while line <= most + step / 2.0 {
            let at = y(line);
            let _ = writeln!(
                text,
                "<line x1=\"{left}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{line}</text>",
                left + wide,
                left - 6.0,
                at + 4.0
            );
            line += step;
        }
        for &n in &procs {
            let _ = writeln!(
                text,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{n}</text>",
                x(n),
                top + high + 16.0
            );
        }
        let below = top + high + 32.0;
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">processes</text>",
            left + wide / 2.0
        );
        for (number, (name, row)) in self.curves.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let places: Vec<String> = row.iter().map(|&(n, v)| format!("{:.1},{:.1}", x(n), y(v))).collect();
            let dashes = ["", " stroke-dasharray=\"6 3\"", " stroke-dasharray=\"2 3\""][number / 2 % 3];
            let _ = writeln!(
                text,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"{dashes}/>",
                places.join(" ")
            );
            for &(n, v) in row {
                let _ = writeln!(
                    text,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{name}, {n}: {v:.1}</title></circle>",
                    x(n),
                    y(v)
                );
            }
            let (at, row) = (
                left + f64::from(number as u32 % 3) * 130.0,
                below + 16.0 + 15.0 * f64::from(number as u32 / 3),
            );
            let _ = writeln!(
                text,
                "<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{row:.1}\">{name}</text>",
                row - 4.0,
                at + 8.0
            );
        }
    }
}

/// A round number of which four to ten reach up to `largest`.
fn step(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 1.0;
    }
    let ten = 10f64.powf((largest / 4.0).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|times| times * ten).find(|step| largest / step >= 4.0).unwrap_or(ten)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_steps() {
        assert_eq!([9.0, 41.0, 64605.0, 100.0, 0.0].map(step), [2.0, 10.0, 10000.0, 20.0, 1.0]);
        for largest in [0.3, 1.0, 7.7, 19.0, 333.0, 5e6] {
            let lines = largest / step(largest);
            assert!((4.0..=10.0).contains(&lines), "{largest}: {lines}");
        }
    }
}
