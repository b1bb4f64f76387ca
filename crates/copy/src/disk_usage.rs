//! The sizes of files below a directory of a partition.

use crate::error::Error;
use crate::location::PartitionPath;
use pario_client::Partition;

/// The files at and below a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// The path.
    pub path: String,
    /// The sum of the files' sizes.
    pub bytes: u64,
    /// The number of files.
    pub files: u64,
    /// The number of directories.
    pub directories: u64,
}

/// A directory on the way down.
struct Level {
    path: PartitionPath,
    sum: DiskUsage,
    /// Directories in it that are still to be added up.
    left: Vec<PartitionPath>,
}

/// Adds up the sizes of the files below a path, with a sum for each directory or, if `only_top`, one for all. Directories come
/// after those in them. `failed` hears of what cannot be read and is left out.
pub fn disk_usage(
    partition: &Partition,
    top: &PartitionPath,
    only_top: bool,
    failed: &mut dyn FnMut(Error),
) -> Vec<DiskUsage> {
    let mut sums = Vec::new();
    match partition.metadata(&top.path).map_err(Error::in_partition("cannot look at", top)) {
        Err(error) => {
            failed(error);
            return sums;
        }
        Ok(metadata) if metadata.is_file() => {
            sums.push(DiskUsage { path: top.to_string(), bytes: metadata.len(), files: 1, directories: 0 });
            return sums;
        }
        Ok(_) => {}
    }
    let mut levels = vec![level(partition, top.clone(), failed)];
    while let Some(last) = levels.last_mut() {
        if let Some(inner) = last.left.pop() {
            let inner = level(partition, inner, failed);
            levels.push(inner);
            continue;
        }
        let Level { sum, .. } = levels.pop().expect("there was a last one");
        if let Some(above) = levels.last_mut() {
            above.sum.bytes = above.sum.bytes.saturating_add(sum.bytes);
            above.sum.files += sum.files;
            above.sum.directories += sum.directories;
        }
        if levels.is_empty() || !only_top {
            sums.push(sum);
        }
    }
    sums
}

fn level(partition: &Partition, path: PartitionPath, failed: &mut dyn FnMut(Error)) -> Level {
    let sum = DiskUsage { path: path.to_string(), directories: 1, ..DiskUsage::default() };
    let mut level = Level { path, sum, left: Vec::new() };
    for entry in partition.read_dir(&level.path.path) {
        let entry = match entry.map_err(Error::in_partition("cannot list", &level.path)) {
            Ok(entry) => entry,
            Err(error) => {
                failed(error);
                break;
            }
        };
        let inner = level.path.join(entry.name());
        if entry.is_dir() {
            level.left.push(inner);
            continue;
        }
        match entry.metadata().map_err(Error::in_partition("cannot find the size of", &inner)) {
            Ok(metadata) => {
                level.sum.bytes = level.sum.bytes.saturating_add(metadata.len());
                level.sum.files += 1;
            }
            Err(error) => failed(error),
        }
    }
    level.left.reverse();
    level
}
