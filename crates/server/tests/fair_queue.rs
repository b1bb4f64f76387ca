//! Programs receive equal service, however many connections they have.

mod common;

use common::*;
use pario_server::Server;
use pario_transport::{Address, Connection, SocketOptions};
use pario_types::{RequestId, ServerId};
use pario_wire::greeting::Hello;
use pario_wire::message::CounterChange;
use pario_wire::{Envelope, Reply, Request, Secret};

/// Requests that wait on each connection.
const DEPTH: u64 = 50;

fn connect(address: &Address, client: u128, program: u64) -> Connection {
    let hello = Hello { program, ..hello(0, 1, client) };
    Connection::connect(address, &SocketOptions::default(), &hello, &Secret::new([9; 32]), deadline())
        .unwrap()
        .0
}

/// One worker serves connections with waiting requests, eight of program 1 and one of program 2. Returns the positions of the requests
/// of program 2 among all requests.
fn positions(name: &str, fair: bool) -> Vec<u64> {
    let scratch = Scratch::new(name);
    let config = pario_server::Config { workers: 1, fair, ..config(&scratch.0, 0, 1, 64) };
    let server = Server::start(config).unwrap();
    let address = server.started().unix.clone();
    let mut all: Vec<_> = (0..9).map(|n| connect(&address, n + 1, 1 + n as u64 / 8)).collect();
    let set = Request::Counter { key: 5, change: CounterChange::Set(0) };
    all[0].call(Envelope::new(ServerId(0), RequestId(1)), &set, &[], &mut [], deadline()).unwrap();
    // The reply says how many requests were served before.
    let request = Request::Counter { key: 5, change: CounterChange::Add(1) };
    let paused = server.pause_workers();
    for connection in &mut all {
        for id in 2..DEPTH + 2 {
            connection.send(Envelope::new(ServerId(0), RequestId(id)), &request, &[], deadline()).unwrap();
        }
    }
    drop(paused);
    let mut answers = all.iter_mut().map(|connection| {
        let answer = |_| match connection.receive(&mut [], deadline()).unwrap().1 {
            Reply::Counted { before } => before,
            other => panic!("{other:?}"),
        };
        (0..DEPTH).map(answer).collect::<Vec<_>>()
    });
    let many: Vec<_> = answers.by_ref().take(8).flatten().collect();
    let one = answers.next().unwrap();
    let mut every: Vec<_> = many.into_iter().chain(one.iter().copied()).collect();
    every.sort_unstable();
    assert_eq!(every, (0..9 * DEPTH).collect::<Vec<_>>());
    server.shut_down().unwrap();
    one
}

#[test]
fn a_program_with_one_connection_receives_as_much_service_as_one_with_eight() {
    let positions = positions("fair", true);
    // The worker may have received an event of one connection before all had requests.
    assert!(positions[0] <= 3, "{positions:?}");
    assert!(positions.windows(2).all(|pair| pair[1] - pair[0] <= 2), "{positions:?}");
}

#[test]
fn without_fair_scheduling_every_connection_receives_as_much_service() {
    let positions = positions("arrival", false);
    assert!(positions.windows(2).all(|pair| (1..=9 + 1).contains(&(pair[1] - pair[0]))), "{positions:?}");
    assert!(positions[DEPTH as usize - 1] >= 8 * (DEPTH - 2), "{positions:?}");
}
