//! Removing and renaming files and directories of partitions.

use crate::error::Error;
use crate::location::PartitionPath;
use pario_client::Partition;
use pario_types::ErrorKind;

/// Removes a file, or a directory: with all that is in it only if `recursive`.
pub fn remove(partition: &Partition, path: &PartitionPath, recursive: bool) -> Result<(), Error> {
    if path.name().is_none() {
        let why = "the root directory of a partition stays; name what is in it";
        return Err(Error::refused(path, why));
    }
    let metadata = partition.metadata(&path.path).map_err(Error::in_partition("cannot remove", path))?;
    let removed = match (metadata.is_dir(), recursive) {
        (false, _) => partition.remove_file(&path.path),
        (true, true) => partition.remove_dir_all(&path.path),
        (true, false) => return Err(Error::refused(path, "a directory; remove it with -r")),
    };
    removed.map_err(Error::in_partition("cannot remove", path))
}

/// Checks that paths can be renamed to a target in the same partition.
pub fn check_same_partition(paths: &[PartitionPath], target: &PartitionPath) -> Result<(), Error> {
    match paths.iter().find(|path| path.partition != target.partition) {
        Some(other) => {
            let why = "they are in different partitions; use 'pario cp', then 'pario rm'";
            Err(Error::RefusedBoth(other.to_string(), target.to_string(), why))
        }
        None => Ok(()),
    }
}

/// Whether there is a directory of this name.
pub fn is_directory(partition: &Partition, path: &PartitionPath) -> Result<bool, Error> {
    match partition.metadata(&path.path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if error.kind() == ErrorKind::NoSuchFile => Ok(false),
        Err(error) => Err(Error::in_partition("cannot look at", path)(error)),
    }
}

/// Renames a file or directory to a target, or into the directory that the target is. With `no_replace`, an existing file is an
/// error.
pub fn rename(
    partition: &Partition,
    path: &PartitionPath,
    target: &PartitionPath,
    into: bool,
    no_replace: bool,
) -> Result<(), Error> {
    let name = path
        .name()
        .ok_or_else(|| Error::refused(path, "the root directory of a partition keeps its name"))?;
    let target = if into { target.join(name) } else { target.clone() };
    let renamed = match no_replace {
        true => partition.rename_new(&path.path, &target.path),
        false => partition.rename(&path.path, &target.path),
    };
    renamed.map_err(Error::in_partition("cannot rename", format!("{path} to {}", target.path)))
}
