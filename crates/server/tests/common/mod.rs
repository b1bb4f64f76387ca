//! Servers of a partition in this process, and a client that sends single requests.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario_cache::{LedgerId, PoolMapping};
use pario_server::{Config, PoolConfig, Server, ServerFaults, ViewCacheConfig};
use pario_transport::{Address, Connection, SocketOptions};
use pario_types::{ClientId, Epoch, FileId, PartitionId, RequestId, ServerId};
use pario_wire::greeting::{Hello, Role};
use pario_wire::message::{Attributes, ByteRange, ByteSelection, CreateMode, LayoutRequest, OpenAccess};
use pario_wire::{Envelope, Reply, Request, Secret};

pub const PARTITION: PartitionId = PartitionId(7);
pub const BLOCK: u32 = 4096;

/// A directory that is removed when the value is dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = format!("pario-server-{name}-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn config(dir: &Path, server: u16, servers: u16, slots: u64) -> Config {
    let run_directory = dir.join(format!("run{server}"));
    let directory = dir.join(format!("data{server}"));
    for dir in [&run_directory, &directory] {
        std::fs::create_dir_all(dir).unwrap();
    }
    Config {
        partition: PARTITION,
        server: ServerId(server),
        servers,
        epoch: Epoch(0),
        metadata: ServerId(0),
        secret: Secret::new([9; 32]),
        encryption: false,
        made: false,
        directory,
        run_directory,
        listen: Some((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)),
        stripe: 4096,
        pool: PoolConfig {
            block: BLOCK,
            bytes: slots * u64::from(BLOCK),
            high_water: (slots / 2) as u32,
            low_water: (slots / 4) as u32,
        },
        views: ViewCacheConfig { most: 64, bytes: 1 << 20 },
        workers: 2,
        fair: true,
        lease: Duration::ZERO,
        grace: Duration::from_secs(20),
        deadline: Duration::from_secs(10),
        faults: ServerFaults::default(),
    }
}

pub fn start(dir: &Path, server: u16, servers: u16, slots: u64) -> Server {
    start_with(config(dir, server, servers, slots))
}

pub fn start_with(config: Config) -> Server {
    let servers = usize::from(config.servers);
    let started = Server::start(config).unwrap();
    let own = started.started().unix.clone();
    started.set_peers(vec![vec![own]; servers]);
    started
}

pub fn start_all(dir: &Path, servers: u16, slots: u64) -> Vec<Server> {
    connect_all((0..servers).map(|server| start(dir, server, servers, slots)).collect())
}

/// Tells all servers the addresses of the others.
pub fn connect_all(all: Vec<Server>) -> Vec<Server> {
    let addresses: Vec<Vec<Address>> = all.iter().map(|s| vec![s.started().unix.clone()]).collect();
    all.iter().for_each(|server| server.set_peers(addresses.clone()));
    all
}

/// Waits for a condition, up to the deadline.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = deadline();
    while !condition() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

pub fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

pub struct Client {
    pub connection: Connection,
    pub pool: Option<PoolMapping>,
    server: ServerId,
    next: u64,
}

pub fn hello(server: u16, servers: u16, client: u128) -> Hello {
    Hello {
        partition: PARTITION,
        server: ServerId(server),
        servers,
        epoch: Epoch(0),
        client: ClientId(client),
        program: 1,
        role: Role::Client,
        resume_ledger: None,
    }
}

impl Client {
    pub fn connect(address: &Address, server: u16, servers: u16, client: u128) -> Client {
        Client::greet(address, &hello(server, servers, client))
    }

    /// A client that does not access data, like a mailbox.
    pub fn tool(address: &Address, client: u128) -> Client {
        Client::greet(address, &Hello { role: Role::Tool, ..hello(0, 1, client) })
    }

    fn greet(address: &Address, hello: &Hello) -> Client {
        let secret = Secret::new([9; 32]);
        let (connection, welcome, pool) =
            Connection::connect(address, &SocketOptions::default(), hello, &secret, deadline()).unwrap();
        let pool = pool.map(|fd| PoolMapping::open(fd, LedgerId(welcome.ledger.unwrap())).unwrap());
        Client { connection, pool, server: hello.server, next: 1 }
    }

    pub fn ask(&mut self, request: &Request) -> Reply {
        self.exchange(self.server, request, &[], &mut [])
    }

    pub fn exchange(&mut self, server: ServerId, request: &Request, out: &[u8], into: &mut [u8]) -> Reply {
        let id = RequestId(self.next);
        self.next += 1;
        let envelope = Envelope::new(server, id);
        let (out, into) = ([IoSlice::new(out)], &mut [IoSliceMut::new(into)]);
        self.connection.call(envelope, request, &out, into, deadline()).unwrap()
    }

    pub fn create(&mut self, path: &str) -> Attributes {
        let request = Request::Open {
            path: path.into(),
            access: OpenAccess::Both,
            create: CreateMode::Missing,
            mode: 0o600,
            layout_request: LayoutRequest::default(),
        };
        match self.ask(&request) {
            Reply::Opened { attributes, .. } => attributes,
            other => panic!("{other:?}"),
        }
    }

    pub fn write(&mut self, server: u16, file: FileId, at: u64, bytes: &[u8]) -> Reply {
        let request = Request::Write {
            file,
            what: ByteSelection::Ranges(vec![ByteRange { at, len: bytes.len() as u64 }]),
        };
        self.exchange(ServerId(server), &request, bytes, &mut [])
    }

    /// The bytes and the local end.
    pub fn read(&mut self, server: u16, file: FileId, at: u64, len: usize) -> (Vec<u8>, u64) {
        let mut bytes = vec![0xee; len];
        let request =
            Request::Read { file, what: ByteSelection::Ranges(vec![ByteRange { at, len: len as u64 }]) };
        match self.exchange(ServerId(server), &request, &[], &mut bytes) {
            Reply::Data { end } => (bytes, end),
            other => panic!("{other:?}"),
        }
    }
}
