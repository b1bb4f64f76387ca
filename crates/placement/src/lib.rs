//! A plan: where each chunk of a program's files is best kept.
//!
//! A plan is made from a profile (crate `profile`), written to a file that people can read ([`PlacementPlan::to_text`],
//! [`PlacementPlan::from_text`]), and used by whoever lays files out. It says for each file, in order of offsets, which chunks
//! there are, who uses them, and whether a chunk belongs to the local storage of one process, to that of each of
//! its users, or to shared storage; and in which order the chunks of a partition were first used.
//!
//! A plan is advice: bytes that it does not mention, and programs that do something else, are still right.
#![forbid(unsafe_code)]

mod error;
mod lines;
mod partition;
mod placing;
mod summary;
mod text;

pub use error::Error;
pub use partition::{ChunkHolder, PlanPartition};
pub use placing::Places;
pub use summary::{StorageShare, Summary};

/// Which of the plan's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// Which of the plan's groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// Where the bytes of a program's files go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementPlan {
    /// What it was made from, for people.
    pub from: String,
    /// The processes of the profile, in the order of their labels.
    pub processes: Vec<PlannedProcess>,
    /// The sets of processes that use chunks.
    pub groups: Vec<ProcessGroup>,
    /// The files, in the order in which the profile has them.
    pub files: Vec<PlannedFile>,
}

/// A process, or a node with all of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedProcess {
    /// Its name: the rank, or what the profile calls it.
    pub label: String,
    /// Where it ran; empty where that is not known.
    pub node: String,
}

/// Who uses a chunk. Both lists are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessGroup {
    /// All who read or write it.
    pub users: Vec<ProcessId>,
    /// Those who write it.
    pub writers: Vec<ProcessId>,
}

/// A file's chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// Its name, as the program gave it.
    pub name: String,
    /// Its chunks in the order of offsets; they do not overlap.
    pub chunks: Vec<Chunk>,
}

/// A run of bytes that the same processes use in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its first byte.
    pub offset: u64,
    /// Its bytes, at least one.
    pub length: u64,
    /// Where it is kept.
    pub placement: Placement,
    /// Who uses it.
    pub group: GroupId,
    /// Its place among all chunks of the plan by the time of their first use, from 0.
    pub order: u64,
    /// Bytes of it that were read, again and again if so.
    pub read: u64,
    /// Bytes of it that were written, again and again if so.
    pub written: u64,
    /// Bytes of these that still go between nodes if the plan is followed.
    pub moved: u64,
}

/// Where a chunk is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// In the local storage of a process.
    Local(ProcessId),
    /// In that of each of its users, none of whom writes it.
    Duplicate,
    /// In that of each of its users; the one who writes it updates all.
    Broadcast,
    /// In shared storage.
    Central,
}

impl Placement {
    /// As people and scripts read it.
    pub fn word(self) -> &'static str {
        match self {
            Placement::Local(_) => "local",
            Placement::Duplicate => "duplicate",
            Placement::Broadcast => "broadcast",
            Placement::Central => "central",
        }
    }
}

impl Chunk {
    /// One past its last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }
}

impl PlannedFile {
    /// The chunk that holds the byte.
    pub fn chunk_at(&self, offset: u64) -> Option<&Chunk> {
        let next = self.chunks.partition_point(|chunk| chunk.offset <= offset);
        self.chunks[..next].last().filter(|chunk| offset < chunk.end())
    }
}

impl PlacementPlan {
    /// Who uses the chunk.
    pub fn group(&self, chunk: &Chunk) -> &ProcessGroup {
        &self.groups[chunk.group.0 as usize]
    }

    /// The processes in whose local storage the chunk is kept: none for shared storage.
    pub fn keepers<'a>(&'a self, chunk: &'a Chunk) -> &'a [ProcessId] {
        match &chunk.placement {
            Placement::Local(process) => std::slice::from_ref(process),
            Placement::Duplicate | Placement::Broadcast => &self.group(chunk).users,
            Placement::Central => &[],
        }
    }

    /// The name of a process.
    pub fn label(&self, process: ProcessId) -> &str {
        &self.processes[process.0 as usize].label
    }

    /// All chunks: their numbers, from 0, in the order of files and offsets; their files; they themselves.
    pub fn chunks(&self) -> impl Iterator<Item = (usize, &PlannedFile, &Chunk)> {
        let all = self.files.iter().flat_map(|file| file.chunks.iter().map(move |chunk| (file, chunk)));
        all.enumerate().map(|(number, (file, chunk))| (number, file, chunk))
    }

    /// A plan of which everything that it says of itself holds, or why not.
    pub(crate) fn checked(self) -> Result<PlacementPlan, Error> {
        for (number, group) in self.groups.iter().enumerate() {
            let is_sorted = |list: &[ProcessId]| list.is_sorted_by(|a, b| a < b);
            let known = group.users.last().is_some_and(|last| (last.0 as usize) < self.processes.len());
            let writers = group.writers.iter().all(|writer| group.users.binary_search(writer).is_ok());
            if !(known && writers && is_sorted(&group.users) && is_sorted(&group.writers)) {
                return Err(Error::Group(number));
            }
        }
        for file in &self.files {
            let mut free_from = 0;
            for chunk in &file.chunks {
                let end = chunk.offset.checked_add(chunk.length).filter(|&end| end <= i64::MAX as u64);
                let in_line = chunk.length > 0 && chunk.offset >= free_from;
                match end {
                    Some(end) if in_line && self.fits(chunk) => free_from = end,
                    _ => return Err(Error::Chunk { file: file.name.clone(), offset: chunk.offset }),
                }
            }
        }
        let chunks = self.files.iter().map(|file| file.chunks.len()).sum();
        let mut taken = vec![false; chunks];
        for (_, file, chunk) in self.chunks() {
            let free = usize::try_from(chunk.order).ok().and_then(|order| taken.get_mut(order));
            match free {
                Some(taken) if !*taken => *taken = true,
                _ => return Err(Error::Order { file: file.name.clone(), offset: chunk.offset }),
            }
        }
        Ok(self)
    }

    fn fits(&self, chunk: &Chunk) -> bool {
        let Some(group) = self.groups.get(chunk.group.0 as usize) else { return false };
        match chunk.placement {
            Placement::Local(process) => group.users.binary_search(&process).is_ok(),
            Placement::Duplicate => group.writers.is_empty(),
            Placement::Broadcast => group.writers.len() == 1,
            Placement::Central => true,
        }
    }
}
