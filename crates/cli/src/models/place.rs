//! Where the files of models go: a directory of this host's file systems, or of a partition.
//!
//! Each run has a fresh directory in there, which it alone uses and removes; its files are called by their number.

use crate::env::Environment;
use crate::files::Error;
use crate::files::address::{Address, Spot};
use crate::files::session::Session;
use pario_client::Partition;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A run's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In a file system of the hosts, used by system calls.
    Here(PathBuf),
    /// In a partition, used through its servers.
    There { partition: String, path: String },
}

/// A run's directory in use.
pub enum Directory {
    Here(PathBuf),
    There(Partition, Spot),
}

/// An open file.
pub enum Handle {
    Here(File, PathBuf),
    There(pario_client::File, Spot),
}

impl Place {
    /// A fresh directory in the one that the user named.
    pub fn fresh(text: &OsStr, name: &str, env: &Environment) -> Result<Place, Error> {
        Ok(match Address::parse(text, env.partition.as_deref())? {
            Address::Here(path) => {
                let whole = std::path::absolute(&path).map_err(Error::here("cannot use", &path))?;
                if whole.to_str().is_none() {
                    return Err(Error::Refused(path.display().to_string(), "its name is not UTF-8"));
                }
                Place::Here(whole.join(name))
            }
            Address::There(spot) => {
                let Spot { partition, path } = spot.join(name);
                Place::There { partition, path }
            }
        })
    }

    /// The directory that it is in, as users write it.
    pub fn target(&self) -> String {
        match self {
            Place::Here(path) => path.parent().unwrap_or(path).display().to_string(),
            Place::There { partition, path } => {
                let above = path.rsplit_once('/').map_or("", |(above, _)| above);
                format!("{partition}:{}", if above.is_empty() { "/" } else { above })
            }
        }
    }

    /// By which interface its files are used.
    pub fn io(&self) -> &'static str {
        match self {
            Place::Here(_) => "posix",
            Place::There { .. } => "pario",
        }
    }

    /// Ready to be used.
    pub fn enter(&self, session: &mut Session) -> Result<Directory, Error> {
        Ok(match self {
            Place::Here(path) => Directory::Here(path.clone()),
            Place::There { partition, path } => {
                let spot = Spot { partition: partition.clone(), path: path.clone() };
                Directory::There(session.partition(partition)?, spot)
            }
        })
    }
}

impl Directory {
    /// Bytes that can still be written there, asked of the directory that it is or will be in.
    pub fn free(&self) -> Result<u64, Error> {
        match self {
            Directory::Here(path) => {
                let above = path.parent().unwrap_or(path);
                let found = rustix::fs::statvfs(above)
                    .map_err(|errno| Error::here("cannot use", above)(io::Error::from(errno)))?;
                Ok(found.f_bavail.saturating_mul(found.f_frsize))
            }
            Directory::There(partition, spot) => {
                Ok(partition.statfs().map_err(Error::partition(&spot.partition))?.free)
            }
        }
    }

    /// Makes it; it must not be there.
    pub fn make(&self) -> Result<(), Error> {
        match self {
            Directory::Here(path) => std::fs::create_dir(path).map_err(Error::here("cannot make", path)),
            Directory::There(partition, spot) => {
                partition.create_dir(&spot.path).map_err(Error::there("cannot make", spot))
            }
        }
    }

    /// Whether it is there: another host may have another file system of that name.
    pub fn is_there(&self) -> Result<(), Error> {
        match self {
            Directory::Here(path) => std::fs::metadata(path)
                .map(|_| ())
                .map_err(Error::here("cannot see the run's directory", path)),
            Directory::There(partition, spot) => {
                let found = partition.metadata(&spot.path).map(|_| ());
                found.map_err(Error::there("cannot see the run's directory", spot))
            }
        }
    }

    /// Removes it with all files. That it is gone already is fine.
    pub fn clear(&self) -> Result<(), Error> {
        match self {
            Directory::Here(path) => match std::fs::remove_dir_all(path) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                    Err(Error::here("cannot remove", path)(cause))
                }
                _ => Ok(()),
            },
            Directory::There(partition, spot) => match partition.remove_dir_all(&spot.path) {
                Err(cause) if cause.kind() != pario_types::ErrorKind::NoSuchFile => {
                    Err(Error::there("cannot remove", spot)(cause))
                }
                _ => Ok(()),
            },
        }
    }

    /// Opens a file to write it; the first one creates it.
    pub fn create(&self, file: u32) -> Result<Handle, Error> {
        match self {
            Directory::Here(path) => {
                let path = path.join(file.to_string());
                let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
                Ok(Handle::Here(opened.map_err(Error::here("cannot create", &path))?, path))
            }
            Directory::There(partition, spot) => {
                let spot = spot.join(&file.to_string());
                let mut options = pario_client::OpenOptions::new();
                let opened = partition.open(&spot.path, options.write(true).create(true));
                Ok(Handle::There(opened.map_err(Error::there("cannot create", &spot))?, spot))
            }
        }
    }

    /// Opens a file to read it.
    pub fn open(&self, file: u32) -> Result<Handle, Error> {
        match self {
            Directory::Here(path) => {
                let path = path.join(file.to_string());
                Ok(Handle::Here(File::open(&path).map_err(Error::here("cannot open", &path))?, path))
            }
            Directory::There(partition, spot) => {
                let spot = spot.join(&file.to_string());
                let opened = partition.open(&spot.path, pario_client::OpenOptions::new().read(true));
                Ok(Handle::There(opened.map_err(Error::there("cannot open", &spot))?, spot))
            }
        }
    }

    /// Removes a file.
    pub fn remove(&self, file: u32) -> Result<(), Error> {
        match self {
            Directory::Here(path) => {
                let path = path.join(file.to_string());
                std::fs::remove_file(&path).map_err(Error::here("cannot remove", &path))
            }
            Directory::There(partition, spot) => {
                let spot = spot.join(&file.to_string());
                partition.remove_file(&spot.path).map_err(Error::there("cannot remove", &spot))
            }
        }
    }
}

impl Handle {
    /// Writes all of it.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        match self {
            Handle::Here(file, path) => {
                file.write_all_at(bytes, offset).map_err(Error::here("cannot write", path))
            }
            Handle::There(file, spot) => {
                file.write_at(bytes, offset).map_err(Error::there("cannot write", spot))
            }
        }
    }

    /// Fills the bytes; that the file ends before is an error.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        match self {
            Handle::Here(file, path) => {
                file.read_exact_at(bytes, offset).map_err(Error::here("cannot read", path))
            }
            Handle::There(file, spot) => {
                file.read_exact_at(bytes, offset).map_err(Error::there("cannot read", spot))
            }
        }
    }

    /// How long the file is.
    pub fn len(&self) -> Result<u64, Error> {
        match self {
            Handle::Here(file, path) => {
                file.metadata().map(|found| found.len()).map_err(Error::here("cannot look at", path))
            }
            Handle::There(file, spot) => file.len().map_err(Error::there("cannot look at", spot)),
        }
    }

    /// Waits until what was written is on the storage.
    pub fn sync(&self) -> Result<(), Error> {
        match self {
            Handle::Here(file, path) => file.sync_all().map_err(Error::here("cannot sync", path)),
            Handle::There(file, spot) => file.sync().map_err(Error::there("cannot sync", spot)),
        }
    }

    /// Closes it. What a file system has to say only now, the check of the contents finds.
    pub fn close(self) -> Result<(), Error> {
        match self {
            Handle::Here(..) => Ok(()),
            Handle::There(file, spot) => file.close().map_err(Error::there("cannot close", spot)),
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        match self {
            Handle::Here(_, path) => Path::display(path).to_string(),
            Handle::There(_, spot) => spot.to_string(),
        }
    }
}
