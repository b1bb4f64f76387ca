//! A proxy between a client and a server: a TCP port that forwards everything. It can end connections, drop all bytes, or
//! change the version in greetings.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::proxy;
use super::site::Site;

/// The traffic that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    All,
    /// Nothing, and both ends stay connected.
    Nothing,
    /// Connections break, and new ones do not come about.
    Cut,
}

/// The proxy; its threads end with the test's process.
pub struct FaultyProxy {
    port: u16,
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<(State, Vec<TcpStream>)>,
    changed: Condvar,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, (State, Vec<TcpStream>)> {
        self.state.lock().expect("nobody panics with it")
    }

    /// Passes on what comes, as long as both ends are there.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream, mut version: Option<u16>) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let mut state = self.lock();
            while state.0 == State::Nothing {
                state = self.changed.wait(state).expect("nobody panics with it");
            }
            drop(state);
            // The first message of either side has it there, and comes at once.
            if let Some(version) = version.take() {
                bytes[4..6].copy_from_slice(&version.to_le_bytes());
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        proxy::hang_up(&from, &to);
    }
}

impl FaultyProxy {
    /// To the first server of a site.
    pub fn to(site: &Site) -> FaultyProxy {
        FaultyProxy::speaking(site, None)
    }

    /// The same, which makes either side believe that the other one speaks this version of the protocol.
    pub fn speaking(site: &Site, version: Option<u16>) -> FaultyProxy {
        let inner = Arc::new(Inner { state: Mutex::new((State::All, Vec::new())), changed: Condvar::new() });
        let shared = Arc::clone(&inner);
        let port = proxy::before_first_server(site, move |_, directions| {
            let mut state = shared.lock();
            if state.0 == State::Cut {
                return;
            }
            for (from, to) in directions {
                state.1.push(proxy::clone(&from));
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.pass(from, to, version));
            }
        });
        FaultyProxy { port, inner }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn set(&self, now: State) {
        let mut state = self.inner.lock();
        state.0 = now;
        if now == State::Cut {
            for one in state.1.drain(..) {
                let _ = one.shutdown(Shutdown::Both);
            }
        }
        self.inner.changed.notify_all();
    }
}
