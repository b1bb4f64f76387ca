//! Rules about texts: `ARCHITECTURE.md` names every crate, source files stay small, and no path of one developer's machine
//! gets in.

use std::path::Path;

use crate::edges;
use crate::place;
use crate::program::{Outcome, at};
use crate::source::{self, shown};
use crate::tidy::baseline::Violation;

/// A longer source file has more than one idea.
const MOST_LINES: usize = 600;

const SOURCE: &[&str] = &["rs", "c", "h", "f90", "py"];

/// Written in two parts, so that this file passes its own check.
const PRIVATE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("../sha", "red")];

/// Documents whose paths of source files must exist.
const MAPS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions"];

/// One line per broken rule.
pub fn check() -> Outcome<Vec<String>> {
    let mut complaints = unnamed_crates()?;
    for path in source::files()? {
        let bytes = at(&path, std::fs::read(&path))?;
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        complaints.extend(private_paths(&path, &text));
        if MAPS.iter().any(|map| shown(&path).starts_with(map)) {
            let exists =
                |file: &str| ["", "crates"].iter().any(|dir| place::root().join(dir).join(file).exists());
            complaints.extend(missing_files(&path, &text, exists));
        }
    }
    Ok(complaints)
}

/// Paths of source files in backticks, such as `mpiio/src/open.rs`, that do not exist.
fn missing_files(path: &Path, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let lines = text.lines().zip(1..);
    let files =
        lines.flat_map(|(line, number)| line.split('`').skip(1).step_by(2).map(move |file| (file, number)));
    let is_source = |file: &str| file.contains('/') && !file.starts_with("src/") && file.ends_with(".rs");
    let missing = files.filter(|(file, _)| is_source(file) && !exists(file));
    missing.map(|(file, number)| format!("{}:{number}: there is no {file}", shown(path))).collect()
}

/// One violation per source file that is too long.
pub fn long_files() -> Outcome<Vec<Violation>> {
    let mut found = Vec::new();
    for path in source::files()? {
        let bytes = at(&path, std::fs::read(&path))?;
        found.extend(String::from_utf8(bytes).ok().and_then(|text| too_long(&path, &text)));
    }
    Ok(found)
}

fn unnamed_crates() -> Outcome<Vec<String>> {
    let path = place::root().join("ARCHITECTURE.md");
    let text = at(&path, std::fs::read_to_string(&path))?;
    let names = edges::crates()?.into_iter().filter(|name| !text.contains(&format!("`{name}`")));
    Ok(names.map(|name| format!("ARCHITECTURE.md: the crate `{name}` is not on the map")).collect())
}

fn private_paths(path: &Path, text: &str) -> Vec<String> {
    let lines = text.lines().zip(1..);
    let bad = lines.filter(|(line, _)| PRIVATE_PATHS.iter().any(|private| line.contains(private)));
    bad.map(|(_, number)| format!("{}:{number}: a path of one developer's machine", shown(path))).collect()
}

fn too_long(path: &Path, text: &str) -> Option<Violation> {
    let extension = path.extension()?.to_str()?;
    let lines = text.lines().count();
    if !SOURCE.contains(&extension) || lines <= MOST_LINES {
        return None;
    }
    let message = format!("{}: {lines} lines, and {MOST_LINES} is the limit", shown(path));
    Some(Violation { key: shown(path), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_files_over_the_limit_are_found() {
        let long = "x\n".repeat(MOST_LINES + 1);
        assert!(too_long(Path::new("a.rs"), &long).is_some());
        assert!(too_long(Path::new("a.rs"), &long[2..]).is_none());
        assert!(too_long(Path::new("a.md"), &long).is_none());
    }

    #[test]
    fn files_that_do_not_exist_are_found() {
        let text = "in `a/src/here.rs`,\n`a/src/gone.rs` and `src/lib.rs`, not a/src/other.rs\n";
        let found = missing_files(Path::new("x.md"), text, |file| file == "a/src/here.rs");
        assert_eq!(found, ["x.md:2: there is no a/src/gone.rs"]);
    }

    #[test]
    fn private_paths_are_found() {
        let text = format!("a\n{}x\n", PRIVATE_PATHS[0]);
        assert_eq!(private_paths(Path::new("a.rs"), &text).len(), 1);
    }
}
