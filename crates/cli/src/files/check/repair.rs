//! Puts right what was found, each by itself: what cannot be put right stays a finding.

use super::super::error::Error;
use super::finding::{Fault, Finding};
use super::inspect::{Report, inode_now};
use pario_client::{OpenOptions, Partition};
use pario_layout::ExtentLocation;
use pario_types::{ErrorKind, FileId, ServerId};
use pario_wire::message::FileSize;
use std::time::{Duration, Instant};

/// How long a truncation that the metadata server is to resolve is waited for.
const PATIENCE: Duration = Duration::from_secs(45);

/// Puts right what can be. A damaged block is accepted as it is only if that is asked for; a lost part is restored if other
/// servers have copies of all its bytes.
pub fn repair(partition: &Partition, report: &mut Report, accept_damaged: bool) {
    let damaged: Vec<FileId> = report.findings.iter().filter(is_damaged).map(|one| one.file).collect();
    for finding in &mut report.findings {
        let is_only_one = damaged.iter().filter(|file| **file == finding.file).count() == 1;
        let repaired = match &finding.fault {
            Fault::Damaged { server, .. } if !accept_damaged => {
                if !is_only_one {
                    continue;
                }
                restore(partition, finding, *server)
            }
            _ => put_right(partition, finding),
        };
        match repaired {
            Ok(repaired) => finding.repaired = repaired,
            Err(error) => report.troubles.push(error),
        }
    }
}

fn is_damaged(finding: &&Finding) -> bool {
    matches!(finding.fault, Fault::Damaged { .. })
}

/// Gets a lost part of a file back from the copies that other servers have of all its bytes; whether that was possible.
fn restore(partition: &Partition, finding: &Finding, server: ServerId) -> Result<bool, Error> {
    let Some(path) = &finding.path else { return Ok(false) };
    let failed = || Error::there("cannot restore", format!("{}:{path}", partition.name()));
    let end = partition.part_end(server, finding.file);
    if !end.is_err_and(|error| error.kind() == ErrorKind::Damaged) {
        return Ok(false);
    }
    let Some(inode) = inode_now(partition, finding.file)? else { return Ok(false) };
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
    // Nothing of it can be read, and nothing can be written to it as long as it is there.
    partition.remove_parts(server, vec![finding.file]).map_err(failed())?;
    let open = partition.open(path, OpenOptions::new().read(true).write(true)).map_err(failed())?;
    if open.id() != finding.file {
        return Ok(false);
    }
    open.compare_replicas(0..size, true).map_err(failed())?;
    open.close().map_err(failed())?;
    Ok(true)
}

/// Whether it is right now.
fn put_right(partition: &Partition, finding: &Finding) -> Result<bool, Error> {
    let shown = match &finding.path {
        Some(path) => format!("{}:{path}", partition.name()),
        None => format!("file {} of {}", finding.file, partition.name()),
    };
    let failed = || Error::there("cannot repair", shown.clone());
    match &finding.fault {
        Fault::Damaged { server, blocks, .. } => {
            partition.accept(*server, finding.file, blocks.clone()).map_err(failed())?;
            Ok(true)
        }
        Fault::Orphan { server, .. } | Fault::Stray { server, .. } => {
            partition.remove_parts(*server, vec![finding.file]).map_err(failed())?;
            Ok(true)
        }
        Fault::Size { held, .. } => {
            let Some(path) = &finding.path else { return Ok(false) };
            // A writer that closes tells the size that it found.
            let open = partition.open(path, OpenOptions::new().write(true)).map_err(failed())?;
            let is_it = open.id() == finding.file;
            open.close().map_err(failed())?;
            Ok(is_it && partition.metadata(path).map_err(failed())?.len() == *held)
        }
        Fault::Copies { bytes } => {
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
        Fault::Truncation { size } => {
            // The metadata server resolves it, at the latest when clients have had their time to come back.
            let begun = Instant::now();
            loop {
                let now = inode_now(partition, finding.file)?;
                let is_over = now.is_none_or(|inode| inode.attributes.truncating != Some(*size));
                if is_over || begun.elapsed() > PATIENCE {
                    return Ok(is_over);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}
