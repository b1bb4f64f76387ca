//! Pages that `pario` writes, as a browser shows them: Chromium loads the page, runs its script and writes out what
//! became of it. The selection is part of the address, so each selection is one visit.

use pario_conformance::{BOTH, Scratch, SourceKind, compile_text, execute, libpario, pario, scratch};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// A page in a directory of its own, which is also the browser's.
struct Page {
    dir: Scratch,
}

impl Page {
    fn write(dir: Scratch, arguments: &[&str]) -> Page {
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
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--enable-logging=stderr",
            ])
            .arg(format!("--user-data-dir={}", self.dir.join("profile").display()))
            .arg(format!("file://{}#{choice}", self.dir.join("page.html").display()))
            .env("HOME", self.dir.path());
        let output = execute(command, Duration::from_secs(60)).expect_success();
        assert!(!output.stderr.contains(":CONSOLE"), "the browser complains: {}", output.stderr);
        output.stdout
    }
}

/// The attributes of a tag, of which `rest` is all behind its first attribute's name.
fn attributes(rest: &str) -> BTreeMap<String, String> {
    let mut parts = rest.split('>').next().expect("a tag").split('"').skip(1);
    let mut attributes = BTreeMap::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        attributes.insert(name.trim().trim_end_matches('=').to_owned(), value.to_owned());
    }
    attributes
}

/// The attributes of each cell of the picture that is shown.
fn cells(document: &str) -> Vec<BTreeMap<String, String>> {
    let pictures = document.split("<svg class=\"picture\"").skip(1);
    let shown = pictures.filter(|picture| !picture.split('>').next().expect("a tag").contains("hidden"));
    let shown: Vec<&str> = shown.collect();
    assert_eq!(shown.len(), 1, "one picture is shown");
    let tags = shown[0].split("<g class=\"cell").skip(1);
    tags.map(|rest| {
        let mut attributes = attributes(rest);
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
fn the_page_of_io_models_shows_the_selected_ones() {
    let page = Page::write(
        scratch(),
        &[
            "models", "--size", "256K", "--nodes", "4", "--ppn", "2", "--stripe", "4K", "--reads", "--csv",
            "m.csv",
        ],
    );
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

/// Each rank writes eight blocks of 64 KiB in turns, and reads 1000 bytes at the start of the file again and again.
const TURNS: &str = r#"
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, ranks;
    MPI_File file;
    char *data = calloc(1, 65536);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_File_open(MPI_COMM_WORLD, "out.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    for (int step = 0; step < 8; step++)
        MPI_File_write_at(file, (MPI_Offset)65536 * (step * ranks + rank), data, 65536, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int again = 0; again < 300; again++)
        MPI_File_read_at(file, 0, data, 1000, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
"#;

/// The cells of a picture: bytes or nanoseconds that were read and written, by rank and place.
fn picture(document: &str, class: &str) -> BTreeMap<(u32, u64), (u64, u64)> {
    let start = format!("<svg class=\"{class}\"");
    let pictures: Vec<&str> = document.split(&start).skip(1).collect();
    assert_eq!(pictures.len(), 1, "one {class} is shown");
    let picture = pictures[0].split("</svg>").next().expect("a picture");
    let cells = picture.split("<rect class=\"cell").skip(1).map(|rest| {
        let attributes = attributes(rest);
        let number = |name: &str| attributes[name].parse::<u64>().expect("a number");
        ((number("data-rank") as u32, number("data-cell")), (number("data-read"), number("data-written")))
    });
    cells.collect()
}

#[test]
fn the_profile_report_shows_ranks_operations_times_and_offsets() {
    const RANKS: u64 = 2;
    const CELLS: u64 = 160;
    const BLOCK: u64 = 65536;
    let host = BOTH[0];
    let program = compile_text(host, "report.c", TURNS, SourceKind::C, &[]);
    let dir = scratch();
    let mut command = Command::new(pario());
    command.args(["profile", "-n", "2", "--", program.to_str().expect("a path")]);
    command.current_dir(dir.path()).env("PARIO_LIB", libpario());
    execute(command, Duration::from_secs(60)).expect_success();
    let page = Page::write(dir, &["advise", "pario-trace"]);
    let document = page.visit("");

    // Every byte is in the cell of its place.
    let cell = 16 * BLOCK / CELLS + 1;
    let mut wanted: BTreeMap<(u32, u64), (u64, u64)> = BTreeMap::new();
    for byte in 0..16 * BLOCK {
        let rank = byte / BLOCK % RANKS;
        wanted.entry((rank as u32, byte / cell)).or_default().1 += 1;
    }
    for rank in 0..2 {
        wanted.entry((rank, 0)).or_default().0 += 300 * 1000;
    }
    assert_eq!(picture(&document, "heat"), wanted);

    // All that each rank did is somewhere in its time, and writes begin before reads do.
    let timeline = picture(&document, "timeline");
    for rank in 0..2 {
        let row = || timeline.iter().filter(move |((of, cell), _)| *of == rank && *cell < CELLS);
        let first =
            |pick: fn(&(u64, u64)) -> u64| row().find(|(_, busy)| pick(busy) > 0).map(|((_, cell), _)| *cell);
        let (reads, writes) = (first(|busy| busy.0), first(|busy| busy.1));
        assert!(writes.is_some() && reads.is_some() && writes <= reads, "rank {rank}: {timeline:?}");
    }
    assert_eq!(document.matches("<div class=\"advice").count(), 1, "{document}");
    assert!(document.contains("<b>independent</b>"), "small accesses in turns are spoken of");
    assert_eq!(document.matches("<tr>").count(), 2, "a heading and a file");
}
