//! Every term of `docs/GLOSSARY.md` exists in code.
//!
//! A term is a list item `- **term**: meaning`. An item may name the identifier that stands for the term in code in backticks; without
//! one, the words of the term joined by `_`, or in `CamelCase`, must occur in a name.

use std::collections::BTreeSet;

use crate::place;
use crate::program::{Outcome, at};
use crate::source::{self, code_only};

const DOCUMENT: &str = "docs/GLOSSARY.md";

/// One line per term that is not in the code.
pub fn check() -> Outcome<Vec<String>> {
    let path = place::root().join(DOCUMENT);
    let text = at(&path, std::fs::read_to_string(&path))?;
    let mut names = BTreeSet::new();
    for path in source::files()?.iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let code = code_only(&at(path, std::fs::read_to_string(path))?);
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned);
        names.extend(words.filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_')));
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        names.extend(name);
    }
    Ok(complaints(&text, &names))
}

fn complaints(text: &str, names: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut terms = 0;
    for (term, identifiers) in text.lines().filter_map(entry) {
        terms += 1;
        if identifiers.is_empty() {
            let (snake, camel) = (snake(&term), camel(&term));
            let known = names.iter().any(|name| name.contains(&camel) || contains_words(name, &snake));
            if !known {
                complaints.push(format!("{DOCUMENT}: `{term}` is in no name of the code"));
            }
        }
        for identifier in identifiers {
            if !names.contains(&identifier) {
                complaints.push(format!("{DOCUMENT}: {term}: `{identifier}` is not in the code"));
            }
        }
    }
    if terms == 0 {
        complaints.push(format!("{DOCUMENT}: it has no terms"));
    }
    complaints
}

/// A term and the identifiers that its item names: the last part of each path in backticks.
fn entry(line: &str) -> Option<(String, Vec<String>)> {
    let (term, rest) = line.strip_prefix("- **")?.split_once("**")?;
    let is_name = |word: &&str| word.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':');
    let quoted = rest.split('`').skip(1).step_by(2).filter(is_name);
    let identifiers = quoted.filter_map(|path| path.rsplit("::").next()).map(str::to_owned);
    Some((term.to_owned(), identifiers.collect()))
}

fn snake(term: &str) -> String {
    term.to_lowercase().split_whitespace().collect::<Vec<_>>().join("_")
}

fn camel(term: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    };
    term.split_whitespace().map(capital).collect()
}

/// `name` has the words next to each other, not inside of longer words.
fn contains_words(name: &str, words: &str) -> bool {
    format!("_{name}_").contains(&format!("_{words}_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_without_a_name_in_the_code_are_found() {
        let names = ["PlacedFile", "pool_size", "FileGroup"].map(str::to_owned);
        let text = "- **placed file**: a.\n- **pool**: b.\n- **team**: c, `mpiio::FileGroup`.\n\
                    - **seat**: d.\n- **lease**: e, `Lease`.\n";
        let found = complaints(text, &BTreeSet::from(names));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`seat`") && found[1].contains("`Lease`"));
    }

    #[test]
    fn a_glossary_without_terms_is_a_mistake() {
        assert_eq!(complaints("# Glossary\n", &BTreeSet::new()).len(), 1);
    }
}
