//! The file in which a server's successor finds who had leased what.
//!
//! It lies beside the pool, and holds [records](super::records), line by line, as they came; a line `.` after those that
//! belong together. What a kill cut off has none, and was never answered. Its first line names the pool for whose time
//! it is. A server that ends in order leaves it beside the data, where the pool is not any more.
//!
//! It is never synced, since it need not outlive the pool. A server that cannot write it removes it: after its
//! end nobody is known, and so nobody writes over what others wrote.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::records::Record;

const NAME: &str = "leases";

/// It is written anew when it is so much longer than it needs to be, and beyond a length.
const TIMES: u64 = 4;
const LEAST: u64 = 1 << 20;

pub(super) struct Log {
    path: PathBuf,
    mark: u64,
    /// Until it cannot be written.
    file: Option<File>,
    /// How long it is, and was when it was written as a whole.
    len: u64,
    whole: u64,
    trouble: Option<String>,
}

impl Log {
    /// What a predecessor has left. `None`: nothing for this pool, or nothing that makes sense.
    pub fn read(directory: &Path, mark: u64) -> Option<Vec<Record>> {
        let text = fs::read_to_string(directory.join(NAME)).ok()?;
        let whole = &text[..text.rfind("\n.\n")?];
        let mut lines = whole.lines();
        if lines.next()? != heading(mark) {
            return None;
        }
        lines.filter(|line| *line != ".").map(Record::parse).collect()
    }

    /// Leaves it to a successor who will not find the pool.
    pub fn bequeath(&self, directory: &Path, all: &[Record]) {
        if self.trouble.is_none() {
            Log::begin(directory, self.mark, all);
        }
    }

    /// It is known, and will not be true for long.
    pub fn remove(directory: &Path) {
        // Should it stay, it is of a pool that nobody has.
        let _ = fs::remove_file(directory.join(NAME));
    }

    /// A new one, for the time of this pool.
    pub fn begin(directory: &Path, mark: u64, all: &[Record]) -> Log {
        let path = directory.join(NAME);
        let mut log = Log { path, mark, file: None, len: 0, whole: 0, trouble: None };
        log.write_whole(all);
        log
    }

    /// Adds what belongs together. `all` is how everything is after that.
    pub fn add(&mut self, records: &[Record], all: impl FnOnce() -> Vec<Record>) {
        if records.is_empty() {
            return;
        }
        let Some(file) = &mut self.file else { return };
        let text = lines(records);
        let written = file.write_all(text.as_bytes());
        self.len += text.len() as u64;
        match written {
            Err(error) => self.give_up(&error),
            Ok(()) if self.len > LEAST && self.len > TIMES * self.whole => self.write_whole(&all()),
            Ok(()) => {}
        }
    }

    /// Why a successor will know nothing, if that is so.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    fn write_whole(&mut self, all: &[Record]) {
        let fresh = self.path.with_extension("new");
        let text = format!("{}\n{}", heading(self.mark), lines(all));
        let mut options = File::options();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh);
        let written = opened.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            fs::rename(&fresh, &self.path)?;
            Ok(file)
        });
        (self.len, self.whole) = (text.len() as u64, text.len() as u64);
        match written {
            Ok(file) => self.file = Some(file),
            Err(error) => self.give_up(&error),
        }
    }

    fn give_up(&mut self, error: &std::io::Error) {
        self.file = None;
        let removed = fs::remove_file(&self.path).or_else(|_| fs::write(&self.path, ""));
        let path = self.path.display();
        let worse =
            if removed.is_err() { "; it cannot be removed either: do not restart this server" } else { "" };
        self.trouble = Some(format!(
            "who has leased what cannot be noted in {path}: {error}; after a restart of this server programs lose what \
             they have not stored{worse}"
        ));
    }
}

fn heading(mark: u64) -> String {
    format!("pario leases 1 {mark:016x}")
}

fn lines(records: &[Record]) -> String {
    let each = records.iter().map(|record| format!("{record}\n"));
    each.chain([".\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use pario_units::ClientId;

    use super::super::book::Team;
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pario-log-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn here(client: u128) -> Record {
        Record::Here { client: ClientId(client), team: Team(1) }
    }

    #[test]
    fn it_stays_short_and_says_the_last_of_everything() {
        let directory = scratch("short");
        let mut log = Log::begin(&directory, 7, &[here(1)]);
        for round in 2..100_000 {
            log.add(&[Record::Gone { client: ClientId(round - 1) }, here(round)], || vec![here(round)]);
        }
        let len = fs::metadata(directory.join(NAME)).unwrap().len();
        assert!(len < 2 * LEAST && len == log.len, "{len}");
        let records = Log::read(&directory, 7).unwrap();
        assert_eq!(records.last(), Some(&here(99_999)));
        assert_eq!(Log::read(&directory, 8), None, "of another pool");
        log.bequeath(&directory, &[here(5)]);
        assert_eq!(Log::read(&directory, 7), Some(vec![here(5)]));
        Log::remove(&directory);
        assert_eq!(Log::read(&directory, 7), None);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn without_room_for_it_there_is_none() {
        let directory = scratch("room");
        let mut log = Log::begin(&directory, 7, &[here(1)]);
        assert_eq!(log.trouble(), None);
        // What can only be read cannot be written.
        log.file = Some(File::open(directory.join(NAME)).unwrap());
        log.add(&[here(2)], Vec::new);
        assert!(log.trouble().is_some_and(|line| line.contains("cannot be noted") && !line.contains('\n')));
        assert_eq!(Log::read(&directory, 7), None);
        log.add(&[here(3)], Vec::new);
        log.bequeath(&directory, &[here(3)]);
        assert!(!directory.join(NAME).exists());
        fs::remove_dir_all(directory).unwrap();
    }
}
