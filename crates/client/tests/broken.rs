//! Connections that break, servers that are silent, gone, at another address or of another partition.

mod fake;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fake::{Fake, Setup};
use pario_client::{Error, OpenOptions, Options, Partition, Target};
use pario_transport::Address;
use pario_types::{ErrorKind, PartitionId, ServerId};
use pario_wire::Secret;

const SETUP: Setup = Setup { servers: 2, stripe: 1000, slots: 0, tcp: &[] };

fn writing() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options
}

fn hasty() -> Options {
    Options {
        deadline: Duration::from_millis(200),
        flush_deadline: Duration::from_millis(200),
        ..Options::default()
    }
}

/// Each of these requests would fail if it were done twice.
#[test]
fn a_retried_request_is_executed_once() {
    let fake = Fake::start(SETUP);
    fake.break_connections(60);
    let partition = fake.connect();
    for i in 0..40 {
        let (directory, file) = (format!("/d{i}"), format!("/d{i}/f"));
        partition.create_dir(&directory).expect("made once");
        let opened = partition.open(&file, writing().create_new(true)).expect("created once");
        opened.write_at(file.as_bytes(), 0).expect("written");
        opened.close().expect("closed once");
        partition.rename(&file, "/moved").expect("renamed once");
        partition.remove_file("/moved").expect("removed once");
        partition.remove_dir(&directory).expect("removed once");
    }
    assert!(fake.shared.broken.load(Ordering::Relaxed) > 20, "connections did break");
    assert_eq!(fake.opens(), 0);
}

/// A request for the end of the file releases the connections and acquires them again.
#[test]
fn threads_that_begin_with_different_servers_do_not_wait_for_each_other() {
    let fake = Fake::start(Setup { servers: 3, ..SETUP });
    let partition = fake.connect();
    let file = partition.open("/file", &writing()).expect("opened");
    // The other servers have nothing of it, and do not know that it reaches so far.
    file.write_at(&[7; 1000], 90_000).expect("written");
    std::thread::scope(|scope| {
        for start in 0..3 {
            let partition = &partition;
            scope.spawn(move || {
                let file = partition.open("/file", &writing()).expect("opened");
                file.set_start(start);
                let mut bytes = vec![0; 95_000];
                for _ in 0..100 {
                    assert_eq!(file.read_at(&mut bytes, 0).expect("read"), 91_000);
                    assert!(bytes[..90_000] == [0; 90_000] && bytes[90_000..91_000] == [7; 1000]);
                }
                file.close().expect("closed");
            });
        }
    });
    file.close().expect("closed");
}

#[test]
fn threads_share_connections_that_break() {
    let fake = Fake::start(Setup { slots: 16, ..SETUP });
    fake.break_connections(20);
    let partition = fake.connect();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let partition = &partition;
            scope.spawn(move || {
                let path = format!("/of-{thread}");
                let file = partition.open(&path, &writing()).expect("opened");
                let shared = partition.open("/shared", &writing()).expect("opened");
                for round in 0..20u8 {
                    let bytes = vec![thread.wrapping_mul(50).wrapping_add(round); 9000];
                    let mut back = vec![0; 9000];
                    file.write_at(&bytes, 500).expect("written");
                    file.read_exact_at(&mut back, 500).expect("read");
                    assert_eq!(back, bytes);
                    // Each writes its own bytes of blocks that all of them write.
                    let at = u64::from(thread) * 700;
                    shared.write_at(&bytes[..700], at).expect("written");
                    shared.read_exact_at(&mut back[..700], at).expect("read");
                    assert_eq!(back[..700], bytes[..700]);
                }
                file.close().expect("closed");
                shared.close().expect("closed");
            });
        }
    });
    assert_eq!(fake.opens(), 0);
}

#[test]
fn a_silent_server_is_given_up_at_the_deadline() {
    let fake = Fake::start(SETUP);
    let partition = fake.connect_with(hasty());
    let file = partition.open("/file", &writing()).expect("opened");
    file.write_at(&[1; 5000], 0).expect("written");
    fake.be_silent();
    let since = Instant::now();
    for outcome in [
        file.write_at(&[1; 5000], 0),
        file.read_at(&mut [0; 5000], 0).map(|_| ()),
        partition.metadata("/file").map(|_| ()),
        file.sync(),
        file.len().map(|_| ()),
        file.close(),
    ] {
        let error = outcome.expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.to_string().contains("of partition fake did not answer within 0."), "{error}");
    }
    // Far from the default deadline, however slow this machine is.
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
}

#[test]
fn a_server_that_is_not_there_is_given_up_at_the_deadline() {
    let fake = Fake::start(SETUP);
    let target = fake.target();
    drop(fake);
    let error = Partition::connect_to(target.clone(), hasty()).expect_err("nobody is there");
    assert!(error.to_string().contains("it is not running"), "{error}");
    let nowhere = vec![Address::Tcp("127.0.0.1".into(), 1)];
    let elsewhere = Target { servers: vec![nowhere.clone(), nowhere], ..target };
    let error = Partition::connect_to(elsewhere, hasty()).expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("tcp:127.0.0.1:1"), "{error}");
}

#[test]
fn a_client_with_a_wrong_target_is_refused_at_once() {
    let fake = Fake::start(SETUP);
    let good = fake.target();
    let mut fewer = good.clone();
    fewer.servers.pop();
    for (target, kind) in [
        (Target { secret: Secret::new([8; 32]), ..good.clone() }, ErrorKind::Access),
        (Target { partition: PartitionId(1), ..good.clone() }, ErrorKind::Protocol),
        (Target { metadata: ServerId(1), ..good.clone() }, ErrorKind::Protocol),
        (Target { metadata: ServerId(2), ..good.clone() }, ErrorKind::Protocol),
        (fewer, ErrorKind::Protocol),
    ] {
        let error = Partition::connect_to(target, Options::default()).expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
    }
}

/// A restarted server listens at another address.
#[test]
fn a_server_that_moved_is_found_again() {
    let first = Fake::start(Setup { tcp: &[0, 1], ..SETUP });
    let target = Arc::new(Mutex::new(first.target()));
    let asked = Arc::new(AtomicU32::new(0));
    let resolver = {
        let (target, asked) = (Arc::clone(&target), Arc::clone(&asked));
        move || {
            asked.fetch_add(1, Ordering::Relaxed);
            Ok(target.lock().unwrap().clone())
        }
    };
    let partition = Partition::connect(resolver, Options::default()).expect("connected");
    let file = partition.open("/file", &writing()).expect("opened");
    file.write_at(&[1; 3000], 0).expect("written");
    let second = Fake::start(Setup { tcp: &[0, 1], ..SETUP });
    *target.lock().unwrap() = second.target();
    drop(first);
    // The content of its pool is lost; the open file is not.
    file.write_at(&[2; 3000], 0).expect("written");
    assert_eq!(file.len().expect("asked"), 3000);
    assert!(partition.metadata("/file").is_err());
    assert_eq!(second.opens(), 1);
    assert!(asked.load(Ordering::Relaxed) > 1);
}

#[test]
fn a_partition_that_was_replaced_is_not_mistaken() {
    let fake = Fake::start(SETUP);
    let target = Arc::new(Mutex::new(fake.target()));
    let same = Arc::clone(&target);
    let partition = Partition::connect(move || Ok(same.lock().unwrap().clone()), hasty()).expect("connected");
    target.lock().unwrap().partition = PartitionId(99);
    drop(fake);
    let error = partition.metadata("/").expect_err("another partition");
    assert!(error.to_string().contains("is another one of the same name now"), "{error}");
}

#[test]
fn a_lost_pool_is_reported_once() {
    let fake = Fake::start(Setup { slots: 64, ..SETUP });
    let partition = fake.connect();
    let (file, other) = (
        partition.open("/file", &writing()).expect("opened"),
        partition.open("/other", &writing()).expect("opened"),
    );
    file.write_at(&[1; 3000], 0).expect("written");
    other.write_at(&[1; 3000], 0).expect("written");
    other.flush().expect("stored");
    fake.lose_cache(ServerId(1));
    other.sync().expect("nothing of it was lost");
    let error = file.sync().expect_err("it was not stored");
    assert!(matches!(error, Error::CacheLost { server: ServerId(1), .. }), "{error}");
    file.write_at(&[2; 3000], 0).expect("written again");
    file.sync().expect("stored");
    let mut bytes = [0; 3000];
    file.read_exact_at(&mut bytes, 0).expect("read");
    assert_eq!(bytes, [2; 3000]);
}

#[test]
fn a_close_covers_what_a_dropped_handle_of_the_process_wrote() {
    let fake = Fake::start(Setup { slots: 64, ..SETUP });
    let partition = fake.connect();
    let dropped = partition.open("/file", &writing()).expect("opened");
    dropped.write_at(&[1; 3000], 0).expect("written");
    drop(dropped);
    // It writes to server 0 alone, but its close also makes server 1 store what the dropped handle wrote.
    let file = partition.open("/file", &writing()).expect("opened");
    file.write_at(&[2; 10], 0).expect("written");
    file.close().expect("stored");
    fake.lose_cache(ServerId(1));
    let mut bytes = [0; 1000];
    let file = partition.open("/file", &writing()).expect("opened");
    file.read_exact_at(&mut bytes, 1000).expect("read");
    assert_eq!(bytes, [1; 1000]);
    file.sync().expect("nothing was lost");
}

#[test]
fn the_loss_of_what_a_dropped_handle_wrote_is_told_by_the_next_sync_of_the_process() {
    let fake = Fake::start(Setup { slots: 64, ..SETUP });
    let partition = fake.connect();
    let (dropped, file) = (
        partition.open("/file", &writing()).expect("opened"),
        partition.open("/file", &writing()).expect("opened"),
    );
    dropped.write_at(&[1; 3000], 0).expect("written");
    drop(dropped);
    fake.lose_cache(ServerId(1));
    let error = file.sync().expect_err("it was not stored");
    assert!(matches!(error, Error::CacheLost { server: ServerId(1), .. }), "{error}");
    file.sync().expect("it was told once");
}
