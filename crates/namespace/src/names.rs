//! Creating, removing and changing names, and the attributes of files and directories.

use pario_types::{FileId, Stamp};

use crate::ROOT;
use crate::change::Change;
use crate::error::Error;
use crate::namespace::{Caller, Namespace, Place, WRITE};
use crate::path::Path;
use crate::requests::Outcome;
use pario_metadata::Attributes;

/// Returns the permission bits of a mode.
pub(crate) fn bits(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

impl Namespace {
    /// Creates a directory; with `parents` also the missing ones above it, and then an existing directory is no error.
    pub fn make_directory(
        &mut self,
        path: &str,
        mode: u32,
        parents: bool,
        by: Caller,
    ) -> Result<Attributes, Error> {
        match self.done(by) {
            Some(Outcome::About(file)) => return self.attributes(file),
            Some(Outcome::Done) => return Err(Error::OtherRequest { request: by.request.0 }),
            None => {}
        }
        let place = if parents { self.walk_existing(path)? } else { self.walk(path)? };
        if let Some(found) = place.found {
            let inode = self.inode(found)?;
            return match (parents, inode.entries()) {
                (true, Some(_)) => Ok(self.attributes_of(found, inode)),
                (true, None) => Err(Error::NotADirectory { path: path.into() }),
                (false, _) => Err(Error::Exists { path: path.into() }),
            };
        }
        self.permit_change(place)?;
        let mode = bits(mode);
        // The directories above must allow this one to be created and used, as with mkdir -p.
        let above = mode | 0o300;
        let first = FileId(self.state.next);
        let (parent, path) = (place.parent, place.name);
        self.commit(by, Change::MakeDirectories { parent, first, mode, above, path })?;
        self.attributes(FileId(self.state.next - 1))
    }

    /// Resolves a path as far as it exists; the result's name is then the missing rest.
    fn walk_existing<'p>(&self, path: &'p str) -> Result<Place<'p>, Error> {
        let path = Path::new(path)?;
        let mut walked = ROOT;
        let mut upto = "/";
        for (name, next) in path.names() {
            match self.enter(walked, upto)?.get(name) {
                Some(found) => (walked, upto) = (*found, next),
                None => {
                    let missing = &path.as_str()[next.len() - name.len()..];
                    return Ok(Place { path: Path::new(next)?, parent: walked, name: missing, found: None });
                }
            }
        }
        Ok(Place { path, parent: ROOT, name: "", found: Some(walked) })
    }

    /// Removes an empty directory.
    pub fn remove_directory(&mut self, path: &str, by: Caller) -> Result<(), Error> {
        if self.repeated(by)? {
            return Ok(());
        }
        let place = self.walk(path)?;
        let found = place.found.ok_or_else(|| Error::NotFound { path: path.into() })?;
        if place.path.is_root() {
            return Err(Error::Root);
        }
        let entries = self.inode(found)?.entries();
        let entries = entries.ok_or_else(|| Error::NotADirectory { path: path.into() })?;
        if !entries.is_empty() {
            return Err(Error::NotEmpty { path: path.into() });
        }
        self.permit_change(place)?;
        self.commit(by, Change::RemoveDirectory { parent: place.parent, directory: found, name: place.name })
    }

    /// Removes a file's name. A client that has it open can use it until close.
    pub fn unlink(&mut self, path: &str, by: Caller) -> Result<(), Error> {
        if self.repeated(by)? {
            return Ok(());
        }
        let place = self.walk(path)?;
        let file = place.found.ok_or_else(|| Error::NotFound { path: path.into() })?;
        if self.inode(file)?.entries().is_some() {
            return Err(Error::IsADirectory { path: path.into() });
        }
        self.permit_change(place)?;
        self.commit(by, Change::Unlink { parent: place.parent, file, name: place.name })?;
        self.queue_if_orphan(file);
        Ok(())
    }

    /// Renames a file or directory; with `replace` it may replace a file, or an empty directory by a directory.
    pub fn rename(&mut self, from: &str, to: &str, replace: bool, by: Caller) -> Result<(), Error> {
        if self.repeated(by)? {
            return Ok(());
        }
        let (old, new) = (self.walk(from)?, self.walk(to)?);
        let what = old.found.ok_or_else(|| Error::NotFound { path: from.into() })?;
        if old.path.is_root() || new.path.is_root() {
            return Err(Error::Root);
        }
        let is_directory = self.inode(what)?.entries().is_some();
        if is_directory && self.is_within(new.parent, what) {
            return Err(Error::IntoItself { from: from.into(), to: to.into() });
        }
        if let Some(target) = new.found {
            if !replace {
                return Err(Error::Exists { path: to.into() });
            }
            if target == what {
                return Ok(());
            }
            match (is_directory, self.inode(target)?.entries()) {
                (true, None) => return Err(Error::NotADirectory { path: to.into() }),
                (false, Some(_)) => return Err(Error::IsADirectory { path: to.into() }),
                (true, Some(entries)) if !entries.is_empty() => {
                    return Err(Error::NotEmpty { path: to.into() });
                }
                _ => {}
            }
        }
        self.permit_change(old)?;
        self.permit_change(new)?;
        if is_directory && old.parent != new.parent {
            // The entry for its parent directory changes.
            self.permit(self.inode(what)?, WRITE, from)?;
        }
        let replaced = new.found.unwrap_or_default();
        let (from_name, to_name) = (old.name, new.name);
        let change = Change::Rename { from: old.parent, to: new.parent, what, replaced, from_name, to_name };
        self.commit(by, change)?;
        self.queue_if_orphan(replaced);
        Ok(())
    }

    /// Changes mode or times. The owner is always permitted to.
    pub fn set_attributes(
        &mut self,
        path: &str,
        mode: Option<u32>,
        accessed: Option<Stamp>,
        modified: Option<Stamp>,
        by: Caller,
    ) -> Result<Attributes, Error> {
        match self.done(by) {
            Some(Outcome::About(file)) => return self.attributes(file),
            Some(Outcome::Done) => return Err(Error::OtherRequest { request: by.request.0 }),
            None => {}
        }
        let file = self.walk(path)?.found.ok_or_else(|| Error::NotFound { path: path.into() })?;
        self.commit(by, Change::SetAttributes { file, mode: mode.map(bits), accessed, modified })?;
        if modified.is_some() {
            self.opens.set_modified(file, by.now);
        }
        self.attributes(file)
    }

    /// Whether this request, which has no answer, was done before.
    pub(crate) fn repeated(&self, by: Caller) -> Result<bool, Error> {
        match self.done(by) {
            None => Ok(false),
            Some(Outcome::Done) => Ok(true),
            Some(Outcome::About(_)) => Err(Error::OtherRequest { request: by.request.0 }),
        }
    }

    /// Whether a directory is another one or below it.
    fn is_within(&self, mut directory: FileId, above: FileId) -> bool {
        loop {
            if directory == above {
                return true;
            }
            match self.state.inodes.get(directory) {
                Some(inode) if inode.parent != directory => directory = inode.parent,
                _ => return false,
            }
        }
    }
}
