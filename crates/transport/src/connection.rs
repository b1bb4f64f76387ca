//! A client's connection to a server: blocking calls with deadlines.
//!
//! Several requests may be outstanding; replies arrive in the order of the requests. A payload goes from the caller's memory into
//! records, and from verified records to the caller's memory. Replies that arrive while a request is being sent are an
//! exception: they are read early, into memory of the connection, and copied later. Otherwise two sides that both send much would
//! wait for each other. The outstanding requests are bounded, and so is the memory for early replies.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use pario_runtime::time::Instant;
use pario_types::{RequestId, ServerId};
use pario_wire::greeting::{Hello, Welcome};
use pario_wire::{
    Envelope, FrameDecoder, Head, RecordOpener, RecordSealer, Reply, Request, Secret, Side, encode_request,
};

use crate::address::Address;
use crate::client_handshake::greet;
use crate::deadline_stream::DeadlineStream;
use crate::error::{ConnectionAction, Error};
use crate::fork::ForkGuard;
use crate::records::{RecordReadError, RecordReader, RecordWriter};
use crate::socket_options::{Interest, SocketOptions};
use crate::stream::Stream;

/// The largest number of outstanding requests.
pub const MOST_OUTSTANDING: usize = 64;

/// The largest number of payload bytes of the replies to outstanding requests.
pub const MOST_OUTSTANDING_BYTES: u64 = 32 << 20;

/// A connection to a server. The first error that leaves it unclear what the peer received ends it: it is dead, its socket
/// closed, and every later call fails at once.
#[derive(Debug)]
pub struct Connection {
    peer: String,
    /// `None` once dead.
    live: Option<LiveConnection>,
}

#[derive(Debug)]
struct LiveConnection {
    /// Dropped before the stream, whose descriptor it names.
    _fork_guard: ForkGuard,
    stream: Stream,
    exchange: RequestExchange,
    out: Vec<u8>,
}

/// The outstanding requests, and the replies so far.
#[derive(Debug)]
struct RequestExchange {
    reader: RecordReader,
    writer: RecordWriter,
    pending: VecDeque<PendingRequest>,
    /// Bytes of payload that are still to be returned.
    expected: u64,
    /// Replies to the first of the pending requests.
    early: VecDeque<EarlyReply>,
    decoder: FrameDecoder,
    /// A reply whose payload is being read early.
    aside: Option<PartialReply>,
}

#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    server: ServerId,
    id: RequestId,
    payload: u64,
}

#[derive(Debug)]
struct EarlyReply {
    reply: Reply,
    payload: Vec<u8>,
}

#[derive(Debug)]
struct PartialReply {
    early: EarlyReply,
    filled: usize,
}

impl Connection {
    /// Connects to a server and verifies that both sides know the partition's secret. Returns the server's welcome and its
    /// pool's descriptor, if it assigned a ledger.
    pub fn connect(
        address: &Address,
        tuning: &SocketOptions,
        hello: &Hello,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<(Connection, Welcome, Option<OwnedFd>), Error> {
        let peer = address.to_string();
        let stream = match Stream::connect(address, tuning, deadline) {
            Ok(stream) => stream,
            Err(cause) if cause.kind() == io::ErrorKind::TimedOut => {
                return Err(Error::TimedOut { action: ConnectionAction::Connect, peer });
            }
            Err(cause) => return Err(Error::System { action: ConnectionAction::Connect, peer, cause }),
        };
        Connection::over(stream, peer, hello, secret, deadline)
    }

    /// The same over a stream that is connected already.
    pub fn over(
        stream: Stream,
        peer: String,
        hello: &Hello,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<(Connection, Welcome, Option<OwnedFd>), Error> {
        let fork_guard = ForkGuard::new(stream.as_fd().as_raw_fd());
        let patience =
            DeadlineStream { stream: &stream, peer: &peer, action: ConnectionAction::Greet, deadline };
        stream.set_nonblocking(true).map_err(|error| patience.failed(error))?;
        let (welcome, pool, keys) = greet(&patience, hello, secret)?;
        let (sealer, opener) = keys.ends(Side::Client);
        let exchange = RequestExchange::new(sealer, opener);
        let live = Some(LiveConnection { _fork_guard: fork_guard, stream, exchange, out: Vec::new() });
        Ok((Connection { peer, live }, welcome, pool))
    }

    /// The peer.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Whether an error has ended it.
    pub fn is_dead(&self) -> bool {
        self.live.is_none()
    }

    /// The number of outstanding requests.
    pub fn outstanding(&self) -> usize {
        self.live.as_ref().map_or(0, |live| live.exchange.pending.len())
    }

    /// Whether this request may be sent before another reply is received.
    pub fn has_room_for(&self, request: &Request) -> bool {
        let Some(LiveConnection { exchange, .. }) = &self.live else { return true };
        let bytes = exchange.expected.saturating_add(request.reply_payload());
        exchange.pending.is_empty()
            || (exchange.pending.len() < MOST_OUTSTANDING && bytes <= MOST_OUTSTANDING_BYTES)
    }

    /// Sends a request and waits for its reply. See [`send`](Connection::send) and
    /// [`receive`](Connection::receive).
    ///
    /// # Panics
    /// If other requests are outstanding.
    pub fn call(
        &mut self,
        envelope: Envelope,
        request: &Request,
        payload: &[IoSlice<'_>],
        into: &mut [IoSliceMut<'_>],
        deadline: Instant,
    ) -> Result<Reply, Error> {
        assert_eq!(self.outstanding(), 0, "call while requests are outstanding");
        same_length(request.reply_payload(), into.iter().map(|slice| slice.len()))?;
        self.send(envelope, request, payload, deadline)?;
        self.receive(into, deadline).map(|(_, reply)| reply)
    }

    /// Sends a request and its payload. If this fails with [`Error::Full`], [`Error::Length`] or
    /// [`Error::Unsendable`] nothing was sent.
    pub fn send(
        &mut self,
        envelope: Envelope,
        request: &Request,
        payload: &[IoSlice<'_>],
        deadline: Instant,
    ) -> Result<(), Error> {
        if !self.has_room_for(request) {
            return Err(Error::Full { peer: self.peer.clone() });
        }
        let Some(LiveConnection { _fork_guard: _, stream, exchange, out }) = &mut self.live else {
            return Err(Error::Dead { peer: self.peer.clone() });
        };
        same_length(request.payload(), payload.iter().map(|slice| slice.len()))?;
        out.clear();
        encode_request(out, envelope, request).map_err(|cause| Error::Unsendable { cause })?;
        let with = DeadlineStream { stream, peer: &self.peer, action: ConnectionAction::Send, deadline };
        match exchange.send(&with, out, payload) {
            Ok(()) => {
                let payload = request.reply_payload();
                exchange.pending.push_back(PendingRequest {
                    server: envelope.server,
                    id: envelope.id,
                    payload,
                });
                exchange.expected += payload;
                Ok(())
            }
            Err(error) => Err(self.die(error)),
        }
    }

    /// Waits for the reply to the first outstanding request. Its payload fills `into`, which must have the length that the
    /// request asked for, and uses the slices up; a reply without one does not change `into`.
    ///
    /// # Panics
    /// If no request is outstanding.
    pub fn receive(
        &mut self,
        into: &mut [IoSliceMut<'_>],
        deadline: Instant,
    ) -> Result<(RequestId, Reply), Error> {
        if let Some(first) = self.live.as_ref().and_then(|live| live.exchange.pending.front()) {
            same_length(first.payload, into.iter().map(|slice| slice.len()))?;
        }
        self.receive_into(|_| into.iter_mut().map(|slice| IoSliceMut::new(slice)).collect(), deadline)
    }

    /// The same, where the reply decides to which memory its payload goes. A reply without a payload needs no memory.
    ///
    /// # Panics
    /// If no request is outstanding, or the memory is not as long as the payload.
    pub fn receive_into<'m>(
        &mut self,
        room: impl FnOnce(&Reply) -> Vec<IoSliceMut<'m>>,
        deadline: Instant,
    ) -> Result<(RequestId, Reply), Error> {
        let Some(LiveConnection { stream, exchange, .. }) = &mut self.live else {
            return Err(Error::Dead { peer: self.peer.clone() });
        };
        let first = *exchange.pending.front().expect("receive without an outstanding request");
        let with = DeadlineStream { stream, peer: &self.peer, action: ConnectionAction::Receive, deadline };
        let room = |reply: &Reply, payload: usize| {
            let into = room(reply);
            assert_eq!(into.iter().map(|slice| slice.len()).sum::<usize>(), payload, "room for a payload");
            into
        };
        match exchange.receive(&with, room) {
            Ok(reply) => {
                exchange.pending.pop_front();
                exchange.expected -= first.payload;
                Ok((first.id, reply))
            }
            Err(error) => Err(self.die(error)),
        }
    }

    /// Waits until then for data to receive; returns whether there is some. A broken connection has an error to receive.
    pub fn has_reply_by(&self, then: Instant) -> bool {
        let Some(LiveConnection { stream, exchange, .. }) = &self.live else { return true };
        exchange.reader.has_more() || stream.wait(Interest::Read, then).map_or(true, |ready| ready.read)
    }

    fn die(&mut self, error: Error) -> Error {
        self.live = None;
        error
    }

    /// The parts of the connection, for tests that send bytes of their own; `None` if it is dead.
    ///
    /// # Panics
    /// If requests are outstanding.
    pub fn into_parts(self) -> Option<(Stream, RecordSealer, RecordOpener)> {
        assert_eq!(self.outstanding(), 0, "taken apart while requests are outstanding");
        let LiveConnection { stream, exchange, .. } = self.live?;
        Some((stream, exchange.writer.into_sealer(), exchange.reader.into_opener()))
    }
}

impl RequestExchange {
    fn new(sealer: RecordSealer, opener: RecordOpener) -> RequestExchange {
        RequestExchange {
            reader: RecordReader::new(opener),
            writer: RecordWriter::new(sealer),
            pending: VecDeque::new(),
            expected: 0,
            early: VecDeque::new(),
            decoder: FrameDecoder::new(),
            aside: None,
        }
    }

    /// Sends head and body of a frame, and its payload. Whenever the stream takes no more, it reads replies that have
    /// arrived early.
    fn send(
        &mut self,
        with: &DeadlineStream<'_>,
        front: &[u8],
        payload: &[IoSlice<'_>],
    ) -> Result<(), Error> {
        let interest = if self.pending.is_empty() { Interest::Write } else { Interest::Both };
        let mut front = front;
        let mut payload = UnsentPayload::new(payload);
        let mut in_place: Vec<&[u8]> = Vec::new();
        while front.len() + payload.left > 0 || !self.writer.is_sent() {
            while front.len() + payload.left > 0 {
                let len = RecordWriter::next_len(front.len(), payload.left);
                if !self.writer.has_room(len) {
                    break;
                }
                let here = payload.contiguous(len);
                if front.is_empty() && self.writer.seals_in_place(here.len()) {
                    self.writer.seal_in_place(here);
                    payload.advance(here.len());
                    in_place.push(here);
                    continue;
                }
                self.writer.seal(len, |record| {
                    let (here, after) = front.split_at(front.len().min(len));
                    let (head, bytes) = record.split_at_mut(here.len());
                    head.copy_from_slice(here);
                    front = after;
                    payload.copy_to(bytes);
                });
            }
            match self.writer.send(with.stream, &in_place) {
                Ok(()) => in_place.clear(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    with.wait(interest)?;
                    if interest == Interest::Both {
                        while self.read_early(with)? {}
                    }
                }
                Err(error) => return Err(with.failed(error)),
            }
        }
        Ok(())
    }

    /// The reply to the first pending request.
    fn receive<'m>(
        &mut self,
        with: &DeadlineStream<'_>,
        room: impl FnOnce(&Reply, usize) -> Vec<IoSliceMut<'m>>,
    ) -> Result<Reply, Error> {
        loop {
            if let Some(early) = self.early.pop_front() {
                if !early.payload.is_empty() {
                    scatter(&early.payload, &mut room(&early.reply, early.payload.len()));
                }
                return Ok(early.reply);
            }
            let progress = match self.aside {
                Some(_) => self.read_early(with)?,
                None => match self.read_frame(with)? {
                    Frame::Whole(reply, 0) => return Ok(reply),
                    Frame::Whole(reply, payload) => {
                        for slice in &mut room(&reply, payload) {
                            self.read_payload(with, slice)?;
                        }
                        return Ok(reply);
                    }
                    Frame::Partial => true,
                    Frame::Nothing => false,
                },
            };
            if !progress {
                with.wait(Interest::Read)?;
            }
        }
    }

    /// Reads some of the next reply without waiting, its payload into memory of its own; returns whether any bytes came.
    fn read_early(&mut self, with: &DeadlineStream<'_>) -> Result<bool, Error> {
        match &mut self.aside {
            None => match self.read_frame(with)? {
                Frame::Nothing => return Ok(false),
                Frame::Partial => {}
                Frame::Whole(reply, payload) => {
                    self.aside = Some(PartialReply {
                        early: EarlyReply { reply, payload: vec![0; payload] },
                        filled: 0,
                    });
                }
            },
            Some(aside) => match read_some(&mut self.reader, with, &mut aside.early.payload[aside.filled..])?
            {
                0 => return Ok(false),
                n => aside.filled += n,
            },
        }
        self.early
            .extend(self.aside.take_if(|aside| aside.filled == aside.early.payload.len()).map(|a| a.early));
        Ok(true)
    }

    /// Waits for as many bytes of a payload.
    fn read_payload(&mut self, with: &DeadlineStream<'_>, into: &mut [u8]) -> Result<(), Error> {
        let mut filled = 0;
        while filled < into.len() {
            match read_some(&mut self.reader, with, &mut into[filled..])? {
                0 => with.wait(Interest::Read)?,
                n => filled += n,
            }
        }
        Ok(())
    }

    /// Reads some of the next reply's head or body without waiting.
    fn read_frame(&mut self, with: &DeadlineStream<'_>) -> Result<Frame, Error> {
        let n = read_some(&mut self.reader, with, self.decoder.space())?;
        if n == 0 {
            return Ok(Frame::Nothing);
        }
        match self.decoder.advance(n).map_err(|cause| with.malformed(cause))? {
            None => Ok(Frame::Partial),
            Some(head) => {
                let reply = head.reply(self.decoder.body()).map_err(|cause| with.malformed(cause))?;
                self.expect(with, &head, &reply)?;
                Ok(Frame::Whole(reply, head.payload as usize))
            }
        }
    }

    /// Checks that this reply is the one that has to come next.
    fn expect(&self, with: &DeadlineStream<'_>, head: &Head, reply: &Reply) -> Result<(), Error> {
        let Some(next) = self.pending.get(self.early.len()) else {
            return Err(with.unexpected_message("it replied and nobody had asked"));
        };
        if (head.server, head.id) != (next.server, next.id) {
            return Err(with.unexpected_message("it replied to another request than was its turn"));
        }
        if matches!(reply, Reply::Data { .. }) && u64::from(head.payload) != next.payload {
            return Err(with.unexpected_message("its reply has more or fewer bytes than were asked for"));
        }
        Ok(())
    }
}

/// The result of reading a frame without waiting.
enum Frame {
    Nothing,
    Partial,
    /// Its reply, and the number of payload bytes that follow.
    Whole(Reply, usize),
}

/// Reads the available bytes without waiting; 0 if there are none.
fn read_some(reader: &mut RecordReader, with: &DeadlineStream<'_>, space: &mut [u8]) -> Result<usize, Error> {
    match reader.read(with.stream, space) {
        Ok(0) => Err(with.closed()),
        Ok(n) => Ok(n),
        Err(RecordReadError::Tampered) => Err(with.tampered()),
        Err(RecordReadError::Stream(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(RecordReadError::Stream(error)) => Err(with.failed(error)),
    }
}

/// The part of a payload that is not yet in records.
struct UnsentPayload<'a> {
    slices: &'a [IoSlice<'a>],
    /// The number of bytes of the first slice that are done.
    done: usize,
    /// The number of bytes of all slices that are not.
    left: usize,
}

impl<'a> UnsentPayload<'a> {
    fn new(slices: &'a [IoSlice<'a>]) -> UnsentPayload<'a> {
        let mut unsent =
            UnsentPayload { slices, done: 0, left: slices.iter().map(|slice| slice.len()).sum() };
        unsent.advance(0);
        unsent
    }

    /// Returns the next contiguous bytes, at most so many.
    fn contiguous(&self, most: usize) -> &'a [u8] {
        let rest: &'a [u8] = self.slices.first().map_or(&[], |slice| &slice[self.done..]);
        &rest[..rest.len().min(most)]
    }

    /// Marks so many of these as done.
    fn advance(&mut self, count: usize) {
        self.done += count;
        self.left -= count;
        while let Some((first, rest)) = self.slices.split_first()
            && first.len() == self.done
        {
            (self.slices, self.done) = (rest, 0);
        }
    }

    fn copy_to(&mut self, mut room: &mut [u8]) {
        while !room.is_empty() {
            let here = self.contiguous(room.len());
            let (to, rest) = room.split_at_mut(here.len());
            to.copy_from_slice(here);
            self.advance(here.len());
            room = rest;
        }
    }
}

/// Copies a payload that was read early to its destination.
fn scatter(payload: &[u8], into: &mut [IoSliceMut<'_>]) {
    let mut rest = payload;
    for slice in into.iter_mut() {
        let n = slice.len().min(rest.len());
        slice[..n].copy_from_slice(&rest[..n]);
        rest = &rest[n..];
    }
}

fn same_length(payload: u64, slices: impl Iterator<Item = usize>) -> Result<(), Error> {
    let given = slices.map(|len| len as u64).sum();
    if given == payload { Ok(()) } else { Err(Error::Length { payload, given }) }
}
