//! One self-contained page: a picture whose series, metric and reducer can be chosen, and the models of a cell.
//!
//! The page computes nothing. Every value, label and colour of every choice lies in it as JSON, made by the same
//! code as the SVG files; the script puts the chosen ones into the cells. What is chosen stands in the address
//! (`#series=0&metric=efficiency&reducer=median&cell=6,3`), so a view can be linked to, and a test needs no mouse.

use crate::color;
use crate::model_charts::{self, ChartChoice};
use crate::page::escaped;
use pario_io_models::{Board, Mark, Metric, Reducer, rate};
use serde_json::{Map, Value, json};

const PAGE: &str = include_str!("../templates/models.html");

/// The page.
pub fn model_page(boards: &[Board], mark: Option<&Mark>, notes: &[String]) -> String {
    let data = json!({
        "metrics": Metric::ALL.map(Metric::word),
        "reducers": Reducer::ALL.map(Reducer::word),
        "boards": boards.iter().map(board).collect::<Vec<_>>(),
    });
    let first = ChartChoice { metric: Metric::Throughput, reducer: Reducer::Max };
    let pictures: String = boards
        .iter()
        .enumerate()
        .map(|(number, board)| {
            let (width, height) = model_charts::size(board);
            let hidden = if number == 0 { "" } else { " hidden" };
            format!(
                "<svg class=\"picture\" data-board=\"{number}\"{hidden} width=\"{width}\" height=\"{height}\" \
                 viewBox=\"0 0 {width} {height}\">\n{}</svg>\n",
                model_charts::panel(board, number, first, mark)
            )
        })
        .collect();
    let notes: String = notes.iter().map(|note| format!("<p>{}</p>\n", escaped(note))).collect();
    // Within a script only `<` could end it or open a comment.
    let data = data.to_string().replace('<', "\\u003c");
    PAGE.replace("@NOTES@", &notes).replace("@PICTURES@", &pictures).replace("@DATA@", &data)
}

fn board(board: &Board) -> Value {
    let mut titles = Map::new();
    for metric in Metric::ALL {
        for reducer in Reducer::ALL {
            titles.insert(key(metric, reducer), ChartChoice { metric, reducer }.title().into());
        }
    }
    let cells: Vec<Value> = board
        .cells()
        .map(|(bin, cell)| {
            let mut shown = Map::new();
            for metric in Metric::ALL {
                for reducer in Reducer::ALL {
                    let value = cell.value(metric, reducer);
                    let (fill, ink) = color::of(value, board.range(metric, reducer));
                    let label = ChartChoice { metric, reducer }.label(value);
                    shown.insert(key(metric, reducer), json!([value.to_string(), label, fill, ink]));
                }
            }
            let models: Vec<Value> = cell.entries().iter().map(|entry| {
            let model = entry.model;
            let values = Metric::ALL.map(|metric| rate(entry.value(metric)));
            json!({
                "numbers": [
                    model.nodes(), model.ppn(), model.files_per_node(), model.shared_nodes(), model.files(),
                ],
                "name": model.common_name().unwrap_or(""),
                "values": values,
                "runs": entry.runs,
            })
        }).collect();
            json!({ "cell": format!("{},{}", bin.procs, bin.per_file), "shown": shown, "models": models })
        })
        .collect();
    json!({ "name": board.series.name(), "titles": titles, "cells": cells })
}

fn key(metric: Metric, reducer: Reducer) -> String {
    format!("{} {}", metric.word(), reducer.word())
}
