//! An open file: the state that all its handles share.
//!
//! For each of its servers it records whether something was written there since the last sync, and how often the server had
//! lost its cache before. So a sync after such a loss reports it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use pario_layout::{Layout, PlacementMap};
use pario_runtime::sync::{Mutex, OnceLock};
use pario_runtime::time::{Instant, SystemTime};
use pario_transport::is_forked;
use pario_types::{ErrorKind, FileId, MAX_NETWORK_BUFFER, ServerId, Stamp};
use pario_wire::message::{self, Attributes, CloseReport, FileSize, OpenAccess};
use pario_wire::{Reply, Request};

use crate::client_core::{ClientCore, unexpected};
use crate::connection::server_connection::ServerConnection;
use crate::error::{Error, Result};
use crate::metadata::attributes::time;
use crate::metadata::truncate::PAUSE;
use crate::metadata::unsynced::{UnsyncedWrites, WriteRecord};
use crate::replicas::verified::VerifiedReplicas;

/// The time for which a file that is dropped without a close may wait for the metadata server.
const DROPPED: Duration = Duration::from_secs(1);

/// The number of times that the metadata server may forget a table before the file is created.
const TABLE_TRIES: u32 = 8;

/// Blocks of a server that are requested in advance.
const AHEAD: u16 = 16;

/// The largest number of blocks of a server that a growing file requests beyond those that it uses now.
const MOST_AHEAD: u16 = 64;

pub(crate) struct OpenFile {
    pub core: Arc<ClientCore>,
    pub file: FileId,
    pub layout: Layout,
    access: OpenAccess,
    unsynced: UnsyncedWrites,
    /// The time of the last write through this client; 0: never.
    modified: AtomicI64,
    /// The end of the last access.
    next: AtomicU64,
    /// The number of blocks that writes through views have requested from servers.
    asked: AtomicU32,
    /// The place of the holder with which accesses begin.
    start: AtomicU16,
    /// The most bytes of data in one message; 0: as the partition's description has it.
    network_buffer: AtomicU64,
    /// The place of the server that is read first where several have the bytes, plus 1; 0 if there is none.
    pub home: AtomicU32,
    /// For each set of servers the places in the order in which they are read.
    pub preferences: OnceLock<Box<[Box<[u16]>]>>,
    /// Which of its replicas may be read.
    pub verified: VerifiedReplicas,
    /// Its size when it was opened, if that was known.
    size: Option<u64>,
    /// Ranges that servers have prefetched for it.
    pub ready: Mutex<Vec<Range<u64>>>,
    is_closed: bool,
}

/// A write that has begun.
pub(crate) struct WriteMark {
    place: u16,
    losses: u64,
}

impl OpenFile {
    /// Opens the file. Returns whether the open created it; a new file is placed by the table. The open waits while a
    /// truncation of the file is not yet resolved.
    pub fn ask(
        core: &Arc<ClientCore>,
        request: &Request,
        access: OpenAccess,
        table: Option<&PlacementMap>,
    ) -> Result<(OpenFile, bool)> {
        let deadline = Instant::now() + core.options.deadline;
        let (mut opened, mut tries) = (None, 0);
        while opened.is_none() && tries < TABLE_TRIES {
            if let Some(table) = table {
                core.put_table(table)?;
            }
            let attempt = core.call_about_opens(request, |reply| match reply? {
                Reply::Opened { attributes, created } => {
                    core.opened(attributes.file, access);
                    Ok(Some((attributes, created)))
                }
                Reply::NoTable if table.is_some() => Ok(None),
                reply => Err(unexpected(core.metadata, request, &reply)),
            });
            match attempt {
                Ok(found) => {
                    opened = found;
                    tries += 1;
                }
                Err(error) if error.kind() == ErrorKind::FileInUse && Instant::now() < deadline => {
                    pario_runtime::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        let Some((attributes, created)) = opened else {
            return Err(unexpected(core.metadata, request, &Reply::NoTable));
        };
        let open = OpenFile::new(core, &attributes, access, created);
        let (name, (file, servers)) = (&core.name, (open.file, attributes.striping.servers()));
        if !core.know_servers(servers)? {
            let why =
                format!("file {file} is striped over {servers} servers, which partition {name} has not");
            return Err(Error::Target(why));
        }
        let open = open.with_layout(core.layout(attributes.striping, attributes.table)?);
        match created {
            true => {
                open.arrange();
                open.verify_new();
            }
            false => open.repair_divergent(),
        }
        Ok((open, created))
    }

    /// Sends holders the order in which their bytes are first used, where it differs from the order of the part. It is
    /// advice: a holder that does not answer at once stores its part in the usual order.
    pub fn arrange(&self) {
        for (server, ranges) in self.layout.orders() {
            let range =
                |range: Range<u64>| message::ByteRange { at: range.start, len: range.end - range.start };
            let ranges = ranges.into_iter().map(range).collect();
            let _ = self.core.call_at_once(server, &Request::Arrange { file: self.file, ranges });
        }
    }

    fn new(core: &Arc<ClientCore>, attributes: &Attributes, access: OpenAccess, created: bool) -> OpenFile {
        let file = attributes.file;
        let size = match attributes.size {
            FileSize::Known(size) => Some(size),
            FileSize::Ask { .. } => created.then_some(0),
        };
        OpenFile {
            core: Arc::clone(core),
            file,
            layout: attributes.striping.into(),
            access,
            unsynced: UnsyncedWrites::default(),
            modified: AtomicI64::new(0),
            next: AtomicU64::new(0),
            asked: AtomicU32::new(0),
            start: AtomicU16::new(0),
            network_buffer: AtomicU64::new(0),
            home: AtomicU32::new(0),
            preferences: OnceLock::new(),
            verified: VerifiedReplicas::default(),
            size,
            ready: Mutex::default(),
            is_closed: false,
        }
    }

    fn with_layout(mut self, layout: Layout) -> OpenFile {
        self.unsynced = UnsyncedWrites::new(layout.count());
        self.verified = VerifiedReplicas::new(layout.count());
        self.layout = layout;
        self
    }

    /// Returns the same file through another client, to move bytes while it is open.
    pub fn alias(core: &Arc<ClientCore>, of: &OpenFile) -> OpenFile {
        OpenFile {
            core: Arc::clone(core),
            file: of.file,
            layout: of.layout.clone(),
            access: OpenAccess::Both,
            unsynced: UnsyncedWrites::new(of.layout.count()),
            modified: AtomicI64::new(0),
            next: AtomicU64::new(0),
            asked: AtomicU32::new(0),
            home: AtomicU32::new(0),
            preferences: OnceLock::new(),
            verified: VerifiedReplicas::new(of.layout.count()),
            size: None,
            ready: Mutex::default(),
            start: AtomicU16::new(of.start.load(Ordering::Relaxed)),
            network_buffer: AtomicU64::new(of.network_buffer.load(Ordering::Relaxed)),
            // This client never opened it.
            is_closed: true,
        }
    }

    #[inline]
    pub fn reads(&self) -> Result<()> {
        if is_forked() {
            return Err(Error::Forked);
        }
        if self.access == OpenAccess::Write { Err(Error::NotOpenFor("reading")) } else { Ok(()) }
    }

    /// Called before every write: fails if the file is not open for writing, or if a truncation that failed may still
    /// destroy the write.
    #[inline]
    pub fn writes(&self) -> Result<()> {
        if is_forked() {
            return Err(Error::Forked);
        }
        if self.access == OpenAccess::Read {
            return Err(Error::NotOpenFor("writing"));
        }
        self.core.settle_truncation(self.file)
    }

    /// The server at a place among the file's holders.
    #[inline]
    pub fn server_connection(&self, place: u16) -> &ServerConnection {
        self.core.connections.get(self.layout.server(place))
    }

    /// Returns for each holder whether its pool is not mapped; `None` if all are. Connects to holders that have not been
    /// used yet.
    pub fn remote(&self) -> Result<Option<Vec<bool>>> {
        let places = 0..self.layout.count();
        for server_connection in places
            .clone()
            .map(|place| self.server_connection(place))
            .filter(|server_connection| !server_connection.was_reached())
        {
            let since = Instant::now();
            let deadline = since + self.core.options.deadline;
            self.core.acquire(server_connection.server, deadline)?.connect(since, deadline)?;
        }
        let is_remote = |place| self.server_connection(place).pool().is_none();
        Ok(places.clone().any(is_remote).then(|| places.map(is_remote).collect()))
    }

    /// The server with which accesses begin.
    pub fn starting_server(&self) -> ServerId {
        self.server_connection(self.start.load(Ordering::Relaxed)).server
    }

    /// Sets the server that is read first where several have the bytes; it takes effect if no access came before.
    pub fn set_home(&self, server: ServerId) {
        let place = self.layout.place(server).map_or(0, |place| u32::from(place) + 1);
        self.home.store(place, Ordering::Relaxed);
    }

    pub fn set_start(&self, number: u32) {
        let place = number % u32::from(self.layout.count());
        self.start.store(place as u16, Ordering::Relaxed);
    }

    /// Limits the data of one message.
    pub fn set_network_buffer(&self, bytes: u64) {
        self.network_buffer.store(bytes.clamp(1, MAX_NETWORK_BUFFER), Ordering::Relaxed);
    }

    /// The most bytes of data in one message.
    pub fn network_buffer(&self) -> usize {
        let bytes = match self.network_buffer.load(Ordering::Relaxed) {
            0 => self.core.network_buffer(),
            bytes => bytes,
        };
        bytes.clamp(1, MAX_NETWORK_BUFFER) as usize
    }

    /// Before a write to a server.
    pub fn will_write(&self, server: ServerId) -> WriteMark {
        self.begin_write(self.layout.place(server).expect("a holder"))
    }

    #[inline]
    pub fn begin_write(&self, place: u16) -> WriteMark {
        let mark = WriteMark { place, losses: self.server_connection(place).losses() };
        self.note(&mark);
        mark
    }

    /// Called after a write, whether it worked or not: a sync may have come in between.
    #[inline]
    pub fn has_written(&self, mark: WriteMark) {
        self.note(&mark);
    }

    /// Records the time of a write, however many servers it went to.
    #[inline]
    pub fn touch(&self) {
        self.modified.store(Stamp::now().0, Ordering::Relaxed);
    }

    /// The time of the last write.
    pub fn modified(&self) -> Option<SystemTime> {
        let modified = self.modified.load(Ordering::Relaxed);
        (modified != 0).then(|| time(Stamp(modified)))
    }

    /// Records the end of an access.
    #[inline]
    pub fn at(&self, offset: u64) {
        self.next.store(offset, Ordering::Relaxed);
    }

    /// Returns the number of blocks of each server to request beyond those of an access that begins here: some if the
    /// access is sequential.
    pub fn ahead(&self, offset: u64) -> u16 {
        if offset > 0 && self.next.load(Ordering::Relaxed) == offset { AHEAD } else { 0 }
    }

    /// The same for a write through a view that requests so many blocks of a server: a file usually continues to grow as
    /// before, but a small file does not get many blocks that it never uses.
    pub fn ahead_of_growth(&self, blocks: usize) -> u16 {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let before = self.asked.fetch_add(blocks, Ordering::Relaxed);
        before.min(MOST_AHEAD.into()) as u16
    }

    #[inline]
    fn note(&self, mark: &WriteMark) {
        self.unsynced.note(mark.place, WriteRecord::at(mark.losses));
    }

    /// The size.
    pub fn ask_size(&self) -> Result<u64> {
        if let Some(size) = self.size.filter(|_| pario_runtime::is_planted("size-from-open")) {
            return Ok(size);
        }
        if self.layout.has_replicas()
            && self.access == OpenAccess::Read
            && let Some(size) = self.settled_size()?
        {
            return Ok(size);
        }
        self.ask_holders()
    }

    /// The size, computed from all holders.
    pub fn ask_holders(&self) -> Result<u64> {
        ask_size(&self.core, self.file, &self.layout)
    }

    /// The size of a file that no client writes, if the metadata server knows it: then a holder that is down does not
    /// matter if others have all of its bytes.
    fn settled_size(&self) -> Result<Option<u64>> {
        let request = Request::ListInodes { after: FileId(self.file.0 - 1), most: 1 };
        match self.core.call_metadata(&request)? {
            Reply::Inodes { inodes, .. } => {
                let mine = inodes.first().map(|inode| &inode.attributes).filter(|a| a.file == self.file);
                Ok(mine.and_then(|attributes| match attributes.size {
                    FileSize::Known(size) => Some(size),
                    FileSize::Ask { .. } => None,
                }))
            }
            reply => Err(unexpected(self.core.metadata, &request, &reply)),
        }
    }

    /// Makes servers write their caches to storage: all of them to the medium if `durable`, else those that were written to
    /// through this client.
    pub fn sync(&self, durable: bool) -> Result<()> {
        if durable { self.sync_equal() } else { self.sync_once(false) }
    }

    /// The same, once.
    pub fn sync_once(&self, durable: bool) -> Result<()> {
        self.core.settle_truncation(self.file)?;
        let _in_progress = self.unsynced.begin_sync();
        let (mut requests, mut before) = (Vec::new(), Vec::new());
        self.take_over_abandoned();
        for (server, place) in self.layout.holders().zip(0..) {
            let written = self.unsynced.take(place);
            if written.is_set() || durable {
                requests.push((server, Request::Sync { file: self.file, durable }));
                before.push((server, place, written));
            }
        }
        let names = self.core.metadata;
        if durable && self.layout.place(names).is_none() {
            // The server's journal contains the creation of the file.
            requests.push((names, Request::Sync { file: self.file, durable }));
        }
        let outcome = self.core.call_all(&requests);
        if outcome.is_err() {
            before.iter().for_each(|(_, place, written)| self.unsynced.add(*place, *written));
        }
        outcome?;
        self.core.check_not_gone(self.file)?;
        let losses = |server: ServerId| self.core.connections.get(server).losses();
        match before.iter().find(|(server, _, written)| written.is_lost(losses(*server))) {
            Some((_, _, WriteRecord::LOST)) => Err(Error::DroppedWritesLost { file: self.file }),
            Some((server, ..)) => Err(Error::CacheLost { server: *server, file: self.file }),
            None => Ok(()),
        }
    }

    /// Writes of handles that were dropped without a close count as writes of this one.
    fn take_over_abandoned(&self) {
        for (server, record) in self.core.abandoned.take(self.file) {
            if let Some(place) = self.layout.place(server) {
                self.unsynced.add(place, record);
            }
        }
    }

    /// Bytes that were written through this handle are lost: the next sync or close of the file by this process fails.
    pub fn report_loss(&self) {
        if self.layout.count() > 0 {
            self.unsynced.add(0, WriteRecord::LOST);
        }
    }

    /// Reports the end of this open to the metadata server, after all written bytes are in storage.
    pub fn close(mut self) -> Result<()> {
        let synced = if pario_runtime::is_planted("close-without-flush") { Ok(()) } else { self.sync(false) };
        self.forget_all();
        let size = match self.modified.load(Ordering::Relaxed) {
            // A handle that wrote nothing reports the size at its open; other writers report their own.
            0 => self.size,
            _ if synced.is_ok() => self.ask_size().ok(),
            _ => None,
        };
        self.is_closed = true;
        // If the reply is lost, the next connection reports that the file is no longer open.
        let closed = self.core.call_about_opens(&self.close_request(size), |reply| {
            self.core.closed(self.file, self.access);
            reply
        });
        synced.and(closed.map(|_| ()))
    }

    fn close_request(&self, size: Option<u64>) -> Request {
        let written = || CloseReport { size, modified: Stamp(self.modified.load(Ordering::Relaxed)) };
        Request::Close { file: self.file, wrote: (self.access != OpenAccess::Read).then(written) }
    }
}

impl Drop for OpenFile {
    /// Does not wait for storage: the next sync or close of the file by this process covers the writes. If the metadata server
    /// does not answer at once, its connection is closed: the next one reports the open files.
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        let records =
            self.layout.holders().zip(0..).map(|(server, place)| (server, self.unsynced.take(place)));
        let records: Vec<_> = records.collect();
        if pario_runtime::is_planted("dropped-writes-forgotten") {
            self.core.abandoned.take(self.file);
        } else if !self.core.abandoned.add(self.file, records.iter().copied()) {
            records.iter().zip(0..).for_each(|((_, record), place)| self.unsynced.add(place, *record));
            // A drop cannot report an error.
            let _ = self.sync(false);
        }
        self.forget_all();
        let deadline = Instant::now() + DROPPED;
        let guard = self.core.acquire(self.core.metadata, deadline);
        self.core.closed(self.file, self.access);
        let Ok(mut guard) = guard else { return };
        if guard.is_connected() {
            let request = self.close_request(None);
            let sent = guard.send(self.core.next_request(), &request, &[], deadline);
            if sent.and_then(|()| guard.receive(&mut [], deadline)).is_err() {
                guard.disconnect();
            }
        }
    }
}

/// A file's size, computed from all holders.
pub(crate) fn ask_size(core: &ClientCore, file: FileId, layout: &Layout) -> Result<u64> {
    let requests: Vec<_> = layout.holders().map(|server| (server, Request::End { file })).collect();
    let mut size = 0;
    for ((server, request), reply) in requests.iter().zip(core.call_all(&requests)?) {
        let Reply::End { end } = reply else { return Err(unexpected(*server, request, &reply)) };
        size = size.max(layout.size_from(*server, end));
    }
    Ok(size)
}
