//! Charts of simulations: bandwidth, and the share of the I/O phase, over the number of processes, with a curve for each
//! partitioning or strategy. There is one chart for each protocol, direction and measure.

use crate::page::render;
use crate::simulation::{SimulationPoint, SimulationResult, simulation_table};
use askama::Template;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
/// The space around the plotted area: left, top, right, bottom.
const MARGIN: [f64; 4] = [64.0, 34.0, 12.0, 78.0];
/// Colours that readers with any eyesight can tell apart.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#000000"];
/// Dashes for print.
const DASHES: [&str; 3] = ["", "6 3", "2 3"];

/// One chart: curves of points (processes, value).
struct Chart {
    title: String,
    unit: &'static str,
    curves: Vec<(&'static str, Vec<(u32, f64)>)>,
}

/// A measure: its name, its unit, and its value at a point.
type Measure = (&'static str, &'static str, fn(&SimulationPoint) -> Option<f64>);

const MEASURES: [Measure; 2] = [
    ("bandwidth", "MiB/s", |point| Some(point.bandwidth())),
    ("I/O phase", "% of the time", |point| match &point.result {
        SimulationResult::FileSystem(_, _, outcome) => Some(outcome.io_share * 100.0),
        SimulationResult::Partition(..) => None,
    }),
];

fn charts(points: &[SimulationPoint]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for (measure, unit, value) in MEASURES {
        for point in points {
            let Some(value) = value(point) else { continue };
            let place = match &point.result {
                SimulationResult::FileSystem(protocol, ..) => format!("{protocol} locks"),
                SimulationResult::Partition(..) => format!("{} servers", point.servers),
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
pub fn simulation_svg(points: &[SimulationPoint]) -> String {
    let charts: Vec<(f64, String)> = charts(points)
        .iter()
        .enumerate()
        .map(|(number, chart)| (HEIGHT * number as f64, chart.svg()))
        .collect();
    let total_height = HEIGHT * charts.len() as f64;
    render(&SimulationSvg { width: WIDTH, total_height, charts })
}

/// One page with the charts and the table, which needs no other file.
pub fn simulation_page(points: &[SimulationPoint]) -> String {
    let charts = charts(points).iter().map(Chart::svg).collect();
    let page = SimulationPage { width: WIDTH, height: HEIGHT, charts, table: simulation_table(points) };
    render(&page)
}

#[derive(Template)]
#[template(path = "simulation.svg")]
struct SimulationSvg {
    width: f64,
    total_height: f64,
    charts: Vec<(f64, String)>,
}

#[derive(Template)]
#[template(path = "simulation.html")]
struct SimulationPage {
    width: f64,
    height: f64,
    charts: Vec<String>,
    table: String,
}

/// A chart with all positions computed.
#[derive(Template)]
#[template(path = "line_chart.svg")]
struct LineChart<'a> {
    title: &'a str,
    unit: &'a str,
    left: f64,
    right: f64,
    middle: String,
    axis_y: String,
    tick_y: String,
    grid: Vec<GridLine>,
    ticks: Vec<Tick>,
    curves: Vec<Curve<'a>>,
}

struct GridLine {
    y: String,
    label_x: f64,
    label_y: String,
    label: f64,
}

struct Tick {
    x: String,
    label: u32,
}

struct Curve<'a> {
    name: &'a str,
    colour: &'static str,
    dashes: &'static str,
    points: String,
    marks: Vec<CurveMark>,
    key_x: String,
    key_y: String,
    key_text_x: String,
    key_text_y: String,
}

struct CurveMark {
    x: String,
    y: String,
    procs: u32,
    value: String,
}

impl Chart {
    fn svg(&self) -> String {
        render(&self.layout())
    }

    fn layout(&self) -> LineChart<'_> {
        let [left, top, right, bottom] = MARGIN;
        let (wide, high) = (WIDTH - left - right, HEIGHT - top - bottom);
        let points = || self.curves.iter().flat_map(|(_, points)| points);
        let mut procs: Vec<u32> = points().map(|point| point.0).collect();
        procs.sort_unstable();
        procs.dedup();
        let largest = points().map(|point| point.1).fold(0.0, f64::max);
        let step = step(largest);
        let most = (largest / step).ceil().max(1.0) * step;
        // Numbers of processes are spaced evenly, whatever their values.
        let x = |n: u32| {
            let place = procs.binary_search(&n).unwrap_or(0) as f64;
            left + wide * if procs.len() > 1 { place / (procs.len() - 1) as f64 } else { 0.5 }
        };
        let y = |value: f64| top + high * (1.0 - value / most);
        let number = |value: f64| format!("{value:.1}");
        let axis_y = top + high + 32.0;
        let mut grid = Vec::new();
        let mut value = 0.0;
        while value <= most + step / 2.0 {
            let at = y(value);
            grid.push(GridLine {
                y: number(at),
                label_x: left - 6.0,
                label_y: number(at + 4.0),
                label: value,
            });
            value += step;
        }
        let curves = self.curves.iter().enumerate().map(|(index, (name, points))| {
            let key_x = left + (index % 3) as f64 * 130.0;
            let key_y = axis_y + 16.0 + 15.0 * (index / 3) as f64;
            let places: Vec<String> =
                points.iter().map(|&(n, v)| format!("{:.1},{:.1}", x(n), y(v))).collect();
            let mark = |&(n, v): &(u32, f64)| CurveMark {
                x: number(x(n)),
                y: number(y(v)),
                procs: n,
                value: number(v),
            };
            Curve {
                name,
                colour: COLOURS[index % COLOURS.len()],
                dashes: DASHES[index / 2 % DASHES.len()],
                points: places.join(" "),
                marks: points.iter().map(mark).collect(),
                key_x: number(key_x),
                key_y: number(key_y - 4.0),
                key_text_x: number(key_x + 8.0),
                key_text_y: number(key_y),
            }
        });
        LineChart {
            title: &self.title,
            unit: self.unit,
            left,
            right: left + wide,
            middle: number(left + wide / 2.0),
            axis_y: number(axis_y),
            tick_y: number(top + high + 16.0),
            grid,
            ticks: procs.iter().map(|&n| Tick { x: number(x(n)), label: n }).collect(),
            curves: curves.collect(),
        }
    }
}

/// A round number, of which four to ten make up `largest`.
fn step(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 1.0;
    }
    let ten = 10f64.powf((largest / 4.0).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|times| times * ten).find(|step| largest / step >= 4.0).unwrap_or(ten)
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
