//! The other servers of the partition: requests that came through the wrong door go on to them.
//!
//! A few threads of their own take such requests along, so that no worker waits for another server: two servers
//! whose clients all chose the wrong one would otherwise wait for each other. A forwarded request is marked and not
//! forwarded again.

use std::collections::{HashMap, VecDeque};
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use pario_transport::{Address, Connection, SocketOptions, fresh_client};
use pario_types::{ClientId, FileId, RequestId, ServerId};
use pario_wire::greeting::{Hello, Role};
use pario_wire::{Envelope, Reply, Request};

use crate::config::Config;
use crate::core::{Core, lock};
use crate::error::{Error, Result};

/// Requests that may wait for a forwarder, and their bytes.
const MOST_JOBS: usize = 1024;
const MOST_BYTES: usize = 64 << 20;

/// Threads that forward.
pub(crate) const FORWARDERS: usize = 2;

pub(crate) struct Peers {
    config: Config,
    client: ClientId,
    addresses: Mutex<Vec<Vec<Address>>>,
    queue: Mutex<Queue>,
    more: Condvar,
    requests: AtomicU64,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    bytes: usize,
    stopped: bool,
}

struct Job {
    /// The session that waits for it; 0: nobody does.
    session: u64,
    envelope: Envelope,
    request: Request,
    payload: Vec<u8>,
}

/// A thread's connections to other servers.
#[derive(Default)]
pub(crate) struct Links(HashMap<ServerId, Connection>);

impl Peers {
    pub fn new(config: &Config) -> Result<Peers> {
        Ok(Peers {
            config: config.clone(),
            client: fresh_client().map_err(|e| Error::System("a random number", e))?,
            addresses: Mutex::new(vec![Vec::new(); usize::from(config.servers)]),
            queue: Mutex::default(),
            more: Condvar::new(),
            requests: AtomicU64::new(1),
        })
    }

    /// Where each server is to be found.
    pub fn set_addresses(&self, addresses: Vec<Vec<Address>>) {
        *lock(&self.addresses) = addresses;
    }

    /// The client that this server is to the others.
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// Whether somebody has said where they are.
    pub fn are_known(&self) -> bool {
        lock(&self.addresses).iter().all(|addresses| !addresses.is_empty())
    }

    /// Has a request of a session taken to the server that it is for.
    pub fn forward(
        &self,
        session: u64,
        client: ClientId,
        envelope: Envelope,
        request: Request,
        payload: Vec<u8>,
    ) -> Result<()> {
        if envelope.origin.is_some() || envelope.server.0 >= self.config.servers {
            return Err(Error::BadRequest("server"));
        }
        let envelope = Envelope { origin: Some(client), ..envelope };
        self.put(Job { session, envelope, request, payload })
    }

    /// Tells the metadata server that files which a client opened through this door are closed.
    pub fn close(&self, client: ClientId, files: Vec<FileId>) {
        for file in files {
            let request = Request::Close { file, wrote: None };
            let id = RequestId(self.requests.fetch_add(1, Ordering::Relaxed));
            let envelope = Envelope { server: self.config.metadata, id, origin: Some(client) };
            // If the queue is full the metadata server hears of it when it starts again.
            let _ = self.put(Job { session: 0, envelope, request, payload: Vec::new() });
        }
    }

    fn put(&self, job: Job) -> Result<()> {
        let mut queue = lock(&self.queue);
        if queue.stopped {
            return Err(Error::Ending);
        }
        if queue.jobs.len() >= MOST_JOBS || queue.bytes + job.payload.len() > MOST_BYTES {
            return Err(Error::Busy);
        }
        queue.bytes += job.payload.len();
        queue.jobs.push_back(job);
        self.more.notify_one();
        Ok(())
    }

    pub fn stop(&self) {
        lock(&self.queue).stopped = true;
        self.more.notify_all();
    }

    /// A forwarder's life.
    pub fn run(&self, core: &Core) {
        let mut links = Links::default();
        while let Some(job) = self.take() {
            core.config.panic_if_told("forwarder");
            let outcome = self.call(&mut links, job.envelope, &job.request, &job.payload);
            core.deliver(job.session, |session| session.answer(core, &job.request, outcome));
        }
    }

    fn take(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.stopped {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                queue.bytes -= job.payload.len();
                return Some(job);
            }
            queue = self.more.wait(queue).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Asks another server in this server's own name.
    pub fn ask(&self, links: &mut Links, server: ServerId, request: &Request) -> Result<Reply> {
        let id = RequestId(self.requests.fetch_add(1, Ordering::Relaxed));
        let (reply, _) = self.call(links, Envelope::new(server, id), request, &[])?;
        match reply {
            Reply::Failed(failure) => Err(Error::Elsewhere(failure)),
            reply => Ok(reply),
        }
    }

    /// Asks another server. A connection that turns out to be dead is made anew, once.
    fn call(
        &self,
        links: &mut Links,
        envelope: Envelope,
        request: &Request,
        payload: &[u8],
    ) -> Result<(Reply, Vec<u8>)> {
        let deadline = Instant::now() + self.config.deadline;
        let fresh = !links.0.contains_key(&envelope.server);
        match self.call_once(links, envelope, request, payload, deadline) {
            Err(Error::Transport(_)) if !fresh => self.call_once(links, envelope, request, payload, deadline),
            outcome => outcome,
        }
    }

    fn call_once(
        &self,
        links: &mut Links,
        envelope: Envelope,
        request: &Request,
        payload: &[u8],
        deadline: Instant,
    ) -> Result<(Reply, Vec<u8>)> {
        let mut link = match links.0.remove(&envelope.server) {
            Some(link) => link,
            None => self.connect(envelope.server, deadline)?,
        };
        let mut answer = vec![0; request.reply_payload() as usize];
        let sent = [IoSlice::new(payload)];
        let reply = link.call(envelope, request, &sent, &mut [IoSliceMut::new(&mut answer)], deadline)?;
        links.0.insert(envelope.server, link);
        if !matches!(reply, Reply::Data { .. }) {
            answer.clear();
        }
        Ok((reply, answer))
    }

    fn connect(&self, server: ServerId, deadline: Instant) -> Result<Connection> {
        let addresses = lock(&self.addresses).get(usize::from(server.0)).cloned().unwrap_or_default();
        let hello = Hello {
            partition: self.config.partition,
            server,
            servers: self.config.servers,
            client: self.client,
            program: self.client.0 as u64,
            role: Role::Peer,
            resume_ledger: None,
        };
        let mut last = None;
        for address in &addresses {
            match Connection::connect(
                address,
                &SocketOptions::default(),
                &hello,
                &self.config.secret,
                deadline,
            ) {
                Ok((connection, _, _)) => return Ok(connection),
                Err(e) => last = Some(e),
            }
        }
        Err(last.map_or(Error::NoAddress(server), Error::Transport))
    }
}
