//! A server's side of the handshake: bytes in, bytes out, no I/O and no clock.
//!
//! The owner feeds the bytes that it reads and sends the bytes that it gets, until the client is accepted or refused. The owner has
//! the clock, so it closes connections that take too long.

use std::sync::Arc;

use pario_types::{Epoch, ErrorKind, PartitionId, ServerId};
use pario_wire::greeting::{Greeting, HandshakeRefusal, Hello, PREFIX, Prefix, VERSION, Welcome};
use pario_wire::{Nonce, Protection, RecordOpener, RecordSealer, Secret, Side, Transcript};

use crate::error::Error;
use crate::sys;

/// The values that a server checks in a handshake.
#[derive(Clone, Debug)]
pub struct HandshakeConfig {
    /// Its partition.
    pub partition: PartitionId,
    /// Its number in the partition.
    pub server: ServerId,
    /// The number of servers of the partition.
    pub servers: u16,
    /// The version of the set of servers.
    pub epoch: Epoch,
    /// The partition's secret.
    pub secret: Secret,
    /// Whether the traffic with other hosts is encrypted.
    pub encryption: bool,
}

/// The handshake with one client.
#[derive(Debug)]
pub struct ServerHandshake {
    config: Arc<HandshakeConfig>,
    peer: String,
    user: Option<u32>,
    nonce: Nonce,
    got: Vec<u8>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Hello,
    Answer(Transcript),
    Over,
}

/// The next step after feeding.
#[derive(Debug)]
pub enum HandshakeStep {
    /// Read more.
    More,
    /// Send this, then read more.
    Send(Vec<u8>),
    /// The client is accepted. Send [`AcceptedClient::welcome`], and after it the pool's descriptor if it says so; requests
    /// follow, in records.
    Accepted(Box<AcceptedClient>),
    /// Send the farewell if there is one, and close.
    Refused {
        /// The bytes to send, as far as the socket takes them.
        farewell: Vec<u8>,
        /// The reason, for the log.
        error: Error,
    },
}

/// A client that has proved that it knows the secret.
#[derive(Debug)]
pub struct AcceptedClient {
    config: Arc<HandshakeConfig>,
    agreed: Transcript,
}

impl AcceptedClient {
    /// Its greeting.
    pub fn hello(&self) -> &Hello {
        &self.agreed.hello
    }

    /// The bytes to send to it.
    pub fn welcome(&self, welcome: Welcome) -> Vec<u8> {
        let proof = self.agreed.prove_welcome(&self.config.secret, &welcome);
        Greeting::Welcome { welcome, proof }.encode()
    }

    /// The keys of the records that follow.
    pub fn ends(&self) -> (RecordSealer, RecordOpener) {
        self.agreed.session_keys(&self.config.secret).ends(Side::Server)
    }
}

impl ServerHandshake {
    /// Begins a handshake: `peer` is a name for the log, `user` is [`crate::Stream::peer_user`],
    /// `nonce` [`crate::fresh_nonce`].
    pub fn new(
        config: Arc<HandshakeConfig>,
        peer: String,
        user: Option<u32>,
        nonce: Nonce,
    ) -> ServerHandshake {
        ServerHandshake { config, peer, user, nonce, got: Vec::new(), stage: Stage::Hello }
    }

    /// Feeds the bytes that were read.
    ///
    /// # Panics
    /// If the client was accepted or refused before.
    pub fn feed(&mut self, bytes: &[u8]) -> HandshakeStep {
        assert!(!matches!(self.stage, Stage::Over), "the handshake with {} is over", self.peer);
        self.got.extend_from_slice(bytes);
        let Some((prefix, rest)) = self.got.split_first_chunk::<PREFIX>() else {
            return HandshakeStep::More;
        };
        let prefix = match Prefix::decode(prefix) {
            Ok(prefix) => prefix,
            Err(cause) => return self.not_understood(cause),
        };
        if prefix.version != VERSION {
            return self.not_understood(pario_wire::Error::Version(prefix.version));
        }
        let length = prefix.length as usize;
        if rest.len() < length {
            return HandshakeStep::More;
        }
        if rest.len() > length {
            return self.unexpected_message();
        }
        let greeting = match prefix.greeting(rest) {
            Ok(greeting) => greeting,
            Err(cause) => return self.not_understood(cause),
        };
        self.got.clear();
        self.apply(greeting)
    }

    fn apply(&mut self, greeting: Greeting) -> HandshakeStep {
        match (&self.stage, greeting) {
            (Stage::Hello, Greeting::Hello { hello, nonce }) => match self.objection(&hello) {
                Some((kind, text)) => self.refuse(kind, text),
                None => {
                    let protection = self.protection();
                    let agreed = Transcript { hello, client: nonce, server: self.nonce, protection };
                    let proof = agreed.prove_server(&self.config.secret);
                    self.stage = Stage::Answer(agreed);
                    HandshakeStep::Send(Greeting::Challenge { nonce: self.nonce, protection, proof }.encode())
                }
            },
            (&Stage::Answer(agreed), Greeting::Answer { proof }) => {
                if proof == agreed.prove_client(&self.config.secret) {
                    self.stage = Stage::Over;
                    HandshakeStep::Accepted(Box::new(AcceptedClient {
                        config: Arc::clone(&self.config),
                        agreed,
                    }))
                } else {
                    self.refuse(ErrorKind::Access, "the partition's secret is another".into())
                }
            }
            _ => self.unexpected_message(),
        }
    }

    /// The kernel protects a Unix socket: only the two processes can read or change its bytes, and a user who could attach
    /// to one of them has its memory as well.
    fn protection(&self) -> Protection {
        let is_local = self.user.is_some();
        match (is_local, self.config.encryption) {
            (true, _) => Protection::None,
            (false, true) => Protection::Encrypted,
            (false, false) => Protection::Authenticated,
        }
    }

    /// Returns the reason why a hello is refused, if it is.
    fn objection(&self, hello: &Hello) -> Option<(ErrorKind, String)> {
        let config = &*self.config;
        if let Some(user) = self.user.filter(|user| *user != sys::own_user() && *user != 0) {
            let text = format!("user {user} has no business here, the server is user {}'s", sys::own_user());
            return Some((ErrorKind::Access, text));
        }
        let text = if hello.partition != config.partition {
            format!("this is a server of partition {}, not of {}", config.partition, hello.partition)
        } else if hello.server != config.server {
            format!("this is server {}, not {}", config.server, hello.server)
        } else if hello.epoch == config.epoch && hello.servers != config.servers {
            format!("the partition has {} servers, not {}; look it up again", config.servers, hello.servers)
        } else {
            return None;
        };
        Some((ErrorKind::Protocol, text))
    }

    fn refuse(&mut self, kind: ErrorKind, text: String) -> HandshakeStep {
        let farewell = Greeting::Refused(HandshakeRefusal { kind, text: text.clone() }).encode();
        self.end(farewell, Error::Refused { peer: self.peer.clone(), kind, text })
    }

    fn unexpected_message(&mut self) -> HandshakeStep {
        let what = "it spoke out of turn in the handshake";
        let refusal = HandshakeRefusal { kind: ErrorKind::Protocol, text: what.into() };
        self.end(
            Greeting::Refused(refusal).encode(),
            Error::UnexpectedMessage { peer: self.peer.clone(), what },
        )
    }

    fn not_understood(&mut self, cause: pario_wire::Error) -> HandshakeStep {
        let farewell = match cause {
            // Another protocol: the peer would not understand a refusal.
            pario_wire::Error::BadMagic => Vec::new(),
            pario_wire::Error::Version(theirs) => {
                let text = format!(
                    "this server speaks version {VERSION} of the protocol, not {theirs}; \
                     use the same release of Pario everywhere"
                );
                Greeting::Refused(HandshakeRefusal { kind: ErrorKind::Protocol, text }).encode()
            }
            cause => {
                let refusal = HandshakeRefusal { kind: ErrorKind::Protocol, text: cause.to_string() };
                Greeting::Refused(refusal).encode()
            }
        };
        self.end(farewell, Error::Malformed { peer: self.peer.clone(), cause })
    }

    fn end(&mut self, farewell: Vec<u8>, error: Error) -> HandshakeStep {
        self.stage = Stage::Over;
        self.got = Vec::new();
        HandshakeStep::Refused { farewell, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_types::ClientId;
    use pario_wire::greeting::Role;
    use proptest::prelude::*;

    fn config() -> Arc<HandshakeConfig> {
        let secret = Secret::new([5; 32]);
        Arc::new(HandshakeConfig {
            partition: PartitionId(1),
            server: ServerId(2),
            servers: 3,
            epoch: Epoch(0),
            secret,
            encryption: true,
        })
    }

    const HELLO: Hello = Hello {
        partition: PartitionId(1),
        server: ServerId(2),
        servers: 3,
        epoch: Epoch(0),
        client: ClientId(4),
        program: 5,
        role: Role::Client,
        resume_ledger: None,
    };

    fn hello() -> Hello {
        HELLO
    }

    const OURS: Nonce = Nonce([1; 32]);
    const THEIRS: Nonce = Nonce([2; 32]);

    const AGREED: Transcript =
        Transcript { hello: HELLO, client: THEIRS, server: OURS, protection: Protection::Encrypted };

    fn begin(user: Option<u32>) -> ServerHandshake {
        ServerHandshake::new(config(), "somebody".into(), user, OURS)
    }

    fn decode(bytes: &[u8]) -> Greeting {
        let (prefix, body) = bytes.split_first_chunk().expect("a prefix");
        Prefix::decode(prefix).and_then(|prefix| prefix.greeting(body)).expect("a greeting")
    }

    /// Feeds bytes in random pieces; returns the last step.
    fn feed(
        handshake: &mut ServerHandshake,
        bytes: &[u8],
        cuts: &mut impl Iterator<Item = usize>,
    ) -> HandshakeStep {
        let mut rest = bytes;
        loop {
            let n = cuts.next().expect("endless").min(rest.len());
            let step = handshake.feed(&rest[..n]);
            rest = &rest[n..];
            if rest.is_empty() || !matches!(step, HandshakeStep::More) {
                return step;
            }
        }
    }

    proptest! {
        #[test]
        fn a_client_with_the_secret_is_accepted(cuts in prop::collection::vec(1usize..40, 1..10)) {
            let mut cuts = cuts.into_iter().cycle();
            let mut handshake = begin(None);
            let hello = hello();
            let bytes = Greeting::Hello { hello, nonce: THEIRS }.encode();
            let HandshakeStep::Send(bytes) = feed(&mut handshake, &bytes, &mut cuts) else { panic!("refused") };
            let secret = &config().secret;
            let (protection, proof) = (Protection::Encrypted, AGREED.prove_server(secret));
            prop_assert_eq!(decode(&bytes), Greeting::Challenge { nonce: OURS, protection, proof });
            let answer = Greeting::Answer { proof: AGREED.prove_client(secret) };
            let step = feed(&mut handshake, &answer.encode(), &mut cuts);
            let HandshakeStep::Accepted(accepted) = step else { panic!("refused") };
            prop_assert_eq!(*accepted.hello(), hello);
        }

        #[test]
        fn random_bytes_are_never_accepted(bytes in prop::collection::vec(any::<u8>(), 12..200)) {
            let step = begin(None).feed(&bytes);
            let HandshakeStep::Refused { farewell, .. } = step else { panic!("not refused") };
            prop_assert!(farewell.is_empty());
        }
    }

    /// The kind and the text of a refusal.
    fn refused(user: Option<u32>, hello: Hello) -> (ErrorKind, String) {
        let step = begin(user).feed(&Greeting::Hello { hello, nonce: THEIRS }.encode());
        let HandshakeStep::Refused { farewell, error } = step else { panic!("not refused: {step:?}") };
        let Greeting::Refused(HandshakeRefusal { kind, text }) = decode(&farewell) else {
            panic!("no refusal")
        };
        assert_eq!(kind, error.kind());
        (kind, text)
    }

    #[test]
    fn a_client_that_is_refused_is_told_why() {
        let cases = [
            (Hello { partition: PartitionId(7), ..hello() }, "not of 00000000000000000000000000000007"),
            (Hello { server: ServerId(0), ..hello() }, "this is server 2, not 0"),
            (Hello { servers: 4, ..hello() }, "has 3 servers, not 4"),
        ];
        for (hello, reason) in cases {
            let (kind, text) = refused(Some(sys::own_user()), hello);
            assert_eq!(kind, ErrorKind::Protocol);
            assert!(text.contains(reason), "{text}");
        }
        let (kind, text) = refused(Some(sys::own_user() + 1), hello());
        assert_eq!(kind, ErrorKind::Access);
        assert!(text.contains("no business"), "{text}");
    }

    #[test]
    fn root_is_accepted_and_other_versions_are_not() {
        let mut bytes = Greeting::Hello { hello: hello(), nonce: THEIRS }.encode();
        assert!(matches!(begin(Some(0)).feed(&bytes), HandshakeStep::Send(_)));
        bytes[4..6].copy_from_slice(&(VERSION + 1).to_le_bytes());
        // The prefix is enough: the rest of another version's greeting is unknown.
        let HandshakeStep::Refused { farewell, error } = begin(None).feed(&bytes[..PREFIX]) else {
            panic!("not refused")
        };
        assert_eq!(error.kind(), ErrorKind::Protocol);
        let Greeting::Refused(refusal) = decode(&farewell) else { panic!("no refusal") };
        assert!(refusal.text.contains("version 2") && refusal.text.contains("not 3"), "{}", refusal.text);
    }

    #[test]
    fn a_proof_is_valid_once_and_in_one_direction() {
        let secret = &config().secret;
        let wrong = [
            AGREED.prove_client(&Secret::new([6; 32])),
            // The server's own proof sent back, that of a connection with another nonce, and that of one in which an
            // attacker claimed that nothing is encrypted.
            AGREED.prove_server(secret),
            (Transcript { server: THEIRS, ..AGREED }).prove_client(secret),
            (Transcript { protection: Protection::Authenticated, ..AGREED }).prove_client(secret),
        ];
        for proof in wrong {
            let mut handshake = begin(None);
            handshake.feed(&Greeting::Hello { hello: hello(), nonce: THEIRS }.encode());
            let HandshakeStep::Refused { error, .. } = handshake.feed(&Greeting::Answer { proof }.encode())
            else {
                panic!("a wrong proof was accepted")
            };
            assert_eq!(error.kind(), ErrorKind::Access);
        }
    }

    #[test]
    fn messages_out_of_order_are_refused() {
        let proof = AGREED.prove_client(&config().secret);
        let answer = Greeting::Answer { proof }.encode();
        let mut bytes = Greeting::Hello { hello: hello(), nonce: THEIRS }.encode();
        for bytes in [&answer[..], &{
            bytes.push(0);
            bytes
        }] {
            let HandshakeStep::Refused { error, .. } = begin(None).feed(bytes) else { panic!("not refused") };
            assert!(matches!(error, Error::UnexpectedMessage { .. }), "{error}");
        }
    }
}
