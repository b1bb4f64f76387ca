//! The open files of each client, and the sizes that follow from them. They are not in the journal; clients report them to
//! a new server.
//!
//! From its first writer's open to its last writer's close a file is in a *writing period*, in which its size is not known
//! here. At the end it is known again if the period is *sure*:
//!
//! - the size was known when it began (so no truncation was under way);
//! - every writer reported a size when it closed, which it had asked all servers for since it opened, and after its own
//!   last write;
//! - each client that truncated the file meanwhile was its only writer.
//!
//! Then the largest size reported since the last truncation is right: without truncations a file only grows, so no writer
//! reported more than the final size, and the writer of the last byte reported no less.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use pario_types::{ClientId, FileId, RequestId, Stamp};

use crate::Error;
use crate::requests::PER_CLIENT;
use pario_metadata::{CloseReport, OpenAccess};

/// The number of opens that one client may have.
const MOST: usize = 1 << 18;

/// The sizes that writers of a period have reported so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportedSize {
    /// The largest reported size, if there is one.
    Sure(Option<u64>),
    Unsure,
}

#[derive(Clone, Copy, Debug)]
struct OpenFile {
    opens: u32,
    writers: u32,
    said: ReportedSize,
    /// A writer's time of modification is used only if it is later than this; `None`: than that of the file.
    floor: Option<Stamp>,
}

impl OpenFile {
    const NEW: OpenFile = OpenFile { opens: 0, writers: 0, said: ReportedSize::Unsure, floor: None };
}

/// The number of opens of a file by one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenCounts {
    pub reading: u32,
    pub writing: u32,
}

impl OpenCounts {
    pub fn add(&mut self, access: OpenAccess) {
        if access.writes() { self.writing += 1 } else { self.reading += 1 }
    }

    fn all(self) -> u32 {
        self.reading + self.writing
    }
}

/// An open or close that was done, in case the client repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recent {
    OpenedFile { file: FileId, created: bool },
    Closed { file: FileId },
}

#[derive(Clone, Debug, Default)]
struct Client {
    held: HashMap<FileId, OpenCounts>,
    opens: usize,
    /// The last opens and closes, and the highest request id among them.
    recent: VecDeque<(RequestId, Recent)>,
    highest: u64,
}

/// The effect of a close on the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    writing: bool,
    said: ReportedSize,
    /// Whether no client has it open for writing any more.
    pub last_writer: bool,
    /// The size that is certain now.
    pub size: Option<u64>,
    /// The new time of modification.
    pub modified: Option<Stamp>,
}

/// The difference after a client's opens were replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleasedFiles {
    /// Files that the client no longer has open.
    pub files: Vec<FileId>,
    /// Files whose last writer is gone.
    pub unwritten: Vec<FileId>,
}

/// All open files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opens {
    files: HashMap<FileId, OpenFile>,
    clients: HashMap<ClientId, Client>,
}

impl Opens {
    /// The number of opens of the file.
    pub fn of(&self, file: FileId) -> u32 {
        self.files.get(&file).map_or(0, |open| open.opens)
    }

    /// The number of opens for writing.
    pub fn writers(&self, file: FileId) -> u32 {
        self.files.get(&file).map_or(0, |open| open.writers)
    }

    /// Whether another client has the file open for writing.
    pub fn has_other_writers(&self, client: ClientId, file: FileId) -> bool {
        self.writers(file) > self.held(client, file).writing
    }

    /// The number of open files.
    pub fn files(&self) -> u64 {
        self.files.len() as u64
    }

    pub fn held(&self, client: ClientId, file: FileId) -> OpenCounts {
        self.clients.get(&client).and_then(|client| client.held.get(&file)).copied().unwrap_or_default()
    }

    /// Returns the same request, if it was done before and is still valid.
    pub fn recent(&self, client: ClientId, request: RequestId) -> Option<Recent> {
        let client = self.clients.get(&client).filter(|client| request.0 <= client.highest)?;
        client.recent.iter().rev().find(|(done, _)| *done == request).map(|(_, recent)| *recent)
    }

    pub fn remember(&mut self, client: ClientId, request: RequestId, done: Recent) {
        if request != RequestId(0) {
            let client = self.clients.entry(client).or_default();
            client.highest = client.highest.max(request.0);
            if client.recent.len() == PER_CLIENT {
                client.recent.pop_front();
            }
            client.recent.push_back((request, done));
        }
    }

    /// Checks that a client may open one more file.
    pub fn room(&self, client: ClientId) -> Result<(), Error> {
        Opens::check(self.clients.get(&client).map_or(0, |client| client.opens) + 1)
    }

    /// Checks that a client may have this many opens.
    pub fn check(opens: usize) -> Result<(), Error> {
        if opens > MOST { Err(Error::TooManyOpens { most: MOST }) } else { Ok(()) }
    }

    /// Opens a file for a client. `sure`, `modified`: whether the size was certain just before, and the time of
    /// modification then.
    pub fn open(
        &mut self,
        (client, file): (ClientId, FileId),
        access: OpenAccess,
        sure: bool,
        modified: Stamp,
        now: Stamp,
    ) {
        let open = self.files.entry(file).or_insert(OpenFile::NEW);
        open.opens += 1;
        if access.writes() {
            if open.writers == 0 {
                open.said = if sure { ReportedSize::Sure(None) } else { ReportedSize::Unsure };
                open.floor = Some(modified.min(now));
            }
            open.writers += 1;
        }
        let client = self.clients.entry(client).or_default();
        client.held.entry(file).or_default().add(access);
        client.opens += 1;
    }

    /// Returns the effect of a close on a file last modified then; `None` if the client does not have it open.
    pub fn plan_close(
        &self,
        client: ClientId,
        file: FileId,
        wrote: Option<CloseReport>,
        modified: Stamp,
    ) -> Option<Closing> {
        let held = self.held(client, file);
        let open = self.files.get(&file).filter(|_| held.all() > 0)?;
        let writing = held.writing > 0 && (wrote.is_some() || held.reading == 0);
        if !writing {
            return Some(Closing {
                writing,
                said: open.said,
                last_writer: false,
                size: None,
                modified: None,
            });
        }
        let size = wrote.and_then(|wrote| wrote.size).filter(|size| *size <= i64::MAX as u64);
        let said = match (open.said, size) {
            (ReportedSize::Sure(before), Some(size)) => {
                ReportedSize::Sure(Some(before.map_or(size, |b| b.max(size))))
            }
            _ => ReportedSize::Unsure,
        };
        let last_writer = open.writers == 1;
        let size = match said {
            ReportedSize::Sure(size) if last_writer => size,
            _ => None,
        };
        let floor = open.floor.unwrap_or(modified);
        let modified = wrote.map(|wrote| wrote.modified).filter(|modified| *modified > floor);
        Some(Closing { writing, said, last_writer, size, modified })
    }

    /// Closes as planned.
    pub fn close(&mut self, client: ClientId, file: FileId, plan: Closing) {
        let (Entry::Occupied(mut open), Some(client)) =
            (self.files.entry(file), self.clients.get_mut(&client))
        else {
            unreachable!("a planned close is of an open file");
        };
        let Entry::Occupied(mut held) = client.held.entry(file) else {
            unreachable!("a planned close is of a file that the client has open");
        };
        open.get_mut().opens -= 1;
        client.opens -= 1;
        if plan.writing {
            open.get_mut().writers -= 1;
            open.get_mut().said = plan.said;
            open.get_mut().floor = plan.modified.or(open.get().floor);
            held.get_mut().writing -= 1;
        } else {
            held.get_mut().reading -= 1;
        }
        if held.get().all() == 0 {
            held.remove();
        }
        if open.get().opens == 0 {
            open.remove();
        }
    }

    /// A client begins or ends to truncate a file: sizes reported before are out of date.
    pub fn truncated(&mut self, client: ClientId, file: FileId) {
        let alone = self.held(client, file).writing == self.writers(file);
        if let Some(open) = self.files.get_mut(&file) {
            open.said = if alone && open.said != ReportedSize::Unsure {
                ReportedSize::Sure(None)
            } else {
                ReportedSize::Unsure
            };
        }
    }

    /// The time of modification was set: earlier writes no longer change it.
    pub fn set_modified(&mut self, file: FileId, now: Stamp) {
        if let Some(open) = self.files.get_mut(&file) {
            open.floor = open.floor.max(Some(now));
        }
    }

    /// Replaces the opens of a client. Where its writing differs from before, the period is unsure. Its recent opens and
    /// closes are dropped: a repeated one is done again.
    pub fn replace(&mut self, client: ClientId, new: HashMap<FileId, OpenCounts>) -> ReleasedFiles {
        let mut left = ReleasedFiles::default();
        let old = self.clients.remove(&client).unwrap_or_default().held;
        for (file, before) in &old {
            if !new.contains_key(file) {
                self.adjust(*file, *before, OpenCounts::default(), &mut left);
                left.files.push(*file);
            }
        }
        for (file, after) in &new {
            self.adjust(*file, old.get(file).copied().unwrap_or_default(), *after, &mut left);
        }
        if !new.is_empty() {
            let opens = new.values().map(|held| held.all() as usize).sum();
            self.clients.insert(client, Client { held: new, opens, ..Client::default() });
        }
        left
    }

    /// Checks that the opens of clients and files agree, and that only files are open.
    pub fn check_counts(&self, is_file: impl Fn(FileId) -> bool) -> Result<(), String> {
        let held = |file: FileId| {
            let counts = self.clients.values().filter_map(|client| client.held.get(&file));
            counts.fold((0, 0), |sum, held| (sum.0 + held.all(), sum.1 + held.writing))
        };
        for (file, open) in &self.files {
            if !is_file(*file) {
                return Err(format!("{file:?} is open, but does not exist"));
            }
            if held(*file) != (open.opens, open.writers) || open.opens == 0 {
                return Err(format!("clients have {file:?} open {:?} times: {open:?}", held(*file)));
            }
        }
        let is_open = |file: &FileId| self.files.contains_key(file);
        match self.clients.values().flat_map(|client| client.held.keys()).find(|file| !is_open(file)) {
            None => Ok(()),
            Some(file) => Err(format!("a client has {file:?} open, which counts as closed")),
        }
    }

    fn adjust(&mut self, file: FileId, before: OpenCounts, after: OpenCounts, left: &mut ReleasedFiles) {
        let open = self.files.entry(file).or_insert(OpenFile::NEW);
        let written = open.writers > 0;
        open.opens = open.opens - before.all() + after.all();
        open.writers = open.writers - before.writing + after.writing;
        if before.writing != after.writing {
            open.said = ReportedSize::Unsure;
        }
        if written && open.writers == 0 {
            left.unwritten.push(file);
        }
        if open.opens == 0 {
            self.files.remove(&file);
        }
    }
}
