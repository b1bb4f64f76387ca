//! Measurements of I/O models: words for the terminal, notes for the pictures, JSON for programs.

use crate::table::{Align, TextTable};
use pario_io_models::{Bin, Board, Measurement, Metric, Model, ModelGrid, Reducer, power, rate};
use pario_types::spell_size;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A planned model as JSON.
pub fn planned_model(model: Model, grid: &ModelGrid) -> Value {
    let mut object = model_object(model);
    object["bytes_per_proc"] = json!(grid.size() / u64::from(model.procs()));
    object["common_name"] = json!(model.common_name());
    object
}

fn model_object(model: Model) -> Value {
    json!({
        "nodes": model.nodes(),
        "ppn": model.ppn(),
        "files_per_node": model.files_per_node(),
        "shared_nodes": model.shared_nodes(),
        "procs": model.procs(),
        "procs_per_file": model.procs_per_file(),
        "files": model.files(),
    })
}

fn measurement_object(one: &Measurement) -> Value {
    let mut object = model_object(one.model);
    object["series"] = json!(one.series);
    object["repetition"] = json!(one.repetition);
    object["size"] = json!(one.size);
    object["nodes_are"] = json!(if one.real_nodes { "hosts" } else { "virtual" });
    object["open_seconds"] = json!(one.open_seconds);
    object["seconds"] = json!(one.seconds);
    object["throughput"] = json!(one.value(Metric::Throughput));
    object["efficiency"] = json!(one.value(Metric::Efficiency));
    object["per_node"] = json!(one.value(Metric::PerNode));
    object
}

/// All planned models as a table.
pub fn planned_models_table(grid: &ModelGrid) -> String {
    let head = ["NODES", "PPN", "FILES/NODE", "NODES/FILE", "PROCS", "PROCS/FILE", "FILES", "PER PROC", ""];
    let mut alignments = [Align::Right; 9];
    alignments[8] = Align::Left;
    let mut table = TextTable::with_head(&alignments, &head);
    let models = grid.models();
    for model in &models {
        let numbers = [
            model.nodes(),
            model.ppn(),
            model.files_per_node(),
            model.shared_nodes(),
            model.procs(),
            model.procs_per_file(),
            model.files(),
        ];
        let mut row: Vec<String> = numbers.map(|number| number.to_string()).into();
        row.push(spell_size(grid.size() / u64::from(model.procs())));
        row.push(model.common_name().unwrap_or_default().to_owned());
        table.row(row);
    }
    let bins: BTreeSet<Bin> = models.iter().map(|model| model.bin()).collect();
    let (count, cells, size) = (models.len(), bins.len(), spell_size(grid.size()));
    format!("{count} models in {cells} cells, each writes {size}\n{}", table.text(0))
}

/// The notes for a reader of the pictures. `planned` is the number of measurements of a complete run, if it is known.
pub fn measurement_notes(measurements: &[Measurement], planned: Option<usize>) -> Vec<String> {
    let Some(first) = measurements.first() else { return vec!["nothing was measured".to_owned()] };
    let (nodes, ppn) = first.most;
    let runs = measurements.iter().map(|one| one.repetition).max().unwrap_or(1);
    let mut notes = vec![format!(
        "{} by up to {nodes} nodes x {ppn} processes; {}; {}",
        spell_size(first.size),
        match first.real_nodes {
            true => "each node is a host",
            false => "nodes are virtual: groups of processes of one host",
        },
        match runs {
            1 => "each model ran once".to_owned(),
            runs => format!("each model ran up to {runs} times, and its median counts"),
        }
    )];
    let planned = planned.unwrap_or_else(|| expected(measurements, runs));
    if measurements.len() < planned {
        notes.push(format!("PARTIAL: {} of {planned} measurements were made", measurements.len()));
    }
    notes
}

/// The number of measurements of a complete run, as far as the measurements tell.
fn expected(measurements: &[Measurement], runs: u32) -> usize {
    let series: BTreeSet<_> = measurements.iter().map(|one| &one.series).collect();
    let Some(first) = measurements.first() else { return 0 };
    let models =
        ModelGrid::new(first.most.0, first.most.1, u64::from(first.most.0) * u64::from(first.most.1), 1);
    models.map_or(0, |grid| grid.models().len()) * series.len() * runs as usize
}

/// The best models, and how the well-known ones do.
pub fn measurements_text(boards: &[Board]) -> String {
    boards.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(board: &Board) -> String {
    let mut text = format!("{}: best throughput of each cell, B/s\n", board.series.name());
    text += &matrix(board);
    let alignments = [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left];
    let mut table = TextTable::with_head(&alignments, &["", "B/S", "PROCS", "PROCS/FILE", "NODES", ""]);
    let mut row = |what: &str, entry: &pario_io_models::BoardEntry| {
        let model = entry.model;
        table.row(vec![
            what.to_owned(),
            rate(entry.value(Metric::Throughput)),
            model.procs().to_string(),
            model.procs_per_file().to_string(),
            model.nodes().to_string(),
            model.to_string(),
        ]);
    };
    if let Some(best) = board.best(Metric::Throughput) {
        row("best throughput", best);
    }
    if let Some(best) = board.best(Metric::Efficiency) {
        row("best per node-hour", best);
    }
    for name in ["serial", "file per process", "single shared file", "file per node"] {
        let named = board.entries().filter(|entry| entry.model.common_name() == Some(name));
        let best = named
            .max_by(|one, other| one.value(Metric::Throughput).total_cmp(&other.value(Metric::Throughput)));
        if let Some(best) = best {
            row(&format!("{name} (best)"), best);
        }
    }
    text + &table.text(2)
}

/// The cells, processes per file downwards to 1.
fn matrix(board: &Board) -> String {
    let most = board.extent();
    let alignments = vec![Align::Right; usize::from(most.procs) + 2];
    let mut table = TextTable::new(&alignments);
    for per_file in (0..=most.per_file).rev() {
        let mut row = vec![format!("{} per file", power(f64::from(per_file)))];
        row.extend((0..=most.procs).map(|procs| {
            let cell = board.cell(Bin { procs, per_file });
            cell.map(|cell| rate(cell.value(Metric::Throughput, Reducer::Max))).unwrap_or_default()
        }));
        table.row(row);
    }
    let mut last = vec!["processes".to_owned()];
    last.extend((0..=most.procs).map(|procs| power(f64::from(procs))));
    table.row(last);
    table.text(2)
}

/// Everything as JSON.
pub fn measurements_object(
    measurements: &[Measurement],
    boards: &[Board],
    planned: Option<usize>,
    more: Value,
) -> Value {
    let notes = measurement_notes(measurements, planned);
    let planned = planned.unwrap_or(measurements.len());
    let rows: Vec<Value> = measurements.iter().map(measurement_object).collect();
    let boards: Vec<Value> = boards.iter().map(in_json).collect();
    json!({
        "version": 1,
        "partial": measurements.len() < planned,
        "planned": planned,
        "notes": notes,
        "run": more,
        "measurements": rows,
        "boards": boards,
    })
}

/// The name of a metric in JSON and CSV.
fn metric_key(metric: Metric) -> &'static str {
    match metric {
        Metric::Throughput => "throughput",
        Metric::Efficiency => "efficiency",
        Metric::PerNode => "per_node",
    }
}

fn in_json(board: &Board) -> Value {
    let cells: Vec<Value> = board
        .cells()
        .map(|(bin, cell)| {
            let mut value = json!({
                "log2_procs": bin.procs,
                "log2_procs_per_file": bin.per_file,
                "count": cell.entries().len(),
            });
            for metric in Metric::ALL {
                for reducer in [Reducer::Max, Reducer::Min, Reducer::Median, Reducer::Variation] {
                    value[metric_key(metric)][reducer.word()] = cell.value(metric, reducer).into();
                }
            }
            value
        })
        .collect();
    json!({ "series": board.series, "cells": cells })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_io_models::{ModelOp, Series};

    fn measured(count: usize) -> Vec<Measurement> {
        let grid = ModelGrid::new(2, 2, 1 << 20, 4096).expect("sound");
        let series = Series { target: "/d".into(), io: "posix".into(), op: ModelOp::Write };
        let one = |model: Model| Measurement {
            series: series.clone(),
            model,
            repetition: 1,
            size: 1 << 20,
            open_seconds: 0.0,
            seconds: f64::from(model.files()),
            most: (2, 2),
            real_nodes: false,
        };
        grid.models().into_iter().take(count).map(one).collect()
    }

    #[test]
    fn partial_results_are_marked() {
        assert_eq!(measurement_notes(&measured(9), None).len(), 1);
        let partial = measurement_notes(&measured(5), None);
        assert_eq!(partial[1], "PARTIAL: 5 of 9 measurements were made");
        assert_eq!(measurement_notes(&measured(9), Some(18))[1], "PARTIAL: 9 of 18 measurements were made");
        assert_eq!(measurement_notes(&[], None), ["nothing was measured"]);
    }

    #[test]
    fn the_text_names_the_best_and_the_well_known_models() {
        let text = measurements_text(&Board::all(&measured(9)));
        for word in ["best throughput", "serial (best)", "file per node (best)", "processes", "4 per file"] {
            assert!(text.contains(word), "{word}:\n{text}");
        }
    }
}
