//! A server: its link, its processor, and storage that takes what lies next.
//!
//! A write is acknowledged when it is on storage: servers of these file systems keep nothing that they could lose. Reads come
//! out of a server's memory: it reads a large part of a file at a time and begins with the next part when somebody wants the
//! one before. What others write in between is read as it is and not kept.

use std::collections::{BTreeMap, VecDeque};

use pario_locks::LockExtent;
use pario_types::FileId;

use super::{Event, Run};
use crate::link::{Link, span};

/// Bytes of one stripe on their way from a client to a server.
#[derive(Clone, Debug)]
pub struct Piece {
    pub number: u64,
    pub client: u32,
    pub server: u16,
    /// Which manager has the lock on it, and where it is for that manager.
    pub keeper: u32,
    pub file: FileId,
    pub local: u64,
    pub place: u64,
    pub len: u64,
}

impl Piece {
    /// What it covers, for its lock manager.
    pub fn extent(&self) -> LockExtent {
        LockExtent::new(self.place, self.place + self.len).expect("a piece has bytes")
    }
}

/// Bytes of one stripe that a client wants to read.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub client: u32,
    pub request: u64,
    pub file: FileId,
    pub local: u64,
    pub len: u64,
}

/// Something for a server's storage to do.
#[derive(Debug)]
struct Job {
    file: FileId,
    local: u64,
    len: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Write(Piece),
    /// For this client and no other.
    Read(Wish),
    /// For whoever wants this part of the file.
    Load(u64),
}

/// A part of a file at a server.
#[derive(Debug)]
enum Part {
    /// It is being read; these wait for it.
    Coming(Vec<Wish>),
    Here,
}

#[derive(Debug, Default)]
pub struct Server {
    pub inward: Link,
    outward: Link,
    core: Link,
    /// What storage chooses from, by place; and what comes after.
    near: BTreeMap<(FileId, u64, u64), Job>,
    later: VecDeque<Job>,
    queued: u64,
    current: Option<Job>,
    /// Where it is.
    head: (FileId, u64),
    parts: BTreeMap<(FileId, u64), Part>,
    latest_client: Option<u32>,
    pub interleaved: u64,
    pub seeks: u64,
}

impl Server {
    fn meets(&mut self, client: u32) {
        if self.latest_client.replace(client).is_some_and(|latest| latest != client) {
            self.interleaved += 1;
        }
    }

    /// What lies next to where storage is, upwards and then from the beginning.
    fn pick(&mut self, depth: u64) -> Option<Job> {
        while (self.near.len() as u64) < depth.max(1)
            && let Some(job) = self.later.pop_front()
        {
            self.queued += 1;
            self.near.insert((job.file, job.local, self.queued), job);
        }
        let (file, local) = self.head;
        let next = self.near.range((file, local, 0)..).next().or_else(|| self.near.iter().next());
        let key = *next?.0;
        self.near.remove(&key)
    }
}

impl Run<'_> {
    /// A piece has arrived.
    pub fn arrived(&mut self, piece: Piece) {
        let ns = self.about(self.setup.machine.request_time);
        let done = self.servers[usize::from(piece.server)].core.take(self.agenda.now(), ns).1;
        self.agenda.put(done, Event::Taken(piece));
    }

    /// The server has looked at a piece: it goes to storage.
    pub fn taken(&mut self, piece: Piece) {
        let server = piece.server;
        self.servers[usize::from(server)].meets(piece.client);
        let (file, local, len) = (piece.file, piece.local, piece.len);
        self.pass(piece.client, server, file, local, len);
        self.store(server, Job { file, local, len, what: What::Write(piece) });
    }

    /// A request to read has arrived.
    pub fn asked(&mut self, server: u16, wish: Wish) {
        let ns = self.about(self.setup.machine.request_time);
        let host = &mut self.servers[usize::from(server)];
        host.meets(wish.client);
        let done = host.core.take(self.agenda.now(), ns).1;
        self.agenda.put(done, Event::Wanted { server, wish });
    }

    /// The server has looked at a request to read.
    pub fn wanted(&mut self, server: u16, wish: Wish) {
        let Wish { file, local, len, .. } = wish;
        self.pass(wish.client, server, file, local, len);
        if self.setup.write {
            return self.store(server, Job { file, local, len, what: What::Read(wish) });
        }
        let part = local / self.part_bytes();
        self.load(server, file, part);
        self.load(server, file, part + 1);
        match self.servers[usize::from(server)].parts.get_mut(&(file, part)) {
            Some(Part::Coming(wishes)) => wishes.push(wish),
            _ => self.deliver(server, &wish),
        }
    }

    /// What a server reads at a time: whole stripes.
    fn part_bytes(&self) -> u64 {
        let stripe = self.setup.stripe;
        (self.setup.machine.server_ahead / stripe).max(1) * stripe
    }

    /// Begins to read a part of a file, if it is one and it is not there.
    fn load(&mut self, server: u16, file: FileId, part: u64) {
        let len = self.part_bytes();
        let end = self.striping.local_end(pario_types::ServerId(server), self.work.size(self.call));
        let local = part * len;
        let parts = &mut self.servers[usize::from(server)].parts;
        if local < end && !parts.contains_key(&(file, part)) {
            parts.insert((file, part), Part::Coming(Vec::new()));
            let len = len.min(end - local);
            self.store(server, Job { file, local, len, what: What::Load(part) });
        }
    }

    /// Sends a client what it wants.
    fn deliver(&mut self, server: u16, wish: &Wish) {
        let (machine, now) = (&self.setup.machine, self.agenda.now());
        let host = &mut self.servers[usize::from(server)];
        let carried = host.outward.take(now, span(wish.len, machine.server_rate)).1;
        let inlet = &mut self.clients[wish.client as usize].inlet;
        let taken = inlet.take(now, span(wish.len, machine.client_rate)).1;
        self.messages.data += 1;
        let at = carried.max(taken) + self.latency();
        self.agenda.put(at, Event::Received { client: wish.client, request: wish.request });
    }

    /// Storage has one more thing to do.
    fn store(&mut self, server: u16, job: Job) {
        self.servers[usize::from(server)].later.push_back(job);
        self.work_on(server);
    }

    fn work_on(&mut self, server: u16) {
        let machine = &self.setup.machine;
        let host = &mut self.servers[usize::from(server)];
        if host.current.is_some() {
            return;
        }
        let Some(job) = host.pick(machine.storage_queue) else { return };
        let mut ns = span(job.len, machine.storage_rate);
        if host.head != (job.file, job.local) {
            host.seeks += 1;
            ns += machine.seek_time;
        }
        host.head = (job.file, job.local + job.len);
        host.current = Some(job);
        let ns = self.about(ns);
        self.agenda.put(self.agenda.now() + ns, Event::Stored(server));
    }

    /// Storage has done what it did: who waits for that is told.
    pub fn stored(&mut self, server: u16) {
        let host = &mut self.servers[usize::from(server)];
        let job = host.current.take().expect("it worked on something");
        match job.what {
            What::Write(piece) => {
                self.messages.data += 1;
                let at = self.agenda.now() + self.latency();
                self.agenda.put(at, Event::Known(piece));
            }
            What::Read(wish) => self.deliver(server, &wish),
            What::Load(part) => {
                if let Some(Part::Coming(wishes)) = host.parts.insert((job.file, part), Part::Here) {
                    wishes.iter().for_each(|wish| self.deliver(server, wish));
                }
            }
        }
        self.work_on(server);
    }
}
