//! Where `unsafe` is allowed. All other crates must say `#![forbid(unsafe_code)]`, and this check makes sure that they do.

use std::path::Path;

use crate::edges;
use crate::place;
use crate::program::{Outcome, at};
use crate::source::{self, code_only, shown};

/// Crates whose work needs it: the program's memory, system calls, the host's C functions, our C symbols.
const CRATES: &[&str] = &["buffer", "posix", "runtime", "shm", "mpi-host", "capi"];

/// Single files in crates that are otherwise free of it. Such a crate says `deny`, and the file `allow`.
const FILES: &[&str] = &[
    "crates/cli/src/signal.rs",
    "crates/registry/src/sys.rs",
    "crates/fault-simulation/src/child.rs",
    "crates/server/src/simulated/sys.rs",
    "crates/server/src/sys.rs",
    "crates/trace/src/sys.rs",
    "crates/transport/src/simulated/listener.rs",
    "crates/transport/src/simulated/stream.rs",
    "crates/transport/src/sys.rs",
];

/// One line per `unsafe` in any other file, and per crate that does not forbid it.
pub fn check() -> Outcome<Vec<String>> {
    let mut complaints = Vec::new();
    for path in source::files()?.iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        if may_hold_unsafe(path) {
            continue;
        }
        let text = at(path, std::fs::read_to_string(path))?;
        complaints.extend(
            uses(&text)
                .into_iter()
                .map(|line| format!("{}:{line}: `unsafe` is not allowed here", shown(path))),
        );
    }
    for name in edges::crates()? {
        if !CRATES.contains(&name.as_str()) {
            complaints.extend(without_the_word(&place::root().join("crates").join(name))?);
        }
    }
    complaints.extend(without_the_word(&place::root().join("xtask"))?);
    Ok(complaints)
}

fn may_hold_unsafe(path: &Path) -> bool {
    FILES.contains(&shown(path).as_str())
        || edges::owner(path).is_some_and(|name| CRATES.contains(&name.as_str()))
}

/// The numbers, from 1, of the lines with the keyword.
fn uses(text: &str) -> Vec<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let code = code_only(text);
    let lines = code.lines().zip(1..);
    lines
        .filter(|(line, _)| line.split(|c| !is_word(c)).any(|word| word == "unsafe"))
        .map(|(_, number)| number)
        .collect()
}

/// Complains about a crate root that does not say `#![forbid(unsafe_code)]`.
fn without_the_word(dir: &Path) -> Outcome<Vec<String>> {
    let excepted = FILES.iter().any(|file| {
        let file = place::root().join(file);
        file.starts_with(dir) && file.exists()
    });
    let word = if excepted { "deny" } else { "forbid" };
    let mut complaints = Vec::new();
    for root in ["src/lib.rs", "src/main.rs"].map(|root| dir.join(root)) {
        if !root.exists() {
            continue;
        }
        let text = at(&root, std::fs::read_to_string(&root))?;
        let attribute = format!("#![{word}(unsafe_code)]");
        if !code_only(&text).contains(&attribute) {
            complaints.push(format!("{}: {attribute} is missing", shown(&root)));
        }
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::uses;

    #[test]
    fn only_the_keyword_counts() {
        let text =
            "#![forbid(unsafe_code)]\n// unsafe\nlet s = \"unsafe\";\nunsafe { f() }\nunsafe fn g() {}\n";
        assert_eq!(uses(text), [4, 5]);
    }
}
