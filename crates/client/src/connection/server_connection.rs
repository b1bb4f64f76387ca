//! One server from the view of this process: a connection that its threads share, and the server's pool if it is mapped.
//!
//! A thread acquires the connection, sends and receives, and reconnects when the connection breaks. Hits in the pool do not need
//! the connection. A thread acquires the connections of several servers in the order of their numbers.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pario_runtime::sync::{Condvar, Mutex, RwLock, RwLockReadGuard};
use pario_runtime::time::Instant;
use pario_transport::{Connection, SocketOptions, is_forked};
use pario_types::{RequestId, Retry, ServerId};
use pario_wire::greeting::{Hello, Role, Welcome};
use pario_wire::message::Failure;
use pario_wire::{Envelope, Reply, Request};

use crate::client_core::{ClientCore, Membership, unexpected};
use crate::connection::mapped_pool::MappedPool;
use crate::connection::target::Target;
use crate::error::{Cause, Error, Result};

/// The pause between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The time for which other replicas are used instead of a server that could not be reached.
const DOWN: Duration = Duration::from_secs(3);

/// The time limit of one attempt to connect: the server may have moved by then.
const ATTEMPT: Duration = Duration::from_secs(5);

/// The number of greetings to the server, per time of an ordinary request, while a request takes long.
const SIGNS_OF_LIFE: u32 = 3;

/// A host that was silent for the time of a request is taken to be gone, but not before this.
const LEAST_SILENCE: Duration = Duration::from_secs(1);

pario_runtime::thread_local! {
    static REQUEST_COUNTS: Cell<RequestCounts> = const { Cell::new(RequestCounts { requests: 0, bytes: 0 }) };
}

/// Counters of requests to servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests.
    pub requests: u64,
    /// Bytes of payload of the requests and their replies.
    pub bytes: u64,
}

impl RequestCounts {
    /// The counters of this thread since its start.
    pub fn by_this_thread() -> RequestCounts {
        REQUEST_COUNTS.get()
    }

    /// The difference since an earlier value.
    pub fn since(self, earlier: RequestCounts) -> RequestCounts {
        RequestCounts { requests: self.requests - earlier.requests, bytes: self.bytes - earlier.bytes }
    }

    fn count(requests: u64, bytes: usize) {
        let RequestCounts { requests: before, bytes: moved } = REQUEST_COUNTS.get();
        REQUEST_COUNTS.set(RequestCounts { requests: before + requests, bytes: moved + bytes as u64 });
    }
}

/// The largest number of views that are remembered as sent.
const MOST_SENT_VIEWS: usize = 1024;

/// A server.
pub(crate) struct ServerConnection {
    pub server: ServerId,
    turn: Mutex<Option<ConnectionState>>,
    given_back: Condvar,
    pool: RwLock<Option<MappedPool>>,
    /// The number of times that the server restarted without the content of its pool.
    losses: AtomicU64,
    /// Whether it was ever reached, so that it is known whether it has a pool for this client.
    reached: AtomicBool,
    /// The time until which other replicas are used instead, where there are some.
    down: Mutex<Option<Instant>>,
}

/// The connection, and the state of the server. A [`ConnectionGuard`] takes it.
#[derive(Default)]
struct ConnectionState {
    connection: Option<Connection>,
    /// This client's ledger in the pool, also of an earlier connection.
    ledger: Option<u32>,
    /// The id of the server's cache, if it was ever reached.
    cache: Option<u64>,
    /// Hashes of views that were sent on this connection.
    sent_views: BTreeSet<u128>,
}

/// Exclusive use of a server's connection.
pub(crate) struct ConnectionGuard<'a> {
    core: &'a ClientCore,
    pub server_connection: &'a ServerConnection,
    state: ConnectionState,
    /// The request that is sent again if the connection breaks; 0 if there is none.
    repeated: RequestId,
}

/// The reason why an attempt failed.
enum ConnectError {
    /// A later attempt may succeed.
    Retryable(Cause),
    /// It will fail again, unless the server has moved.
    Permanent(Error),
}

impl ConnectError {
    /// A server that is about to end refuses all connections for a moment; its successor does not.
    fn of(server: ServerId, failure: Failure) -> ConnectError {
        match failure.kind.retry() {
            Retry::Never => ConnectError::Permanent(Error::Server { server, failure }),
            _ => ConnectError::Retryable(Cause::Server(failure)),
        }
    }
}

impl ServerConnection {
    pub fn new(server: ServerId) -> ServerConnection {
        ServerConnection {
            server,
            turn: Mutex::new(Some(ConnectionState::default())),
            given_back: Condvar::new(),
            pool: RwLock::new(None),
            losses: AtomicU64::new(0),
            reached: AtomicBool::new(false),
            down: Mutex::new(None),
        }
    }

    /// The pool, if it is mapped. Hold it only for copying, and do not acquire the connection meanwhile.
    pub fn pool(&self) -> RwLockReadGuard<'_, Option<MappedPool>> {
        self.pool.read()
    }

    pub fn was_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// The server did not answer just now.
    pub fn mark_down(&self) {
        *self.down.lock() = Some(Instant::now() + DOWN);
    }

    /// Whether that was a moment ago.
    pub fn is_down(&self) -> bool {
        self.down.lock().is_some_and(|until| Instant::now() < until)
    }

    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// Waits until no other thread uses the connection.
    pub fn acquire<'a>(&'a self, core: &'a ClientCore, deadline: Instant) -> Result<ConnectionGuard<'a>> {
        // In a forked child locks may be held by threads that exist only in the parent.
        if is_forked() {
            return Err(Error::Forked);
        }
        let since = Instant::now();
        let mut turn = self.turn.lock();
        loop {
            if let Some(state) = turn.take() {
                return Ok(ConnectionGuard { core, server_connection: self, state, repeated: RequestId(0) });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(core.unreachable(self.server, since, Cause::Taken));
            }
            self.given_back.wait_for(&mut turn, left);
        }
    }

    /// Waits until no thread copies, and replaces the pool by another one, or none. Until then the old pool serves hits: if
    /// the server was killed, its successor takes the pool over as it is.
    fn set_pool(&self, local: Option<MappedPool>) {
        *self.pool.write() = local;
    }
}

impl ConnectionGuard<'_> {
    /// Sends a request on the existing connection.
    pub fn send(
        &mut self,
        id: RequestId,
        request: &Request,
        payload: &[IoSlice<'_>],
        deadline: Instant,
    ) -> std::result::Result<(), pario_transport::Error> {
        RequestCounts::count(1, payload.iter().map(|part| part.len()).sum());
        let envelope = Envelope::new(self.server_connection.server, id);
        let connection = self.state.connection.as_mut().expect("connected before sending");
        connection.send(envelope, request, payload, deadline)
    }

    /// Receives the reply to the first unanswered request.
    pub fn receive(
        &mut self,
        into: &mut [IoSliceMut<'_>],
        deadline: Instant,
    ) -> std::result::Result<Reply, pario_transport::Error> {
        RequestCounts::count(0, into.iter().map(|part| part.len()).sum());
        let connection = self.state.connection.as_mut().expect("connected before receiving");
        connection.receive(into, deadline).map(|(_, reply)| reply)
    }

    /// The same for a request that may take long: it waits as long as the server answers greetings of other connections. A
    /// server that does not is stopped or hangs, and the wait would be useless.
    pub fn receive_late(&mut self, deadline: Instant) -> std::result::Result<Reply, pario_transport::Error> {
        let pause = self.core.options.deadline / SIGNS_OF_LIFE;
        let connection = self.state.connection.as_ref().expect("connected before receiving");
        while !connection.has_reply_by(deadline.min(Instant::now() + pause)) && Instant::now() < deadline {
            self.ask_for_sign_of_life()?;
        }
        self.receive(&mut [], deadline)
    }

    /// Fails if the server does not answer a greeting in time. Any reply is sufficient.
    fn ask_for_sign_of_life(&self) -> std::result::Result<(), pario_transport::Error> {
        let target = self.core.target();
        // Without an id for the greeting the check is not possible.
        let Ok(client) = pario_transport::fresh_client() else { return Ok(()) };
        let ours = self.hello(&target);
        // The greeting uses a client id of its own: the server must not take it for a new connection of this client.
        let hello = Hello { client, program: client.0 as u64, role: Role::Tool, resume_ledger: None, ..ours };
        let deadline = Instant::now() + ATTEMPT;
        let mut outcome = Ok(());
        for address in target.candidates(self.server_connection.server, self.core.options.far) {
            match Connection::connect(&address, &SocketOptions::default(), &hello, &target.secret, deadline) {
                Err(error @ pario_transport::Error::TimedOut { .. }) => outcome = Err(error),
                _ => return Ok(()),
            }
        }
        outcome
    }

    /// The same where the memory of the payload depends on the reply.
    pub fn receive_into<'m>(
        &mut self,
        room: impl FnOnce(&Reply) -> Vec<IoSliceMut<'m>>,
        deadline: Instant,
    ) -> std::result::Result<Reply, pario_transport::Error> {
        let connection = self.state.connection.as_mut().expect("connected before receiving");
        connection.receive_into(room, deadline).map(|(_, reply)| reply)
    }

    /// Whether a view has to be sent first. From then on it counts as sent.
    pub fn needs_view(&mut self, hash: u128) -> bool {
        if self.state.sent_views.len() >= MOST_SENT_VIEWS {
            self.state.sent_views.clear();
        }
        self.state.sent_views.insert(hash)
    }

    /// The server has dropped views.
    pub fn forget_views(&mut self) {
        self.state.sent_views.clear();
    }

    /// Closes the connection, with all its requests.
    pub fn disconnect(&mut self) {
        self.state.connection = None;
        self.state.sent_views.clear();
    }

    /// Whether there is a connection that is not known to be broken.
    pub fn is_connected(&self) -> bool {
        self.state.connection.as_ref().is_some_and(|connection| !connection.is_dead())
    }

    /// After an error on the connection: closes it; fails if another connection would not help.
    pub fn end_connection(
        &mut self,
        error: pario_transport::Error,
        since: Instant,
        deadline: Instant,
    ) -> Result<()> {
        self.disconnect();
        if error.retry() == Retry::Never {
            return Err(self.core.refused(self.server_connection.server, error));
        }
        if Instant::now() >= deadline {
            return Err(self.core.unreachable(self.server_connection.server, since, Cause::Transport(error)));
        }
        Ok(())
    }

    /// Handles an error on the connection: connects again, or fails.
    pub fn reconnect_after(
        &mut self,
        error: pario_transport::Error,
        since: Instant,
        deadline: Instant,
    ) -> Result<()> {
        self.end_connection(error, since, deadline)?;
        self.connect(since, deadline)
    }

    /// Makes sure that there is a connection.
    pub fn connect(&mut self, since: Instant, deadline: Instant) -> Result<()> {
        connect_all(&mut [self], since, deadline).pop().expect("one outcome for each")
    }

    /// Tries once to connect, if there is no connection; returns what to do if that fails.
    fn try_connect(&mut self, since: Instant, deadline: Instant) -> Result<bool> {
        if self.is_connected() {
            return Ok(true);
        }
        self.disconnect();
        let cause = match self.try_addresses(deadline) {
            Ok(()) => return Ok(true),
            Err(ConnectError::Retryable(cause)) => cause,
            Err(ConnectError::Permanent(error)) => {
                let moved = self.core.look_up(self.server_connection.server)?;
                return if moved && Instant::now() < deadline { Ok(false) } else { Err(error) };
            }
        };
        let hopeless =
            self.state.cache.is_none() && matches!(cause, Cause::NoAddress | Cause::LocalOnly { .. });
        let is_over = Instant::now() >= deadline;
        let moved = !is_over && self.core.look_up(self.server_connection.server)?;
        if is_over || hopeless && !moved {
            return Err(self.core.unreachable(self.server_connection.server, since, cause));
        }
        Ok(false)
    }

    /// The same without waiting for a server that is down.
    pub fn connect_at_once(&mut self, since: Instant, deadline: Instant) -> Result<()> {
        for again in [true, false] {
            if self.is_connected() {
                return Ok(());
            }
            self.disconnect();
            match self.try_addresses(deadline) {
                Ok(()) => return Ok(()),
                Err(_) if again && self.core.look_up(self.server_connection.server)? => {}
                Err(ConnectError::Permanent(error)) => return Err(error),
                Err(ConnectError::Retryable(cause)) => {
                    return Err(self.core.unreachable(self.server_connection.server, since, cause));
                }
            }
        }
        Err(self.core.unreachable(self.server_connection.server, since, Cause::NoAddress))
    }

    /// The greeting of this client to the server.
    fn hello(&self, target: &Target) -> Hello {
        Hello {
            partition: target.partition,
            server: self.server_connection.server,
            servers: target.servers.len() as u16,
            epoch: target.epoch,
            client: self.core.client,
            program: self.core.options.program.unwrap_or(self.core.client.0 as u64),
            role: self.core.options.role,
            resume_ledger: self.state.ledger,
        }
    }

    fn try_addresses(&mut self, deadline: Instant) -> std::result::Result<(), ConnectError> {
        let target = self.core.target();
        let hello = self.hello(&target);
        let deadline = deadline.min(Instant::now() + ATTEMPT);
        let mut trouble = ConnectError::Retryable(target.why_unusable(self.server_connection.server));
        let silence = self.core.options.deadline.max(LEAST_SILENCE);
        let tuning = SocketOptions { silence, ..SocketOptions::default() };
        for address in target.candidates(self.server_connection.server, self.core.options.far) {
            match Connection::connect(&address, &tuning, &hello, &target.secret, deadline) {
                Ok((connection, welcome, pool)) => {
                    return self.complete_connect(connection, &welcome, pool, deadline);
                }
                Err(error) if error.retry() == Retry::Later => {
                    trouble = ConnectError::Retryable(Cause::Transport(error));
                }
                Err(error) => {
                    trouble = ConnectError::Permanent(self.core.refused(self.server_connection.server, error))
                }
            }
        }
        Err(trouble)
    }

    /// The server has accepted the connection.
    fn complete_connect(
        &mut self,
        mut connection: Connection,
        welcome: &Welcome,
        pool: Option<std::os::fd::OwnedFd>,
        deadline: Instant,
    ) -> std::result::Result<(), ConnectError> {
        if welcome.metadata != self.core.metadata {
            let (name, theirs) = (&self.core.name, welcome.metadata);
            let why = format!(
                "server {} of partition {name} says that {theirs} keeps its names, not {}",
                self.server_connection.server, self.core.metadata
            );
            return Err(ConnectError::Permanent(Error::Target(why)));
        }
        if self.server_connection.server == self.core.metadata && self.state.cache.is_some() {
            self.reopen(&mut connection, deadline)?;
        }
        if let Some(team) = self.core.team {
            self.join(&mut connection, team, deadline)?;
        }
        // Without a pool, or if it cannot be mapped, messages are used. A server must be able to refuse late writes of a
        // team, so a team asks for the location of blocks.
        let looks_up = self.core.team.is_none();
        let open = |(pool, ledger)| MappedPool::open(pool, ledger, looks_up).ok();
        let local = pool.zip(welcome.ledger).and_then(open);
        self.state.ledger = local.as_ref().and(welcome.ledger).or(self.state.ledger);
        // Before any thread can read from the new pool.
        self.note_cache(welcome);
        self.server_connection.set_pool(local);
        self.server_connection.reached.store(true, Ordering::Relaxed);
        *self.server_connection.down.lock() = None;
        if welcome.epoch > self.core.target().epoch {
            // The set of servers has changed. If it cannot be looked up now, that is repeated when another server is needed.
            let _ = self.core.look_up(self.server_connection.server);
        }
        self.state.connection = Some(connection);
        Ok(())
    }

    /// Notices that the server has lost the content of its pool.
    fn note_cache(&mut self, welcome: &Welcome) {
        let before = self.state.cache.replace(welcome.cache);
        let is_lost =
            before.is_some_and(|before| before != welcome.cache && !welcome.retired.contains(&before));
        if is_lost && !pario_runtime::is_planted("loss-not-noticed") {
            self.server_connection.losses.fetch_add(1, Ordering::Relaxed);
            self.core.count_loss();
        }
    }

    /// Reports the open files to the metadata server, whose list may differ.
    fn reopen(
        &self,
        connection: &mut Connection,
        deadline: Instant,
    ) -> std::result::Result<(), ConnectError> {
        let request = Request::Reopen { files: self.core.open_files(), repeated: self.repeated.0 };
        let envelope = Envelope::new(self.server_connection.server, self.core.next_request());
        match connection.call(envelope, &request, &[], &mut [], deadline) {
            Ok(Reply::Failed(failure)) => Err(ConnectError::of(self.server_connection.server, failure)),
            Ok(Reply::Reopened { gone }) => {
                self.core.mark_gone(&gone);
                Ok(())
            }
            Ok(reply) => {
                Err(ConnectError::Permanent(unexpected(self.server_connection.server, &request, &reply)))
            }
            Err(error) => Err(ConnectError::Retryable(Cause::Transport(error))),
        }
    }

    /// Reports to the server the team of this client.
    fn join(
        &self,
        connection: &mut Connection,
        Membership { team, mailbox }: Membership,
        deadline: Instant,
    ) -> std::result::Result<(), ConnectError> {
        let (server, request) = (self.server_connection.server, Request::JoinTeam { team, mailbox });
        let envelope = Envelope::new(server, self.core.next_request());
        match connection.call(envelope, &request, &[], &mut [], deadline) {
            Ok(Reply::Done) => Ok(()),
            Ok(Reply::Failed(failure)) => Err(ConnectError::of(server, failure)),
            Ok(reply) => Err(ConnectError::Permanent(unexpected(server, &request, &reply))),
            Err(error) => Err(ConnectError::Retryable(Cause::Transport(error))),
        }
    }

    /// Sends a request, and again on a new connection with the same id if this one breaks.
    pub fn call(
        &mut self,
        id: RequestId,
        request: &Request,
        since: Instant,
        deadline: Instant,
    ) -> Result<Reply> {
        self.call_with(id, request, &[], &mut [], since, deadline)
    }

    /// The same with a payload, and memory for that of the reply.
    pub fn call_with(
        &mut self,
        id: RequestId,
        request: &Request,
        payload: &[u8],
        into: &mut [u8],
        since: Instant,
        deadline: Instant,
    ) -> Result<Reply> {
        self.repeated = id;
        self.connect(since, deadline)?;
        loop {
            let sent = self.send(id, request, &[IoSlice::new(payload)], deadline);
            match sent.and_then(|()| self.receive(&mut [IoSliceMut::new(into)], deadline)) {
                Ok(reply) => return Ok(reply),
                Err(error) => self.reconnect_after(error, since, deadline)?,
            }
        }
    }
}

/// Makes sure that there is a connection to each of these servers, trying them in turn. However many are unreachable, and
/// however long the request may take, this takes at most the time of one request. Returns one outcome for each.
pub(crate) fn connect_all(
    guard: &mut [&mut ConnectionGuard<'_>],
    since: Instant,
    deadline: Instant,
) -> Vec<Result<()>> {
    let mut outcomes: Vec<Option<Result<()>>> = guard.iter().map(|_| None).collect();
    let longest = guard.iter().map(|one| one.core.options.deadline).max().unwrap_or_default();
    let deadline = deadline.min(Instant::now() + longest);
    let mut pause = FIRST_PAUSE;
    loop {
        for (one, outcome) in guard.iter_mut().zip(&mut outcomes).filter(|(_, outcome)| outcome.is_none()) {
            *outcome = match one.try_connect(since, deadline) {
                Ok(true) => Some(Ok(())),
                Ok(false) => None,
                Err(error) => Some(Err(error)),
            };
        }
        if outcomes.iter().all(Option::is_some) {
            return outcomes.into_iter().flatten().collect();
        }
        pario_runtime::thread::sleep(pause.min(deadline.saturating_duration_since(Instant::now())));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        // No thread waits for these replies any more.
        if self.state.connection.as_ref().is_some_and(|connection| connection.outstanding() > 0) {
            self.disconnect();
        }
        *self.server_connection.turn.lock() = Some(std::mem::take(&mut self.state));
        self.server_connection.given_back.notify_one();
    }
}
