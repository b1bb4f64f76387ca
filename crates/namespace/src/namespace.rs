//! The name space as a whole: opening it, changing it, resolving paths.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path as DiskPath;

use pario_layout::Striping;
use pario_runtime::fs;
use pario_types::{ClientId, FileId, PartitionId, RequestId, Stamp};

use crate::ROOT;
use crate::change::{Change, Record};
use crate::disk::{Disk, DiskDirectory};
use crate::error::{Action, Error};
use crate::inodes::{Body, Entries, Inode, Times};
use crate::journal::Journal;
use crate::opens::Opens;
use crate::path::Path;
use crate::requests::Outcome;
use crate::state::State;
use pario_metadata::{Attributes, FileSize, InodeKind, LayoutRequest};

/// The settings of a name space.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceConfig {
    /// The partition; files of another partition are refused.
    pub partition: PartitionId,
    /// The number of servers for new files.
    pub servers: u16,
    /// Bytes of a stripe, unless the layout request says otherwise.
    pub stripe: u64,
    /// The number of servers of a file, unless the layout request says otherwise; 0: all.
    pub count: u16,
    /// A snapshot replaces the journal when the journal has more bytes than this, and more than twice the last snapshot.
    pub journal: u64,
    /// Whether the partition has been up before: then a missing name space is lost, not new.
    pub made: bool,
    /// The largest id of a stored file; 0 if there is none. A name space that does not know it is older than the data.
    pub highest_file: FileId,
}

impl NamespaceConfig {
    /// Creates settings with a journal of up to 64 MiB, and files over all servers.
    pub fn new(partition: PartitionId, servers: u16, stripe: u64) -> NamespaceConfig {
        let (made, highest_file) = (false, FileId(0));
        NamespaceConfig { partition, servers, stripe, count: 0, journal: 64 << 20, made, highest_file }
    }

    /// The striping of files whose layout request says nothing.
    fn striping(&self) -> Result<Striping, Error> {
        let NamespaceConfig { stripe, servers, count, .. } = *self;
        let count = if count == 0 { servers } else { count.min(servers) };
        Striping::new(stripe, count, 0, servers).map_err(|_| Error::BadStriping { stripe, first: 0, servers })
    }

    /// Whether there must be a name space already.
    pub(crate) fn is_used(&self) -> bool {
        self.made || self.highest_file != FileId(0)
    }
}

/// The result of recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Records of snapshot and journal.
    pub records: u64,
    /// Bytes of snapshot and journal.
    pub bytes: u64,
    /// Bytes at the end of the journal that were no records and were cut off: the previous server was killed while it
    /// wrote, or the host lost power. No sync had acknowledged any of them.
    pub torn: u64,
    /// Whether these bytes were saved beside the journal, as `torn.GENERATION.OFFSET`.
    pub is_torn_kept: bool,
    /// Whether the name space was closed in order.
    pub closed: bool,
    /// Whether clients may have files open: the previous server did not end in order, or it ended while they had.
    pub may_have_opens: bool,
    /// Whether this is a new name space.
    pub fresh: bool,
}

/// The origin and the time of a request. The same client and request id again mean that the client has sent the request
/// again.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The client.
    pub client: ClientId,
    /// The id of the request; 0: it is never sent again.
    pub request: RequestId,
    /// The time now.
    pub now: Stamp,
}

/// The size of a name space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceCounts {
    /// Files with a name.
    pub files: u64,
    /// Directories, including the root.
    pub directories: u64,
    /// Files without a name that are not yet removed.
    pub orphans: u64,
    /// Files that a client has open.
    pub open_files: u64,
    /// Bytes of journal and snapshot.
    pub bytes: u64,
}

/// A partition's name space.
pub struct Namespace {
    pub(crate) config: NamespaceConfig,
    pub(crate) striping: Striping,
    pub(crate) state: State,
    pub(crate) opens: Opens,
    /// Orphans that no client has open.
    pub(crate) ready: BTreeSet<FileId>,
    /// Truncations that are being resolved.
    pub(crate) resolving: HashSet<FileId>,
    /// The last abort of each client for a file: a begin with a lower request id arrives too late.
    pub(crate) aborted: HashMap<(ClientId, FileId), RequestId>,
    /// Files that a client created by a request whose answer it did not get. It is going to repeat the request.
    pub(crate) repeated: HashMap<ClientId, FileId>,
    /// Orphans that are being removed.
    pub(crate) taken: HashSet<FileId>,
    /// Clients of the previous server may still report their open files.
    pub(crate) grace: bool,
    pub(crate) journal: Journal,
    trouble: Option<Error>,
}

/// A resolved path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    pub path: Path<'p>,
    pub parent: FileId,
    /// The last name; "" for the root.
    pub name: &'p str,
    pub found: Option<FileId>,
}

/// Permission bits of the owner.
pub(crate) const READ: u16 = 0o400;
pub(crate) const WRITE: u16 = 0o200;
pub(crate) const SEARCH: u16 = 0o100;

impl Namespace {
    /// Opens the name space in this directory, which is created if it is missing. Only one process can open it at a time.
    pub fn open(
        dir: &DiskPath,
        config: NamespaceConfig,
        now: Stamp,
    ) -> Result<(Namespace, RecoveryReport), Error> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| Error::io(Action::Create, dir, &error))?;
        // Its name survives a loss of power, even if a predecessor was killed right after it created the directory.
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            let synced = fs::File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(|error| Error::io(Action::Sync, parent, &error))?;
        }
        let directory = DiskDirectory::open(dir).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Error::InUse { dir: dir.into() },
            _ => Error::io(Action::Lock, dir, &error),
        })?;
        Namespace::open_on(Box::new(directory), config, now)
    }

    /// Opens the name space on any disk.
    pub fn open_on(
        disk: Box<dyn Disk>,
        config: NamespaceConfig,
        now: Stamp,
    ) -> Result<(Namespace, RecoveryReport), Error> {
        let striping = config.striping()?;
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
            repeated: HashMap::new(),
            grace: recovered.may_have_opens,
            journal,
            trouble: None,
        };
        if !namespace.grace {
            namespace.end_grace_period();
        }
        Ok((namespace, recovered))
    }

    /// Makes all acknowledged changes survive a loss of power.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.journal.sync(&self.state)
    }

    /// Syncs before the end: after it nothing may be changed any more. The next start waits for clients only if some may have files open.
    pub fn shut_down(&mut self) -> Result<(), Error> {
        // Clients that have not connected again since the last start may have files open, too.
        let has_opens = self.grace || self.opens.files() > 0;
        self.journal.close(&self.state, has_opens)
    }

    /// Writes a snapshot now and starts an empty journal.
    pub fn snapshot(&mut self) -> Result<(), Error> {
        self.renew();
        self.trouble.clone().map_or(Ok(()), Err)
    }

    /// The reason why the last snapshot could not be written. The journal grows until one succeeds.
    pub fn snapshot_error(&self) -> Option<&Error> {
        self.trouble.as_ref()
    }

    /// Returns the size of the name space.
    pub fn counts(&self) -> NamespaceCounts {
        let State { inodes, orphans, directories, .. } = &self.state;
        let orphans = orphans.len() as u64;
        NamespaceCounts {
            files: inodes.len() - directories - orphans,
            directories: *directories,
            orphans,
            open_files: self.opens.files(),
            bytes: self.journal.bytes(),
        }
    }

    /// Writes a change to the journal, and applies it.
    pub(crate) fn commit(&mut self, by: Caller, change: Change<'_>) -> Result<(), Error> {
        self.commit_part(by, change)?;
        if self.journal.is_long() {
            self.renew();
        }
        Ok(())
    }

    /// The same for one of several records of a change: no snapshot is written in between.
    pub(crate) fn commit_part(&mut self, by: Caller, change: Change<'_>) -> Result<(), Error> {
        let Caller { client, request, now } = by;
        let record = Record { now, client, request, change };
        self.journal.take_numbers(&self.state)?;
        let is_skipped = pario_runtime::is_planted("rename-without-journal")
            && matches!(record.change, Change::Rename { .. })
            || pario_runtime::is_planted("opens-without-journal")
                && matches!(record.change, Change::Writing { .. });
        if !is_skipped && !pario_runtime::is_planted("journal-skips-record") {
            self.journal.append(&record)?;
        }
        self.state.apply(&record).expect("a change fits the state it was planned on");
        Ok(())
    }

    fn renew(&mut self) {
        self.state.tables.drop_unused();
        self.trouble = self.journal.renew(&self.state).err();
    }

    /// The same for a change that no client requested.
    pub(crate) fn commit_own(&mut self, now: Stamp, change: Change<'_>) -> Result<(), Error> {
        self.commit(Caller { client: ClientId(0), request: RequestId(0), now }, change)
    }

    /// Returns the outcome of this request, if it was done before.
    pub(crate) fn done(&self, by: Caller) -> Option<Outcome> {
        let found = self.state.requests.find(by.client, by.request);
        found.filter(|_| !pario_runtime::is_planted("request-done-twice"))
    }

    /// Resolves a path.
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

    /// Returns a directory's entries, to look up a name.
    pub(crate) fn enter(&self, directory: FileId, path: &str) -> Result<&Entries, Error> {
        let inode = self.inode(directory)?;
        let entries = inode.entries().ok_or_else(|| Error::NotADirectory { path: path.into() })?;
        self.permit(inode, SEARCH, path)?;
        Ok(entries)
    }

    pub(crate) fn inode(&self, file: FileId) -> Result<&Inode, Error> {
        self.state.inodes.get(file).ok_or(Error::Gone { file })
    }

    /// Checks that the owner has this permission.
    pub(crate) fn permit(&self, inode: &Inode, bit: u16, path: &str) -> Result<(), Error> {
        let needs = match bit {
            READ => "read",
            WRITE => "write",
            _ => "search",
        };
        if inode.mode & bit != 0 { Ok(()) } else { Err(Error::Denied { path: path.into(), needs }) }
    }

    /// Checks that the directory of this path may be changed.
    pub(crate) fn permit_change(&self, place: Place<'_>) -> Result<(), Error> {
        self.permit(self.inode(place.parent)?, WRITE, place.path.parent())
    }

    /// Places new files on so many servers. Files that exist keep their layout.
    pub fn set_servers(&mut self, servers: u16) -> Result<(), Error> {
        let config = NamespaceConfig { servers, ..self.config };
        self.striping = config.striping()?;
        self.config = config;
        Ok(())
    }

    /// Returns the striping of the next file.
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
