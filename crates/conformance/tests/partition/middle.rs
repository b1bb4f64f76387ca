//! Somebody between a client and a server, who sees every message and says what becomes of it: a TCP port that passes on
//! greetings and records one at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use pario_wire::greeting::{PREFIX, Prefix};
use pario_wire::{RECORD_HEAD, RecordOpener, TAG};

use super::proxy;
use super::site::Site;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    ToServer,
    ToClient,
}

/// A message that comes by. The first [`GREETINGS`] of each way of a connection are greetings, the others records.
pub struct Message {
    pub connection: u64,
    pub way: Way,
    pub number: usize,
    pub bytes: Vec<u8>,
}

/// Each side says two things before the first record.
pub const GREETINGS: usize = 2;

/// What goes on instead of a message, and whether that is the last of the connection.
pub struct Passed {
    pub bytes: Vec<u8>,
    pub closes: bool,
}

impl From<Vec<u8>> for Passed {
    fn from(bytes: Vec<u8>) -> Passed {
        Passed { bytes, closes: false }
    }
}

type Meddle = Box<dyn FnMut(Message) -> Passed + Send>;

/// Its threads end with the test's process.
pub struct Middle {
    port: u16,
    meddle: Arc<Mutex<Meddle>>,
}

impl Middle {
    /// Before the first server of a site. At first everything passes as it is.
    pub fn before(site: &Site) -> Middle {
        let meddle: Arc<Mutex<Meddle>> = Arc::new(Mutex::new(Box::new(|message| message.bytes.into())));
        let shared = Arc::clone(&meddle);
        let port = proxy::before_first_server(site, move |connection, directions| {
            for (way, (from, to)) in [Way::ToServer, Way::ToClient].into_iter().zip(directions) {
                let meddle = Arc::clone(&shared);
                std::thread::spawn(move || pass(connection, way, from, to, &meddle));
            }
        });
        Middle { port, meddle }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on this says what passes.
    pub fn set(&self, meddle: impl FnMut(Message) -> Passed + Send + 'static) {
        *self.meddle.lock().expect("nobody panics with it") = Box::new(meddle);
    }
}

fn pass(connection: u64, way: Way, mut from: TcpStream, mut to: TcpStream, meddle: &Mutex<Meddle>) {
    for number in 0.. {
        let Some(bytes) = next(&mut from, number < GREETINGS) else { break };
        let message = Message { connection, way, number, bytes };
        let passed = (meddle.lock().expect("nobody panics with it"))(message);
        if to.write_all(&passed.bytes).is_err() || passed.closes {
            break;
        }
    }
    proxy::hang_up(&from, &to);
}

/// The next message; `None` when there is none any more.
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
