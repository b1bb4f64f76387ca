//! Looks for what is wrong, while programs may go on using the partition.
//!
//! Parts of files are listed before inodes: a file is in the name space before it has bytes, so a part
//! without an inode is of a file that is gone. Whatever looks wrong is looked at again on its own before it
//! counts, because it may have changed between the two lists.

use super::super::error::Error;
use super::super::progress::Meter;
use super::finding::{Fault, Finding, bytes_of};
use super::paths::{Inodes, path};
use pario_client::{Inode, Layout, OpenOptions, Partition};
use pario_types::{ErrorKind, FileId, ServerId};
use pario_wire::message::{FileSize, InodeKind};
use std::collections::BTreeMap;

/// What is asked for at once.
const PAGE: u32 = 1000;

/// Bytes that are verified at once.
const AT_ONCE: u64 = 16 << 20;

/// What was looked at, and what was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Servers' parts of files.
    pub parts: u64,
    /// Bytes whose checksums were compared.
    pub bytes: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What could not be looked at.
    pub troubles: Vec<Error>,
}

/// Bytes of parts by server and file.
type Parts = BTreeMap<ServerId, BTreeMap<FileId, u64>>;

/// Looks at everything. An error means that it could not be looked at all.
pub fn inspect(partition: &Partition, block: u64, meter: &Meter) -> Result<Report, Error> {
    // Writing everything to storage may take long, and finding that a server is gone should not.
    for server in partition.servers() {
        partition.ping(server).map_err(Error::there("cannot check", partition.name()))?;
    }
    // What is only in the servers' caches has no checksum yet, and may lie beyond the ends that are listed.
    let name = partition.name();
    partition.sync().map_err(Error::there("cannot bring everything to storage in", name))?;
    let parts = list_parts(partition)?;
    let inodes = list_inodes(partition)?;
    let count =
        |kind| inodes.values().filter(|inode| inode.attributes.kind == kind && !is_removed(inode)).count();
    let mut report = Report {
        files: count(InodeKind::File) as u64,
        directories: count(InodeKind::Directory) as u64,
        parts: parts.values().map(|parts| parts.len() as u64).sum(),
        bytes: parts.values().flat_map(BTreeMap::values).sum(),
        ..Report::default()
    };
    meter.expect(report.bytes);
    meter.settle();
    compare_parts(partition, &parts, &inodes, &mut report)?;
    compare_sizes(partition, &parts, &inodes, &mut report)?;
    compare_replicas(partition, &inodes, &mut report);
    verify_all(partition, &parts, &inodes, block, meter, &mut report);
    report.findings.sort_by(|one, other| (&one.path, one.file).cmp(&(&other.path, other.file)));
    Ok(report)
}

/// Whether nobody can get at it any more; its room is about to be free.
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
                page.map_err(Error::there("cannot list the parts of files in", partition.name()))?;
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
        let (page, further) = page.map_err(Error::there("cannot list the files of", partition.name()))?;
        more = further && !page.is_empty();
        after = page.last().map_or(after, |inode| inode.attributes.file);
        all.extend(page.into_iter().map(|inode| (inode.attributes.file, inode)));
    }
    Ok(all)
}

/// Where a file's bytes are.
fn layout(partition: &Partition, inode: &Inode) -> Result<Layout, Error> {
    partition.layout_of(inode).map_err(Error::there("cannot find out where files are in", partition.name()))
}

/// The inode as it is now.
pub fn inode_now(partition: &Partition, file: FileId) -> Result<Option<Inode>, Error> {
    let page = partition.list_inodes(FileId(file.0 - 1), 1);
    let (page, _) = page.map_err(Error::there("cannot list the files of", partition.name()))?;
    Ok(page.into_iter().find(|inode| inode.attributes.file == file))
}

/// Whether a server still has a part of the file.
fn has_part(partition: &Partition, server: ServerId, file: FileId) -> Result<bool, Error> {
    let page = partition.list_parts(server, FileId(file.0 - 1), 1);
    let (page, _) = page.map_err(Error::there("cannot list the parts of files in", partition.name()))?;
    Ok(page.iter().any(|part| part.file == file))
}

/// Parts that no file has, or not there.
fn compare_parts(
    partition: &Partition,
    parts: &Parts,
    inodes: &Inodes,
    report: &mut Report,
) -> Result<(), Error> {
    for (&server, parts) in parts {
        for (&file, &len) in parts {
            let inode = inodes.get(&file).filter(|inode| inode.attributes.kind == InodeKind::File);
            let fault = match inode {
                None => Fault::Orphan { server, len },
                Some(inode) if layout(partition, inode)?.place(server).is_none() => {
                    Fault::Stray { server, len }
                }
                Some(_) => continue,
            };
            // A file that was removed meanwhile loses its parts before its inode.
            if has_part(partition, server, file)? {
                let path = path(inodes, file);
                report.findings.push(Finding { file, path, fault, repaired: false });
            }
        }
    }
    Ok(())
}

/// Sizes that are believed, and truncations that were begun.
fn compare_sizes(
    partition: &Partition,
    parts: &Parts,
    inodes: &Inodes,
    report: &mut Report,
) -> Result<(), Error> {
    let mut truncations = Vec::new();
    for (&file, inode) in inodes.iter().filter(|(_, inode)| inode.attributes.kind == InodeKind::File) {
        let attributes = &inode.attributes;
        if let Some(size) = attributes.truncating {
            truncations.push((file, size));
            continue;
        }
        let FileSize::Known(believed) = attributes.size else { continue };
        let end = |server| parts.get(&server).and_then(|parts| parts.get(&file)).copied().unwrap_or(0);
        let layout = layout(partition, inode)?;
        let held = layout.holders().map(|server| layout.size_from(server, end(server))).max().unwrap_or(0);
        if held == believed {
            continue;
        }
        let Some(path) = path(inodes, file) else { continue };
        if let Some((believed, held)) = size_again(partition, file, &path)? {
            let fault = Fault::Size { believed, held };
            report.findings.push(Finding { file, path: Some(path), fault, repaired: false });
        }
    }
    for (file, size) in truncations {
        // Whoever has it open may be at it.
        let is_left = |inode: Inode| inode.attributes.truncating == Some(size) && inode.attributes.opens == 0;
        if inode_now(partition, file)?.is_some_and(is_left) {
            let path = path(inodes, file);
            report.findings.push(Finding { file, path, fault: Fault::Truncation { size }, repaired: false });
        }
    }
    Ok(())
}

/// What is believed of a file's size and what is held, if that differs and nobody writes to it.
fn size_again(partition: &Partition, file: FileId, path: &str) -> Result<Option<(u64, u64)>, Error> {
    let believed = || {
        let inode = inode_now(partition, file)?;
        Ok::<_, Error>(inode.and_then(|inode| match inode.attributes.size {
            FileSize::Known(size) if inode.attributes.truncating.is_none() => Some(size),
            _ => None,
        }))
    };
    let Some(before) = believed()? else { return Ok(None) };
    let held = match partition.open(path, OpenOptions::new().read(true)) {
        Ok(open) if open.id() == file => open.held_len(),
        // It is another file by now.
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::NoSuchFile => return Ok(None),
        Err(error) => Err(error),
    };
    // A part of it is lost, which the checksums tell.
    if held.as_ref().is_err_and(|error| error.kind() == ErrorKind::Damaged) {
        return Ok(None);
    }
    let held =
        held.map_err(Error::there("cannot find the size of", format!("{}:{path}", partition.name())))?;
    let differs = believed()? == Some(before) && before != held;
    Ok(differs.then_some((before, held)))
}

/// Bytes that several servers keep, and not alike.
fn compare_replicas(partition: &Partition, inodes: &Inodes, report: &mut Report) {
    for (&file, inode) in inodes.iter().filter(|(_, inode)| inode.attributes.table.is_some()) {
        let Some(path) = path(inodes, file).filter(|_| inode.attributes.kind == InodeKind::File) else {
            continue;
        };
        let compared = partition.open(&path, OpenOptions::new().read(true)).and_then(|open| {
            // It may be another file by now.
            let size = if open.id() == file { open.held_len()? } else { 0 };
            open.compare_replicas(0..size, false)
        });
        match compared {
            Ok(bytes) if bytes.is_empty() => {}
            Ok(bytes) => {
                let fault = Fault::Copies { bytes };
                report.findings.push(Finding { file, path: Some(path), fault, repaired: false });
            }
            Err(error) if matches!(error.kind(), ErrorKind::NoSuchFile | ErrorKind::Damaged) => {}
            Err(error) => {
                let what = format!("{}:{path}", partition.name());
                report.troubles.push(Error::there("cannot compare the copies of", what)(error));
            }
        }
    }
}

/// Compares all checksums, at all servers at the same time.
fn verify_all(
    partition: &Partition,
    parts: &Parts,
    inodes: &Inodes,
    block: u64,
    meter: &Meter,
    report: &mut Report,
) {
    std::thread::scope(|scope| {
        let verify = |server, parts| verify_server(partition, server, parts, inodes, block, meter);
        let threads: Vec<_> =
            parts.iter().map(|(&server, parts)| scope.spawn(move || verify(server, parts))).collect();
        for thread in threads {
            let (findings, troubles) = thread.join().expect("verifying does not panic");
            report.findings.extend(findings);
            report.troubles.extend(troubles);
        }
    });
}

fn verify_server(
    partition: &Partition,
    server: ServerId,
    parts: &BTreeMap<FileId, u64>,
    inodes: &Inodes,
    block: u64,
    meter: &Meter,
) -> (Vec<Finding>, Vec<Error>) {
    let (mut findings, mut troubles) = (Vec::new(), Vec::new());
    for (&file, &end) in parts {
        let blocks = match damaged_blocks(partition, server, file, end, block, meter) {
            Ok(blocks) => blocks,
            Err(error) => {
                let what = match path(inodes, file) {
                    Some(path) => format!("{}:{path}", partition.name()),
                    None => format!("file {file} of {}", partition.name()),
                };
                let error = Error::there("cannot verify", what)(error);
                let stops = error.stops_all();
                troubles.push(error);
                match stops {
                    true => break,
                    false => continue,
                }
            }
        };
        // What nobody can read need not be right.
        let Some(inode) = inodes.get(&file).filter(|_| !blocks.is_empty()) else { continue };
        let layout = match layout(partition, inode) {
            Ok(layout) => layout,
            Err(error) => {
                troubles.push(error);
                continue;
            }
        };
        if layout.place(server).is_some() {
            let bytes = bytes_of(&layout, server, &blocks, block, end);
            let fault = Fault::Damaged { server, blocks, bytes };
            findings.push(Finding { file, path: path(inodes, file), fault, repaired: false });
        }
    }
    (findings, troubles)
}

fn damaged_blocks(
    partition: &Partition,
    server: ServerId,
    file: FileId,
    end: u64,
    block: u64,
    meter: &Meter,
) -> pario_client::Result<Vec<u64>> {
    let most = (AT_ONCE / block).max(1);
    let mut all = Vec::new();
    let mut from = Some(0);
    while let Some(at) = from {
        let (damaged, next) = partition.verify(server, file, at, most)?;
        all.extend(damaged);
        // A server that does not get on would never end this.
        from = next.filter(|next| *next > at);
        let upto = from.map_or(end, |next| next.saturating_mul(block).min(end));
        meter.add(upto.saturating_sub((at * block).min(end)));
    }
    Ok(all)
}
