//! Staging for `pario run`: files into a partition before the program runs, results out of it afterwards.

use super::cp::{Reporting, report, transfer};
use super::error::Error;
use super::placing;
use crate::env::Environment;
use pario_copy::{CopyOptions, GlobPattern, stage_in, stage_out};
use std::path::{Path, PathBuf};

/// Copies files and directories of this host into the partition's root, by a plan if there is one. Returns whether all of
/// them were copied; failures have been reported.
pub fn into(
    partition: &str,
    paths: &[PathBuf],
    by: &placing::Options,
    env: &Environment,
    is_interrupted: fn() -> bool,
) -> Result<bool, Error> {
    let mut connections = env.data_connections();
    let pairs = stage_in(paths, partition, &mut connections)?;
    let placement = match &by.plan {
        Some(_) => by.on(&connections.entry(partition)?)?,
        None => None,
    };
    let options = CopyOptions { recursive: true, placement, ..CopyOptions::default() };
    let copied = transfer(pairs, options, Reporting::default(), is_interrupted);
    report(&copied, Reporting::default())
}

/// The outcome of copying results out of a partition.
pub struct StagedOut {
    /// Everything that matched was copied; failures have been reported.
    pub is_complete: bool,
    /// The patterns that nothing matched.
    pub unmatched: Vec<String>,
}

/// Copies what matches the patterns to a directory of this host.
pub fn out_of(
    partition: &str,
    patterns: &[GlobPattern],
    to: &Path,
    env: &Environment,
    is_interrupted: fn() -> bool,
) -> Result<StagedOut, Error> {
    let partition = env.data_connections().partition(partition)?;
    let (pairs, unmatched) = stage_out(&partition, patterns, to)?;
    let options = CopyOptions { recursive: true, ..CopyOptions::default() };
    let copied = transfer(pairs, options, Reporting::default(), is_interrupted);
    Ok(StagedOut { is_complete: report(&copied, Reporting::default())?, unmatched })
}
