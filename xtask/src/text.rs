//! Rules about texts: `ARCHITECTURE.md` names every crate, files stay small, and nothing that is only true
//! on one developer's machine gets in.

use std::path::Path;

use crate::edges;
use crate::place;
use crate::program::{Outcome, at};
use crate::source::{self, shown};

/// Longer than this, a source file has surely more than one idea.
const MOST_LINES: usize = 800;
/// Longer than this, it may have.
const MANY_LINES: usize = 600;

const SOURCE: &[&str] = &["rs", "c", "h", "f90", "py"];

/// Written in two parts, so that this file passes its own check.
const PRIVATE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("../sha", "red")];

/// One line per broken rule.
pub fn check() -> Outcome<Vec<String>> {
    let mut complaints = unnamed_crates()?;
    for path in source::files()? {
        let bytes = at(&path, std::fs::read(&path))?;
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        complaints.extend(private_paths(&path, &text));
        complaints.extend(too_long(&path, &text));
    }
    Ok(complaints)
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

fn too_long(path: &Path, text: &str) -> Option<String> {
    let extension = path.extension()?.to_str()?;
    let lines = text.lines().count();
    if !SOURCE.contains(&extension) || lines <= MANY_LINES {
        return None;
    }
    if lines <= MOST_LINES {
        println!("{}: {lines} lines; more than one idea? (a warning only)", shown(path));
        return None;
    }
    Some(format!("{}: {lines} lines, and {MOST_LINES} is the limit", shown(path)))
}
