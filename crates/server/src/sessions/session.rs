//! One connection: a state machine on a nonblocking socket.
//!
//! A session executes a request and sends its reply before it reads the next request. Further requests wait in the socket, which slows
//! down a client that sends too fast. So a session holds at most one request and one reply. Only a large write begins before all of its
//! payload has arrived. After each request other sessions run if all workers are busy. A request whose blocks are in use runs again a
//! moment later.

use std::io::ErrorKind::WouldBlock;
use std::os::fd::AsFd;
use std::time::Duration;

use pario_cache::LedgerId;
use pario_runtime::time::Instant;
use pario_shm::ProcessIdentity;
use pario_transport::{HandshakeStep, RecordReadError, RecordReader, RecordWriter, ServerHandshake, Stream};
use pario_types::{ClientId, ErrorKind, FileId};
use pario_wire::greeting::Role;
use pario_wire::{Envelope, FrameDecoder, Head, Reply, Request};

use super::outbox::Outbox;
use super::payload::Payload;
use super::session_error::SessionError;
use crate::background::shutdown::ShutdownRequest;
use crate::core::Core;
use crate::error::Error;
use crate::handlers::{RequestOrigin, Task, TaskStep};
use crate::sys;

/// A new connection has to complete the handshake within this time.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How soon a request whose blocks are in use runs again.
const RETRY: Duration = Duration::from_millis(1);

/// Bytes of a large write that are received at a time: enough for few calls, few enough for the processor's cache.
const CHUNK: usize = 128 << 10;

pub(crate) struct Session {
    pub stream: Stream,
    stage: Stage,
    /// Reads records, after the handshake.
    reader: Option<RecordReader>,
    decoder: FrameDecoder,
    payload: Payload,
    outbox: Outbox,
    client: Option<ClientIdentity>,
    /// Bytes of payload that were moved since [`Session::take_moved`].
    moved: u64,
    /// When the session runs next, if a timer is set.
    pub alarm: Option<Instant>,
    /// Files that the client opened at another server through this session.
    forwarded_opens: Vec<FileId>,
}

/// The client of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientIdentity {
    pub client: ClientId,
    pub role: Role,
    pub ledger: Option<LedgerId>,
    /// The process, if it runs on this host.
    pub process: Option<ProcessIdentity>,
}

/// What remains of a closed session.
pub(crate) struct EndedSession {
    /// `None` if the handshake was not complete, or if the session was closed before.
    pub client: Option<ClientIdentity>,
    /// Files to close at the metadata server.
    pub forwarded_opens: Vec<FileId>,
}

enum Stage {
    Handshake(Box<ServerHandshake>, Instant),
    ReadHead,
    ReadPayload(Envelope, Box<Request>),
    Execute {
        envelope: Envelope,
        task: Box<Task>,
        since: Instant,
    },
    /// The reply is queued, but part of the request's payload is unread.
    DiscardPayload,
    /// Another server executes the request; its reply arrives through [`Session::receive_reply`].
    Forwarded(Envelope),
    /// The server ends as soon as this reply is sent.
    ShuttingDown(ShutdownRequest),
    Ended,
}

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionWait {
    Readable,
    Writable,
    At(Instant),
    /// This time, or the end of the connection.
    AtOrHangUp(Instant),
    /// The reply of another server.
    Forwarded,
    Ended,
}

impl Session {
    pub fn new(stream: Stream, handshake: ServerHandshake, now: Instant) -> Session {
        Session {
            stream,
            stage: Stage::Handshake(Box::new(handshake), now + HANDSHAKE_TIMEOUT),
            reader: None,
            decoder: FrameDecoder::new(),
            payload: Payload::default(),
            outbox: Outbox::default(),
            client: None,
            moved: 0,
            alarm: None,
            forwarded_opens: Vec::new(),
        }
    }

    pub fn client(&self) -> Option<ClientIdentity> {
        self.client
    }

    /// Bytes of payload that the session has moved since the last call.
    pub fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved) + self.payload.take_received()
    }

    /// Ends the session, whatever is under way.
    pub fn close(&mut self) -> EndedSession {
        // A request under way releases what it holds now.
        self.stage = Stage::Ended;
        // The other side sees the end at once, and not when the last reference to the session is dropped.
        let _ = self.stream.shutdown();
        EndedSession {
            client: self.client.take(),
            forwarded_opens: std::mem::take(&mut self.forwarded_opens),
        }
    }

    /// Runs the session as far as possible; for one request at most, if others may be waiting.
    pub fn step(&mut self, core: &Core, number: u64) -> SessionWait {
        match self.advance(core, number) {
            // The socket does not report bytes that the reader has already taken from it.
            Ok(SessionWait::Readable) if self.reader.as_ref().is_some_and(RecordReader::has_more) => {
                SessionWait::At(Instant::now())
            }
            Ok(wait) => wait,
            Err(error) => {
                if error.is_notable() {
                    core.counters.refused.add(1);
                    core.counters.record_error(error.to_string());
                }
                self.stage = Stage::Ended;
                SessionWait::Ended
            }
        }
    }

    fn advance(&mut self, core: &Core, number: u64) -> Result<SessionWait, SessionError> {
        let mut has_executed = false;
        loop {
            if !self.outbox.send(&self.stream)? {
                return Ok(SessionWait::Writable);
            }
            let wait = match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Handshake(handshake, due) => self.greet(core, number, handshake, due)?,
                Stage::ReadHead => {
                    self.stage = Stage::ReadHead;
                    let yields = has_executed && core.event_loop.is_busy();
                    if yields { Some(SessionWait::Readable) } else { self.read_head(core)? }
                }
                Stage::ReadPayload(envelope, request) => {
                    if self.receive_payload()? {
                        self.begin(core, number, envelope, *request)?;
                        has_executed = true;
                        None
                    } else {
                        self.stage = Stage::ReadPayload(envelope, request);
                        Some(SessionWait::Readable)
                    }
                }
                Stage::DiscardPayload => self.discard_payload()?,
                Stage::Execute { envelope, task, since } => {
                    has_executed = true;
                    self.execute(core, number, envelope, task, since)?
                }
                Stage::Forwarded(envelope) => {
                    self.stage = Stage::Forwarded(envelope);
                    Some(SessionWait::Forwarded)
                }
                Stage::ShuttingDown(request) => {
                    drop(request);
                    self.stage = Stage::ReadHead;
                    None
                }
                Stage::Ended => Some(SessionWait::Ended),
            };
            if let Some(wait) = wait {
                return Ok(wait);
            }
        }
    }

    /// Continues the handshake. A client that cannot prove that it knows the partition's secret is refused.
    fn greet(
        &mut self,
        core: &Core,
        number: u64,
        mut handshake: Box<ServerHandshake>,
        due: Instant,
    ) -> Result<Option<SessionWait>, SessionError> {
        let mut bytes = [0; 512];
        let received = match self.stream.read(&mut bytes) {
            Ok(0) => return Err(SessionError::Disconnected),
            Ok(count) => &bytes[..count],
            Err(e) if e.kind() == WouldBlock && Instant::now() >= due => {
                return Err(SessionError::HandshakeTimeout);
            }
            Err(e) if e.kind() == WouldBlock => {
                self.stage = Stage::Handshake(handshake, due);
                return Ok(Some(SessionWait::Readable));
            }
            Err(_) => return Err(SessionError::Disconnected),
        };
        match handshake.feed(received) {
            HandshakeStep::More => self.stage = Stage::Handshake(handshake, due),
            HandshakeStep::Send(answer) => {
                self.send_greeting(&answer)?;
                self.stage = Stage::Handshake(handshake, due);
            }
            HandshakeStep::Accepted(accepted) => {
                let (client, welcome, pool) = core.admit(number, accepted.hello(), &self.stream);
                self.client = Some(client);
                self.send_greeting(&accepted.welcome(welcome))?;
                if let Some(pool) = pool {
                    self.stream.send_descriptor(pool).map_err(|_| SessionError::Disconnected)?;
                }
                let (sealer, opener) = accepted.ends();
                self.reader = Some(RecordReader::new(opener));
                self.outbox.writer = Some(RecordWriter::new(sealer));
                self.stage = Stage::ReadHead;
            }
            HandshakeStep::Refused { farewell, error } => {
                // The other side may have closed the connection already.
                let _ = self.send_greeting(&farewell);
                return Err(SessionError::Refused(error));
            }
        }
        Ok(None)
    }

    /// Sends a message of the handshake. These are so short that they fit into the buffer of a socket that has hardly been used.
    fn send_greeting(&self, greeting: &[u8]) -> Result<(), SessionError> {
        match self.stream.write(greeting) {
            Ok(count) if count == greeting.len() => Ok(()),
            _ => Err(SessionError::Disconnected),
        }
    }

    /// Whether a chunk of the payload has arrived, or all of the rest.
    fn receive_payload(&mut self) -> Result<bool, SessionError> {
        let Some(reader) = &mut self.reader else { return Err(SessionError::Disconnected) };
        Ok(self.payload.receive(reader, &self.stream)?)
    }

    fn discard_payload(&mut self) -> Result<Option<SessionWait>, SessionError> {
        let Some(reader) = &mut self.reader else { return Err(SessionError::Disconnected) };
        if !self.payload.discard(reader, &self.stream)? {
            self.stage = Stage::DiscardPayload;
            return Ok(Some(SessionWait::Readable));
        }
        self.payload.clear();
        self.stage = Stage::ReadHead;
        Ok(None)
    }

    /// Reads the head and body of the next request.
    fn read_head(&mut self, core: &Core) -> Result<Option<SessionWait>, SessionError> {
        let Some(reader) = &mut self.reader else { return Err(SessionError::Disconnected) };
        loop {
            match reader.read(&self.stream, self.decoder.space()) {
                Ok(0) => return Err(SessionError::Disconnected),
                Ok(count) => {
                    if let Some(head) = self.decoder.advance(count)? {
                        return self.expect_payload(core, &head).map(|()| None);
                    }
                }
                Err(RecordReadError::Stream(e)) if e.kind() == WouldBlock => {
                    return Ok(Some(SessionWait::Readable));
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Decides how much of a request's payload has to arrive before the request begins.
    fn expect_payload(&mut self, core: &Core, head: &Head) -> Result<(), SessionError> {
        let (envelope, request) = head.request(self.decoder.body())?;
        let may_forward = self.client.is_some_and(|client| client.role == Role::Peer);
        if envelope.origin.is_some() && !may_forward {
            return Err(SessionError::ForwardedByClient);
        }
        let total = head.payload as usize;
        let is_write = matches!(request, Request::Write { .. }) && envelope.server == core.config.server;
        // At least a block: a block that is written as a whole is not read from the store first.
        let chunk = CHUNK.max(core.tier.pool.geometry().block as usize);
        self.payload.expect(total, if is_write { chunk } else { total });
        self.stage = Stage::ReadPayload(envelope, Box::new(request));
        Ok(())
    }

    fn begin(
        &mut self,
        core: &Core,
        number: u64,
        envelope: Envelope,
        request: Request,
    ) -> Result<(), SessionError> {
        core.counters.requests.add(1);
        if core.shutdown.has_begun() && !is_served_during_shutdown(&request) {
            return self.fail(core, envelope, &Error::Ending);
        }
        if envelope.server != core.config.server {
            return self.forward(core, number, envelope, request);
        }
        self.stage = Stage::Execute { envelope, task: Box::new(Task::new(request)), since: Instant::now() };
        Ok(())
    }

    /// Queues a request to another server for a forwarder.
    fn forward(
        &mut self,
        core: &Core,
        number: u64,
        envelope: Envelope,
        request: Request,
    ) -> Result<(), SessionError> {
        let Some(client) = self.client else { return Err(SessionError::Disconnected) };
        // Before a forwarder can have the reply.
        self.stage = Stage::Forwarded(envelope);
        let payload = self.payload.bytes().to_vec();
        match core.peers.forward(number, client.client, envelope, request, payload) {
            Ok(()) => core.counters.forwarded.add(1),
            Err(e) => self.fail(core, envelope, &e)?,
        }
        Ok(())
    }

    /// Takes the reply of another server.
    pub fn receive_reply(
        &mut self,
        core: &Core,
        request: &Request,
        outcome: Result<(Reply, Vec<u8>), Error>,
    ) {
        let Stage::Forwarded(envelope) = self.stage else { return };
        match (request, &outcome) {
            (Request::Open { .. }, Ok((Reply::Opened { attributes, .. }, _))) => {
                self.forwarded_opens.push(attributes.file);
            }
            (Request::Close { file, .. }, Ok((Reply::Done, _))) => {
                let open = self.forwarded_opens.iter().position(|opened| opened == file);
                open.map(|index| self.forwarded_opens.swap_remove(index));
            }
            _ => {}
        }
        let queued = match outcome {
            Ok((reply, payload)) => {
                self.outbox.reserve(payload.len()).copy_from_slice(&payload);
                self.reply(core, envelope, &reply, payload.len())
            }
            Err(e) => self.fail(core, envelope, &e),
        };
        if queued.is_err() {
            self.stage = Stage::Ended;
        }
    }

    /// Runs a step of the request. `None` if the reply is queued, or if the request can continue.
    fn execute(
        &mut self,
        core: &Core,
        number: u64,
        envelope: Envelope,
        mut task: Box<Task>,
        since: Instant,
    ) -> Result<Option<SessionWait>, SessionError> {
        let Some(client) = self.client else { return Err(SessionError::Disconnected) };
        let origin = origin(number, &envelope, &client);
        if !self.receive_payload()? {
            self.stage = Stage::Execute { envelope, task, since };
            return Ok(Some(SessionWait::Readable));
        }
        let permit = core.shutdown.begin_step();
        if permit.is_none() && !is_served_during_shutdown(task.request()) {
            // An acknowledged change would not be stored any more.
            task.abandon(core);
            return self.fail(core, envelope, &Error::Ending).map(|()| None);
        }
        if let Some((reply, pieces)) = task.pin_reply(core, &origin) {
            self.outbox.send_pinned(&self.stream, envelope, &reply, pieces, task.reply_payload())?;
            self.moved += task.reply_payload() as u64;
            self.stage = Stage::DiscardPayload;
            return Ok(None);
        }
        let reply = self.outbox.reserve(task.reply_payload());
        match task.run(core, &origin, &mut self.payload, reply) {
            TaskStep::Done(reply) => self.finish(core, envelope, &mut task, &reply).map(|()| None),
            step => self.schedule(core, envelope, task, since, step),
        }
    }

    fn finish(
        &mut self,
        core: &Core,
        envelope: Envelope,
        task: &mut Task,
        reply: &Reply,
    ) -> Result<(), SessionError> {
        let payload = if matches!(reply, Reply::Data { .. }) { task.reply_payload() } else { 0 };
        self.reply(core, envelope, reply, payload)?;
        if let Some(request) = task.take_shutdown_request() {
            self.stage = Stage::ShuttingDown(request);
        }
        Ok(())
    }

    /// Decides when a request that is not done runs again.
    fn schedule(
        &mut self,
        core: &Core,
        envelope: Envelope,
        mut task: Box<Task>,
        since: Instant,
        step: TaskStep,
    ) -> Result<Option<SessionWait>, SessionError> {
        let now = Instant::now();
        let (since, wait) = match step {
            TaskStep::Done(_) => return Ok(None),
            TaskStep::Retry if now.duration_since(since) >= task.timeout(core) => {
                let error = task.abandon(core);
                return self.fail(core, envelope, &error).map(|()| None);
            }
            TaskStep::Retry | TaskStep::WaitUntil(_) if sys::has_hung_up(self.stream.as_fd()) => {
                return Err(SessionError::Disconnected);
            }
            TaskStep::Retry => (since, Some(SessionWait::At(now + RETRY))),
            TaskStep::WaitUntil(when) => (since, Some(SessionWait::AtOrHangUp(when))),
            TaskStep::Yield => (now, Some(SessionWait::At(now))),
            TaskStep::NeedPayload => (now, core.event_loop.is_busy().then_some(SessionWait::Readable)),
        };
        self.stage = Stage::Execute { envelope, task, since };
        Ok(wait)
    }

    fn fail(&mut self, core: &Core, envelope: Envelope, error: &Error) -> Result<(), SessionError> {
        self.reply(core, envelope, &Reply::Failed(error.to_failure()), 0)
    }

    /// Queues a reply; its payload is in the outbox already.
    fn reply(
        &mut self,
        core: &Core,
        envelope: Envelope,
        reply: &Reply,
        payload: usize,
    ) -> Result<(), SessionError> {
        if let Reply::Failed(failure) = reply
            && is_server_error(failure.kind)
        {
            core.counters.errors.add(1);
            core.counters.record_failure(failure.kind, failure.text.clone());
        }
        self.outbox.put_reply(envelope, reply, payload)?;
        self.moved += payload as u64;
        self.stage = Stage::DiscardPayload;
        Ok(())
    }
}

fn origin(number: u64, envelope: &Envelope, client: &ClientIdentity) -> RequestOrigin {
    let is_own_session = envelope.origin.is_none();
    RequestOrigin {
        client: envelope.origin.unwrap_or(client.client),
        session: number,
        is_own_session,
        ledger: client.ledger,
        id: envelope.id,
        direct: is_own_session && client.role == Role::Client,
    }
}

/// Whether a server that is shutting down still executes the request.
fn is_served_during_shutdown(request: &Request) -> bool {
    matches!(request, Request::Shutdown | Request::Status)
}

/// Whether a failure is the server's rather than the request's.
fn is_server_error(kind: ErrorKind) -> bool {
    use ErrorKind::{Damaged, Intern, Io, NoMem, NoSpace, Quota, ReadOnly, Unreachable};
    matches!(kind, Damaged | Intern | Io | NoMem | NoSpace | Quota | ReadOnly | Unreachable)
}
