//! Pictures show what the measurements say: cells are read back from them and compared with values that are
//! computed here, naively, from the CSV text.

use pario_io_models::{Board, Mark, Measurement, Metric, Model, ModelGrid, ModelOp, Reducer, Series};
use pario_reports::{measurement_csv as csv, model_charts, model_page};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn measurements(nodes: u32, ppn: u32, seconds: &mut dyn FnMut() -> f64) -> Vec<Measurement> {
    let grid = ModelGrid::new(nodes, ppn, 1 << 30, 4096).expect("sound");
    let mut all = Vec::new();
    for repetition in 1..=3 {
        for model in grid.models() {
            for op in ModelOp::ALL {
                let target = "/a \"b\", <c> & 'd'\n".to_owned();
                all.push(Measurement {
                    series: Series { target, io: "posix".to_owned(), op },
                    model,
                    repetition,
                    size: grid.size(),
                    open_seconds: seconds() / 7.0,
                    seconds: seconds(),
                    most: (nodes, ppn),
                    real_nodes: op == ModelOp::Read,
                });
            }
        }
    }
    all
}

fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % 100_000) as f64 / 12_345.678 + 0.001
    }
}

/// The attributes of each cell of a picture.
fn cells(text: &str) -> Vec<BTreeMap<String, String>> {
    let tags = text.split("<g class=\"cell\" ").skip(1).map(|rest| rest.split('>').next().expect("a tag"));
    tags.map(|tag| {
        let mut parts = tag.split('"');
        let mut attributes = BTreeMap::new();
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            let name = name.trim().trim_end_matches('=').trim_start_matches("data-");
            attributes.insert(name.to_owned(), value.to_owned());
        }
        attributes
    })
    .collect()
}

/// (cell, metric, reducer) to value, from the columns of the CSV, with none of the library's own arithmetic.
fn naive(text: &str, op: &str) -> BTreeMap<(u32, u32), Vec<[f64; 3]>> {
    let mut runs: BTreeMap<[u32; 4], Vec<[f64; 3]>> = BTreeMap::new();
    for line in text.replace("\"/a \"\"b\"\", <c> & 'd'\n\"", "T").lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        if fields[2] == op {
            let model = [7, 8, 9, 10].map(|column| fields[column].parse().expect("a number"));
            let values = [18, 19, 20].map(|column| fields[column].parse().expect("a number"));
            runs.entry(model).or_default().push(values);
        }
    }
    let mut cells: BTreeMap<(u32, u32), Vec<[f64; 3]>> = BTreeMap::new();
    for ([nodes, ppn, files, shared], runs) in runs {
        let middle = [0, 1, 2].map(|metric| {
            let mut values: Vec<f64> = runs.iter().map(|run| run[metric]).collect();
            values.sort_by(f64::total_cmp);
            assert_eq!(values.len(), 3);
            values[1]
        });
        let bin = ((nodes * ppn).ilog2(), (shared * ppn / files).ilog2());
        cells.entry(bin).or_default().push(middle);
    }
    cells
}

fn reduced(values: &[f64], reducer: &str) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (count, half) = (sorted.len(), sorted.len() / 2);
    let mean = sorted.iter().sum::<f64>() / count as f64;
    match reducer {
        "max" => sorted[count - 1],
        "min" => sorted[0],
        "median" => (sorted[half] + sorted[(count - 1) / 2]) / 2.0,
        "count" => count as f64,
        "variation" => {
            let squares: f64 = sorted.iter().map(|value| (value - mean) * (value - mean)).sum();
            (squares / count as f64).sqrt() / mean
        }
        other => panic!("{other}"),
    }
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

/// Checks a picture's cells against the CSV; how many there were.
fn check(picture: &str, csv: &str) -> usize {
    let naive = ["write", "read"].map(|op| naive(csv, op));
    let cells = cells(picture);
    for cell in &cells {
        let number = |name: &str| cell[name].parse::<u32>().expect("a number");
        let metric =
            ["throughput", "efficiency", "per-node"].iter().position(|word| **word == cell["metric"]);
        let entries = &naive[number("series") as usize][&(number("procs"), number("per-file"))];
        let values: Vec<f64> = entries.iter().map(|entry| entry[metric.expect("a metric")]).collect();
        let value: f64 = cell["value"].parse().expect("a number");
        assert!(near(value, reduced(&values, &cell["reducer"])), "{cell:?}");
        assert_eq!(number("count") as usize, values.len());
    }
    cells.len()
}

#[test]
fn every_cell_of_every_picture_can_be_computed_from_the_csv() {
    let measured = measurements(32, 16, &mut random(7));
    let text = csv::write(&measured);
    let boards = Board::all(&csv::read(&text).expect("readable"));
    for reducer in Reducer::ALL {
        let picture = model_charts(&boards, reducer, None, &["a <note>".to_owned()]);
        assert_eq!(check(&picture, &text), 55 * 3 * 2, "{reducer:?}");
        assert!(picture.contains("a &lt;note&gt;"));
    }
    let page = model_page(&boards, None, &[]);
    assert_eq!(check(&page, &text), 55 * 2);
}

#[test]
fn the_page_holds_every_choice_and_nothing_from_outside() {
    let measured = measurements(4, 4, &mut random(9));
    let boards = Board::all(&measured);
    let page = model_page(&boards, None, &["<script>alert(1)</script>".to_owned()]);
    let data =
        page.split("type=\"application/json\">").nth(1).and_then(|rest| rest.split("</script>").next());
    let data: serde_json::Value = serde_json::from_str(data.expect("data")).expect("JSON");
    for (board, shown) in boards.iter().zip(data["boards"].as_array().expect("boards")) {
        for ((bin, cell), shown) in board.cells().zip(shown["cells"].as_array().expect("cells")) {
            assert_eq!(shown["cell"], format!("{},{}", bin.procs, bin.per_file));
            assert_eq!(shown["models"].as_array().expect("models").len(), cell.entries().len());
            for metric in Metric::ALL {
                for reducer in Reducer::ALL {
                    let value = &shown["shown"][format!("{} {}", metric.word(), reducer.word())][0];
                    let value: f64 = value.as_str().expect("text").parse().expect("a number");
                    assert_eq!(value, cell.value(metric, reducer));
                }
            }
        }
    }
    for outside in ["http://", "https://", "<script>alert", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn efficiency_is_throughput_per_node_hour() {
    let model = Model::new(4, 2, 1, 1).expect("sound");
    let series = Series { target: "t".into(), io: "posix".into(), op: ModelOp::Write };
    let one = Measurement {
        series,
        model,
        repetition: 1,
        size: 7200,
        open_seconds: 0.0,
        seconds: 1800.0,
        most: (4, 2),
        real_nodes: false,
    };
    // 4 B/s for half an hour on 4 nodes.
    assert_eq!(Metric::ALL.map(|metric| one.value(metric)), [4.0, 2.0, 1.0]);
}

#[test]
fn a_text_that_is_no_csv_of_ours_says_where() {
    let text = csv::write(&measurements(1, 2, &mut random(1)));
    let why = |text: &str| csv::read(text).expect_err("unreadable").to_string();
    assert_eq!(why(""), "row 1: there is nothing");
    assert_eq!(why(&text.replace("seconds,throughput", "x,throughput")), "row 2: there is no column seconds");
    assert_eq!(why(&text.replacen("write", "wirte", 1)), "row 2: op cannot be \"wirte\"");
    assert_eq!(why(&format!("{text}1,2\n")), "row 20: 2 fields where the first row has 21");
    let rows = text.replace("virtual,1,2,1,1,1,1,1,", "virtual,1,2,1,1,1,2,1,");
    assert!(why(&rows).contains("no such model"), "{}", why(&rows));
    assert_eq!(csv::read(&text.replace('\n', "\r\n").replace("'d'\r\n", "'d'\n")), csv::read(&text));
}

#[test]
fn a_program_is_placed_by_who_moved_what_where() {
    let moved = |list: &[(u32, &str, u64)]| {
        list.iter().map(|(rank, file, bytes)| ((*rank, (*file).to_owned()), *bytes)).collect()
    };
    assert_eq!(Mark::of(&moved(&[(0, "a", 0)])), None);
    let alone = Mark::of(&moved(&[(0, "a", 5), (1, "b", 5), (2, "c", 0)])).expect("some");
    assert_eq!((alone.procs, alone.per_file), (1.0, 0.0));
    // Three quarters of the bytes are in a file of four, the rest in one of a single process.
    let mixed: Vec<_> = (0..4).map(|rank| (rank, "all", 75)).chain([(0, "log", 100)]).collect();
    let mixed = Mark::of(&moved(&mixed)).expect("some");
    assert_eq!((mixed.procs, mixed.per_file.exp2()), (2.0, 3.25));

    let boards = Board::all(&measurements(4, 4, &mut random(5)));
    let gap = mixed.gap(&boards[0], Metric::Throughput).expect("cells");
    assert_eq!((gap.nearest.procs, gap.nearest.per_file), (2, 2));
    let best = boards[0].cells().map(|(_, cell)| cell.value(Metric::Throughput, Reducer::Max));
    assert_eq!(gap.there, best.fold(0.0, f64::max));
    let here = boards[0].cell(gap.nearest).expect("there").value(Metric::Throughput, Reducer::Max);
    assert_eq!(gap.here, here);
    let picture = model_charts(&boards, Reducer::Max, Some(&mixed), &[]);
    assert_eq!(picture.matches("class=\"mark\"").count(), 6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn measurements_read_back_as_they_were(seed: u64, target in "\\PC{0,12}[\",\n]?") {
        let mut all = measurements(2, 2, &mut random(seed));
        all.iter_mut().for_each(|one| one.series.target.clone_from(&target));
        prop_assert_eq!(csv::read(&csv::write(&all)), Ok(all));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = csv::read(&text);
        let head = csv::write(&[]);
        let _ = csv::read(&(head + &text));
    }
}
