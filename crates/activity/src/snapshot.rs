//! The records of other processes of this host.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pario_shm::{Segment, SegmentHandle};

use crate::call_name::CallName;
use crate::layout::*;

/// The calls of one process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSnapshot {
    /// The process.
    pub pid: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// The number of ranks of `MPI_COMM_WORLD`.
    pub ranks: u32,
    /// The name of its job; empty if the launcher gives it none.
    pub job: String,
    /// The number of MPI-IO calls that it has begun.
    pub begun: u64,
    /// The number of MPI-IO calls that have ended.
    pub ended: u64,
    /// The last call that it has begun.
    pub call: CallName,
    /// The file of this call; empty if there is none.
    pub path: String,
    /// The groups of ranks that have opened files together.
    pub files: Vec<FileSnapshot>,
}

/// The collective calls of one process on the files of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSnapshot {
    /// The number of the group.
    pub group: u64,
    /// The rank in the group.
    pub rank: u32,
    /// The number of ranks of the group.
    pub ranks: u32,
    /// The number of collective calls that this rank has begun.
    pub collectives: u64,
    /// The last of them.
    pub call: CallName,
    /// The bytes of this call on this rank, where it is about bytes.
    pub bytes: Option<u64>,
    /// The time, on the clock of [`now`](crate::now), since which a collective call waits for other ranks.
    pub waiting_since: Option<Duration>,
    /// The open file; empty if none is open.
    pub path: String,
}

impl ProcessSnapshot {
    /// The record of a process, if it has one and this process may read it.
    pub fn of(pid: u32) -> Option<ProcessSnapshot> {
        let segment = open(pid).ok().flatten()?;
        (segment.len() == SIZE && segment.word(0).load(Relaxed) == MAGIC).then(|| read(pid, &segment))
    }

    /// Whether the process is in an MPI-IO call.
    pub fn is_in_call(&self) -> bool {
        self.begun > self.ended
    }

    /// The group with this number.
    pub fn group(&self, group: u64) -> Option<&FileSnapshot> {
        self.files.iter().find(|file| file.group == group)
    }

    /// The wait of this process for other ranks that began first.
    pub fn wait(&self) -> Option<&FileSnapshot> {
        self.files.iter().filter(|file| file.waiting_since.is_some()).min_by_key(|file| file.waiting_since)
    }
}

/// The records of all processes of this host that this process may read, by process number.
pub fn processes() -> io::Result<Vec<ProcessSnapshot>> {
    let mut pids: Vec<u32> = std::fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for pid in pids {
        let Some(handle) = find(pid).ok().flatten() else { continue };
        // A forked child has the descriptor of its parent, too.
        if !seen.contains(&handle.inode)
            && let Some(snapshot) = ProcessSnapshot::of(pid)
        {
            seen.push(handle.inode);
            found.push(snapshot);
        }
    }
    Ok(found)
}

/// The parent of a process.
pub fn parent_of(pid: u32) -> Option<u32> {
    // The name in parentheses may contain any character. The parent is the second word after it.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The descriptor of a process that leads to its record.
fn find(pid: u32) -> io::Result<Option<SegmentHandle>> {
    let label = format!("/memfd:{}", LABEL.to_string_lossy());
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?;
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if !target.to_string_lossy().starts_with(&label) {
            continue;
        }
        let fd = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(entry.path())?);
        if let Some(fd) = fd {
            return Ok(Some(SegmentHandle { pid, fd, inode }));
        }
    }
    Ok(None)
}

fn open(pid: u32) -> io::Result<Option<Segment>> {
    find(pid)?.map(|handle| Segment::open(&handle)).transpose()
}

fn read(pid: u32, segment: &Segment) -> ProcessSnapshot {
    let word = |at: usize| segment.word(at).load(Relaxed);
    let name = |at: usize| CallName(std::array::from_fn(|i| word(at + 8 * i)));
    let text = |at: usize, size: usize| {
        let mut bytes = vec![0; size];
        segment.read_into(at, &mut bytes);
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(size);
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    let halves = |word: u64| (word as u32, (word >> 32) as u32);
    let file = |index: usize| {
        let at = slot(index);
        let (rank, ranks) = halves(word(at + RANK));
        FileSnapshot {
            group: word(at + GROUP),
            rank,
            ranks,
            collectives: word(at + COLLECTIVES),
            call: name(at + COLLECTIVE),
            bytes: word(at + BYTES).checked_sub(1),
            waiting_since: Some(word(at + WAITING)).filter(|ns| *ns > 0).map(Duration::from_nanos),
            path: text(at + PATH, PATH_SIZE),
        }
    };
    let (rank, ranks) = halves(word(WORLD));
    let call_file = (word(CALL_FILE) as usize).checked_sub(1).filter(|index| *index < SLOTS);
    ProcessSnapshot {
        pid,
        rank,
        ranks,
        job: text(JOB, JOB_SIZE),
        ended: word(ENDED),
        begun: word(BEGUN),
        call: name(CALL),
        path: call_file.map_or_else(String::new, |index| text(slot(index) + PATH, PATH_SIZE)),
        files: (0..SLOTS).map(file).filter(|file| file.group != 0).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ActivityRecord;

    #[test]
    fn a_record_shows_the_calls_of_a_process() {
        let record = ActivityRecord::create(3, 8, "job 7").unwrap();
        let file = record.add_group(77, 1, 4).unwrap();
        let other = record.add_group(78, 0, 1).unwrap();
        file.set_path(b"/scratch/out");
        let write = CallName::new("MPI_File_write_at_all");
        record.begin_call(write, Some(&file));
        file.begin_collective(write);
        file.set_bytes(0);
        file.begin_wait(Duration::from_nanos(5));
        assert_eq!((file.last_collective().number, file.last_collective().name), (1, write));

        let pid = std::process::id();
        let shot = ProcessSnapshot::of(pid).unwrap();
        assert_eq!((shot.pid, shot.rank, shot.ranks, shot.job.as_str()), (pid, 3, 8, "job 7"));
        assert!(shot.is_in_call() && shot.call == write && shot.path == "/scratch/out");
        let group = shot.group(77).unwrap();
        assert_eq!((group.rank, group.ranks, group.collectives, group.bytes), (1, 4, 1, Some(0)));
        assert_eq!(shot.wait(), Some(group));
        assert!(processes().unwrap().contains(&shot));

        file.end_wait(Duration::from_nanos(6));
        assert!(ProcessSnapshot::of(pid).unwrap().wait().is_some(), "another wait");
        file.end_wait(Duration::from_nanos(5));
        record.end_call();
        drop(other);
        let shot = ProcessSnapshot::of(pid).unwrap();
        assert!(!shot.is_in_call() && shot.wait().is_none() && shot.group(78).is_none());
        let again = record.add_group(79, 0, 1).unwrap();
        assert_eq!(again.last_collective().number, 0);
        let path = "x".repeat(500);
        again.set_path(path.as_bytes());
        let shot = ProcessSnapshot::of(pid).unwrap();
        assert_eq!(shot.group(79).unwrap().path, path[..PATH_SIZE]);
        assert!(ProcessSnapshot::of(1 << 30).is_none());
    }
}
