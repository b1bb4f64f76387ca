//! Faults: full disks, dead and silent agents, unauthenticated connections, garbage, locks.

mod fleet;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet::*;
use pario_data_shipping::{
    Agent, AgentAddress, AgentConfig, Error, ServedRequest, Shipper, ShippingGroup, ShippingLimits,
};
use pario_posix::{Errno, FileSystem, FsKind, LockOp, PlainFile, Syscalls};
use pario_types::{AccessTuning, Toggle};
use pario_types::{ErrorKind, Offset};
use pario_view::View;

fn flat() -> View {
    View::contiguous(Offset(0))
}

#[test]
fn a_full_disk_at_an_agent_is_an_error_that_names_its_rank() {
    let plan = Plan::new(3, 100, &[2]);
    let fleet = plan.launch(Path::new("/dev/full"));
    let error = write(&fleet.shippers[0], &flat(), 50, &[1; 500], &plan.tuning).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::NoSpace, Some(libc::ENOSPC)));
    assert_eq!(error.at(), Some(Offset(50)));
    let text = error.to_string();
    assert!(text.starts_with("agent on rank 2: cannot write /dev/full at byte 50: No space left"), "{text}");
    // The connection is as good as before.
    assert_eq!(read(&fleet.shippers[0], &flat(), 0, 8, &plan.tuning).unwrap(), (8, vec![0; 8]));
    let counts = fleet.agents[2].as_ref().unwrap().counts();
    assert_eq!((counts.sessions, counts.failures, counts.requests), (1, 1, 1));
    fleet.stop();
}

/// A served request: rank, whether it writes, start, end and length of its range, and the moved bytes or the errno.
type Told = (u32, bool, u64, u64, u64, Result<u64, Option<i32>>);

#[test]
fn an_agent_reports_each_request_with_its_client_and_outcome() {
    let (path, full) = (TempPath::with(&[5; 300]), Path::new("/dev/full"));
    let plan = Plan::new(3, 100, &[2]);
    let told: Arc<Mutex<Vec<Told>>> = Arc::default();
    let serve = |path: &Path| {
        let keep = told.clone();
        let service = AgentConfig {
            report: Some(Arc::new(move |served: &ServedRequest<'_>| {
                let ServedRequest { rank, write, range, len, moved, .. } = served;
                let moved = moved.map_err(|fault| fault.errno);
                keep.lock().unwrap().push((*rank, *write, range.start.0, range.end.0, *len, moved));
            })),
            ..plan.service(2, Arc::new(open(path)))
        };
        let agents = [None, None, Some(Agent::start(service).unwrap())];
        let addresses = exchanged(&agents);
        let shippers = [0, 1].map(|rank| plan.shipper(rank, Arc::new(open(path)), addresses.clone()));
        (agents, shippers)
    };
    let (_agents, shippers) = serve(&path.0);
    write(&shippers[1], &flat(), 20, &[1; 30], &plan.tuning).unwrap();
    let gaps = tiled(10, &[(0, 5), (20, 5), (50, 5)], 80);
    assert_eq!(read(&shippers[0], &gaps, 0, 15, &plan.tuning).unwrap().0, 15);
    assert_eq!(read(&shippers[1], &flat(), 250, 100, &plan.tuning).unwrap().0, 50);
    let (_others, shippers) = serve(full);
    write(&shippers[0], &flat(), 40, &[1; 30], &plan.tuning).unwrap_err();
    assert_eq!(
        *told.lock().unwrap(),
        [
            (1, true, 20, 50, 30, Ok(30)),
            (0, false, 10, 65, 15, Ok(15)),
            (1, false, 250, 350, 100, Ok(50)),
            (0, true, 40, 70, 30, Err(Some(libc::ENOSPC))),
        ]
    );
}

#[test]
fn one_failing_agent_of_several_fails_the_request_and_only_that() {
    /// No locks to be had.
    struct Lockless;
    impl Syscalls for Lockless {
        fn lock(&self, _: i32, _: LockOp, _: bool, _: u64, _: u64) -> Result<(), Errno> {
            Err(Errno(libc::EIO))
        }
    }
    let path = TempPath::with(&[0; 64]);
    let plan = Plan::new(3, 16, &[0, 1, 2]);
    let how = pario_posix::PlainOpenOptions { read: true, write: true, ..Default::default() };
    let bad =
        PlainFile::open_with(&path.0, &how, Arc::new(Lockless), Some(FileSystem::new(FsKind::Tmpfs, 4096)));
    let files = [open(&path.0), bad.unwrap(), open(&path.0)].map(Arc::new);
    let agents: Vec<_> =
        (0..3).map(|rank| Some(plan.agent(rank, files[rank as usize].clone()).unwrap())).collect();
    let shipper = plan.shipper(0, files[0].clone(), exchanged(&agents));
    let error = write(&shipper, &flat(), 0, &[7; 64], &plan.tuning).unwrap_err();
    assert!(
        matches!(error, Error::Agent { rank: 1, kind: ErrorKind::Io, errno: Some(libc::EIO), .. }),
        "{error}"
    );
    let bytes = path.bytes();
    assert_eq!((&bytes[..16], &bytes[16..32], &bytes[32..]), (&[7; 16][..], &[0; 16][..], &[7; 32][..]));
    assert_eq!(write(&shipper, &flat(), 32, &[8; 32], &plan.tuning).unwrap(), 32);
}

#[test]
fn an_agent_that_is_gone_is_an_error() {
    let plan = Plan::new(2, 16, &[0, 1]);
    let path = TempPath::with(&[1; 64]);
    let mut fleet = plan.launch(&path.0);
    assert_eq!(read(&fleet.shippers[0], &flat(), 0, 64, &plan.tuning).unwrap().0, 64);
    fleet.agents[1].take().unwrap().stop().unwrap();
    for _ in 0..2 {
        // Once over the broken connection, once when no new one can be made.
        let error = read(&fleet.shippers[0], &flat(), 0, 64, &plan.tuning).unwrap_err();
        assert!(matches!(error, Error::Lost { rank: 1, .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Io);
    }
    // Bytes that the dead agent does not own are there.
    assert_eq!(read(&fleet.shippers[0], &flat(), 0, 16, &plan.tuning).unwrap().0, 16);
}

#[test]
fn stopping_in_the_middle_of_requests_ends_them_all() {
    let plan = Plan::new(3, 4096, &[1, 2]);
    let path = TempPath::with(&[1; 64]);
    let mut fleet = plan.launch(&path.0);
    let (first, second) = (fleet.agents[1].take().unwrap(), fleet.agents[2].take().unwrap());
    std::thread::scope(|scope| {
        let shippers = [&fleet.shippers[0], &fleet.shippers[1]];
        let busy = shippers.map(|shipper| {
            scope.spawn(move || {
                let data = vec![5; 1 << 20];
                loop {
                    let moved = write(shipper, &flat(), 0, &data, &AccessTuning::default())
                        .and_then(|_| read(shipper, &flat(), 0, 1 << 20, &AccessTuning::default()));
                    if let Err(error) = moved {
                        return error;
                    }
                }
            })
        });
        while first.counts().requests < 10 || second.counts().requests < 10 {
            std::thread::yield_now();
        }
        second.stop().unwrap();
        for error in busy.map(|thread| thread.join().unwrap()) {
            assert!(matches!(error, Error::Lost { rank: 2, .. }), "{error}");
        }
        first.stop().unwrap();
    });
}

/// An address on this node's TCP, as the ranks exchange it.
fn at_port(listener: &TcpListener) -> Option<AgentAddress> {
    let mut bytes = AgentAddress::encode(None);
    bytes[..2].copy_from_slice(&[1, 4]);
    bytes[2..4].copy_from_slice(&listener.local_addr().unwrap().port().to_le_bytes());
    bytes[32..36].copy_from_slice(&[127, 0, 0, 1]);
    AgentAddress::decode(&bytes)
}

#[test]
fn an_agent_that_does_not_answer_is_given_up() {
    let path = TempPath::with(&[1; 64]);
    let mut plan = Plan { tcp: true, ..Plan::new(3, 16, &[0, 1, 2]) };
    plan.limits.deadline = Duration::from_millis(50);
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = vec![None, at_port(&listeners[0]), at_port(&listeners[1])];
    let shipper = plan.shipper(0, Arc::new(open(&path.0)), addresses);
    // No agent serves: the kernel accepts the connection, and no welcome arrives.
    let error = read(&shipper, &flat(), 0, 64, &plan.tuning).unwrap_err();
    assert!(matches!(error, Error::Silent { rank: 1, .. }), "{error}");
    drop(listeners[0].accept().unwrap());
    // Both welcome the shipper and say no more.
    std::thread::scope(|scope| {
        let open: Vec<_> = listeners.iter().map(|listener| scope.spawn(|| greet(listener))).collect();
        let error = read(&shipper, &flat(), 0, 64, &plan.tuning).unwrap_err();
        assert!(matches!(error, Error::Silent { rank: 1, .. }), "{error}");
        // On a busy machine the first welcome may have arrived too late; then there is no second connection.
        listeners.iter().for_each(|listener| drop(TcpStream::connect(listener.local_addr().unwrap())));
        open.into_iter().for_each(|thread| drop(thread.join().unwrap()));
    });
}

/// Accepts a connection and welcomes the peer, if it is still connected.
fn greet(listener: &TcpListener) -> TcpStream {
    let mut stream = listener.accept().unwrap().0;
    if stream.read_exact(&mut [0; 32]).is_ok() {
        let _ = stream.write_all(WELCOME);
    }
    stream
}

#[test]
fn an_invalid_reply_of_an_agent_is_an_error() {
    let path = TempPath::with(&[1; 64]);
    let plan = Plan { tcp: true, ..Plan::new(2, 16, &[1]) };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let shipper = plan.shipper(0, Arc::new(open(&path.0)), vec![None, at_port(&listener)]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = greet(&listener);
            // More data than asked for.
            let answer = [&[0, 0, 0, 0, 99, 0, 0, 0, 99][..], &[0; 7], &[0xff; 8], &[0; 8]].concat();
            stream.write_all(&answer).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let error = read(&shipper, &flat(), 0, 8, &plan.tuning).unwrap_err();
        assert!(matches!(error, Error::Garbled { rank: 1, .. }), "{error}");
    });
}

#[test]
fn a_connection_without_the_secret_is_refused() {
    let plan = Plan::new(2, 16, &[1]);
    let path = TempPath::with(&[1; 64]);
    let fleet = plan.launch(&path.0);
    let wrong_secret = Shipper::new(
        ShippingGroup {
            map: plan.map(),
            addresses: exchanged(&fleet.agents),
            rank: 0,
            node: NODE,
            secret: SECRET + 1,
            partitioned: false,
            limits: plan.limits,
        },
        Arc::new(open(&path.0)),
    );
    let error = read(&wrong_secret.unwrap(), &flat(), 0, 8, &plan.tuning).unwrap_err();
    assert!(matches!(error, Error::Refused { rank: 1 }), "{error}");
    assert_eq!(read(&fleet.shippers[0], &flat(), 0, 8, &plan.tuning).unwrap().0, 8);
    fleet.stop();
}

const WELCOME: &[u8] = b"parioshp\x01\0\0\0\0\0\0\0";

/// A hello as the frame format has it.
fn hello() -> Vec<u8> {
    let mut hello = b"parioshp\x01\0\0\0\x07\0\0\0".to_vec();
    hello.extend(SECRET.to_le_bytes());
    hello
}

/// Sends bytes to an agent; returns its reply until it ends the connection.
fn exchange(agent: &Agent, bytes: &[u8]) -> Vec<u8> {
    let address = AgentAddress::encode(Some(&agent.address()));
    let port = u16::from_le_bytes([address[2], address[3]]);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The agent may have ended the connection before all is sent.
    let _ = stream.write_all(bytes);
    let mut back = Vec::new();
    match stream.read_to_end(&mut back) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("{error}"),
        _ => back,
    }
}

#[test]
fn garbage_ends_its_own_session_only() {
    let plan = Plan { tcp: true, ..Plan::new(2, 16, &[1]) };
    let path = TempPath::with(&[1; 64]);
    let fleet = plan.launch(&path.0);
    let agent = fleet.agents[1].as_ref().unwrap();
    assert_eq!(exchange(agent, &[b'x'; 100]), b"");
    let unknown_view =
        [&hello()[..], &[3, 5, 0, 0], &[0; 12], &8u64.to_le_bytes(), &8u64.to_le_bytes()].concat();
    assert_eq!(exchange(agent, &unknown_view), WELCOME);
    let no_view = [&hello()[..], &[1, 0, 0, 0, 3, 0, 0, 0], &[0; 24], b"abc"].concat();
    assert_eq!(exchange(agent, &no_view), WELCOME);
    let random: Vec<u8> = (0..200u32).map(|i| (i * i * 31 + i * 7) as u8).collect();
    assert_eq!(exchange(agent, &[&hello()[..], &random].concat()), WELCOME);
    assert_eq!(agent.counts().refused, 4);
    assert_eq!(write(&fleet.shippers[0], &flat(), 0, &[9; 8], &plan.tuning).unwrap(), 8);
    fleet.stop();
    assert_eq!(path.bytes()[..9], [9, 9, 9, 9, 9, 9, 9, 9, 1]);
}

#[test]
fn a_share_of_another_agent_is_malformed() {
    // Two maps that differ: the shipper thinks that all is rank 1's.
    let path = TempPath::with(&[1; 64]);
    let plan = Plan::new(2, 16, &[0, 1]);
    let fleet = plan.launch(&path.0);
    let wrong = Plan::new(2, 16, &[1]);
    let shipper = wrong.shipper(0, Arc::new(open(&path.0)), exchanged(&fleet.agents));
    let error = write(&shipper, &flat(), 0, &[9; 64], &plan.tuning).unwrap_err();
    assert!(matches!(error, Error::Lost { rank: 1, .. }), "{error}");
    assert_eq!(path.bytes(), [1; 64]);
}

#[test]
fn unauthenticated_connections_are_dropped_for_authenticated_ones() {
    let mut plan = Plan { tcp: true, ..Plan::new(2, 16, &[1]) };
    plan.limits = ShippingLimits { sessions: 2, ..plan.limits };
    let path = TempPath::with(&[1; 64]);
    let fleet = plan.launch(&path.0);
    let agent = fleet.agents[1].as_ref().unwrap();
    let address = AgentAddress::encode(Some(&agent.address()));
    let port = u16::from_le_bytes([address[2], address[3]]);
    let unauthenticated: Vec<_> = (0..5).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    assert_eq!(read(&fleet.shippers[0], &flat(), 0, 8, &plan.tuning).unwrap().0, 8);
    drop(unauthenticated);
    fleet.stop();
}

#[test]
fn data_shipping_and_byte_range_locks_exclude_each_other() {
    let path = TempPath::with(&[1; 64]);
    let plan = Plan { partitioned: true, ..Plan::new(2, 16, &[0, 1]) };
    let other_process = open(&path.0);
    let locked = other_process.try_lock_owned(Offset(5)..Offset(6), true).unwrap().unwrap();
    let error = plan.agent(0, Arc::new(open(&path.0))).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::FileInUse);
    drop(locked);
    let fleet = plan.launch(&path.0);
    // Sieved writes at home and at the other agent work without any lock of their own ...
    let tune = AccessTuning { sieve_write: Toggle::Enable, ..AccessTuning::default() };
    let view = tiled(0, &[(0, 2)], 4);
    assert_eq!(write(&fleet.shippers[0], &view, 0, &[7; 32], &tune).unwrap(), 32);
    assert_eq!(path.bytes(), [7, 7, 1, 1].repeat(16));
    // ... another process gets none, and atomic mode is refused instead of waiting for ever.
    assert!(other_process.try_lock_owned(Offset(99)..Offset(100), true).unwrap().is_none());
    let atomic = AccessTuning { atomic: true, ..tune };
    let error = read(&fleet.shippers[0], &flat(), 0, 8, &atomic).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedOperation);
    fleet.stop();
    assert!(other_process.try_lock_owned(Offset(99)..Offset(100), true).unwrap().is_some());
}

#[test]
fn an_agent_takes_one_lock_for_all_its_blocks() {
    let memory = Memory::with(&[1; 640]);
    let site = Site::Memory(memory.clone());
    let plan = Plan { partitioned: true, ..Plan::new(2, 16, &[0, 1]) };
    assert!(memory.lock_for_myself(true));
    assert_eq!(plan.agent(0, site.open()).err().unwrap().kind(), ErrorKind::FileInUse);
    memory.lock_for_myself(false);
    let before = memory.locks.load(Relaxed);
    let fleet = plan.launch_on(&site);
    for at in 0..20 {
        write(&fleet.shippers[at as usize % 2], &tiled(at, &[(0, 2)], 40), 0, &[7; 30], &plan.tuning)
            .unwrap();
    }
    assert!(!memory.lock_for_myself(true), "the file is held");
    let locks: Vec<u64> = fleet.agents.iter().flatten().map(|agent| agent.counts().locks).collect();
    assert_eq!((locks, memory.locks.load(Relaxed) - before), (vec![1, 1], 2));
    fleet.stop();
    assert!(memory.lock_for_myself(true), "the file is let go");
}

#[test]
fn atomic_and_invalid_requests_bypass_the_agents() {
    let path = TempPath::with(&[1; 64]);
    let plan = Plan::new(2, 16, &[1]);
    let fleet = plan.launch(&path.0);
    let shipper = &fleet.shippers[0];
    let atomic = AccessTuning { atomic: true, ..AccessTuning::default() };
    assert_eq!(write(shipper, &flat(), 0, &[2; 64], &atomic).unwrap(), 64);
    let far = write(shipper, &flat(), i64::MAX as u64, &[2; 64], &plan.tuning).unwrap_err();
    assert_eq!(far.kind(), ErrorKind::Arg);
    assert_eq!(write(shipper, &flat(), 7, &[], &plan.tuning).unwrap(), 0);
    let counts = shipper.counts();
    assert_eq!((counts.requests, counts.messages, counts.direct), (0, 0, 3));
    fleet.stop();
}

#[test]
fn a_map_without_agents_or_addresses_is_refused() {
    let path = TempPath::with(&[]);
    let plan = Plan::new(2, 16, &[0, 1]);
    let team = ShippingGroup {
        map: plan.map(),
        addresses: vec![None, None],
        rank: 0,
        node: 0,
        secret: SECRET,
        partitioned: false,
        limits: plan.limits,
    };
    let error = Shipper::new(team, Arc::new(open(&path.0))).err().unwrap();
    assert!(matches!(error, Error::NoAddress { rank: 1 }), "{error}");
}
