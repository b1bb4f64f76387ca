//! The directory of a run's files: in a file system of the hosts, or in a partition.
//!
//! Each run makes a new directory, which it alone uses and removes. Its files are named by their numbers.

use pario_client::Partition;
use pario_copy::{Connections, Error, Location, PartitionPath};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The path of a run's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelDirectory {
    /// In a file system of the hosts, used by system calls.
    #[serde(rename = "here")]
    Host(PathBuf),
    /// In a partition, used through its servers.
    #[serde(rename = "there")]
    Partition {
        /// The partition.
        partition: String,
        /// The path in it.
        path: String,
    },
}

/// A run's directory in use.
pub(crate) enum OpenDirectory {
    Host(PathBuf),
    Partition(Partition, PartitionPath),
}

/// An open file of a model.
pub(crate) enum ModelFile {
    Host(File, PathBuf),
    Partition(pario_client::File, PartitionPath),
}

impl ModelDirectory {
    /// A new directory `name` in the one that the user named. `default_partition` is that of `pario:/path`.
    pub fn new(text: &OsStr, name: &str, default_partition: Option<&str>) -> Result<ModelDirectory, Error> {
        Ok(match Location::parse(text, default_partition)? {
            Location::Host(path) => {
                let whole = std::path::absolute(&path).map_err(Error::on_host("cannot use", &path))?;
                if whole.to_str().is_none() {
                    return Err(Error::Refused(path.display().to_string(), "its name is not UTF-8"));
                }
                ModelDirectory::Host(whole.join(name))
            }
            Location::Partition(path) => {
                let PartitionPath { partition, path } = path.join(name);
                ModelDirectory::Partition { partition, path }
            }
        })
    }

    /// Its parent, as users write it.
    pub fn target(&self) -> String {
        match self {
            ModelDirectory::Host(path) => path.parent().unwrap_or(path).display().to_string(),
            ModelDirectory::Partition { partition, path } => {
                let above = path.rsplit_once('/').map_or("", |(above, _)| above);
                format!("{partition}:{}", if above.is_empty() { "/" } else { above })
            }
        }
    }

    /// The interface by which its files are used.
    pub fn io(&self) -> &'static str {
        match self {
            ModelDirectory::Host(_) => "posix",
            ModelDirectory::Partition { .. } => "pario",
        }
    }

    /// Connects to the partition, if it is in one.
    pub(crate) fn open(&self, connections: &mut Connections) -> Result<OpenDirectory, Error> {
        Ok(match self {
            ModelDirectory::Host(path) => OpenDirectory::Host(path.clone()),
            ModelDirectory::Partition { partition, path } => {
                let path = PartitionPath { partition: partition.clone(), path: path.clone() };
                OpenDirectory::Partition(connections.partition(partition)?, path)
            }
        })
    }
}

impl OpenDirectory {
    /// The free bytes of its parent's file system or partition.
    pub fn free(&self) -> Result<u64, Error> {
        match self {
            OpenDirectory::Host(path) => {
                let above = path.parent().unwrap_or(path);
                let found = rustix::fs::statvfs(above)
                    .map_err(|errno| Error::on_host("cannot use", above)(io::Error::from(errno)))?;
                Ok(found.f_bavail.saturating_mul(found.f_frsize))
            }
            OpenDirectory::Partition(partition, path) => {
                Ok(partition.statfs().map_err(Error::partition(&path.partition))?.free)
            }
        }
    }

    /// Makes the directory, which must not exist.
    pub fn make(&self) -> Result<(), Error> {
        match self {
            OpenDirectory::Host(path) => {
                std::fs::create_dir(path).map_err(Error::on_host("cannot make", path))
            }
            OpenDirectory::Partition(partition, path) => {
                partition.create_dir(&path.path).map_err(Error::in_partition("cannot make", path))
            }
        }
    }

    /// Checks that it exists: on another host the path may lead to another file system.
    pub fn check_exists(&self) -> Result<(), Error> {
        match self {
            OpenDirectory::Host(path) => std::fs::metadata(path)
                .map(|_| ())
                .map_err(Error::on_host("cannot see the run's directory", path)),
            OpenDirectory::Partition(partition, path) => {
                let found = partition.metadata(&path.path).map(|_| ());
                found.map_err(Error::in_partition("cannot see the run's directory", path))
            }
        }
    }

    /// Removes it with all files, if it exists.
    pub fn remove_all(&self) -> Result<(), Error> {
        match self {
            OpenDirectory::Host(path) => match std::fs::remove_dir_all(path) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                    Err(Error::on_host("cannot remove", path)(cause))
                }
                _ => Ok(()),
            },
            OpenDirectory::Partition(partition, path) => match partition.remove_dir_all(&path.path) {
                Err(cause) if cause.kind() != pario_types::ErrorKind::NoSuchFile => {
                    Err(Error::in_partition("cannot remove", path)(cause))
                }
                _ => Ok(()),
            },
        }
    }

    /// Opens a file for writing; the first process creates it.
    pub fn create(&self, file: u32) -> Result<ModelFile, Error> {
        match self {
            OpenDirectory::Host(path) => {
                let path = path.join(file.to_string());
                let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
                Ok(ModelFile::Host(opened.map_err(Error::on_host("cannot create", &path))?, path))
            }
            OpenDirectory::Partition(partition, path) => {
                let path = path.join(&file.to_string());
                let mut options = pario_client::OpenOptions::new();
                let opened = partition.open(&path.path, options.write(true).create(true));
                Ok(ModelFile::Partition(opened.map_err(Error::in_partition("cannot create", &path))?, path))
            }
        }
    }

    /// Opens a file for reading.
    pub fn open_file(&self, file: u32) -> Result<ModelFile, Error> {
        match self {
            OpenDirectory::Host(path) => {
                let path = path.join(file.to_string());
                Ok(ModelFile::Host(File::open(&path).map_err(Error::on_host("cannot open", &path))?, path))
            }
            OpenDirectory::Partition(partition, path) => {
                let path = path.join(&file.to_string());
                let opened = partition.open(&path.path, pario_client::OpenOptions::new().read(true));
                Ok(ModelFile::Partition(opened.map_err(Error::in_partition("cannot open", &path))?, path))
            }
        }
    }

    /// Removes a file.
    pub fn remove(&self, file: u32) -> Result<(), Error> {
        match self {
            OpenDirectory::Host(path) => {
                let path = path.join(file.to_string());
                std::fs::remove_file(&path).map_err(Error::on_host("cannot remove", &path))
            }
            OpenDirectory::Partition(partition, path) => {
                let path = path.join(&file.to_string());
                partition.remove_file(&path.path).map_err(Error::in_partition("cannot remove", &path))
            }
        }
    }
}

impl ModelFile {
    /// Writes all bytes.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        match self {
            ModelFile::Host(file, path) => {
                file.write_all_at(bytes, offset).map_err(Error::on_host("cannot write", path))
            }
            ModelFile::Partition(file, path) => {
                file.write_at(bytes, offset).map_err(Error::in_partition("cannot write", path))
            }
        }
    }

    /// Fills the buffer; an earlier end of the file is an error.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        match self {
            ModelFile::Host(file, path) => {
                file.read_exact_at(bytes, offset).map_err(Error::on_host("cannot read", path))
            }
            ModelFile::Partition(file, path) => {
                file.read_exact_at(bytes, offset).map_err(Error::in_partition("cannot read", path))
            }
        }
    }

    /// The size of the file.
    pub fn len(&self) -> Result<u64, Error> {
        match self {
            ModelFile::Host(file, path) => {
                file.metadata().map(|found| found.len()).map_err(Error::on_host("cannot look at", path))
            }
            ModelFile::Partition(file, path) => {
                file.len().map_err(Error::in_partition("cannot look at", path))
            }
        }
    }

    /// Syncs what was written.
    pub fn sync(&self) -> Result<(), Error> {
        match self {
            ModelFile::Host(file, path) => file.sync_all().map_err(Error::on_host("cannot sync", path)),
            ModelFile::Partition(file, path) => file.sync().map_err(Error::in_partition("cannot sync", path)),
        }
    }

    /// Closes the file. The check of the contents finds late errors of a file system.
    pub fn close(self) -> Result<(), Error> {
        match self {
            ModelFile::Host(..) => Ok(()),
            ModelFile::Partition(file, path) => {
                file.close().map_err(Error::in_partition("cannot close", path))
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        match self {
            ModelFile::Host(_, path) => Path::display(path).to_string(),
            ModelFile::Partition(_, path) => path.to_string(),
        }
    }
}
