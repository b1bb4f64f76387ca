//! Reading attributes, directories and all inodes.

use std::ops::Bound;

use pario_types::FileId;

use crate::error::Error;
use crate::namespace::{Namespace, READ};
use pario_metadata::{Attributes, DirectoryEntry, Inode};

/// The largest number of entries in one answer.
const MOST: u32 = 65536;

impl Namespace {
    /// Returns the attributes of a path.
    pub fn lookup(&self, path: &str) -> Result<Attributes, Error> {
        let place = self.walk(path)?;
        let file = place.found.ok_or_else(|| Error::NotFound { path: path.into() })?;
        self.attributes(file)
    }

    /// Returns the attributes of an id, with or without a name.
    pub fn attributes(&self, file: FileId) -> Result<Attributes, Error> {
        Ok(self.attributes_of(file, self.inode(file)?))
    }

    /// Returns entries of a directory in order of their names, after the given one ("" from the start), and whether there
    /// are more. Concurrent changes do not affect other entries.
    pub fn read_directory(
        &self,
        path: &str,
        after: &str,
        most: u32,
    ) -> Result<(Vec<DirectoryEntry>, bool), Error> {
        let place = self.walk(path)?;
        let file = place.found.ok_or_else(|| Error::NotFound { path: path.into() })?;
        let inode = self.inode(file)?;
        let entries = inode.entries().ok_or_else(|| Error::NotADirectory { path: path.into() })?;
        self.permit(inode, READ, path)?;
        let mut rest = entries.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        let page = rest.by_ref().take(most.clamp(1, MOST) as usize);
        let page = page.map(|(name, file)| {
            let attributes = self.attributes(*file).expect("an entry stands for an inode");
            DirectoryEntry { name: name.to_string(), attributes }
        });
        let page = page.collect();
        Ok((page, rest.next().is_some()))
    }

    /// Returns all files and directories in order of their ids, after the given one (0 from the start), and whether there
    /// are more, for a check of the partition.
    pub fn list_inodes(&self, after: FileId, most: u32) -> (Vec<Inode>, bool) {
        let mut rest = self.state.inodes.from(FileId(after.0.saturating_add(1)));
        let page = rest.by_ref().take(most.clamp(1, MOST) as usize);
        let page = page.map(|(file, inode)| {
            let mut attributes = self.attributes_of(file, inode);
            attributes.truncating = self.state.truncations.get(&file).map(|truncation| truncation.size);
            Inode { parent: inode.parent, name: inode.name.to_string(), attributes }
        });
        let page = page.collect();
        (page, rest.next().is_some())
    }
}
