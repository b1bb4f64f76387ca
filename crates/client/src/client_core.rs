//! State that all files and names of a partition share in one client: the connections, the client's identity, open files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pario_runtime::sync::{Condvar, Mutex};
use pario_runtime::time::Instant;
use pario_types::{ClientId, FileId, RequestId, ServerId};
use pario_wire::greeting::Role;
use pario_wire::message::{self, OpenAccess};
use pario_wire::{Reply, Request};

use crate::client_cache::Tier1;
use crate::connection::connection_table::ConnectionTable;
use crate::connection::server_connection::{ConnectionGuard, ServerConnection, connect_all};
use crate::connection::target::{Resolve, Target};
use crate::error::{Cause, Error, Result};
use crate::io::server_pipeline::REPLACEABLE_SHARE;
use crate::metadata::table_cache::TableCache;
use crate::metadata::truncate::FailedTruncations;
use crate::metadata::unsynced::AbandonedWrites;

/// The options of a partition.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A request without a reply within this time fails. A broken connection is reestablished within it.
    pub deadline: Duration,
    /// The same for requests that write everything to storage, as long as the server answers greetings.
    pub flush_deadline: Duration,
    /// A program that uses files, or a command that inspects the partition. Only the first can map the servers' caches.
    pub role: Role,
    /// The id of the program to which this process belongs; an id of its own if there is none. Servers serve programs in
    /// turn, however many processes they have.
    pub program: Option<u64>,
    /// Reaches servers of this host as if they were on others, if they listen for those.
    pub far: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            deadline: Duration::from_secs(30),
            flush_deadline: Duration::from_secs(300),
            role: Role::Client,
            program: None,
            far: false,
        }
    }
}

/// A client's membership in a team.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Membership {
    pub team: u128,
    /// The client of this process that receives recalls.
    pub mailbox: ClientId,
}

pub(crate) struct ClientCore {
    pub name: String,
    pub metadata: ServerId,
    pub options: Options,
    pub client: ClientId,
    pub connections: ConnectionTable,
    /// The team that this client joins at every server.
    pub team: Option<Membership>,
    resolver: Arc<dyn Resolve>,
    target: Mutex<Target>,
    /// The most bytes of data in one message, as the partition's description has it.
    network_buffer: AtomicU64,
    requests: AtomicU64,
    /// Files that the metadata server has to keep open for this client: from the reply to an open to that to its close.
    opens: Mutex<BTreeMap<FileId, Vec<OpenAccess>>>,
    /// Of them those that it did not keep open.
    gone: Mutex<BTreeSet<FileId>>,
    /// Files of which a thread has locked a range, or waits for that.
    locking: Mutex<BTreeSet<FileId>>,
    unlocked: Condvar,
    pub tables: TableCache,
    pub failed_truncations: FailedTruncations,
    /// The number of times that any server lost its pool.
    losses: AtomicU64,
    /// Writes of handles that were dropped without a close.
    pub abandoned: AbandonedWrites,
    /// Created at its first use.
    pub tier1: OnceLock<Tier1>,
}

impl ClientCore {
    /// `target` is the present result of the resolver.
    pub fn new(resolver: Arc<dyn Resolve>, target: Target, options: Options) -> Result<ClientCore> {
        target.check()?;
        ClientCore::of(resolver, target, options, None)
    }

    /// Another client of the same partition, with connections of its own, which belongs to a team.
    pub fn sibling(&self, role: Role, team: Option<Membership>) -> Result<ClientCore> {
        let program = self.options.program.unwrap_or(self.client.0 as u64);
        let options = Options { role, program: Some(program), ..self.options };
        ClientCore::of(Arc::clone(&self.resolver), self.target(), options, team)
    }

    fn of(
        resolver: Arc<dyn Resolve>,
        target: Target,
        options: Options,
        team: Option<Membership>,
    ) -> Result<ClientCore> {
        Ok(ClientCore {
            name: target.name.clone(),
            metadata: target.metadata,
            options,
            client: pario_transport::fresh_client().map_err(Error::Random)?,
            connections: ConnectionTable::new(),
            team,
            resolver,
            network_buffer: AtomicU64::new(target.access.network_buffer),
            target: Mutex::new(target),
            requests: AtomicU64::new(1),
            opens: Mutex::default(),
            gone: Mutex::default(),
            locking: Mutex::default(),
            unlocked: Condvar::new(),
            tables: TableCache::default(),
            failed_truncations: FailedTruncations::default(),
            losses: AtomicU64::new(0),
            abandoned: AbandonedWrites::default(),
            tier1: OnceLock::new(),
        })
    }

    pub fn servers(&self) -> impl Iterator<Item = ServerId> + use<> {
        (0..self.target.lock().servers.len() as u16).map(ServerId)
    }

    pub fn target(&self) -> Target {
        self.target.lock().clone()
    }

    /// The most bytes of data in one message, where a file has no other limit.
    pub fn network_buffer(&self) -> u64 {
        self.network_buffer.load(Ordering::Relaxed)
    }

    pub fn next_request(&self) -> RequestId {
        RequestId(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    /// Looks up the present addresses of the servers. Returns whether this server has moved.
    pub fn look_up(&self, server: ServerId) -> Result<bool> {
        // The resolver may be unavailable for a moment as well.
        let Ok(found) = self.resolver.resolve() else { return Ok(false) };
        let mut target = self.target.lock();
        let changed = |what| Err(Error::Target(format!("partition {} {what}: open it again", self.name)));
        if found.partition != target.partition {
            return changed("is another one of the same name now");
        }
        if found.epoch < target.epoch {
            return Ok(false);
        }
        let is_other = found.epoch == target.epoch && found.servers.len() != target.servers.len();
        if is_other || found.metadata != target.metadata {
            return changed("has other servers now");
        }
        let moved = found.candidates(server, self.options.far) != target.candidates(server, self.options.far);
        self.network_buffer.store(found.access.network_buffer, Ordering::Relaxed);
        *target = found;
        Ok(moved)
    }

    /// Looks up the present set of servers. If that is not possible, the known one stays.
    pub fn refresh(&self) -> Result<()> {
        self.look_up(self.metadata).map(|_| ())
    }

    /// Makes sure that so many servers are known: the set may have grown since the partition was opened.
    pub fn know_servers(&self, servers: u16) -> Result<bool> {
        let is_known = || self.target.lock().servers.len() >= usize::from(servers);
        if !is_known() {
            self.refresh()?;
        }
        Ok(is_known())
    }

    pub fn server_connection(&self, server: ServerId) -> Result<&ServerConnection> {
        match self.know_servers(server.0.saturating_add(1))? {
            true => Ok(self.connections.get(server)),
            false => Err(Error::Target(format!("partition {} has no server {server}", self.name))),
        }
    }

    /// Acquires a server's connection.
    pub fn acquire(&self, server: ServerId, deadline: Instant) -> Result<ConnectionGuard<'_>> {
        self.server_connection(server)?.acquire(self, deadline)
    }

    /// Sends a server a request. A reply with an error is an error.
    pub fn call(&self, server: ServerId, request: &Request) -> Result<Reply> {
        let since = Instant::now();
        let deadline = since + self.patience(request);
        let mut guard = self.acquire(server, deadline)?;
        succeeded(server, guard.call(self.next_request(), request, since, deadline)?)
    }

    /// The same for a request or reply with a payload.
    pub fn call_with(
        &self,
        server: ServerId,
        request: &Request,
        payload: &[u8],
        into: &mut [u8],
    ) -> Result<Reply> {
        let since = Instant::now();
        let deadline = since + self.patience(request);
        let mut guard = self.acquire(server, deadline)?;
        succeeded(server, guard.call_with(self.next_request(), request, payload, into, since, deadline)?)
    }

    /// Sends a request to a server that is not essential: it does not wait for one that is down.
    pub fn call_at_once(&self, server: ServerId, request: &Request) -> Result<Reply> {
        let since = Instant::now();
        let deadline = since + self.options.deadline / REPLACEABLE_SHARE;
        let mut guard = self.acquire(server, deadline)?;
        guard.connect_at_once(since, deadline)?;
        succeeded(server, guard.call(self.next_request(), request, since, deadline)?)
    }

    /// Sends the metadata server a request.
    pub fn call_metadata(&self, request: &Request) -> Result<Reply> {
        self.call(self.metadata, request)
    }

    /// Sends the metadata server a request that changes the open files, and does `then` before another thread can report
    /// them to it.
    pub fn call_about_opens<T>(&self, request: &Request, then: impl FnOnce(Result<Reply>) -> T) -> T {
        let since = Instant::now();
        let deadline = since + self.options.deadline;
        match self.acquire(self.metadata, deadline) {
            Ok(mut guard) => {
                let reply = guard.call(self.next_request(), request, since, deadline);
                then(reply.and_then(|reply| succeeded(self.metadata, reply)))
            }
            Err(error) => then(Err(error)),
        }
    }

    /// Sends several servers a request at the same time, each once; returns the replies in the same order.
    pub fn call_all(&self, requests: &[(ServerId, Request)]) -> Result<Vec<Reply>> {
        let since = Instant::now();
        let patience = requests.iter().map(|(_, request)| self.patience(request)).max();
        let deadline = since + patience.unwrap_or_default();
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|&index| requests[index].0);
        let twice = order.windows(2).any(|pair| requests[pair[0]].0 == requests[pair[1]].0);
        assert!(!twice, "the turn at a server can be taken once");
        let mut waiting = Vec::with_capacity(order.len());
        for index in order {
            waiting.push((index, self.acquire(requests[index].0, deadline)?, self.next_request()));
        }
        let mut replies: Vec<Option<Result<Reply>>> = requests.iter().map(|_| None).collect();
        // A request whose connection breaks meanwhile is repeated, with the same id, once all others are answered.
        while !waiting.is_empty() {
            let mut guard: Vec<&mut ConnectionGuard<'_>> =
                waiting.iter_mut().map(|(_, guard, _)| guard).collect();
            let mut sent = Vec::with_capacity(guard.len());
            for (connected, (index, guard, id)) in
                connect_all(&mut guard, since, deadline).into_iter().zip(&mut waiting)
            {
                sent.push(connected.map(|()| guard.send(*id, &requests[*index].1, &[], deadline)));
            }
            let asked = std::mem::take(&mut waiting).into_iter().zip(sent);
            for ((index, mut guard, id), sent) in asked {
                let received = sent.map(|sent| sent.and_then(|()| guard.receive_late(deadline)));
                replies[index] = match received {
                    Ok(Ok(reply)) => Some(succeeded(requests[index].0, reply)),
                    Ok(Err(error)) => match guard.end_connection(error, since, deadline) {
                        Ok(()) => {
                            waiting.push((index, guard, id));
                            None
                        }
                        Err(error) => Some(Err(error)),
                    },
                    Err(error) => Some(Err(error)),
                };
            }
        }
        replies.into_iter().map(|reply| reply.expect("every server was asked")).collect()
    }

    fn patience(&self, request: &Request) -> Duration {
        match request {
            Request::Sync { .. } | Request::Shutdown => self.options.flush_deadline,
            _ => self.options.deadline,
        }
    }

    /// The number of times that any server restarted without the content of its pool.
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    pub fn count_loss(&self) {
        self.losses.fetch_add(1, Ordering::Release);
    }

    /// Waits until no other thread locks a range of the file. A thread that waits for a server's lock occupies the connection,
    /// which the holder of the lock needs for its unlock request.
    pub fn begin_locking(&self, file: FileId) -> Result<()> {
        let begun = Instant::now();
        let busy = |locking: &mut BTreeSet<FileId>| locking.contains(&file);
        let mut locking = self.locking.lock();
        let outcome = self.unlocked.wait_while_for(&mut locking, busy, self.options.deadline);
        if outcome.timed_out() {
            return Err(Error::Contended { file, waited: begun.elapsed() });
        }
        locking.insert(file);
        Ok(())
    }

    /// After the unlock.
    pub fn end_locking(&self, file: FileId) {
        self.locking.lock().remove(&file);
        self.unlocked.notify_all();
    }

    /// The file is open once more.
    pub fn opened(&self, file: FileId, access: OpenAccess) {
        self.opens.lock().entry(file).or_default().push(access);
    }

    /// The file is open once less.
    pub fn closed(&self, file: FileId, access: OpenAccess) {
        let mut opens = self.opens.lock();
        let Some(all) = opens.get_mut(&file) else { return };
        if let Some(index) = all.iter().position(|one| *one == access) {
            all.swap_remove(index);
        }
        if all.is_empty() {
            opens.remove(&file);
            self.gone.lock().remove(&file);
        }
    }

    /// Returns every open of a file here.
    pub fn open_files(&self) -> Vec<message::OpenFileEntry> {
        let opens = self.opens.lock();
        let each = |(file, all): (&FileId, &Vec<OpenAccess>)| {
            let file = *file;
            all.iter().map(|access| message::OpenFileEntry { file, access: *access }).collect::<Vec<_>>()
        };
        opens.iter().flat_map(each).collect()
    }

    /// The metadata server has dropped these files: they had no name any more, and it took this client for gone.
    pub fn mark_gone(&self, files: &[FileId]) {
        self.gone.lock().extend(files);
    }

    pub fn check_not_gone(&self, file: FileId) -> Result<()> {
        if self.gone.lock().contains(&file) { Err(Error::Gone(file)) } else { Ok(()) }
    }

    pub fn unreachable(&self, server: ServerId, since: Instant, cause: Cause) -> Error {
        Error::Unreachable { partition: self.name.clone(), server, waited: since.elapsed(), cause }
    }

    pub fn refused(&self, server: ServerId, cause: pario_transport::Error) -> Error {
        Error::Refused { partition: self.name.clone(), server, cause }
    }
}

/// Turns a reply with an error into an error.
pub(crate) fn succeeded(server: ServerId, reply: Reply) -> Result<Reply> {
    match reply {
        Reply::Failed(failure) => Err(Error::Server { server, failure }),
        reply => Ok(reply),
    }
}

/// The error for a reply of the wrong kind.
pub(crate) fn unexpected(server: ServerId, request: &Request, reply: &Reply) -> Error {
    Error::Unexpected { server, asked: request.name(), answered: reply.name() }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::mpsc;

    use pario_transport::Address;
    use pario_types::PartitionId;
    use pario_wire::Secret;

    use super::*;

    /// Servers that close every connection: all of them are tried in turn until the one deadline is over, and not one after
    /// the other, each for its own.
    #[test]
    fn unreachable_servers_are_waited_for_at_the_same_time() {
        let (sent_views, attempts) = mpsc::channel();
        let listeners: Vec<TcpListener> =
            (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
        let port = |listener: &TcpListener| listener.local_addr().expect("bound").port();
        let at = |listener| vec![Address::Tcp("127.0.0.1".into(), port(listener))];
        let target = Target {
            name: "trial".into(),
            partition: PartitionId(1),
            secret: Secret::new([7; 32]),
            servers: listeners.iter().map(at).collect(),
            epoch: pario_types::Epoch(0),
            metadata: ServerId(0),
            access: pario_types::AccessDefaults::default(),
        };
        for (server, listener) in listeners.into_iter().enumerate() {
            let sent_views = sent_views.clone();
            std::thread::spawn(move || {
                for caller in listener.incoming() {
                    let _ = caller.and_then(|mut caller| caller.read(&mut [0; 8]));
                    if sent_views.send(server).is_err() {
                        break;
                    }
                }
            });
        }
        let options = Options { deadline: Duration::from_secs(1), ..Options::default() };
        let core = ClientCore::new(Arc::new(target.clone()), target, options).expect("sound");
        let all = Request::Sync { file: FileId(1), durable: true };
        let requests: Vec<_> = core.servers().map(|server| (server, all.clone())).collect();
        let error = core.call_all(&requests).expect_err("nobody answers");
        assert_eq!(error.kind(), pario_types::ErrorKind::Unreachable, "{error}");
        let attempts: Vec<usize> = attempts.try_iter().collect();
        let first = attempts.iter().position(|server| *server == 2).expect("the last one was tried");
        assert!(attempts[first..].contains(&0), "and the first one after it: {attempts:?}");
    }
}
