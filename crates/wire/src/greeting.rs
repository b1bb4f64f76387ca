//! The messages of the handshake.
//!
//! ```text
//! client                      server
//!   Hello, nonce        →
//!                       ←       Challenge: nonce, protection, proof
//!   Answer: proof       →
//!                       ←       Welcome, proof
//! ```
//!
//! Instead of `Challenge` or `Welcome` the server may send `Refused` and close the connection. Each message begins with the same
//! twelve bytes in every version of the protocol, and `Refused` never changes, so that programs of two versions can report the
//! difference.

use pario_types::{ClientId, Epoch, ErrorKind, PartitionId, ServerId};

use crate::codec::{Field, Reader, numbered, records};
use crate::error::Error;
use crate::record::Protection;
use crate::secret::{Nonce, Proof};

/// The version of the protocol: of the handshake and of all messages after it.
pub const VERSION: u16 = 2;

/// Bytes of a [`Prefix`].
pub const PREFIX: usize = 12;

/// The largest number of bytes after the prefix.
pub const MAX_GREETING: u32 = 4096;

/// The largest number of bytes of a refusal's text; longer texts are shortened.
pub const MAX_REASON: usize = 1024;

/// The number of earlier pools in a [`Welcome`].
pub const RETIRED_POOLS: usize = 16;

const MAGIC: [u8; 4] = *b"PARI";
const HELLO: u16 = 1;
const CHALLENGE: u16 = 2;
const ANSWER: u16 = 3;
const WELCOME: u16 = 4;
const REFUSED: u16 = 5;

/// The identity of a client, and the server that it expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The partition of the server.
    pub partition: PartitionId,
    /// The number of the server.
    pub server: ServerId,
    /// The number of servers in the partition, as the client knows it.
    pub servers: u16,
    /// The version of the set of servers that the client knows.
    pub epoch: Epoch,
    /// The id of the client.
    pub client: ClientId,
    /// The program of the client: clients with the same number share the service of one program.
    pub program: u64,
    /// The role of the client.
    pub role: Role,
    /// The ledger that the client had before it lost its connection.
    pub resume_ledger: Option<u32>,
}

/// The role of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A program that uses files.
    Client,
    /// Another server of the partition. Only servers may forward requests.
    Peer,
    /// A command that inspects or controls the partition.
    Tool,
}

/// What a client has to know after the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Bytes of a block of the server's pool.
    pub block: u32,
    /// The metadata server.
    pub metadata: ServerId,
    /// The version of the set of servers that the server knows. A client that knows an older one looks the partition up again.
    pub epoch: Epoch,
    /// The mark of the server's pool: a random number, which a successor that adopts the pool keeps.
    pub cache: u64,
    /// The marks of the server's last pools of which everything was stored, newest first; 0 where there is none. A client that
    /// wrote to any other pool may have lost writes that were not synced.
    pub retired: [u64; RETIRED_POOLS],
    /// The client's ledger in the pool. With a ledger, a descriptor of the pool follows this message.
    pub ledger: Option<u32>,
}

/// Why a server refuses a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeRefusal {
    /// The kind of reason.
    pub kind: ErrorKind,
    /// The reason in one line.
    pub text: String,
}

/// A message of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// The client begins.
    Hello {
        /// The client's identity.
        hello: Hello,
        /// A new nonce.
        nonce: Nonce,
    },
    /// The server proves that it knows the secret.
    Challenge {
        /// A new nonce.
        nonce: Nonce,
        /// The protection of everything after the handshake, which the server decides.
        protection: Protection,
        /// The server's proof.
        proof: Proof,
    },
    /// The client proves that it knows the secret.
    Answer {
        /// The client's proof.
        proof: Proof,
    },
    /// The server admits the client.
    Welcome {
        /// What the client has to know.
        welcome: Welcome,
        /// The server's proof of this message.
        proof: Proof,
    },
    /// The server refuses the client.
    Refused(HandshakeRefusal),
}

/// The beginning of every message of the handshake in every version: magic `PARI`, version, number and length of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The sender's version.
    pub version: u16,
    /// Bytes that follow.
    pub length: u32,
    kind: u16,
}

numbered! {
    Role { 1 => Client, 2 => Peer, 3 => Tool }
}

records! {
    Hello {
        partition: PartitionId,
        server: ServerId,
        servers: u16,
        epoch: Epoch,
        client: ClientId,
        program: u64,
        role: Role,
        resume_ledger: Option<u32>,
    }
    Welcome {
        block: u32,
        metadata: ServerId,
        epoch: Epoch,
        cache: u64,
        retired: [u64; RETIRED_POOLS],
        ledger: Option<u32>,
    }
    HandshakeRefusal { kind: ErrorKind, text: String }
}

impl Prefix {
    /// Decodes a prefix.
    pub fn decode(bytes: &[u8; PREFIX]) -> Result<Prefix, Error> {
        let mut from = Reader::new(bytes);
        if from.array()? != MAGIC {
            return Err(Error::BadMagic);
        }
        let [version, kind] = [u16::take(&mut from)?, u16::take(&mut from)?];
        let length = u32::take(&mut from)?;
        if length > MAX_GREETING {
            let (length, limit) = (u64::from(length), u64::from(MAX_GREETING));
            return Err(Error::TooLarge { what: "greeting", length, limit });
        }
        Ok(Prefix { version, length, kind })
    }

    /// Decodes the rest. Of another version only a refusal can be decoded.
    pub fn greeting(&self, body: &[u8]) -> Result<Greeting, Error> {
        if self.version != VERSION && self.kind != REFUSED {
            return Err(Error::Version(self.version));
        }
        if body.len() != self.length as usize {
            return Err(Error::Truncated);
        }
        let mut from = Reader::new(body);
        let greeting = match self.kind {
            HELLO => {
                let nonce = Field::take(&mut from)?;
                Greeting::Hello { hello: Field::take(&mut from)?, nonce }
            }
            CHALLENGE => {
                let nonce = Field::take(&mut from)?;
                let protection = Field::take(&mut from)?;
                Greeting::Challenge { nonce, protection, proof: Field::take(&mut from)? }
            }
            ANSWER => Greeting::Answer { proof: Field::take(&mut from)? },
            WELCOME => {
                let welcome = Field::take(&mut from)?;
                Greeting::Welcome { welcome, proof: Field::take(&mut from)? }
            }
            REFUSED => Greeting::Refused(Field::take(&mut from)?),
            other => return Err(Error::UnknownKind(other)),
        };
        from.end().map(|()| greeting)
    }
}

impl Greeting {
    /// Encodes the prefix and the rest.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let kind = match self {
            Greeting::Hello { hello, nonce } => {
                nonce.put(&mut body);
                hello.put(&mut body);
                HELLO
            }
            Greeting::Challenge { nonce, protection, proof } => {
                nonce.put(&mut body);
                protection.put(&mut body);
                proof.put(&mut body);
                CHALLENGE
            }
            Greeting::Answer { proof } => {
                proof.put(&mut body);
                ANSWER
            }
            Greeting::Welcome { welcome, proof } => {
                welcome.put(&mut body);
                proof.put(&mut body);
                WELCOME
            }
            Greeting::Refused(refusal) => {
                HandshakeRefusal { kind: refusal.kind, text: shorten(&refusal.text).to_owned() }
                    .put(&mut body);
                REFUSED
            }
        };
        let mut bytes = MAGIC.to_vec();
        VERSION.put(&mut bytes);
        kind.put(&mut bytes);
        (body.len() as u32).put(&mut bytes);
        bytes.append(&mut body);
        bytes
    }
}

/// The part of a text that fits into a refusal.
fn shorten(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_REASON)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Transcript;

    fn decode(bytes: &[u8]) -> Result<Greeting, Error> {
        let (prefix, body) = bytes.split_first_chunk().ok_or(Error::Truncated)?;
        Prefix::decode(prefix)?.greeting(body)
    }

    const TRANSCRIPT: Transcript = Transcript {
        hello: Hello {
            partition: PartitionId(1),
            server: ServerId(2),
            servers: 3,
            epoch: Epoch(0),
            client: ClientId(4),
            program: 3,
            role: Role::Client,
            resume_ledger: None,
        },
        client: Nonce([7; 32]),
        server: Nonce([8; 32]),
        protection: Protection::Encrypted,
    };

    fn refusal(text: &str) -> Greeting {
        Greeting::Refused(HandshakeRefusal { kind: ErrorKind::Access, text: text.into() })
    }

    #[test]
    fn a_refusal_of_any_version_can_be_decoded() {
        let mut bytes = refusal("too old").encode();
        bytes[4..6].copy_from_slice(&900u16.to_le_bytes());
        assert_eq!(decode(&bytes), Ok(refusal("too old")));
        let welcome = Welcome {
            block: 4096,
            metadata: ServerId(0),
            epoch: Epoch(0),
            cache: 5,
            retired: [0; RETIRED_POOLS],
            ledger: None,
        };
        let proof = TRANSCRIPT.prove_client(&crate::Secret::new([0; 32]));
        let greeting = Greeting::Welcome { welcome, proof };
        let mut bytes = greeting.encode();
        assert_eq!(decode(&bytes), Ok(greeting));
        bytes[4..6].copy_from_slice(&900u16.to_le_bytes());
        assert_eq!(decode(&bytes), Err(Error::Version(900)));
    }

    #[test]
    fn long_reasons_are_shortened_between_characters() {
        let bytes = refusal(&"ö".repeat(MAX_REASON)).encode();
        assert!(bytes.len() <= PREFIX + MAX_GREETING as usize);
        assert_eq!(decode(&bytes), Ok(refusal(&"ö".repeat(MAX_REASON / 2))));
    }

    #[test]
    fn other_bytes_are_no_greeting() {
        assert_eq!(decode(b"GET / HTTP/1.1\r\n\r\n"), Err(Error::BadMagic));
        assert_eq!(decode(b"PARI\x02\x00\x09\x00\0\0\0\0"), Err(Error::UnknownKind(9)));
        assert!(matches!(decode(b"PARI\x02\x00\x01\x00\xff\0\xff\0"), Err(Error::TooLarge { .. })));
    }
}
