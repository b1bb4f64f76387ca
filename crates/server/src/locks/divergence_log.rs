//! A log of divergent replicas, which survives the server.
//!
//! A client that writes bytes with several replicas holds a lock on them. The server notes that lock before it grants it, and
//! again when the client is done. A lock whose end is not noted belongs to a write that may have reached some
//! replicas and not others, because its client died, this server was killed, or both.
//!
//! The file `divergent` in the server's directory has one line per event, each with a CRC-32C of its own:
//!
//! ```text
//! + LOCK FILE CLIENT START-END…    a client may write these replicas
//! - LOCK                           it wrote all of them
//! ! LOCK                           it ended before that
//! x FILE                           the file is removed
//! = FILE CLIENTS START-END…        these replicas may differ (the lines that a start, or a long log, is reduced to)
//! ```
//!
//! Numbers are hexadecimal. An incomplete line at the end was never acted upon. The log is written without a sync, because it has to
//! survive the server and not its host: after a loss of the host's memory all replicas are compared ([`super::memory_losses`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pario_locks::LockExtent;
use pario_runtime::fs::{self, File};
use pario_types::{ClientId, FileId};

use super::divergent_replicas::{DivergentExtents, DivergentReplicas};

const NAME: &str = "divergent";

/// A longer log is rewritten in its shortest form.
const MAX_LEN: u64 = 1 << 20;

/// A lock under which replicas are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaWrite {
    pub file: FileId,
    pub client: ClientId,
    pub extents: Vec<LockExtent>,
}

/// The log of a running server.
pub(crate) struct DivergenceLog {
    path: PathBuf,
    /// The file, or why it cannot be opened.
    file: io::Result<File>,
    len: u64,
    /// The locks whose end is not noted yet.
    open: BTreeMap<u64, ReplicaWrite>,
}

impl DivergenceLog {
    /// Opens the log of a directory, and returns which replicas may differ.
    pub fn open(directory: &Path) -> (DivergenceLog, DivergentReplicas) {
        let path = directory.join(NAME);
        let divergent =
            fs::read(&path).map(|bytes| replay(&String::from_utf8_lossy(&bytes))).unwrap_or_default();
        let mut log =
            DivergenceLog { path, file: Err(io::ErrorKind::NotFound.into()), len: 0, open: BTreeMap::new() };
        log.reduce(&divergent);
        (log, divergent)
    }

    /// Notes that a client may write replicas under a lock.
    pub fn begin(&mut self, lock: u64, write: ReplicaWrite) -> io::Result<()> {
        self.append(&began(lock, &write))?;
        self.open.insert(lock, write);
        Ok(())
    }

    /// Notes that the client of a lock wrote all replicas. If that fails, they count as divergent after a restart, and are compared.
    pub fn done(&mut self, lock: u64, divergent: &DivergentReplicas) {
        self.open.remove(&lock);
        let _ = self.append(&format!("- {lock:x}"));
        if self.len > MAX_LEN {
            self.reduce(divergent);
        }
    }

    /// Notes that the client of a lock ended before it wrote all replicas.
    pub fn left(&mut self, lock: u64) {
        self.open.remove(&lock);
        // Without this line the lock counts as one that did not end, which means the same.
        let _ = self.append(&format!("! {lock:x}"));
    }

    /// Notes that a file is removed.
    pub fn removed(&mut self, file: FileId) {
        let _ = self.append(&format!("x {:x}", file.0));
    }

    fn append(&mut self, text: &str) -> io::Result<()> {
        let file = self.file.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let line = with_checksum(text);
        // An incomplete line is ignored, but would damage the next line if it stayed.
        file.write_all(line.as_bytes()).inspect_err(|_| drop(file.set_len(self.len)))?;
        self.len += line.len() as u64;
        Ok(())
    }

    /// Rewrites the log in its shortest form.
    fn reduce(&mut self, divergent: &DivergentReplicas) {
        let known = divergent.all().map(|(file, left)| known(file, left));
        let begun = self.open.iter().map(|(lock, write)| began(*lock, write));
        let text: String = known.chain(begun).map(|line| with_checksum(&line)).collect();
        let fresh = self.path.with_extension("new");
        let write = || {
            let mut options = File::options();
            let mut file = options.append(true).create(true).mode(0o600).open(&fresh)?;
            file.set_len(0)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&fresh, &self.path)?;
            Ok(file)
        };
        match write() {
            Ok(file) => (self.file, self.len) = (Ok(file), text.len() as u64),
            // The existing log stays in use.
            Err(error) if self.file.is_err() => {
                let opened = File::options().append(true).open(&self.path);
                self.len =
                    opened.as_ref().ok().and_then(|file| file.metadata().ok()).map_or(0, |it| it.len());
                self.file = opened.map_err(|_| error);
            }
            Err(_) => {}
        }
    }
}

fn began(lock: u64, write: &ReplicaWrite) -> String {
    let mut line = format!("+ {lock:x} {:x} {:x}", write.file.0, write.client.0);
    put_extents(&mut line, &write.extents);
    line
}

fn known(file: FileId, left: &DivergentExtents) -> String {
    let clients: Vec<String> = left.clients.iter().map(|client| format!("{:x}", client.0)).collect();
    let mut line = format!("= {:x} {}", file.0, clients.join(","));
    put_extents(&mut line, &left.extents);
    line
}

fn put_extents(line: &mut String, extents: &[LockExtent]) {
    for extent in extents {
        write!(line, " {:x}-{:x}", extent.start(), extent.end()).expect("a string takes everything");
    }
}

pub(super) fn with_checksum(line: &str) -> String {
    format!("{line} {:08x}\n", crc32c::crc32c(line.as_bytes()))
}

/// A line without its checksum, if that is right.
pub(super) fn without_checksum(line: &str) -> Option<&str> {
    let (line, sum) = line.rsplit_once(' ')?;
    (u32::from_str_radix(sum, 16).ok()? == crc32c::crc32c(line.as_bytes())).then_some(line)
}

/// The replicas that may differ after these events. Incomplete lines are ignored.
fn replay(text: &str) -> DivergentReplicas {
    let (mut divergent, mut open) = (DivergentReplicas::default(), BTreeMap::new());
    for line in text.lines() {
        let _ = replay_line(line, &mut divergent, &mut open);
    }
    for write in open.into_values() {
        divergent.add(write.file, write.client, &write.extents);
    }
    divergent
}

fn replay_line(
    line: &str,
    divergent: &mut DivergentReplicas,
    open: &mut BTreeMap<u64, ReplicaWrite>,
) -> Option<()> {
    let mut words = without_checksum(line)?.split(' ');
    let kind = words.next()?;
    let number = number(words.next()?)?;
    match kind {
        "+" => {
            let file = FileId(self::number(words.next()?)?);
            let client = client(words.next()?)?;
            let extents = words.map(extent).collect::<Option<_>>()?;
            // A lock number that occurs again belongs to a later server; the locks of the earlier one ended with it.
            if let Some(write) = open.insert(number, ReplicaWrite { file, client, extents }) {
                divergent.add(write.file, write.client, &write.extents);
            }
        }
        "-" => {
            let write = open.remove(&number)?;
            divergent.repaired(write.file, &write.extents);
        }
        "!" => {
            let write = open.remove(&number)?;
            divergent.add(write.file, write.client, &write.extents);
        }
        "x" => {
            divergent.forget(FileId(number));
            open.retain(|_, write| write.file != FileId(number));
        }
        "=" => {
            let clients: Vec<ClientId> = words.next()?.split(',').map(client).collect::<Option<_>>()?;
            let extents: Vec<LockExtent> = words.map(extent).collect::<Option<_>>()?;
            clients.into_iter().for_each(|client| divergent.add(FileId(number), client, &extents));
        }
        _ => {}
    }
    Some(())
}

pub(super) fn number(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

fn client(word: &str) -> Option<ClientId> {
    u128::from_str_radix(word, 16).ok().map(ClientId)
}

fn extent(word: &str) -> Option<LockExtent> {
    let (start, end) = word.split_once('-')?;
    LockExtent::new(number(start)?, number(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(7);

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("pario-divergent-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("made");
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn write(client: u128, extents: &[(u64, u64)]) -> ReplicaWrite {
        let extents = extents.iter().map(|(start, end)| LockExtent::new(*start, *end).expect("not empty"));
        ReplicaWrite { file: FILE, client: ClientId(client), extents: extents.collect() }
    }

    fn extents(divergent: &DivergentReplicas) -> Vec<(u64, u64)> {
        divergent.of(FILE).extents.iter().map(|extent| (extent.start(), extent.end())).collect()
    }

    #[test]
    fn a_write_whose_end_is_not_noted_is_divergent_after_a_restart() {
        let dir = Scratch::new("restart");
        let (mut log, divergent) = DivergenceLog::open(&dir.0);
        assert_eq!(divergent.of(FILE), DivergentExtents::default());
        log.begin(1, write(11, &[(0, 10), (20, 30)])).expect("noted");
        log.begin(2, write(12, &[(100, 110)])).expect("noted");
        log.begin(3, write(13, &[(5, 8), (105, 120)])).expect("noted");
        log.done(1, &divergent);
        log.left(2);
        // A kill: nothing else is noted. Lock numbers begin anew.
        for _ in 0..2 {
            let (_, divergent) = DivergenceLog::open(&dir.0);
            assert_eq!(extents(&divergent), [(5, 8), (100, 105), (105, 120)]);
            assert_eq!(divergent.of(FILE).clients, [ClientId(12), ClientId(13)]);
        }
        let (mut log, mut divergent) = DivergenceLog::open(&dir.0);
        log.begin(1, write(14, &[(100, 120)])).expect("noted");
        divergent.repaired(FILE, &write(14, &[(100, 120)]).extents);
        log.done(1, &divergent);
        assert_eq!(extents(&DivergenceLog::open(&dir.0).1), [(5, 8)]);
        let (mut log, _) = DivergenceLog::open(&dir.0);
        log.removed(FILE);
        assert_eq!(DivergenceLog::open(&dir.0).1.of(FILE), DivergentExtents::default());
    }

    #[test]
    fn a_kill_at_any_byte_of_the_log_loses_no_granted_lock() {
        let dir = Scratch::new("cut");
        let (mut log, divergent) = DivergenceLog::open(&dir.0);
        let mut granted = Vec::new();
        for lock in 1..20 {
            let at = lock * 10;
            log.begin(lock, write(lock.into(), &[(at, at + 5)])).expect("noted");
            if lock % 3 == 0 {
                log.done(lock, &divergent);
            }
            granted.push((fs::metadata(dir.0.join(NAME)).expect("there").len() as usize, at, lock % 3 == 0));
        }
        let whole = fs::read(dir.0.join(NAME)).expect("there");
        for cut in 0..=whole.len() {
            let divergent = replay(&String::from_utf8_lossy(&whole[..cut]));
            for (end, at, is_done) in &granted {
                let is_known = extents(&divergent).iter().any(|(start, _)| start == at);
                assert!(is_known || *is_done || cut < *end, "cut at {cut}: the lock at {at} is lost");
            }
        }
    }

    #[test]
    fn the_log_stays_short() {
        let dir = Scratch::new("short");
        let (mut log, divergent) = DivergenceLog::open(&dir.0);
        log.begin(1, write(1, &[(0, 10)])).expect("noted");
        for lock in 2..40_000 {
            log.begin(lock, write(2, &[(20, 30)])).expect("noted");
            log.done(lock, &divergent);
        }
        let len = fs::metadata(dir.0.join(NAME)).expect("there").len();
        assert!(len <= MAX_LEN + 200 && len == log.len, "{len}");
        assert_eq!(extents(&DivergenceLog::open(&dir.0).1), [(0, 10)]);
    }
}
