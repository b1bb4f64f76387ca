//! The partition's secret, and proofs that a side knows it.
//!
//! Each side picks a nonce. A proof is a keyed hash (BLAKE3, the secret is the key) over the side, both nonces and everything
//! that the two sides have agreed on. So a proof is valid for one connection, one direction, one server of one partition and
//! one protection. The keys of the connection's records come from the same hash.

pub use pario_types::Secret;

use crate::codec::{Field, Reader};
use crate::error::Error;
use crate::greeting::{Hello, VERSION, Welcome};
use crate::record::{Protection, SessionKeys};

/// A number that is used for one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce(pub [u8; 32]);

/// The proof that a side knows the secret. Comparing two takes the same time wherever they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(blake3::Hash);

/// The handshake as far as all proofs and keys depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transcript {
    /// The client's identity.
    pub hello: Hello,
    /// The client's nonce.
    pub client: Nonce,
    /// The server's nonce.
    pub server: Nonce,
    /// The protection that the server has chosen.
    pub protection: Protection,
}

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that connects.
    Client,
    /// The side that accepts the connection.
    Server,
}

impl Transcript {
    /// The proof by which a server shows that it knows the secret.
    pub fn prove_server(&self, secret: &Secret) -> Proof {
        Proof(self.hash(secret, b"pario server", None).finalize())
    }

    /// The proof by which a client shows that it knows the secret.
    pub fn prove_client(&self, secret: &Secret) -> Proof {
        Proof(self.hash(secret, b"pario client", None).finalize())
    }

    /// The proof that the server itself sent this welcome.
    pub fn prove_welcome(&self, secret: &Secret, welcome: &Welcome) -> Proof {
        Proof(self.hash(secret, b"pario accept", Some(welcome)).finalize())
    }

    /// The keys of the connection.
    pub fn session_keys(&self, secret: &Secret) -> SessionKeys {
        let mut keys = [0; 32];
        self.hash(secret, b"pario record", None).finalize_xof().fill(&mut keys);
        SessionKeys::new(&keys, self.protection)
    }

    /// All purposes have the same length, so no two inputs are equal.
    fn hash(&self, secret: &Secret, purpose: &[u8; 12], welcome: Option<&Welcome>) -> blake3::Hasher {
        let mut text = purpose.to_vec();
        VERSION.put(&mut text);
        self.client.put(&mut text);
        self.server.put(&mut text);
        self.protection.put(&mut text);
        self.hello.put(&mut text);
        welcome.iter().for_each(|welcome| welcome.put(&mut text));
        let mut hasher = blake3::Hasher::new_keyed(secret.bytes());
        hasher.update(&text);
        hasher
    }
}

impl Field for Nonce {
    const LEAST: usize = 32;

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        Field::take(from).map(Nonce)
    }
}

impl Field for Proof {
    const LEAST: usize = 32;

    fn put(&self, out: &mut Vec<u8>) {
        self.0.as_bytes().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        from.array().map(|bytes| Proof(blake3::Hash::from_bytes(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::greeting::Role;
    use pario_types::{ClientId, Epoch, PartitionId, ServerId};

    #[test]
    fn a_proof_is_valid_for_one_transcript() {
        let hello = Hello {
            partition: PartitionId(1),
            server: ServerId(2),
            servers: 3,
            epoch: Epoch(0),
            client: ClientId(4),
            program: 3,
            role: Role::Client,
            resume_ledger: None,
        };
        let (client, server) = (Nonce([7; 32]), Nonce([8; 32]));
        let agreed = Transcript { hello, client, server, protection: Protection::Authenticated };
        let secret = Secret::new([1; 32]);
        let proof = agreed.prove_client(&secret);
        assert_eq!(proof, agreed.prove_client(&secret));
        let with = |hello| Transcript { hello, ..agreed };
        let others = [
            Transcript { client: server, server: client, ..agreed },
            Transcript { protection: Protection::Encrypted, ..agreed },
            with(Hello { partition: PartitionId(2), ..hello }),
            with(Hello { server: ServerId(1), ..hello }),
            with(Hello { servers: 4, ..hello }),
            with(Hello { epoch: Epoch(1), ..hello }),
            with(Hello { client: ClientId(5), ..hello }),
            with(Hello { program: 4, ..hello }),
            with(Hello { role: Role::Peer, ..hello }),
            with(Hello { resume_ledger: Some(0), ..hello }),
        ];
        assert!(others.iter().all(|other| other.prove_client(&secret) != proof));
        assert!(agreed.prove_client(&Secret::new([2; 32])) != proof);
        let welcome = Welcome {
            block: 1,
            metadata: ServerId(0),
            epoch: Epoch(0),
            cache: 5,
            retired: [0; 16],
            ledger: None,
        };
        let welcomed = agreed.prove_welcome(&secret, &welcome);
        assert!(agreed.prove_server(&secret) != proof && welcomed != proof);
        assert!(agreed.prove_welcome(&secret, &Welcome { cache: 6, ..welcome }) != welcomed);
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }
}
