//! The source or target of a copy: a file or directory on this host or in a partition, with the same operations.

use crate::error::Error;
use crate::location::join;
use crate::open_file::OpenFile;
use pario_client::{OpenOptions, Partition, PlacementMap};
use pario_runtime::fs::{self, FileTimes};
use pario_runtime::time::SystemTime;
use pario_types::ErrorKind;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// Where a file or directory is, ready to be used.
#[derive(Clone)]
pub enum Endpoint {
    /// On this host.
    Host(PathBuf),
    /// In a partition, at this path.
    Partition(Partition, String),
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A device, a pipe, a socket.
    Other,
}

/// The attributes of a file or directory that a copy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its type.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// The time of its last read.
    pub accessed: SystemTime,
    /// The time of its last change.
    pub modified: SystemTime,
    /// Identifies the file on this host or in its partition.
    pub id: (u64, u64),
}

impl FileInfo {
    /// Whether type, size and time of change are equal, as they are if nobody has changed the bytes.
    pub fn has_same_bytes(&self, other: &FileInfo) -> bool {
        (self.kind, self.size, self.modified) == (other.kind, other.size, other.modified)
    }
}

/// The layout of a new file in a partition; 0 stands for the partition's own setting.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewFileLayout {
    /// Bytes of a stripe.
    pub stripe: u64,
    /// The number of servers.
    pub count: u16,
    /// The table that a plan makes.
    pub table: Option<PlacementMap>,
}

impl Endpoint {
    /// As the user writes it.
    pub fn show(&self) -> String {
        match self {
            Endpoint::Host(path) => path.display().to_string(),
            Endpoint::Partition(partition, path) => format!("{}:{path}", partition.name()),
        }
    }

    /// Its last name; `.` and `/` have none.
    pub fn name(&self) -> Option<OsString> {
        match self {
            Endpoint::Host(path) if path.as_os_str().as_bytes().ends_with(b"/.") => None,
            Endpoint::Host(path) => path.file_name().map(OsStr::to_owned),
            Endpoint::Partition(_, path) => {
                path.rsplit('/').next().filter(|name| !name.is_empty()).map(OsString::from)
            }
        }
    }

    /// An entry of this directory.
    pub fn join(&self, name: &OsStr) -> Result<Endpoint, Error> {
        match self {
            Endpoint::Host(path) => Ok(Endpoint::Host(path.join(name))),
            Endpoint::Partition(partition, path) => match name.to_str() {
                Some(name) => Ok(Endpoint::Partition(partition.clone(), join(path, name))),
                None => {
                    let why = "not UTF-8, as names in a partition have to be; rename it first";
                    Err(Error::Refused(name.display().to_string(), why))
                }
            },
        }
    }

    /// Another entry of the same directory.
    pub fn sibling(&self, name: &str) -> Endpoint {
        match self {
            Endpoint::Host(path) => Endpoint::Host(path.with_file_name(name)),
            Endpoint::Partition(partition, path) => {
                let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
                Endpoint::Partition(partition.clone(), join(directory, name))
            }
        }
    }

    /// The attributes; `None` if there is no such file. Links on this host are followed.
    pub fn info(&self) -> Result<Option<FileInfo>, Error> {
        const ACTION: &str = "cannot look at";
        match self {
            Endpoint::Host(path) => match fs::metadata(path) {
                Ok(metadata) => Ok(Some(host_info(&metadata))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Error::on_host(ACTION, path)(error)),
            },
            Endpoint::Partition(partition, path) => match partition.metadata(path) {
                Ok(metadata) => Ok(Some(FileInfo {
                    kind: if metadata.is_dir() { FileKind::Directory } else { FileKind::File },
                    size: metadata.len(),
                    mode: metadata.mode(),
                    accessed: metadata.accessed(),
                    modified: metadata.modified(),
                    id: (0, metadata.id().0),
                })),
                Err(error) if error.kind() == ErrorKind::NoSuchFile => Ok(None),
                Err(error) => Err(Error::in_partition(ACTION, self.show())(error)),
            },
        }
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        matches!(self, Endpoint::Host(path) if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()))
    }

    /// The names in a directory.
    pub fn list(&self) -> Result<Box<dyn Iterator<Item = Result<OsString, Error>> + '_>, Error> {
        const ACTION: &str = "cannot list";
        match self {
            Endpoint::Host(path) => {
                let entries = fs::read_dir(path).map_err(Error::on_host(ACTION, path))?;
                Ok(Box::new(entries.map(move |entry| {
                    entry.map(|entry| entry.file_name()).map_err(Error::on_host(ACTION, path))
                })))
            }
            Endpoint::Partition(partition, path) => {
                Ok(Box::new(partition.read_dir(path).map(move |entry| {
                    entry.map(|entry| entry.name().into()).map_err(Error::in_partition(ACTION, self.show()))
                })))
            }
        }
    }

    /// Makes a directory, unless it exists.
    pub fn make_directory(&self) -> Result<(), Error> {
        const ACTION: &str = "cannot make the directory";
        let made = match self {
            Endpoint::Host(path) => match fs::create_dir(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::on_host(ACTION, path)(error));
                }
                made => made.is_ok(),
            },
            Endpoint::Partition(partition, path) => match partition.create_dir(path) {
                Err(error) if error.kind() != ErrorKind::FileExists => {
                    return Err(Error::in_partition(ACTION, self.show())(error));
                }
                made => made.is_ok(),
            },
        };
        if made || self.info()?.is_some_and(|info| info.kind == FileKind::Directory) {
            Ok(())
        } else {
            Err(Error::Refused(self.show(), "a file, where a directory is to be made"))
        }
    }

    /// Opens a file for reading.
    pub(crate) fn open(&self) -> Result<OpenFile, Error> {
        match self {
            Endpoint::Host(path) => {
                // Opening must not wait if the path has become a named pipe.
                let file = fs::OpenOptions::new().read(true).custom_flags(fs::NONBLOCKING).open(path);
                file.map(OpenFile::Host).map_err(Error::on_host("cannot open", path))
            }
            Endpoint::Partition(partition, path) => {
                let file = partition.open(path, OpenOptions::new().read(true));
                file.map(OpenFile::Partition).map_err(Error::in_partition("cannot open", self.show()))
            }
        }
    }

    /// Opens an existing file for reading and writing, or creates a new one that only this user may read.
    pub(crate) fn open_to_write(&self, new: bool, layout: &NewFileLayout) -> Result<OpenFile, Error> {
        const ACTION: &str = "cannot write";
        match self {
            Endpoint::Host(path) => {
                let mut options = fs::OpenOptions::new();
                let file = options.read(true).write(true).create_new(new).mode(0o600).open(path);
                file.map(OpenFile::Host).map_err(Error::on_host(ACTION, path))
            }
            Endpoint::Partition(partition, path) => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).mode(0o600).stripe(layout.stripe).stripe_count(layout.count);
                if new {
                    options.create_new(true);
                }
                layout.table.iter().for_each(|table| {
                    options.table(table.clone());
                });
                partition
                    .open(path, &options)
                    .map(OpenFile::Partition)
                    .map_err(Error::in_partition(ACTION, self.show()))
            }
        }
    }

    /// Removes a file; a file that does not exist is no error.
    pub fn remove(&self) -> Result<(), Error> {
        const ACTION: &str = "cannot remove";
        match self {
            Endpoint::Host(path) => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(Error::on_host(ACTION, path)(error))
                }
                _ => Ok(()),
            },
            Endpoint::Partition(partition, path) => match partition.remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NoSuchFile => {
                    Err(Error::in_partition(ACTION, self.show())(error))
                }
                _ => Ok(()),
            },
        }
    }

    /// Renames it to another path on this host or in the same partition, and replaces what is there.
    pub fn rename(&self, to: &Endpoint) -> Result<(), Error> {
        const ACTION: &str = "cannot rename to";
        match (self, to) {
            (Endpoint::Host(from), Endpoint::Host(to)) => {
                fs::rename(from, to).map_err(Error::on_host(ACTION, to))
            }
            (Endpoint::Partition(partition, from), Endpoint::Partition(_, path)) => {
                partition.rename(from, path).map_err(Error::in_partition(ACTION, to.show()))
            }
            _ => unreachable!("both are on this host or in the same partition"),
        }
    }

    /// Sets mode and times to those of another file.
    pub fn set_attributes(&self, info: &FileInfo) -> Result<(), Error> {
        const ACTION: &str = "cannot set mode and times of";
        match self {
            Endpoint::Host(path) => {
                let times = FileTimes::new().set_accessed(info.accessed).set_modified(info.modified);
                let set = || {
                    // Times first: the mode may forbid opening it.
                    fs::File::open(path)?.set_times(times)?;
                    fs::set_permissions(path, fs::Permissions::from_mode(info.mode & 0o7777))
                };
                set().map_err(Error::on_host(ACTION, path))
            }
            Endpoint::Partition(partition, path) => {
                let times = partition.set_times(path, Some(info.accessed), Some(info.modified));
                let set = times.and_then(|()| partition.set_mode(path, info.mode & 0o777));
                set.map_err(Error::in_partition(ACTION, self.show()))
            }
        }
    }

    /// All of a small file; `None` if there is none, or one of more than `most` bytes.
    pub fn read_small(&self, most: usize) -> Result<Option<Vec<u8>>, Error> {
        let Some(info) = self.info()? else { return Ok(None) };
        if info.kind != FileKind::File || info.size > most as u64 {
            return Ok(None);
        }
        let mut bytes = vec![0; info.size as usize];
        match self.open()? {
            OpenFile::Host(file) => {
                bytes.clear();
                let read = file.take(most as u64).read_to_end(&mut bytes);
                read.map_err(io_error("cannot read", self))?;
            }
            OpenFile::Partition(file) => {
                let read =
                    file.read_at(&mut bytes, 0).map_err(Error::in_partition("cannot read", self.show()))?;
                bytes.truncate(read);
            }
        }
        Ok(Some(bytes))
    }

    /// Replaces this file by a small one; a reader finds the old or the new contents.
    pub fn replace_small(&self, new: &Endpoint, bytes: &[u8]) -> Result<(), Error> {
        new.remove()?;
        match new.open_to_write(true, &NewFileLayout::default())? {
            OpenFile::Host(mut file) => file.write_all(bytes).map_err(io_error("cannot write", new))?,
            OpenFile::Partition(file) => {
                let written = file.write_at(bytes, 0).and_then(|()| file.close());
                written.map_err(Error::in_partition("cannot write", new.show()))?;
            }
        }
        new.rename(self)
    }
}

pub(crate) fn io_error(action: &'static str, endpoint: &Endpoint) -> impl FnOnce(io::Error) -> Error {
    let path = PathBuf::from(endpoint.show());
    move |cause| Error::OnHost { action, path, cause }
}

pub(crate) fn host_info(metadata: &fs::Metadata) -> FileInfo {
    let kind = match (metadata.is_file(), metadata.is_dir()) {
        (true, _) => FileKind::File,
        (_, true) => FileKind::Directory,
        _ => FileKind::Other,
    };
    FileInfo {
        kind,
        size: metadata.len(),
        mode: metadata.mode() & 0o7777,
        accessed: metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH),
        modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        id: (metadata.dev(), metadata.ino()),
    }
}
