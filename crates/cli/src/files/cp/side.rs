//! The two sides of a copy: files and directories on this host or in a partition, with the same operations.

use super::super::address::join;
use super::super::error::Error;
use pario_client::{OpenOptions, Partition, PlacementMap};
use pario_types::ErrorKind;
use rustix::fs::SeekFrom;
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileTimes};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::time::SystemTime;

/// Where something is.
#[derive(Clone)]
pub enum Side {
    /// On this host.
    Here(PathBuf),
    /// In a partition, at this path.
    There(Partition, String),
}

/// What sort of thing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file with bytes.
    File,
    /// A directory.
    Directory,
    /// A device, a pipe, a socket.
    Other,
}

/// What a copy has to know of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// What it is.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// When it was last read.
    pub accessed: SystemTime,
    /// When it was last changed.
    pub modified: SystemTime,
    /// What nothing else on the same side has at the same time.
    pub id: (u64, u64),
}

impl Info {
    /// Whether, for all that can be seen, its bytes are still the same.
    pub fn has_same_bytes(&self, other: &Info) -> bool {
        (self.kind, self.size, self.modified) == (other.kind, other.size, other.modified)
    }
}

/// How a new file in a partition is to be laid out; 0: as the partition says.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Bytes of a stripe.
    pub stripe: u64,
    /// Over how many servers.
    pub count: u16,
    /// By a plan.
    pub table: Option<PlacementMap>,
}

impl Side {
    /// As the user writes it.
    pub fn show(&self) -> String {
        match self {
            Side::Here(path) => path.display().to_string(),
            Side::There(partition, path) => format!("{}:{path}", partition.name()),
        }
    }

    /// Its last name; none if it goes by no name of its own, as `.` and `/`.
    pub fn name(&self) -> Option<OsString> {
        match self {
            Side::Here(path) if path.as_os_str().as_bytes().ends_with(b"/.") => None,
            Side::Here(path) => path.file_name().map(OsStr::to_owned),
            Side::There(_, path) => {
                path.rsplit('/').next().filter(|name| !name.is_empty()).map(OsString::from)
            }
        }
    }

    /// Something in this directory.
    pub fn join(&self, name: &OsStr) -> Result<Side, Error> {
        match self {
            Side::Here(path) => Ok(Side::Here(path.join(name))),
            Side::There(partition, path) => match name.to_str() {
                Some(name) => Ok(Side::There(partition.clone(), join(path, name))),
                None => {
                    let why = "not UTF-8, as names in a partition have to be; rename it first";
                    Err(Error::Refused(name.display().to_string(), why))
                }
            },
        }
    }

    /// Something beside this.
    pub fn sibling(&self, name: &str) -> Side {
        match self {
            Side::Here(path) => Side::Here(path.with_file_name(name)),
            Side::There(partition, path) => {
                let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
                Side::There(partition.clone(), join(directory, name))
            }
        }
    }

    /// What is there; `None` if nothing. Links on this host count as what they lead to.
    pub fn info(&self) -> Result<Option<Info>, Error> {
        const DOING: &str = "cannot look at";
        match self {
            Side::Here(path) => match fs::metadata(path) {
                Ok(metadata) => Ok(Some(info_here(&metadata))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Error::here(DOING, path)(error)),
            },
            Side::There(partition, path) => match partition.metadata(path) {
                Ok(metadata) => Ok(Some(Info {
                    kind: if metadata.is_dir() { Kind::Directory } else { Kind::File },
                    size: metadata.len(),
                    mode: metadata.mode(),
                    accessed: metadata.accessed(),
                    modified: metadata.modified(),
                    id: (0, metadata.id().0),
                })),
                Err(error) if error.kind() == ErrorKind::NoSuchFile => Ok(None),
                Err(error) => Err(Error::there(DOING, self.show())(error)),
            },
        }
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        matches!(self, Side::Here(path) if path.is_symlink())
    }

    /// The names in a directory.
    pub fn list(&self) -> Result<Box<dyn Iterator<Item = Result<OsString, Error>> + '_>, Error> {
        const DOING: &str = "cannot list";
        match self {
            Side::Here(path) => {
                let entries = fs::read_dir(path).map_err(Error::here(DOING, path))?;
                Ok(Box::new(entries.map(move |entry| {
                    entry.map(|entry| entry.file_name()).map_err(Error::here(DOING, path))
                })))
            }
            Side::There(partition, path) => Ok(Box::new(partition.read_dir(path).map(move |entry| {
                entry.map(|entry| entry.name().into()).map_err(Error::there(DOING, self.show()))
            }))),
        }
    }

    /// Makes a directory, if it is not there.
    pub fn make_directory(&self) -> Result<(), Error> {
        const DOING: &str = "cannot make the directory";
        let made = match self {
            Side::Here(path) => match fs::create_dir(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::here(DOING, path)(error));
                }
                made => made.is_ok(),
            },
            Side::There(partition, path) => match partition.create_dir(path) {
                Err(error) if error.kind() != ErrorKind::FileExists => {
                    return Err(Error::there(DOING, self.show())(error));
                }
                made => made.is_ok(),
            },
        };
        match made || self.info()?.is_some_and(|info| info.kind == Kind::Directory) {
            true => Ok(()),
            false => Err(Error::Refused(self.show(), "a file, where a directory is to be made")),
        }
    }

    /// Opens a file for reading.
    pub fn open(&self) -> Result<Open, Error> {
        match self {
            Side::Here(path) => {
                // A pipe in its place must not make this wait.
                let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
                file.map(Open::Here).map_err(Error::here("cannot open", path))
            }
            Side::There(partition, path) => {
                let file = partition.open(path, OpenOptions::new().read(true));
                file.map(Open::There).map_err(Error::there("cannot open", self.show()))
            }
        }
    }

    /// Opens a file that is there for reading and writing, or makes a new one for this user's eyes only.
    pub fn open_to_write(&self, new: bool, layout: &Layout) -> Result<Open, Error> {
        const DOING: &str = "cannot write";
        match self {
            Side::Here(path) => {
                let mut options = fs::OpenOptions::new();
                let file = options.read(true).write(true).create_new(new).mode(0o600).open(path);
                file.map(Open::Here).map_err(Error::here(DOING, path))
            }
            Side::There(partition, path) => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).mode(0o600).stripe(layout.stripe).stripe_count(layout.count);
                if new {
                    options.create_new(true);
                }
                layout.table.iter().for_each(|table| {
                    options.table(table.clone());
                });
                partition.open(path, &options).map(Open::There).map_err(Error::there(DOING, self.show()))
            }
        }
    }

    /// Removes a file; that it is not there is no error.
    pub fn remove(&self) -> Result<(), Error> {
        const DOING: &str = "cannot remove";
        match self {
            Side::Here(path) => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::here(DOING, path)(error)),
                _ => Ok(()),
            },
            Side::There(partition, path) => match partition.remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NoSuchFile => {
                    Err(Error::there(DOING, self.show())(error))
                }
                _ => Ok(()),
            },
        }
    }

    /// Gives it the name of another of the same side, which it replaces.
    pub fn rename(&self, to: &Side) -> Result<(), Error> {
        const DOING: &str = "cannot rename to";
        match (self, to) {
            (Side::Here(from), Side::Here(to)) => fs::rename(from, to).map_err(Error::here(DOING, to)),
            (Side::There(partition, from), Side::There(_, path)) => {
                partition.rename(from, path).map_err(Error::there(DOING, to.show()))
            }
            _ => unreachable!("both are on the same side"),
        }
    }

    /// Gives it the mode and times of another.
    pub fn take_after(&self, info: &Info) -> Result<(), Error> {
        const DOING: &str = "cannot set mode and times of";
        match self {
            Side::Here(path) => {
                let times = FileTimes::new().set_accessed(info.accessed).set_modified(info.modified);
                let set = || {
                    // Times first: the mode may forbid to open it.
                    fs::File::open(path)?.set_times(times)?;
                    fs::set_permissions(path, fs::Permissions::from_mode(info.mode & 0o7777))
                };
                set().map_err(Error::here(DOING, path))
            }
            Side::There(partition, path) => {
                let times = partition.set_times(path, Some(info.accessed), Some(info.modified));
                let set = times.and_then(|()| partition.set_mode(path, info.mode & 0o777));
                set.map_err(Error::there(DOING, self.show()))
            }
        }
    }

    /// All of a small file; `None` if there is none, or one of more than `most` bytes.
    pub fn read_small(&self, most: usize) -> Result<Option<Vec<u8>>, Error> {
        let Some(info) = self.info()? else { return Ok(None) };
        if info.kind != Kind::File || info.size > most as u64 {
            return Ok(None);
        }
        let mut bytes = vec![0; info.size as usize];
        match self.open()? {
            Open::Here(file) => {
                bytes.clear();
                let read = file.take(most as u64).read_to_end(&mut bytes);
                read.map_err(io_error("cannot read", self))?;
            }
            Open::There(file) => {
                let read = file.read_at(&mut bytes, 0).map_err(Error::there("cannot read", self.show()))?;
                bytes.truncate(read);
            }
        }
        Ok(Some(bytes))
    }

    /// Puts a small file in place of this one; who reads it finds the old or the new.
    pub fn replace_small(&self, new: &Side, bytes: &[u8]) -> Result<(), Error> {
        new.remove()?;
        match new.open_to_write(true, &Layout::default())? {
            Open::Here(mut file) => file.write_all(bytes).map_err(io_error("cannot write", new))?,
            Open::There(file) => {
                let written = file.write_at(bytes, 0).and_then(|()| file.close());
                written.map_err(Error::there("cannot write", new.show()))?;
            }
        }
        new.rename(self)
    }
}

fn io_error(doing: &'static str, side: &Side) -> impl FnOnce(io::Error) -> Error {
    let path = PathBuf::from(side.show());
    move |cause| Error::Here { doing, path, cause }
}

fn info_here(metadata: &fs::Metadata) -> Info {
    let kind = match (metadata.is_file(), metadata.is_dir()) {
        (true, _) => Kind::File,
        (_, true) => Kind::Directory,
        _ => Kind::Other,
    };
    Info {
        kind,
        size: metadata.len(),
        mode: metadata.mode() & 0o7777,
        accessed: metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH),
        modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        id: (metadata.dev(), metadata.ino()),
    }
}

fn read_full(file: &fs::File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// An open file. Threads may use one at the same time.
pub enum Open {
    /// On this host.
    Here(fs::File),
    /// In a partition.
    There(pario_client::File),
}

/// What went wrong with an open file, whose name the caller knows.
pub enum Fault {
    /// On this host.
    Here(io::Error),
    /// In a partition.
    There(pario_client::Error),
}

impl Fault {
    /// The error for the user.
    pub fn at(self, doing: &'static str, side: &Side) -> Error {
        match self {
            Fault::Here(cause) => io_error(doing, side)(cause),
            Fault::There(cause) => Error::there(doing, side.show())(cause),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Here(error)
    }
}

impl From<pario_client::Error> for Fault {
    fn from(error: pario_client::Error) -> Fault {
        Fault::There(error)
    }
}

impl Open {
    /// What nothing else on the same side has at the same time.
    pub fn id(&self) -> Result<(u64, u64), Fault> {
        Ok(match self {
            Open::Here(file) => info_here(&file.metadata()?).id,
            Open::There(file) => (0, file.id().0),
        })
    }

    /// Reads until the memory is full or the file ends: how many bytes.
    pub fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize, Fault> {
        match self {
            Open::Here(file) => Ok(read_full(file, bytes, at)?),
            Open::There(file) => Ok(file.read_at(bytes, at)?),
        }
    }

    /// Writes all of the memory.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), Fault> {
        match self {
            Open::Here(file) => Ok(file.write_all_at(bytes, at)?),
            Open::There(file) => Ok(file.write_at(bytes, at)?),
        }
    }

    /// Makes it that long, if it is not.
    pub fn set_len(&self, size: u64) -> Result<(), Fault> {
        match self {
            Open::Here(file) => Ok(file.set_len(size)?),
            Open::There(file) if file.len()? == size => Ok(()),
            Open::There(file) => Ok(file.set_len(size)?),
        }
    }

    /// Brings what was written to the medium.
    pub fn sync(&self) -> Result<(), Fault> {
        match self {
            Open::Here(file) => Ok(file.sync_all()?),
            Open::There(file) => Ok(file.sync()?),
        }
    }

    /// Closes it, and says if anything that was written could not be stored.
    pub fn close(self) -> Result<(), Fault> {
        match self {
            Open::Here(_) => Ok(()),
            Open::There(file) => Ok(file.close()?),
        }
    }

    /// The first byte from `at` on that is not in a hole, as far as can be told without reading; `size` if
    /// there is none before.
    pub fn next_data(&self, at: u64, size: u64) -> u64 {
        let Open::Here(file) = self else { return at };
        match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.clamp(at, size),
            Err(rustix::io::Errno::NXIO) => size,
            Err(_) => at,
        }
    }

    /// Runs of zeros that begin at a multiple of this and have at least this many bytes are left out, so
    /// that they become holes.
    pub fn hole(&self) -> usize {
        match self {
            Open::Here(_) => 4 << 10,
            Open::There(_) => 64 << 10,
        }
    }
}
