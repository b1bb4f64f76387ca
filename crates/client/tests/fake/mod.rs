//! Servers of a partition in this process: the real protocol and real pools over a store that is a map. They can be made to
//! break connections, to stay silent, and to lose their caches.
#![allow(dead_code, reason = "each test program uses a part of this")]

mod data;
mod names;

use std::io::{self, IoSlice};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use pario_cache::LedgerId;
use pario_client::{Options, Partition, Target};
use pario_transport::{
    AcceptedClient, Address, HandshakeConfig, HandshakeStep, RecordReader, ServerHandshake, SocketOptions,
    Stream, fresh_nonce,
};
use pario_types::{AccessDefaults, ClientId, Epoch, PartitionId, ServerId};
use pario_wire::greeting::Welcome;
use pario_wire::message::ByteRange;
use pario_wire::{Envelope, FrameDecoder, RecordSealer, Reply, Request, Secret, encode_reply};

use data::Data;
use names::Names;

const PARTITION: PartitionId = PartitionId(0xfa4e);
const SECRET: [u8; 32] = [7; 32];

#[derive(Clone, Copy)]
pub struct Setup {
    pub servers: u16,
    pub stripe: u64,
    /// Slots of each pool; 0: there are none.
    pub slots: u32,
    /// Servers on other hosts.
    pub tcp: &'static [u16],
}

/// The state that all servers of a partition share.
pub struct Shared {
    setup: Setup,
    partition: PartitionId,
    secret: Secret,
    names: Mutex<Names>,
    data: Vec<Data>,
    /// The probability, in thousandths, that a connection is broken at an opportunity.
    breaking: AtomicU64,
    random: AtomicU64,
    silent: AtomicBool,
    stopped: AtomicBool,
    streams: Mutex<Vec<Arc<Stream>>>,
    pub broken: AtomicU64,
    pub requests: AtomicU64,
}

pub struct Fake {
    pub shared: Arc<Shared>,
    directory: PathBuf,
    target: Target,
    listeners: Vec<JoinHandle<()>>,
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix(socket) => socket.accept().map(|(stream, _)| Stream::Unix(stream)),
            Listener::Tcp(socket) => socket.accept().map(|(stream, _)| Stream::Tcp(stream)),
        }
    }
}

impl Fake {
    pub fn start(setup: Setup) -> Fake {
        Fake::start_as(setup, PARTITION, SECRET)
    }

    /// The same for a partition with a given name.
    pub fn start_as(setup: Setup, partition: PartitionId, secret: [u8; 32]) -> Fake {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("pario-client-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let shared = Arc::new(Shared {
            setup,
            names: Mutex::new(Names::new(setup.servers, setup.stripe)),
            partition,
            secret: Secret::new(secret),
            data: (0..setup.servers)
                .map(|server| Data::new(&directory, ServerId(server), setup.slots))
                .collect(),
            breaking: AtomicU64::new(0),
            random: AtomicU64::new(number),
            silent: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            streams: Mutex::default(),
            broken: AtomicU64::new(0),
            requests: AtomicU64::new(0),
        });
        let (mut servers, mut listeners) = (Vec::new(), Vec::new());
        for server in (0..setup.servers).map(ServerId) {
            let (listener, address) = listen(&directory, server, setup.tcp.contains(&server.0));
            servers.push(vec![address]);
            let shared = Arc::clone(&shared);
            listeners.push(std::thread::spawn(move || shared.listen(&listener, server)));
        }
        let secret = Secret::new(secret);
        let target = Target {
            name: "fake".into(),
            partition,
            secret,
            servers,
            epoch: Epoch(0),
            metadata: ServerId(0),
            access: AccessDefaults::default(),
        };
        Fake { shared, directory, target, listeners }
    }

    /// Sets the number of ranges that each server accepts to prefetch.
    pub fn take_ranges(&self, most: &[usize]) {
        self.shared
            .data
            .iter()
            .zip(most)
            .for_each(|(data, most)| data.most_kept.store(*most, Ordering::Relaxed));
    }

    /// The ranges that each server has prefetched for clients.
    pub fn kept(&self) -> Vec<Vec<ByteRange>> {
        self.shared.data.iter().map(|data| data.kept.lock().unwrap().clone()).collect()
    }

    pub fn target(&self) -> Target {
        self.target.clone()
    }

    pub fn connect(&self) -> Partition {
        self.connect_with(Options::default())
    }

    pub fn connect_with(&self, options: Options) -> Partition {
        Partition::connect_to(self.target(), options).expect("connected")
    }

    /// From now on breaks connections with this probability in thousandths.
    pub fn break_connections(&self, of_a_thousand: u64) {
        self.shared.breaking.store(of_a_thousand, Ordering::Relaxed);
    }

    /// From now on answers no request.
    pub fn be_silent(&self) {
        self.shared.silent.store(true, Ordering::Relaxed);
    }

    /// Ends all connections.
    pub fn hang_up(&self) {
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown();
        }
    }

    /// Replaces a server's process by one that does not find the previous pool.
    pub fn lose_cache(&self, server: ServerId) {
        self.shared.data[usize::from(server.0)].lose_pool();
        self.hang_up();
    }

    /// The number of open files.
    pub fn opens(&self) -> usize {
        self.shared.names.lock().unwrap().opens()
    }

    /// Leaves a truncation begun and not ended.
    pub fn begin_truncate(&self, path: &str) {
        self.shared.names.lock().unwrap().begin_truncate_of(path);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        for addresses in &self.target.servers {
            let soon = std::time::Instant::now() + std::time::Duration::from_secs(1);
            let _ = Stream::connect(&addresses[0], &SocketOptions::default(), soon);
        }
        for listener in self.listeners.drain(..) {
            let _ = listener.join();
        }
        self.hang_up();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn listen(directory: &Path, server: ServerId, tcp: bool) -> (Listener, Address) {
    if tcp {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("bound").port();
        return (Listener::Tcp(socket), Address::Tcp("127.0.0.1".into(), port));
    }
    let path = directory.join(format!("{server}.sock"));
    let socket = UnixListener::bind(&path).expect("a socket");
    (Listener::Unix(socket), Address::Unix(path))
}

/// A client that is accepted.
struct Session<'a> {
    shared: &'a Shared,
    server: ServerId,
    stream: Arc<Stream>,
    client: ClientId,
    ledger: Option<LedgerId>,
    sealer: RecordSealer,
    reader: RecordReader,
}

impl Shared {
    fn listen(self: Arc<Self>, listener: &Listener, server: ServerId) {
        while let Ok(stream) = listener.accept() {
            if self.stopped.load(Ordering::Relaxed) {
                return;
            }
            stream.tune(&SocketOptions::default()).expect("tuned");
            let stream = Arc::new(stream);
            self.streams.lock().unwrap().push(Arc::clone(&stream));
            let shared = Arc::clone(&self);
            std::thread::spawn(move || shared.serve(stream, server));
        }
    }

    fn serve(&self, stream: Arc<Stream>, server: ServerId) {
        // However a session ends, the client sees a closed connection.
        if let Ok(mut session) = self.greet(&stream, server) {
            let _ = session.run();
            if let (Some(pool), Some(ledger)) = (self.data[usize::from(server.0)].pool(), session.ledger) {
                pool.give_ledger(ledger);
            }
        }
        let _ = stream.shutdown();
    }

    fn greet<'a>(&'a self, stream: &Arc<Stream>, server: ServerId) -> io::Result<Session<'a>> {
        let handshake_config = HandshakeConfig {
            partition: self.partition,
            server,
            servers: self.setup.servers,
            epoch: Epoch(0),
            secret: self.secret.clone(),
            encryption: true,
        };
        let mut handshake = ServerHandshake::new(
            Arc::new(handshake_config),
            "client".into(),
            stream.peer_user()?,
            fresh_nonce()?,
        );
        let accepted = loop {
            let mut bytes = [0; 512];
            let count = stream.read(&mut bytes)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match handshake.feed(&bytes[..count]) {
                HandshakeStep::More => {}
                HandshakeStep::Send(bytes) => write_all(stream, &bytes)?,
                HandshakeStep::Accepted(accepted) => break accepted,
                HandshakeStep::Refused { farewell, .. } => {
                    write_all(stream, &farewell)?;
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
            }
        };
        self.maybe_break()?;
        let ledger = self.admit(stream, server, &accepted)?;
        let (sealer, opener) = accepted.ends();
        let (client, reader) = (accepted.hello().client, RecordReader::new(opener));
        Ok(Session { shared: self, server, stream: Arc::clone(stream), client, ledger, sealer, reader })
    }

    fn admit(
        &self,
        stream: &Stream,
        server: ServerId,
        accepted: &AcceptedClient,
    ) -> io::Result<Option<LedgerId>> {
        let cache = self.data[usize::from(server.0)].pool();
        let mark = cache.as_ref().map_or(1, |pool| pool.mark());
        let pool = cache.filter(|_| stream.is_local());
        let pid = stream.peer_process()?.unwrap_or(0);
        let ledger = pool.as_ref().and_then(|pool| match accepted.hello().resume_ledger.map(LedgerId) {
            Some(old) if pool.resume_ledger(old, pid) => Some(old),
            _ => pool.take_ledger(pid),
        });
        let welcome = Welcome {
            block: data::BLOCK,
            metadata: ServerId(0),
            epoch: Epoch(0),
            cache: mark,
            retired: [0; 16],
            ledger: ledger.map(|ledger| ledger.0),
        };
        write_all(stream, &accepted.welcome(welcome))?;
        if let (Some(pool), Some(_)) = (&pool, ledger) {
            stream.send_descriptor(pool.descriptor())?;
        }
        Ok(ledger)
    }

    /// An opportunity to break the connection.
    fn maybe_break(&self) -> io::Result<()> {
        // A linear congruential generator is random enough here.
        let step = |seen: u64| Some(seen.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        let drawn = self.random.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap_or(0);
        if (drawn >> 33) % 1000 < self.breaking.load(Ordering::Relaxed) {
            self.broken.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl Session<'_> {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let (envelope, request, payload) = self.receive()?;
            self.shared.requests.fetch_add(1, Ordering::Relaxed);
            self.shared.maybe_break()?;
            let mut answer = vec![0; request.reply_payload() as usize];
            let reply = self.apply(envelope, &request, &payload, &mut answer);
            self.shared.maybe_break()?;
            if self.shared.silent.load(Ordering::Relaxed) {
                continue;
            }
            if !matches!(reply, Reply::Data { .. }) {
                answer.clear();
            }
            let mut frame = Vec::new();
            encode_reply(&mut frame, envelope, &reply, answer.len() as u64).map_err(io::Error::other)?;
            frame.extend(answer);
            let frame = self.sealer.records(&frame);
            let half = frame.len() / 2;
            write_all(&self.stream, &frame[..half])?;
            self.shared.maybe_break()?;
            write_all(&self.stream, &frame[half..])?;
        }
    }

    fn receive(&mut self) -> io::Result<(Envelope, Request, Vec<u8>)> {
        let mut decoder = FrameDecoder::new();
        loop {
            let count = self.reader.read(&self.stream, decoder.space())?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(head) = decoder.advance(count).map_err(io::Error::other)? {
                let (envelope, request) = head.request(decoder.body()).map_err(io::Error::other)?;
                let mut payload = vec![0; head.payload as usize];
                let mut filled = 0;
                while filled < payload.len() {
                    match self.reader.read(&self.stream, &mut payload[filled..])? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        count => filled += count,
                    }
                }
                return Ok((envelope, request, payload));
            }
        }
    }

    fn apply(&self, envelope: Envelope, request: &Request, payload: &[u8], answer: &mut [u8]) -> Reply {
        let data = &self.shared.data[usize::from(self.server.0)];
        match data.apply(request, payload, answer, self.ledger) {
            Some(reply) => reply,
            None => {
                assert_eq!(self.server, ServerId(0), "{request:?} belongs to the metadata server");
                self.shared.names.lock().unwrap().apply(self.client, envelope.id, request)
            }
        }
    }
}

fn write_all(stream: &Stream, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = stream.write_vectored(&[IoSlice::new(rest)])?;
        rest = &rest[count..];
    }
    Ok(())
}
