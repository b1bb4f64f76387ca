//! The name space behind its messages, and the reaper, which has the stripes of removed files removed.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use pario_layout::Striping;
use pario_namespace as ns;
use pario_namespace::{Caller, Counts, Namespace};
use pario_units::{ClientId, FileId, RequestId, ServerId, Stamp};
use pario_wire::message::{self, Reply, Request};

use crate::config::Config;
use crate::core::{Core, lock};
use crate::error::{Error, Result};
use crate::peers::Links;

/// After a start clients of the server before have this long to say what they have open.
const GRACE: Duration = Duration::from_secs(30);

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
    grace: Option<Instant>,
    stopped: bool,
}

impl Names {
    pub fn open(config: &Config) -> Result<Names> {
        let settings = ns::Config::new(config.partition, config.servers, config.stripe);
        let directory = config.directory.join("names");
        let (space, recovered) = Namespace::open(&directory, settings, Stamp::now())?;
        let grace = (!recovered.fresh).then(|| Instant::now() + GRACE);
        let mut inner = Inner { space, sessions: HashMap::new(), grace, stopped: false };
        if grace.is_none() {
            inner.space.grace_over();
        }
        Ok(Names { inner: Mutex::new(inner), more: Condvar::new() })
    }

    pub fn sync(&self) -> Result<()> {
        Ok(lock(&self.inner).space.sync()?)
    }

    pub fn counts(&self) -> Counts {
        lock(&self.inner).space.counts()
    }

    pub fn stop(&self) {
        lock(&self.inner).stopped = true;
        self.more.notify_all();
    }

    /// A client has connected.
    pub fn arrived(&self, client: ClientId) {
        *lock(&self.inner).sessions.entry(client).or_default() += 1;
    }

    /// One of a client's connections has ended; with the last one its files are closed.
    pub fn left(&self, client: ClientId) {
        let mut inner = lock(&self.inner);
        let Some(count) = inner.sessions.get_mut(&client) else { return };
        *count -= 1;
        if *count == 0 {
            inner.sessions.remove(&client);
            inner.space.client_gone(client);
            self.more.notify_all();
        }
    }

    /// Does what a request about names asks for.
    pub fn apply(&self, client: ClientId, id: RequestId, request: &Request) -> Result<Reply> {
        let mut inner = lock(&self.inner);
        let by = Caller { client, request: id, now: Stamp::now() };
        let space = &mut inner.space;
        let reply = match request {
            Request::Lookup { path } => Reply::Attributes(attributes(&space.lookup(path)?)),
            Request::Open { path, access: wanted, create: how, mode, wish } => {
                let opened = space.open_file(path, access(*wanted), create(*how), *mode, wished(wish), by)?;
                Reply::Opened { attributes: attributes(&opened.attributes), created: opened.created }
            }
            Request::Close { file, wrote } => {
                let wrote = wrote.map(|wrote| ns::Written { size: wrote.size, modified: wrote.modified });
                space.close(*file, wrote, by)?;
                Reply::Done
            }
            Request::Reopen { files } => {
                let files: Vec<_> = files.iter().map(|held| (held.file, access(held.access))).collect();
                Reply::Reopened { gone: space.reopen(client, &files, by.now)? }
            }
            Request::MakeDirectory { path, mode, parents } => {
                Reply::Attributes(attributes(&space.make_directory(path, *mode, *parents, by)?))
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
                let entries = entries
                    .into_iter()
                    .map(|e| message::Entry { name: e.name, attributes: attributes(&e.attributes) });
                Reply::Entries { entries: entries.collect(), more }
            }
            Request::SetAttributes { path, mode, accessed, modified } => {
                Reply::Attributes(attributes(&space.set_attributes(path, *mode, *accessed, *modified, by)?))
            }
            Request::BeginCut { file, size } => {
                space.begin_cut(*file, *size, by)?;
                Reply::Done
            }
            Request::EndCut { file, size } => {
                space.end_cut(*file, *size, by)?;
                Reply::Done
            }
            Request::Sized { file, size, seen } => {
                space.sized(*file, *size, *seen, by.now)?;
                Reply::Done
            }
            Request::ListInodes { after, most } => {
                let (inodes, more) = space.list_inodes(*after, (*most).min(PAGE));
                let inodes = inodes.into_iter().map(|inode| message::Inode {
                    parent: inode.parent,
                    name: inode.name,
                    attributes: attributes(&inode.attributes),
                });
                Reply::Inodes { inodes: inodes.collect(), more }
            }
            _ => return Err(Error::BadRequest("kind")),
        };
        if matches!(request, Request::Unlink { .. } | Request::Rename { .. } | Request::Close { .. }) {
            self.more.notify_all();
        }
        Ok(reply)
    }

    /// The reaper's life.
    pub fn reap(&self, core: &Core) {
        let mut links = Links::default();
        while let Some(orphans) = self.next_orphans() {
            let mut trouble = None;
            for (file, striping) in orphans {
                match remove_stripes(core, &mut links, file, &striping) {
                    Ok(()) => trouble = self.reaped(file).err().or(trouble),
                    Err(e) => {
                        lock(&self.inner).space.give_back(file);
                        trouble = Some(e);
                    }
                }
            }
            if let Some(trouble) = trouble {
                core.counters.remember(format!("removing the stripes of removed files: {trouble}"));
                self.pause();
            }
        }
    }

    /// Removed files that nobody uses; waits for some. `None` when it is over.
    fn next_orphans(&self) -> Option<Vec<(FileId, Striping)>> {
        let mut inner = lock(&self.inner);
        loop {
            if inner.stopped {
                return None;
            }
            let left = inner.grace.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                inner.grace = None;
                inner.space.grace_over();
            }
            let orphans = inner.space.take_orphans(HANDFUL);
            if !orphans.is_empty() {
                return Some(orphans);
            }
            inner = match inner.grace.is_some() {
                true => {
                    let waited = self.more.wait_timeout(inner, left.unwrap_or_default());
                    waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
                }
                false => self.more.wait(inner).unwrap_or_else(|poisoned| poisoned.into_inner()),
            };
        }
    }

    fn reaped(&self, file: FileId) -> Result<()> {
        Ok(lock(&self.inner).space.reaped(file, Stamp::now())?)
    }

    /// Waits a while, but not beyond the end.
    fn pause(&self) {
        let inner = lock(&self.inner);
        // Woken early or not, the reaper looks again.
        drop(self.more.wait_timeout_while(inner, PAUSE, |inner| !inner.stopped));
    }
}

fn remove_stripes(core: &Core, links: &mut Links, file: FileId, striping: &Striping) -> Result<()> {
    for server in striping.holders() {
        match server == core.config.server {
            true => remove_here(core, file)?,
            false => remove_there(core, links, server, file)?,
        }
    }
    Ok(())
}

fn remove_here(core: &Core, file: FileId) -> Result<()> {
    let mut cut = None;
    let begun = Instant::now();
    while !core.tier.remove(file, &mut cut)? {
        if begun.elapsed() > PAUSE {
            return Err(Error::Busy);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn remove_there(core: &Core, links: &mut Links, server: ServerId, file: FileId) -> Result<()> {
    core.peers.ask(links, server, &Request::Remove { files: vec![file] }).map(|_| ())
}

fn attributes(a: &ns::Attributes) -> message::Attributes {
    message::Attributes {
        file: a.file,
        kind: match a.kind {
            ns::Kind::File => message::Kind::File,
            ns::Kind::Directory => message::Kind::Directory,
        },
        mode: a.mode,
        size: match a.size {
            ns::Size::Known(size) => message::Size::Known(size),
            ns::Size::Ask { seen } => message::Size::Ask { seen },
        },
        accessed: a.accessed,
        modified: a.modified,
        changed: a.changed,
        created: a.created,
        striping: a.striping,
        cutting: a.cutting,
        opens: a.opens,
        entries: a.entries,
    }
}

fn access(wanted: message::Access) -> ns::Access {
    match wanted {
        message::Access::Read => ns::Access::Read,
        message::Access::Write => ns::Access::Write,
        message::Access::Both => ns::Access::Both,
    }
}

fn create(how: message::Create) -> ns::Create {
    match how {
        message::Create::Never => ns::Create::Never,
        message::Create::Missing => ns::Create::Missing,
        message::Create::Exclusive => ns::Create::Exclusive,
    }
}

fn wished(wish: &message::Wish) -> ns::Wish {
    ns::Wish { stripe: wish.stripe, count: wish.count, first: wish.first }
}
