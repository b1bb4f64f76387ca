//! A proxy between a client and a server that sees every message and decides what is forwarded: a TCP port that forwards
//! greetings and records one at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use pario_wire::greeting::{PREFIX, Prefix};
use pario_wire::{RECORD_HEAD, RecordOpener, TAG};

use super::proxy;
use super::site::Site;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// A message. The first [`GREETINGS`] of each direction of a connection are greetings, the others records.
pub struct Message {
    pub connection: u64,
    pub direction: Direction,
    pub number: usize,
    pub bytes: Vec<u8>,
}

/// Greetings of each side before the first record.
pub const GREETINGS: usize = 2;

/// The bytes that are forwarded instead of a message, and whether the connection ends after them.
pub struct Forwarded {
    pub bytes: Vec<u8>,
    pub closes: bool,
}

impl From<Vec<u8>> for Forwarded {
    fn from(bytes: Vec<u8>) -> Forwarded {
        Forwarded { bytes, closes: false }
    }
}

type Filter = Box<dyn FnMut(Message) -> Forwarded + Send>;

/// A proxy with a filter. Its threads end with the process of the test.
pub struct MessageProxy {
    port: u16,
    filter: Arc<Mutex<Filter>>,
}

impl MessageProxy {
    /// Starts a proxy before the first server of a site, which forwards everything unchanged at first.
    pub fn before(site: &Site) -> MessageProxy {
        let filter: Arc<Mutex<Filter>> = Arc::new(Mutex::new(Box::new(|message| message.bytes.into())));
        let shared = Arc::clone(&filter);
        let port = proxy::before_first_server(site, move |connection, directions| {
            for (direction, (from, to)) in
                [Direction::ToServer, Direction::ToClient].into_iter().zip(directions)
            {
                let filter = Arc::clone(&shared);
                std::thread::spawn(move || pass(connection, direction, from, to, &filter));
            }
        });
        MessageProxy { port, filter }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Replaces the filter.
    pub fn set(&self, filter: impl FnMut(Message) -> Forwarded + Send + 'static) {
        *self.filter.lock().expect("no thread panics with it") = Box::new(filter);
    }
}

fn pass(
    connection: u64,
    direction: Direction,
    mut from: TcpStream,
    mut to: TcpStream,
    filter: &Mutex<Filter>,
) {
    for number in 0.. {
        let Some(bytes) = next(&mut from, number < GREETINGS) else { break };
        let message = Message { connection, direction, number, bytes };
        let forwarded = (filter.lock().expect("no thread panics with it"))(message);
        if to.write_all(&forwarded.bytes).is_err() || forwarded.closes {
            break;
        }
    }
    proxy::hang_up(&from, &to);
}

/// The next message; `None` at the end of the connection.
fn next(from: &mut TcpStream, greets: bool) -> Option<Vec<u8>> {
    let mut bytes = vec![0; if greets { PREFIX } else { RECORD_HEAD }];
    from.read_exact(&mut bytes).ok()?;
    let length = match greets {
        true => PREFIX + Prefix::decode(bytes[..].try_into().ok()?).ok()?.length as usize,
        false => RECORD_HEAD + RecordOpener::length(bytes[..].try_into().ok()?).ok()? + TAG,
    };
    let head = bytes.len();
    bytes.resize(length, 0);
    from.read_exact(&mut bytes[head..]).ok()?;
    Some(bytes)
}
