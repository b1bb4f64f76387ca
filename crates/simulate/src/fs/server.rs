//! A server: its link, its processor, and storage that takes the nearest request.
//!
//! A server acknowledges a write when it is on storage, because servers of these file systems have no volatile write cache.
//! Reads come from a server's memory: it reads a large part of a file at a time, and starts with the next part when a
//! client requests the part before. While the program writes, reads go to storage and are not cached.

use std::collections::{BTreeMap, VecDeque};

use pario_locks::LockExtent;
use pario_types::FileId;

use super::{Event, Run};
use crate::link::{Link, transfer_ns};

/// Bytes of one stripe on their way from a client to a server.
#[derive(Clone, Debug)]
pub struct Piece {
    pub number: u64,
    pub client: u32,
    pub server: u16,
    /// The manager whose lock covers it, and its offset for that manager.
    pub manager: u32,
    pub file: FileId,
    pub local: u64,
    pub place: u64,
    pub len: u64,
}

impl Piece {
    /// Returns its extent, for its lock manager.
    pub fn extent(&self) -> LockExtent {
        LockExtent::new(self.place, self.place + self.len).expect("a piece has bytes")
    }
}

/// Bytes of one stripe that a client wants to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    pub client: u32,
    pub request: u64,
    pub file: FileId,
    pub local: u64,
    pub len: u64,
}

/// A job of a server's storage.
#[derive(Debug)]
struct Job {
    file: FileId,
    local: u64,
    len: u64,
    kind: JobKind,
}

#[derive(Debug)]
enum JobKind {
    Write(Piece),
    /// A read for this client alone.
    Read(ReadRequest),
    /// A part of the file, for all clients.
    Load(u64),
}

/// A part of a file at a server.
#[derive(Debug)]
enum FilePart {
    /// Storage is reading it; these requests wait for it.
    Loading(Vec<ReadRequest>),
    Loaded,
}

#[derive(Debug, Default)]
pub struct Server {
    pub inward: Link,
    outward: Link,
    core: Link,
    /// The jobs from which storage chooses, by offset, and the jobs behind them.
    near: BTreeMap<(FileId, u64, u64), Job>,
    later: VecDeque<Job>,
    queued: u64,
    current: Option<Job>,
    /// The position of the storage.
    head: (FileId, u64),
    parts: BTreeMap<(FileId, u64), FilePart>,
    latest_client: Option<u32>,
    pub interleaved: u64,
    pub seeks: u64,
}

impl Server {
    fn count_interleaving(&mut self, client: u32) {
        if self.latest_client.replace(client).is_some_and(|latest| latest != client) {
            self.interleaved += 1;
        }
    }

    /// Returns the next job at or above the position of the storage, or else the lowest.
    fn next_job(&mut self, depth: u64) -> Option<Job> {
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
    pub fn piece_arrived(&mut self, piece: Piece) {
        let ns = self.jittered(self.setup.machine.request_time);
        let done = self.servers[usize::from(piece.server)].core.take(self.queue.now(), ns).1;
        self.queue.schedule(done, Event::PieceProcessed(piece));
    }

    /// The server has processed a piece: it goes to storage.
    pub fn piece_processed(&mut self, piece: Piece) {
        let server = piece.server;
        self.servers[usize::from(server)].count_interleaving(piece.client);
        let (file, local, len) = (piece.file, piece.local, piece.len);
        self.access_under_lease(piece.client, server, file, local, len);
        self.store(server, Job { file, local, len, kind: JobKind::Write(piece) });
    }

    /// A read request has arrived.
    pub fn read_arrived(&mut self, server: u16, read: ReadRequest) {
        let ns = self.jittered(self.setup.machine.request_time);
        let host = &mut self.servers[usize::from(server)];
        host.count_interleaving(read.client);
        let done = host.core.take(self.queue.now(), ns).1;
        self.queue.schedule(done, Event::ReadProcessed { server, read });
    }

    /// The server has processed a read request.
    pub fn read_processed(&mut self, server: u16, read: ReadRequest) {
        let ReadRequest { file, local, len, .. } = read;
        self.access_under_lease(read.client, server, file, local, len);
        if self.setup.write {
            return self.store(server, Job { file, local, len, kind: JobKind::Read(read) });
        }
        let part = local / self.part_bytes();
        self.load(server, file, part);
        self.load(server, file, part + 1);
        match self.servers[usize::from(server)].parts.get_mut(&(file, part)) {
            Some(FilePart::Loading(reads)) => reads.push(read),
            _ => self.send_reply(server, &read),
        }
    }

    /// The number of bytes that a server reads at a time: whole stripes.
    fn part_bytes(&self) -> u64 {
        let stripe = self.setup.stripe;
        (self.setup.machine.server_ahead / stripe).max(1) * stripe
    }

    /// Starts to read a part of a file, if the file is that long and the part is not in memory.
    fn load(&mut self, server: u16, file: FileId, part: u64) {
        let len = self.part_bytes();
        let end = self.striping.local_end(pario_types::ServerId(server), self.work.size(self.call));
        let local = part * len;
        let parts = &mut self.servers[usize::from(server)].parts;
        if local < end && !parts.contains_key(&(file, part)) {
            parts.insert((file, part), FilePart::Loading(Vec::new()));
            let len = len.min(end - local);
            self.store(server, Job { file, local, len, kind: JobKind::Load(part) });
        }
    }

    /// Sends a client the bytes that it requested.
    fn send_reply(&mut self, server: u16, read: &ReadRequest) {
        let (machine, now) = (&self.setup.machine, self.queue.now());
        let host = &mut self.servers[usize::from(server)];
        let carried = host.outward.take(now, transfer_ns(read.len, machine.server_rate)).1;
        let inlet = &mut self.clients[read.client as usize].inlet;
        let taken = inlet.take(now, transfer_ns(read.len, machine.client_rate)).1;
        self.messages.data += 1;
        let at = carried.max(taken) + self.latency();
        self.queue.schedule(at, Event::ReadAnswered { client: read.client, request: read.request });
    }

    /// Adds a job for storage.
    fn store(&mut self, server: u16, job: Job) {
        self.servers[usize::from(server)].later.push_back(job);
        self.start_job(server);
    }

    fn start_job(&mut self, server: u16) {
        let machine = &self.setup.machine;
        let host = &mut self.servers[usize::from(server)];
        if host.current.is_some() {
            return;
        }
        let Some(job) = host.next_job(machine.storage_queue) else { return };
        let mut ns = transfer_ns(job.len, machine.storage_rate);
        if host.head != (job.file, job.local) {
            host.seeks += 1;
            ns += machine.seek_time;
        }
        host.head = (job.file, job.local + job.len);
        host.current = Some(job);
        let ns = self.jittered(ns);
        self.queue.schedule(self.queue.now() + ns, Event::StorageDone(server));
    }

    /// Storage has completed a job: the server answers the requests that waited for it.
    pub fn storage_done(&mut self, server: u16) {
        let host = &mut self.servers[usize::from(server)];
        let job = host.current.take().expect("it worked on something");
        match job.kind {
            JobKind::Write(piece) => {
                self.messages.data += 1;
                let at = self.queue.now() + self.latency();
                self.queue.schedule(at, Event::PieceAcknowledged(piece));
            }
            JobKind::Read(read) => self.send_reply(server, &read),
            JobKind::Load(part) => {
                if let Some(FilePart::Loading(reads)) = host.parts.insert((job.file, part), FilePart::Loaded)
                {
                    reads.iter().for_each(|read| self.send_reply(server, read));
                }
            }
        }
        self.start_job(server);
    }
}
