//! One server as this process sees it: a connection that threads take turns with, and its pool if it is
//! mapped.
//!
//! Whoever has the turn sends, receives and, when the connection breaks, makes a new one. Hits in the pool
//! need no turn. Turns of several servers are taken in the order of their numbers.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use pario_transport::{Connection, Tuning, is_forked};
use pario_types::{RequestId, Retry, ServerId};
use pario_wire::greeting::{Hello, Role, Welcome};
use pario_wire::message::Failure;
use pario_wire::{Envelope, Reply, Request};

use crate::core::{Core, Membership, lock, unexpected};
use crate::error::{Cause, Error, Result};
use crate::pool::Local;
use crate::target::Target;

/// Between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// So long others are asked in the stead of a server that could not be.
const DOWN: Duration = Duration::from_secs(3);

/// One attempt to connect takes no longer than this: the server may be elsewhere by then.
const ATTEMPT: Duration = Duration::from_secs(5);

/// While a request takes long the server is asked for a sign of life this often in the time of an ordinary one.
const SIGNS_OF_LIFE: u32 = 3;

/// A host that has not been heard of for the time of a request is taken to be gone, but not before this.
const LEAST_SILENCE: Duration = Duration::from_secs(1);

thread_local! {
    static SENT: Cell<Sent> = const { Cell::new(Sent { requests: 0, bytes: 0 }) };
}

/// What was asked of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Requests.
    pub requests: u64,
    /// Bytes of data that went with them and with their answers.
    pub bytes: u64,
}

impl Sent {
    /// By this thread, since it began.
    pub fn by_this_thread() -> Sent {
        SENT.get()
    }

    /// Since an earlier moment.
    pub fn since(self, earlier: Sent) -> Sent {
        Sent { requests: self.requests - earlier.requests, bytes: self.bytes - earlier.bytes }
    }

    fn count(requests: u64, bytes: usize) {
        let Sent { requests: before, bytes: moved } = SENT.get();
        SENT.set(Sent { requests: before + requests, bytes: moved + bytes as u64 });
    }
}

/// Views of which it is remembered that a server was told.
const MOST_TOLD: usize = 1024;

/// A server.
pub(crate) struct Link {
    pub server: ServerId,
    turn: Mutex<Option<Line>>,
    given_back: Condvar,
    pool: RwLock<Option<Local>>,
    /// How often the server came back without what its pool had held.
    losses: AtomicU64,
    /// Whether it was ever reached, so that it is known whether it has a pool for us.
    reached: AtomicBool,
    /// Until when others are asked in its stead, where that is possible.
    down: Mutex<Option<Instant>>,
}

/// What the holder of the turn has.
#[derive(Default)]
struct Line {
    connection: Option<Connection>,
    /// Our ledger in the pool, also of an earlier connection.
    ledger: Option<u32>,
    /// The number of the server's cache, if it was ever reached.
    cache: Option<u64>,
    /// Hashes of views that the server was told on this connection.
    told: BTreeSet<u128>,
}

/// The turn: the right to use a server's connection.
pub(crate) struct Held<'a> {
    core: &'a Core,
    pub link: &'a Link,
    line: Line,
}

/// Why an attempt failed.
enum Trouble {
    /// It may work in a moment.
    Passing(Cause),
    /// It will not, unless the server is elsewhere.
    Lasting(Error),
}

impl Trouble {
    /// A server that is about to end refuses everybody for a moment; its successor does not.
    fn of(server: ServerId, failure: Failure) -> Trouble {
        match failure.kind.retry() {
            Retry::Never => Trouble::Lasting(Error::Server { server, failure }),
            _ => Trouble::Passing(Cause::Server(failure)),
        }
    }
}

impl Link {
    pub fn new(server: ServerId) -> Link {
        Link {
            server,
            turn: Mutex::new(Some(Line::default())),
            given_back: Condvar::new(),
            pool: RwLock::new(None),
            losses: AtomicU64::new(0),
            reached: AtomicBool::new(false),
            down: Mutex::new(None),
        }
    }

    /// The pool, if it is mapped. Hold it only for copying, and never ask for the turn meanwhile.
    pub fn pool(&self) -> RwLockReadGuard<'_, Option<Local>> {
        self.pool.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn was_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// It could not be asked just now.
    pub fn is_down_now(&self) {
        *lock(&self.down) = Some(Instant::now() + DOWN);
    }

    /// Whether that was a moment ago.
    pub fn is_down(&self) -> bool {
        lock(&self.down).is_some_and(|until| Instant::now() < until)
    }

    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// Waits for the turn.
    pub fn hold<'a>(&'a self, core: &'a Core, deadline: Instant) -> Result<Held<'a>> {
        // A child's copies of locks may be held by threads that it has not.
        if is_forked() {
            return Err(Error::Forked);
        }
        let since = Instant::now();
        let mut turn = lock(&self.turn);
        loop {
            if let Some(line) = turn.take() {
                return Ok(Held { core, link: self, line });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(core.unreachable(self.server, since, Cause::Taken));
            }
            let waited = self.given_back.wait_timeout(turn, left);
            turn = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// Waits until nobody copies, and puts another pool, or none, in place of the one that is there. Until then
    /// that one serves hits: if the server was killed its successor takes the pool over as it is.
    fn set_pool(&self, local: Option<Local>) {
        *self.pool.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = local;
    }
}

impl Held<'_> {
    /// Sends a request, on a connection that is there.
    pub fn send(
        &mut self,
        id: RequestId,
        request: &Request,
        payload: &[IoSlice<'_>],
        deadline: Instant,
    ) -> std::result::Result<(), pario_transport::Error> {
        Sent::count(1, payload.iter().map(|part| part.len()).sum());
        let envelope = Envelope::new(self.link.server, id);
        let connection = self.line.connection.as_mut().expect("connected before sending");
        connection.send(envelope, request, payload, deadline)
    }

    /// Receives the reply to the first request that was sent and not answered.
    pub fn receive(
        &mut self,
        into: &mut [IoSliceMut<'_>],
        deadline: Instant,
    ) -> std::result::Result<Reply, pario_transport::Error> {
        Sent::count(0, into.iter().map(|part| part.len()).sum());
        let connection = self.line.connection.as_mut().expect("connected before receiving");
        connection.receive(into, deadline).map(|(_, reply)| reply)
    }

    /// The same for a request that may take long: it is waited for as long as the server greets others. One that does not
    /// is stopped or hangs, and waiting for it would be in vain.
    pub fn receive_late(&mut self, deadline: Instant) -> std::result::Result<Reply, pario_transport::Error> {
        let pause = self.core.options.deadline / SIGNS_OF_LIFE;
        let connection = self.line.connection.as_ref().expect("connected before receiving");
        while !connection.has_reply_by(deadline.min(Instant::now() + pause)) && Instant::now() < deadline {
            self.ask_for_sign_of_life()?;
        }
        self.receive(&mut [], deadline)
    }

    /// An error if the server does not answer a greeting in time. Any answer will do.
    fn ask_for_sign_of_life(&self) -> std::result::Result<(), pario_transport::Error> {
        let target = self.core.target();
        // Without a name to ask by nothing can be said against the server.
        let Ok(client) = pario_transport::fresh_client() else { return Ok(()) };
        let ours = self.hello(&target);
        // A client of its own: the server must not take the greeting for a new connection of this one.
        let hello = Hello { client, program: client.0 as u64, role: Role::Tool, resume_ledger: None, ..ours };
        let deadline = Instant::now() + ATTEMPT;
        let mut outcome = Ok(());
        for address in target.candidates(self.link.server, self.core.options.far) {
            match Connection::connect(&address, &Tuning::default(), &hello, &target.secret, deadline) {
                Err(error @ pario_transport::Error::Late { .. }) => outcome = Err(error),
                _ => return Ok(()),
            }
        }
        outcome
    }

    /// The same where it depends on the reply which memory its payload goes to.
    pub fn receive_into<'m>(
        &mut self,
        room: impl FnOnce(&Reply) -> Vec<IoSliceMut<'m>>,
        deadline: Instant,
    ) -> std::result::Result<Reply, pario_transport::Error> {
        let connection = self.line.connection.as_mut().expect("connected before receiving");
        connection.receive_into(room, deadline).map(|(_, reply)| reply)
    }

    /// Whether the server still has to be told a view, which counts as done then.
    pub fn tells_view(&mut self, hash: u128) -> bool {
        if self.line.told.len() >= MOST_TOLD {
            self.line.told.clear();
        }
        self.line.told.insert(hash)
    }

    /// The server has forgotten views.
    pub fn forget_views(&mut self) {
        self.line.told.clear();
    }

    /// Gives up the connection, with all that was asked on it.
    pub fn hang_up(&mut self) {
        self.line.connection = None;
        self.line.told.clear();
    }

    /// Whether there is a connection that is not known to be broken.
    pub fn is_connected(&self) -> bool {
        self.line.connection.as_ref().is_some_and(|connection| !connection.is_dead())
    }

    /// After an error on the connection: gives it up; an error if there is no use in another one.
    pub fn broke(&mut self, error: pario_transport::Error, since: Instant, deadline: Instant) -> Result<()> {
        self.hang_up();
        if error.kind().retry() == Retry::Never {
            return Err(self.core.refused(self.link.server, error));
        }
        if Instant::now() >= deadline {
            return Err(self.core.unreachable(self.link.server, since, Cause::Transport(error)));
        }
        Ok(())
    }

    /// What to do about an error on the connection: go on after connecting again, or fail.
    pub fn after(&mut self, error: pario_transport::Error, since: Instant, deadline: Instant) -> Result<()> {
        self.broke(error, since, deadline)?;
        self.connect(since, deadline)
    }

    /// Makes sure of a connection.
    pub fn connect(&mut self, since: Instant, deadline: Instant) -> Result<()> {
        connect_all(&mut [self], since, deadline).pop().expect("one outcome for each")
    }

    /// Tries once to get a connection, if there is none; what to do if that fails.
    fn try_connect(&mut self, since: Instant, deadline: Instant) -> Result<bool> {
        if self.is_connected() {
            return Ok(true);
        }
        self.hang_up();
        let cause = match self.attempt(deadline) {
            Ok(()) => return Ok(true),
            Err(Trouble::Passing(cause)) => cause,
            Err(Trouble::Lasting(error)) => {
                let moved = self.core.look_up(self.link.server)?;
                return if moved && Instant::now() < deadline { Ok(false) } else { Err(error) };
            }
        };
        let hopeless =
            self.line.cache.is_none() && matches!(cause, Cause::NoAddress | Cause::LocalOnly { .. });
        if hopeless || Instant::now() >= deadline {
            return Err(self.core.unreachable(self.link.server, since, cause));
        }
        self.core.look_up(self.link.server)?;
        Ok(false)
    }

    /// The same without waiting for a server that is away.
    pub fn connect_at_once(&mut self, since: Instant, deadline: Instant) -> Result<()> {
        for again in [true, false] {
            if self.is_connected() {
                return Ok(());
            }
            self.hang_up();
            match self.attempt(deadline) {
                Ok(()) => return Ok(()),
                Err(_) if again && self.core.look_up(self.link.server)? => {}
                Err(Trouble::Lasting(error)) => return Err(error),
                Err(Trouble::Passing(cause)) => {
                    return Err(self.core.unreachable(self.link.server, since, cause));
                }
            }
        }
        Err(self.core.unreachable(self.link.server, since, Cause::NoAddress))
    }

    /// How this client greets the server.
    fn hello(&self, target: &Target) -> Hello {
        Hello {
            partition: target.partition,
            server: self.link.server,
            servers: target.servers.len() as u16,
            client: self.core.client,
            program: self.core.options.program.unwrap_or(self.core.client.0 as u64),
            role: self.core.options.role,
            resume_ledger: self.line.ledger,
        }
    }

    fn attempt(&mut self, deadline: Instant) -> std::result::Result<(), Trouble> {
        let target = self.core.target();
        let hello = self.hello(&target);
        let deadline = deadline.min(Instant::now() + ATTEMPT);
        let mut trouble = Trouble::Passing(target.why_unusable(self.link.server));
        let silence = self.core.options.deadline.max(LEAST_SILENCE);
        let tuning = Tuning { silence, ..Tuning::default() };
        for address in target.candidates(self.link.server, self.core.options.far) {
            match Connection::connect(&address, &tuning, &hello, &target.secret, deadline) {
                Ok((connection, welcome, pool)) => {
                    return self.enter(connection, &welcome, pool, deadline);
                }
                Err(error) if error.kind().retry() == Retry::Later => {
                    trouble = Trouble::Passing(Cause::Transport(error));
                }
                Err(error) => trouble = Trouble::Lasting(self.core.refused(self.link.server, error)),
            }
        }
        Err(trouble)
    }

    /// The server let us in.
    fn enter(
        &mut self,
        mut connection: Connection,
        welcome: &Welcome,
        pool: Option<std::os::fd::OwnedFd>,
        deadline: Instant,
    ) -> std::result::Result<(), Trouble> {
        if welcome.metadata != self.core.metadata {
            let (name, theirs) = (&self.core.name, welcome.metadata);
            let why = format!(
                "server {} of partition {name} says that {theirs} keeps its names, not {}",
                self.link.server, self.core.metadata
            );
            return Err(Trouble::Lasting(Error::Target(why)));
        }
        if self.link.server == self.core.metadata && self.line.cache.is_some() {
            self.reopen(&mut connection, deadline)?;
        }
        if let Some(team) = self.core.team {
            self.join(&mut connection, team, deadline)?;
        }
        // Without a pool, and should it not be possible to map it, messages do as well.
        // What a team stores late a server has to be able to refuse, so it asks where blocks are.
        let looks_up = self.core.team.is_none();
        let open = |(pool, ledger)| Local::open(pool, ledger, looks_up).ok();
        let local = pool.zip(welcome.ledger).and_then(open);
        self.line.ledger = local.as_ref().and(welcome.ledger).or(self.line.ledger);
        self.link.set_pool(local);
        self.link.reached.store(true, Ordering::Relaxed);
        *lock(&self.link.down) = None;
        self.line.connection = Some(connection);
        let before = self.line.cache.replace(welcome.cache);
        if before.is_some_and(|before| before != welcome.cache && before != welcome.before) {
            self.link.losses.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Tells the metadata server what is open here, which it may believe to be more or less.
    fn reopen(&self, connection: &mut Connection, deadline: Instant) -> std::result::Result<(), Trouble> {
        let request = Request::Reopen { files: self.core.open_files() };
        let envelope = Envelope::new(self.link.server, self.core.next_request());
        match connection.call(envelope, &request, &[], &mut [], deadline) {
            Ok(Reply::Failed(failure)) => Err(Trouble::of(self.link.server, failure)),
            Ok(Reply::Reopened { gone }) => {
                self.core.are_gone(&gone);
                Ok(())
            }
            Ok(reply) => Err(Trouble::Lasting(unexpected(self.link.server, &request, &reply))),
            Err(error) => Err(Trouble::Passing(Cause::Transport(error))),
        }
    }

    /// Tells the server whose member this client is.
    fn join(
        &self,
        connection: &mut Connection,
        Membership { team, mailbox }: Membership,
        deadline: Instant,
    ) -> std::result::Result<(), Trouble> {
        let (server, request) = (self.link.server, Request::Join { team, mailbox });
        let envelope = Envelope::new(server, self.core.next_request());
        match connection.call(envelope, &request, &[], &mut [], deadline) {
            Ok(Reply::Done) => Ok(()),
            Ok(Reply::Failed(failure)) => Err(Trouble::of(server, failure)),
            Ok(reply) => Err(Trouble::Lasting(unexpected(server, &request, &reply))),
            Err(error) => Err(Trouble::Passing(Cause::Transport(error))),
        }
    }

    /// Asks, and asks again on a new connection with the same id if this one breaks.
    pub fn call(
        &mut self,
        id: RequestId,
        request: &Request,
        since: Instant,
        deadline: Instant,
    ) -> Result<Reply> {
        self.call_with(id, request, &[], &mut [], since, deadline)
    }

    /// The same with a payload, and room for that of the reply.
    pub fn call_with(
        &mut self,
        id: RequestId,
        request: &Request,
        payload: &[u8],
        into: &mut [u8],
        since: Instant,
        deadline: Instant,
    ) -> Result<Reply> {
        self.connect(since, deadline)?;
        loop {
            let sent = self.send(id, request, &[IoSlice::new(payload)], deadline);
            match sent.and_then(|()| self.receive(&mut [IoSliceMut::new(into)], deadline)) {
                Ok(reply) => return Ok(reply),
                Err(error) => self.after(error, since, deadline)?,
            }
        }
    }
}

/// Makes sure of a connection to each of these servers, trying them in turn. However many are not to be reached, and
/// however long the request may take, that is found out in the time of one request. One outcome for each.
pub(crate) fn connect_all(held: &mut [&mut Held<'_>], since: Instant, deadline: Instant) -> Vec<Result<()>> {
    let mut outcomes: Vec<Option<Result<()>>> = held.iter().map(|_| None).collect();
    let longest = held.iter().map(|one| one.core.options.deadline).max().unwrap_or_default();
    let deadline = deadline.min(Instant::now() + longest);
    let mut pause = FIRST_PAUSE;
    loop {
        for (one, outcome) in held.iter_mut().zip(&mut outcomes).filter(|(_, outcome)| outcome.is_none()) {
            *outcome = match one.try_connect(since, deadline) {
                Ok(true) => Some(Ok(())),
                Ok(false) => None,
                Err(error) => Some(Err(error)),
            };
        }
        if outcomes.iter().all(Option::is_some) {
            return outcomes.into_iter().flatten().collect();
        }
        std::thread::sleep(pause.min(deadline.saturating_duration_since(Instant::now())));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // What is still unanswered belongs to nobody any more.
        if self.line.connection.as_ref().is_some_and(|connection| connection.outstanding() > 0) {
            self.hang_up();
        }
        *lock(&self.link.turn) = Some(std::mem::take(&mut self.line));
        self.link.given_back.notify_one();
    }
}
