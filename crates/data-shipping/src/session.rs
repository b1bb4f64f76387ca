//! One connection as its agent sees it: hello first, then frames, one at a time.

use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use pario_buffer::{UserBuffer, lend};
use pario_posix::{PrefetchLimits, Tuning};
use pario_types::Pos;
use pario_view::View;

use crate::backing::{Backing, Fault};
use crate::counts::AgentCounters;
use crate::frame::{self, Answer, HEADER, HELLO, Hello, MOST_TEXT, Request, SLOTS};
use crate::map::Owned;
use crate::served::{Report, Served};
use crate::stream::{Input, Stream, input};

/// What all sessions of an agent work with.
pub struct Desk {
    pub file: Arc<dyn Backing>,
    pub owned: Owned,
    pub secret: u128,
    /// How it accesses the file.
    pub manner: RwLock<(Tuning, PrefetchLimits)>,
    pub report: Option<Report>,
    pub counts: AgentCounters,
}

/// Why a session is over.
pub enum Over {
    /// The connection ended or failed.
    Connection,
    /// The peer does not know the secret.
    Refused,
    /// The peer sent what the protocol does not have.
    Malformed,
}

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Over {
        Over::Connection
    }
}

/// One connection.
pub struct Session {
    pub stream: Arc<Stream>,
    known: AtomicBool,
    /// Only the thread that the poller gave this session to takes it.
    state: Mutex<State>,
}

struct State {
    input: Input,
    hello: Vec<u8>,
    /// Who asks.
    rank: u32,
    views: [Option<View>; SLOTS],
}

impl Session {
    pub fn new(stream: Stream) -> Session {
        let stream = Arc::new(stream);
        let state = State { input: input(&stream), hello: Vec::new(), rank: 0, views: Default::default() };
        Session { stream, known: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// Whether the peer has shown that it knows the secret.
    pub fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }

    /// Serves what has come. `scratch` is the thread's own.
    pub fn serve(&self, desk: &Desk, scratch: &mut Vec<u8>) -> Result<(), Over> {
        // Poisoned means that a frame of this session ended in a panic, which ended the session.
        let mut state = self.state.lock().map_err(|_| Over::Malformed)?;
        if !self.is_known() {
            self.greet(&mut state, desk)?;
            if state.input.buffer().is_empty() {
                return Ok(());
            }
        }
        // The poller tells of bytes in the kernel only; those read ahead have to be served now.
        loop {
            self.frame(&mut state, desk, scratch)?;
            if state.input.buffer().is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes what has come of the hello. Never waits for more: a stranger shall not hold a thread.
    fn greet(&self, state: &mut State, desk: &Desk) -> Result<(), Over> {
        let come = state.input.fill_buf()?;
        let part = come.len().min(HELLO - state.hello.len());
        if part == 0 {
            return Err(Over::Connection);
        }
        state.hello.extend_from_slice(&come[..part]);
        state.input.consume(part);
        let Some(hello) = state.hello.first_chunk() else { return Ok(()) };
        let hello = Hello::from_bytes(hello).ok_or(Over::Malformed)?;
        let refused = hello.secret != desk.secret;
        self.stream.send(&frame::welcome(refused))?;
        if refused {
            return Err(Over::Refused);
        }
        state.rank = hello.rank;
        self.known.store(true, Relaxed);
        Ok(())
    }

    /// Serves one frame, waiting for the rest of it.
    fn frame(&self, state: &mut State, desk: &Desk, scratch: &mut Vec<u8>) -> Result<(), Over> {
        let mut header = [0; HEADER];
        state.input.read_exact(&mut header)?;
        match Request::from_bytes(&header).ok_or(Over::Malformed)? {
            Request::View { slot, body } => {
                let mut bytes = vec![0; body as usize];
                state.input.read_exact(&mut bytes)?;
                let view = frame::view_from_bytes(&bytes).ok_or(Over::Malformed)?;
                state.views[usize::from(slot)] = Some(view);
                Ok(())
            }
            Request::Move { write, slot, at, len, share } => {
                let view = state.views[usize::from(slot)].as_ref().ok_or(Over::Malformed)?;
                let parts = desk.parts(view, at, len, u64::from(share)).ok_or(Over::Malformed)?;
                let end = HEADER + share as usize;
                if scratch.len() < end {
                    scratch.resize(end, 0);
                }
                let data = &mut scratch[HEADER..end];
                if write {
                    state.input.read_exact(data)?;
                }
                let start = Instant::now();
                let moved = lend(data, |buffer| desk.access(write, view, &parts, buffer));
                if let Some(report) = &desk.report {
                    report(&Served::new(state.rank, write, view, &parts, &moved, start));
                }
                Ok(self.answer(write, moved, scratch)?)
            }
        }
    }

    /// Sends how it went. The data of a read stands in `scratch` where the answer's body goes.
    fn answer(&self, write: bool, moved: Result<u64, Fault>, scratch: &mut [u8]) -> io::Result<()> {
        match moved {
            Ok(moved) => {
                let body = if write { 0 } else { moved as usize };
                scratch[..HEADER].copy_from_slice(&Answer::Done { moved, body: body as u32 }.to_bytes());
                self.stream.send(&scratch[..HEADER + body])
            }
            Err(Fault { kind, errno, at, text }) => {
                let text = &text.as_bytes()[..text.len().min(MOST_TEXT)];
                let answer = Answer::Failed { kind, errno, at, body: text.len() as u32 };
                self.stream.send(&[&answer.to_bytes(), text].concat())
            }
        }
    }
}

impl Desk {
    /// The agent's own positions; `None` if they are not as many bytes as the shipper says.
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
    ) -> Result<u64, Fault> {
        let (tuning, prefetch) = *self.manner.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let moved = match write {
            true => self.write(view, parts, buffer, &tuning),
            false => self.file.read_parts(view, parts, buffer, &tuning, prefetch),
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
        tuning: &Tuning,
    ) -> Result<u64, Fault> {
        let mut done = 0;
        for part in parts {
            done += self.file.write(view, part.start, buffer, done, part.end.0 - part.start.0, tuning)?;
        }
        Ok(done)
    }
}
