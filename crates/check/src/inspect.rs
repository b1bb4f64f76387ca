//! Finds what is wrong, while programs may use the partition.
//!
//! Parts of files are listed before inodes: a file is in the name space before it has bytes, so a part without an
//! inode belongs to a file that is gone. Each suspect is examined again on its own before it becomes a finding,
//! because it may have changed between the two lists.

use crate::error::Error;
use crate::finding::{CheckFinding, Inconsistency, bytes_of};
use crate::paths::{Inodes, path};
use pario_client::{Inode, Layout, OpenOptions, Partition};
use pario_runtime::is_planted;
use pario_types::{ErrorKind, FileId, Progress, ServerId};
use pario_wire::message::{FileSize, InodeKind};
use std::collections::BTreeMap;

/// Parts or inodes per request.
const PAGE: u32 = 1000;

/// Bytes that a server verifies per request.
const VERIFY_BYTES: u64 = 16 << 20;

/// The files that were checked, and the findings.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// The number of files.
    pub files: u64,
    /// The number of directories.
    pub directories: u64,
    /// The number of servers' parts of files.
    pub parts: u64,
    /// Bytes whose checksums were compared.
    pub bytes: u64,
    /// The inconsistency.
    pub findings: Vec<CheckFinding>,
    /// The files that could not be checked or repaired.
    pub errors: Vec<Error>,
}

/// Bytes of parts by server and file.
type Parts = BTreeMap<ServerId, BTreeMap<FileId, u64>>;

/// Checks everything. `block` is the partition's block size. An error means that nothing could be checked.
pub fn inspect(partition: &Partition, block: u64, progress: &dyn Progress) -> Result<CheckReport, Error> {
    // A sync may take long; a server that is gone is to be found at once.
    for server in partition.servers() {
        partition.ping(server).map_err(Error::new("cannot check", partition.name()))?;
    }
    // Blocks that are only in the servers' caches have no checksum yet, and may lie beyond the listed ends.
    let name = partition.name();
    partition.sync().map_err(Error::new("cannot bring everything to storage in", name))?;
    let early = if is_planted("check-lists-names-first") { Some(list_inodes(partition)?) } else { None };
    let parts = list_parts(partition)?;
    let inodes = early.map_or_else(|| list_inodes(partition), Ok)?;
    let count =
        |kind| inodes.values().filter(|inode| inode.attributes.kind == kind && !is_removed(inode)).count();
    let mut report = CheckReport {
        files: count(InodeKind::File) as u64,
        directories: count(InodeKind::Directory) as u64,
        parts: parts.values().map(|parts| parts.len() as u64).sum(),
        bytes: parts.values().flat_map(BTreeMap::values).sum(),
        ..CheckReport::default()
    };
    progress.expect(report.bytes);
    progress.total_known();
    compare_parts(partition, &parts, &inodes, &mut report)?;
    compare_sizes(partition, &parts, &inodes, &mut report)?;
    compare_replicas(partition, &inodes, &mut report);
    verify_all(partition, &parts, &inodes, block, progress, &mut report);
    report.findings.sort_by(|one, other| (&one.path, one.file).cmp(&(&other.path, other.file)));
    Ok(report)
}

/// Whether the file is removed and not open: its space is about to be freed.
fn is_removed(inode: &Inode) -> bool {
    inode.parent == FileId(0) && inode.attributes.opens == 0
}

fn list_parts(partition: &Partition) -> Result<Parts, Error> {
    let mut all = Parts::new();
    for server in partition.servers() {
        let parts = all.entry(server).or_default();
        let (mut after, mut more) = (FileId(0), true);
        while more {
            let page = partition.list_parts(server, after, PAGE);
            let (page, further) =
                page.map_err(Error::new("cannot list the parts of files in", partition.name()))?;
            more = further && !page.is_empty();
            after = page.last().map_or(after, |part| part.file);
            parts.extend(page.into_iter().map(|part| (part.file, part.end)));
        }
    }
    Ok(all)
}

fn list_inodes(partition: &Partition) -> Result<Inodes, Error> {
    let mut all = Inodes::new();
    let (mut after, mut more) = (FileId(0), true);
    while more {
        let page = partition.list_inodes(after, PAGE);
        let (page, further) = page.map_err(Error::new("cannot list the files of", partition.name()))?;
        more = further && !page.is_empty();
        after = page.last().map_or(after, |inode| inode.attributes.file);
        all.extend(page.into_iter().map(|inode| (inode.attributes.file, inode)));
    }
    Ok(all)
}

/// The layout of a file.
fn layout(partition: &Partition, inode: &Inode) -> Result<Layout, Error> {
    partition.layout_of(inode).map_err(Error::new("cannot find out where files are in", partition.name()))
}

/// The current inode of a file.
pub(crate) fn current_inode(partition: &Partition, file: FileId) -> Result<Option<Inode>, Error> {
    let page = partition.list_inodes(FileId(file.0 - 1), 1);
    let (page, _) = page.map_err(Error::new("cannot list the files of", partition.name()))?;
    Ok(page.into_iter().find(|inode| inode.attributes.file == file))
}

/// Whether a server still has a part of the file.
fn has_part(partition: &Partition, server: ServerId, file: FileId) -> Result<bool, Error> {
    let page = partition.list_parts(server, FileId(file.0 - 1), 1);
    let (page, _) = page.map_err(Error::new("cannot list the parts of files in", partition.name()))?;
    Ok(page.iter().any(|part| part.file == file))
}

/// Finds parts of files that do not exist, and parts on servers that the layout does not include.
fn compare_parts(
    partition: &Partition,
    parts: &Parts,
    inodes: &Inodes,
    report: &mut CheckReport,
) -> Result<(), Error> {
    for (&server, parts) in parts {
        for (&file, &len) in parts {
            let inode = inodes.get(&file).filter(|inode| inode.attributes.kind == InodeKind::File);
            let inconsistency = match inode {
                None => Inconsistency::Orphan { server, len },
                Some(inode) if layout(partition, inode)?.place(server).is_none() => {
                    Inconsistency::Stray { server, len }
                }
                Some(_) => continue,
            };
            // A file that is removed meanwhile loses its parts before its inode.
            if has_part(partition, server, file)? {
                let path = path(inodes, file);
                report.findings.push(CheckFinding { file, path, inconsistency, repaired: false });
            }
        }
    }
    Ok(())
}

/// Finds recorded sizes that are wrong, and unfinished truncations.
fn compare_sizes(
    partition: &Partition,
    parts: &Parts,
    inodes: &Inodes,
    report: &mut CheckReport,
) -> Result<(), Error> {
    let mut truncations = Vec::new();
    for (&file, inode) in inodes.iter().filter(|(_, inode)| inode.attributes.kind == InodeKind::File) {
        let attributes = &inode.attributes;
        if let Some(size) = attributes.truncating {
            truncations.push((file, size));
            continue;
        }
        let FileSize::Known(recorded) = attributes.size else { continue };
        let end = |server| parts.get(&server).and_then(|parts| parts.get(&file)).copied().unwrap_or(0);
        let layout = layout(partition, inode)?;
        let held = layout.holders().map(|server| layout.size_from(server, end(server))).max().unwrap_or(0);
        if held == recorded {
            continue;
        }
        let Some(path) = path(inodes, file) else { continue };
        if let Some((recorded, held)) = differing_sizes(partition, file, &path)? {
            let inconsistency = Inconsistency::Size { recorded, held };
            report.findings.push(CheckFinding { file, path: Some(path), inconsistency, repaired: false });
        }
    }
    for (file, size) in truncations {
        // A client that has the file open may be truncating it.
        let is_abandoned =
            |inode: Inode| inode.attributes.truncating == Some(size) && inode.attributes.opens == 0;
        if current_inode(partition, file)?.is_some_and(is_abandoned) {
            let path = path(inodes, file);
            report.findings.push(CheckFinding {
                file,
                path,
                inconsistency: Inconsistency::Truncation { size },
                repaired: false,
            });
        }
    }
    Ok(())
}

/// The recorded and the held size of a file, if they differ and no client writes to it.
fn differing_sizes(partition: &Partition, file: FileId, path: &str) -> Result<Option<(u64, u64)>, Error> {
    let recorded = || {
        let inode = current_inode(partition, file)?;
        Ok::<_, Error>(inode.and_then(|inode| match inode.attributes.size {
            FileSize::Known(size) if inode.attributes.truncating.is_none() => Some(size),
            _ => None,
        }))
    };
    let Some(before) = recorded()? else { return Ok(None) };
    let held = match partition.open(path, OpenOptions::new().read(true)) {
        Ok(open) if open.id() == file => open.held_len(),
        // The path names another file by now.
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::NoSuchFile => return Ok(None),
        Err(error) => Err(error),
    };
    // A part is lost; the checksums report that.
    if held.as_ref().is_err_and(|error| error.kind() == ErrorKind::Damaged) {
        return Ok(None);
    }
    let held = held.map_err(Error::new("cannot find the size of", format!("{}:{path}", partition.name())))?;
    let differs = recorded()? == Some(before) && before != held;
    Ok(differs.then_some((before, held)))
}

/// Finds replicas that differ.
fn compare_replicas(partition: &Partition, inodes: &Inodes, report: &mut CheckReport) {
    for (&file, inode) in inodes.iter().filter(|(_, inode)| inode.attributes.table.is_some()) {
        let Some(path) = path(inodes, file).filter(|_| inode.attributes.kind == InodeKind::File) else {
            continue;
        };
        let compared = partition.open(&path, OpenOptions::new().read(true)).and_then(|open| {
            // The path may name another file by now.
            let size = if open.id() == file { open.held_len()? } else { 0 };
            open.compare_replicas(0..size, false)
        });
        match compared {
            Ok(bytes) if bytes.is_empty() => {}
            Ok(bytes) => {
                let inconsistency = Inconsistency::Copies { bytes };
                report.findings.push(CheckFinding { file, path: Some(path), inconsistency, repaired: false });
            }
            Err(error) if matches!(error.kind(), ErrorKind::NoSuchFile | ErrorKind::Damaged) => {}
            Err(error) => {
                let what = format!("{}:{path}", partition.name());
                report.errors.push(Error::new("cannot compare the copies of", what)(error));
            }
        }
    }
}

/// Verifies all checksums, on all servers at the same time.
fn verify_all(
    partition: &Partition,
    parts: &Parts,
    inodes: &Inodes,
    block: u64,
    progress: &dyn Progress,
    report: &mut CheckReport,
) {
    pario_runtime::thread::scope(|scope| {
        let verify = |server, parts| verify_server(partition, server, parts, inodes, block, progress);
        let threads: Vec<_> =
            parts.iter().map(|(&server, parts)| scope.spawn(move || verify(server, parts))).collect();
        for thread in threads {
            let (findings, errors) = thread.join().expect("verifying does not panic");
            report.findings.extend(findings);
            report.errors.extend(errors);
        }
    });
}

fn verify_server(
    partition: &Partition,
    server: ServerId,
    parts: &BTreeMap<FileId, u64>,
    inodes: &Inodes,
    block: u64,
    progress: &dyn Progress,
) -> (Vec<CheckFinding>, Vec<Error>) {
    let (mut findings, mut errors) = (Vec::new(), Vec::new());
    for (&file, &end) in parts {
        let blocks = match damaged_blocks(partition, server, file, end, block, progress) {
            Ok(blocks) => blocks,
            Err(error) => {
                let what = match path(inodes, file) {
                    Some(path) => format!("{}:{path}", partition.name()),
                    None => format!("file {file} of {}", partition.name()),
                };
                let error = Error::new("cannot verify", what)(error);
                let stops = error.stops_all();
                errors.push(error);
                if stops {
                    break;
                }
                continue;
            }
        };
        // Bytes that no client can read are not checked.
        let Some(inode) = inodes.get(&file).filter(|_| !blocks.is_empty()) else { continue };
        let layout = match layout(partition, inode) {
            Ok(layout) => layout,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        if layout.place(server).is_some() {
            let bytes = bytes_of(&layout, server, &blocks, block, end);
            let inconsistency = Inconsistency::Damaged { server, blocks, bytes };
            findings.push(CheckFinding { file, path: path(inodes, file), inconsistency, repaired: false });
        }
    }
    (findings, errors)
}

fn damaged_blocks(
    partition: &Partition,
    server: ServerId,
    file: FileId,
    end: u64,
    block: u64,
    progress: &dyn Progress,
) -> pario_client::Result<Vec<u64>> {
    let most = (VERIFY_BYTES / block).max(1);
    let mut all = Vec::new();
    let mut from = Some(0);
    while let Some(at) = from {
        let (damaged, next) = partition.verify(server, file, at, most)?;
        all.extend(damaged);
        // Without progress of the server this would not end.
        from = next.filter(|next| *next > at);
        let upto = from.map_or(end, |next| next.saturating_mul(block).min(end));
        progress.advance(upto.saturating_sub((at * block).min(end)));
    }
    Ok(all)
}
