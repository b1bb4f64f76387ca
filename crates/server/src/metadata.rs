//! The name space of the metadata server, behind its messages.
//!
//! The [reaper](crate::background::reaper) removes the parts of removed files, and resolves truncations whose clients are gone or have
//! aborted them.

use std::collections::HashMap;
use std::time::Duration;

use pario_layout::PlacementMapId;
use pario_namespace as ns;
use pario_namespace::{Caller, Namespace, NamespaceCounts};
use pario_runtime::sync::{Condvar, Mutex};
use pario_runtime::time::Instant;
use pario_shm::ProcessIdentity;
use pario_types::{ClientId, FileId, RequestId, Stamp, TruncationId};
use pario_wire::{Reply, Request};

use crate::config::Config;
use crate::counters::log;
use crate::error::{Error, Result};

/// After a start, clients of the previous server have this long to report which files they have open.
const REOPEN_GRACE: Duration = Duration::from_secs(30);

/// How often the server checks whether a process that has lost its connection still exists.
const PROCESS_CHECK: Duration = Duration::from_millis(50);

/// The largest number of entries in a reply: with the longest names they stay below the limit of a message.
const MAX_ENTRIES: u32 = 2000;

pub(crate) struct MetadataService {
    pub(crate) inner: Mutex<Inner>,
    /// Wakes the reaper: there may be work, or the server ends.
    pub(crate) changed: Condvar,
}

pub(crate) struct Inner {
    pub space: Namespace,
    /// The number of sessions of each client.
    sessions: HashMap<ClientId, u32>,
    /// Clients without a connection that may connect again.
    disconnected: HashMap<ClientId, DisconnectedClient>,
    reopen_until: Option<Instant>,
    pub stopped: bool,
}

impl MetadataService {
    /// Opens the name space. `stored` is the largest number of a file of which this server ever stored something.
    pub fn open(config: &Config, stored: FileId) -> Result<MetadataService> {
        let settings = ns::NamespaceConfig {
            made: config.made,
            highest_file: stored,
            ..ns::NamespaceConfig::new(config.partition, config.servers, config.stripe)
        };
        let directory = config.directory.join("names");
        let (space, recovered) = Namespace::open(&directory, settings, Stamp::now())?;
        if recovered.torn > 0 {
            let kept = if recovered.is_torn_kept {
                "kept there as torn.*"
            } else {
                "there was no room to keep them"
            };
            let (bytes, place) = (recovered.torn, directory.display());
            log(&format!("cut {bytes} bytes off the journal in {place} that were never synced ({kept})"));
        }
        let inner = Inner {
            space,
            sessions: HashMap::new(),
            disconnected: HashMap::new(),
            reopen_until: recovered.may_have_opens.then(|| Instant::now() + REOPEN_GRACE),
            stopped: false,
        };
        Ok(MetadataService { inner: Mutex::new(inner), changed: Condvar::new() })
    }

    /// Closes the name space after an orderly shutdown: the next start knows that everything is stored, and whether clients may have files open.
    pub fn close(&self) -> Result<()> {
        let mut inner = self.inner.lock();
        inner.stopped = true;
        let closed = inner.space.shut_down();
        drop(inner);
        pario_runtime::check_invariants();
        Ok(closed?)
    }

    /// Stores the names although the data could not be stored. The failure may have dropped records of the journal from the medium: a sync then
    /// fails, and the next one writes all names anew.
    pub fn save_names(&self) -> Result<()> {
        let mut inner = self.inner.lock();
        inner.stopped = true;
        Ok(inner.space.sync().or_else(|_| inner.space.sync())?)
    }

    pub fn sync(&self) -> Result<()> {
        let synced = self.inner.lock().space.sync();
        pario_runtime::check_invariants();
        Ok(synced?)
    }

    /// Why the last snapshot could not be written, if so.
    pub fn snapshot_error(&self) -> Option<String> {
        self.inner.lock().space.snapshot_error().map(|e| format!("the name space's snapshot: {e}"))
    }

    /// New files are placed on so many servers from now on.
    pub fn set_servers(&self, servers: u16) -> Result<()> {
        Ok(self.inner.lock().space.set_servers(servers)?)
    }

    pub fn counts(&self) -> NamespaceCounts {
        self.inner.lock().space.counts()
    }

    pub fn stop(&self) {
        self.inner.lock().stopped = true;
        self.changed.notify_all();
    }

    pub fn client_connected(&self, client: ClientId) {
        let mut inner = self.inner.lock();
        inner.disconnected.remove(&client);
        *inner.sessions.entry(client).or_default() += 1;
    }

    /// One of a client's connections has ended. After the last one its files are closed: at once if its process is certainly gone,
    /// otherwise when the client does not connect again within the lease.
    pub fn client_disconnected(&self, client: ClientId, process: Option<ProcessIdentity>, lease: Duration) {
        let mut inner = self.inner.lock();
        let Some(count) = inner.sessions.get_mut(&client) else { return };
        *count -= 1;
        if *count == 0 {
            inner.sessions.remove(&client);
            let now = Instant::now();
            let disconnected = DisconnectedClient { until: now + lease, process };
            if disconnected.is_over(now) {
                inner.space.client_gone(client);
            } else {
                inner.disconnected.insert(client, disconnected);
            }
            self.changed.notify_all();
        }
    }

    /// Executes a request about names.
    pub fn apply(&self, client: ClientId, id: RequestId, request: &Request) -> Result<Reply> {
        let mut inner = self.inner.lock();
        let by = Caller { client, request: id, now: Stamp::now() };
        let reply = match apply_to_path(&mut inner.space, by, request)? {
            Some(reply) => reply,
            None => apply_to_file(&mut inner.space, by, request)?,
        };
        if matches!(request, Request::Unlink { .. } | Request::Rename { .. } | Request::Close { .. }) {
            self.changed.notify_all();
        }
        Ok(reply)
    }

    /// Abandons a client's truncation; whether no server applies it any more. If not, the reaper resolves it.
    pub fn abort_truncate(
        &self,
        client: ClientId,
        id: RequestId,
        file: FileId,
        truncation: TruncationId,
    ) -> Result<bool> {
        let by = Caller { client, request: id, now: Stamp::now() };
        let is_over = self.inner.lock().space.abort_truncate(file, truncation, by)?;
        if !is_over {
            self.changed.notify_all();
        }
        Ok(is_over)
    }

    /// Stores a table by which files may be placed.
    pub fn put_table(&self, table: PlacementMapId, bytes: &[u8]) -> Result<()> {
        Ok(self.inner.lock().space.put_table(table, bytes, Stamp::now())?)
    }

    /// Copies a table into a buffer of its length.
    pub fn copy_table(&self, table: PlacementMapId, buffer: &mut [u8]) -> Result<()> {
        let inner = self.inner.lock();
        let bytes = inner.space.table(table)?;
        buffer.get_mut(..bytes.len()).ok_or(Error::BadRequest("length"))?.copy_from_slice(bytes);
        Ok(())
    }
}

/// Executes a request about names and attributes; `None` for any other request.
fn apply_to_path(space: &mut Namespace, by: Caller, request: &Request) -> Result<Option<Reply>> {
    Ok(Some(match request {
        Request::Lookup { path } => Reply::Attributes(space.lookup(path)?),
        Request::MakeDirectory { path, mode, parents } => {
            Reply::Attributes(space.make_directory(path, *mode, *parents, by)?)
        }
        Request::RemoveDirectory { path } => {
            space.remove_directory(path, by)?;
            Reply::Done
        }
        Request::Unlink { path } => {
            space.unlink(path, by)?;
            Reply::Done
        }
        Request::Rename { from, to, replace } => {
            space.rename(from, to, *replace, by)?;
            Reply::Done
        }
        Request::ReadDirectory { path, after, most } => {
            let (entries, more) = space.read_directory(path, after, (*most).min(MAX_ENTRIES))?;
            Reply::Entries { entries, more }
        }
        Request::SetAttributes { path, mode, accessed, modified } => {
            Reply::Attributes(space.set_attributes(path, *mode, *accessed, *modified, by)?)
        }
        _ => return Ok(None),
    }))
}

/// Executes a request about open files, their sizes, or all inodes.
fn apply_to_file(space: &mut Namespace, by: Caller, request: &Request) -> Result<Reply> {
    Ok(match request {
        Request::Open { path, access, create, mode, layout_request } => {
            match space.open_file(path, *access, *create, *mode, *layout_request, by) {
                Ok(opened) => Reply::Opened { attributes: opened.attributes, created: opened.created },
                Err(ns::Error::NoTable { .. }) => Reply::NoTable,
                Err(e) => return Err(e.into()),
            }
        }
        Request::Close { file, wrote } => {
            space.close(*file, *wrote, by)?;
            Reply::Done
        }
        Request::Reopen { files, repeated } => {
            let files: Vec<_> = files.iter().map(|open| (open.file, open.access)).collect();
            Reply::Reopened { gone: space.reopen(by.client, &files, RequestId(*repeated), by.now)? }
        }
        Request::BeginTruncate { file, size } => {
            Reply::Truncation { truncation: space.begin_truncate(*file, *size, by)? }
        }
        Request::EndTruncate { file, truncation } => {
            space.end_truncate(*file, *truncation, by)?;
            Reply::Done
        }
        Request::ReportSize { file, size, seen } => {
            space.report_size(*file, *size, *seen, by.now)?;
            Reply::Done
        }
        Request::ListInodes { after, most } => {
            let (inodes, more) = space.list_inodes(*after, (*most).min(MAX_ENTRIES));
            Reply::Inodes { inodes, more }
        }
        _ => return Err(Error::BadRequest("kind")),
    })
}

/// A client that may connect again.
#[derive(Clone, Copy)]
struct DisconnectedClient {
    until: Instant,
    /// Its process, if it runs on this host: the server notices its end before the time is over.
    process: Option<ProcessIdentity>,
}

impl DisconnectedClient {
    fn is_over(&self, now: Instant) -> bool {
        now >= self.until || self.process.is_some_and(|process| process.is_gone())
    }

    /// When to check again. A killed process closes its connections a moment before it is gone.
    fn next_check(&self, now: Instant) -> Instant {
        if self.process.is_some() { self.until.min(now + PROCESS_CHECK) } else { self.until }
    }
}

impl Inner {
    /// Closes the files of clients whose time is over; when to call this again.
    pub fn expire(&mut self, now: Instant) -> Option<Instant> {
        if self.reopen_until.is_some_and(|end| end <= now) {
            self.reopen_until = None;
            self.space.end_grace_period();
        }
        let over = |(client, one): (&ClientId, &DisconnectedClient)| one.is_over(now).then_some(*client);
        let gone: Vec<ClientId> = self.disconnected.iter().filter_map(over).collect();
        for client in gone {
            self.disconnected.remove(&client);
            self.space.client_gone(client);
        }
        self.disconnected.values().map(|one| one.next_check(now)).chain(self.reopen_until).min()
    }
}
