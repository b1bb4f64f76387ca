//! Connections without permission, or with invalid messages: the server ends them, and clients do not notice.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario::{OpenOptions, Partition};
use pario_transport::{Address, Connection, SocketOptions};
use pario_types::{ClientId, ErrorKind, FileId, PartitionId, RequestId, ServerId, Stamp, TruncationId};
use pario_wire::greeting::{Greeting, Hello, Prefix, Role, VERSION};
use pario_wire::message::{
    AcquireIntent, BlockRange, ByteRange, ByteSelection, CloseReport, CounterChange, CreateMode,
    LayoutRequest, OpenAccess, OpenFileEntry, PlacementMapId,
};
use pario_wire::{Envelope, HEAD, Nonce, RecordSealer, Request, Secret, Side, Transcript, encode_request};

use super::dice::Dice;
use super::faulty_proxy::FaultyProxy;
use super::site::{Route, Shape, Site, connect};
use super::{soon, try_seeds};

const SERVER: ServerId = ServerId(0);

fn hello(site: &Site, client: u128) -> Hello {
    Hello {
        partition: site.entry().id,
        server: SERVER,
        servers: site.shape().servers,
        epoch: site.entry().epoch,
        client: ClientId(client),
        program: client as u64,
        role: Role::Client,
        resume_ledger: None,
    }
}

/// The routes of the first server: its socket, and its port.
fn routes(site: &Site) -> [Address; 2] {
    let running = site.entry().running[&SERVER].clone();
    let tcp = format!("tcp:{}", running.tcp.expect("it listens"));
    [Address::Unix(running.unix.into()), tcp.parse().expect("an address")]
}

fn tcp(site: &Site) -> TcpStream {
    let running = site.entry().running[&SERVER].clone();
    TcpStream::connect(running.tcp.expect("it listens")).expect("anybody may connect")
}

fn unix(site: &Site) -> UnixStream {
    UnixStream::connect(&site.entry().running[&SERVER].unix).expect("anybody of this user may connect")
}

/// A client that writes, reads and compares until it is told to end; how often it did.
fn work(client: &Partition, path: &str, over: &AtomicBool) -> u64 {
    let mut options = OpenOptions::new();
    let file = client.open(path, options.read(true).write(true).create(true)).expect("a new file");
    let mut dice = Dice::new(1);
    let mut rounds = 0;
    while !over.load(Ordering::Acquire) {
        let bytes = dice.bytes(300_000);
        let at = dice.below(3 << 20);
        file.write_at(&bytes, at).expect("it can be written");
        let mut back = vec![0; bytes.len()];
        file.read_exact_at(&mut back, at).expect("it can be read");
        assert!(back == bytes, "what was read is not what was written");
        rounds += 1;
    }
    file.close().expect("it can be stored");
    rounds
}

/// Does something while clients work, one of this host and one of another.
fn while_clients_work(site: &Site, disturb: impl FnOnce()) {
    let over = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    let (near, far) = (site.client(), site.far_client());
    std::thread::scope(|scope| {
        let (over, clients) = (&over, [(&near, "/near"), (&far, "/far")]);
        let workers = clients.map(|(client, path)| scope.spawn(move || work(client, path, over)));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(disturb));
        over.store(true, Ordering::Release);
        for worker in workers {
            rounds.fetch_add(worker.join().expect("a client is not disturbed"), Ordering::Relaxed);
        }
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    assert!(rounds.into_inner() > 0);
}

#[test]
fn unauthenticated_connections_are_refused_and_counted() {
    let site = Site::up(Shape::new(2));
    let client = site.client();
    let refused = || client.status(SERVER).expect("it answers").traffic.refused;
    let process = site.process(SERVER);
    while_clients_work(&site, || {
        let deadline = || Instant::now() + Duration::from_secs(5);
        let right = hello(&site, 1);
        let wrong = [
            (Secret::new([9; 32]), right, ErrorKind::Access),
            (site.secret(), Hello { partition: PartitionId(7), ..right }, ErrorKind::Protocol),
            (site.secret(), Hello { servers: 5, ..right }, ErrorKind::Protocol),
            (site.secret(), Hello { server: ServerId(1), ..right }, ErrorKind::Protocol),
        ];
        for route in routes(&site) {
            for (secret, hello, kind) in &wrong {
                let before = refused();
                let got = Connection::connect(&route, &SocketOptions::default(), hello, secret, deadline());
                assert_eq!(got.map(|_| ()).map_err(|error| error.kind()), Err(*kind), "{hello:?}");
                // With a wrong secret the client detects that and disconnects, so the server does not count it.
                soon("it is counted", || refused() > before || *kind == ErrorKind::Access);
            }
        }
        // The server refuses a client that goes on without knowing the secret.
        let before = refused();
        let (mut intruder, _) = get_in(&site, &Secret::new([9; 32]), 1);
        soon("it is counted", || refused() > before);
        assert_closed(&mut intruder);
        // No greeting at all.
        for garbage in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0; 4096], &[0xff; 64]] {
            let before = refused();
            let mut intruder = tcp(&site);
            // It may be thrown out before all is said.
            let _ = intruder.write_all(garbage);
            soon("it is counted", || refused() > before);
            assert_closed(&mut intruder);
            let mut intruder = unix(&site);
            let _ = intruder.write_all(garbage);
            assert_closed(&mut intruder);
        }
    });
    assert_eq!(site.process(SERVER), process, "the server is still the same");
}

/// The other side has closed, perhaps after a last word.
#[track_caller]
fn assert_closed(stream: &mut (impl Read + TimeOut)) {
    stream.time_out(Duration::from_secs(5));
    let mut last = Vec::new();
    match stream.read_to_end(&mut last) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{last:?}"),
    }
}

trait TimeOut {
    fn time_out(&self, after: Duration);
}

impl TimeOut for TcpStream {
    fn time_out(&self, after: Duration) {
        self.set_read_timeout(Some(after)).expect("it is a socket");
    }
}

impl TimeOut for UnixStream {
    fn time_out(&self, after: Duration) {
        self.set_read_timeout(Some(after)).expect("it is a socket");
    }
}

/// Many connections that send little or nothing do not exclude clients, and are ended after a while.
#[test]
fn slow_handshakes_are_ended() {
    let site = Site::up(Shape::new(1));
    let mut mute: Vec<TcpStream> = (0..200).map(|_| tcp(&site)).collect();
    let mut slow = tcp(&site);
    let greeting = Greeting::Hello { hello: hello(&site, 2), nonce: Nonce([4; 32]) }.encode();
    while_clients_work(&site, || {
        // One byte at a time, so that the connection never is idle for long. The limit is generous: the server ends it after ten seconds.
        let until = Instant::now() + Duration::from_secs(60);
        let sent_away = greeting.iter().cycle().take_while(|_| Instant::now() < until).any(|byte| {
            std::thread::sleep(Duration::from_millis(100));
            slow.write_all(&[*byte]).is_err()
        });
        assert!(sent_away, "a greeting may take ten seconds");
    });
    mute.iter_mut().for_each(assert_closed);
    let status = site.client().status(SERVER).expect("it answers");
    assert!(status.traffic.refused >= 200, "{}", status.traffic.refused);
}

/// A request of any kind, with small and with absurd numbers.
fn request(dice: &mut Dice) -> Request {
    let file = FileId(dice.below(8));
    let path = dice.pick(&["/", "/new", "/a", "/a/b", "", "//", "/..", "/far/x"]).to_owned();
    let number = |dice: &mut Dice| dice.next() >> dice.pick(&[63, 50, 40, 1]);
    let table = PlacementMapId { hash: number(dice).into(), len: dice.below(300) as u32 };
    match dice.below(27) {
        0 => {
            let intent = dice.pick(&[AcquireIntent::Read, AcquireIntent::Modify, AcquireIntent::Overwrite]);
            let blocks = vec![BlockRange { first: number(dice), count: number(dice) as u32 }];
            Request::Acquire { file, intent, blocks, ahead: dice.next() as u16 }
        }
        1 | 2 => Request::Read { file, what: ByteSelection::Ranges(ranges(dice)) },
        3 | 4 => {
            Request::Write { file: FileId(100 + dice.below(3)), what: ByteSelection::Ranges(ranges(dice)) }
        }
        5 => Request::End { file },
        6 => {
            Request::Truncate { file: FileId(100), end: number(dice), truncation: TruncationId(number(dice)) }
        }
        7 => Request::Sync { file, durable: dice.one_in(2) },
        8 => Request::RemoveParts { files: vec![FileId(100 + dice.below(3))] },
        9 => Request::ListParts { after: file, most: number(dice) as u32 },
        10 => Request::VerifyBlocks { file, from: number(dice), most: number(dice) },
        11 => Request::Lookup { path },
        12 => {
            let (access, create) = (OpenAccess::Both, dice.pick(&[CreateMode::Never, CreateMode::Exclusive]));
            let layout_request = LayoutRequest {
                stripe: number(dice),
                count: number(dice) as u16,
                first: Some(9),
                table: Some(table),
            };
            Request::Open { path, access, create, mode: number(dice) as u32, layout_request }
        }
        13 => Request::Close { file, wrote: Some(CloseReport { size: Some(5), modified: Stamp(-1) }) },
        14 => Request::Reopen {
            files: vec![OpenFileEntry { file: FileId(number(dice)), access: OpenAccess::Both }],
            repeated: number(dice),
        },
        15 => Request::Rename { from: path, to: "/far/../x".into(), replace: true },
        16 => Request::ReadDirectory { path, after: "zz".into(), most: number(dice) as u32 },
        17 => Request::EndTruncate { file: FileId(200), truncation: TruncationId(number(dice)) },
        18 => Request::ListInodes { after: file, most: number(dice) as u32 },
        19 => {
            let what =
                ByteSelection::View { view: 7, at: number(dice) >> 2, len: number(dice) >> 2, bytes: 0 };
            Request::Read { file, what }
        }
        20 => Request::PutView { hash: 7, len: dice.below(300) },
        21 => Request::Counter { key: u128::from(dice.next()), change: CounterChange::Set(number(dice)) },
        22 => Request::Counter { key: 7, change: CounterChange::Add(dice.next() as i64) },
        23 => Request::PutTable { table },
        24 => Request::GetTable { table },
        25 => Request::Arrange { file: FileId(100 + dice.below(3)), ranges: ranges(dice) },
        _ => Request::Status,
    }
}

fn ranges(dice: &mut Dice) -> Vec<ByteRange> {
    let at = |dice: &mut Dice| dice.next() >> dice.pick(&[1, 40, 50]);
    (0..dice.below(4)).map(|_| ByteRange { at: at(dice), len: dice.below(100_000) }).collect()
}

/// Greets with what is said to be the secret, without a look at what the server says, on a plain socket; what makes
/// records of all that comes after.
fn get_in(site: &Site, secret: &Secret, client: u128) -> (TcpStream, RecordSealer) {
    let mut stream = tcp(site);
    let (hello, ours) = (hello(site, client), Nonce([8; 32]));
    stream.write_all(&Greeting::Hello { hello, nonce: ours }.encode()).expect("it listens");
    let mut read = |length| {
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).expect("it answers");
        bytes
    };
    let mut next = || {
        let prefix = read(pario_wire::greeting::PREFIX);
        let prefix = Prefix::decode(&prefix.try_into().expect("as long as that")).expect("a greeting");
        prefix.greeting(&read(prefix.length as usize)).expect("a greeting")
    };
    let Greeting::Challenge { nonce: server, protection, .. } = next() else { panic!("no challenge") };
    let agreed = Transcript { hello, client: ours, server, protection };
    let proof = agreed.prove_client(secret);
    stream.write_all(&Greeting::Answer { proof }.encode()).expect("it listens");
    (stream, agreed.session_keys(secret).ends(Side::Client).0)
}

/// Changes bytes of a valid frame, shortens it, or gives it an invalid length, as a client with the secret could.
fn spoil(frame: &mut Vec<u8>, dice: &mut Dice) {
    match dice.below(6) {
        0 => {}
        1 => frame.truncate(dice.index(frame.len())),
        2 => frame[4..8].copy_from_slice(&u32::MAX.to_le_bytes()),
        3 => frame[8..12].copy_from_slice(&(dice.next() as u32).to_le_bytes()),
        4 => {
            let at = dice.index(HEAD);
            frame[at] ^= 1 << dice.below(8);
        }
        _ => {
            let at = dice.index(frame.len());
            frame[at] = dice.next() as u8;
        }
    }
}

#[test]
fn no_message_ends_a_server() {
    try_seeds(&[61, 62], |dice| {
        let site = Site::up(Shape::new(2));
        let secret = site.secret();
        let processes = site.server_processes();
        while_clients_work(&site, || {
            let until = Instant::now() + Duration::from_millis(2500);
            while Instant::now() < until {
                let (mut stream, mut sealer) = get_in(&site, &secret, u128::from(dice.next()));
                stream.set_read_timeout(Some(Duration::from_millis(1))).expect("it is a socket");
                for id in 1..20 {
                    let target = ServerId(dice.pick(&[0, 0, 0, 1, 7]));
                    let request = request(dice);
                    let mut frame = Vec::new();
                    let envelope = Envelope::new(target, RequestId(id));
                    if encode_request(&mut frame, envelope, &request).is_err() {
                        continue;
                    }
                    frame.resize(frame.len() + request.payload() as usize, 0x5a);
                    spoil(&mut frame, dice);
                    let mut answer = [0; 4096];
                    let records = sealer.records(&frame);
                    if stream.write_all(&records).is_err() || matches!(stream.read(&mut answer), Ok(0)) {
                        break;
                    }
                }
            }
        });
        assert_eq!(site.server_processes(), processes, "a server died");
        let client = site.client();
        // A connection's end is noticed a moment after it.
        soon("nothing is pinned, and nobody else is there", || {
            site.servers().into_iter().all(|server| {
                let status = client.status(server).expect("it answers");
                status.pool.pinned_slots == 0 && status.traffic.local_sessions <= 1
            })
        });
        assert!(client.status(SERVER).expect("it answers").traffic.refused > 0);
        // Bytes of files that do not exist, at offsets that no storage can hold.
        for server in site.servers() {
            client.remove_parts(server, (100..103).map(FileId).collect()).expect("nobody uses them");
        }
    });
}

/// Either side is of another version to the other one: both say so in one line, and nothing else happens.
#[test]
fn a_client_of_another_version_is_refused_with_one_line() {
    let site = Site::up(Shape::new(1));
    let proxy = FaultyProxy::speaking(&site, Some(VERSION + 1));
    let refused = connect(&site.home(), Route::By(proxy.port())).and_then(|client| client.status(SERVER));
    let error = refused.expect_err("it is of another version");
    assert_eq!(error.kind(), ErrorKind::Protocol);
    let (text, next) = (error.to_string(), VERSION + 1);
    let ours =
        format!("this server speaks version {VERSION} of the protocol, not {next}; use the same release");
    assert!(text.contains("server 0 of partition trial") && text.contains(&ours), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let status = site.client().status(SERVER).expect("it answers");
    let said = &status.last_errors[0];
    assert!(
        said.contains(&format!("speaks version {next} of the protocol")) && !said.contains('\n'),
        "{said}"
    );
}
