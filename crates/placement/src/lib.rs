//! A plan: the best location of each chunk of a program's files.
//!
//! A plan is made from a profile (crate `profile`), written to a file that people can read ([`PlacementPlan::to_text`],
//! [`PlacementPlan::from_text`]), and used to lay files out. It lists for each file, in order of offsets, the chunks and
//! the processes that use them, and whether a chunk belongs to the local storage of one process, to that of each of its
//! users, or to shared storage; and the order in which the chunks of a partition were first used.
//!
//! A plan is advice: bytes that it does not mention, and programs that behave differently, are still correct.
#![forbid(unsafe_code)]

mod error;
mod lines;
mod partition;
mod placing;
mod summary;
mod text;

pub use error::Error;
pub use partition::{ChunkHolder, PlanPartition};
pub use placing::ServerAssignments;
pub use summary::{PlanSummary, StorageShare};

/// The index of a process in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// The index of a group in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// The location of the bytes of a program's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementPlan {
    /// The source of the profile, for people.
    pub from: String,
    /// The processes of the profile, in the order of their labels.
    pub processes: Vec<PlannedProcess>,
    /// The sets of processes that use chunks.
    pub groups: Vec<ProcessGroup>,
    /// The files, in the order of the profile.
    pub files: Vec<PlannedFile>,
}

/// A process, or a node with all of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedProcess {
    /// Its name: the rank, or its name in the profile.
    pub label: String,
    /// Its node; empty where that is unknown.
    pub node: String,
}

/// The processes that use a chunk. Both lists are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessGroup {
    /// The processes that read or write it.
    pub users: Vec<ProcessId>,
    /// The processes that write it.
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
    /// Its location.
    pub placement: Placement,
    /// The processes that use it.
    pub group: GroupId,
    /// Its rank among all chunks of the plan by the time of their first use, from 0.
    pub order: u64,
    /// Bytes of it that were read, repeated reads included.
    pub read: u64,
    /// Bytes of it that were written, repeated writes included.
    pub written: u64,
    /// Bytes of these that are still transferred between nodes if the plan is followed.
    pub moved: u64,
}

/// The location of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// In the local storage of a process.
    Local(ProcessId),
    /// In that of each of its users, none of which writes it.
    Duplicate,
    /// In that of each of its users; the one that writes it updates all.
    Broadcast,
    /// In shared storage.
    Central,
}

impl Placement {
    /// Its name in the plan file.
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
    /// Returns the processes that use the chunk.
    pub fn group(&self, chunk: &Chunk) -> &ProcessGroup {
        &self.groups[chunk.group.0 as usize]
    }

    /// Returns the processes in whose local storage the chunk is kept: none for shared storage.
    pub fn holders<'a>(&'a self, chunk: &'a Chunk) -> &'a [ProcessId] {
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

    /// Returns all chunks with their index, in the order of files and offsets, and their file.
    pub fn chunks(&self) -> impl Iterator<Item = (usize, &PlannedFile, &Chunk)> {
        let all = self.files.iter().flat_map(|file| file.chunks.iter().map(move |chunk| (file, chunk)));
        all.enumerate().map(|(number, (file, chunk))| (number, file, chunk))
    }

    /// Returns the plan if it is consistent, or else the first error.
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
