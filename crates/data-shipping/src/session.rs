//! The agent's side of one connection: a hello first, then frames, one at a time.

use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pario_buffer::{UserBuffer, lend};
use pario_types::Pos;
use pario_types::{AccessTuning, PrefetchLimits};
use pario_view::View;
use parking_lot::RwLock;

use crate::block_map::OwnedBlocks;
use crate::counts::AgentCounters;
use crate::frame::{self, HEADER, HELLO, MOST_TEXT, SLOTS, ShippingHello, ShippingReply, ShippingRequest};
use crate::observer::{RequestObserver, ServedRequest};
use crate::stream::{AgentStream, Input, input};
use pario_file_backend::{BackendError, FileBackend};

/// The state that all sessions of an agent share.
pub struct AgentState {
    pub file: Arc<dyn FileBackend>,
    pub owned: OwnedBlocks,
    pub secret: u128,
    /// The settings of its accesses.
    pub tuning_and_prefetch: RwLock<(AccessTuning, PrefetchLimits)>,
    pub report: Option<RequestObserver>,
    pub counts: AgentCounters,
}

/// The reason why a session ends.
pub enum SessionEnd {
    /// The connection ended or failed.
    Connection,
    /// The peer does not know the secret.
    Refused,
    /// The peer violated the protocol.
    Malformed,
}

impl From<io::Error> for SessionEnd {
    fn from(_: io::Error) -> SessionEnd {
        SessionEnd::Connection
    }
}

/// One connection.
pub struct ShippingSession {
    pub stream: Arc<AgentStream>,
    known: AtomicBool,
    /// Only the thread that the poller woke for this session locks it.
    /// A lock of the standard library, because poisoning tells that a frame ended in a panic.
    state: Mutex<State>,
}

struct State {
    input: Input,
    hello: Vec<u8>,
    /// The rank of the shipper.
    rank: u32,
    views: [Option<View>; SLOTS],
}

impl ShippingSession {
    pub fn new(stream: AgentStream) -> ShippingSession {
        let stream = Arc::new(stream);
        let state = State { input: input(&stream), hello: Vec::new(), rank: 0, views: Default::default() };
        ShippingSession { stream, known: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// Whether the peer has shown that it knows the secret.
    pub fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }

    /// Serves the received frames. `scratch` belongs to the calling thread.
    pub fn serve(&self, agent: &AgentState, scratch: &mut Vec<u8>) -> Result<(), SessionEnd> {
        // Poisoned means that a frame of this session ended in a panic, which ended the session.
        let mut state = self.state.lock().map_err(|_| SessionEnd::Malformed)?;
        if !self.is_known() {
            self.greet(&mut state, agent)?;
            if state.input.buffer().is_empty() {
                return Ok(());
            }
        }
        // The poller reports bytes in the kernel only, so frames in the read buffer are served now.
        loop {
            self.frame(&mut state, agent, scratch)?;
            if state.input.buffer().is_empty() {
                return Ok(());
            }
        }
    }

    /// Receives the available part of the hello. Never waits for the rest: an unauthenticated peer must not block a thread.
    fn greet(&self, state: &mut State, agent: &AgentState) -> Result<(), SessionEnd> {
        let come = state.input.fill_buf()?;
        let part = come.len().min(HELLO - state.hello.len());
        if part == 0 {
            return Err(SessionEnd::Connection);
        }
        state.hello.extend_from_slice(&come[..part]);
        state.input.consume(part);
        let Some(hello) = state.hello.first_chunk() else { return Ok(()) };
        let hello = ShippingHello::from_bytes(hello).ok_or(SessionEnd::Malformed)?;
        let refused = hello.secret != agent.secret;
        self.stream.send(&frame::welcome(refused))?;
        if refused {
            return Err(SessionEnd::Refused);
        }
        state.rank = hello.rank;
        self.known.store(true, Relaxed);
        Ok(())
    }

    /// Serves one frame, waiting for the rest of it.
    fn frame(&self, state: &mut State, agent: &AgentState, scratch: &mut Vec<u8>) -> Result<(), SessionEnd> {
        let mut header = [0; HEADER];
        state.input.read_exact(&mut header)?;
        match ShippingRequest::from_bytes(&header).ok_or(SessionEnd::Malformed)? {
            ShippingRequest::View { slot, body } => {
                let mut bytes = vec![0; body as usize];
                state.input.read_exact(&mut bytes)?;
                let view = frame::view_from_bytes(&bytes).ok_or(SessionEnd::Malformed)?;
                state.views[usize::from(slot)] = Some(view);
                Ok(())
            }
            ShippingRequest::Move { write, slot, at, len, share } => {
                let view = state.views[usize::from(slot)].as_ref().ok_or(SessionEnd::Malformed)?;
                let parts = agent.parts(view, at, len, u64::from(share)).ok_or(SessionEnd::Malformed)?;
                let end = HEADER + share as usize;
                if scratch.len() < end {
                    scratch.resize(end, 0);
                }
                let data = &mut scratch[HEADER..end];
                if write {
                    state.input.read_exact(data)?;
                }
                let start = Instant::now();
                let moved = lend(data, |buffer| agent.access(write, view, &parts, buffer));
                if let Some(report) = &agent.report {
                    report(&ServedRequest::new(state.rank, write, view, &parts, &moved, start));
                }
                Ok(self.answer(write, moved, scratch)?)
            }
        }
    }

    /// Sends the reply. The data of a read is already in `scratch`, at the position of the reply's body.
    fn answer(&self, write: bool, moved: Result<u64, BackendError>, scratch: &mut [u8]) -> io::Result<()> {
        match moved {
            Ok(moved) => {
                let body = if write { 0 } else { moved as usize };
                scratch[..HEADER]
                    .copy_from_slice(&ShippingReply::Done { moved, body: body as u32 }.to_bytes());
                self.stream.send(&scratch[..HEADER + body])
            }
            Err(BackendError { kind, errno, at, text, .. }) => {
                let text = &text.as_bytes()[..text.len().min(MOST_TEXT)];
                let answer = ShippingReply::Failed { kind, errno, at, body: text.len() as u32 };
                self.stream.send(&[&answer.to_bytes(), text].concat())
            }
        }
    }
}

impl AgentState {
    /// The agent's own positions; `None` if their number of bytes differs from the shipper's.
    fn parts(&self, view: &View, at: u64, len: u64, share: u64) -> Option<Vec<Range<Pos>>> {
        let mut parts = Vec::new();
        let mut bytes = 0;
        for part in self.owned.parts(view, at, len) {
            bytes += part.len;
            if bytes > share {
                return None;
            }
            parts.push(Pos(part.at)..Pos(part.at + part.len));
        }
        (bytes == share).then_some(parts)
    }

    /// Moves the parts to or from the buffer, where they lie one after the other; a read stops at the end of
    /// the file.
    fn access(
        &self,
        write: bool,
        view: &View,
        parts: &[Range<Pos>],
        buffer: &UserBuffer,
    ) -> Result<u64, BackendError> {
        let (tuning, prefetch) = *self.tuning_and_prefetch.read();
        let moved = match write {
            true => self.write(view, parts, buffer, &tuning),
            false => self.file.read_ranges(view, parts, buffer, &tuning, prefetch),
        };
        let moved = moved.inspect_err(|_| self.counts.failures.add(1))?;
        self.counts.requests.add(1);
        if write { &self.counts.written } else { &self.counts.read }.add(moved);
        Ok(moved)
    }

    fn write(
        &self,
        view: &View,
        parts: &[Range<Pos>],
        buffer: &UserBuffer,
        tuning: &AccessTuning,
    ) -> Result<u64, BackendError> {
        let mut done = 0;
        for part in parts {
            done += self.file.write(view, part.start, buffer, done, part.end.0 - part.start.0, tuning)?;
        }
        Ok(done)
    }
}
