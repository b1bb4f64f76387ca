//! The file in which a server's successor finds who had leased what.
//!
//! It lies beside the pool, and holds [records](super::records), line by line, as they came; after those that belong
//! together a line `. CHECKSUM`, which is the CRC-32C of the file up to that line. What a kill cut off has none, and was never
//! answered. Its first line names the pool for whose time it is. A server that ends in order leaves it beside the data, where
//! the pool is not any more. A file of which any byte is not what was written counts as none: then nobody is known.
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
    /// The checksum of what it holds.
    crc: u32,
    /// How long it is, and was when it was written as a whole.
    len: u64,
    whole: u64,
    trouble: Option<String>,
}

impl Log {
    /// What a predecessor has left. `None`: nothing for this pool, or nothing that makes sense.
    pub fn read(directory: &Path, mark: u64) -> Option<Vec<Record>> {
        let text = fs::read_to_string(directory.join(NAME)).ok()?;
        let rest = text.strip_prefix(&heading(mark))?;
        let mut crc = crc32c::crc32c(heading(mark).as_bytes());
        let (mut records, mut group, mut is_begun) = (Vec::new(), Vec::new(), false);
        for line in rest.split_inclusive('\n') {
            if !line.ends_with('\n') {
                // The beginning of a line that a kill cut off, and nothing else.
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
        let mut log = Log { path, mark, file: None, crc: 0, len: 0, whole: 0, trouble: None };
        log.write_whole(all);
        log
    }

    /// Adds what belongs together. `all` is how everything is after that.
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
        self.trouble = Some(format!(
            "who has leased what cannot be noted in {path}: {error}; after a restart of this server programs lose what \
             they have not stored{worse}"
        ));
    }
}

fn heading(mark: u64) -> String {
    format!("pario leases 2 {mark:016x}\n")
}

/// The lines of records that belong together, behind bytes of this checksum; and the checksum of all.
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

    /// Numbers that look random (xorshift).
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
            // Rotten, lost, misdirected, cut off.
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
            let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut log = Log::begin(&directory, 7, &[here(1)]);
            let mut states = vec![vec![here(1)]];
            for round in 0..next(&mut dice) % 9 {
                let gone = Record::Gone { client: ClientId(u128::from(round)) };
                let more = vec![here(u128::from(next(&mut dice))), gone];
                log.add(&more, Vec::new);
                states.push([states.last().unwrap().as_slice(), &more].concat());
            }
            assert_eq!(Log::read(&directory, 7).as_ref(), states.last(), "seed {seed}: killed");
            let mut bytes = fs::read(&path).unwrap();
            let whole = bytes.clone();
            damage(&mut bytes, &mut dice);
            fs::write(&path, &bytes).unwrap();
            match Log::read(&directory, 7) {
                None => {}
                // Only what was never there behind the last answer may be missing.
                Some(found) if whole.starts_with(&bytes) => assert!(states.contains(&found), "seed {seed}"),
                Some(_) => panic!("seed {seed}: damaged, and read as if it was not"),
            }
        }
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
