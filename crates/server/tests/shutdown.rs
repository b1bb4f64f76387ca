//! The shutdown of a server: everything acknowledged is stored, whatever requests the shutdown and however often.

mod common;

use std::io::IoSlice;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{BLOCK, Client, Scratch, config, connect_all, deadline, start, start_with, wait_until};
use pario_server::{Config, Server};
use pario_types::{FileId, RequestId, ServerId};
use pario_wire::message::{ByteRange, ByteSelection};
use pario_wire::{Envelope, Reply, Request};

const MARK: u8 = 0xa7;

/// The number of bytes in files below a directory that are [`MARK`].
fn marked(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: std::path::PathBuf| {
        if path.is_dir() {
            return marked(&path);
        }
        std::fs::read(path).unwrap().into_iter().filter(|byte| *byte == MARK).count()
    };
    entries.map(count).sum()
}

fn slow(dir: &Path, delay: Duration) -> Server {
    let mut config = config(dir, 0, 1, 64);
    // Nothing is stored before the shutdown.
    (config.pool.high_water, config.faults.store_delay, config.workers) = (64, delay, 3);
    start_with(config)
}

#[test]
fn a_second_shutdown_waits_for_the_outcome_of_the_first() {
    const BLOCKS: usize = 32;
    let dir = Scratch::new("second");
    let server = slow(&dir.0, Duration::from_millis(10));
    let address = server.started().unix.clone();
    let mut writer = Client::connect(&address, 0, 1, 1);
    let file = writer.create("/f").file;
    let bytes = vec![MARK; BLOCKS * BLOCK as usize];
    assert_eq!(writer.write(0, file, 0, &bytes), Reply::Done);
    let mut first = Client::tool(&address, 2);
    let mut second = Client::tool(&address, 3);
    let envelope = Envelope::new(ServerId(0), RequestId(1));
    first.connection.send(envelope, &Request::Shutdown, &[], deadline()).unwrap();
    wait_until("the drain does not begin", || second.ask(&Request::Ping) != Reply::Done);
    assert_eq!(second.ask(&Request::Shutdown), Reply::Done);
    assert!(marked(&dir.0.join("data0")) >= bytes.len(), "it answered before everything was stored");
    let (_, answer) = first.connection.receive(&mut [], deadline()).unwrap();
    assert_eq!(answer, Reply::Done);
    server.wait().unwrap();
    assert!(!dir.0.join("run0/pool").exists());
}

/// Whether the write was acknowledged; the server may end before it answers.
fn try_write(client: &mut Client, file: FileId, bytes: &[u8]) -> bool {
    let range = ByteRange { at: 0, len: bytes.len() as u64 };
    let request = Request::Write { file, what: ByteSelection::Ranges(vec![range]) };
    let envelope = Envelope::new(ServerId(0), RequestId(7));
    let reply = client.connection.call(envelope, &request, &[IoSlice::new(bytes)], &mut [], deadline());
    reply.is_ok_and(|reply| reply == Reply::Done)
}

#[test]
fn no_write_is_acknowledged_that_the_drain_has_missed() {
    const WRITERS: u128 = 4;
    for round in 0..6u64 {
        let dir = Scratch::new("missed");
        let server = slow(&dir.0, Duration::from_micros(200));
        let address = server.started().unix.clone();
        let mut maker = Client::tool(&address, 100);
        let files: Vec<_> = (0..WRITERS).map(|i| maker.create(&format!("/{i}")).file).collect();
        let begun = AtomicBool::new(false);
        let acknowledged: Vec<u64> = std::thread::scope(|scope| {
            let writers: Vec<_> = files
                .iter()
                .zip(1..)
                .map(|(&file, id)| {
                    let mut client = Client::tool(&address, id);
                    let begun = &begun;
                    scope.spawn(move || {
                        let mut count = 0u64;
                        while try_write(&mut client, file, &count.to_le_bytes()) {
                            count += 1;
                            begun.store(count > round * 7, Ordering::Relaxed);
                        }
                        count
                    })
                })
                .collect();
            wait_until("no write is acknowledged", || begun.load(Ordering::Relaxed));
            let handle = server.shutdown_handle();
            handle.shut_down();
            let counts = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
            // A second call has no effect.
            handle.shut_down();
            counts
        });
        drop(maker);
        server.wait().unwrap();
        let server = start(&dir.0, 0, 1, 64);
        let mut client = Client::connect(&server.started().unix.clone(), 0, 1, 200);
        for (file, count) in files.into_iter().zip(acknowledged) {
            let (bytes, _) = client.read(0, file, 0, 8);
            let found = u64::from_le_bytes(bytes.try_into().unwrap());
            assert!(found + 1 >= count, "{count} writes were acknowledged, the last stored is {found}");
        }
        drop(client);
        server.shut_down().unwrap();
    }
}

#[test]
fn servers_that_end_at_once_do_not_wait_for_each_other() {
    // A server that waited for another one would wait for this time.
    const BETWEEN_SERVERS: Duration = Duration::from_secs(3600);
    let dir = Scratch::new("at-once");
    let config = |server| Config { deadline: BETWEEN_SERVERS, ..config(&dir.0, server, 3, 64) };
    let servers = connect_all((0..3).map(|server| start_with(config(server))).collect());
    // A request through another server, so that there are connections between the servers.
    let addresses: Vec<_> = servers.iter().map(|server| server.started().unix.clone()).collect();
    let mut client = Client::connect(&addresses[1], 1, 3, 1);
    client.exchange(ServerId(0), &Request::Ping, &[], &mut []);
    // A forwarder waits for a reply that does not arrive: no worker of that server runs.
    let paused = servers[2].pause_workers();
    let mut other = Client::connect(&addresses[1], 1, 3, 2);
    let envelope = Envelope::new(ServerId(2), RequestId(1));
    other.connection.send(envelope, &Request::Ping, &[], deadline()).unwrap();
    servers.iter().for_each(|server| server.shutdown_handle().shut_down());
    drop(paused);
    let waits = servers.into_iter().map(|server| std::thread::spawn(move || server.wait().unwrap()));
    let waits: Vec<_> = waits.collect();
    wait_until("a server waits for another", || waits.iter().all(|wait| wait.is_finished()));
    waits.into_iter().for_each(|wait| wait.join().unwrap());
}

#[test]
fn blocks_that_cannot_be_stored_at_the_end_stay_in_the_pool() {
    let dir = Scratch::new("unsaved");
    let server = slow(&dir.0, Duration::ZERO);
    let mut client = Client::connect(&server.started().unix.clone(), 0, 1, 1);
    let file = client.create("/f").file;
    // The storage loses the directory of local parts.
    let (parts, elsewhere) = (dir.0.join("data0/parts"), dir.0.join("elsewhere"));
    std::fs::rename(&parts, &elsewhere).unwrap();
    assert_eq!(client.write(0, file, 0, &[MARK; 100]), Reply::Done);
    // A request receives the reason, and the server continues.
    let mut tool = Client::tool(&server.started().unix.clone(), 2);
    assert!(matches!(tool.ask(&Request::Shutdown), Reply::Failed(_)));
    assert_eq!(client.write(0, file, 100, &[MARK; 100]), Reply::Done);
    let error = server.shut_down().unwrap_err().to_string();
    assert!(error.contains("run0/pool") && error.contains("without storing everything"), "{error}");
    std::fs::rename(&elsewhere, &parts).unwrap();
    let server = start(&dir.0, 0, 1, 64);
    let mut client = Client::connect(&server.started().unix.clone(), 0, 1, 3);
    assert_eq!(client.read(0, file, 0, 200).0, [MARK; 200]);
    drop(client);
    server.shut_down().unwrap();
}
