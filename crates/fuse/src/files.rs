//! The kernel's requests, performed on a partition: inode numbers and names in, attributes and bytes out.
//!
//! This module caches neither content nor size of files: every request goes to the servers, so that writes of MPI programs
//! are visible at once. An open file stays usable when its name is removed.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io::PipeWriter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use fuser::{Errno, FileAttr, OpenAccMode, OpenFlags};
use pario_client::{ErrorKind, File, Metadata, OpenOptions, Partition, StorageSpace};
use parking_lot::Mutex;

use crate::attributes::{Owner, attributes};
use crate::errno::errno;
use crate::listing::Listing;
use crate::names::Names;

pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// A partition's files, as the kernel uses them.
pub(crate) struct Files {
    pub partition: Partition,
    pub owner: Owner,
    names: Mutex<Names>,
    /// Open files, by number and handle.
    opens: Mutex<BTreeMap<(u64, u64), Arc<OpenHandle>>>,
    listings: Mutex<HashMap<u64, Arc<Mutex<Listing>>>>,
    handles: AtomicU64,
    /// Closed when the mount is no longer served.
    _ending: PipeWriter,
}

/// An open file.
struct OpenHandle {
    file: File,
    /// Its metadata at the time of the open.
    metadata: Metadata,
    appends: bool,
    /// Writes up to this time do not change the time of modification, because it was set.
    settled: Mutex<Option<SystemTime>>,
}

impl OpenHandle {
    /// The time of the last write through this handle, if the time was not set since.
    fn modified(&self) -> Option<SystemTime> {
        self.file.modified().filter(|modified| Some(*modified) > *self.settled.lock())
    }
}

/// The changes of a file's or directory's attributes.
#[derive(Default)]
pub(crate) struct Changes {
    pub size: Option<u64>,
    pub mode: Option<u32>,
    pub accessed: Option<SystemTime>,
    pub modified: Option<SystemTime>,
}

impl Files {
    pub fn new(partition: Partition, ending: PipeWriter) -> Files {
        Files {
            partition,
            owner: Owner::this_process(),
            names: Mutex::default(),
            opens: Mutex::default(),
            listings: Mutex::default(),
            handles: AtomicU64::new(1),
            _ending: ending,
        }
    }

    // Names.

    pub fn look_up(&self, parent: u64, name: &OsStr) -> Result<FileAttr> {
        // An invalid name does not exist.
        let name = name.to_str().ok_or(Errno::ENOENT)?;
        self.found(parent, name)
    }

    /// Returns the attributes of a name, and counts the kernel's reference to it.
    fn found(&self, parent: u64, name: &str) -> Result<FileAttr> {
        let metadata = self.partition.metadata(&self.path_in(parent, name)?).map_err(errors)?;
        self.names.lock().tell(parent, name, metadata.id().0);
        Ok(self.attributes(&metadata))
    }

    pub fn forget(&self, number: u64, times: u64) {
        self.names.lock().forget(number, times);
    }

    pub fn make_directory(&self, parent: u64, name: &OsStr, mode: u32) -> Result<FileAttr> {
        let name = text(name)?;
        self.partition.create_dir_as(&self.path_in(parent, name)?, mode).map_err(errors)?;
        self.found(parent, name)
    }

    pub fn remove(&self, parent: u64, name: &OsStr, is_dir: bool) -> Result<()> {
        let name = text(name)?;
        let path = self.path_in(parent, name)?;
        let removed =
            if is_dir { self.partition.remove_dir(&path) } else { self.partition.remove_file(&path) };
        removed.map_err(errors)?;
        self.names.lock().remove(parent, name);
        Ok(())
    }

    pub fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), replace: bool) -> Result<()> {
        let (old, new) = (text(from.1)?, text(to.1)?);
        let (path, new_path) = (self.path_in(from.0, old)?, self.path_in(to.0, new)?);
        let renamed = if replace {
            self.partition.rename(&path, &new_path)
        } else {
            self.partition.rename_new(&path, &new_path)
        };
        renamed.map_err(errors)?;
        self.names.lock().rename((from.0, old), (to.0, new));
        Ok(())
    }

    // Attributes.

    pub fn get(&self, number: u64) -> Result<FileAttr> {
        let path = self.names.lock().path(number);
        match path.map(|path| self.partition.metadata(&path)) {
            Some(Ok(metadata)) if metadata.id().0 == number => Ok(self.attributes(&metadata)),
            Some(Err(error)) if error.kind() != ErrorKind::NoSuchFile => Err(errors(error)),
            _ => self.get_nameless(number),
        }
    }

    /// The attributes of a file whose name is removed come from its open handle.
    fn get_nameless(&self, number: u64) -> Result<FileAttr> {
        let opened = self.opened(number).pop().ok_or(Errno::ESTALE)?;
        let size = opened.file.len().map_err(errors)?;
        Ok(FileAttr { size, blocks: size.div_ceil(512), nlink: 0, ..self.attributes(&opened.metadata) })
    }

    /// The attributes that `stat` shows. Servers learn a file's time of modification only when its writer closes it.
    fn attributes(&self, metadata: &Metadata) -> FileAttr {
        let mut found = attributes(metadata, self.owner);
        if metadata.is_file() {
            let written = self.opened(metadata.id().0).iter().filter_map(|opened| opened.modified()).max();
            found.mtime = found.mtime.max(written.unwrap_or(found.mtime));
            found.ctime = found.ctime.max(written.unwrap_or(found.ctime));
        }
        found
    }

    pub fn set(&self, number: u64, handle: Option<u64>, changes: &Changes) -> Result<FileAttr> {
        let Changes { size, mode, accessed, modified } = changes;
        if let Some(size) = size {
            match handle {
                Some(handle) => self.handle(number, handle)?.file.set_len(*size).map_err(errors)?,
                None => self.cut(number, *size)?,
            }
        }
        if let Some(mode) = mode {
            self.partition.set_mode(&self.path(number)?, *mode).map_err(errors)?;
        }
        if accessed.is_some() || modified.is_some() {
            self.partition.set_times(&self.path(number)?, *accessed, *modified).map_err(errors)?;
        }
        if modified.is_some() {
            let now = SystemTime::now();
            self.opened(number).iter().for_each(|opened| *opened.settled.lock() = Some(now));
        }
        self.get(number)
    }

    fn cut(&self, number: u64, size: u64) -> Result<()> {
        let file = self.open_as(number, OpenOptions::new().write(true))?;
        file.set_len(size).and_then(|()| file.close()).map_err(errors)
    }

    // Open files.

    pub fn open(&self, number: u64, flags: OpenFlags) -> Result<u64> {
        let file = self.open_as(number, &options(flags))?;
        if flags.0 & libc::O_TRUNC != 0 {
            file.set_len(0).map_err(errors)?;
        }
        let metadata = self.partition.metadata(&self.path(number)?).map_err(errors)?;
        Ok(self.keep(file, metadata, flags))
    }

    /// Opens the file of that number, not another file that has its name by now; the kernel then looks the name up again.
    fn open_as(&self, number: u64, options: &OpenOptions) -> Result<File> {
        let file = self.partition.open(&self.path(number)?, options).map_err(errors)?;
        if file.id().0 == number { Ok(file) } else { Err(Errno::ESTALE) }
    }

    pub fn create(&self, parent: u64, name: &OsStr, mode: u32, flags: OpenFlags) -> Result<(FileAttr, u64)> {
        let name = text(name)?;
        let path = self.path_in(parent, name)?;
        // Creating a file requires write access, even if the program only reads.
        let mut options = options(flags);
        options.write(true).create(true).create_new(flags.0 & libc::O_EXCL != 0).mode(mode);
        options.truncate(flags.0 & libc::O_TRUNC != 0);
        let file = self.partition.open(&path, &options).map_err(errors)?;
        let metadata = self.partition.metadata(&path).map_err(errors)?;
        if metadata.id() != file.id() {
            return Err(Errno::ESTALE);
        }
        self.names.lock().tell(parent, name, file.id().0);
        Ok((self.attributes(&metadata), self.keep(file, metadata, flags)))
    }

    fn keep(&self, file: File, metadata: Metadata, flags: OpenFlags) -> u64 {
        let (number, handle) = (file.id().0, self.handles.fetch_add(1, Ordering::Relaxed));
        let appends = flags.0 & libc::O_APPEND != 0;
        let opened = OpenHandle { file, metadata, appends, settled: Mutex::default() };
        self.opens.lock().insert((number, handle), Arc::new(opened));
        handle
    }

    fn handle(&self, number: u64, handle: u64) -> Result<Arc<OpenHandle>> {
        self.opens.lock().get(&(number, handle)).cloned().ok_or(Errno::EBADF)
    }

    /// All open handles of a file.
    fn opened(&self, number: u64) -> Vec<Arc<OpenHandle>> {
        let opens = self.opens.lock();
        opens.range((number, 0)..=(number, u64::MAX)).map(|(_, opened)| Arc::clone(opened)).collect()
    }

    pub fn read(&self, number: u64, handle: u64, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.handle(number, handle)?.file.read_at(bytes, offset).map_err(errors)
    }

    pub fn write(&self, number: u64, handle: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let opened = self.handle(number, handle)?;
        if opened.appends { append(&opened.file, bytes) } else { opened.file.write_at(bytes, offset) }
            .map_err(errors)
    }

    /// A program closes one of its descriptors: its writes must be stored now, or the close reports the error.
    pub fn flush(&self, number: u64, handle: u64) -> Result<()> {
        self.handle(number, handle)?.file.flush().map_err(errors)
    }

    pub fn sync(&self, number: u64, handle: u64) -> Result<()> {
        self.handle(number, handle)?.file.sync().map_err(errors)
    }

    /// The handle has no more users.
    pub fn release(&self, number: u64, handle: u64) -> Result<()> {
        let opened = self.opens.lock().remove(&(number, handle)).ok_or(Errno::EBADF)?;
        // A request that uses it at this moment closes it at its end.
        Arc::into_inner(opened).map_or(Ok(()), |opened| opened.file.close()).map_err(errors)
    }

    // Directories.

    pub fn open_directory(&self, number: u64) -> Result<u64> {
        let path = self.path(number)?;
        let parent = self.names.lock().parent(number).unwrap_or(number);
        let listing = Listing::new(&self.partition, path, [number, parent]);
        let handle = self.handles.fetch_add(1, Ordering::Relaxed);
        self.listings.lock().insert(handle, Arc::new(Mutex::new(listing)));
        Ok(handle)
    }

    pub fn list(&self, handle: u64, offset: u64, reply: &mut fuser::ReplyDirectory) -> Result<()> {
        let listing = self.listings.lock().get(&handle).cloned().ok_or(Errno::EBADF)?;
        listing.lock().fill(&self.partition, offset, reply).map_err(errors)
    }

    pub fn release_directory(&self, handle: u64) {
        self.listings.lock().remove(&handle);
    }

    pub fn room(&self) -> Result<StorageSpace> {
        self.partition.statfs().map_err(errors)
    }

    /// Makes names and everything else survive a loss of power.
    pub fn sync_all(&self) -> Result<()> {
        self.partition.sync().map_err(errors)
    }

    fn path(&self, number: u64) -> Result<String> {
        self.names.lock().path(number).ok_or(Errno::ESTALE)
    }

    fn path_in(&self, parent: u64, name: &str) -> Result<String> {
        self.names.lock().path_in(parent, name).ok_or(Errno::ESTALE)
    }
}

/// Writes at the end of the file; the kernel's size may be out of date. Other appends wait.
fn append(file: &File, bytes: &[u8]) -> pario_client::Result<()> {
    let lock = file.lock(0..i64::MAX as u64, true)?;
    let written = file.len().and_then(|end| file.write_at(bytes, end));
    written.and(lock.unlock())
}

fn options(flags: OpenFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    let access = flags.acc_mode();
    options.read(access != OpenAccMode::O_WRONLY).write(access != OpenAccMode::O_RDONLY);
    options
}

fn text(name: &OsStr) -> Result<&str> {
    name.to_str().ok_or(Errno::EILSEQ)
}

fn errors(error: pario_client::Error) -> Errno {
    errno(&error)
}
