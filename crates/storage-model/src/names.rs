//! Names, links and directories.

use std::io;
use std::path::{Path, PathBuf};

use crate::{InodeNumber, NodeKind, StorageModel, fail, parent};

/// A change of names in a directory since its last sync: the inode of each name afterwards.
pub(crate) struct NameChange {
    pub directory: PathBuf,
    pub names: Vec<(PathBuf, Option<usize>)>,
}

impl StorageModel {
    /// The inode of a name.
    pub fn find(&self, path: &Path) -> io::Result<Option<InodeNumber>> {
        self.alive()?;
        Ok(self.names.get(path).map(InodeNumber))
    }

    /// Creates a file or directory that does not exist.
    pub fn create(&mut self, path: &Path, kind: NodeKind, mode: u32) -> io::Result<InodeNumber> {
        self.check_parent(path)?;
        if self.names.contains(path) {
            return fail(libc::EEXIST);
        }
        self.step()?;
        if self.free() == 0 {
            return fail(libc::ENOSPC);
        }
        let node = self.add_node(kind, mode);
        self.apply(parent(path), vec![(path.to_owned(), Some(node))]);
        Ok(InodeNumber(node))
    }

    /// The names in a directory, and their inodes.
    pub fn list(&self, directory: &Path) -> io::Result<Vec<(PathBuf, InodeNumber)>> {
        self.alive()?;
        let here = self.names.within(directory);
        Ok(here.map(|(path, node)| (path.to_owned(), InodeNumber(node))).collect())
    }

    /// All names of files.
    pub fn files(&self) -> Vec<PathBuf> {
        let is_file = |node: usize| self.nodes[node].kind == NodeKind::File;
        self.names.all().filter(|(_, node)| is_file(*node)).map(|(path, _)| path).collect()
    }

    /// Renames atomically, and replaces any file of the new name.
    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_parent(to)?;
        let Some(node) = self.names.get(from) else { return fail(libc::ENOENT) };
        if from == to {
            return Ok(());
        }
        match (self.nodes[node].kind, self.names.get(to).map(|node| self.nodes[node].kind)) {
            (NodeKind::File, Some(NodeKind::Directory)) => return fail(libc::EISDIR),
            (NodeKind::Directory, Some(NodeKind::File)) => return fail(libc::ENOTDIR),
            (NodeKind::Directory, Some(_)) if !self.is_empty(to) => return fail(libc::ENOTEMPTY),
            _ => {}
        }
        self.step()?;
        let mut names = vec![(from.to_owned(), None), (to.to_owned(), Some(node))];
        for (path, node) in self.names.below(from) {
            let rest = path.strip_prefix(from).expect("it begins so");
            names.push((to.join(rest), Some(node)));
            names.push((path.to_owned(), None));
        }
        self.apply(parent(to), names);
        Ok(())
    }

    /// Gives a file another name.
    pub fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_parent(to)?;
        let Some(node) = self.names.get(from) else { return fail(libc::ENOENT) };
        if self.names.contains(to) {
            return fail(libc::EEXIST);
        }
        self.step()?;
        self.apply(parent(to), vec![(to.to_owned(), Some(node))]);
        Ok(())
    }

    /// Removes a name of a file, or an empty directory.
    pub fn remove(&mut self, path: &Path, kind: NodeKind) -> io::Result<()> {
        self.alive()?;
        let Some(node) = self.names.get(path) else { return fail(libc::ENOENT) };
        match (self.nodes[node].kind, kind) {
            (NodeKind::Directory, NodeKind::File) => return fail(libc::EISDIR),
            (NodeKind::File, NodeKind::Directory) => return fail(libc::ENOTDIR),
            (NodeKind::Directory, _) if !self.is_empty(path) => return fail(libc::ENOTEMPTY),
            _ => {}
        }
        self.step()?;
        self.apply(parent(path), vec![(path.to_owned(), None)]);
        Ok(())
    }

    /// Makes the present names in a directory survive a loss of power.
    pub fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        self.step_of_sync()?;
        self.sync_names(|directory| directory == path);
        Ok(())
    }

    pub(crate) fn sync_names(&mut self, of: impl Fn(&Path) -> bool) {
        for change in std::mem::take(&mut self.renamed) {
            if of(&change.directory) {
                change.names.iter().for_each(|(name, node)| self.stable.set(name, *node));
            } else {
                self.renamed.push(change);
            }
        }
    }

    /// Removes the names in directories that do not exist: a loss of power took them.
    pub(crate) fn remove_orphans(&mut self) {
        if !self.has_directories {
            return;
        }
        // A directory precedes what is in it.
        for path in self.names.all().map(|(path, _)| path).collect::<Vec<_>>() {
            if self.check_parent(&path).is_err() {
                self.names.set(&path, None);
            }
        }
        self.stable = self.names.clone();
    }

    fn apply(&mut self, directory: &Path, names: Vec<(PathBuf, Option<usize>)>) {
        for (name, node) in &names {
            self.names.set(name, *node);
        }
        self.renamed.push(NameChange { directory: directory.to_owned(), names });
    }

    fn is_empty(&self, directory: &Path) -> bool {
        self.names.below(directory).next().is_none()
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        self.alive()?;
        let Some(parent) = path.parent().filter(|_| self.has_directories) else { return Ok(()) };
        match self.names.get(parent).map(|node| self.nodes[node].kind) {
            Some(NodeKind::Directory) => Ok(()),
            Some(NodeKind::File) => fail(libc::ENOTDIR),
            None => fail(libc::ENOENT),
        }
    }
}
