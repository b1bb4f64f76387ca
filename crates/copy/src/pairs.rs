//! From paths that a user wrote to the pairs of source and target to copy.

use crate::connections::Connections;
use crate::endpoint::{Endpoint, FileKind};
use crate::error::Error;
use crate::location::{Location, PartitionPath};
use pario_runtime::fs;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A file or tree, and the path of its copy.
#[derive(Clone)]
pub struct CopyPair {
    /// The files to copy.
    pub source: Endpoint,
    /// The path of the copy.
    pub target: Endpoint,
}

/// The pairs to copy for paths as `cp` takes them: sources, and last the path of the copy or the directory for the
/// copies.
pub fn pairs(
    paths: &[OsString],
    recursive: bool,
    connections: &mut Connections,
) -> Result<Vec<CopyPair>, Error> {
    let mut endpoints = Vec::new();
    for path in paths {
        endpoints.push(endpoint(path, connections)?);
    }
    let target = endpoints.pop().expect("two at least");
    let has_slash = paths.last().is_some_and(|text| text.as_bytes().ends_with(b"/"));
    let into = target.info()?.is_some_and(|info| info.kind == FileKind::Directory);
    if !into && (endpoints.len() > 1 || (has_slash && !recursive)) {
        let why = "no directory; 'mkdir' or 'pario mkdir' makes one";
        return Err(Error::Refused(target.show(), why));
    }
    let mut names = BTreeSet::new();
    let mut pairs = Vec::new();
    for source in endpoints {
        let name = source.name();
        if into
            && let Some(name) = &name
            && !names.insert(name.clone())
        {
            let why = "two of that name are to go into the same directory";
            return Err(Error::Refused(source.show(), why));
        }
        let target = match name.filter(|_| into) {
            Some(name) => target.join(&name)?,
            None => target.clone(),
        };
        let target = resolve_link(target);
        if is_within(&target, &source) {
            let why = "a directory cannot be copied into itself";
            return Err(Error::RefusedBoth(source.show(), target.show(), why));
        }
        pairs.push(CopyPair { source, target });
    }
    Ok(pairs)
}

fn endpoint(text: &OsStr, connections: &mut Connections) -> Result<Endpoint, Error> {
    Ok(match Location::parse(text, connections.default_partition())? {
        Location::Host(path) => Endpoint::Host(path),
        Location::Partition(PartitionPath { partition, path }) => {
            Endpoint::Partition(connections.partition(&partition)?, path)
        }
    })
}

/// The file that a link leads to: a copy replaces that file, not the link.
pub(crate) fn resolve_link(target: Endpoint) -> Endpoint {
    match &target {
        Endpoint::Host(path) if target.is_link() => fs::canonicalize(path).map_or(target, Endpoint::Host),
        _ => target,
    }
}

/// Whether the first would be in the second, a directory.
fn is_within(inner: &Endpoint, outer: &Endpoint) -> bool {
    match (inner, outer) {
        (Endpoint::Host(inner), Endpoint::Host(outer)) => {
            let parent = inner.parent().filter(|parent| !parent.as_os_str().is_empty());
            let real =
                fs::canonicalize(inner).or_else(|_| fs::canonicalize(parent.unwrap_or(Path::new("."))));
            let (Ok(inner), Ok(outer)) = (real, fs::canonicalize(outer)) else { return false };
            fs::metadata(&outer).is_ok_and(|found| found.is_dir()) && inner.starts_with(outer)
        }
        (Endpoint::Partition(one, inner), Endpoint::Partition(other, outer)) => {
            let is_below = Path::new(inner).starts_with(outer) && inner != outer;
            one.id() == other.id() && (is_below || outer == "/")
        }
        _ => false,
    }
}
