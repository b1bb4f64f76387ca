//! The connections of a server: which there are, whose they are, and what ends with them.

pub(crate) mod admission;
mod outbox;
pub(crate) mod payload;
pub(crate) mod session;
mod session_error;

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_cache::LedgerId;
use pario_runtime::sync::Mutex;
use pario_runtime::time::Instant;
use pario_shm::ProcessIdentity;
use pario_transport::{HandshakeConfig, ServerHandshake, Stream, fresh_nonce};
use pario_types::{ClientId, Epoch};
use pario_wire::greeting::{Hello, RETIRED_POOLS, Role, Welcome};

use crate::core::Core;
use crate::event_loop::fair_queue::Program;
use crate::event_loop::{FIRST_SESSION, NO_PROGRAM};
use crate::sys;
use admission::{Admission, Admissions, ConnectionKind};
use session::{ClientIdentity, EndedSession, HANDSHAKE_TIMEOUT, Session};

/// The sessions of a server.
pub(crate) struct SessionTable {
    handshake_config: Mutex<Arc<HandshakeConfig>>,
    entries: Mutex<HashMap<u64, SessionEntry>>,
    admissions: Mutex<Admissions>,
    /// The session of each client.
    by_client: Mutex<HashMap<ClientId, u64>>,
    next: AtomicU64,
    /// The last pools before this one of which everything was stored.
    retired: [u64; RETIRED_POOLS],
}

struct SessionEntry {
    program: Program,
    session: Arc<Mutex<Session>>,
}

impl SessionTable {
    pub fn new(handshake_config: HandshakeConfig, retired: [u64; RETIRED_POOLS]) -> SessionTable {
        SessionTable {
            handshake_config: Mutex::new(Arc::new(handshake_config)),
            entries: Mutex::default(),
            admissions: Mutex::new(Admissions::new(sys::raise_descriptor_limit())),
            by_client: Mutex::default(),
            next: AtomicU64::new(FIRST_SESSION),
            retired,
        }
    }

    /// Replaces the set of servers that new connections are compared with.
    pub fn set_servers(&self, epoch: Epoch, servers: u16) {
        let mut config = self.handshake_config.lock();
        *config = Arc::new(HandshakeConfig { epoch, servers, ..(**config).clone() });
    }

    pub fn get(&self, number: u64) -> Option<Arc<Mutex<Session>>> {
        self.entries.lock().get(&number).map(|entry| Arc::clone(&entry.session))
    }

    /// The program of a session's client.
    pub fn program(&self, number: u64) -> Program {
        self.entries.lock().get(&number).map_or(NO_PROGRAM, |entry| entry.program)
    }

    pub fn remove(&self, number: u64) -> Option<Arc<Mutex<Session>>> {
        let removed = self.entries.lock().remove(&number);
        self.admissions.lock().ended(number);
        removed.map(|entry| entry.session)
    }

    fn of_client(&self, client: ClientId) -> Option<(u64, Arc<Mutex<Session>>)> {
        let number = self.by_client.lock().get(&client).copied()?;
        self.get(number).map(|session| (number, session))
    }

    /// The number of sessions, and of those that have mapped the pool.
    fn count(&self) -> (u32, u32) {
        let entries = self.entries.lock();
        let sessions: Vec<_> = entries.values().map(|entry| Arc::clone(&entry.session)).collect();
        drop(entries);
        // A session that a worker runs just now does not count as local.
        let has_ledger = |session: &Session| session.client().is_some_and(|client| client.ledger.is_some());
        let local = sessions.iter().filter(|session| session.try_lock().is_some_and(|one| has_ledger(&one)));
        (sessions.len() as u32, local.count() as u32)
    }
}

impl Core {
    /// Adds a session for a new connection, unless there are too many.
    pub fn add_session(&self, stream: Stream) {
        let table = &self.sessions;
        let number = table.next.fetch_add(1, Ordering::Relaxed);
        let admission = table.admissions.lock().arrived(number, kind(&stream));
        match admission {
            Admission::Accepted => {}
            Admission::Replaces(oldest) => {
                self.counters.refused.add(1);
                self.disconnect(oldest);
            }
            Admission::Refused => {
                self.counters.refused.add(1);
                return self.counters.record_error("closed a connection: there are too many".into());
            }
        }
        let now = Instant::now();
        let Ok(nonce) = fresh_nonce() else {
            table.admissions.lock().ended(number);
            let error = "closed a connection: the system has no random numbers";
            return self.counters.record_error(error.into());
        };
        let peer = if stream.is_local() { "a process of this host" } else { "another host" };
        let user = stream.peer_user().ok().flatten();
        let handshake = ServerHandshake::new(table.handshake_config.lock().clone(), peer.into(), user, nonce);
        let session = Arc::new(Mutex::new(Session::new(stream, handshake, now)));
        table
            .entries
            .lock()
            .insert(number, SessionEntry { program: NO_PROGRAM, session: Arc::clone(&session) });
        self.event_loop.timers.set(now + HANDSHAKE_TIMEOUT, number);
        let watched = self.event_loop.watch(&session.lock(), number);
        if watched.is_err() {
            table.remove(number);
        }
    }

    /// Admits a client that has proved that it knows the secret. A client of this host also gets the pool.
    pub fn admit(
        &self,
        number: u64,
        hello: &Hello,
        stream: &Stream,
    ) -> (ClientIdentity, Welcome, Option<BorrowedFd<'_>>) {
        self.sessions.admissions.lock().greeted(number, kind(stream));
        if let Some(metadata) = &self.metadata {
            metadata.client_connected(hello.client);
        }
        if hello.role == Role::Client {
            self.end_older_session(hello.client, number);
        }
        if let Some(entry) = self.sessions.entries.lock().get_mut(&number) {
            entry.program = hello.program;
        }
        let pid = stream.peer_process().ok().flatten().unwrap_or(0);
        let ledger = self.assign_ledger(hello, stream, pid);
        let welcome = Welcome {
            block: self.tier.pool.geometry().block,
            metadata: self.config.metadata,
            epoch: self.peers.epoch(),
            cache: self.tier.pool.mark(),
            retired: self.sessions.retired,
            ledger: ledger.map(|ledger| ledger.0),
        };
        let process = ProcessIdentity::of(pid);
        let client = ClientIdentity { client: hello.client, role: hello.role, ledger, process };
        (client, welcome, ledger.map(|_| self.tier.pool.descriptor()))
    }

    fn assign_ledger(&self, hello: &Hello, stream: &Stream, pid: u32) -> Option<LedgerId> {
        if !stream.is_local() || hello.role != Role::Client {
            return None;
        }
        let resumed = hello.resume_ledger.map(LedgerId);
        let resumed = resumed.filter(|ledger| self.tier.pool.resume_ledger(*ledger, pid));
        resumed.or_else(|| self.tier.pool.take_ledger(pid))
    }

    pub fn count_sessions(&self) -> (u32, u32) {
        self.sessions.count()
    }

    /// Gives a session the reply of another server, and continues it.
    pub fn deliver(&self, number: u64, reply: impl FnOnce(&mut Session)) {
        if let Some(session) = self.sessions.get(number) {
            reply(&mut session.lock());
            self.step_session(number);
            // The session may have set a timer while all workers sleep.
            self.event_loop.wakeup.wake();
        }
    }

    /// A client has one connection. After it has connected again, the server executes nothing more of the older connection.
    fn end_older_session(&self, client: ClientId, number: u64) {
        let Some(older) = self.sessions.by_client.lock().insert(client, number) else { return };
        self.disconnect(older);
    }

    /// Ends the sessions of clients that did not yield their leases in time.
    pub fn disconnect_cut_off(&self) {
        for number in self.leases.cut_off() {
            let grace = self.config.grace.as_secs_f64();
            self.counters.record_error(format!(
                "closed a connection: its client did not give up what it has leased within {grace} s"
            ));
            self.disconnect(number);
        }
        self.leases.invalidate_cut_off(&self.tier.pool);
    }

    /// Ends the oldest connection that has not completed the handshake.
    pub fn disconnect_oldest_ungreeted(&self) {
        let oldest = self.sessions.admissions.lock().take_oldest_ungreeted();
        oldest.into_iter().for_each(|number| self.disconnect(number));
    }

    fn disconnect(&self, number: u64) {
        let Some(session) = self.sessions.remove(number) else { return };
        let ended = session.lock().close();
        self.release_client(number, ended);
    }

    /// Ends a client's connection, unless a worker runs its session just now. Handlers use this, because a session must not wait
    /// for another.
    pub fn try_disconnect(&self, client: ClientId) -> bool {
        let Some((number, session)) = self.sessions.of_client(client) else { return true };
        let Some(mut session) = session.try_lock() else { return false };
        let ended = session.close();
        drop(session);
        self.sessions.remove(number);
        self.release_client(number, ended);
        true
    }

    /// A client as its user knows it.
    pub fn describe_client(&self, client: ClientId) -> String {
        let session = self.sessions.of_client(client).map(|(_, session)| session);
        // A worker may run the session just now; this does not wait for it.
        let client = session.and_then(|session| session.try_lock().and_then(|session| session.client()));
        match client.map(|client| client.process) {
            Some(Some(process)) => format!("process {} of this host", process.pid),
            Some(None) => "a process of another host".to_owned(),
            None => "a process whose connection is busy or gone".to_owned(),
        }
    }

    /// Releases what a client holds when its connection ends.
    pub fn release_client(&self, number: u64, ended: EndedSession) {
        let Some(client) = ended.client else { return };
        let id = client.client;
        self.sessions.by_client.lock().retain(|known, session| *known != id || *session != number);
        self.peers.close(id, ended.forwarded_opens);
        self.leases.client_left(number, id);
        if client.role == Role::Client {
            self.locks.client_left(id);
            self.shared_counters.client_left(id);
            self.tier.prefetches.client_left(id);
        }
        if let Some(ledger) = client.ledger {
            self.tier.pool.give_ledger(ledger);
        }
        if let Some(metadata) = &self.metadata {
            metadata.client_disconnected(id, client.process, self.config.lease);
        }
    }
}

fn kind(stream: &Stream) -> ConnectionKind {
    if stream.is_local() { ConnectionKind::Local } else { ConnectionKind::Tcp }
}
