//! Pages that `pario` writes, as a browser shows them: Chromium loads the page, runs its script and writes out what
//! became of it. What is chosen stands in the address, so each choice is one visit.

use pario_conformance::{Scratch, execute, pario, scratch};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// A page in a directory of its own, which is also the browser's.
struct Page {
    dir: Scratch,
}

impl Page {
    fn write(arguments: &[&str]) -> Page {
        let dir = scratch();
        let mut command = Command::new(pario());
        command.args(arguments).args(["--html", "page.html"]).current_dir(dir.path());
        let output = command.output().expect("pario runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Page { dir }
    }

    /// The document when it is visited with this choice.
    fn visit(&self, choice: &str) -> String {
        let mut command = Command::new("chromium");
        command
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .arg(format!("--user-data-dir={}", self.dir.join("profile").display()))
            .arg(format!("file://{}#{choice}", self.dir.join("page.html").display()))
            .env("HOME", self.dir.path());
        let output = execute(command, Duration::from_secs(60));
        output.expect_success().stdout
    }
}

/// The attributes of each cell of the picture that is shown.
fn cells(document: &str) -> Vec<BTreeMap<String, String>> {
    let pictures = document.split("<svg class=\"picture\"").skip(1);
    let shown = pictures.filter(|picture| !picture.split('>').next().expect("a tag").contains("hidden"));
    let shown: Vec<&str> = shown.collect();
    assert_eq!(shown.len(), 1, "one picture is shown");
    let tags = shown[0].split("<g class=\"cell").skip(1);
    tags.map(|rest| {
        let mut parts = rest.split('>').next().expect("a tag").split('"').skip(1);
        let mut attributes = BTreeMap::new();
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            attributes.insert(name.trim().trim_end_matches('=').to_owned(), value.to_owned());
        }
        let text = rest.split("</text>").next().and_then(|rest| rest.rsplit('>').next());
        attributes.insert("text".to_owned(), text.expect("a label").to_owned());
        attributes
    })
    .collect()
}

/// Throughput, efficiency and throughput per node of each model of each cell, from the CSV of one run each.
fn measured(csv: &str, op: &str) -> BTreeMap<(u32, u32), Vec<[f64; 3]>> {
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a first row");
    let column = |name: &str| head.iter().position(|found| *found == name).expect("a column");
    let mut cells: BTreeMap<(u32, u32), Vec<[f64; 3]>> = BTreeMap::new();
    for row in rows.filter(|row| row[column("op")] == op) {
        let log = |name| row[column(name)].parse::<u32>().expect("a number").ilog2();
        let values = ["throughput", "efficiency", "per_node"];
        let values = values.map(|name| row[column(name)].parse().expect("a number"));
        cells.entry((log("procs"), log("procs_per_file"))).or_default().push(values);
    }
    cells
}

fn reduced(mut values: Vec<f64>, reducer: &str) -> f64 {
    values.sort_by(f64::total_cmp);
    let (count, last) = (values.len() as f64, values.len() - 1);
    let mean = values.iter().sum::<f64>() / count;
    match reducer {
        "max" => values[last],
        "min" => values[0],
        "median" => (values[last / 2] + values[values.len() / 2]) / 2.0,
        "count" => count,
        "variation" => (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt() / mean,
        other => panic!("{other}"),
    }
}

#[test]
fn the_page_of_models_shows_what_is_chosen() {
    let page = Page::write(&[
        "models", "--size", "256K", "--nodes", "4", "--ppn", "2", "--stripe", "4K", "--reads", "--csv",
        "m.csv",
    ]);
    let csv = std::fs::read_to_string(page.dir.join("m.csv")).expect("written");
    for (choice, op, metric, reducer) in [
        ("", "write", "throughput", "max"),
        ("metric=efficiency&reducer=median", "write", "efficiency", "median"),
        ("metric=per-node&reducer=variation&series=1", "read", "per-node", "variation"),
        ("metric=throughput&reducer=count&cell=2,1", "write", "throughput", "count"),
    ] {
        let document = page.visit(choice);
        let (shown, wanted) = (cells(&document), measured(&csv, op));
        assert_eq!((shown.len(), wanted.len()), (10, 10), "{choice}");
        let place = ["throughput", "efficiency", "per-node"].iter().position(|word| *word == metric);
        let mut labels = BTreeMap::new();
        for cell in &shown {
            let number = |name: &str| cell[name].parse::<f64>().expect("a number");
            let entries = &wanted[&(number("data-procs") as u32, number("data-per-file") as u32)];
            let values = entries.iter().map(|entry| entry[place.expect("a metric")]).collect();
            let (value, wanted) = (number("data-value"), reduced(values, reducer));
            assert!((value - wanted).abs() <= 1e-9 * wanted.abs(), "{choice}: {cell:?}, not {wanted}");
            assert_eq!((cell["data-metric"].as_str(), cell["data-reducer"].as_str()), (metric, reducer));
            labels.insert((cell["data-procs"].clone(), cell["data-per-file"].clone()), cell["text"].clone());
        }
        if reducer == "count" {
            let key = ("2".to_owned(), "1".to_owned());
            assert_eq!(labels[&key], wanted[&(2, 1)].len().to_string());
            assert_eq!(document.matches("<tr class=\"model\">").count(), wanted[&(2, 1)].len());
            assert!(document.contains("<h2>4 processes, 2 per file</h2>"));
        }
    }
}
