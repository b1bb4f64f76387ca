//! The file in which a server's successor finds mailboxes and leases.
//!
//! It lies beside the pool and has [records](super::records), one in a line, in the order of the changes. After the records of one change
//! follows a line `. CHECKSUM`, the CRC-32C of the file up to that line. Records without it were written by a server that was killed
//! before it replied. The first line names the pool to which the file belongs. An orderly shutdown saves the file beside the data,
//! because it removes the pool. A file with any damaged byte counts as missing: then the successor knows no mailbox.
//!
//! The file is never synced, since it need not outlive the pool. A server that cannot write it removes it. Then its successor knows no
//! mailbox, so no process overwrites what others wrote.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::records::Record;
use pario_runtime::fs::{self, File};

const NAME: &str = "leases";

/// The file is rewritten when it is so many times longer than after the last rewrite, and beyond a length.
const MAX_GROWTH: u64 = 4;
const MIN_REWRITE: u64 = 1 << 20;

pub(super) struct LeaseLog {
    path: PathBuf,
    mark: u64,
    /// `None` after an error.
    file: Option<File>,
    /// The checksum of the file.
    crc: u32,
    len: u64,
    /// The length after the last rewrite.
    whole: u64,
    error: Option<String>,
}

impl LeaseLog {
    /// Reads the records of a predecessor. `None`: there are none for this pool, or the file is damaged.
    pub fn read(directory: &Path, mark: u64) -> Option<Vec<Record>> {
        let text = fs::read_to_string(directory.join(NAME)).ok()?;
        let rest = text.strip_prefix(&heading(mark))?;
        let mut crc = crc32c::crc32c(heading(mark).as_bytes());
        let (mut records, mut group, mut is_begun) = (Vec::new(), Vec::new(), false);
        for line in rest.split_inclusive('\n') {
            if !line.ends_with('\n') {
                // Accepts only the beginning of a line of which a killed server did not write the rest.
                let is_beginning =
                    |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b" -.".contains(&byte);
                return (is_begun && line.bytes().all(is_beginning)).then_some(records);
            }
            match line.strip_prefix(". ") {
                Some(sum) if u32::from_str_radix(sum.trim_end(), 16) != Ok(crc) => return None,
                Some(_) => {
                    is_begun = true;
                    records.append(&mut group);
                }
                None => group.push(Record::parse(line.trim_end_matches('\n'))?),
            }
            crc = crc32c::crc32c_append(crc, line.as_bytes());
        }
        is_begun.then_some(records)
    }

    /// Saves the records for a successor that will not find the pool.
    pub fn save_for_successor(&self, directory: &Path, all: &[Record]) {
        if self.error.is_none() {
            LeaseLog::begin(directory, self.mark, all);
        }
    }

    /// Removes the file after it was read: it is outdated soon.
    pub fn remove(directory: &Path) {
        // If this fails, the file belongs to a pool that does not exist.
        let _ = fs::remove_file(directory.join(NAME));
    }

    /// Starts a new file for this pool.
    pub fn begin(directory: &Path, mark: u64, all: &[Record]) -> LeaseLog {
        let path = directory.join(NAME);
        let mut log = LeaseLog { path, mark, file: None, crc: 0, len: 0, whole: 0, error: None };
        log.write_whole(all);
        log
    }

    /// Appends the records of one change. `all` returns the records of the whole table after it.
    pub fn add(&mut self, records: &[Record], all: impl FnOnce() -> Vec<Record>) {
        if records.is_empty() {
            return;
        }
        let Some(file) = &mut self.file else { return };
        let (text, crc) = lines(records, self.crc);
        let written = file.write_all(text.as_bytes());
        self.crc = crc;
        self.len += text.len() as u64;
        match written {
            Err(error) => self.give_up(&error),
            Ok(()) if self.len > MIN_REWRITE && self.len > MAX_GROWTH * self.whole => {
                self.write_whole(&all())
            }
            Ok(()) => {}
        }
    }

    /// Why a successor will know no mailbox, if so.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    fn write_whole(&mut self, all: &[Record]) {
        let fresh = self.path.with_extension("new");
        let heading = heading(self.mark);
        let (records, crc) = lines(all, crc32c::crc32c(heading.as_bytes()));
        let text = heading + &records;
        self.crc = crc;
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
        self.error = Some(format!(
            "leases cannot be recorded in {path}: {error}; after a restart of this server programs lose what \
             they have not stored{worse}"
        ));
    }
}

fn heading(mark: u64) -> String {
    format!("pario leases 2 {mark:016x}\n")
}

/// The lines of the records of one change after bytes with this checksum; and the checksum of everything.
fn lines(records: &[Record], before: u32) -> (String, u32) {
    let mut text: String = records.iter().map(|record| format!("{record}\n")).collect();
    let crc = crc32c::crc32c_append(before, text.as_bytes());
    let end = format!(". {crc:08x}\n");
    text += &end;
    (text, crc32c::crc32c_append(crc, end.as_bytes()))
}

#[cfg(test)]
mod tests {
    use pario_types::ClientId;

    use super::super::lease_table::Team;
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pario-log-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn connected(client: u128) -> Record {
        Record::Connected { client: ClientId(client), team: Team(1) }
    }

    #[test]
    fn the_log_stays_short_and_has_the_latest_records() {
        let directory = scratch("short");
        let mut log = LeaseLog::begin(&directory, 7, &[connected(1)]);
        for round in 2..100_000 {
            log.add(&[Record::Gone { client: ClientId(round - 1) }, connected(round)], || {
                vec![connected(round)]
            });
        }
        let len = fs::metadata(directory.join(NAME)).unwrap().len();
        assert!(len < 2 * MIN_REWRITE && len == log.len, "{len}");
        let records = LeaseLog::read(&directory, 7).unwrap();
        assert_eq!(records.last(), Some(&connected(99_999)));
        assert_eq!(LeaseLog::read(&directory, 8), None, "of another pool");
        log.save_for_successor(&directory, &[connected(5)]);
        assert_eq!(LeaseLog::read(&directory, 7), Some(vec![connected(5)]));
        LeaseLog::remove(&directory);
        assert_eq!(LeaseLog::read(&directory, 7), None);
        fs::remove_dir_all(directory).unwrap();
    }

    /// Pseudorandom numbers (xorshift).
    fn next(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed >> 8
    }

    #[test]
    fn the_lease_log_keeps_its_promises_on_faulty_storage() {
        let directory = scratch("faulty");
        let path = directory.join(NAME);
        let damage = |bytes: &mut Vec<u8>, seed: &mut u64| match next(seed) % 4 {
            // A flipped bit, a lost write, a misdirected write, a truncation.
            0 => {
                let at = next(seed) as usize % bytes.len();
                bytes[at] ^= 1 << (next(seed) % 8);
            }
            1 => {
                let from = next(seed) as usize % bytes.len();
                let upto = (from + 64).min(bytes.len());
                bytes[from..upto].fill(0);
            }
            2 => {
                let from = next(seed) as usize % bytes.len();
                let piece = bytes[from..(from + 64).min(bytes.len())].to_vec();
                // Not at the very end, where it would look like a write that was cut short.
                let to = next(seed) as usize % bytes.len();
                let to = to.min(bytes.len().saturating_sub(piece.len() + 80));
                bytes[to..to + piece.len()].copy_from_slice(&piece);
            }
            _ => bytes.truncate(next(seed) as usize % bytes.len()),
        };
        for seed in 1..4000u64 {
            let mut rng = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut log = LeaseLog::begin(&directory, 7, &[connected(1)]);
            let mut states = vec![vec![connected(1)]];
            for round in 0..next(&mut rng) % 9 {
                let gone = Record::Gone { client: ClientId(u128::from(round)) };
                let more = vec![connected(u128::from(next(&mut rng))), gone];
                log.add(&more, Vec::new);
                states.push([states.last().unwrap().as_slice(), &more].concat());
            }
            assert_eq!(LeaseLog::read(&directory, 7).as_ref(), states.last(), "seed {seed}: killed");
            let mut bytes = fs::read(&path).unwrap();
            let whole = bytes.clone();
            damage(&mut bytes, &mut rng);
            fs::write(&path, &bytes).unwrap();
            match LeaseLog::read(&directory, 7) {
                None => {}
                // Only records after the last complete change may be missing.
                Some(found) if whole.starts_with(&bytes) => assert!(states.contains(&found), "seed {seed}"),
                Some(_) => panic!("seed {seed}: damaged, and read as if it was not"),
            }
        }
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_log_that_cannot_be_written_is_removed() {
        let directory = scratch("room");
        let mut log = LeaseLog::begin(&directory, 7, &[connected(1)]);
        assert_eq!(log.error(), None);
        // A descriptor that is open for reading only.
        log.file = Some(File::open(directory.join(NAME)).unwrap());
        log.add(&[connected(2)], Vec::new);
        assert!(log.error().is_some_and(|line| line.contains("cannot be recorded") && !line.contains('\n')));
        assert_eq!(LeaseLog::read(&directory, 7), None);
        log.add(&[connected(3)], Vec::new);
        log.save_for_successor(&directory, &[connected(3)]);
        assert!(!directory.join(NAME).exists());
        fs::remove_dir_all(directory).unwrap();
    }
}
