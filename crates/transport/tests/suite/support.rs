//! Both ends of a connection in one test: the client is tested, the server is plain and blocking.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pario_transport::{
    AcceptedClient, Address, Connection, Error, HandshakeConfig, HandshakeStep, Listener, RecordReader,
    ServerHandshake, SocketOptions, Stream, fresh_nonce,
};
use pario_types::{ClientId, Epoch, PartitionId, RequestId, ServerId};
use pario_wire::greeting::{Hello, Role, Welcome};
use pario_wire::message::ByteSelection;
use pario_wire::{Envelope, FrameDecoder, RecordSealer, Reply, Request, Secret, encode_reply};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    Unix,
    Tcp,
    /// By TCP, to a server that encrypts.
    Encrypted,
    InProcess,
}

impl Medium {
    pub const ALL: [Medium; 4] = [Medium::Unix, Medium::Tcp, Medium::Encrypted, Medium::InProcess];

    /// An address for a listener of this kind.
    pub fn address(self, directory: &Directory) -> Address {
        match self {
            Medium::Tcp | Medium::Encrypted => Address::Tcp("127.0.0.1".into(), 0),
            _ => Address::Unix(directory.0.join("socket")),
        }
    }

    /// The client's end and the server's.
    pub fn ends(self) -> (Stream, Stream) {
        if self == Medium::InProcess {
            return Stream::pair().expect("a pair");
        }
        let directory = Directory::new();
        let listener =
            Listener::bind(&self.address(&directory), SocketOptions::default()).expect("a listener");
        let client =
            Stream::connect(listener.address(), &SocketOptions::default(), soon()).expect("connected");
        (client, accepted(&listener))
    }
}

impl Medium {
    /// The values that a server there checks.
    pub fn config(self) -> Arc<HandshakeConfig> {
        Arc::new(HandshakeConfig { encryption: self == Medium::Encrypted, ..(*config()).clone() })
    }
}

/// A directory that is removed after the test.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("pario-transport-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a directory");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A deadline that is not meant to pass.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// A deadline that is meant to pass.
pub fn at_once() -> Instant {
    Instant::now() + Duration::from_millis(30)
}

/// Accepts a connection, as soon as there is one.
pub fn accepted(listener: &Listener) -> Stream {
    let deadline = soon();
    while Instant::now() < deadline {
        match listener.accept().expect("accepting") {
            Some(stream) => return stream,
            None => std::thread::yield_now(),
        }
    }
    panic!("nobody came");
}

pub fn secret() -> Secret {
    Secret::new([42; 32])
}

pub fn config() -> Arc<HandshakeConfig> {
    Arc::new(HandshakeConfig {
        partition: PartitionId(77),
        server: ServerId(1),
        servers: 3,
        epoch: Epoch(0),
        secret: secret(),
        encryption: false,
    })
}

pub fn hello() -> Hello {
    Hello {
        partition: PartitionId(77),
        server: ServerId(1),
        servers: 3,
        epoch: Epoch(0),
        client: ClientId(9),
        program: 6,
        role: Role::Client,
        resume_ledger: None,
    }
}

pub fn welcome(ledger: Option<u32>) -> Welcome {
    Welcome { block: 65536, metadata: ServerId(0), epoch: Epoch(0), cache: 5, retired: [0; 16], ledger }
}

pub fn envelope(id: u64) -> Envelope {
    Envelope::new(ServerId(1), RequestId(id))
}

/// The server's end, blocking.
pub struct Server {
    pub stream: Stream,
    decoder: FrameDecoder,
    /// The connection after the client is accepted.
    records: Option<(RecordSealer, RecordReader)>,
}

impl Server {
    pub fn new(stream: Stream) -> Server {
        stream.set_nonblocking(false).expect("blocking");
        Server { stream, decoder: FrameDecoder::new(), records: None }
    }

    /// The handshake up to the welcome: returns the client, or the failure.
    pub fn shake_hands(&self, config: Arc<HandshakeConfig>) -> Result<Box<AcceptedClient>, Option<Error>> {
        self.shake_hands_with(config, self.stream.peer_user().expect("known"))
    }

    /// The same, with the peer's user as the server sees it.
    pub fn shake_hands_with(
        &self,
        config: Arc<HandshakeConfig>,
        user: Option<u32>,
    ) -> Result<Box<AcceptedClient>, Option<Error>> {
        let nonce = fresh_nonce().expect("random numbers");
        let mut handshake = ServerHandshake::new(config, "a client".into(), user, nonce);
        let mut bytes = [0; 100];
        loop {
            let n = self.stream.read(&mut bytes).map_err(|_| None)?;
            if n == 0 {
                return Err(None);
            }
            match handshake.feed(&bytes[..n]) {
                HandshakeStep::More => {}
                HandshakeStep::Send(bytes) => self.write(&bytes),
                HandshakeStep::Accepted(accepted) => return Ok(accepted),
                HandshakeStep::Refused { farewell, error } => {
                    self.write(&farewell);
                    return Err(Some(error));
                }
            }
        }
    }

    /// The whole handshake, without a pool.
    pub fn let_in(stream: Stream) -> Server {
        Server::let_in_by(stream, config())
    }

    pub fn let_in_by(stream: Stream, config: Arc<HandshakeConfig>) -> Server {
        let mut server = Server::new(stream);
        let accepted = server.shake_hands(config).expect("accepted");
        assert_eq!(*accepted.hello(), hello());
        server.write(&accepted.welcome(welcome(None)));
        let (sealer, opener) = accepted.ends();
        server.records = Some((sealer, RecordReader::new(opener)));
        server
    }

    /// Bytes of frames in records.
    pub fn seal(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.records.as_mut().expect("let in").0.records(bytes)
    }

    /// Writes bytes of frames in records.
    pub fn send(&mut self, bytes: &[u8]) {
        let records = self.seal(bytes);
        self.write(&records);
    }

    /// Writes all bytes, or as many as a peer takes that closes the connection.
    pub fn write(&self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(_) => return,
            }
        }
    }

    /// The next request with its payload; `None` when the client is gone.
    pub fn next(&mut self) -> Option<(Envelope, Request, Vec<u8>)> {
        let (_, reader) = self.records.as_mut().expect("let in");
        loop {
            match reader.read(&self.stream, self.decoder.space()) {
                Ok(0) | Err(_) => return None,
                Ok(n) => {
                    if let Some(head) = self.decoder.advance(n).expect("sound") {
                        let (envelope, request) = head.request(self.decoder.body()).expect("sound");
                        let mut payload = vec![0; head.payload as usize];
                        let mut filled = 0;
                        while filled < payload.len() {
                            match reader.read(&self.stream, &mut payload[filled..]) {
                                Ok(0) | Err(_) => return None,
                                Ok(n) => filled += n,
                            }
                        }
                        return Some((envelope, request, payload));
                    }
                }
            }
        }
    }

    pub fn reply(&mut self, envelope: Envelope, reply: &Reply, payload: &[u8]) {
        self.send(&reply_bytes(envelope, reply, payload));
    }

    /// Serves one file whose bytes are in memory, until the client is gone.
    pub fn serve_memory(mut self) {
        let mut memory = Vec::new();
        while let Some((envelope, request, payload)) = self.next() {
            match request {
                Request::Write { what: ByteSelection::Ranges(ranges), .. } => {
                    let mut rest = &payload[..];
                    for range in ranges {
                        let (at, len) = (range.at as usize, range.len as usize);
                        memory.resize(memory.len().max(at + len), 0);
                        memory[at..at + len].copy_from_slice(&rest[..len]);
                        rest = &rest[len..];
                    }
                    self.reply(envelope, &Reply::Done, &[]);
                }
                Request::Read { what: ByteSelection::Ranges(ranges), .. } => {
                    let mut bytes = Vec::new();
                    for range in ranges {
                        let (at, len) = (range.at as usize, range.len as usize);
                        memory.resize(memory.len().max(at + len), 0);
                        bytes.extend_from_slice(&memory[at..at + len]);
                    }
                    self.reply(envelope, &Reply::Data { end: memory.len() as u64 }, &bytes);
                }
                _ => self.reply(envelope, &Reply::Done, &[]),
            }
        }
    }
}

pub fn reply_bytes(envelope: Envelope, reply: &Reply, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_reply(&mut bytes, envelope, reply, payload.len() as u64).expect("within the limits");
    bytes.extend_from_slice(payload);
    bytes
}

/// A client that is accepted, and the work of a server meanwhile, on every medium.
pub fn on_all(server: impl Fn(Server) + Sync, client: impl Fn(Medium, Connection)) {
    for medium in Medium::ALL {
        eprintln!("{medium:?}");
        let (near, far) = medium.ends();
        std::thread::scope(|scope| {
            let server = &server;
            scope.spawn(move || server(Server::let_in_by(far, medium.config())));
            let (connection, said, pool) =
                Connection::over(near, format!("{medium:?}"), &hello(), &secret(), soon()).expect("let in");
            assert_eq!((said, pool.is_none()), (welcome(None), true));
            client(medium, connection);
        });
    }
}

/// A file with these bytes, and without a name.
pub fn file_with(bytes: &[u8]) -> impl AsFd {
    use std::io::{Seek, Write};
    let directory = Directory::new();
    let path = directory.0.join("pool");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.read(true).write(true).create_new(true).open(path).expect("a file");
    file.write_all(bytes).expect("written");
    file.rewind().expect("rewound");
    file
}
