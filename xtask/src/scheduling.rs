//! Threads, locks, clocks and files of clients and servers come from the crate `runtime` alone, so that a simulation controls all of them.

use crate::place;
use crate::prints::test_modules;
use crate::program::{Outcome, at};
use crate::source;

/// The crates that run in simulations.
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
];

/// Files that a simulation replaces, or whose threads it never starts.
const REPLACED: &[&str] = &[
    "crates/transport/src/stream.rs",
    "crates/transport/src/listener.rs",
    "crates/transport/src/fork.rs",
    "crates/server/src/sys.rs",
    "crates/launch/src/signals.rs",
    "crates/launch/src/on_demand.rs",
];

/// Modules that no simulation uses.
const UNUSED: &[&str] = &["crates/launch/src/mpi_program/"];

/// What the code must not name, and what to use instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("std::thread", "pario_runtime::thread"),
    ("parking_lot", "pario_runtime::sync"),
    ("sync::Mutex", "pario_runtime::sync::Mutex"),
    ("sync::Condvar", "pario_runtime::sync::Condvar"),
    ("sync::RwLock", "pario_runtime::sync::RwLock"),
    ("mpsc", "pario_runtime::sync::mpsc"),
    ("time::Instant", "pario_runtime::time::Instant"),
    ("time::SystemTime", "pario_runtime::time::SystemTime"),
    ("process::abort", "pario_runtime::abort"),
    ("std::process", "pario_runtime::process"),
    ("std::fs", "pario_runtime::fs"),
    ("rustix::fs", "pario_runtime::fs"),
    ("Path::exists", "pario_runtime::fs::exists"),
    (".exists()", "pario_runtime::fs::exists"),
    (".try_exists()", "pario_runtime::fs::exists"),
    (".canonicalize()", "pario_runtime::fs::canonicalize"),
    ("path.is_dir()", "pario_runtime::fs::metadata"),
    ("path.is_file()", "pario_runtime::fs::metadata"),
    ("path.metadata()", "pario_runtime::fs::metadata"),
];

/// The findings, one per line.
pub fn check() -> Outcome<Vec<String>> {
    let mut complaints = Vec::new();
    let roots: Vec<_> =
        CRATES.iter().map(|name| place::root().join("crates").join(name).join("src")).collect();
    let mut sources = Vec::new();
    for path in source::files()? {
        let is_ours = roots.iter().any(|root| path.starts_with(root));
        if is_ours && path.extension().is_some_and(|ending| ending == "rs") {
            let text = at(&path, std::fs::read_to_string(&path))?;
            sources.push((path, text));
        }
    }
    let test_only: Vec<_> = sources.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    for (path, text) in &sources {
        let is_test =
            |module: &std::path::PathBuf| path.starts_with(module) || *path == module.with_extension("rs");
        let shown = source::shown(path);
        if test_only.iter().any(is_test) || REPLACED.contains(&shown.as_str()) || is_unused(&shown) {
            continue;
        }
        let lines = forbidden_lines(text);
        complaints.extend(
            lines.into_iter().map(|(line, what, instead)| format!("{shown}:{line}: {what}: use {instead}")),
        );
    }
    Ok(complaints)
}

fn is_unused(path: &str) -> bool {
    UNUSED.iter().any(|module| path.starts_with(module))
}

/// The lines that name something forbidden, up to the tests of the file.
fn forbidden_lines(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let code = source::code_only(text);
    let tests = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
    let mut found = Vec::new();
    for (number, line) in (1..).zip(code[..tests].lines()) {
        let line = expand(line);
        for (what, instead) in FORBIDDEN {
            if line.contains(what) && !line.contains("pario_runtime") {
                found.push((number, *what, *instead));
            }
        }
    }
    found
}

/// `use std::sync::{Arc, Mutex}` with every name behind its path.
fn expand(line: &str) -> String {
    let Some((path, names)) = line.split_once("::{") else { return line.to_owned() };
    let module = path.rsplit([':', ' ']).next().unwrap_or_default();
    let names = names.split([',', '}', ' ']).map(|name| format!("{module}::{name} "));
    format!("{path}:: {}", names.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_locks_of_others_are_found() {
        let lines = |text: &str| forbidden_lines(text).into_iter().map(|(line, ..)| line).collect::<Vec<_>>();
        assert_eq!(
            lines("use std::sync::{Arc, Mutex};\nuse std::sync::Arc;\nstd::thread::sleep(time);"),
            [1, 3]
        );
        assert_eq!(lines("use std::{fs, io};\nlet a = path.exists();\nuse std::fs::File;"), [1, 2, 3]);
        assert_eq!(lines("use std::time::{Duration, Instant};\nuse std::time::Duration;"), [1]);
        assert!(
            lines("use pario_runtime::sync::Mutex;\nlet x = pario_runtime::thread::spawn(f);").is_empty()
        );
        assert!(
            lines("// std::thread::spawn\n#[cfg(test)]\nmod tests {\n    use std::sync::Mutex;\n}")
                .is_empty()
        );
    }
}
