//! Notes on the pools of a store, in the server's directory: which pool the last server used, and which pools were stored completely.
//!
//! ```text
//! serving  the mark of the pool that the last server used
//! retired  the marks of the last pools of which everything was stored, newest first, filled up with zeros
//! ```
//!
//! A mark is 16 hex digits and a line feed, so a note always has the same length: on a full medium it is overwritten in
//! place. Both notes are synced, because they must be correct after the host has lost its memory:
//!
//! - A mark in `serving` that is not in `retired` and whose pool is gone means that writes which were not synced may be lost.
//! - A client that last wrote to a retired pool has lost nothing, however many servers there were since. A client whose pool
//!   is no longer in the list is told of a loss that may not have occurred; never the other way round.

use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use pario_runtime::fs::{self, File, OpenOptions};
use pario_wire::greeting::RETIRED_POOLS;

const SERVING: &str = "serving";
const RETIRED: &str = "retired";

/// The notes of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolRecord {
    /// The pool that the last server used; 0 if there was none.
    serving: u64,
    /// The pools of which everything was stored, newest first; 0 where there is none.
    retired: [u64; RETIRED_POOLS],
}

impl PoolRecord {
    /// Reads the notes. A note that cannot be read counts as empty.
    pub fn read(directory: &Path) -> PoolRecord {
        let [serving] = read_marks(&directory.join(SERVING));
        PoolRecord { serving, retired: read_marks(&directory.join(RETIRED)) }
    }

    /// The pools of which everything was stored, newest first; 0 where there is none.
    pub fn retired(&self) -> [u64; RETIRED_POOLS] {
        self.retired
    }

    /// The pool of the last server, unless everything in it was stored.
    pub fn unretired(&self) -> Option<u64> {
        (self.serving != 0 && !self.retired.contains(&self.serving)).then_some(self.serving)
    }

    /// Notes the pool that a server is going to use.
    pub fn note_serving(&mut self, directory: &Path, mark: u64) -> Result<()> {
        if self.serving != mark || !matches!(fs::exists(directory.join(RETIRED)), Ok(true)) {
            // Written even if it says nothing new: at the end the medium may be full.
            write_marks(directory, RETIRED, &self.retired)?;
            write_marks(directory, SERVING, &[mark])?;
            self.serving = mark;
        }
        Ok(())
    }

    /// Notes that everything in a pool is stored.
    pub fn note_retired(&mut self, directory: &Path, mark: u64) -> Result<()> {
        if self.retired[0] != mark {
            let mut retired = self.retired;
            retired.rotate_right(1);
            retired[0] = mark;
            write_marks(directory, RETIRED, &retired)?;
            self.retired = retired;
        }
        Ok(())
    }
}

/// The pool that the last server of a directory used, unless everything in it was stored.
pub fn unretired_pool(directory: &Path) -> Option<u64> {
    PoolRecord::read(directory).unretired()
}

/// Notes in a server's directory that everything in a pool is stored.
pub fn note_retired_pool(directory: &Path, mark: u64) -> Result<()> {
    PoolRecord::read(directory).note_retired(directory, mark)
}

fn read_marks<const N: usize>(path: &Path) -> [u64; N] {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines().map(|line| u64::from_str_radix(line, 16).unwrap_or(0));
    std::array::from_fn(|_| lines.next().unwrap_or(0))
}

fn write_marks(directory: &Path, name: &str, marks: &[u64]) -> Result<()> {
    let (path, fresh) = (directory.join(name), directory.join(format!("{name}.new")));
    let text: String = marks.iter().map(|mark| format!("{mark:016x}\n")).collect();
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        File::open(directory)?.sync_all()
    };
    match write() {
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            // An incomplete new note is of no use.
            let _ = fs::remove_file(&fresh);
            let file = OpenOptions::new().write(true).open(&path)?;
            file.write_all_at(text.as_bytes(), 0)?;
            file.sync_all()
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("pario-record-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).expect("made");
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_pool_that_was_used_and_not_retired_is_remembered() {
        let dir = Scratch::new("unretired");
        assert_eq!(unretired_pool(&dir.0), None, "nothing was ever served");
        let mut record = PoolRecord::read(&dir.0);
        record.note_serving(&dir.0, 7).expect("noted");
        assert_eq!(unretired_pool(&dir.0), Some(7));
        record.note_retired(&dir.0, 7).expect("noted");
        assert_eq!(PoolRecord::read(&dir.0), record);
        assert_eq!(unretired_pool(&dir.0), None);
        record.note_serving(&dir.0, 8).expect("noted");
        assert_eq!(unretired_pool(&dir.0), Some(8));
    }

    #[test]
    fn the_last_retired_pools_are_known_and_a_note_keeps_its_length() {
        let dir = Scratch::new("retired");
        // A note of one line.
        std::fs::write(dir.0.join(RETIRED), "00000000000000ff\n").expect("written");
        let mut record = PoolRecord::read(&dir.0);
        assert_eq!(record.retired()[..2], [0xff, 0]);
        record.note_serving(&dir.0, 1).expect("noted");
        let length = || std::fs::metadata(dir.0.join(RETIRED)).expect("there").len();
        assert_eq!(length(), 17 * RETIRED_POOLS as u64);
        for mark in 1..=RETIRED_POOLS as u64 + 3 {
            record.note_retired(&dir.0, mark).expect("noted");
            record.note_retired(&dir.0, mark).expect("noted once");
        }
        let newest = |place: usize| RETIRED_POOLS as u64 + 3 - place as u64;
        assert_eq!(PoolRecord::read(&dir.0).retired(), std::array::from_fn(newest));
        assert_eq!(length(), 17 * RETIRED_POOLS as u64);
    }
}
