//! Repairs findings, each on its own. What cannot be repaired stays a finding.

use crate::error::Error;
use crate::finding::{CheckFinding, Inconsistency};
use crate::inspect::{CheckReport, current_inode};
use pario_client::{OpenOptions, Partition};
use pario_layout::ExtentLocation;
use pario_runtime::time::Instant;
use pario_types::{ErrorKind, FileId, ServerId};
use pario_wire::message::FileSize;
use std::time::Duration;

/// The time to wait for the metadata server to resolve a truncation.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(45);

/// Repairs what can be repaired without loss. Damaged blocks are accepted as they are only if `accept_damaged` is set; a
/// lost part is restored if other servers have replicas of all its bytes.
pub fn repair(partition: &Partition, report: &mut CheckReport, accept_damaged: bool) {
    let damaged: Vec<FileId> = report.findings.iter().filter(is_damaged).map(|one| one.file).collect();
    for finding in &mut report.findings {
        let is_only_one = damaged.iter().filter(|file| **file == finding.file).count() == 1;
        let repaired = match &finding.inconsistency {
            Inconsistency::Damaged { server, .. } if !accept_damaged => {
                if !is_only_one {
                    continue;
                }
                restore(partition, finding, *server)
            }
            _ => repair_one(partition, finding),
        };
        match repaired {
            Ok(repaired) => finding.repaired = repaired,
            Err(error) => report.errors.push(error),
        }
    }
}

fn is_damaged(finding: &&CheckFinding) -> bool {
    matches!(finding.inconsistency, Inconsistency::Damaged { .. })
}

/// Restores a lost part of a file from the replicas on other servers. Returns whether that was possible.
fn restore(partition: &Partition, finding: &CheckFinding, server: ServerId) -> Result<bool, Error> {
    let Some(path) = &finding.path else { return Ok(false) };
    let failed = || Error::new("cannot restore", format!("{}:{path}", partition.name()));
    let end = partition.part_end(server, finding.file);
    if !end.is_err_and(|error| error.kind() == ErrorKind::Damaged) {
        return Ok(false);
    }
    let Some(inode) = current_inode(partition, finding.file)? else { return Ok(false) };
    let layout = partition.layout_of(&inode).map_err(failed())?;
    let (FileSize::Known(size), Some(place)) = (inode.attributes.size, layout.place(server)) else {
        return Ok(false);
    };
    let mut at = 0;
    while at < size {
        let extent = layout.extent_at(at, size - at);
        if matches!(extent.at, ExtentLocation::One { place: only, .. } if only == place) {
            return Ok(false);
        }
        at += extent.len;
    }
    // The damaged part cannot be read, and it must not exist when it is written anew.
    partition.remove_parts(server, vec![finding.file]).map_err(failed())?;
    let open = partition.open(path, OpenOptions::new().read(true).write(true)).map_err(failed())?;
    if open.id() != finding.file {
        return Ok(false);
    }
    open.compare_replicas(0..size, true).map_err(failed())?;
    open.close().map_err(failed())?;
    Ok(true)
}

/// Repairs a finding. Returns whether it is repaired.
fn repair_one(partition: &Partition, finding: &CheckFinding) -> Result<bool, Error> {
    let shown = match &finding.path {
        Some(path) => format!("{}:{path}", partition.name()),
        None => format!("file {} of {}", finding.file, partition.name()),
    };
    let failed = || Error::new("cannot repair", shown.clone());
    match &finding.inconsistency {
        Inconsistency::Damaged { server, blocks, .. } => {
            partition.accept(*server, finding.file, blocks.clone()).map_err(failed())?;
            Ok(true)
        }
        Inconsistency::Orphan { server, .. } | Inconsistency::Stray { server, .. } => {
            partition.remove_parts(*server, vec![finding.file]).map_err(failed())?;
            Ok(true)
        }
        Inconsistency::Size { held, .. } => {
            let Some(path) = &finding.path else { return Ok(false) };
            // A writer that closes the file reports its size.
            let open = partition.open(path, OpenOptions::new().write(true)).map_err(failed())?;
            let is_it = open.id() == finding.file;
            open.close().map_err(failed())?;
            Ok(is_it && partition.metadata(path).map_err(failed())?.len() == *held)
        }
        Inconsistency::Copies { bytes } => {
            let Some(path) = &finding.path else { return Ok(false) };
            let open = partition.open(path, OpenOptions::new().read(true).write(true)).map_err(failed())?;
            if open.id() != finding.file {
                return Ok(false);
            }
            for range in bytes {
                open.compare_replicas(range.clone(), true).map_err(failed())?;
            }
            open.close().map_err(failed())?;
            Ok(true)
        }
        Inconsistency::Truncation { size } => {
            // The metadata server resolves it, at the latest when the time for clients to reconnect is over.
            let begun = Instant::now();
            loop {
                let now = current_inode(partition, finding.file)?;
                let is_over = now.is_none_or(|inode| inode.attributes.truncating != Some(*size));
                if is_over || begun.elapsed() > RESOLVE_TIMEOUT {
                    return Ok(is_over);
                }
                pario_runtime::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}
