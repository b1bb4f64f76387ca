//! One connection: a state machine on a nonblocking socket.
//!
//! A request is carried out and answered before the next one is looked at; what the client sends meanwhile waits in
//! the socket, which is what holds back a client that is too fast. So a session holds at most one request and one
//! reply. Only a large write begins before all of its payload is here. After each request the session gives others
//! their turn, if all workers are busy. A request whose blocks are in use is carried on with a moment later.

use std::io::ErrorKind::WouldBlock;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use pario_cache::LedgerId;
use pario_shm::ProcessIdentity;
use pario_transport::{HandshakeStep, RecordReadError, RecordReader, RecordWriter, ServerHandshake, Stream};
use pario_types::{ClientId, ErrorKind, FileId};
use pario_wire::greeting::Role;
use pario_wire::{Envelope, FrameDecoder, Head, Reply, Request, encode_reply};

use crate::apply::{RequestOrigin, Task, Verdict};
use crate::core::Core;
use crate::ending::Asked;
use crate::error::Error;
use crate::payload::{KEEP, Payload};
use crate::sys;
use crate::tier::Piece;

/// A new connection has to prove itself within this time.
pub(crate) const GREETING: Duration = Duration::from_secs(10);

/// How soon such a request is looked at again.
const RETRY: Duration = Duration::from_millis(1);

/// Bytes of a large write that are taken at a time: enough for few calls, few enough for the processor's cache.
const CHUNK: usize = 128 << 10;

pub(crate) struct Session {
    pub stream: Stream,
    stage: Stage,
    /// What comes in, once the other side has greeted.
    reader: Option<RecordReader>,
    decoder: FrameDecoder,
    payload: Payload,
    outbox: Outbox,
    who: Option<Who>,
    /// Bytes of payload that were moved since somebody asked.
    moved: u64,
    /// When it will be visited, if it is known.
    pub alarm: Option<Instant>,
    /// Files that were opened through this door at another server.
    opened_away: Vec<FileId>,
}

/// Who is on the other side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub client: ClientId,
    pub role: Role,
    pub ledger: Option<LedgerId>,
    /// The process, if it is one of this host.
    pub process: Option<ProcessIdentity>,
}

enum Stage {
    Greeting(Box<ServerHandshake>, Instant),
    Frame,
    Payload(Envelope, Box<Request>),
    Working {
        envelope: Envelope,
        task: Box<Task>,
        since: Instant,
    },
    /// It is answered, but not all of its payload has been read.
    Rest,
    /// The request is at another server; the answer comes through [`Session::answer`].
    Away(Envelope),
    /// The server ends as soon as this answer is sent.
    Stopping(Asked),
    Ended,
}

/// What the session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Read,
    Write,
    /// To be looked at again at this time.
    Later(Instant),
    /// The same, and when the other side goes.
    Until(Instant),
    /// An answer from another server.
    Away,
    End,
}

impl Session {
    pub fn new(stream: Stream, handshake: ServerHandshake, now: Instant) -> Session {
        Session {
            stream,
            stage: Stage::Greeting(Box::new(handshake), now + GREETING),
            reader: None,
            decoder: FrameDecoder::new(),
            payload: Payload::default(),
            outbox: Outbox::default(),
            who: None,
            moved: 0,
            alarm: None,
            opened_away: Vec::new(),
        }
    }

    pub fn who(&self) -> Option<Who> {
        self.who
    }

    /// Bytes of payload that it moved since this was last asked.
    pub fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved) + self.payload.take_received()
    }

    /// Ends it, whatever is under way; who it was, the first time.
    pub fn close(&mut self) -> Option<Who> {
        // What a request under way had asked for it gives up now.
        self.stage = Stage::Ended;
        // The other side sees the end at once, and not when the last who holds this lets go of it.
        let _ = self.stream.shutdown();
        self.who.take()
    }

    /// Goes as far as possible; for one request at most, if others may be waiting.
    pub fn step(&mut self, core: &Core, number: u64) -> Next {
        match self.advance(core, number) {
            // What was read from the socket already does not show there.
            Ok(Next::Read) if self.reader.as_ref().is_some_and(RecordReader::has_more) => {
                Next::Later(Instant::now())
            }
            Ok(next) => next,
            Err(trouble) => {
                if let Some(text) = trouble.text() {
                    core.counters.refused.add(1);
                    core.counters.remember(text);
                }
                self.stage = Stage::Ended;
                Next::End
            }
        }
    }

    fn advance(&mut self, core: &Core, number: u64) -> Result<Next, SessionError> {
        let mut is_done = false;
        loop {
            if !self.outbox.send(&self.stream)? {
                return Ok(Next::Write);
            }
            match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Greeting(handshake, due) => {
                    if let Some(next) = self.greet(core, number, handshake, due)? {
                        return Ok(next);
                    }
                }
                Stage::Frame => {
                    self.stage = Stage::Frame;
                    if is_done && core.is_busy() {
                        return Ok(Next::Read);
                    }
                    match self.receive()? {
                        None => return Ok(Next::Read),
                        Some(head) => self.expect(core, &head)?,
                    }
                }
                Stage::Payload(envelope, request) => {
                    if !self.receive_payload()? {
                        self.stage = Stage::Payload(envelope, request);
                        return Ok(Next::Read);
                    }
                    self.begin(core, number, envelope, *request)?;
                    is_done = true;
                }
                Stage::Rest => {
                    let Some(reader) = &mut self.reader else { return Err(SessionError::Gone) };
                    if !self.payload.discard(reader, &self.stream).map_err(SessionError::reading)? {
                        self.stage = Stage::Rest;
                        return Ok(Next::Read);
                    }
                    self.payload.clear();
                    self.stage = Stage::Frame;
                }
                Stage::Working { envelope, task, since } => {
                    is_done = true;
                    if let Some(next) = self.work(core, number, envelope, task, since)? {
                        return Ok(next);
                    }
                }
                Stage::Away(envelope) => {
                    self.stage = Stage::Away(envelope);
                    return Ok(Next::Away);
                }
                Stage::Stopping(asked) => {
                    drop(asked);
                    self.stage = Stage::Frame;
                }
                Stage::Ended => return Ok(Next::End),
            }
        }
    }

    /// Whoever cannot prove to know the partition's secret gets no further.
    fn greet(
        &mut self,
        core: &Core,
        number: u64,
        mut handshake: Box<ServerHandshake>,
        due: Instant,
    ) -> Result<Option<Next>, SessionError> {
        let mut bytes = [0; 512];
        let received = match self.stream.read(&mut bytes) {
            Ok(0) => return Err(SessionError::Gone),
            Ok(count) => &bytes[..count],
            Err(e) if e.kind() == WouldBlock => {
                self.stage = Stage::Greeting(handshake, due);
                return if Instant::now() >= due { Err(SessionError::Mute) } else { Ok(Some(Next::Read)) };
            }
            Err(_) => return Err(SessionError::Gone),
        };
        match handshake.feed(received) {
            HandshakeStep::More => self.stage = Stage::Greeting(handshake, due),
            HandshakeStep::Send(answer) => {
                self.say(&answer)?;
                self.stage = Stage::Greeting(handshake, due);
            }
            HandshakeStep::Accepted(accepted) => {
                let (who, welcome, descriptor) = core.admit(number, accepted.hello(), &self.stream);
                self.who = Some(who);
                self.say(&accepted.welcome(welcome))?;
                if let Some(pool) = descriptor {
                    self.stream.send_descriptor(pool).map_err(|_| SessionError::Gone)?;
                }
                let (sealer, opener) = accepted.ends();
                self.reader = Some(RecordReader::new(opener));
                self.outbox.writer = Some(RecordWriter::new(sealer));
                self.stage = Stage::Frame;
            }
            HandshakeStep::Refused { farewell, error } => {
                // As far as the socket takes it: the other side may have gone.
                let _ = self.say(&farewell);
                return Err(SessionError::Refused(error.to_string()));
            }
        }
        Ok(None)
    }

    /// Sends words of the handshake: so few fit into the buffer of a socket that has hardly been used.
    fn say(&self, words: &[u8]) -> Result<(), SessionError> {
        match self.stream.write(words) {
            Ok(count) if count == words.len() => Ok(()),
            _ => Err(SessionError::Gone),
        }
    }

    /// Whether a chunk of the payload is here, or all of the rest.
    fn receive_payload(&mut self) -> Result<bool, SessionError> {
        let Some(reader) = &mut self.reader else { return Err(SessionError::Gone) };
        self.payload.receive(reader, &self.stream).map_err(SessionError::reading)
    }

    /// The next request's head, once its body is there as well.
    fn receive(&mut self) -> Result<Option<Head>, SessionError> {
        let Some(reader) = &mut self.reader else { return Err(SessionError::Gone) };
        loop {
            match reader.read(&self.stream, self.decoder.space()) {
                Ok(0) => return Err(SessionError::Gone),
                Ok(count) => {
                    if let Some(head) = self.decoder.advance(count).map_err(SessionError::garbage)? {
                        return Ok(Some(head));
                    }
                }
                Err(RecordReadError::Stream(e)) if e.kind() == WouldBlock => return Ok(None),
                Err(e) => return Err(SessionError::reading(e)),
            }
        }
    }

    /// A request has come; how much of its payload has to be here before it begins.
    fn expect(&mut self, core: &Core, head: &Head) -> Result<(), SessionError> {
        let (envelope, request) = head.request(self.decoder.body()).map_err(SessionError::garbage)?;
        let may_forward = self.who.is_some_and(|who| who.role == Role::Peer);
        if envelope.origin.is_some() && !may_forward {
            return Err(SessionError::Garbage("a client pretends to pass on requests".into()));
        }
        let total = head.payload as usize;
        let is_write = matches!(request, Request::Write { .. }) && envelope.server == core.config.server;
        // At least a block: what fills one need not be read before.
        let chunk = CHUNK.max(core.tier.pool.geometry().block as usize);
        self.payload.expect(total, if is_write { chunk } else { total });
        self.stage = Stage::Payload(envelope, Box::new(request));
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
        if core.ending.has_begun() && !is_answered_to_the_end(&request) {
            return self.fail(core, envelope, &Error::Ending);
        }
        if envelope.server != core.config.server {
            return self.send_away(core, number, envelope, request);
        }
        self.stage = Stage::Working { envelope, task: Box::new(Task::new(request)), since: Instant::now() };
        Ok(())
    }

    /// A request for another server is taken there by a forwarder.
    fn send_away(
        &mut self,
        core: &Core,
        number: u64,
        envelope: Envelope,
        request: Request,
    ) -> Result<(), SessionError> {
        let Some(who) = self.who else { return Err(SessionError::Gone) };
        // Before a forwarder can have the answer.
        self.stage = Stage::Away(envelope);
        match core.peers.forward(number, who.client, envelope, request, self.payload.bytes().to_vec()) {
            Ok(()) => core.counters.forwarded.add(1),
            Err(e) => self.fail(core, envelope, &e)?,
        }
        Ok(())
    }

    /// The answer of another server.
    pub fn answer(&mut self, core: &Core, request: &Request, outcome: Result<(Reply, Vec<u8>), Error>) {
        let Stage::Away(envelope) = self.stage else { return };
        match (request, &outcome) {
            (Request::Open { .. }, Ok((Reply::Opened { attributes, .. }, _))) => {
                self.opened_away.push(attributes.file);
            }
            (Request::Close { file, .. }, Ok((Reply::Done, _))) => {
                let open = self.opened_away.iter().position(|opened| opened == file);
                open.map(|index| self.opened_away.swap_remove(index));
            }
            _ => {}
        }
        let done = match outcome {
            Ok((reply, payload)) => {
                self.outbox.reserve(payload.len()).copy_from_slice(&payload);
                self.reply(core, envelope, &reply, payload.len())
            }
            Err(e) => self.fail(core, envelope, &e),
        };
        if done.is_err() {
            self.stage = Stage::Ended;
        }
    }

    /// What has to be closed at the metadata server when this session ends.
    pub fn take_opened_away(&mut self) -> Vec<FileId> {
        std::mem::take(&mut self.opened_away)
    }

    fn work(
        &mut self,
        core: &Core,
        number: u64,
        envelope: Envelope,
        mut task: Box<Task>,
        since: Instant,
    ) -> Result<Option<Next>, SessionError> {
        let Some(who) = self.who else { return Err(SessionError::Gone) };
        let asker = RequestOrigin {
            client: envelope.origin.unwrap_or(who.client),
            session: number,
            is_here: envelope.origin.is_none(),
            ledger: who.ledger,
            id: envelope.id,
            direct: envelope.origin.is_none() && who.role == Role::Client,
        };
        if !self.receive_payload()? {
            self.stage = Stage::Working { envelope, task, since };
            return Ok(Some(Next::Read));
        }
        let step = core.ending.pass();
        if step.is_none() && !is_answered_to_the_end(task.request()) {
            // What is acknowledged now would not be stored any more.
            task.give_up(core);
            return self.fail(core, envelope, &Error::Ending).map(|()| None);
        }
        if let Some((reply, pieces)) = task.pinned(core, &asker) {
            self.outbox.send_pinned(&self.stream, envelope, &reply, pieces, task.reply_payload())?;
            self.moved += task.reply_payload() as u64;
            self.stage = Stage::Rest;
            return Ok(None);
        }
        let room = self.outbox.reserve(task.reply_payload());
        match task.run(core, &asker, &mut self.payload, room) {
            Verdict::Done(reply) => {
                let payload = if matches!(reply, Reply::Data { .. }) { task.reply_payload() } else { 0 };
                self.reply(core, envelope, &reply, payload)?;
                if let Some(asked) = task.take_asked() {
                    self.stage = Stage::Stopping(asked);
                }
            }
            Verdict::Starved => {
                self.stage = Stage::Working { envelope, task, since: Instant::now() };
                return Ok(core.is_busy().then_some(Next::Read));
            }
            Verdict::More => {
                let now = Instant::now();
                self.stage = Stage::Working { envelope, task, since: now };
                return Ok(Some(Next::Later(now)));
            }
            Verdict::Later if since.elapsed() >= task.patience(core) => {
                let error = task.give_up(core);
                self.fail(core, envelope, &error)?;
            }
            Verdict::Later if sys::is_gone(self.stream.as_fd()) => return Err(SessionError::Gone),
            Verdict::Until(_) if sys::is_gone(self.stream.as_fd()) => return Err(SessionError::Gone),
            Verdict::Until(when) => {
                self.stage = Stage::Working { envelope, task, since };
                return Ok(Some(Next::Until(when)));
            }
            Verdict::Later => {
                self.stage = Stage::Working { envelope, task, since };
                return Ok(Some(Next::Later(Instant::now() + RETRY)));
            }
        }
        Ok(None)
    }

    fn fail(&mut self, core: &Core, envelope: Envelope, error: &Error) -> Result<(), SessionError> {
        self.reply(core, envelope, &Reply::Failed(error.to_failure()), 0)
    }

    /// Answers; the payload is in the outbox already.
    fn reply(
        &mut self,
        core: &Core,
        envelope: Envelope,
        reply: &Reply,
        payload: usize,
    ) -> Result<(), SessionError> {
        if let Reply::Failed(failure) = reply
            && is_trouble(failure.kind)
        {
            core.counters.errors.add(1);
            core.counters.remember_failure(failure.kind, failure.text.clone());
        }
        self.outbox.put_reply(envelope, reply, payload)?;
        self.moved += payload as u64;
        self.stage = Stage::Rest;
        Ok(())
    }
}

/// Whether a server that is about to end goes on answering it.
fn is_answered_to_the_end(request: &Request) -> bool {
    matches!(request, Request::Shutdown | Request::Status)
}

/// Whether a failure says something about the server rather than about what was asked of it.
fn is_trouble(kind: ErrorKind) -> bool {
    use ErrorKind::{Damaged, Intern, Io, NoMem, NoSpace, Quota, ReadOnly, Unreachable};
    matches!(kind, Damaged | Intern | Io | NoMem | NoSpace | Quota | ReadOnly | Unreachable)
}

/// Why a session ends.
enum SessionError {
    /// The other side went: what clients do when they are done.
    Gone,
    /// It never greeted.
    Mute,
    /// It was refused.
    Refused(String),
    /// It sent something that is no message.
    Garbage(String),
    /// What came is not what it sent.
    Tampered,
}

impl SessionError {
    fn garbage(error: pario_wire::Error) -> SessionError {
        SessionError::Garbage(error.to_string())
    }

    fn reading(error: RecordReadError) -> SessionError {
        match error {
            RecordReadError::Stream(_) => SessionError::Gone,
            RecordReadError::Tampered => SessionError::Tampered,
        }
    }

    fn text(&self) -> Option<String> {
        match self {
            SessionError::Gone => None,
            SessionError::Mute => Some("closed a connection that did not greet".into()),
            SessionError::Refused(why) => Some(format!("refused a connection: {why}")),
            SessionError::Garbage(why) => Some(format!("closed a connection: {why}")),
            SessionError::Tampered => Some(format!("closed a connection: {}", pario_wire::Error::Tampered)),
        }
    }
}

/// Copies bytes from the front of pieces, and takes them away there.
fn copy_front(pieces: &mut Vec<Piece>, mut room: &mut [u8]) {
    let mut done = 0;
    while !room.is_empty() {
        let Piece { pin, range } = &mut pieces[done];
        let (here, rest) = room.split_at_mut(range.len().min(room.len()));
        pin.read(range.start, here);
        range.start += here.len() as u32;
        done += usize::from(range.start == range.end);
        room = rest;
    }
    pieces.drain(..done);
}

/// What is being sent: first the head and body, then the payload.
#[derive(Default)]
struct Outbox {
    /// What it goes through, once the other side has greeted.
    writer: Option<RecordWriter>,
    front: Vec<u8>,
    payload: Vec<u8>,
    /// How much of the payload belongs to the reply.
    payload_len: usize,
    /// How much of all that is in records.
    sealed: usize,
}

impl Outbox {
    /// Room for a reply's payload. Nothing is being sent.
    fn reserve(&mut self, len: usize) -> &mut [u8] {
        if self.payload.len() < len {
            self.payload.resize(len, 0);
        }
        &mut self.payload[..len]
    }

    fn put_reply(&mut self, to: Envelope, reply: &Reply, payload: usize) -> Result<(), SessionError> {
        encode_reply(&mut self.front, to, reply, payload as u64).map_err(SessionError::garbage)?;
        self.payload_len = payload;
        Ok(())
    }

    /// Sends a reply whose payload lies in pinned blocks, a record at a time: clients may change the blocks meanwhile, but
    /// not what is in a record. What the socket does not take at once is copied: a client that is slow keeps no blocks.
    fn send_pinned(
        &mut self,
        stream: &Stream,
        to: Envelope,
        reply: &Reply,
        mut pieces: Vec<Piece>,
        payload: usize,
    ) -> Result<(), SessionError> {
        encode_reply(&mut self.front, to, reply, payload as u64).map_err(SessionError::garbage)?;
        let Some(writer) = &mut self.writer else { return Err(SessionError::Gone) };
        writer.seal(self.front.len(), |record| record.copy_from_slice(&self.front));
        self.front.clear();
        let mut left = payload;
        while left > 0 {
            while left > 0 && writer.has_room(RecordWriter::next_len(0, left)) {
                let len = RecordWriter::next_len(0, left);
                writer.seal(len, |record| copy_front(&mut pieces, record));
                left -= len;
            }
            match writer.send(stream, &[]) {
                Ok(()) => {}
                Err(e) if e.kind() == WouldBlock => break,
                Err(_) => return Err(SessionError::Gone),
            }
        }
        copy_front(&mut pieces, self.reserve(left));
        self.payload_len = left;
        Ok(())
    }

    /// Whether everything is sent.
    fn send(&mut self, stream: &Stream) -> Result<bool, SessionError> {
        let Some(writer) = &mut self.writer else { return Ok(true) };
        loop {
            match writer.send(stream, &[]) {
                Ok(()) => {}
                Err(e) if e.kind() == WouldBlock => return Ok(false),
                Err(_) => return Err(SessionError::Gone),
            }
            let whole = self.front.len() + self.payload_len;
            if self.sealed == whole {
                break;
            }
            while self.sealed < whole {
                let front = &self.front[self.sealed.min(self.front.len())..];
                let payload = &self.payload[self.sealed.saturating_sub(self.front.len())..self.payload_len];
                let len = RecordWriter::next_len(front.len(), payload.len());
                if !writer.has_room(len) {
                    break;
                }
                writer.seal(len, |record| {
                    let (head, bytes) = record.split_at_mut(front.len().min(len));
                    head.copy_from_slice(&front[..head.len()]);
                    bytes.copy_from_slice(&payload[..bytes.len()]);
                });
                self.sealed += len;
            }
        }
        self.front.clear();
        (self.sealed, self.payload_len) = (0, 0);
        if self.payload.len() > KEEP {
            self.payload = Vec::new();
        }
        Ok(true)
    }
}
