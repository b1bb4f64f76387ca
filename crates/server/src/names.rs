//! The name space behind its messages, and the reaper: a thread that has the stripes of removed files removed, and resolves
//! truncations whose clients are gone or have aborted them.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pario_layout::{Layout, PlacementMapId};
use pario_namespace as ns;
use pario_namespace::{Caller, Namespace, NamespaceCounts, UnfinishedTruncation};
use pario_shm::ProcessIdentity;
use pario_types::{ClientId, FileId, RequestId, ServerId, Stamp, TruncationId};
use pario_wire::{Reply, Request};

use crate::apply::Task;
use crate::config::Config;
use crate::core::{Core, lock};
use crate::error::{Error, Result};
use crate::peers::Links;
use crate::status::log;

/// After a start clients of the server before have this long to say what they have open.
const GRACE: Duration = Duration::from_secs(30);

/// How often it is looked whether a process is gone that has lost its connection.
const LOOK: Duration = Duration::from_millis(50);

/// Files that the reaper takes at a time.
const HANDFUL: usize = 64;

/// Entries in an answer: with the longest names they stay below what a message may have.
const PAGE: u32 = 2000;

/// How long the reaper leaves a server alone that was not to be reached.
const PAUSE: Duration = Duration::from_secs(2);

pub(crate) struct Names {
    inner: Mutex<Inner>,
    /// For the reaper: there may be something to do, or it is over.
    more: Condvar,
}

struct Inner {
    space: Namespace,
    /// How many sessions each client has.
    sessions: HashMap<ClientId, u32>,
    /// Clients without a connection that may come again, and until when.
    leaving: HashMap<ClientId, Leaving>,
    grace: Option<Instant>,
    stopped: bool,
}

/// What the reaper has to do: truncations to resolve, and removed files whose parts are to be removed.
type Work = (Vec<UnfinishedTruncation>, Vec<(FileId, Layout)>);

impl Names {
    /// Opens the name space. `stored`: the largest number of a file that this server ever stored something of.
    pub fn open(config: &Config, stored: FileId) -> Result<Names> {
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
        let is_owed = !recovered.fresh && !recovered.closed;
        let grace = is_owed.then(|| Instant::now() + GRACE);
        let inner = Inner { space, sessions: HashMap::new(), leaving: HashMap::new(), grace, stopped: false };
        Ok(Names { inner: Mutex::new(inner), more: Condvar::new() })
    }

    /// At the very end, in order: the next start knows that everything is there, and that nobody has anything open.
    pub fn close(&self) -> Result<()> {
        let mut inner = lock(&self.inner);
        inner.stopped = true;
        Ok(inner.space.shut_down()?)
    }

    pub fn sync(&self) -> Result<()> {
        Ok(lock(&self.inner).space.sync()?)
    }

    /// Why the last snapshot could not be written, if it could not.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.inner).space.snapshot_error().map(|e| format!("the name space's snapshot: {e}"))
    }

    pub fn counts(&self) -> NamespaceCounts {
        lock(&self.inner).space.counts()
    }

    pub fn stop(&self) {
        lock(&self.inner).stopped = true;
        self.more.notify_all();
    }

    /// A client has connected.
    pub fn arrived(&self, client: ClientId) {
        let mut inner = lock(&self.inner);
        inner.leaving.remove(&client);
        *inner.sessions.entry(client).or_default() += 1;
    }

    /// One of a client's connections has ended. After the last one its files are closed: at once if it is surely gone,
    /// else when it does not come again for so long.
    pub fn left(&self, client: ClientId, process: Option<ProcessIdentity>, lease: Duration) {
        let mut inner = lock(&self.inner);
        let Some(count) = inner.sessions.get_mut(&client) else { return };
        *count -= 1;
        if *count == 0 {
            inner.sessions.remove(&client);
            let leaving = Leaving { until: Instant::now() + lease, process };
            match leaving.is_over(Instant::now()) {
                true => inner.space.client_gone(client),
                false => {
                    inner.leaving.insert(client, leaving);
                }
            }
            self.more.notify_all();
        }
    }

    /// Does what a request about names asks for.
    pub fn apply(&self, client: ClientId, id: RequestId, request: &Request) -> Result<Reply> {
        let mut inner = lock(&self.inner);
        let by = Caller { client, request: id, now: Stamp::now() };
        let space = &mut inner.space;
        let reply = match request {
            Request::Lookup { path } => Reply::Attributes(space.lookup(path)?),
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
            Request::Reopen { files } => {
                let files: Vec<_> = files.iter().map(|held| (held.file, held.access)).collect();
                Reply::Reopened { gone: space.reopen(client, &files, by.now)? }
            }
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
                let (entries, more) = space.read_directory(path, after, (*most).min(PAGE))?;
                Reply::Entries { entries, more }
            }
            Request::SetAttributes { path, mode, accessed, modified } => {
                Reply::Attributes(space.set_attributes(path, *mode, *accessed, *modified, by)?)
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
                let (inodes, more) = space.list_inodes(*after, (*most).min(PAGE));
                Reply::Inodes { inodes, more }
            }
            _ => return Err(Error::BadRequest("kind")),
        };
        if matches!(request, Request::Unlink { .. } | Request::Rename { .. } | Request::Close { .. }) {
            self.more.notify_all();
        }
        Ok(reply)
    }

    /// A client gives a truncation up; whether it is over. If not, the reaper is at it.
    pub fn abort_truncate(
        &self,
        client: ClientId,
        id: RequestId,
        file: FileId,
        truncation: TruncationId,
    ) -> Result<bool> {
        let by = Caller { client, request: id, now: Stamp::now() };
        let is_over = lock(&self.inner).space.abort_truncate(file, truncation, by)?;
        if !is_over {
            self.more.notify_all();
        }
        Ok(is_over)
    }

    /// Takes a table by which files may be placed.
    pub fn put_table(&self, table: PlacementMapId, bytes: &[u8]) -> Result<()> {
        Ok(lock(&self.inner).space.put_table(table, bytes, Stamp::now())?)
    }

    /// Copies a table out; there is room for as many bytes as it has.
    pub fn copy_table(&self, table: PlacementMapId, room: &mut [u8]) -> Result<()> {
        let inner = lock(&self.inner);
        let bytes = inner.space.table(table)?;
        room.get_mut(..bytes.len()).ok_or(Error::BadRequest("length"))?.copy_from_slice(bytes);
        Ok(())
    }

    /// The reaper's life.
    pub fn reap(&self, core: &Core) {
        let mut links = Links::default();
        while let Some((unfinished, orphans)) = self.next_work() {
            core.config.panic_if_told("reaper");
            let mut trouble = None;
            for unfinished in unfinished {
                if let Err(e) = self.resolve(core, &mut links, &unfinished) {
                    lock(&self.inner).space.retry_truncation(unfinished.file);
                    trouble = Some(format!("resolving the truncation of file {}: {e}", unfinished.file));
                }
            }
            for (file, layout) in orphans {
                match remove_parts(core, &mut links, file, &layout).and_then(|()| self.reaped(file)) {
                    Ok(()) => {}
                    Err(e) => {
                        lock(&self.inner).space.retry_orphan(file);
                        trouble = Some(format!("removing the stripes of removed files: {e}"));
                    }
                }
            }
            if let Some(trouble) = trouble {
                core.counters.remember(trouble);
                self.pause();
            }
        }
    }

    /// Completes or fences a truncation on all servers of its file.
    fn resolve(&self, core: &Core, links: &mut Links, unfinished: &UnfinishedTruncation) -> Result<()> {
        let UnfinishedTruncation { file, truncation, ref layout, complete } = *unfinished;
        for server in layout.holders() {
            let request = match complete {
                Some(size) => Request::Truncate { file, end: layout.local_end(server, size), truncation },
                None => Request::Fence { file, truncation },
            };
            ask(core, links, server, request)?;
        }
        Ok(self.working()?.space.truncation_resolved(file, truncation, Stamp::now())?)
    }

    /// Truncations to resolve, and removed files that nobody uses; waits for some. `None` when it is over.
    fn next_work(&self) -> Option<Work> {
        let mut inner = lock(&self.inner);
        loop {
            if inner.stopped {
                return None;
            }
            let due = inner.expire(Instant::now());
            let work = (inner.space.take_truncations(), inner.space.take_orphans(HANDFUL));
            if !work.0.is_empty() || !work.1.is_empty() {
                return Some(work);
            }
            inner = match due {
                Some(due) => {
                    let left = due.saturating_duration_since(Instant::now());
                    let waited = self.more.wait_timeout(inner, left);
                    waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
                }
                None => self.more.wait(inner).unwrap_or_else(|poisoned| poisoned.into_inner()),
            };
        }
    }

    fn reaped(&self, file: FileId) -> Result<()> {
        Ok(self.working()?.space.reaped(file, Stamp::now())?)
    }

    /// For the reaper, which may be late: after the end nothing is written any more.
    fn working(&self) -> Result<MutexGuard<'_, Inner>> {
        let inner = lock(&self.inner);
        if inner.stopped { Err(Error::Ending) } else { Ok(inner) }
    }

    /// Waits a while, but not beyond the end.
    fn pause(&self) {
        let inner = lock(&self.inner);
        // Woken early or not, the reaper looks again.
        drop(self.more.wait_timeout_while(inner, PAUSE, |inner| !inner.stopped));
    }
}

/// A client that may come again.
#[derive(Clone, Copy)]
struct Leaving {
    until: Instant,
    /// Its process, if it is one of this host: then it may be seen to be gone before.
    process: Option<ProcessIdentity>,
}

impl Leaving {
    fn is_over(&self, now: Instant) -> bool {
        now >= self.until || self.process.is_some_and(|process| process.is_gone())
    }

    /// A killed process closes its connections a moment before it is gone.
    fn next_look(&self, now: Instant) -> Instant {
        if self.process.is_some() { self.until.min(now + LOOK) } else { self.until }
    }
}

impl Inner {
    /// Does what is due by now; when there is more to do.
    fn expire(&mut self, now: Instant) -> Option<Instant> {
        if self.grace.is_some_and(|end| end <= now) {
            self.grace = None;
            self.space.end_grace_period();
        }
        let over = |(client, leaving): (&ClientId, &Leaving)| leaving.is_over(now).then_some(*client);
        let gone: Vec<ClientId> = self.leaving.iter().filter_map(over).collect();
        for client in gone {
            self.leaving.remove(&client);
            self.space.client_gone(client);
        }
        self.leaving.values().map(|leaving| leaving.next_look(now)).chain(self.grace).min()
    }
}

fn remove_parts(core: &Core, links: &mut Links, file: FileId, layout: &Layout) -> Result<()> {
    for server in layout.holders() {
        ask(core, links, server, Request::RemoveParts { files: vec![file] })?;
    }
    Ok(())
}

/// Has any server of the partition, also this one, carry out a request about its part of a file.
fn ask(core: &Core, links: &mut Links, server: ServerId, request: Request) -> Result<()> {
    match server == core.config.server {
        true => Task::new(request).run_here(core, core.config.deadline),
        false => core.peers.ask(links, server, &request).map(|_| ()),
    }
}
