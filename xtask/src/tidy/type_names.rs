//! No two library crates export a type of the same name.
//!
//! A type is exported if it is declared `pub` in `lib.rs`, in a module that is `pub` like all modules around it, or if a `pub use` of
//! its crate names it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::baseline::Violation;
use crate::edges;
use crate::place;
use crate::program::{Outcome, at};
use crate::source::{self, code_only};

/// Names that mean the same in every crate.
const AGREED: &[&str] = &["Error", "ErrorKind", "Result"];

/// One violation per name and crate.
pub fn check() -> Outcome<Vec<Violation>> {
    let mut exporters: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in edges::crates()? {
        for exported in exported(&name)? {
            exporters.entry(exported).or_default().insert(name.clone());
        }
    }
    Ok(shared(&exporters))
}

fn shared(exporters: &BTreeMap<String, BTreeSet<String>>) -> Vec<Violation> {
    let shared =
        exporters.iter().filter(|(name, crates)| crates.len() > 1 && !AGREED.contains(&name.as_str()));
    let line = |(name, crates): (&String, &BTreeSet<String>)| {
        let crates: Vec<&str> = crates.iter().map(String::as_str).collect();
        let message = format!("the public type `{name}` is in {}: one name, one thing", crates.join(", "));
        Violation { key: name.clone(), message }
    };
    shared.map(line).collect()
}

/// The names of all types that a crate exports; none if it is no library.
fn exported(name: &str) -> Outcome<BTreeSet<String>> {
    let src = place::root().join("crates").join(name).join("src");
    if !src.join("lib.rs").exists() {
        return Ok(BTreeSet::new());
    }
    let mut files = BTreeMap::new();
    for path in source::files()?.into_iter().filter(|path| path.starts_with(&src)) {
        let code = code_only(&at(&path, std::fs::read_to_string(&path))?);
        files.insert(module_path(path.strip_prefix(&src).unwrap_or(&path)), code);
    }
    Ok(exported_by(&files))
}

/// The types that a crate exports, whose files are given by their module path; that of `lib.rs` is empty.
fn exported_by(files: &BTreeMap<Vec<String>, String>) -> BTreeSet<String> {
    let reexported: BTreeSet<&str> = files.values().flat_map(|code| reexports(code)).collect();
    let mut exported = BTreeSet::new();
    for (module, code) in files {
        let public = is_public(module, files);
        let names = declarations(code).filter(|name| public || reexported.contains(name));
        exported.extend(names.map(str::to_owned));
    }
    exported
}

/// Whether the module and all modules around it are declared `pub`.
fn is_public(module: &[String], files: &BTreeMap<Vec<String>, String>) -> bool {
    let Some((name, parent)) = module.split_last() else { return true };
    let declares = |code: &String| code.lines().any(|line| word_after(line, "pub mod ") == Some(name));
    files.get(parent).is_some_and(declares) && is_public(parent, files)
}

/// The names of the modules that lead to a file of `src`.
fn module_path(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = path
        .with_extension("")
        .components()
        .map(|name| name.as_os_str().to_string_lossy().into_owned())
        .collect();
    if names.last().is_some_and(|name| ["lib", "mod"].contains(&name.as_str())) {
        names.pop();
    }
    names
}

/// Types declared `pub` outside functions and `impl` blocks (where an associated type is indented as well).
fn declarations(code: &str) -> impl Iterator<Item = &str> {
    const KINDS: [&str; 5] = ["pub struct ", "pub enum ", "pub trait ", "pub union ", "pub type "];
    code.lines().filter_map(|line| KINDS.iter().find_map(|kind| word_after(line, kind)))
}

/// The names in all `pub use …;` of the file.
fn reexports(code: &str) -> Vec<&str> {
    let uses = code.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let words = uses.flat_map(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with(char::is_uppercase)).collect()
}

fn word_after<'a>(line: &'a str, start: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(start)?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> BTreeMap<Vec<String>, String> {
        files.iter().map(|(path, code)| (module_path(Path::new(path)), (*code).to_owned())).collect()
    }

    #[test]
    fn types_of_public_modules_and_reexported_ones_are_exported() {
        let root = "pub mod open;\nmod closed;\npub use closed::{Named, other::Deep};\npub struct Root;\n";
        let open = "mod inner;\npub mod shown;\npub enum Seen {}\nstruct Own;\n    pub type Item = u8;\n";
        let files = files(&[
            ("lib.rs", root),
            ("open/mod.rs", open),
            ("open/inner.rs", "pub struct Inner;\npub(crate) struct Other;\n"),
            ("open/shown.rs", "pub union Shown {}\n"),
            (
                "closed.rs",
                "pub mod deeper;\npub struct Named<T>(T);\npub trait Deep {}\npub type Hidden = u8;\n",
            ),
            ("closed/deeper.rs", "pub struct Unseen;\n"),
        ]);
        let found: Vec<String> = exported_by(&files).into_iter().collect();
        assert_eq!(found, ["Deep", "Named", "Root", "Seen", "Shown"]);
    }

    #[test]
    fn a_name_of_two_crates_is_a_violation_unless_agreed() {
        let both = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let one = BTreeSet::from(["a".to_owned()]);
        let exporters =
            [("Error", both.clone()), ("Part", both), ("View", one)].map(|(name, of)| (name.to_owned(), of));
        let found = shared(&BTreeMap::from(exporters));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].key, "Part");
    }
}
