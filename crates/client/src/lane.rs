//! One server's part of an access: what has been asked of it, what has not, and what to do when its
//! connection breaks.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::{Duration, Instant};

use pario_types::{FileId, ServerId};
use pario_wire::{Reply, Request};

use crate::core::{Core, succeeded, unexpected};
use crate::error::Result;
use crate::link::Held;
use crate::memory::Access;
use crate::plan::Chunk;
use crate::walk::Walk;

/// Requests with data that may be unanswered, bytes and ranges of each.
const WINDOW: usize = 4;
const MESSAGE: usize = 1 << 20;
const RANGES: usize = 4096;

/// How much less time a server has to answer if others have the same bytes.
pub(crate) const SPARE: u32 = 4;

/// A server that does not know a view this often in a row, though it was told, keeps too few of them.
const TRIES: u32 = 1000;

pub(crate) struct Lane<'a> {
    core: &'a Core,
    held: Held<'a>,
    file: FileId,
    /// Goes through the pool, and before everything else.
    walk: Option<Walk>,
    /// Goes by messages; in the order of memory.
    rest: VecDeque<Chunk>,
    sent: VecDeque<Sent>,
    /// Was read, but may lie beyond the end of the file.
    doubtful: Vec<Chunk>,
    /// How often in a row the server did not know the view.
    unknown: u32,
    /// When the server last answered.
    since: Instant,
    /// How long an answer may take.
    patience: Duration,
    /// Others have the bytes as well, so it is not waited for until it comes back.
    spare: bool,
    /// It was of no use: the others have to do.
    failed: bool,
}

/// A request without an answer yet.
struct Sent {
    request: Request,
    asked: Asked,
}

enum Asked {
    /// Groups of the walk.
    Groups(Vec<usize>),
    Chunks(Vec<Chunk>),
    /// That the server remembers a view.
    View(Vec<u8>),
}

impl<'a> Lane<'a> {
    /// Takes the turn at a server. `spare`: others can stand in for it.
    pub fn hold(core: &'a Core, server: ServerId, file: FileId, spare: bool) -> Result<Lane<'a>> {
        let since = Instant::now();
        let patience = core.options.deadline / if spare { SPARE } else { 1 };
        let deadline = since + patience;
        let mut held = core.hold(server, deadline)?;
        match spare {
            true => held.connect_at_once(since, deadline)?,
            false => held.connect(since, deadline)?,
        }
        let (walk, rest, sent, doubtful) = (None, VecDeque::new(), VecDeque::new(), Vec::new());
        let (unknown, failed) = (0, false);
        Ok(Lane { core, held, file, walk, rest, sent, doubtful, unknown, since, patience, spare, failed })
    }

    pub fn server(&self) -> ServerId {
        self.held.link.server
    }

    /// Moves at once what needs no message.
    pub fn begin(&mut self, mut chunks: Vec<Chunk>, access: &mut Access<'_, '_>) {
        chunks.sort_unstable_by_key(|chunk| (chunk.segment, chunk.at));
        match &*self.held.link.pool() {
            Some(local) if access.memory.viewed().is_none() => {
                self.walk = Some(Walk::start(local, self.file, &chunks, access))
            }
            _ => self.rest = chunks.into(),
        }
    }

    pub fn is_waiting(&self) -> bool {
        !self.sent.is_empty() && !self.failed
    }

    /// Whether what remains is to be had from others.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Sends one more request, if there is one and not too many are unanswered.
    pub fn send(&mut self, access: &mut Access<'_, '_>) -> Result<bool> {
        let Some(Sent { request, asked }) = self.next(access) else { return Ok(false) };
        let deadline = self.since + self.patience;
        let payload = match &asked {
            Asked::Groups(_) => Vec::new(),
            Asked::Chunks(chunks) => access.memory.gather(chunks),
            Asked::View(bytes) => vec![IoSlice::new(bytes)],
        };
        let sent = self.held.send(self.core.next_request(), &request, &payload, deadline);
        drop(payload);
        self.sent.push_back(Sent { request, asked });
        match sent {
            Ok(()) => {}
            Err(error) => self.recover(error, access)?,
        }
        Ok(true)
    }

    fn next(&mut self, access: &Access<'_, '_>) -> Option<Sent> {
        if let Some(walk) = &mut self.walk {
            // One at a time: a lent block has to be filled before anything else is waited for.
            if !self.sent.is_empty() {
                return None;
            }
            if let Some((request, asked)) = walk.next_request(access) {
                return Some(Sent { request, asked: Asked::Groups(asked) });
            }
            let mut stubborn = walk.remaining(&[]);
            stubborn.sort_unstable_by_key(|chunk| (chunk.segment, chunk.at));
            self.rest = stubborn.into();
            self.walk = None;
        }
        if self.rest.is_empty() || self.sent.len() >= WINDOW {
            return None;
        }
        if let Some(viewed) = access.memory.viewed()
            && self.held.tells_view(viewed.hash())
        {
            let bytes = viewed.view_bytes();
            let request = Request::View { hash: viewed.hash(), len: bytes.len() as u64 };
            return Some(Sent { request, asked: Asked::View(bytes) });
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
        Some(Sent { request, asked: Asked::Chunks(chunks) })
    }

    /// Chunks for one message.
    fn take_chunks(&mut self) -> Vec<Chunk> {
        let (mut chunks, mut room) = (Vec::new(), MESSAGE);
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

    /// Waits for the next answer.
    pub fn receive(&mut self, access: &mut Access<'_, '_>) -> Result<()> {
        let deadline = self.since + self.patience;
        let Some(first) = self.sent.front() else { return Ok(()) };
        // Memory of bytes beyond the end of the file is left alone.
        let mut aside = Vec::new();
        let (lent, beside) = (&mut *access, &mut aside);
        let received = self.held.receive_into(
            move |reply| match (&first.asked, reply) {
                (Asked::Chunks(chunks), Reply::Data { end }) => {
                    let beyond: Vec<bool> =
                        chunks.iter().map(|chunk| lent.is_doubtful(chunk, *end)).collect();
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
                match (&first.asked, &reply) {
                    (Asked::Chunks(chunks), Reply::Failed(_)) if self.spare => {
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

    fn answered(&mut self, sent: Sent, reply: Reply, access: &mut Access<'_, '_>) -> Result<()> {
        if let (Asked::Groups(asked), Reply::Failed(_), true) = (&sent.asked, &reply, access.memory.is_read())
        {
            // There may be no room in the pool because nothing can be stored; messages can still be read.
            self.walk.as_mut().expect("only a walk asks for slots").give_up(asked);
            return Ok(());
        }
        let reply = succeeded(self.server(), reply)?;
        match (&sent.asked, &reply) {
            (Asked::Groups(asked), Reply::Slots(slots)) => {
                let pool = self.held.link.pool();
                let walk = self.walk.as_mut().expect("only a walk asks for slots");
                if walk.answered(pool.as_ref(), asked, slots, access).is_some() {
                    return Ok(());
                }
            }
            (Asked::Chunks(chunks), Reply::Data { end }) => {
                self.unknown = 0;
                let beyond: Vec<bool> = chunks.iter().map(|chunk| access.is_doubtful(chunk, *end)).collect();
                access.memory.landed(chunks, &beyond);
                self.doubtful
                    .extend(chunks.iter().zip(beyond).filter(|(_, beyond)| *beyond).map(|(chunk, _)| chunk));
                access.unsure |= !self.doubtful.is_empty();
                return Ok(());
            }
            (Asked::Chunks(_), Reply::Done) if !access.memory.is_read() => {
                self.unknown = 0;
                return Ok(());
            }
            (Asked::View(_), Reply::Done) => return Ok(()),
            (Asked::Chunks(chunks), Reply::NoView) if self.unknown < TRIES => {
                self.unknown += 1;
                // Unless it is on its way again.
                if !self.sent.iter().any(|sent| matches!(sent.asked, Asked::View(_))) {
                    self.held.forget_views();
                }
                self.rest.extend(chunks);
                self.rest.make_contiguous().sort_unstable_by_key(|chunk| (chunk.segment, chunk.at));
                return Ok(());
            }
            _ => {}
        }
        Err(unexpected(self.server(), &sent.request, &reply))
    }

    /// Connects again and begins again with all that is not done. Everything that is asked here can be done
    /// twice.
    fn recover(&mut self, error: pario_transport::Error, access: &mut Access<'_, '_>) -> Result<()> {
        let chunks = self.take_remaining();
        if self.spare {
            self.held.hang_up();
            if self.held.connect_at_once(self.since, self.since + self.patience).is_err() {
                self.rest = chunks.into();
                self.give_up();
                return Ok(());
            }
        } else {
            self.held.after(error, self.since, self.since + self.patience)?;
        }
        self.begin(chunks, access);
        Ok(())
    }

    /// Leaves the rest to others.
    fn give_up(&mut self) {
        self.held.link.is_down_now();
        self.failed = true;
    }

    /// All that is not done.
    pub fn take_remaining(&mut self) -> Vec<Chunk> {
        let mut chunks = std::mem::take(&mut self.doubtful);
        chunks.extend(self.rest.drain(..));
        let mut asked = Vec::new();
        for sent in self.sent.drain(..) {
            match sent.asked {
                Asked::Groups(groups) => asked.extend(groups),
                Asked::Chunks(sent) => chunks.extend(sent),
                Asked::View(_) => {}
            }
        }
        if let Some(walk) = self.walk.take() {
            chunks.extend(walk.remaining(&asked));
        }
        chunks
    }
}
