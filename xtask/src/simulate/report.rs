//! The lines and functions that ran, from LLVM's report in the format of lcov.

use std::collections::BTreeMap;
use std::path::Path;

/// The crates of which histories run the production code.
const CRATES: &[&str] = &[
    "client",
    "server",
    "cache",
    "store",
    "medium",
    "namespace",
    "transport",
    "registry",
    "launch",
    "check",
    "copy",
    "locks",
    "wire",
    "shm",
];

/// A source file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CodeFile {
    /// Its lines with code.
    lines: BTreeMap<u32, bool>,
    /// The first lines of its functions.
    functions: BTreeMap<u32, bool>,
}

/// Source files by their paths within the repository: which lines and functions ran.
#[derive(Debug, Default)]
pub struct CodeReport(BTreeMap<String, CodeFile>);

impl CodeReport {
    /// Reads a report; other files than those of the [crates](CRATES) are left out, and so is what checks the code in simulations.
    pub fn parse(text: &str, root: &Path) -> CodeReport {
        let mut report = CodeReport::default();
        // The file, and the first lines of its functions by their names: generic functions have several.
        let (mut path, mut starts) = (None, BTreeMap::new());
        for line in text.lines() {
            let Some((kind, rest)) = line.split_once(':') else { continue };
            if kind == "SF" {
                let within = Path::new(rest).strip_prefix(root).ok().and_then(Path::to_str);
                path = within.filter(|path| is_production(path)).map(str::to_owned);
                starts.clear();
                continue;
            }
            let Some(path) = &path else { continue };
            let file = report.0.entry(path.clone()).or_default();
            let Some((first, second)) = rest.split_once(',') else { continue };
            match kind {
                "DA" => add(&mut file.lines, first.parse().ok(), second != "0"),
                "FN" => drop(starts.insert(second, first)),
                "FNDA" => {
                    let start = starts.get(second).and_then(|start| start.parse().ok());
                    add(&mut file.functions, start, first != "0");
                }
                _ => {}
            }
        }
        report
    }

    fn files_of(&self, name: &str) -> impl Iterator<Item = (&String, &CodeFile)> {
        let directory = format!("crates/{name}/");
        self.0.iter().filter(move |(path, _)| path.starts_with(&directory))
    }
}

fn add(items: &mut BTreeMap<u32, bool>, line: Option<u32>, is_reached: bool) {
    if let Some(line) = line {
        *items.entry(line).or_default() |= is_reached;
    }
}

fn is_production(path: &str) -> bool {
    CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
        && !path.ends_with("/invariants.rs")
        && !path.contains("/simulated")
        && !path.contains("/tests/")
}

/// The numbers of reached lines and of lines with code.
fn count<'a>(files: impl Iterator<Item = &'a CodeFile>) -> (usize, usize) {
    files.fold((0, 0), |(reached, all), file| {
        (reached + file.lines.values().filter(|reached| **reached).count(), all + file.lines.len())
    })
}

fn percent((reached, all): (usize, usize)) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * reached as f64 / all as f64 }
}

/// A row for each crate, as Markdown.
pub fn table(report: &CodeReport) -> String {
    let mut text = String::from("| crate | lines reached | lines with code | percent |\n|---|---|---|---|\n");
    let mut row = |name: &str, numbers: (usize, usize)| {
        text.push_str(&format!("| {name} | {} | {} | {:.1} |\n", numbers.0, numbers.1, percent(numbers)));
    };
    for name in CRATES {
        row(name, count(report.files_of(name).map(|(_, file)| file)));
    }
    row("all", count(report.0.values()));
    text
}

/// Each file with its percentage, and under it the functions that were never reached.
pub fn unreached(report: &CodeReport, root: &Path) -> String {
    let mut text = String::new();
    for (path, file) in &report.0 {
        let numbers = count(std::iter::once(file));
        text.push_str(&format!("{path}: {} of {} lines, {:.1} %\n", numbers.0, numbers.1, percent(numbers)));
        let source = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let source: Vec<&str> = source.lines().collect();
        for (line, _) in file.functions.iter().filter(|(_, reached)| !**reached) {
            let code = source.get(*line as usize - 1).map_or("", |code| code.trim());
            text.push_str(&format!("  {line}: {}\n", code.trim_end_matches(" {")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
SF:/there/crates/cache/src/pool.rs
FN:3,_one
FN:3,_other_instance
FN:9,_two
FNDA:0,_one
FNDA:7,_other_instance
FNDA:0,_two
DA:3,7
DA:4,0
DA:9,0
end_of_record
SF:/there/crates/cache/src/invariants.rs
DA:1,1
end_of_record
SF:/elsewhere/crates/cache/src/table.rs
DA:1,1
end_of_record
";

    #[test]
    fn lines_and_functions_of_production_files_are_counted() {
        let report = CodeReport::parse(REPORT, Path::new("/there"));
        let [(path, file)] = &report.0.iter().collect::<Vec<_>>()[..] else { panic!("{report:?}") };
        assert_eq!(*path, "crates/cache/src/pool.rs");
        assert_eq!(file.functions, BTreeMap::from([(3, true), (9, false)]));
        let text = table(&report);
        assert!(
            text.contains("| cache | 1 | 3 | 33.3 |") && text.contains("| all | 1 | 3 | 33.3 |"),
            "{text}"
        );
        assert!(unreached(&report, Path::new("/nowhere")).contains("  9: "));
    }
}
