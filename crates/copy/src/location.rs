//! The notation of paths: on this host or in a partition.
//!
//! `NAME:/path` and `pario:NAME/path` are in the partition NAME, `pario:/path` is in the default partition
//! (PARIO_PARTITION). `ufs:path` and everything else is a path of this host; a leading `./` makes any name one.

use crate::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Where a file or directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// On this host.
    Host(PathBuf),
    /// In a partition.
    Partition(PartitionPath),
}

/// A path in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionPath {
    /// The partition's name.
    pub partition: String,
    /// The path there: `/`, or names with a slash before each.
    pub path: String,
}

impl Location {
    /// Parses what the user wrote. `default` is the partition of `pario:/path`.
    pub fn parse(text: &OsStr, default: Option<&str>) -> Result<Location, Error> {
        if let Some(path) = text.as_bytes().strip_prefix(b"ufs:") {
            return Ok(Location::Host(OsStr::from_bytes(path).into()));
        }
        let Some(written) = text.to_str() else { return Ok(Location::Host(text.into())) };
        let named = match written.strip_prefix("pario:") {
            Some(rest) => {
                let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
                let name = match name {
                    "" => default.ok_or_else(|| Error::NoDefaultPartition(written.to_owned()))?,
                    name if is_name(name) => name,
                    _ => return Err(Error::BadName { text: written.to_owned(), name: name.to_owned() }),
                };
                Some((name, path))
            }
            None => written.split_once(':').filter(|(name, path)| is_name(name) && is_absolute(path)),
        };
        Ok(match named {
            Some((name, path)) => {
                Location::Partition(PartitionPath { partition: name.to_owned(), path: normal(path) })
            }
            None => Location::Host(text.into()),
        })
    }
}

impl PartitionPath {
    /// Parses what the user wrote, which has to be in a partition.
    pub fn parse(text: &OsStr, default: Option<&str>) -> Result<PartitionPath, Error> {
        match Location::parse(text, default)? {
            Location::Partition(path_in) => Ok(path_in),
            Location::Host(path) => Err(Error::NotInPartition(path)),
        }
    }

    /// Parses several of them.
    pub fn parse_all(texts: &[OsString], default: Option<&str>) -> Result<Vec<PartitionPath>, Error> {
        texts.iter().map(|text| PartitionPath::parse(text, default)).collect()
    }

    /// The last name of the path; the root has none.
    pub fn name(&self) -> Option<&str> {
        self.path.rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// The path of an entry of this directory.
    pub fn join(&self, name: &str) -> PartitionPath {
        PartitionPath { partition: self.partition.clone(), path: join(&self.path, name) }
    }
}

impl fmt::Display for PartitionPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.path)
    }
}

/// The path of an entry of a directory in a partition.
pub fn join(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

/// Whether a partition may have this name: the rule of partition files.
fn is_name(text: &str) -> bool {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    text.len() <= 64 && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(sound)
}

/// Whether a path starts at the root. An empty one is the root.
fn is_absolute(path: &str) -> bool {
    path.is_empty() || path.starts_with('/')
}

/// The path with one slash before each name, and without `.` and `..`; the parent of the root is the root. A partition
/// has no links, so the result names the same file.
fn normal(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Location, Error> {
        Location::parse(OsStr::new(text), Some("usual"))
    }

    #[test]
    fn names_and_prefixes_name_partitions() {
        for (text, expected) in [
            ("scratch:/a/b", "scratch:/a/b"),
            ("scratch:", "scratch:/"),
            ("scratch:/", "scratch:/"),
            ("scratch://a//b/", "scratch:/a/b"),
            ("scratch:/a/./b/../c", "scratch:/a/c"),
            ("scratch:/../..", "scratch:/"),
            ("pario:scratch/a", "scratch:/a"),
            ("pario:scratch", "scratch:/"),
            ("pario:/a", "usual:/a"),
            ("pario:", "usual:/"),
            ("s-1.x_y:/ä b", "s-1.x_y:/ä b"),
        ] {
            match parse(text) {
                Ok(Location::Partition(path_in)) => assert_eq!(path_in.to_string(), expected, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn everything_else_is_on_this_host() {
        for (text, path) in [
            ("a", "a"),
            ("/a:/b", "/a:/b"),
            ("./scratch:/a", "./scratch:/a"),
            ("scratch:a", "scratch:a"),
            (":/a", ":/a"),
            ("-x:/a", "-x:/a"),
            ("a b:/c", "a b:/c"),
            ("", ""),
            ("ufs:scratch:/a", "scratch:/a"),
            ("ufs:/a", "/a"),
        ] {
            assert_eq!(parse(text).unwrap(), Location::Host(path.into()), "{text}");
        }
        let bytes = OsStr::from_bytes(b"s:/\xff");
        assert_eq!(Location::parse(bytes, None).unwrap(), Location::Host(bytes.into()));
    }

    #[test]
    fn missing_and_bad_names_are_errors() {
        assert!(matches!(Location::parse(OsStr::new("pario:/a"), None), Err(Error::NoDefaultPartition(_))));
        assert!(matches!(parse("pario:-x/a"), Err(Error::BadName { .. })));
        assert!(matches!(PartitionPath::parse(OsStr::new("a"), None), Err(Error::NotInPartition(_))));
    }

    #[test]
    fn a_path_has_a_last_name() {
        let Ok(Location::Partition(root)) = parse("s:/") else { panic!() };
        assert_eq!((root.name(), root.join("a").join("b").path.as_str()), (None, "/a/b"));
        assert_eq!(root.join("a").name(), Some("a"));
    }

    proptest! {
        #[test]
        fn a_shown_path_parses_back(name in "[a-z0-9][a-z0-9._-]{0,10}", path in "(/[^/\0]{1,5}){0,4}") {
            prop_assume!(name != "pario" && name != "ufs");
            let Ok(Location::Partition(path_in)) = parse(&format!("{name}:{path}")) else { panic!() };
            prop_assert_eq!(parse(&path_in.to_string()).unwrap(), Location::Partition(path_in.clone()));
            let prefixed = format!("pario:{name}{path}");
            prop_assert_eq!(parse(&prefixed).unwrap(), Location::Partition(path_in));
        }
    }
}
