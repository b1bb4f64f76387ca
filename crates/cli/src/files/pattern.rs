//! Names with wildcards in a partition, as a shell has them: `*`, `?` and `[a-z]` within a name, `**` for any number
//! of directories. A name that starts with a dot is matched by patterns that say so only.
//!
//! The caller brings a way to list directories; nothing is listed that cannot hold a match.

use std::collections::BTreeSet;
use std::fmt;

/// A pattern of paths in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A name, perhaps with wildcards.
    Name(Vec<Part>),
    /// Any number of directories, also none.
    Deep,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    One(char),
    Any,
    Many,
    Set { ranges: Vec<(char, char)>, without: bool },
}

/// Something in a directory: its name, and whether it is a directory itself.
pub type Listed = (String, bool);

impl Pattern {
    /// Reads a pattern. It starts at the root, with or without a slash; the root itself stands for what is in it.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let names = text.split('/').filter(|name| !name.is_empty() && *name != ".");
        let steps = names.map(|name| match name {
            ".." => Err(format!("{text:?} cannot be matched: .. leads out of the partition")),
            "**" => Ok(Step::Deep),
            name => Ok(Step::Name(parts(name))),
        });
        match text {
            "" => Err("an empty pattern matches nothing; / is everything".to_owned()),
            _ => Ok(Pattern { text: text.to_owned(), steps: steps.collect::<Result<_, _>>()? }),
        }
    }

    /// The paths that match, each with a slash before each of its names, in order; none of them is within
    /// another. `list` says what is in a directory.
    pub fn expand<E>(
        &self,
        list: &mut impl FnMut(&str) -> Result<Vec<Listed>, E>,
    ) -> Result<BTreeSet<String>, E> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut todo = vec![(String::new(), 0)];
        while let Some((path, step)) = todo.pop() {
            if !seen.insert((path.clone(), step)) {
                continue;
            }
            let last = step + 1 >= self.steps.len();
            match self.steps.get(step) {
                None if path.is_empty() => {
                    found.extend(list("/")?.into_iter().map(|(name, _)| format!("/{name}")));
                }
                None => {
                    found.insert(path);
                }
                Some(Step::Deep) => {
                    let below = list(if path.is_empty() { "/" } else { &path })?;
                    let directories = below.into_iter().filter(|(_, is_directory)| *is_directory && !last);
                    todo.extend(directories.map(|(name, _)| (format!("{path}/{name}"), step)));
                    todo.push((path, step + 1));
                }
                Some(Step::Name(parts)) => {
                    let listed = list(if path.is_empty() { "/" } else { &path })?;
                    let fits = |(name, is_directory): &Listed| {
                        (last || *is_directory) && is_match(parts, &name.chars().collect::<Vec<_>>())
                    };
                    let fitting = listed.into_iter().filter(fits);
                    todo.extend(fitting.map(|(name, _)| (format!("{path}/{name}"), step + 1)));
                }
            }
        }
        Ok(outermost(found))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Without those that are within others.
pub fn outermost(paths: BTreeSet<String>) -> BTreeSet<String> {
    let above = |path: &str| path.match_indices('/').any(|(at, _)| at > 0 && paths.contains(&path[..at]));
    paths.iter().filter(|path| !above(path)).cloned().collect()
}

fn parts(name: &str) -> Vec<Part> {
    let chars: Vec<char> = name.chars().collect();
    let mut parts = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let (part, len) = match chars[at] {
            '*' => (Part::Many, 1),
            '?' => (Part::Any, 1),
            '[' => set(&chars[at..]).unwrap_or((Part::One('['), 1)),
            other => (Part::One(other), 1),
        };
        parts.push(part);
        at += len;
    }
    parts
}

/// `[abc]`, `[a-z]`, `[!a-z]`, and how many characters that takes; a bracket that is not closed is none.
fn set(chars: &[char]) -> Option<(Part, usize)> {
    let without = matches!(chars.get(1), Some('!' | '^'));
    let first = 1 + usize::from(without);
    // A bracket that comes first is one of the set.
    let end = first + 1 + chars.get(first + 1..)?.iter().position(|c| *c == ']')?;
    let mut ranges = Vec::new();
    let mut at = first;
    while at < end {
        match chars[at..end] {
            [from, '-', to, ..] => {
                ranges.push((from, to));
                at += 3;
            }
            _ => {
                ranges.push((chars[at], chars[at]));
                at += 1;
            }
        }
    }
    Some((Part::Set { ranges, without }, end + 1))
}

fn is_match(parts: &[Part], name: &[char]) -> bool {
    if name.first() == Some(&'.') && parts.first() != Some(&Part::One('.')) {
        return false;
    }
    // Where the last star stands, and how much of the name it has taken: only that has to be tried again.
    let (mut part, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        match (parts.get(part), name.get(at)) {
            (None, None) => return true,
            (Some(Part::Many), _) => {
                star = Some((part, at));
                part += 1;
            }
            (Some(one), Some(c)) if fits(one, *c) => {
                part += 1;
                at += 1;
            }
            _ => match star {
                Some((place, taken)) if taken < name.len() => {
                    star = Some((place, taken + 1));
                    (part, at) = (place + 1, taken + 1);
                }
                _ => return false,
            },
        }
    }
}

fn fits(part: &Part, c: char) -> bool {
    match part {
        Part::One(one) => *one == c,
        Part::Any => true,
        Part::Many => false,
        Part::Set { ranges, without } => {
            ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *without
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    const FILES: &[&str] = &[
        "/a.nc",
        "/b.nc",
        "/.hidden",
        "/run/1/out.dat",
        "/run/1/log",
        "/run/2/out.dat",
        "/run/2/deep/out.dat",
    ];

    fn list(directory: &str) -> Result<Vec<Listed>, Infallible> {
        let prefix = format!("{}/", directory.trim_end_matches('/'));
        let below = FILES.iter().filter_map(|file| file.strip_prefix(&prefix));
        let entries: BTreeSet<_> = below
            .map(|rest| match rest.split_once('/') {
                Some((name, _)) => (name.to_owned(), true),
                None => (rest.to_owned(), false),
            })
            .collect();
        Ok(entries.into_iter().collect())
    }

    fn found(pattern: &str) -> String {
        let Ok(found) = Pattern::parse(pattern).expect("a pattern").expand(&mut list);
        found.into_iter().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn patterns_find_files_and_directories() {
        for (pattern, expected) in [
            ("a.nc", "/a.nc"),
            ("/a.nc", "/a.nc"),
            ("*.nc", "/a.nc /b.nc"),
            ("?.nc", "/a.nc /b.nc"),
            ("[!a].nc", "/b.nc"),
            ("*", "/a.nc /b.nc /run"),
            (".*", "/.hidden"),
            ("/", "/.hidden /a.nc /b.nc /run"),
            ("**", "/.hidden /a.nc /b.nc /run"),
            ("run", "/run"),
            ("run/*/out.dat", "/run/1/out.dat /run/2/out.dat"),
            ("**/out.dat", "/run/1/out.dat /run/2/deep/out.dat /run/2/out.dat"),
            ("run/2/**", "/run/2"),
            ("run/**/deep", "/run/2/deep"),
            ("a.nc/*", ""),
            ("c*", ""),
        ] {
            assert_eq!(found(pattern), expected, "{pattern}");
        }
        assert!(Pattern::parse("").is_err() && Pattern::parse("a/../b").is_err());
    }

    #[test]
    fn what_is_within_another_is_left_out() {
        let paths = ["/a", "/a-b", "/a/b", "/a/b/c", "/c/d"].map(str::to_owned);
        let left: Vec<_> = outermost(paths.into()).into_iter().collect();
        assert_eq!(left, ["/a", "/a-b", "/c/d"]);
    }

    /// By definition: a star is nothing, or any one character and a star.
    fn naive(parts: &[Part], name: &[char]) -> bool {
        match (parts.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((Part::Many, rest)), None) => naive(rest, name),
            (Some((Part::Many, rest)), Some((_, tail))) => naive(rest, name) || naive(parts, tail),
            (Some((one, rest)), Some((c, tail))) => fits(one, *c) && naive(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matches_are_as_defined(pattern in "[ab*?]{0,8}(\\[!?[ab]\\])?[ab*]{0,3}", name in "[ab]{0,10}") {
            let (parts, name) = (parts(&pattern), name.chars().collect::<Vec<_>>());
            prop_assert_eq!(is_match(&parts, &name), naive(&parts, &name));
        }

        #[test]
        fn anything_is_a_pattern_or_refused(text in "\\PC{0,20}") {
            let _ = Pattern::parse(&text).map(|pattern| pattern.expand(&mut list));
        }
    }
}
