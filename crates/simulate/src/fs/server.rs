//! A server: its link, its processor, a buffer for what is written, and storage that takes what lies next.

use std::collections::{BTreeMap, VecDeque};

use pario_locks::Extent;
use pario_units::FileId;

use super::{Event, Run};
use crate::agenda::Time;
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
    pub fn extent(&self) -> Extent {
        Extent::new(self.place, self.place + self.len).expect("a piece has bytes")
    }
}

/// Something for a server's storage to do.
#[derive(Clone, Debug)]
pub struct Job {
    pub file: FileId,
    pub local: u64,
    pub len: u64,
    /// Who reads it and the number of the request; `None` if it is written.
    pub reader: Option<(u32, u64)>,
}

#[derive(Debug, Default)]
pub struct Server {
    pub inward: Link,
    outward: Link,
    core: Link,
    /// Bytes in the buffer, and pieces that wait for room there.
    buffered: u64,
    waiting: VecDeque<Piece>,
    /// What storage has to do: reads as they came, and when there are none, writes by place.
    reads: VecDeque<Job>,
    writes: BTreeMap<(FileId, u64, u64), Job>,
    queued: u64,
    /// What it does now, and since when.
    current: Option<(Job, Time)>,
    /// Where it is.
    head: (FileId, u64),
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

    /// A read, or the write that lies next to where storage is, upwards and then from the beginning.
    fn pick(&mut self) -> Option<Job> {
        if let Some(read) = self.reads.pop_front() {
            return Some(read);
        }
        let (file, local) = self.head;
        let next = self.writes.range((file, local, 0)..).next().or_else(|| self.writes.iter().next());
        let key = *next?.0;
        self.writes.remove(&key)
    }
}

impl Run<'_> {
    /// A piece has arrived.
    pub fn arrived(&mut self, piece: Piece) {
        let ns = self.about(self.setup.machine.request_time);
        let done = self.servers[usize::from(piece.server)].core.take(self.agenda.now(), ns).1;
        self.agenda.put(done, Event::Taken(piece));
    }

    /// The server has looked at a piece: it goes to the buffer when there is room.
    pub fn taken(&mut self, piece: Piece) {
        let server = usize::from(piece.server);
        self.servers[server].meets(piece.client);
        self.servers[server].waiting.push_back(piece);
        self.admit(server);
    }

    fn admit(&mut self, server: usize) {
        let room = self.setup.machine.server_buffer;
        loop {
            let host = &mut self.servers[server];
            let fits = |piece: &Piece| host.buffered == 0 || host.buffered + piece.len <= room;
            if !host.waiting.front().is_some_and(fits) {
                break;
            }
            let piece = host.waiting.pop_front().expect("just seen");
            host.buffered += piece.len;
            let job = Job { file: piece.file, local: piece.local, len: piece.len, reader: None };
            self.messages.data += 1;
            let at = self.agenda.now() + self.latency();
            self.agenda.put(at, Event::Known(piece));
            self.queued(server as u16, job);
        }
    }

    /// A request to read has arrived.
    pub fn asked(&mut self, server: u16, job: Job) {
        let ns = self.about(self.setup.machine.request_time);
        let host = &mut self.servers[usize::from(server)];
        if let Some((client, _)) = job.reader {
            host.meets(client);
        }
        let done = host.core.take(self.agenda.now(), ns).1;
        self.agenda.put(done, Event::Queued { server, job });
    }

    /// Storage has one more thing to do.
    pub fn queued(&mut self, server: u16, job: Job) {
        let host = &mut self.servers[usize::from(server)];
        host.queued += 1;
        match job.reader {
            Some(_) => host.reads.push_back(job),
            None => {
                host.writes.insert((job.file, job.local, host.queued), job);
            }
        }
        self.work_on(server);
    }

    fn work_on(&mut self, server: u16) {
        let host = &mut self.servers[usize::from(server)];
        if host.current.is_some() {
            return;
        }
        let Some(job) = host.pick() else { return };
        let machine = &self.setup.machine;
        let mut ns = span(job.len, machine.storage_rate);
        if host.head != (job.file, job.local) {
            host.seeks += 1;
            ns += machine.seek_time;
        }
        let now = self.agenda.now();
        host.head = (job.file, job.local + job.len);
        host.current = Some((job, now));
        let ns = self.about(ns);
        self.agenda.put(now + ns, Event::Stored(server));
    }

    /// Storage has done what it did: a read goes to its client as it comes, a write makes room.
    pub fn stored(&mut self, server: u16) {
        let machine = &self.setup.machine;
        let host = &mut self.servers[usize::from(server)];
        let (job, began) = host.current.take().expect("it worked on something");
        match job.reader {
            None => host.buffered -= job.len,
            Some((client, request)) => {
                let carried = host.outward.take(began, span(job.len, machine.server_rate)).1;
                let inlet = &mut self.clients[client as usize].inlet;
                let taken = inlet.take(began, span(job.len, machine.client_rate)).1;
                self.messages.data += 1;
                let at = carried.max(taken).max(self.agenda.now()) + self.latency();
                self.agenda.put(at, Event::Received { client, request });
            }
        }
        self.admit(usize::from(server));
        self.work_on(server);
    }
}
