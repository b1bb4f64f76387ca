//! The name space as a whole: opening it, changing it, walking its paths.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path as DiskPath;

use pario_layout::Striping;
use pario_types::{ClientId, FileId, PartitionId, RequestId, Stamp};

use crate::ROOT;
use crate::change::{Change, Record};
use crate::disk::{Directory, Disk};
use crate::error::{Action, Error};
use crate::inodes::{Body, Entries, Inode, Times};
use crate::journal::Journal;
use crate::opens::Opens;
use crate::path::Path;
use crate::requests::Outcome;
use crate::state::State;
use pario_metadata::{Attributes, FileSize, InodeKind, LayoutRequest};

/// What a name space has to know of its partition.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Which partition; files of another are refused.
    pub partition: PartitionId,
    /// How many servers there are for new files.
    pub servers: u16,
    /// Bytes of a stripe, where nobody layout requests otherwise.
    pub stripe: u64,
    /// Over how many servers a file goes, where nobody layout requests otherwise; 0: all.
    pub count: u16,
    /// A journal gives way to a snapshot when it has more than this many bytes, and twice the last
    /// snapshot's.
    pub journal: u64,
    /// The partition has been up before: a name space that is not there is lost, not new.
    pub made: bool,
    /// The largest number of a file that has ever been stored; 0 if there is none. A name space that does not know of it is
    /// older than the data.
    pub highest_file: FileId,
}

impl Config {
    /// With a journal of up to 64 MiB, and files over all servers.
    pub fn new(partition: PartitionId, servers: u16, stripe: u64) -> Config {
        let (made, highest_file) = (false, FileId(0));
        Config { partition, servers, stripe, count: 0, journal: 64 << 20, made, highest_file }
    }

    /// Whether there has to be a name space.
    pub(crate) fn is_used(&self) -> bool {
        self.made || self.highest_file != FileId(0)
    }
}

/// What was found on opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Records of snapshot and journal.
    pub records: u64,
    /// Bytes of snapshot and journal.
    pub bytes: u64,
    /// Bytes at the journal's end that were no records, and were cut off: the server before was killed while it wrote, or
    /// the host lost power. None of them had been answered by a sync.
    pub torn: u64,
    /// They were kept beside the journal, as `torn.GENERATION.OFFSET`.
    pub is_torn_kept: bool,
    /// The name space was closed in order: no client has anything open.
    pub closed: bool,
    /// There was nothing: this is a new name space.
    pub fresh: bool,
}

/// Whose request, and when. The same client and request again means: the same request, sent again.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Who asks.
    pub client: ClientId,
    /// Its number; 0: never sent again.
    pub request: RequestId,
    /// The time now.
    pub now: Stamp,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files with a name.
    pub files: u64,
    /// Directories, with the root.
    pub directories: u64,
    /// Files without a name that are not yet gone.
    pub orphans: u64,
    /// Files that somebody has open.
    pub open_files: u64,
    /// Bytes of journal and snapshot.
    pub bytes: u64,
}

/// A partition's name space.
pub struct Namespace {
    pub(crate) config: Config,
    pub(crate) striping: Striping,
    pub(crate) state: State,
    pub(crate) opens: Opens,
    /// Orphans that nobody has open.
    pub(crate) ready: BTreeSet<FileId>,
    /// Truncations that are being resolved.
    pub(crate) resolving: HashSet<FileId>,
    /// The last abort of each client for a file: a begin with a lower number comes too late.
    pub(crate) aborted: HashMap<(ClientId, FileId), RequestId>,
    /// Orphans that are being removed.
    pub(crate) taken: HashSet<FileId>,
    /// Clients of the server before may still come and say what they have open.
    pub(crate) grace: bool,
    journal: Journal,
    trouble: Option<Error>,
}

/// Where a path leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    pub path: Path<'p>,
    pub parent: FileId,
    /// The last name; "" of the root.
    pub name: &'p str,
    pub found: Option<FileId>,
}

/// Permission bits of the owner.
pub(crate) const READ: u16 = 0o400;
pub(crate) const WRITE: u16 = 0o200;
pub(crate) const SEARCH: u16 = 0o100;

impl Namespace {
    /// Opens the name space in this directory, which is made if it is missing; one process at a time.
    pub fn open(dir: &DiskPath, config: Config, now: Stamp) -> Result<(Namespace, Recovered), Error> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| Error::io(Action::Create, dir, &error))?;
        let directory = Directory::open(dir).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Error::InUse { dir: dir.into() },
            _ => Error::io(Action::Lock, dir, &error),
        })?;
        Namespace::open_on(Box::new(directory), config, now)
    }

    /// Opens the name space on any disk.
    pub fn open_on(disk: Box<dyn Disk>, config: Config, now: Stamp) -> Result<(Namespace, Recovered), Error> {
        let Config { stripe, servers, count, .. } = config;
        let count = if count == 0 { servers } else { count.min(servers) };
        let striping = Striping::new(stripe, count, 0, servers);
        let striping = striping.map_err(|_| Error::BadStriping { stripe, first: 0, servers })?;
        let (journal, state, recovered) = Journal::open(disk, &config, now)?;
        let mut namespace = Namespace {
            config,
            striping,
            state,
            opens: Opens::default(),
            ready: BTreeSet::new(),
            taken: HashSet::new(),
            resolving: HashSet::new(),
            aborted: HashMap::new(),
            grace: !recovered.fresh && !recovered.closed,
            journal,
            trouble: None,
        };
        if !namespace.grace {
            namespace.grace_over();
        }
        Ok((namespace, recovered))
    }

    /// What was answered survives a loss of power, too.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.journal.sync(&self.state)
    }

    /// The same before the end: after it nothing may be changed any more. The next start owes nobody anything.
    pub fn shut_down(&mut self) -> Result<(), Error> {
        self.journal.close(&self.state)
    }

    /// Writes a snapshot now; the journal starts anew.
    pub fn snapshot(&mut self) -> Result<(), Error> {
        self.renew();
        self.trouble.clone().map_or(Ok(()), Err)
    }

    /// Why the last snapshot could not be written. The journal goes on growing meanwhile.
    pub fn trouble(&self) -> Option<&Error> {
        self.trouble.as_ref()
    }

    /// How much there is.
    pub fn counts(&self) -> Counts {
        let State { inodes, orphans, directories, .. } = &self.state;
        let orphans = orphans.len() as u64;
        Counts {
            files: inodes.len() - directories - orphans,
            directories: *directories,
            orphans,
            open_files: self.opens.files(),
            bytes: self.journal.bytes(),
        }
    }

    /// Writes the change down, and makes it.
    pub(crate) fn commit(&mut self, by: Caller, change: Change<'_>) -> Result<(), Error> {
        self.commit_part(by, change)?;
        if self.journal.is_long() {
            self.renew();
        }
        Ok(())
    }

    /// The same for a change that is more than one record: no snapshot takes the journal's place in between.
    pub(crate) fn commit_part(&mut self, by: Caller, change: Change<'_>) -> Result<(), Error> {
        let Caller { client, request, now } = by;
        let record = Record { now, client, request, change };
        self.journal.take_numbers(&self.state)?;
        self.journal.append(&record)?;
        self.state.apply(&record).expect("a change fits the state it was planned on");
        Ok(())
    }

    fn renew(&mut self) {
        self.state.tables.drop_unused();
        self.trouble = self.journal.renew(&self.state).err();
    }

    /// The same for what is nobody's request.
    pub(crate) fn commit_own(&mut self, now: Stamp, change: Change<'_>) -> Result<(), Error> {
        self.commit(Caller { client: ClientId(0), request: RequestId(0), now }, change)
    }

    /// How this request ended, if it was done before.
    pub(crate) fn done(&self, by: Caller) -> Option<Outcome> {
        self.state.requests.find(by.client, by.request)
    }

    /// Follows a path.
    pub(crate) fn walk<'p>(&self, path: &'p str) -> Result<Place<'p>, Error> {
        let path = Path::new(path)?;
        let mut place = Place { path, parent: ROOT, name: "", found: Some(ROOT) };
        let mut walked = "/";
        for (name, upto) in path.names() {
            let Some(parent) = place.found else { return Err(Error::NotFound { path: walked.into() }) };
            let entries = self.enter(parent, walked)?;
            place = Place { path, parent, name, found: entries.get(name).copied() };
            walked = upto;
        }
        Ok(place)
    }

    /// A directory's entries, to be looked up by name.
    pub(crate) fn enter(&self, directory: FileId, path: &str) -> Result<&Entries, Error> {
        let inode = self.inode(directory)?;
        let entries = inode.entries().ok_or_else(|| Error::NotADirectory { path: path.into() })?;
        self.permit(inode, SEARCH, path)?;
        Ok(entries)
    }

    pub(crate) fn inode(&self, file: FileId) -> Result<&Inode, Error> {
        self.state.inodes.get(file).ok_or(Error::Gone { file })
    }

    /// Makes sure that the owner may do this.
    pub(crate) fn permit(&self, inode: &Inode, bit: u16, path: &str) -> Result<(), Error> {
        let needs = match bit {
            READ => "read",
            WRITE => "write",
            _ => "search",
        };
        if inode.mode & bit != 0 { Ok(()) } else { Err(Error::Denied { path: path.into(), needs }) }
    }

    /// Makes sure that the directory of this place may be changed.
    pub(crate) fn permit_change(&self, place: Place<'_>) -> Result<(), Error> {
        self.permit(self.inode(place.parent)?, WRITE, place.path.parent())
    }

    /// How the next file is striped.
    pub(crate) fn striping_for(
        &self,
        file: FileId,
        layout_request: LayoutRequest,
    ) -> Result<Striping, Error> {
        let servers = self.config.servers;
        let stripe = if layout_request.stripe == 0 { self.config.stripe } else { layout_request.stripe };
        let count =
            if layout_request.count == 0 { self.striping.count() } else { layout_request.count.min(servers) };
        let first = layout_request.first.unwrap_or((file.0 % u64::from(servers)) as u16);
        Striping::new(stripe, count, first, servers).map_err(|_| Error::BadStriping {
            stripe,
            first,
            servers,
        })
    }

    /// Attributes of a file or directory.
    pub(crate) fn attributes_of(&self, file: FileId, inode: &Inode) -> Attributes {
        let (kind, size, striping, entries) = match &inode.body {
            Body::File { striping, size } => (InodeKind::File, *size, *striping, 0),
            Body::Directory(entries) => {
                (InodeKind::Directory, FileSize::Known(0), self.striping, entries.len() as u64)
            }
        };
        let Times { accessed, modified, changed, created } = inode.times;
        Attributes {
            file,
            kind,
            mode: u32::from(inode.mode),
            size,
            accessed,
            modified,
            changed,
            created,
            striping,
            table: self.state.tables.of(file),
            truncating: None,
            opens: self.opens.of(file),
            entries,
        }
    }
}
