//! One server's share of an access: requests that are sent and not answered, chunks that are not sent yet, and the recovery
//! from a broken connection.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Duration;

use pario_runtime::time::Instant;
use pario_types::{FileId, ServerId};
use pario_wire::{Reply, Request};

use crate::client_core::{ClientCore, succeeded, unexpected};
use crate::connection::server_connection::ConnectionGuard;
use crate::error::Result;
use crate::io::mapped_io::MappedIo;
use crate::io::memory::Access;
use crate::io::plan::Chunk;
use crate::metadata::open_file::OpenFile;

/// Requests with data that may be unanswered, and ranges of each.
const WINDOW: usize = 4;
const RANGES: usize = 4096;

// Every network buffer fits a frame.
const _: () = assert!(pario_types::MAX_NETWORK_BUFFER <= pario_wire::MAX_PAYLOAD as u64);

/// The fraction of the time for which a server waits whose bytes have other replicas.
pub(crate) const REPLACEABLE_SHARE: u32 = 4;

/// The number of times in a row that a server may not know a view that was sent to it.
const TRIES: u32 = 1000;

pub(crate) struct ServerPipeline<'a> {
    core: &'a ClientCore,
    guard: ConnectionGuard<'a>,
    file: FileId,
    /// The most bytes of data in one message.
    network_buffer: usize,
    /// Accesses through the pool, before all messages.
    mapped: Option<MappedIo>,
    /// Chunks for messages, in the order of memory.
    rest: VecDeque<Chunk>,
    sent: VecDeque<PendingRequest>,
    /// Chunks that were read, but may lie beyond the end of the file.
    unconfirmed: Vec<Chunk>,
    /// The number of times in a row that the server did not know the view.
    unknown: u32,
    /// The time of the server's last reply.
    since: Instant,
    /// The time limit of a reply.
    patience: Duration,
    /// Whether other servers have replicas of the bytes, so that the access does not wait until this one is back.
    is_replaceable: bool,
    /// Whether it failed, so that other replicas are used.
    failed: bool,
}

/// A request without a reply.
struct PendingRequest {
    request: Request,
    content: RequestContent,
}

enum RequestContent {
    /// Groups of the mapped I/O.
    Groups(Vec<usize>),
    Chunks(Vec<Chunk>),
    /// A request to remember a view.
    View(Vec<u8>),
}

impl<'a> ServerPipeline<'a> {
    /// Acquires a server's connection. `is_replaceable`: other servers have replicas.
    pub fn acquire(open: &'a OpenFile, server: ServerId, is_replaceable: bool) -> Result<ServerPipeline<'a>> {
        let core: &ClientCore = &open.core;
        let since = Instant::now();
        let patience = core.options.deadline / if is_replaceable { REPLACEABLE_SHARE } else { 1 };
        let deadline = since + patience;
        let mut guard = core.acquire(server, deadline)?;
        match is_replaceable {
            true => guard.connect_at_once(since, deadline)?,
            false => guard.connect(since, deadline)?,
        }
        let (mapped, rest, sent, unconfirmed) = (None, VecDeque::new(), VecDeque::new(), Vec::new());
        let (unknown, failed) = (0, false);
        Ok(ServerPipeline {
            core,
            guard,
            file: open.file,
            network_buffer: open.network_buffer(),
            mapped,
            rest,
            sent,
            unconfirmed,
            unknown,
            since,
            patience,
            is_replaceable,
            failed,
        })
    }

    pub fn server(&self) -> ServerId {
        self.guard.server_connection.server
    }

    /// Moves the bytes that need no message.
    pub fn begin(&mut self, mut chunks: Vec<Chunk>, access: &mut Access<'_, '_>) {
        chunks.sort_unstable_by_key(|chunk| (chunk.segment, chunk.at));
        match &*self.guard.server_connection.pool() {
            Some(local) if access.memory.viewed().is_none() => {
                self.mapped = Some(MappedIo::start(local, self.file, &chunks, access))
            }
            _ => self.rest = chunks.into(),
        }
    }

    pub fn is_waiting(&self) -> bool {
        !self.sent.is_empty() && !self.failed
    }

    /// Whether the rest has to come from other replicas.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Sends one more request, if there is one and not too many are unanswered.
    pub fn send(&mut self, access: &mut Access<'_, '_>) -> Result<bool> {
        let Some(PendingRequest { request, content }) = self.next(access) else { return Ok(false) };
        let deadline = self.since + self.patience;
        let payload = match &content {
            RequestContent::Groups(_) => Vec::new(),
            RequestContent::Chunks(chunks) => access.memory.gather(chunks),
            RequestContent::View(bytes) => vec![IoSlice::new(bytes)],
        };
        let sent = self.guard.send(self.core.next_request(), &request, &payload, deadline);
        drop(payload);
        self.sent.push_back(PendingRequest { request, content });
        match sent {
            Ok(()) => {}
            Err(error) => self.recover(error, access)?,
        }
        Ok(true)
    }

    fn next(&mut self, access: &Access<'_, '_>) -> Option<PendingRequest> {
        if let Some(mapped) = &mut self.mapped {
            // Only one at a time: a lent block has to be filled before any other wait.
            if !self.sent.is_empty() {
                return None;
            }
            if let Some((request, content)) = mapped.next_request(access) {
                return Some(PendingRequest { request, content: RequestContent::Groups(content) });
            }
            let mut fallback = mapped.remaining(&[]);
            fallback.sort_unstable_by_key(|chunk| (chunk.segment, chunk.at));
            self.rest = fallback.into();
            self.mapped = None;
        }
        if self.rest.is_empty() || self.sent.len() >= WINDOW {
            return None;
        }
        if let Some(viewed) = access.memory.viewed()
            && self.guard.needs_view(viewed.hash())
        {
            let bytes = viewed.view_bytes();
            let request = Request::PutView { hash: viewed.hash(), len: bytes.len() as u64 };
            return Some(PendingRequest { request, content: RequestContent::View(bytes) });
        }
        let mut chunks = self.take_chunks();
        let what = loop {
            match access.memory.what(self.server(), &chunks) {
                Some(what) => break what,
                None => {
                    let back = chunks.split_off(chunks.len().div_ceil(2));
                    back.into_iter().rev().for_each(|chunk| self.rest.push_front(chunk));
                }
            }
        };
        let file = self.file;
        let request = match access.memory.is_read() {
            true => Request::Read { file, what },
            false => Request::Write { file, what },
        };
        Some(PendingRequest { request, content: RequestContent::Chunks(chunks) })
    }

    /// Chunks for one message.
    fn take_chunks(&mut self) -> Vec<Chunk> {
        let (mut chunks, mut room) = (Vec::new(), self.network_buffer);
        while room > 0
            && chunks.len() < RANGES
            && let Some(first) = self.rest.front_mut()
        {
            let chunk = first.take_front(first.len.min(room));
            if first.len == 0 {
                self.rest.pop_front();
            }
            room -= chunk.len;
            chunks.push(chunk);
        }
        chunks
    }

    /// Waits for the next reply.
    pub fn receive(&mut self, access: &mut Access<'_, '_>) -> Result<()> {
        let deadline = self.since + self.patience;
        let Some(first) = self.sent.front() else { return Ok(()) };
        // The memory of bytes beyond the end of the file is not changed.
        let mut aside = Vec::new();
        let (lent, beside) = (&mut *access, &mut aside);
        let received = self.guard.receive_into(
            move |reply| match (&first.content, reply) {
                (RequestContent::Chunks(chunks), Reply::Data { end }) => {
                    let beyond: Vec<bool> =
                        chunks.iter().map(|chunk| lent.may_be_beyond_end(chunk, *end)).collect();
                    lent.memory.scatter(chunks, &beyond, beside)
                }
                _ => Vec::new(),
            },
            deadline,
        );
        match received {
            Ok(reply) => {
                self.since = Instant::now();
                let first = self.sent.pop_front().expect("there was one");
                match (&first.content, &reply) {
                    (RequestContent::Chunks(chunks), Reply::Failed(_)) if self.is_replaceable => {
                        self.rest.extend(chunks);
                        self.give_up();
                        Ok(())
                    }
                    _ => self.answered(first, reply, access),
                }
            }
            Err(error) => self.recover(error, access),
        }
    }

    fn answered(&mut self, sent: PendingRequest, reply: Reply, access: &mut Access<'_, '_>) -> Result<()> {
        if let (RequestContent::Groups(content), Reply::Failed(_), true) =
            (&sent.content, &reply, access.memory.is_read())
        {
            // The pool may be full because nothing can be stored; messages can still read.
            self.mapped.as_mut().expect("only a mapped asks for slots").give_up(content);
            return Ok(());
        }
        let reply = succeeded(self.server(), reply)?;
        match (&sent.content, &reply) {
            (RequestContent::Groups(content), Reply::Slots(slots)) => {
                let pool = self.guard.server_connection.pool();
                let mapped = self.mapped.as_mut().expect("only a mapped asks for slots");
                if mapped.answered(pool.as_ref(), content, slots, access).is_some() {
                    return Ok(());
                }
            }
            (RequestContent::Chunks(chunks), Reply::Data { end }) => {
                self.unknown = 0;
                let beyond: Vec<bool> =
                    chunks.iter().map(|chunk| access.may_be_beyond_end(chunk, *end)).collect();
                access.memory.unpack_received(chunks, &beyond);
                self.unconfirmed
                    .extend(chunks.iter().zip(beyond).filter(|(_, beyond)| *beyond).map(|(chunk, _)| chunk));
                access.needs_size |= !self.unconfirmed.is_empty();
                return Ok(());
            }
            (RequestContent::Chunks(_), Reply::Done) if !access.memory.is_read() => {
                self.unknown = 0;
                return Ok(());
            }
            (RequestContent::View(_), Reply::Done) => return Ok(()),
            (RequestContent::Chunks(chunks), Reply::NoView) if self.unknown < TRIES => {
                self.unknown += 1;
                // Unless it is being sent again.
                if !self.sent.iter().any(|sent| matches!(sent.content, RequestContent::View(_))) {
                    self.guard.forget_views();
                }
                self.rest.extend(chunks);
                self.rest.make_contiguous().sort_unstable_by_key(|chunk| (chunk.segment, chunk.at));
                return Ok(());
            }
            _ => {}
        }
        Err(unexpected(self.server(), &sent.request, &reply))
    }

    /// Reconnects and restarts all unfinished requests. All requests here can be done twice.
    fn recover(&mut self, error: pario_transport::Error, access: &mut Access<'_, '_>) -> Result<()> {
        let chunks = self.take_remaining();
        if self.is_replaceable {
            self.guard.disconnect();
            if self.guard.connect_at_once(self.since, self.since + self.patience).is_err() {
                self.rest = chunks.into();
                self.give_up();
                return Ok(());
            }
        } else {
            self.guard.reconnect_after(error, self.since, self.since + self.patience)?;
        }
        self.begin(chunks, access);
        Ok(())
    }

    /// Leaves the rest to other replicas.
    fn give_up(&mut self) {
        self.guard.server_connection.mark_down();
        self.failed = true;
    }

    /// All unfinished chunks.
    pub fn take_remaining(&mut self) -> Vec<Chunk> {
        let mut chunks = std::mem::take(&mut self.unconfirmed);
        chunks.extend(self.rest.drain(..));
        let mut content = Vec::new();
        for sent in self.sent.drain(..) {
            match sent.content {
                RequestContent::Groups(groups) => content.extend(groups),
                RequestContent::Chunks(sent) => chunks.extend(sent),
                RequestContent::View(_) => {}
            }
        }
        if let Some(mapped) = self.mapped.take() {
            chunks.extend(mapped.remaining(&content));
        }
        chunks
    }
}
