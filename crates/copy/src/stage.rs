//! Staging: files into a partition before it is used, and results out of it afterwards.
//!
//! Results keep their paths below the directory that they are copied to, so that two of the same name do not collide.

use crate::connections::Connections;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::glob::{GlobPattern, ListedName, outermost};
use crate::location::PartitionPath;
use crate::pairs::{CopyPair, pairs, resolve_link};
use pario_client::Partition;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The pairs that copy files and directories of this host into a partition's root directory.
pub fn stage_in(
    sources: &[PathBuf],
    partition: &str,
    connections: &mut Connections,
) -> Result<Vec<CopyPair>, Error> {
    let root = PartitionPath { partition: partition.to_owned(), path: "/".to_owned() };
    let mut paths: Vec<OsString> = sources.iter().map(|path| host_path(path.as_os_str())).collect();
    paths.push(format!("pario:{}{}", root.partition, root.path).into());
    pairs(&paths, true, connections)
}

/// The notation of a path of this host, whatever it looks like.
fn host_path(path: &OsStr) -> OsString {
    let mut text = OsString::from("ufs:");
    text.push(path);
    text
}

/// Returns the pairs that copy everything that matches the patterns to a directory of this host, and the patterns that match nothing.
pub fn stage_out(
    partition: &Partition,
    patterns: &[GlobPattern],
    to: &Path,
) -> Result<(Vec<CopyPair>, Vec<String>), Error> {
    let mut paths = BTreeSet::new();
    let mut unmatched = Vec::new();
    for pattern in patterns {
        let found = pattern.expand(&mut |directory: &str| list(partition, directory))?;
        if found.is_empty() {
            unmatched.push(pattern.to_string());
        }
        paths.extend(found);
    }
    let mut pairs = Vec::new();
    for path in outermost(paths) {
        let target = to.join(path.trim_start_matches('/'));
        let parent = target.parent().unwrap_or(to);
        pario_runtime::fs::create_dir_all(parent)
            .map_err(Error::on_host("cannot make the directory", parent))?;
        let source = Endpoint::Partition(partition.clone(), path);
        pairs.push(CopyPair { source, target: resolve_link(Endpoint::Host(target)) });
    }
    Ok((pairs, unmatched))
}

fn list(partition: &Partition, directory: &str) -> Result<Vec<ListedName>, Error> {
    let entries = partition.read_dir(directory).map(|entry| {
        let path = format!("{}:{directory}", partition.name());
        let entry = entry.map_err(Error::in_partition("cannot list", path))?;
        Ok((entry.name().to_owned(), entry.is_dir()))
    });
    entries.collect()
}
