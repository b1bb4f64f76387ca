//! The directory of a [`FileStore`](crate::FileStore): where things lie in it, and that it is this server's
//! alone.
//!
//! ```text
//! format                     whose store it is
//! parts/xx/<id>              a part: exactly as long as the part, sparse
//! parts/xx/<id>.sums         its checksums
//! parts/xx/<id>.ordered      its blocks that lie in an order of their own, if there are any
//! parts/xx/<id>.ordered.new  an order that is being written
//! ```
//!
//! `<id>` is the file's id as 16 hex digits and `xx` the last two of them. All 256 directories are made
//! when the store is, and `format` last of all, so a directory without it is one that was never finished,
//! or none at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pario_units::FileId;

use crate::error::{Action, Error, Result};
use crate::format::Format;
use crate::index::{Extent, Index};
use crate::sys;

const FANS: usize = 256;
const SUMS: &str = "sums";
const ORDERED: &str = "ordered";
const NEW_ORDER: &str = "ordered.new";

/// A directory that nobody else uses while this lives.
pub struct Directory {
    root: PathBuf,
    handle: File,
    /// By fan: whether names appeared that may not be on the medium.
    unsynced: Vec<Mutex<bool>>,
}

/// Where a part lies.
#[derive(Clone, Debug)]
pub struct Names {
    /// Its bytes.
    pub data: PathBuf,
    /// Its checksums.
    pub sums: PathBuf,
    /// Its blocks that lie in an order of their own.
    pub ordered: PathBuf,
    /// The same while that is being made.
    pub new_order: PathBuf,
}

impl Directory {
    /// Takes a directory, and makes it a store if it is none yet; its parent has to be there.
    pub fn open(root: &Path, format: &Format) -> Result<Directory> {
        make(root)?;
        let handle = File::open(root).map_err(|error| Error::io(Action::Open, root, error))?;
        if !sys::lock(&handle).map_err(|error| Error::io(Action::Lock, root, error))? {
            return Err(Error::InUse { path: root.to_owned() });
        }
        let unsynced = (0..FANS).map(|_| Mutex::new(false)).collect();
        let directory = Directory { root: root.to_owned(), handle, unsynced };
        let path = root.join("format");
        match fs::read(&path) {
            Ok(text) => format.check(root, &path, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => directory.create(format)?,
            Err(error) => return Err(Error::io(Action::Read, &path, error)),
        }
        Ok(directory)
    }

    /// The directory itself.
    pub fn handle(&self) -> &File {
        &self.handle
    }

    /// Its path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a file's part lies.
    pub fn names(&self, file: FileId) -> Names {
        let data = self.fan(fan_of(file)).join(file.to_string());
        let [sums, ordered, new_order] =
            [SUMS, ORDERED, NEW_ORDER].map(|extension| data.with_extension(extension));
        Names { data, sums, ordered, new_order }
    }

    /// A file's names appeared.
    pub fn changed(&self, file: FileId) {
        *self.unsynced[fan_of(file)].lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Brings a file's names to the medium, if they may not be there.
    pub fn sync(&self, file: FileId) -> Result<()> {
        let fan = fan_of(file);
        // Held while it is done: who comes second must not return before.
        let mut unsynced = self.unsynced[fan].lock().unwrap_or_else(PoisonError::into_inner);
        if *unsynced {
            sync_directory(&self.fan(fan))?;
            *unsynced = false;
        }
        Ok(())
    }

    /// All parts there are. What lies beside none, left by a crash, is removed.
    pub fn scan(&self) -> Result<Index> {
        let index = Index::default();
        let mut beside = Vec::new();
        for fan in 0..FANS {
            let path = self.fan(fan);
            for name in names_in(&path)? {
                let (name, entry) = name?;
                let (id, extension) = name.split_once('.').unwrap_or((&name, ""));
                let Some(file) = file_of(id, fan) else { continue };
                match extension {
                    "" => {
                        let facts = inspect(&entry.path())?;
                        let (end, used) = (facts.len(), facts.blocks() * 512);
                        index.set(file, Extent { end, used, ordered: false });
                    }
                    SUMS => beside.push((file, SUMS)),
                    ORDERED => beside.push((file, ORDERED)),
                    NEW_ORDER => beside.push((file, NEW_ORDER)),
                    _ => {}
                }
            }
            for (file, extension) in beside.drain(..) {
                let path = self.names(file).data.with_extension(extension);
                match index.extent(file) {
                    Some(_) if extension == SUMS => {}
                    Some(extent) if extension == ORDERED => {
                        let used = extent.used + inspect(&path)?.blocks() * 512;
                        index.set(file, Extent { used, ordered: true, ..extent });
                    }
                    // It takes a little room and no more: that it cannot go is no reason not to open.
                    _ => drop(fs::remove_file(path)),
                }
            }
        }
        Ok(index)
    }

    fn create(&self, format: &Format) -> Result<()> {
        let parts = self.root.join("parts");
        make(&parts)?;
        for fan in 0..FANS {
            let path = self.fan(fan);
            make(&path)?;
            if names_in(&path)?.next().is_some() {
                return Err(Error::NoFormat { path: self.root.join("format") });
            }
        }
        sync_directory(&parts)?;
        let (path, temporary) = (self.root.join("format"), self.root.join("format.new"));
        let write = || {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            file.write_all(format.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        write().map_err(|error| Error::io(Action::Create, &path, error))?;
        sync_directory(&self.root)
    }

    fn fan(&self, fan: usize) -> PathBuf {
        self.root.join("parts").join(format!("{fan:02x}"))
    }
}

fn fan_of(file: FileId) -> usize {
    file.0 as usize % FANS
}

/// The file whose name this is, in the fan where it belongs.
fn file_of(name: &str, fan: usize) -> Option<FileId> {
    let file = FileId(u64::from_str_radix(name, 16).ok()?);
    (file.to_string() == name && fan_of(file) == fan).then_some(file)
}

fn names_in(path: &Path) -> Result<impl Iterator<Item = Result<(String, fs::DirEntry)>>> {
    let failed = |error| Error::io(Action::List, path, error);
    let entries = fs::read_dir(path).map_err(failed)?;
    Ok(entries.map(move |entry| {
        let entry = entry.map_err(failed)?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry))
    }))
}

fn inspect(path: &Path) -> Result<fs::Metadata> {
    fs::symlink_metadata(path).map_err(|error| Error::io(Action::Inspect, path, error))
}

fn make(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(_) if path.is_dir() => Ok(()),
        result => result.map_err(|error| Error::io(Action::Create, path, error)),
    }
}

fn sync_directory(path: &Path) -> Result<()> {
    let done = File::open(path).and_then(|directory| directory.sync_all());
    done.map_err(|error| Error::io(Action::Sync, path, error))
}
