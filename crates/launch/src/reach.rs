//! Reaching servers that run: where they are, whether they serve, and how they are told to end.

use crate::host;
use pario_registry::{Entry, Running, Secret};
use pario_runtime::time::Instant;
use pario_transport::{Address, Connection, SocketOptions, Stream, fresh_client};
use pario_types::{Epoch, PartitionId, RequestId, ServerId};
use pario_wire::greeting::{Hello, Role};
use pario_wire::{Envelope, Reply, Request};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server that has stored everything may take to end.
const END: Duration = Duration::from_secs(15);

/// The addresses of a server: its socket only on its own host.
pub(crate) fn addresses(running: &Running) -> Vec<Address> {
    let unix = host::is_here(&running.host).then(|| Address::Unix(PathBuf::from(&running.unix)));
    let tcp = running.tcp.as_ref().and_then(|tcp| format!("tcp:{tcp}").parse().ok());
    unix.into_iter().chain(tcp).collect()
}

/// Whether something listens where the server was.
pub fn answers(running: &Running, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    let is_there = |address: &Address| Stream::connect(address, &SocketOptions::default(), deadline).is_ok();
    let is_here = host::is_here(&running.host);
    addresses(running).iter().filter(|address| address.is_local() == is_here).any(is_there)
}

/// Whether the server serves: not only listens, but knows the others, and is one of this partition.
pub fn serves(
    entry: &Entry,
    server: ServerId,
    running: &Running,
    secret: &Secret,
    patience: Duration,
) -> bool {
    let deadline = Instant::now() + patience;
    matches!(ask(entry, server, running, secret, &Request::Ping, deadline), Ok(Reply::Done))
}

/// The reason why a server did not stop.
pub enum ShutdownFailure {
    /// It answered that it cannot, and goes on.
    Refused(String),
    /// It did not answer.
    Silent(String),
}

/// Tells a server to write everything to storage and to end, and waits until it has.
pub fn shut_down(
    entry: &Entry,
    server: ServerId,
    running: &Running,
    secret: &Secret,
    deadline: Instant,
) -> Result<(), ShutdownFailure> {
    loop {
        match ask(entry, server, running, secret, &Request::Shutdown, deadline) {
            Ok(Reply::Done) if has_ended(running, deadline.min(Instant::now() + END)) => return Ok(()),
            Ok(Reply::Done) if pario_runtime::is_planted("down-ignores-successor") => return Ok(()),
            // It died before it had ended in order, and its supervisor has started another.
            Ok(Reply::Done) if Instant::now() < deadline => {}
            Ok(Reply::Done) => return Err(ShutdownFailure::Silent("it does not end".to_owned())),
            Ok(Reply::Failed(failure)) => return Err(ShutdownFailure::Refused(failure.text)),
            Ok(other) => return Err(ShutdownFailure::Silent(format!("it answered {}", other.name()))),
            Err(why) => return Err(ShutdownFailure::Silent(why)),
        }
    }
}

/// Sends a server one request.
pub(crate) fn ask(
    entry: &Entry,
    server: ServerId,
    running: &Running,
    secret: &Secret,
    request: &Request,
    deadline: Instant,
) -> Result<Reply, String> {
    let whom = ServerIdentity::of(entry, server);
    let mut last = "it has no address".to_owned();
    for address in addresses(running) {
        match connect(&whom, &address, secret, deadline) {
            Ok(connection) => return call(connection, server, request, deadline),
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// The identity of a server, which a client has to state when it connects.
pub struct ServerIdentity {
    /// The partition.
    pub partition: PartitionId,
    /// Which of its servers.
    pub server: ServerId,
    /// How many servers the partition has.
    pub servers: u16,
    /// The version of this set.
    pub epoch: Epoch,
}

impl ServerIdentity {
    /// That of a server of a partition in the registry. A server that is being added knows the set of which it will be a member.
    pub fn of(entry: &Entry, server: ServerId) -> ServerIdentity {
        let (servers, epoch) = match entry.is_joining(server) {
            true => (entry.description.structure().servers.len(), entry.epoch.next()),
            false => (entry.members(), entry.epoch),
        };
        ServerIdentity { partition: entry.id, server, servers: servers as u16, epoch }
    }
}

/// Connects to a server as a command.
pub fn connect(
    whom: &ServerIdentity,
    address: &Address,
    secret: &Secret,
    deadline: Instant,
) -> Result<Connection, String> {
    let client = fresh_client().map_err(|e| e.to_string())?;
    let hello = Hello {
        partition: whom.partition,
        server: whom.server,
        servers: whom.servers,
        epoch: whom.epoch,
        client,
        program: client.0 as u64,
        role: Role::Tool,
        resume_ledger: None,
    };
    let connected = Connection::connect(address, &SocketOptions::default(), &hello, secret, deadline);
    connected.map(|(connection, ..)| connection).map_err(|e| e.to_string())
}

/// Sends one request on a connection.
pub fn call(
    mut connection: Connection,
    server: ServerId,
    request: &Request,
    deadline: Instant,
) -> Result<Reply, String> {
    let envelope = Envelope::new(server, RequestId(1));
    connection.call(envelope, request, &[], &mut [], deadline).map_err(|e| e.to_string())
}

/// Waits until a server that has answered removes its run directory and ends; `false` if it does not.
fn has_ended(running: &Running, deadline: Instant) -> bool {
    let directory = Path::new(&running.unix).parent().filter(|_| host::is_here(&running.host));
    let is_there = || directory.map_or_else(|| answers(running, Duration::from_secs(1)), is_existing);
    while is_there() {
        if Instant::now() >= deadline {
            return false;
        }
        pario_runtime::thread::sleep(Duration::from_millis(2));
    }
    true
}

fn is_existing(path: &Path) -> bool {
    matches!(pario_runtime::fs::exists(path), Ok(true))
}
