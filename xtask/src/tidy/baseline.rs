//! Known violations of a rule: a list that can only get shorter.
//!
//! `xtask/tidy-baseline.txt` has a line `check key count` for each kind of violation that is known. More violations than that
//! are an error, and so are fewer: then the list is out of date, and `cargo xtask tidy --shrink` lowers its counts. No command
//! raises a count.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::place;
use crate::program::{Failure, Outcome, at};

/// One violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which violations the baseline counts together, e.g. a word; without spaces.
    pub key: String,
    /// The defect and its place, in one line.
    pub message: String,
}

/// The known number of violations by check and key.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Baseline(BTreeMap<(String, String), usize>);

impl Baseline {
    pub fn read() -> Outcome<Baseline> {
        let path = path();
        if !path.exists() {
            return Ok(Baseline::default());
        }
        Baseline::parse(&at(&path, std::fs::read_to_string(&path))?)
    }

    fn parse(text: &str) -> Outcome<Baseline> {
        let mut counts = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let entry = match words[..] {
                [check, key, count] => count.parse::<usize>().ok().map(|count| (check, key, count)),
                _ => None,
            };
            let (check, key, count) =
                entry.ok_or_else(|| Failure::new(format!("{}: no entry: {line}", path().display())))?;
            counts.insert((check.to_owned(), key.to_owned()), count);
        }
        Ok(Baseline(counts))
    }

    /// The complaints about a check: all violations of a key that has more of them than are known, and each entry that is
    /// too large.
    pub fn compare(&self, check: &str, violations: &[Violation]) -> Vec<String> {
        let found = by_key(violations);
        let mut complaints = Vec::new();
        for (key, violations) in &found {
            let known = self.known(check, key);
            if violations.len() > known {
                complaints.extend(violations.iter().map(|violation| violation.message.clone()));
                if known > 0 {
                    complaints.push(format!("{check} {key}: {} found, {known} known", violations.len()));
                }
            }
        }
        for ((_, key), known) in self.0.iter().filter(|((of, _), _)| of == check) {
            let count = found.get(key.as_str()).map_or(0, Vec::len);
            if count < *known {
                complaints.push(format!(
                    "xtask/tidy-baseline.txt: {check} {key}: {known} known, {count} found; run cargo xtask tidy --shrink"
                ));
            }
        }
        complaints
    }

    /// Lowers the counts of a check to what was found.
    pub fn shrink(&mut self, check: &str, violations: &[Violation]) {
        let found = by_key(violations);
        for ((of, key), known) in &mut self.0 {
            if of == check {
                *known = (*known).min(found.get(key.as_str()).map_or(0, Vec::len));
            }
        }
        self.0.retain(|_, known| *known > 0);
    }

    pub fn write(&self) -> Outcome {
        let path = path();
        let mut text = String::from("# Known violations: check, key, count. The counts can only go down.\n");
        for ((check, key), count) in &self.0 {
            text.push_str(&format!("{check} {key} {count}\n"));
        }
        at(&path, std::fs::write(&path, text))
    }

    fn known(&self, check: &str, key: &str) -> usize {
        self.0.get(&(check.to_owned(), key.to_owned())).copied().unwrap_or(0)
    }
}

fn path() -> PathBuf {
    place::root().join("xtask/tidy-baseline.txt")
}

fn by_key(violations: &[Violation]) -> BTreeMap<&str, Vec<&Violation>> {
    let mut found: BTreeMap<&str, Vec<&Violation>> = BTreeMap::new();
    for violation in violations {
        found.entry(&violation.key).or_default().push(violation);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(keys: &[&str]) -> Vec<Violation> {
        keys.iter().map(|key| Violation { key: (*key).into(), message: format!("{key} is wrong") }).collect()
    }

    #[test]
    fn known_violations_pass_and_one_more_fails_with_all_their_places() {
        let baseline = Baseline::parse("words lane 2\n").unwrap();
        assert_eq!(baseline.compare("words", &violations(&["lane", "lane"])), Vec::<String>::new());
        let complaints = baseline.compare("words", &violations(&["lane", "lane", "lane", "door"]));
        let expected = [
            "door is wrong",
            "lane is wrong",
            "lane is wrong",
            "lane is wrong",
            "words lane: 3 found, 2 known",
        ];
        assert_eq!(complaints, expected);
    }

    #[test]
    fn a_violation_that_is_gone_must_leave_the_list() {
        let baseline = Baseline::parse("# head\nwords lane 2\nnames Part 1\n").unwrap();
        assert_eq!(baseline.compare("words", &violations(&["lane"])).len(), 1);
        assert_eq!(baseline.compare("names", &[]).len(), 1);
    }

    #[test]
    fn shrinking_lowers_and_removes_and_never_raises() {
        let mut baseline = Baseline::parse("names Part 1\nwords door 1\nwords lane 2\n").unwrap();
        baseline.shrink("words", &violations(&["door", "door", "door"]));
        assert_eq!(baseline, Baseline::parse("names Part 1\nwords door 1\n").unwrap());
    }

    #[test]
    fn an_entry_that_is_none_is_an_error() {
        assert!(Baseline::parse("words lane\n").is_err());
        assert!(Baseline::parse("words lane many\n").is_err());
    }
}
