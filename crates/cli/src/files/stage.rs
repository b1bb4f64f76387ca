//! Staging for other commands: files into a partition before its use, results out of it afterwards.
//!
//! It is copying as `pario cp` does it. Results keep their paths below the directory that they go to, so that two of
//! the same name do not meet there.

use super::address::Spot;
use super::cp;
use super::error::Error;
use super::pattern::{Listed, Pattern, outermost};
use super::placing;
use super::session::Session;
use crate::env::Environment;
use pario_client::Partition;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Copies files and directories of this host into the partition's root, by a plan if there is one; whether all of them were. What was not has
/// been said.
pub fn into(
    partition: &str,
    paths: &[PathBuf],
    by: &placing::Options,
    env: &Environment,
    stop: fn() -> bool,
) -> Result<bool, Error> {
    let root = Spot { partition: partition.to_owned(), path: "/".to_owned() };
    cp::copy_into(paths, &root, by, env, stop)
}

/// Copies what matches the patterns to a directory of this host; whether all of it was. A pattern that matches
/// nothing is an error.
pub fn out_of(
    partition: &str,
    patterns: &[Pattern],
    to: &Path,
    env: &Environment,
    stop: fn() -> bool,
) -> Result<bool, Error> {
    let partition = Session::of_files(env).partition(partition)?;
    let mut paths = BTreeSet::new();
    for pattern in patterns {
        let found = pattern.expand(&mut |directory: &str| list(&partition, directory))?;
        if found.is_empty() {
            let why = "nothing in the partition matches it";
            return Err(Error::Refused(pattern.to_string(), why));
        }
        paths.extend(found);
    }
    let mut pairs = Vec::new();
    for path in outermost(paths) {
        let target = to.join(path.trim_start_matches('/'));
        let above = target.parent().unwrap_or(to);
        std::fs::create_dir_all(above).map_err(Error::here("cannot make the directory", above))?;
        pairs.push((cp::Side::There(partition.clone(), path), target));
    }
    cp::copy_as(pairs, stop)
}

fn list(partition: &Partition, directory: &str) -> Result<Vec<Listed>, Error> {
    let entries = partition.read_dir(directory).map(|entry| {
        let entry =
            entry.map_err(Error::there("cannot list", format!("{}:{directory}", partition.name())))?;
        Ok((entry.name().to_owned(), entry.is_dir()))
    });
    entries.collect()
}
