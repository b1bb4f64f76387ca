//! Where a file is: on this host or in a partition, and how users write that.
//!
//! `NAME:/path` and `pario:NAME/path` lie in the partition NAME, `pario:/path` in the one that
//! PARIO_PARTITION names. `ufs:path` and everything else is a path of this host; `./` in front makes any
//! name one.

use super::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Where a file or directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// On this host.
    Here(PathBuf),
    /// In a partition.
    There(Spot),
}

/// A place in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The partition's name.
    pub partition: String,
    /// The path there: `/`, or names with a slash before each.
    pub path: String,
}

impl Address {
    /// Reads what the user wrote. `usual` is the partition of `pario:/path`.
    pub fn parse(text: &OsStr, usual: Option<&str>) -> Result<Address, Error> {
        if let Some(path) = text.as_bytes().strip_prefix(b"ufs:") {
            return Ok(Address::Here(OsStr::from_bytes(path).into()));
        }
        let Some(written) = text.to_str() else { return Ok(Address::Here(text.into())) };
        let spot = match written.strip_prefix("pario:") {
            Some(rest) => {
                let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
                let name = match name {
                    "" => usual.ok_or_else(|| Error::NoUsualPartition(written.to_owned()))?,
                    name if is_name(name) => name,
                    _ => return Err(Error::NoName { text: written.to_owned(), name: name.to_owned() }),
                };
                Some((name, path))
            }
            None => written.split_once(':').filter(|(name, path)| is_name(name) && is_absolute(path)),
        };
        Ok(match spot {
            Some((name, path)) => Address::There(Spot { partition: name.to_owned(), path: normal(path) }),
            None => Address::Here(text.into()),
        })
    }
}

impl Spot {
    /// Reads what the user wrote, which has to be in a partition.
    pub fn parse(text: &OsStr, usual: Option<&str>) -> Result<Spot, Error> {
        match Address::parse(text, usual)? {
            Address::There(spot) => Ok(spot),
            Address::Here(path) => Err(Error::NotInPartition(path)),
        }
    }

    /// All of what the user wrote.
    pub fn parse_all(texts: &[OsString], usual: Option<&str>) -> Result<Vec<Spot>, Error> {
        texts.iter().map(|text| Spot::parse(text, usual)).collect()
    }

    /// Its last name; the root has none.
    pub fn name(&self) -> Option<&str> {
        self.path.rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// Something in this directory.
    pub fn join(&self, name: &str) -> Spot {
        Spot { partition: self.partition.clone(), path: join(&self.path, name) }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.path)
    }
}

/// The path of something in a directory of a partition.
pub fn join(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

/// Whether a partition may be called so: the rule of partition files.
fn is_name(text: &str) -> bool {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    text.len() <= 64 && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(sound)
}

/// Nothing at all stands for the root.
fn is_absolute(path: &str) -> bool {
    path.is_empty() || path.starts_with('/')
}

/// One slash before each name, and no `.` or `..`; above the root is the root. There are no links in a
/// partition, so this does not change where a path leads.
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

    fn parse(text: &str) -> Result<Address, Error> {
        Address::parse(OsStr::new(text), Some("usual"))
    }

    #[test]
    fn names_and_prefixes_lead_into_partitions() {
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
                Ok(Address::There(spot)) => assert_eq!(spot.to_string(), expected, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn everything_else_is_of_this_host() {
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
            assert_eq!(parse(text).unwrap(), Address::Here(path.into()), "{text}");
        }
        let bytes = OsStr::from_bytes(b"s:/\xff");
        assert_eq!(Address::parse(bytes, None).unwrap(), Address::Here(bytes.into()));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert!(matches!(Address::parse(OsStr::new("pario:/a"), None), Err(Error::NoUsualPartition(_))));
        assert!(matches!(parse("pario:-x/a"), Err(Error::NoName { .. })));
        assert!(matches!(Spot::parse(OsStr::new("a"), None), Err(Error::NotInPartition(_))));
    }

    #[test]
    fn a_spot_knows_its_name() {
        let Ok(Address::There(root)) = parse("s:/") else { panic!() };
        assert_eq!((root.name(), root.join("a").join("b").path.as_str()), (None, "/a/b"));
        assert_eq!(root.join("a").name(), Some("a"));
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(name in "[a-z0-9][a-z0-9._-]{0,10}", path in "(/[^/\0]{1,5}){0,4}") {
            prop_assume!(name != "pario" && name != "ufs");
            let Ok(Address::There(spot)) = parse(&format!("{name}:{path}")) else { panic!() };
            prop_assert_eq!(parse(&spot.to_string()).unwrap(), Address::There(spot.clone()));
            let prefixed = format!("pario:{name}{path}");
            prop_assert_eq!(parse(&prefixed).unwrap(), Address::There(spot));
        }
    }
}
