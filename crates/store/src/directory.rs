//! The directory of a [`FileStore`](crate::FileStore): its files, and the lock that gives it to one server alone.
//!
//! ```text
//! format                     whose store it is
//! manifest                   which parts there must be
//! parts/xx/<id>.sums         a part: its end and its blocks' checksums
//! parts/xx/<id>              its bytes, sparse
//! parts/xx/<id>.alt          second versions of its blocks, if there are any
//! parts/xx/<id>.ordered      its blocks that lie in an order of their own, if there are any
//! parts/xx/<id>.ordered.new  an order that is being written
//! ```
//!
//! `<id>` is the file's id as 16 hex digits and `xx` the last two of them. All 256 directories are created with the store,
//! and `format` last of all, so a directory without it is one that was never finished, or no store at all.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pario_medium::{Medium, MediumDirectory, MediumFile, OpenMode};
use pario_runtime::sync::Mutex;
use pario_types::FileId;

use crate::error::{Error, Result, StoreAction};
use crate::format::StoreFormat;
use crate::index::{PartExtent, PartIndex};
use crate::manifest::{ManifestContents, PartManifest};
use crate::table::{self, PartHeader};

const FANS: usize = 256;
/// The suffixes of the names of a part's files.
const ENDINGS: [&str; 5] = ["", "sums", "alt", "ordered", "ordered.new"];

/// A directory that is locked while this value exists.
pub struct StoreDirectory {
    medium: Arc<dyn Medium>,
    root: PathBuf,
    handle: Box<dyn MediumDirectory>,
    /// For each of the 256 directories: whether it has new names that may not be on the medium.
    unsynced: Vec<Mutex<bool>>,
}

/// The paths of a part's files.
#[derive(Clone, Debug)]
pub struct PartPaths {
    /// Its bytes.
    pub data: PathBuf,
    /// Its end and its checksums.
    pub sums: PathBuf,
    /// Second versions of its blocks.
    pub alt: PathBuf,
    /// Its blocks in an order of their own.
    pub ordered: PathBuf,
    /// The same while it is being written.
    pub new_order: PathBuf,
}

/// The files of a part that were found.
#[derive(Clone, Copy, Debug, Default)]
struct ScannedPart {
    endings: [bool; ENDINGS.len()],
}

impl ScannedPart {
    /// Whether there is more than checksums.
    fn has_bytes(self) -> bool {
        self.endings[0] || self.endings[2] || self.endings[3]
    }
}

impl StoreDirectory {
    /// Opens a directory, and creates a store if it is none yet; its parent has to exist.
    pub fn open(medium: Arc<dyn Medium>, root: &Path, format: &StoreFormat) -> Result<StoreDirectory> {
        make(&*medium, root)?;
        let handle =
            medium.open_directory(root).map_err(|error| Error::io(StoreAction::Open, root, error))?;
        if !handle.lock().map_err(|error| Error::io(StoreAction::Lock, root, error))? {
            return Err(Error::InUse { path: root.to_owned() });
        }
        // A predecessor may have been killed before it brought its names to the medium.
        let unsynced = (0..FANS).map(|_| Mutex::new(true)).collect();
        let directory = StoreDirectory { medium, root: root.to_owned(), handle, unsynced };
        let path = root.join("format");
        match directory.read_whole(&path) {
            Ok(text) => format.check(root, &path, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => directory.create(format)?,
            Err(error) => return Err(Error::io(StoreAction::Read, &path, error)),
        }
        directory.sync_own_names()?;
        directory.rebuild_manifest_if_requested()?;
        Ok(directory)
    }

    /// The directory itself.
    pub fn handle(&self) -> &dyn MediumDirectory {
        &*self.handle
    }

    /// The file system of the directory.
    pub fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    /// Its path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the paths of a file's part.
    pub fn names(&self, file: FileId) -> PartPaths {
        let data = self.fan(fan_of(file)).join(file.to_string());
        let [_, sums, alt, ordered, new_order] = ENDINGS.map(|ending| data.with_extension(ending));
        PartPaths { data, sums, alt, ordered, new_order }
    }

    /// A part has new names.
    pub fn changed(&self, file: FileId) {
        *self.unsynced[fan_of(file)].lock() = true;
    }

    /// Brings a file's names to the medium, if they may not be there.
    pub fn sync(&self, file: FileId) -> Result<()> {
        let fan = fan_of(file);
        // The lock is held meanwhile: a second caller must not return before.
        let mut unsynced = self.unsynced[fan].lock();
        if *unsynced {
            self.sync_directory(&self.fan(fan))?;
            *unsynced = false;
        }
        Ok(())
    }

    /// Removes all files of a part.
    pub fn remove(&self, file: FileId) -> Result<()> {
        let PartPaths { data, sums, alt, ordered, new_order } = self.names(file);
        for path in [data, alt, ordered, new_order, sums] {
            match self.medium.remove(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(|error| Error::io(StoreAction::Remove, &path, error))?,
            }
        }
        Ok(())
    }

    /// Returns all parts that exist and must exist. It deletes only files of parts that the manifest lists as removed, and
    /// the remains of parts that were never synced after a loss of power.
    pub fn scan(&self, manifest: &PartManifest, known: &ManifestContents) -> Result<PartIndex> {
        let index = PartIndex::default();
        let mut found = self.find()?;
        // The log's records of removed parts have to be on the medium before their files are deleted.
        let writable = manifest.sync().is_ok();
        for file in known.removed.iter().filter(|_| writable) {
            if found.remove(file).is_some() {
                self.remove(*file)?;
            }
        }
        for file in known.parts.keys() {
            found.entry(*file).or_default();
        }
        for (file, found) in found {
            let synced = known.parts.get(&file).copied();
            let extent = self.extent(file, found, manifest.losses())?;
            // A loss of power may leave any remains of a part that was never synced, and a kill the beginning of one.
            let begun = synced.is_none() && !found.has_bytes();
            if extent.lost && synced != Some(true) && (known.power_was_lost || begun) && writable {
                manifest.removed(file)?;
                manifest.sync()?;
                self.remove(file)?;
                continue;
            }
            if synced.is_none() && writable {
                manifest.created(file)?;
            }
            index.set(file, extent);
        }
        Ok(index)
    }

    /// Returns the extent of a part.
    fn extent(&self, file: FileId, found: ScannedPart, losses: u64) -> Result<PartExtent> {
        let names = self.names(file);
        let mut extent = PartExtent::default();
        let mut longest = 0;
        for (path, _) in [&names.data, &names.alt, &names.ordered]
            .into_iter()
            .zip([found.endings[0], found.endings[2], found.endings[3]])
            .filter(|(_, there)| *there)
        {
            let stats =
                self.medium.inspect(path).map_err(|error| Error::io(StoreAction::Inspect, path, error))?;
            extent.used += stats.used;
            longest = if *path == names.data { stats.len } else { longest };
        }
        let header = if found.endings[1] { self.read_header(file, &names.sums)? } else { None };
        match header {
            Some(header) => {
                (extent.end, extent.ordered) = (header.end, header.ordered);
                extent.unsynced = header.unsynced || header.losses != losses;
            }
            None => (extent.end, extent.ordered, extent.lost) = (longest, found.endings[3], true),
        }
        Ok(extent)
    }

    fn read_header(&self, file: FileId, path: &Path) -> Result<Option<PartHeader>> {
        let failed = |error| Error::io(StoreAction::Read, path, error);
        let sums = self.medium.open(path, OpenMode::Read).map_err(failed)?;
        let mut bytes = [0; table::HEADER];
        pario_medium::fill(&*sums, 0, &mut [&mut bytes]).map_err(failed)?;
        Ok(PartHeader::decode(file, &bytes))
    }

    /// Returns the existing files, by part.
    fn find(&self) -> Result<BTreeMap<FileId, ScannedPart>> {
        let mut all: BTreeMap<FileId, ScannedPart> = BTreeMap::new();
        for fan in 0..FANS {
            let path = self.fan(fan);
            let names = match self.medium.list(&path) {
                // A missing directory is noticed by the parts that are missing in it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    make(&*self.medium, &path)?;
                    Vec::new()
                }
                names => names.map_err(|error| Error::io(StoreAction::List, &path, error))?,
            };
            for name in names {
                let (id, ending) = name.split_once('.').unwrap_or((&name, ""));
                let (Some(file), Some(ending)) =
                    (file_of(id, fan), ENDINGS.iter().position(|known| *known == ending))
                else {
                    continue;
                };
                all.entry(file).or_default().endings[ending] = true;
            }
        }
        Ok(all)
    }

    /// Creates a new manifest of the existing parts if a file of this name requests it.
    fn rebuild_manifest_if_requested(&self) -> Result<()> {
        let told = self.root.join("manifest.rebuild");
        if self.medium.inspect(&told).is_err() {
            return Ok(());
        }
        let found: BTreeSet<FileId> = self.find()?.into_keys().collect();
        PartManifest::rebuild(&self.medium, &self.root, &found)?;
        self.medium.remove(&told).map_err(|error| Error::io(StoreAction::Remove, &told, error))
    }

    fn create(&self, format: &StoreFormat) -> Result<()> {
        let parts = self.root.join("parts");
        make(&*self.medium, &parts)?;
        for fan in 0..FANS {
            let path = self.fan(fan);
            make(&*self.medium, &path)?;
            let names =
                self.medium.list(&path).map_err(|error| Error::io(StoreAction::List, &path, error))?;
            if !names.is_empty() {
                return Err(Error::NoFormat { path: self.root.join("format") });
            }
        }
        self.sync_directory(&parts)?;
        PartManifest::create(&self.medium, &self.root)?;
        let (path, temporary) = (self.root.join("format"), self.root.join("format.new"));
        let write = || {
            let file = self.medium.open(&temporary, OpenMode::New)?;
            pario_medium::put(&*file, 0, &[format.text().as_bytes()])?;
            file.sync()?;
            self.medium.rename(&temporary, &path)
        };
        write().map_err(|error| Error::io(StoreAction::Create, &path, error))
    }

    /// Brings the names in the directory, and its own name, to the medium: a predecessor may have been killed before it did, and nothing
    /// in a directory whose name is lost can be found.
    fn sync_own_names(&self) -> Result<()> {
        let parent = self.root.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.filter(|_| !pario_runtime::is_planted("own-name-not-synced"));
        for path in [Some(self.root.as_path()), parent].into_iter().flatten() {
            match self.sync_directory(path) {
                // The medium is read-only, or the directory belongs to somebody else, who created this one.
                Err(error) if matches!(error.errno(), libc::EROFS | libc::EACCES | libc::EPERM) => {}
                done => done?,
            }
        }
        Ok(())
    }

    fn read_whole(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file: Box<dyn MediumFile> = self.medium.open(path, OpenMode::Read)?;
        let mut bytes = vec![0; file.stats()?.len as usize];
        pario_medium::fill(&*file, 0, &mut [&mut bytes])?;
        Ok(bytes)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        let done = self.medium.open_directory(path).and_then(|directory| directory.sync());
        done.map_err(|error| Error::io(StoreAction::Sync, path, error))
    }

    fn fan(&self, fan: usize) -> PathBuf {
        self.root.join("parts").join(format!("{fan:02x}"))
    }
}

fn fan_of(file: FileId) -> usize {
    file.0 as usize % FANS
}

/// Returns the file with this name, if it is in the right directory.
fn file_of(name: &str, fan: usize) -> Option<FileId> {
    let file = FileId(u64::from_str_radix(name, 16).ok()?);
    (file.to_string() == name && fan_of(file) == fan).then_some(file)
}

fn make(medium: &dyn Medium, path: &Path) -> Result<()> {
    medium.make_directory(path).map_err(|error| Error::io(StoreAction::Create, path, error))
}
