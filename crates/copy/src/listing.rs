//! Directories of partitions and what is in them.

use crate::error::Error;
use crate::location::PartitionPath;
use pario_client::{Metadata, Partition};

/// A file or directory.
#[derive(Debug)]
pub struct ListedFile {
    /// Its name in its directory, or its path if the user named it.
    pub name: String,
    /// Its attributes.
    pub metadata: Metadata,
}

/// A directory and what is in it, or the files that the user named.
#[derive(Debug)]
pub struct DirectoryListing {
    /// `None` for files that the user named.
    pub directory: Option<PartitionPath>,
    /// Its entries.
    pub files: Vec<ListedFile>,
}

/// The entries that a listing includes besides visible ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListOptions {
    /// Names that begin with a dot as well.
    pub all: bool,
    /// Directories within directories as well.
    pub recursive: bool,
}

/// Lists a directory and, if that is wanted, those in it. `failed` hears of what cannot be read and is left out.
pub fn list_directories(
    partition: &Partition,
    top: PartitionPath,
    options: ListOptions,
    failed: &mut dyn FnMut(Error),
) -> Vec<DirectoryListing> {
    let mut listings = Vec::new();
    let mut left = vec![top];
    while let Some(directory) = left.pop() {
        let (mut files, mut inner) = (Vec::new(), Vec::new());
        for entry in partition.read_dir(&directory.path) {
            let entry = match entry.map_err(Error::in_partition("cannot list", &directory)) {
                Ok(entry) => entry,
                Err(error) => {
                    failed(error);
                    break;
                }
            };
            let name = entry.name().to_owned();
            if name.starts_with('.') && !options.all {
                continue;
            }
            if entry.is_dir() && options.recursive {
                inner.push(directory.join(&name));
            }
            let metadata = entry.metadata();
            match metadata.map_err(Error::in_partition("cannot find the size of", directory.join(&name))) {
                Ok(metadata) => files.push(ListedFile { name, metadata }),
                Err(error) => failed(error),
            }
        }
        listings.push(DirectoryListing { directory: Some(directory), files });
        left.extend(inner.into_iter().rev());
    }
    listings
}
