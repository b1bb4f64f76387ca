//! Each promise of `docs/SEMANTICS.md` names a test that exists.
//!
//! A promise is an item `- **W1** text: tests` of a list, and a test is `crate::function` in backticks. Cells of the table
//! name promises. A promise without a test, a test that is nowhere in the source of its crate, and a cell whose promise is
//! not in the list are mistakes.

use std::collections::{BTreeMap, BTreeSet};

use crate::edges;
use crate::place;
use crate::program::{Outcome, at};
use crate::source::{self, code_only};

const DOCUMENT: &str = "docs/SEMANTICS.md";

/// One line per mistake.
pub fn check() -> Outcome<Vec<String>> {
    let path = place::root().join(DOCUMENT);
    let text = at(&path, std::fs::read_to_string(&path))?;
    Ok(complaints(&text, &functions()?))
}

/// The functions of each crate.
fn functions() -> Outcome<BTreeSet<(String, String)>> {
    let mut found = BTreeSet::new();
    for path in source::files()? {
        let Some(owner) = edges::owner(&path).filter(|_| path.extension().is_some_and(|end| end == "rs"))
        else {
            continue;
        };
        let code = code_only(&at(&path, std::fs::read_to_string(&path))?);
        let names = code.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
        found.extend(names.map(|name| (owner.clone(), name.trim().to_owned())));
    }
    Ok(found)
}

fn complaints(text: &str, functions: &BTreeSet<(String, String)>) -> Vec<String> {
    let mut complaints = Vec::new();
    let promises = promises(text);
    for (promise, body) in &promises {
        let tests = tests(body);
        if tests.is_empty() {
            complaints.push(format!("{DOCUMENT}: promise {promise} names no test"));
        }
        for (owner, name) in tests {
            if !functions.contains(&(owner.clone(), name.clone())) {
                complaints.push(format!("{DOCUMENT}: promise {promise}: there is no test `{owner}::{name}`"));
            }
        }
    }
    let cells = text.lines().filter(|line| line.starts_with('|')).flat_map(names_of_promises);
    let unknown: BTreeSet<String> = cells.filter(|name| !promises.contains_key(name)).collect();
    complaints.extend(
        unknown.iter().map(|name| format!("{DOCUMENT}: the table names {name}, which is no promise")),
    );
    complaints
}

/// The items of the list, each with the lines that belong to it.
fn promises(text: &str) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        let item = line.strip_prefix("- **").and_then(|rest| rest.split_once("**"));
        if let Some((name, rest)) = item.filter(|(name, _)| names_of_promises(name) == [*name]) {
            current = Some(name.to_owned());
            found.insert(name.to_owned(), rest.to_owned());
        } else if !line.starts_with("  ") {
            current = None;
        } else if let Some(body) = current.as_ref().and_then(|name| found.get_mut(name)) {
            body.push('\n');
            body.push_str(line);
        }
    }
    found
}

/// `crate::function` in backticks.
fn tests(body: &str) -> Vec<(String, String)> {
    let quoted = body.split('`').skip(1).step_by(2);
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let pairs = quoted.filter_map(|word| word.split_once("::")).filter(|(_, name)| is_name(name));
    pairs.map(|(owner, name)| (owner.to_owned(), name.to_owned())).collect()
}

/// Words such as `W1`.
fn names_of_promises(line: &str) -> Vec<String> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric());
    let is_promise = |word: &&str| {
        let rest = word.strip_prefix(|c: char| c.is_ascii_uppercase());
        rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()))
    };
    words.filter(is_promise).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
| | killed |
|---|---|
| a write | stays (W1), or an error (W2, E9) |

- **W1** It stays, also the 2nd time: `store::it_stays`,
  `cache::it_is_nowhere`.
- **W2** It is an error of kind `ErrorKind::Io`.
- **Returned**: a word that is defined, and no promise.
";

    #[test]
    fn promises_without_tests_and_tests_that_are_nowhere_are_found() {
        let functions = BTreeSet::from([("store".to_owned(), "it_stays".to_owned())]);
        let found = complaints(TEXT, &functions);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("W1") && found[0].contains("`cache::it_is_nowhere`"));
        assert!(found[1].contains("W2 names no test"));
        assert!(found[2].contains("E9"));
    }
}
