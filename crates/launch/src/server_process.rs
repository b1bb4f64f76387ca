//! The process that is a server: reads its parameters, runs the server, and ends with it.

use crate::host;
use crate::message::{HostMessage, PeerAddresses, Probe, ServerStart, line, next_line};
use crate::pools::{PoolOwner, PoolUse, look, look_at_left};
use crate::reach::addresses;
use crate::settings::run_base;
use crate::signals;
use crate::supervised::PREDECESSOR;
use pario_registry::{Listen, Manifest, Resource, Scheduling, leave_run_directory, remove_run_directory};
use pario_runtime::fs;
use pario_runtime::process::ExitCode;
use pario_runtime::sync::mpsc::{Receiver, channel};
use pario_runtime::time::Instant;
use pario_server::{
    Config, PoolConfig, Server, ServerFaults, ShutdownHandle, ViewCacheConfig, WorkerProbe, abort_on_panic,
    log,
};
use pario_transport::Address;
use pario_types::ErrorKind;
use pario_wire::message::ServerSet;
use std::io::{self, BufRead, Write};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a process may take, at least and at most, to give up what it has leased. See [`grace`].
const LEAST_GRACE: Duration = Duration::from_secs(1);
const MOST_GRACE: Duration = Duration::from_secs(20);

/// Views of clients that a server keeps, and bytes of memory for them.
const VIEWS: usize = 4096;
const VIEW_BYTES: usize = 64 << 20;

/// Stores the contents of the pool of a dead server, removes the pool, and returns how many bytes only the pool had.
pub fn recover(start: &ServerStart) -> Result<u64, String> {
    let config = config(start, None)?;
    let bytes = match look_at_left(&config.run_directory.join("pool"))? {
        PoolUse::Served => return Err("a server uses the pool".into()),
        PoolUse::Left(left) => left.map_or(0, |left| left.unsaved),
    };
    start_server(&config)?.shut_down().map_err(|e| e.to_string())?;
    remove_run_directory(&base(start), start.partition, start.server).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// Runs a server until it is shut down: reads [`ServerStart`], says `Ready`, reads the peers, says `Serving`. A signal that asks
/// it to end has the server drained.
pub fn serve(input: impl BufRead + Send + 'static) -> ExitCode {
    match try_to_serve(input) {
        Ok(()) => ExitCode::SUCCESS,
        Err(ServeFailure::Unsaved(why)) => {
            log(&why);
            ExitCode::from(UNSAVED)
        }
        Err(ServeFailure::Failed(why)) => {
            log(&why);
            // The process that started this one may be gone.
            let _ = say(&HostMessage::Failed { why });
            ExitCode::FAILURE
        }
    }
}

/// The addresses of each server, as a manifest has them.
type PeerTexts = Vec<Vec<String>>;

/// The exit code of a server that was told to end and could not store everything. It is not started again.
pub const UNSAVED: u8 = 3;

/// The reason why a server does not serve.
enum ServeFailure {
    /// It had to end and could not store everything.
    Unsaved(String),
    /// It cannot start.
    Failed(String),
}

impl From<String> for ServeFailure {
    fn from(why: String) -> ServeFailure {
        ServeFailure::Failed(why)
    }
}

impl From<&str> for ServeFailure {
    fn from(why: &str) -> ServeFailure {
        ServeFailure::Failed(why.to_owned())
    }
}

impl From<pario_server::Error> for ServeFailure {
    fn from(error: pario_server::Error) -> ServeFailure {
        match error {
            pario_server::Error::Unsaved(..) => ServeFailure::Unsaved(error.to_string()),
            _ => ServeFailure::Failed(error.to_string()),
        }
    }
}

/// External events of a running server's process.
enum ServerEvent {
    Line(Vec<u8>),
    /// There are no more lines.
    EndOfInput,
    Signal(i32),
}

/// Sends an event for each line of the input and for each signal.
fn listen(mut input: impl BufRead + Send + 'static) -> Result<Receiver<ServerEvent>, String> {
    let (sender, heard) = channel();
    let signals = sender.clone();
    // Nobody listens any more when the server ends.
    let hear = move |signal| drop(signals.send(ServerEvent::Signal(signal)));
    signals::on_termination(hear).map_err(|e| format!("waiting for signals: {e}"))?;
    let read = move || {
        while let Ok(Some(line)) = next_line(&mut input) {
            if sender.send(ServerEvent::Line(line)).is_err() {
                return;
            }
        }
        let _ = sender.send(ServerEvent::EndOfInput);
    };
    let reader = pario_runtime::thread::Builder::new().name("input".into()).spawn(read);
    reader.map_err(|e| format!("starting a thread: {e}"))?;
    Ok(heard)
}

fn say(said: &HostMessage) -> std::io::Result<()> {
    let mut output = pario_runtime::process::stdout().lock();
    output.write_all(&line(said)).and_then(|()| output.flush())
}

/// Answers the supervisor, and ends the server when a signal comes. Others that come later change nothing.
fn attend(heard: Receiver<ServerEvent>, shutdown: &ShutdownHandle, probe: &WorkerProbe) {
    for one in heard {
        match one {
            ServerEvent::Line(line) if serde_json::from_slice::<Probe>(&line).is_ok() => {
                // The supervisor may be gone.
                probe.send(|| drop(say(&HostMessage::Alive)));
            }
            ServerEvent::Line(_) | ServerEvent::EndOfInput => {}
            ServerEvent::Signal(signal) => {
                log(&format!("got {}: stores everything and ends", signals::name(signal)));
                shutdown.shut_down();
            }
        }
    }
}

fn try_to_serve(input: impl BufRead + Send + 'static) -> Result<(), ServeFailure> {
    // Before it can end: then this process has another parent.
    let supervisor = pario_runtime::process::parent_id();
    let heard = listen(input)?;
    let Ok(ServerEvent::Line(told)) = heard.recv() else { return Err("no start message came".into()) };
    let start: ServerStart = serde_json::from_slice(&told).map_err(|e| format!("the start message: {e}"))?;
    let (start, later_peers) = with_latest_servers(start)?;
    let (address, note) = listening(&start)?;
    let config = config(&start, address)?;
    // Only for commands that find the directory without its partition.
    let _ = owner(&start).write(&config.run_directory);
    let server = start_server(&config)?;
    let manifest = Manifest {
        id: start.partition,
        server: start.server,
        description: start.description.clone(),
        epoch: start.epoch,
        peers: later_peers.clone().unwrap_or_default(),
    };
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
    let ready =
        HostMessage::Ready { pid: pario_runtime::process::id(), unix: unix.display().to_string(), tcp, note };
    say(&ready).map_err(|e| format!("whoever started this server is gone: {e}"))?;
    let peers = match heard.recv() {
        Ok(ServerEvent::Line(text)) => serde_json::from_slice::<PeerAddresses>(&text).ok(),
        _ => None,
    };
    let Some(peers) = peers else {
        server.shut_down()?;
        let _ = leave_run_directory(&base(&start), start.partition, start.server, supervisor);
        return Err("ended before it served: whoever started this server is gone".into());
    };
    server.set_peers(match later_peers {
        Some(later) => parse_peers(&later)?,
        None => peers.peers.iter().map(addresses).collect(),
    });
    let directory = config.directory.clone();
    server.record_server_sets(move |set| record_servers(&directory, &manifest, set));
    // From here on nothing depends on whether the message arrives.
    let _ = say(&HostMessage::Serving);
    let (shutdown, probe) = (server.shutdown_handle(), server.worker_probe());
    let attend = move || abort_on_panic(move || attend(heard, &shutdown, &probe));
    let attending = pario_runtime::thread::Builder::new().name("attend".into()).spawn(attend);
    attending.map_err(|e| format!("starting a thread: {e}"))?;
    server.wait()?;
    let _ = leave_run_directory(&base(&start), start.partition, start.server, supervisor);
    Ok(())
}

/// The parameters with the servers of the manifest, if the manifest has a later set: a supervisor starts a server again with the set of the
/// time when it started the first one. Returns the addresses of the later set, too.
fn with_latest_servers(mut start: ServerStart) -> Result<(ServerStart, Option<PeerTexts>), String> {
    let resource = start.description.structure().servers.get(usize::from(start.server.0));
    let directory = PathBuf::from(&resource.ok_or("there is no such server")?.dir);
    // If it cannot be read, the store's own checks tell whether the directory is the right one.
    let Ok(manifest) = Manifest::read(&directory) else { return Ok((start, None)) };
    let is_own = (manifest.id, manifest.server) == (start.partition, start.server);
    if !is_own || manifest.epoch <= start.epoch || manifest.peers.is_empty() {
        return Ok((start, None));
    }
    let servers = manifest.description.structure().servers.clone();
    start.description = start.description.with_servers(servers).map_err(|e| e.to_string())?;
    start.epoch = manifest.epoch;
    Ok((start, Some(manifest.peers)))
}

fn parse_peers(peers: &[Vec<String>]) -> Result<Vec<Vec<Address>>, String> {
    let parse = |texts: &Vec<String>| {
        texts.iter().map(|text| text.parse().map_err(|e: pario_transport::Error| e.to_string())).collect()
    };
    peers.iter().map(parse).collect()
}

/// Records a new set of servers in the manifest of a server's directory.
fn record_servers(directory: &Path, first: &Manifest, set: &ServerSet) -> Result<(), String> {
    let places = set.servers.iter().map(|member| {
        Resource::parse(&member.place).ok_or_else(|| format!("{:?} is no place of a server", member.place))
    });
    let servers = places.collect::<Result<Vec<_>, String>>()?;
    let description = first.description.with_servers(servers).map_err(|e| e.to_string())?;
    let peers = set.servers.iter().map(|member| member.addresses.clone()).collect();
    let manifest = Manifest { description, epoch: set.epoch, peers, ..first.clone() };
    manifest.write(directory).map_err(|e| e.to_string())
}

fn owner(start: &ServerStart) -> PoolOwner {
    let structure = start.description.structure();
    PoolOwner {
        name: structure.name.clone(),
        home: start.home.clone(),
        servers: structure.servers.iter().map(ToString::to_string).collect(),
        pid: pario_runtime::process::id(),
    }
}

/// Starts the server. One whose starter was killed may still be ending, and uses the directory until then. If it cannot
/// start, it leaves no pool that was not there before.
fn start_server(config: &Config) -> Result<Server, String> {
    let pool = config.run_directory.join("pool");
    let had_pool = fs::exists(&pool).unwrap_or(true);
    try_to_start(config).inspect_err(|_| {
        if !had_pool && matches!(look(&pool), Ok(PoolUse::Left(Some(_)))) {
            // If it stays after all, the next one goes on with it.
            let _ = fs::remove_file(&pool);
        }
    })
}

fn try_to_start(config: &Config) -> Result<Server, String> {
    let until = Instant::now() + PREDECESSOR;
    loop {
        match Server::start(config.clone()) {
            Err(e) if e.kind() == ErrorKind::FileInUse && Instant::now() < until => {
                pario_runtime::thread::sleep(Duration::from_millis(20));
            }
            outcome => return outcome.map_err(|e| e.to_string()),
        }
    }
}

/// Where the server listens for other hosts, and what the user has to know about it.
fn listening(start: &ServerStart) -> Result<(Option<IpAddr>, Option<String>), String> {
    match &start.description.settings().listen {
        Listen::Auto if start.local => Ok((None, None)),
        Listen::Auto => {
            let (address, note) = host::own_address(&start.node);
            Ok((Some(address), note))
        }
        listen => Ok((listen.address().map_err(|e| e.to_string())?, None)),
    }
}

fn config(start: &ServerStart, listen: Option<IpAddr>) -> Result<Config, String> {
    let (structure, settings) = (start.description.structure(), start.description.settings());
    let resource = structure.servers.get(usize::from(start.server.0)).ok_or("there is no such server")?;
    let directory = PathBuf::from(&resource.dir);
    if start.made && !matches!(fs::exists(directory.join("format")), Ok(true)) {
        return Err(format!(
            "{} holds no data of this partition, though it was there before; is the right disk mounted?",
            directory.display()
        ));
    }
    make_directory(&directory, start.made)?;
    let run_directory = pario_registry::run_directory(&base(start), start.partition, start.server);
    let blocks = start.description.cache_blocks();
    let mark = |blocks: u64| u32::try_from(blocks).unwrap_or(u32::MAX);
    Ok(Config {
        partition: start.partition,
        server: start.server,
        servers: structure.servers.len() as u16,
        epoch: start.epoch,
        metadata: structure.metadata,
        secret: start.secret.clone(),
        encryption: settings.encryption,
        made: start.made,
        directory,
        run_directory: run_directory.map_err(|e| e.to_string())?,
        listen: listen.map(|address| (address, start.port)),
        stripe: structure.stripe_size,
        pool: PoolConfig {
            block: u32::try_from(structure.block_size).map_err(|_| "the block size is too large")?,
            bytes: settings.cache,
            high_water: mark(settings.high_water.of(blocks)),
            low_water: mark(settings.low_water.of(blocks)),
        },
        views: ViewCacheConfig { most: VIEWS, bytes: VIEW_BYTES },
        workers: usize::from(settings.workers),
        fair: settings.scheduling == Scheduling::Fair,
        lease: settings.deadline,
        grace: grace(settings.deadline),
        deadline: settings.deadline,
        faults: ServerFaults { store_delay: start.store_delay, panics: start.panics.clone() },
    })
}

/// Less than a request of another client waits for the bytes.
fn grace(deadline: Duration) -> Duration {
    (deadline * 2 / 3).clamp(LEAST_GRACE, MOST_GRACE)
}

/// Creates a directory with all above it. Unless it has been used before, its name and those of the directories above it are made to survive a
/// loss of power: nothing in a directory whose name is lost can be found.
fn make_directory(path: &Path, is_used: bool) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot make the directory {}: {error}", path.display());
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    // All of them: an earlier start that was killed may have created some.
    let above = path.ancestors().skip(1).filter(|above| !is_used && !above.as_os_str().is_empty());
    for directory in above {
        match fs::File::open(directory).and_then(|directory| directory.sync_all()) {
            // It belongs to somebody else, or to a file system without this call, and was there before.
            Err(error) if is_foreign(&error) => {}
            synced => synced.map_err(failed)?,
        }
    }
    Ok(())
}

fn is_foreign(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | InvalidInput | Unsupported)
}

/// Where the run directory of this server is made.
fn base(start: &ServerStart) -> PathBuf {
    run_base(start.run_base.as_deref())
}
