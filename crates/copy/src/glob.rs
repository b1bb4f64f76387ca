//! Patterns of paths in a partition, as a shell has them: `*`, `?` and `[a-z]` within a name, `**` for any number of
//! directories. Only a pattern that begins with a dot matches a name that does.
//!
//! Names are matched by `globset`. The walk is our own: the caller lists directories, and only those are listed that can
//! contain a match.

use globset::{GlobBuilder, GlobMatcher};
use std::collections::BTreeSet;
use std::fmt;

/// A pattern of paths in a partition.
#[derive(Clone, Debug)]
pub struct GlobPattern {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    /// A name, perhaps with wildcards.
    Name(NameGlob),
    /// Any number of directories, also none.
    AnyDepth,
}

/// A pattern of one name.
#[derive(Clone, Debug)]
struct NameGlob {
    matcher: GlobMatcher,
    begins_with_dot: bool,
}

/// An entry of a directory: its name, and whether it is a directory itself.
pub type ListedName = (String, bool);

impl GlobPattern {
    /// Parses a pattern. It starts at the root, with or without a slash; the root itself stands for its entries.
    pub fn parse(text: &str) -> Result<GlobPattern, String> {
        let names = text.split('/').filter(|name| !name.is_empty() && *name != ".");
        let steps = names.map(|name| match name {
            ".." => Err(format!("{text:?} cannot be matched: .. leads out of the partition")),
            "**" => Ok(Step::AnyDepth),
            name => NameGlob::parse(name).map(Step::Name),
        });
        match text {
            "" => Err("an empty pattern matches nothing; / is everything".to_owned()),
            _ => Ok(GlobPattern { text: text.to_owned(), steps: steps.collect::<Result<_, _>>()? }),
        }
    }

    /// The paths that match, in order and with a slash before each name; none of them is below another. `list` returns
    /// the entries of a directory.
    pub fn expand<E>(
        &self,
        list: &mut impl FnMut(&str) -> Result<Vec<ListedName>, E>,
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
                Some(Step::AnyDepth) => {
                    let below = list(if path.is_empty() { "/" } else { &path })?;
                    let directories = below.into_iter().filter(|(_, is_directory)| *is_directory && !last);
                    todo.extend(directories.map(|(name, _)| (format!("{path}/{name}"), step)));
                    todo.push((path, step + 1));
                }
                Some(Step::Name(glob)) => {
                    let listed = list(if path.is_empty() { "/" } else { &path })?;
                    let fits =
                        |(name, is_directory): &ListedName| (last || *is_directory) && glob.is_match(name);
                    let fitting = listed.into_iter().filter(fits);
                    todo.extend(fitting.map(|(name, _)| (format!("{path}/{name}"), step + 1)));
                }
            }
        }
        Ok(outermost(found))
    }
}

impl fmt::Display for GlobPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The paths without those that are below others.
pub fn outermost(paths: BTreeSet<String>) -> BTreeSet<String> {
    let has_ancestor =
        |path: &str| path.match_indices('/').any(|(at, _)| at > 0 && paths.contains(&path[..at]));
    paths.iter().filter(|path| !has_ancestor(path)).cloned().collect()
}

impl PartialEq for GlobPattern {
    fn eq(&self, other: &GlobPattern) -> bool {
        self.text == other.text
    }
}

impl Eq for GlobPattern {}

impl NameGlob {
    fn parse(name: &str) -> Result<NameGlob, String> {
        let glob = GlobBuilder::new(&shell_syntax(name)).backslash_escape(false).build();
        let matcher =
            glob.map_err(|error| format!("{name:?} is no pattern: {}", error.kind()))?.compile_matcher();
        Ok(NameGlob { matcher, begins_with_dot: name.starts_with('.') })
    }

    fn is_match(&self, name: &str) -> bool {
        (self.begins_with_dot || !name.starts_with('.')) && self.matcher.is_match(name)
    }
}

/// The pattern for `globset`, which knows more than we want: braces and brackets that do not close stand for
/// themselves, and `**` within a name is `*`.
fn shell_syntax(name: &str) -> String {
    let mut text = String::new();
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '[' => set_len(rest),
            _ => None,
        };
        match (c, len) {
            (_, Some(len)) => text.push_str(&rest[..len]),
            ('[' | '{' | '}' | ',', None) => text.extend(['[', c, ']']),
            ('*', None) if text.ends_with('*') => {}
            (c, None) => text.push(c),
        }
        rest = &rest[len.unwrap_or(c.len_utf8())..];
    }
    text
}

/// The length of the set at the beginning of the text; `None` if it does not close. A bracket that comes first belongs
/// to the set.
fn set_len(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let inner = inner.strip_prefix(['!', '^']).unwrap_or(inner);
    let mut chars = inner.char_indices().skip(1);
    let end = chars.find(|(_, c)| *c == ']').map(|(at, _)| at)?;
    Some(text.len() - inner.len() + end + 1)
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

    fn list(directory: &str) -> Result<Vec<ListedName>, Infallible> {
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
        let Ok(found) = GlobPattern::parse(pattern).expect("a pattern").expand(&mut list);
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
        assert!(GlobPattern::parse("").is_err() && GlobPattern::parse("a/../b").is_err());
    }

    #[test]
    fn paths_below_others_are_left_out() {
        let paths = ["/a", "/a-b", "/a/b", "/a/b/c", "/c/d"].map(str::to_owned);
        let left: Vec<_> = outermost(paths.into()).into_iter().collect();
        assert_eq!(left, ["/a", "/a-b", "/c/d"]);
    }

    /// By definition: a star is nothing, or any one character and a star.
    fn naive(pattern: &str, name: &str) -> bool {
        let mut chars = pattern.chars();
        let (first, rest) = (chars.next(), chars.as_str());
        let mut tail = name.chars();
        let (c, tail) = (tail.next(), tail.as_str());
        match (first, c) {
            (None, c) => c.is_none(),
            (Some('*'), None) => naive(rest, name),
            (Some('*'), Some(_)) => naive(rest, name) || naive(pattern, tail),
            (Some('['), Some(c)) => {
                let (set, rest) = rest.split_once(']').expect("a closed set");
                let fits = match set.strip_prefix('!') {
                    Some(set) => !set.contains(c),
                    None => set.contains(c),
                };
                fits && naive(rest, tail)
            }
            (Some(one), Some(c)) => (one == '?' || one == c) && naive(rest, tail),
            (Some(_), None) => false,
        }
    }

    #[test]
    fn only_stars_question_marks_and_sets_are_special() {
        let is_match =
            |pattern: &str, name: &str| NameGlob::parse(pattern).is_ok_and(|glob| glob.is_match(name));
        for name in ["{a,b}", "a\\b", "a[b", "[", "a{b", "a}b"] {
            assert!(is_match(name, name), "{name}");
        }
        assert!(
            !is_match("{a,b}", "a")
                && is_match("[]]", "]")
                && is_match("[!]a]", "b")
                && is_match("[^a]", "b")
        );
        assert!(
            !is_match("*", ".a") && !is_match("?a", ".a") && !is_match("[.]a", ".a") && is_match(".?", ".a")
        );
        assert!(NameGlob::parse("[z-a]").is_err());
    }

    proptest! {
        #[test]
        fn matches_are_as_defined(pattern in "[ab*?]{0,8}(\\[!?[ab]\\])?[ab*]{0,3}", name in "[ab]{0,10}") {
            // Two stars are one, as `**` alone has another meaning.
            let glob = NameGlob::parse(&pattern).expect("a pattern");
            prop_assert_eq!(glob.is_match(&name), naive(&pattern, &name));
        }

        #[test]
        fn anything_is_a_pattern_or_refused(text in "\\PC{0,20}") {
            let _ = GlobPattern::parse(&text).map(|pattern| pattern.expand(&mut list));
        }
    }
}
