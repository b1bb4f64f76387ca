//! The seam between the commands and the rest of the system: running a server, reaching one.

use super::host;
use super::message::{Ask, Peers, Said, Start, line, next_line};
use super::pools::{Look, Owner, look, look_at_left};
use super::task::Whose;
use crate::signal;
use pario_registry::{
    Entry, Listen, Manifest, Running, Scheduling, Secret, Supervision, leave_run_directory,
    remove_run_directory,
};
use pario_server::{Config, Ender, Pulse, Server, fail_as_a_process, log};
use pario_transport::{Address, Connection, Stream, Tuning, fresh_client};
use pario_types::{ErrorKind, PartitionId, RequestId, ServerId};
use pario_wire::greeting::{Hello, Role};
use pario_wire::{Envelope, Reply, Request};
use std::io::{BufRead, Write};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a server waits for the end of another in its place.
const PREDECESSOR: Duration = Duration::from_secs(5);

/// How long a process may take, at least and at most, to give up what it has leased. See [`grace`].
const LEAST_GRACE: Duration = Duration::from_secs(1);
const MOST_GRACE: Duration = Duration::from_secs(20);

/// Views of clients that a server keeps, and bytes of memory for them.
const VIEWS: usize = 4096;
const VIEW_BYTES: usize = 64 << 20;

/// A server's run directory, held by its supervisor.
pub struct Supervised {
    base: PathBuf,
    partition: PartitionId,
    server: ServerId,
    held: Supervision,
}

impl Supervised {
    /// Takes the place of the server's supervisor. One that has no server, because that cannot be started, gives way.
    pub fn take(start: &Start) -> Result<Supervised, String> {
        let (base, partition, server) = (base(start), start.partition, start.server);
        let until = Instant::now() + PREDECESSOR;
        let held = loop {
            let dir = pario_registry::run_directory(&base, partition, server).map_err(|e| e.to_string())?;
            match Supervision::take(&dir, until.saturating_duration_since(Instant::now())) {
                Ok(held) if held.is_current() => break held,
                // A predecessor that just ended has removed the directory.
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::NoSuchFile && Instant::now() < until => {}
                Err(e) if e.kind() == ErrorKind::FileInUse => {
                    let whose = Whose { run_base: Some(base.clone()), partition, server };
                    whose.end_supervisor().map_err(|why| format!("{e}: {why}"))?;
                }
                Err(e) => return Err(e.to_string()),
            }
        };
        Ok(Supervised { base, partition, server, held })
    }

    /// Whether the run directory is still the server's: it goes when the partition goes down.
    pub fn is_current(&self) -> bool {
        self.held.is_current()
    }

    /// Gives it up.
    pub fn end(self) {
        self.held.give_up(&self.base, self.partition, self.server);
    }
}

/// Stores what the pool of a server holds that died, and removes it; how many bytes only the pool had.
pub fn recover(start: &Start) -> Result<u64, String> {
    let config = config(start, None)?;
    let bytes = match look_at_left(&config.run_directory.join("pool"))? {
        Look::Served => return Err("a server uses the pool".into()),
        Look::Left(left) => left.map_or(0, |left| left.unsaved),
    };
    start_server(&config)?.shut_down().map_err(|e| e.to_string())?;
    remove_run_directory(&base(start), start.partition, start.server).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// Runs a server until it is shut down: reads [`Start`], says `Ready`, reads the peers, says `Serving`. A signal that asks
/// it to end has the server drained.
pub fn serve(input: impl BufRead + Send + 'static) -> ExitCode {
    match try_to_serve(input) {
        Ok(()) => ExitCode::SUCCESS,
        Err(End::Unsaved(why)) => {
            log(&why);
            ExitCode::from(UNSAVED)
        }
        Err(End::Failed(why)) => {
            log(&why);
            // Who started us may be gone.
            let _ = say(&Said::Failed { why });
            ExitCode::FAILURE
        }
    }
}

/// The exit code of a server that was told to end and could not store everything. It is not started again.
pub const UNSAVED: u8 = 3;

/// Why a server does not serve.
enum End {
    /// It had to end and could not store everything.
    Unsaved(String),
    /// It cannot.
    Failed(String),
}

impl From<String> for End {
    fn from(why: String) -> End {
        End::Failed(why)
    }
}

impl From<&str> for End {
    fn from(why: &str) -> End {
        End::Failed(why.to_owned())
    }
}

impl From<pario_server::Error> for End {
    fn from(error: pario_server::Error) -> End {
        match error {
            pario_server::Error::Unsaved(..) => End::Unsaved(error.to_string()),
            _ => End::Failed(error.to_string()),
        }
    }
}

/// What a server hears while it runs.
enum Heard {
    Line(Vec<u8>),
    /// There are no more lines.
    End,
    Signal(i32),
}

/// Sends what comes by the input and by signals.
fn listen(mut input: impl BufRead + Send + 'static) -> Result<Receiver<Heard>, String> {
    let (sender, heard) = channel();
    let signals = sender.clone();
    // Nobody listens any more when the server ends.
    let hear = move |signal| drop(signals.send(Heard::Signal(signal)));
    signal::hear_end(hear).map_err(|e| format!("waiting for signals: {e}"))?;
    let read = move || {
        while let Ok(Some(line)) = next_line(&mut input) {
            if sender.send(Heard::Line(line)).is_err() {
                return;
            }
        }
        let _ = sender.send(Heard::End);
    };
    let reader = std::thread::Builder::new().name("input".into()).spawn(read);
    reader.map_err(|e| format!("starting a thread: {e}"))?;
    Ok(heard)
}

fn say(said: &Said) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(&line(said)).and_then(|()| output.flush())
}

/// Answers the supervisor, and ends the server when a signal comes. Others that come later change nothing.
fn attend(heard: Receiver<Heard>, ender: &Ender, pulse: &Pulse) {
    for one in heard {
        match one {
            Heard::Line(line) if serde_json::from_slice::<Ask>(&line).is_ok() => {
                // The supervisor may be gone.
                pulse.ask(|| drop(say(&Said::Alive)));
            }
            Heard::Line(_) | Heard::End => {}
            Heard::Signal(signal) => {
                log(&format!("got {}: stores everything and ends", signal::name(signal)));
                ender.end();
            }
        }
    }
}

fn try_to_serve(input: impl BufRead + Send + 'static) -> Result<(), End> {
    // Before it can end: then this process has another parent.
    let supervisor = std::os::unix::process::parent_id();
    let heard = listen(input)?;
    let Ok(Heard::Line(told)) = heard.recv() else { return Err("no start message came".into()) };
    let start: Start = serde_json::from_slice(&told).map_err(|e| format!("the start message: {e}"))?;
    let (address, note) = listening(&start)?;
    let config = config(&start, address)?;
    // Only for who finds the directory.
    let _ = owner(&start).write(&config.run_directory);
    let server = start_server(&config)?;
    let manifest =
        Manifest { id: start.partition, server: start.server, description: start.description.clone() };
    if let Err(error) = manifest.write(&config.directory) {
        server.shut_down().map_err(|e| e.to_string())?;
        return Err(error.to_string().into());
    }
    let started = server.started();
    if let Some(adopted) = &started.adopted {
        log(&format!(
            "went on with its predecessor's cache: {} blocks, {} of them not yet stored",
            adopted.valid, adopted.dirty
        ));
    }
    let Address::Unix(unix) = &started.unix else { return Err("no Unix socket".into()) };
    let tcp = started.tcp.as_ref().map(|address| match address {
        Address::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
        Address::Tcp(host, port) => format!("{host}:{port}"),
        Address::Unix(path) => path.display().to_string(),
    });
    let ready = Said::Ready { pid: std::process::id(), unix: unix.display().to_string(), tcp, note };
    say(&ready).map_err(|e| format!("whoever started this server is gone: {e}"))?;
    let peers = match heard.recv() {
        Ok(Heard::Line(text)) => serde_json::from_slice::<Peers>(&text).ok(),
        _ => None,
    };
    let Some(peers) = peers else {
        server.shut_down()?;
        let _ = leave_run_directory(&base(&start), start.partition, start.server, supervisor);
        return Err("ended before it served: whoever started this server is gone".into());
    };
    server.set_peers(peers.peers.iter().map(addresses).collect());
    // From here on nobody has to listen.
    let _ = say(&Said::Serving);
    let (ender, pulse) = (server.ender(), server.pulse());
    let attend = move || fail_as_a_process(move || attend(heard, &ender, &pulse));
    let attending = std::thread::Builder::new().name("attend".into()).spawn(attend);
    attending.map_err(|e| format!("starting a thread: {e}"))?;
    server.wait()?;
    let _ = leave_run_directory(&base(&start), start.partition, start.server, supervisor);
    Ok(())
}

fn owner(start: &Start) -> Owner {
    let structure = start.description.structure();
    Owner {
        name: structure.name.clone(),
        home: start.home.clone(),
        servers: structure.servers.iter().map(ToString::to_string).collect(),
        pid: std::process::id(),
    }
}

/// Starts the server. One whose starter was killed may still be ending, and uses the directory until then. If it cannot
/// start, it leaves no pool that was not there before.
fn start_server(config: &Config) -> Result<Server, String> {
    let pool = config.run_directory.join("pool");
    let had_pool = pool.try_exists().unwrap_or(true);
    try_to_start(config).inspect_err(|_| {
        if !had_pool && matches!(look(&pool), Ok(Look::Left(Some(_)))) {
            // If it stays after all, the next one goes on with it.
            let _ = std::fs::remove_file(&pool);
        }
    })
}

fn try_to_start(config: &Config) -> Result<Server, String> {
    let until = Instant::now() + PREDECESSOR;
    loop {
        match Server::start(config.clone()) {
            Err(e) if e.kind() == ErrorKind::FileInUse && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            outcome => return outcome.map_err(|e| e.to_string()),
        }
    }
}

/// Where the run directory of this server is made.
fn base(start: &Start) -> PathBuf {
    run_base(start.run_base.as_deref())
}

/// Where run directories are, if the user has said it or not.
pub fn run_base(named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| pario_registry::run_base(&std::env::temp_dir()), Path::to_owned)
}

/// Where the server listens for other hosts, and what the user has to know about it.
fn listening(start: &Start) -> Result<(Option<IpAddr>, Option<String>), String> {
    match &start.description.settings().listen {
        Listen::Auto if start.local => Ok((None, None)),
        Listen::Auto => {
            let (address, note) = host::own_address(&start.node);
            Ok((Some(address), note))
        }
        listen => Ok((listen.address().map_err(|e| e.to_string())?, None)),
    }
}

fn config(start: &Start, listen: Option<IpAddr>) -> Result<Config, String> {
    let (structure, settings) = (start.description.structure(), start.description.settings());
    let resource = structure.servers.get(usize::from(start.server.0)).ok_or("there is no such server")?;
    let directory = PathBuf::from(&resource.dir);
    if start.made && !directory.join("format").exists() {
        return Err(format!(
            "{} holds no data of this partition, though it was there before; is the right disk mounted?",
            directory.display()
        ));
    }
    make_directory(&directory)?;
    let run_directory = pario_registry::run_directory(&base(start), start.partition, start.server);
    let blocks = start.description.cache_blocks();
    let mark = |blocks: u64| u32::try_from(blocks).unwrap_or(u32::MAX);
    Ok(Config {
        partition: start.partition,
        server: start.server,
        servers: structure.servers.len() as u16,
        metadata: structure.metadata,
        secret: pario_wire::Secret::new(*start.secret.bytes()),
        encryption: settings.encryption,
        made: start.made,
        directory,
        run_directory: run_directory.map_err(|e| e.to_string())?,
        listen: listen.map(|address| (address, start.port)),
        stripe: structure.stripe_size,
        block: u32::try_from(structure.block_size).map_err(|_| "the block size is too large")?,
        cache: settings.cache,
        high_water: mark(settings.high_water.of(blocks)),
        low_water: mark(settings.low_water.of(blocks)),
        views: VIEWS,
        view_bytes: VIEW_BYTES,
        workers: usize::from(settings.workers),
        fair: settings.scheduling == Scheduling::Fair,
        lease: settings.deadline,
        grace: grace(settings.deadline),
        deadline: settings.deadline,
        store_delay: start.store_delay,
        panics: start.panics.clone(),
    })
}

/// Less than a request of another waits for it.
fn grace(deadline: Duration) -> Duration {
    (deadline * 2 / 3).clamp(LEAST_GRACE, MOST_GRACE)
}

fn make_directory(path: &Path) -> Result<(), String> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| format!("cannot make the directory {}: {e}", path.display()))
}

/// Where a server is to be found: on its own host by its socket.
fn addresses(running: &Running) -> Vec<Address> {
    let unix = host::is_here(&running.host).then(|| Address::Unix(PathBuf::from(&running.unix)));
    let tcp = running.tcp.as_ref().and_then(|tcp| format!("tcp:{tcp}").parse().ok());
    unix.into_iter().chain(tcp).collect()
}

/// Whether something listens where the server was.
pub fn answers(running: &Running, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    let is_there = |address: &Address| Stream::connect(address, &Tuning::default(), deadline).is_ok();
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

/// Why a server did not stop.
pub enum NotStopped {
    /// It answered that it cannot, and goes on.
    Refused(String),
    /// It did not answer.
    Silent(String),
}

/// Tells a server to write everything to storage and to end, and waits for that.
pub fn shut_down(
    entry: &Entry,
    server: ServerId,
    running: &Running,
    secret: &Secret,
    deadline: Instant,
) -> Result<(), NotStopped> {
    match ask(entry, server, running, secret, &Request::Shutdown, deadline) {
        Ok(Reply::Done) => {
            await_end(running, deadline);
            Ok(())
        }
        Ok(Reply::Failed(failure)) => Err(NotStopped::Refused(failure.text)),
        Ok(other) => Err(NotStopped::Silent(format!("it answered {}", other.name()))),
        Err(why) => Err(NotStopped::Silent(why)),
    }
}

/// Asks a server one thing.
fn ask(
    entry: &Entry,
    server: ServerId,
    running: &Running,
    secret: &Secret,
    request: &Request,
    deadline: Instant,
) -> Result<Reply, String> {
    let servers = entry.description.structure().servers.len() as u16;
    let whom = Whom { partition: entry.id, server, servers };
    let secret = pario_wire::Secret::new(*secret.bytes());
    let mut last = "it has no address".to_owned();
    for address in addresses(running) {
        match connect(&whom, &address, &secret, deadline) {
            Ok(connection) => return call(connection, server, request, deadline),
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// A server of a partition, as one has to know it to be let in.
pub struct Whom {
    pub partition: PartitionId,
    pub server: ServerId,
    pub servers: u16,
}

/// Connects to a server as a command.
pub fn connect(
    whom: &Whom,
    address: &Address,
    secret: &pario_wire::Secret,
    deadline: Instant,
) -> Result<Connection, String> {
    let client = fresh_client().map_err(|e| e.to_string())?;
    let hello = Hello {
        partition: whom.partition,
        server: whom.server,
        servers: whom.servers,
        client,
        program: client.0 as u64,
        role: Role::Tool,
        resume_ledger: None,
    };
    let connected = Connection::connect(address, &Tuning::default(), &hello, secret, deadline);
    connected.map(|(connection, ..)| connection).map_err(|e| e.to_string())
}

/// Asks one thing on a connection.
pub fn call(
    mut connection: Connection,
    server: ServerId,
    request: &Request,
    deadline: Instant,
) -> Result<Reply, String> {
    let envelope = Envelope::new(server, RequestId(1));
    connection.call(envelope, request, &[], &mut [], deadline).map_err(|e| e.to_string())
}

/// Waits for what a server does after its last answer: it removes its run directory, and ends.
fn await_end(running: &Running, deadline: Instant) {
    let directory = Path::new(&running.unix).parent().filter(|_| host::is_here(&running.host));
    let is_there = || directory.map_or_else(|| answers(running, Duration::from_secs(1)), Path::exists);
    while is_there() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}
