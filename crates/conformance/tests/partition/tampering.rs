//! An attacker between a client and a server changes, drops, repeats, reorders, shortens and forges messages. No wrong byte is
//! ever read or stored; connections end and are made anew.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pario::{File, OpenOptions, Options, Partition, Target};
use pario_transport::{Address, Connection, SocketOptions};
use pario_types::{ClientId, ErrorKind, ServerId};
use pario_wire::MAX_RECORD;
use pario_wire::greeting::{Hello, PREFIX, Role};

use super::dice::Dice;
use super::message_proxy::{Direction, Forwarded, GREETINGS, Message, MessageProxy};
use super::site::{Shape, Site};
use super::try_seeds;

const SERVER: ServerId = ServerId(0);

fn site(encryption: &str) -> Site {
    Site::up(Shape { more: format!("encryption = {encryption}\n"), ..Shape::new(1) })
}

/// A client whose messages go through the proxy. Its deadline is short, because many of them get lost.
fn client(site: &Site, proxy: &MessageProxy) -> Partition {
    let (entry, secret, port) = (site.entry(), site.secret(), proxy.port());
    let resolve = move || {
        let mut target = Target::of_entry(&entry, secret.clone())?;
        target.servers = vec![vec![Address::Tcp("127.0.0.1".into(), port)]];
        Ok(target)
    };
    let deadline = Duration::from_secs(1);
    Partition::connect(resolve, Options { deadline, ..Options::default() }).expect("nobody meddles yet")
}

fn open(client: &Partition) -> File {
    let mut options = OpenOptions::new();
    client.open("/file", options.read(true).write(true).create(true)).expect("it can be opened")
}

/// An attacker on the network that changes some records in every way that needs no keys.
struct Attacker {
    dice: Dice,
    /// Records of both directions of all connections.
    seen: Vec<Vec<u8>>,
    held: HashMap<(u64, Direction), Vec<u8>>,
    attacks: Arc<AtomicU64>,
}

impl Attacker {
    fn filter(&mut self, Message { connection, direction, number, bytes }: Message) -> Forwarded {
        if number < GREETINGS {
            return bytes.into();
        }
        if let Some(earlier) = self.held.remove(&(connection, direction)) {
            return [bytes, earlier].concat().into();
        }
        if self.seen.len() < 64 {
            self.seen.push(bytes.clone());
        } else {
            let index = self.dice.index(64);
            self.seen[index].clone_from(&bytes);
        }
        // Of large payloads there are many records.
        if !self.dice.one_in(if bytes.len() > MAX_RECORD / 2 { 60 } else { 25 }) {
            return bytes.into();
        }
        self.attacks.fetch_add(1, Ordering::Relaxed);
        self.attack(connection, direction, bytes)
    }

    fn attack(&mut self, connection: u64, direction: Direction, mut bytes: Vec<u8>) -> Forwarded {
        let other = self.seen[self.dice.index(self.seen.len())].clone();
        match self.dice.below(9) {
            0 | 1 => {
                let bit = self.dice.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            2 => bytes.clear(),
            3 => bytes.extend_from_within(..),
            4 => {
                self.held.insert((connection, direction), bytes);
                return Vec::new().into();
            }
            5 => {
                bytes.truncate(self.dice.index(bytes.len()));
                return Forwarded { bytes, closes: true };
            }
            6 => bytes.truncate(self.dice.index(bytes.len())),
            // Of this connection or another, of this direction or the other.
            7 => bytes = other,
            _ => bytes.splice(0..0, other).for_each(drop),
        }
        bytes.into()
    }
}

/// Repeats something until the attacker lets it through. An error says in one line that the server could not be reached.
fn insist<T>(mut act: impl FnMut() -> pario::Result<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match act() {
            Ok(done) => return done,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
                assert_eq!(error.to_string().lines().count(), 1, "{error}");
                assert!(Instant::now() < until, "nothing gets through any more: {error}");
            }
        }
    }
}

#[test]
fn tampering_on_the_network_never_changes_bytes_read_or_stored() {
    for (encryption, seeds) in [("off", [71]), ("on", [72])] {
        try_seeds(&seeds, |dice| {
            let site = site(encryption);
            let proxy = MessageProxy::before(&site);
            let client = client(&site, &proxy);
            let file = open(&client);
            let attacks = Arc::new(AtomicU64::new(0));
            let (seen, held) = (Vec::new(), HashMap::new());
            let dice_of_attacker = Dice::new(dice.next());
            let mut attacker = Attacker { dice: dice_of_attacker, seen, held, attacks: Arc::clone(&attacks) };
            proxy.set(move |message| attacker.filter(message));
            let mut model = vec![0; 2 << 20];
            let until = Instant::now() + Duration::from_secs(4);
            let honest = site.client();
            // Some attacks look like a broken connection; at least one must be seen for what it is.
            let is_found_out = || honest.status(SERVER).expect("it answers").traffic.refused > 0;
            while Instant::now() < until || attacks.load(Ordering::Relaxed) < 20 || !is_found_out() {
                let len = dice.pick(&[10, 5000, 100_000, 400_000]);
                let at = dice.index(model.len() - len);
                if dice.one_in(2) {
                    let bytes = dice.bytes(len);
                    insist(|| file.write_at(&bytes, at as u64));
                    model[at..at + len].copy_from_slice(&bytes);
                } else {
                    let mut back = vec![1; len];
                    let read = insist(|| file.read_at(&mut back, at as u64));
                    assert!(back[..read] == model[at..at + read], "something else was read");
                }
            }
            proxy.set(|message| message.bytes.into());
            file.sync().expect("nobody meddles any more");
            let mut back = vec![0; model.len()];
            let read = open(&honest).read_at(&mut back, 0).expect("it can be read");
            assert!(back[..read] == model[..read] && model[read..].iter().all(|byte| *byte == 0));
            // It is counted, and said once.
            let status = honest.status(SERVER).expect("it answers");
            let said = status.last_errors.iter().filter(|text| text.contains("fails authentication"));
            assert_eq!(said.count(), 1, "{:?}", status.last_errors);
        });
    }
}

/// Also if its client never comes back to write it again.
#[test]
fn a_forged_payload_never_reaches_a_block() {
    const LEN: usize = 1 << 20;
    let (old, new, forged) = (vec![1; LEN], vec![2; LEN], 0x55);
    let site = site("off");
    let proxy = MessageProxy::before(&site);
    let (victim, honest) = (client(&site, &proxy), site.client());
    let (writer, reader) = (open(&victim), open(&honest));
    reader.write_at(&old, 0).expect("it can be written");
    proxy.set(move |mut message: Message| {
        if message.direction == Direction::ToServer && message.bytes.len() > MAX_RECORD / 2 {
            let half = message.bytes.len() / 2;
            message.bytes[half..half + 1000].fill(forged);
        }
        message.bytes.into()
    });
    let error = writer.write_at(&new, 0).expect_err("none of it is genuine");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    let mut back = vec![0; LEN];
    reader.read_exact_at(&mut back, 0).expect("it can be read");
    assert!(back.iter().all(|byte| [1, 2].contains(byte)), "forged bytes are in the file");
    proxy.set(|message| message.bytes.into());
    writer.write_at(&new, 0).expect("nobody meddles any more");
    reader.read_exact_at(&mut back, 0).expect("it can be read");
    assert!(back == new);
}

#[test]
fn a_tampered_handshake_is_refused() {
    try_seeds(&[75], |dice| {
        for encryption in ["off", "on"] {
            let site = site(encryption);
            let proxy = MessageProxy::before(&site);
            let hello = Hello {
                partition: site.entry().id,
                server: SERVER,
                servers: 1,
                epoch: site.entry().epoch,
                client: ClientId(1),
                program: 1,
                role: Role::Client,
                resume_ledger: None,
            };
            let address = Address::Tcp("127.0.0.1".into(), proxy.port());
            let connect = |secs| {
                let deadline = Instant::now() + Duration::from_secs(secs);
                Connection::connect(&address, &SocketOptions::default(), &hello, &site.secret(), deadline)
            };
            connect(10).expect("nobody meddles yet");
            for (direction, number) in [
                (Direction::ToServer, 0),
                (Direction::ToClient, 0),
                (Direction::ToServer, 1),
                (Direction::ToClient, 1),
            ] {
                // The protection that the server announces is behind its nonce.
                for trial in 0..13 {
                    let (place, bit) = (dice.index(1000), dice.below(8));
                    let place = if trial == 0 { PREFIX + 32 } else { place };
                    proxy.set(move |mut message: Message| {
                        if (message.direction, message.number) == (direction, number) {
                            let at = place % message.bytes.len();
                            // A length that grows only makes them wait.
                            let at = if (8..PREFIX).contains(&at) { 0 } else { at };
                            message.bytes[at] ^= 1 << bit;
                        }
                        message.bytes.into()
                    });
                    let error = match connect(10) {
                        Ok(_) => {
                            panic!(
                                "let in, though bit {bit} of byte {place} of {direction:?} {number} is wrong"
                            )
                        }
                        Err(error) => error,
                    };
                    assert_eq!(error.to_string().lines().count(), 1, "{error}");
                }
            }
            proxy.set(|message| message.bytes.into());
            connect(10).expect("nobody meddles any more");
        }
    });
}

#[test]
fn encryption_hides_payloads() {
    let secret = b"what nobody else is to know";
    for (encryption, hidden) in [("on", true), ("off", false)] {
        let site = site(encryption);
        let proxy = MessageProxy::before(&site);
        let overheard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&overheard);
        proxy.set(move |message: Message| {
            ear.lock().expect("nobody panics with it").extend_from_slice(&message.bytes);
            message.bytes.into()
        });
        let client = client(&site, &proxy);
        let file = open(&client);
        file.write_at(secret, 0).expect("it can be written");
        let mut back = [0; 27];
        file.read_exact_at(&mut back, 0).expect("it can be read");
        assert_eq!(&back, secret);
        let overheard = overheard.lock().expect("nobody panics with it");
        let shown = |what: &[u8]| overheard.windows(what.len()).any(|window| window == what);
        // Names are hidden as well.
        assert_eq!((shown(secret), shown(b"/file")), (!hidden, !hidden), "encryption = {encryption}");
    }
}
