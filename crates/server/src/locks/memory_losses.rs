//! How often this server lost the content of its pool, and since which loss its replicas of a file are known to be equal to the others.
//!
//! A server whose host lost its memory or power has an older version of bytes that were not synced, while servers of other replicas may
//! have the latest. The server does not know which files have replicas. It therefore counts its losses, and any client that is about to read
//! replicas asks for the count. A client that has compared and equalised all replicas of a file, and has synced them, reports the count that
//! it was told. Until then the replicas of this server are not read.
//!
//! The file `losses` in the server's directory has one line per event, each with a CRC-32C of its own, numbers in hexadecimal:
//!
//! ```text
//! L COUNT         the content of the pool was lost so often
//! = FILE COUNT    the replicas of the file were equal after that loss
//! ```
//!
//! A loss is synced before the server serves, because the server forgets the lost pool then. Equal replicas are not: without their line
//! they are compared once more.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pario_runtime::fs::{self, File};
use pario_types::FileId;

use super::divergence_log::{number, with_checksum, without_checksum};

const NAME: &str = "losses";

/// Of more files than this the oldest are forgotten, and compared once more.
const MAX_FILES: usize = 1 << 16;

/// A longer log is rewritten in its shortest form.
const MAX_LEN: u64 = 4 << 20;

pub(crate) struct MemoryLosses {
    path: PathBuf,
    /// The log, if there was a loss and it can be written.
    log: Option<File>,
    len: u64,
    count: u64,
    equal: BTreeMap<FileId, u64>,
}

/// The losses of a server that concern a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileLosses {
    /// All losses of this server.
    pub count: u64,
    /// Those since which the replicas of the file were not compared.
    pub unresolved: u64,
}

impl MemoryLosses {
    /// Reads the log of a directory.
    pub fn open(directory: &Path) -> MemoryLosses {
        let path = directory.join(NAME);
        let log = File::options().append(true).open(&path).ok();
        let text = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.unwrap_or_default();
        let mut losses = MemoryLosses { path, log, len: text.len() as u64, count: 0, equal: BTreeMap::new() };
        for line in text.lines() {
            let _ = losses.replay(line);
        }
        losses
    }

    fn replay(&mut self, line: &str) -> Option<()> {
        let mut words = without_checksum(line)?.split(' ');
        match words.next()? {
            "L" => self.count = number(words.next()?)?,
            "=" => {
                let file = FileId(number(words.next()?)?);
                self.insert(file, number(words.next()?)?);
            }
            _ => {}
        }
        Some(())
    }

    fn insert(&mut self, file: FileId, count: u64) {
        self.equal.insert(file, count);
        if self.equal.len() > MAX_FILES {
            self.equal.pop_first();
        }
    }

    /// Notes that the content of the pool was lost. After an error the loss counts, but a successor does not know it.
    pub fn note_loss(&mut self) -> io::Result<()> {
        self.count += 1;
        self.rewrite()
    }

    /// The losses that concern a file.
    pub fn of(&self, file: FileId) -> FileLosses {
        let equal = self.equal.get(&file).copied().unwrap_or(0);
        FileLosses { count: self.count, unresolved: self.count.saturating_sub(equal) }
    }

    /// Notes that the replicas of a file were equal after this loss.
    pub fn mark_equal(&mut self, file: FileId, count: u64) {
        if count > self.count || self.of(file).unresolved <= self.count - count {
            return;
        }
        self.insert(file, count);
        let line = with_checksum(&format!("= {:x} {count:x}", file.0));
        let written = self.log.as_mut().map(|log| log.write_all(line.as_bytes()));
        if let Some(Ok(())) = written {
            self.len += line.len() as u64;
        }
        if self.len > MAX_LEN {
            // If it fails, the log stays as it is.
            let _ = self.rewrite();
        }
    }

    /// Forgets a removed file.
    pub fn forget(&mut self, file: FileId) {
        self.equal.remove(&file);
    }

    /// Writes the log in its shortest form, and syncs it.
    fn rewrite(&mut self) -> io::Result<()> {
        let equal = self.equal.iter().map(|(file, count)| format!("= {:x} {count:x}", file.0));
        let lines = std::iter::once(format!("L {:x}", self.count)).chain(equal);
        let text: String = lines.map(|line| with_checksum(&line)).collect();
        let fresh = self.path.with_extension("new");
        let mut file = File::options().append(true).create(true).mode(0o600).open(&fresh)?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        if let Some(directory) = self.path.parent() {
            File::open(directory)?.sync_all()?;
        }
        (self.log, self.len) = (Some(file), text.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(7);

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("pario-losses-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("made");
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_loss_is_unresolved_until_the_replicas_of_a_file_are_equal() {
        let dir = Scratch::new("unresolved");
        assert_eq!(MemoryLosses::open(&dir.0).of(FILE), FileLosses::default());
        assert!(!dir.0.join(NAME).exists(), "a server that lost nothing writes nothing");
        let mut losses = MemoryLosses::open(&dir.0);
        losses.note_loss().expect("noted");
        losses.note_loss().expect("noted");
        for losses in [&losses, &MemoryLosses::open(&dir.0)] {
            assert_eq!(losses.of(FILE), FileLosses { count: 2, unresolved: 2 });
        }
        losses.mark_equal(FILE, 1);
        assert_eq!(losses.of(FILE).unresolved, 1, "there was another loss meanwhile");
        losses.mark_equal(FILE, 2);
        losses.mark_equal(FILE, 1);
        losses.mark_equal(FILE, 9);
        let mut losses = MemoryLosses::open(&dir.0);
        assert_eq!(losses.of(FILE), FileLosses { count: 2, unresolved: 0 });
        assert_eq!(losses.of(FileId(8)), FileLosses { count: 2, unresolved: 2 });
        losses.note_loss().expect("noted");
        assert_eq!(MemoryLosses::open(&dir.0).of(FILE), FileLosses { count: 3, unresolved: 1 });
        losses.forget(FILE);
        assert_eq!(losses.of(FILE).unresolved, 3);
    }

    #[test]
    fn a_log_that_is_cut_anywhere_never_resolves_a_loss_that_is_not_resolved() {
        let dir = Scratch::new("cut");
        let mut losses = MemoryLosses::open(&dir.0);
        losses.note_loss().expect("noted");
        let begun = fs::read(dir.0.join(NAME)).expect("there").len();
        losses.mark_equal(FileId(0x12), 1);
        losses.mark_equal(FileId(0x123), 1);
        let whole = fs::read(dir.0.join(NAME)).expect("there");
        for cut in begun..=whole.len() {
            fs::write(dir.0.join(NAME), &whole[..cut]).expect("written");
            let losses = MemoryLosses::open(&dir.0);
            assert_eq!(losses.of(FileId(1)).unresolved, 1, "cut at {cut}");
            assert_eq!(losses.of(FileId(0x123)).unresolved, u64::from(cut < whole.len() - 1), "cut at {cut}");
        }
    }
}
