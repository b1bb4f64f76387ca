//! The inodes of paths.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Paths in the order of their bytes, so that the paths below a directory are neighbours.
#[derive(Clone, Default)]
pub(crate) struct NameTable(BTreeMap<OsString, usize>);

impl NameTable {
    pub fn get(&self, path: &Path) -> Option<usize> {
        self.0.get(path.as_os_str()).copied()
    }

    pub fn contains(&self, path: &Path) -> bool {
        self.0.contains_key(path.as_os_str())
    }

    pub fn set(&mut self, path: &Path, node: Option<usize>) {
        match node {
            Some(node) => drop(self.0.insert(path.as_os_str().to_owned(), node)),
            None => drop(self.0.remove(path.as_os_str())),
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = usize> {
        self.0.values().copied()
    }

    pub fn all(&self) -> impl Iterator<Item = (PathBuf, usize)> {
        self.0.iter().map(|(path, node)| (PathBuf::from(path), *node))
    }

    /// Everything below a directory, at any depth.
    pub fn below(&self, directory: &Path) -> impl Iterator<Item = (&Path, usize)> {
        let mut start = directory.as_os_str().to_owned();
        if start != "/" {
            start.push("/");
        }
        let first = (Bound::Excluded(start.clone()), Bound::Unbounded);
        let below = self.0.range::<OsString, _>(first);
        let is_below = move |path: &OsStr| path.as_encoded_bytes().starts_with(start.as_encoded_bytes());
        below.take_while(move |(path, _)| is_below(path)).map(|(path, node)| (Path::new(path), *node))
    }

    /// The paths directly in a directory.
    pub fn within(&self, directory: &Path) -> impl Iterator<Item = (&Path, usize)> {
        let own = directory.as_os_str().len() + usize::from(directory != Path::new("/"));
        let is_within = move |path: &Path| !path.as_os_str().as_encoded_bytes()[own..].contains(&b'/');
        self.below(directory).filter(move |(path, _)| is_within(path))
    }
}
