//! No `println!` and its kind in code that runs in a server: they panic if the output cannot be written, and a log that cannot be
//! written is no reason to stop. The server's `log` is used instead.

use std::path::{Path, PathBuf};

use crate::place;
use crate::program::{Outcome, at};
use crate::source;

/// The crates whose code runs in a server.
const CRATES: &[&str] =
    &["server", "store", "cache", "namespace", "locks", "transport", "wire", "medium", "registry"];

const MACROS: &[&str] = &["println!", "eprintln!", "print!", "eprint!", "dbg!"];

/// The findings, one per line.
pub fn check() -> Outcome<Vec<String>> {
    let mut complaints = Vec::new();
    for name in CRATES {
        let root = place::root().join("crates").join(name).join("src");
        let mut sources = Vec::new();
        for path in source::files()?.into_iter().filter(|path| path.starts_with(&root)) {
            if path.extension().is_some_and(|ending| ending == "rs") {
                let text = at(&path, std::fs::read_to_string(&path))?;
                sources.push((path, text));
            }
        }
        let test_only: Vec<PathBuf> =
            sources.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
        for (path, text) in &sources {
            if !test_only
                .iter()
                .any(|module| path.starts_with(module) || *path == module.with_extension("rs"))
            {
                let lines = printing_lines(text);
                complaints.extend(lines.into_iter().map(|(line, what)| {
                    format!(
                        "{}:{line}: {what} panics if the output cannot be written; use log",
                        source::shown(path)
                    )
                }));
            }
        }
    }
    Ok(complaints)
}

/// The modules with files of their own that are compiled for tests alone: their paths without an ending.
pub fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let is_root = path.file_stem().is_some_and(|stem| stem == "lib" || stem == "mod");
    let inside = if is_root { path.with_file_name("") } else { path.with_extension("") };
    let mut lines = text.lines().map(str::trim);
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]"
            && let Some(name) = lines.next().and_then(|next| next.split("mod ").nth(1)?.strip_suffix(';'))
        {
            found.push(inside.join(name));
        }
    }
    found
}

/// The lines of code that print, up to the tests of the file.
fn printing_lines(text: &str) -> Vec<(usize, &'static str)> {
    let code = source::code_only(text);
    let tests = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
    let mut found = Vec::new();
    for (number, line) in (1..).zip(code[..tests].lines()) {
        let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '!'));
        found.extend(words.filter_map(|word| Some((number, *MACROS.iter().find(|name| **name == word)?))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_outside_of_tests_is_complained_about() {
        let text = "fn a() {\n    // println!()\n    eprintln!(\"println!\");\n}\n\n#[cfg(test)]\nmod tests {\n    fn b() { println!(); }\n}\n";
        assert_eq!(printing_lines(text), [(3, "eprintln!")]);
        assert_eq!(printing_lines("writeln!(f)?; my_println!(); print!(\"x\")"), [(1, "print!")]);
    }

    #[test]
    fn modules_for_tests_alone_are_known() {
        let text = "mod a;\n#[cfg(test)]\nmod races;\n#[cfg(test)]\npub(crate) mod tests;\n";
        let found = test_modules(Path::new("/crate/src/lib.rs"), text);
        assert_eq!(found, [PathBuf::from("/crate/src/races"), PathBuf::from("/crate/src/tests")]);
        let found = test_modules(Path::new("/crate/src/registry.rs"), "#[cfg(test)]\nmod tests;\n");
        assert_eq!(found, [PathBuf::from("/crate/src/registry/tests")]);
    }
}
