//! The files of a run that only its own partition has: those that the program created or changed there, and that were not copied
//! out.
//!
//! The files of the partition are listed before the program starts, if inputs were copied into it, and after it has ended. A file
//! that is in both lists with the same identity, size and time is an input. A file counts as copied if the directory for results
//! has a file of its path, size and time, which a copy gets when it is complete.

use crate::env::Environment;
use crate::files;
use pario_copy::PartitionPath;
use pario_reports::text::count;
use pario_types::{FileId, round_size};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Times of a file and its copy may differ by this much: some file systems store no fractions of seconds.
const TIME_STEP: Duration = Duration::from_secs(2);

/// So many files are named.
const MOST_NAMED: usize = 3;

/// Files of a partition, by path.
#[derive(Debug, Default)]
pub struct FileList(BTreeMap<String, ListedState>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListedState {
    id: FileId,
    bytes: u64,
    modified: SystemTime,
}

impl FileList {
    /// All files of a partition. Fails if that is interrupted.
    pub fn of(
        partition: &str,
        env: &Environment,
        is_interrupted: fn() -> bool,
    ) -> Result<FileList, files::Error> {
        let connection = env.metadata_connections().partition(partition)?;
        let mut files = BTreeMap::new();
        let mut left = vec![PartitionPath { partition: partition.to_owned(), path: "/".to_owned() }];
        while let Some(directory) = left.pop() {
            for entry in connection.read_dir(&directory.path) {
                let entry = entry.map_err(files::Error::in_partition("cannot list", &directory))?;
                let path = directory.join(entry.name());
                if is_interrupted() {
                    return Err(pario_copy::Error::Interrupted(path.to_string()).into());
                }
                if entry.is_dir() {
                    left.push(path);
                    continue;
                }
                let found = entry.metadata().map_err(files::Error::in_partition("cannot look at", &path))?;
                let state = ListedState { id: found.id(), bytes: found.len(), modified: found.modified() };
                files.insert(path.path, state);
            }
        }
        Ok(FileList(files))
    }

    /// Those that were created or changed since an earlier list was made.
    pub fn since(mut self, earlier: &FileList) -> FileList {
        self.0.retain(|path, state| earlier.0.get(path) != Some(state));
        self
    }

    /// Those of which a directory of this host has no copy.
    pub fn not_copied_to(mut self, directory: &Path) -> FileList {
        self.0.retain(|path, state| !state.is_copied(&directory.join(path.trim_start_matches('/'))));
        self
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ListedState {
    fn is_copied(&self, copy: &Path) -> bool {
        let Ok(found) = std::fs::metadata(copy) else { return false };
        let is_close = |time: SystemTime| {
            let apart = time.duration_since(self.modified).unwrap_or_else(|before| before.duration());
            apart <= TIME_STEP
        };
        found.is_file() && found.len() == self.bytes && found.modified().is_ok_and(is_close)
    }
}

impl fmt::Display for FileList {
    /// How many, how large, and some of their paths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.values().fold(0u64, |sum, state| sum.saturating_add(state.bytes));
        write!(f, "{} of {}", count(self.0.len() as u64, "file"), round_size(bytes))?;
        let mut separator = " (";
        for path in self.0.keys().take(MOST_NAMED) {
            write!(f, "{separator}{}", path.replace(char::is_control, "?"))?;
            separator = ", ";
        }
        let rest = if self.0.len() > MOST_NAMED { ", …" } else { "" };
        if self.0.is_empty() { Ok(()) } else { write!(f, "{rest})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(files: &[(&str, u64, u64)]) -> FileList {
        let state = |id, bytes| ListedState { id: FileId(id), bytes, modified: SystemTime::UNIX_EPOCH };
        FileList(files.iter().map(|(path, id, bytes)| ((*path).to_owned(), state(*id, *bytes))).collect())
    }

    #[test]
    fn files_that_are_as_before_are_no_results() {
        let before = list(&[("/input", 1, 5), ("/grown", 2, 5), ("/replaced", 3, 5)]);
        let after = list(&[("/input", 1, 5), ("/grown", 2, 6), ("/replaced", 4, 5), ("/new", 5, 0)]);
        let left = after.since(&before);
        assert_eq!(left.to_string(), "3 files of 11 B (/grown, /new, /replaced)");
    }

    #[test]
    fn a_copy_has_path_size_and_time() {
        let dir = std::env::temp_dir().join(format!("pario-leftover-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("a")).expect("a directory");
        for name in ["a/whole", "a/short", "a/late"] {
            let file = std::fs::File::create(dir.join(name)).expect("created");
            file.set_len(if name == "a/short" { 4 } else { 5 }).expect("a size");
            let seconds = if name == "a/late" { 9 } else { 1 };
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
        }
        let all = list(&[("/a/whole", 1, 5), ("/a/short", 2, 5), ("/a/late", 3, 5), ("/b", 4, 5)]);
        let left = all.not_copied_to(&dir);
        assert_eq!(left.to_string(), "3 files of 15 B (/a/late, /a/short, /b)");
        std::fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn few_files_are_named() {
        let files = list(&[("/a", 1, 1 << 20), ("/b", 2, 1 << 20), ("/c", 3, 0), ("/d", 4, 0)]);
        assert_eq!(files.to_string(), "4 files of 2.0 MiB (/a, /b, /c, …)");
        assert!(FileList::default().is_empty());
    }
}
