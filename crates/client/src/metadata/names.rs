//! Names: directories and their entries.

use std::collections::VecDeque;
use std::sync::Arc;

use pario_layout::Layout;
use pario_runtime::time::SystemTime;
use pario_types::{ErrorKind, FileId};
use pario_wire::message::{Attributes, DirectoryEntry, FileSize, Inode, InodeKind};
use pario_wire::{Reply, Request};

use crate::client_core::{ClientCore, unexpected};
use crate::error::Result;
use crate::file::File;
use crate::metadata::attributes::{Metadata, stamp};
use crate::metadata::open_file::{OpenFile, ask_size};
use crate::metadata::open_options::OpenOptions;
use crate::partition::Partition;

/// The number of entries in one request.
const PAGE: u32 = 1024;

/// The permission bits of new directories.
const DIRECTORY_MODE: u32 = 0o755;

impl Partition {
    /// Opens a file.
    pub fn open(&self, path: &str, options: &OpenOptions) -> Result<File> {
        let (request, access) = options.request(absolute(path))?;
        let (open, created) = OpenFile::ask(&self.core, &request, access, options.table.as_deref())?;
        if options.truncate && !created {
            open.set_len(0)?;
        }
        Ok(File::new(open))
    }

    /// Returns the attributes of a file or directory.
    pub fn metadata(&self, path: &str) -> Result<Metadata> {
        let attributes = self.attributes(&Request::Lookup { path: absolute(path) })?;
        resolve(&self.core, attributes)
    }

    /// Returns the layout of a file on the servers.
    pub fn layout(&self, metadata: &Metadata) -> Result<Option<Layout>> {
        let found = metadata.striping().map(|striping| self.core.layout(striping, metadata.table()));
        found.transpose()
    }

    /// The same for an inode.
    pub fn layout_of(&self, inode: &Inode) -> Result<Layout> {
        self.core.layout(inode.attributes.striping, inode.attributes.table)
    }

    /// Returns the entries of a directory, in order of names.
    pub fn read_dir(&self, path: &str) -> ReadDir {
        ReadDir {
            core: Arc::clone(&self.core),
            path: absolute(path),
            after: String::new(),
            page: VecDeque::new(),
            more: true,
        }
    }

    /// Creates a directory; its parent must exist.
    pub fn create_dir(&self, path: &str) -> Result<()> {
        self.create_dir_as(path, DIRECTORY_MODE)
    }

    /// The same with permission bits other than 0755.
    pub fn create_dir_as(&self, path: &str, mode: u32) -> Result<()> {
        self.make_directory(path, mode, false)
    }

    /// Creates a directory and the missing ones above it.
    pub fn create_dir_all(&self, path: &str) -> Result<()> {
        self.make_directory(path, DIRECTORY_MODE, true)
    }

    fn make_directory(&self, path: &str, mode: u32, parents: bool) -> Result<()> {
        let path = absolute(path);
        self.attributes(&Request::MakeDirectory { path, mode, parents }).map(|_| ())
    }

    /// Removes a file's name. Processes that have it open can still use it.
    pub fn remove_file(&self, path: &str) -> Result<()> {
        self.core.call_metadata(&Request::Unlink { path: absolute(path) }).map(|_| ())
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, path: &str) -> Result<()> {
        self.core.call_metadata(&Request::RemoveDirectory { path: absolute(path) }).map(|_| ())
    }

    /// Removes a directory with all its entries; entries that are already removed are no error.
    pub fn remove_dir_all(&self, path: &str) -> Result<()> {
        // Directories on the way down; each is removed when it is found empty.
        let mut pending = vec![absolute(path)];
        while let Some(directory) = pending.last().cloned() {
            let mut inner = Vec::new();
            for entry in self.read_dir(&directory) {
                let entry = entry?;
                let path = join(&directory, entry.name());
                match entry.is_dir() {
                    true => inner.push(path),
                    false => tolerate(self.remove_file(&path), &[ErrorKind::NoSuchFile])?,
                }
            }
            if inner.is_empty() {
                pending.pop();
                // Another client may have added an entry meanwhile, which then has to be removed as well.
                match self.remove_dir(&directory) {
                    Err(error) if error.kind() == ErrorKind::NotEmpty => pending.push(directory),
                    outcome if pending.is_empty() => outcome?,
                    outcome => tolerate(outcome, &[ErrorKind::NoSuchFile])?,
                }
            } else {
                pending.append(&mut inner);
            }
        }
        Ok(())
    }

    /// Renames a file or directory. It replaces a file, or an empty directory by a directory.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.rename_with(from, to, true)
    }

    /// The same, but an existing file or directory of the new name is an error.
    pub fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        self.rename_with(from, to, false)
    }

    fn rename_with(&self, from: &str, to: &str, replace: bool) -> Result<()> {
        let (from, to) = (absolute(from), absolute(to));
        self.core.call_metadata(&Request::Rename { from, to, replace }).map(|_| ())
    }

    /// Sets the permission bits.
    pub fn set_mode(&self, path: &str, mode: u32) -> Result<()> {
        let (accessed, modified) = (None, None);
        let request = Request::SetAttributes { path: absolute(path), mode: Some(mode), accessed, modified };
        self.attributes(&request).map(|_| ())
    }

    /// Sets the times of the last access and change; `None` does not change one.
    pub fn set_times(
        &self,
        path: &str,
        accessed: Option<SystemTime>,
        modified: Option<SystemTime>,
    ) -> Result<()> {
        let (accessed, modified) = (accessed.map(stamp), modified.map(stamp));
        let request = Request::SetAttributes { path: absolute(path), mode: None, accessed, modified };
        self.attributes(&request).map(|_| ())
    }

    fn attributes(&self, request: &Request) -> Result<Attributes> {
        match self.core.call_metadata(request)? {
            Reply::Attributes(attributes) => Ok(attributes),
            reply => Err(unexpected(self.core.metadata, request, &reply)),
        }
    }
}

/// A directory's entry.
#[derive(Clone)]
pub struct DirEntry {
    core: Arc<ClientCore>,
    entry: DirectoryEntry,
}

impl DirEntry {
    /// Its name in the directory.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Its id in the partition, which is never reused.
    pub fn id(&self) -> FileId {
        self.entry.attributes.file
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.entry.attributes.kind == InodeKind::Directory
    }

    /// Its attributes at the time when the directory was read. The length of a file that a client writes needs a request to
    /// the servers.
    pub fn metadata(&self) -> Result<Metadata> {
        resolve(&self.core, self.entry.attributes)
    }
}

impl std::fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DirEntry").field(&self.entry).finish()
    }
}

/// The entries of a directory. They are requested in pages, so concurrent changes may or may not be visible.
pub struct ReadDir {
    core: Arc<ClientCore>,
    path: String,
    after: String,
    page: VecDeque<DirectoryEntry>,
    more: bool,
}

impl ReadDir {
    fn turn(&mut self) -> Result<()> {
        let (path, after) = (self.path.clone(), self.after.clone());
        let request = Request::ReadDirectory { path, after, most: PAGE };
        match self.core.call_metadata(&request)? {
            Reply::Entries { entries, more } => {
                self.more = more && !entries.is_empty();
                self.after = entries.last().map(|entry| entry.name.clone()).unwrap_or_default();
                self.page = entries.into();
                Ok(())
            }
            reply => Err(unexpected(self.core.metadata, &request, &reply)),
        }
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Result<DirEntry>> {
        if self.page.is_empty()
            && self.more
            && let Err(error) = self.turn()
        {
            self.more = false;
            return Some(Err(error));
        }
        let entry = self.page.pop_front()?;
        Some(Ok(DirEntry { core: Arc::clone(&self.core), entry }))
    }
}

/// Computes the length, if the metadata server does not know it, and reports it there.
fn resolve(core: &ClientCore, attributes: Attributes) -> Result<Metadata> {
    let len = match (attributes.kind, attributes.size) {
        (InodeKind::Directory, _) => 0,
        (InodeKind::File, FileSize::Known(size)) => size,
        (InodeKind::File, FileSize::Ask { seen }) => {
            let file = attributes.file;
            let layout = core.layout(attributes.striping, attributes.table)?;
            let size = ask_size(core, file, &layout)?;
            // The report only helps other clients: a failure or a late report does not matter here.
            let _ = core.call_metadata(&Request::ReportSize { file, size, seen });
            size
        }
    };
    Ok(Metadata::new(attributes, len))
}

fn tolerate(outcome: Result<()>, kinds: &[ErrorKind]) -> Result<()> {
    match outcome {
        Err(error) if !kinds.contains(&error.kind()) => Err(error),
        _ => Ok(()),
    }
}

/// Paths are absolute within the partition; the first slash may be left out, and several slashes count as one.
pub(crate) fn absolute(path: &str) -> String {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    format!("/{}", names.join("/"))
}

fn join(directory: &str, name: &str) -> String {
    match directory {
        "/" => format!("/{name}"),
        _ => format!("{directory}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_with_one_slash_and_end_with_none() {
        for (given, expected) in [("", "/"), ("/", "/"), ("a", "/a"), ("/a/b/", "/a/b"), ("//a//b", "/a/b")] {
            assert_eq!(absolute(given), expected);
        }
        assert_eq!(join("/", "a"), "/a");
        assert_eq!(join("/a", "b"), "/a/b");
    }
}
