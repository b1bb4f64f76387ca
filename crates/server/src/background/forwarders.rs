//! The other servers of the partition, and the threads that forward requests to them.
//!
//! A client may send a request for one server to another. A few threads forward such requests, so that no worker waits for another
//! server: otherwise two servers whose clients all use the other one would wait for each other. A forwarded request is marked and not
//! forwarded again.

use std::collections::{HashMap, VecDeque};
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};

use pario_runtime::sync::{Condvar, Mutex};
use pario_runtime::time::Instant;
use pario_transport::{Address, Connection, SocketOptions, fresh_client};
use pario_types::{ClientId, Epoch, FileId, RequestId, ServerId};
use pario_wire::greeting::{Hello, Role};
use pario_wire::{Envelope, Reply, Request};

use crate::config::Config;
use crate::core::Core;
use crate::error::{Error, Result};

/// The largest number of requests that wait for a forwarder, and of their bytes.
const MAX_JOBS: usize = 1024;
const MAX_BYTES: usize = 64 << 20;

/// The number of forwarder threads.
pub(crate) const FORWARDERS: usize = 2;

pub(crate) struct Peers {
    config: Config,
    client: ClientId,
    known: Mutex<KnownServers>,
    queue: Mutex<Queue>,
    /// Wakes the forwarders.
    changed: Condvar,
    requests: AtomicU64,
}

/// The servers of the partition, as far as this server was told.
struct KnownServers {
    epoch: Epoch,
    /// The addresses of each server.
    addresses: Vec<Vec<Address>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<ForwardJob>,
    bytes: usize,
    stopped: bool,
}

struct ForwardJob {
    /// The session that waits for the reply; 0: none does.
    session: u64,
    envelope: Envelope,
    request: Request,
    payload: Vec<u8>,
}

/// A thread's connections to other servers.
#[derive(Default)]
pub(crate) struct PeerConnections(HashMap<ServerId, Connection>);

impl Peers {
    pub fn new(config: &Config) -> Result<Peers> {
        Ok(Peers {
            config: config.clone(),
            client: fresh_client().map_err(|e| Error::System("a random number", e))?,
            known: Mutex::new(KnownServers {
                epoch: config.epoch,
                addresses: vec![Vec::new(); usize::from(config.servers)],
            }),
            queue: Mutex::default(),
            changed: Condvar::new(),
            requests: AtomicU64::new(1),
        })
    }

    /// Sets the addresses of each server.
    pub fn set_addresses(&self, addresses: Vec<Vec<Address>>) {
        self.known.lock().addresses = addresses;
    }

    /// Replaces the set of servers.
    pub fn set_servers(&self, epoch: Epoch, addresses: Vec<Vec<Address>>) {
        *self.known.lock() = KnownServers { epoch, addresses };
    }

    /// The version of the set of servers.
    pub fn epoch(&self) -> Epoch {
        self.known.lock().epoch
    }

    /// The client id of this server at the others.
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// Whether the addresses of all servers are known.
    pub fn are_known(&self) -> bool {
        self.known.lock().addresses.iter().all(|addresses| !addresses.is_empty())
    }

    /// Queues a request of a session for the server that it names.
    pub fn forward(
        &self,
        session: u64,
        client: ClientId,
        envelope: Envelope,
        request: Request,
        payload: Vec<u8>,
    ) -> Result<()> {
        let servers = self.known.lock().addresses.len();
        if envelope.origin.is_some() || usize::from(envelope.server.0) >= servers {
            return Err(Error::BadRequest("server"));
        }
        let envelope = Envelope { origin: Some(client), ..envelope };
        self.put(ForwardJob { session, envelope, request, payload })
    }

    /// Closes at the metadata server the files that a client opened through this server.
    pub fn close(&self, client: ClientId, files: Vec<FileId>) {
        for file in files {
            let request = Request::Close { file, wrote: None };
            let id = RequestId(self.requests.fetch_add(1, Ordering::Relaxed));
            let envelope = Envelope { server: self.config.metadata, id, origin: Some(client) };
            // If the queue is full, the files count as open until the metadata server starts again.
            let _ = self.put(ForwardJob { session: 0, envelope, request, payload: Vec::new() });
        }
    }

    fn put(&self, job: ForwardJob) -> Result<()> {
        let mut queue = self.queue.lock();
        if queue.stopped {
            return Err(Error::Ending);
        }
        if queue.jobs.len() >= MAX_JOBS || queue.bytes + job.payload.len() > MAX_BYTES {
            return Err(Error::Busy);
        }
        queue.bytes += job.payload.len();
        queue.jobs.push_back(job);
        self.changed.notify_one();
        Ok(())
    }

    pub fn stop(&self) {
        self.queue.lock().stopped = true;
        self.changed.notify_all();
    }

    /// The main function of a forwarder.
    pub fn run_forwarder(&self, core: &Core) {
        let mut connections = PeerConnections::default();
        while let Some(job) = self.take() {
            core.config.panic_if_requested("forwarder");
            let outcome = self.call(&mut connections, job.envelope, &job.request, &job.payload);
            core.deliver(job.session, |session| session.receive_reply(core, &job.request, outcome));
        }
    }

    fn take(&self) -> Option<ForwardJob> {
        let mut queue = self.queue.lock();
        loop {
            if queue.stopped {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                queue.bytes -= job.payload.len();
                return Some(job);
            }
            self.changed.wait(&mut queue);
        }
    }

    /// Sends a request of this server itself to another server.
    pub fn call_as_server(
        &self,
        connections: &mut PeerConnections,
        server: ServerId,
        request: &Request,
    ) -> Result<Reply> {
        let id = RequestId(self.requests.fetch_add(1, Ordering::Relaxed));
        let (reply, _) = self.call(connections, Envelope::new(server, id), request, &[])?;
        match reply {
            Reply::Failed(failure) => Err(Error::Elsewhere(failure)),
            reply => Ok(reply),
        }
    }

    /// Sends a request to another server and receives the reply. If an existing connection has broken, it connects again, once.
    fn call(
        &self,
        connections: &mut PeerConnections,
        envelope: Envelope,
        request: &Request,
        payload: &[u8],
    ) -> Result<(Reply, Vec<u8>)> {
        let deadline = Instant::now() + self.config.deadline;
        let is_new = !connections.0.contains_key(&envelope.server);
        match self.call_once(connections, envelope, request, payload, deadline) {
            Err(Error::Transport(_)) if !is_new => {
                self.call_once(connections, envelope, request, payload, deadline)
            }
            outcome => outcome,
        }
    }

    fn call_once(
        &self,
        connections: &mut PeerConnections,
        envelope: Envelope,
        request: &Request,
        payload: &[u8],
        deadline: Instant,
    ) -> Result<(Reply, Vec<u8>)> {
        let mut connection = match connections.0.remove(&envelope.server) {
            Some(connection) => connection,
            None => self.connect(envelope.server, deadline)?,
        };
        let mut answer = vec![0; request.reply_payload() as usize];
        let sent = [IoSlice::new(payload)];
        let reply =
            connection.call(envelope, request, &sent, &mut [IoSliceMut::new(&mut answer)], deadline)?;
        connections.0.insert(envelope.server, connection);
        if !matches!(reply, Reply::Data { .. }) {
            answer.clear();
        }
        Ok((reply, answer))
    }

    fn connect(&self, server: ServerId, deadline: Instant) -> Result<Connection> {
        let (addresses, servers, epoch) = {
            let known = self.known.lock();
            let addresses = known.addresses.get(usize::from(server.0)).cloned().unwrap_or_default();
            (addresses, known.addresses.len() as u16, known.epoch)
        };
        let hello = Hello {
            partition: self.config.partition,
            server,
            servers,
            epoch,
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
