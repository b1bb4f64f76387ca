//! The partition's secret, and proofs that a side knows it.
//!
//! Each side picks a nonce. A proof is a keyed hash (BLAKE3, the secret is the key) over the side, both nonces and everything
//! that the two sides have agreed on. So a proof is valid for one connection, one direction, one server of one partition and
//! one protection. The keys of the connection's records come from the same hash.

use std::fmt;

use crate::codec::{Field, Reader};
use crate::error::Error;
use crate::greeting::{Hello, VERSION, Welcome};
use crate::record::{Protection, SessionKeys};

/// A partition's secret. It never appears in messages, errors or debug output.
#[derive(Clone)]
pub struct Secret([u8; 32]);

/// A number that is used for one connection only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce(pub [u8; 32]);

/// The proof that a side knows the secret. Comparing two takes the same time wherever they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(blake3::Hash);

/// What the two sides of a connection have said: it goes into all proofs and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transcript {
    /// What the client said of itself.
    pub hello: Hello,
    /// The client's nonce.
    pub client: Nonce,
    /// The server's.
    pub server: Nonce,
    /// How the server protects what comes after.
    pub protection: Protection,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that connects.
    Client,
    /// The side that accepts the connection.
    Server,
}

impl Secret {
    /// The secret with these bytes.
    pub fn new(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    /// By this a server shows that it is one.
    pub fn prove_server(&self, agreed: &Transcript) -> Proof {
        Proof(self.hash(b"pario server", agreed, None).finalize())
    }

    /// By this a client shows that it may come in.
    pub fn prove_client(&self, agreed: &Transcript) -> Proof {
        Proof(self.hash(b"pario client", agreed, None).finalize())
    }

    /// By this a client knows that the server itself said this welcome.
    pub fn prove_welcome(&self, agreed: &Transcript, welcome: &Welcome) -> Proof {
        Proof(self.hash(b"pario accept", agreed, Some(welcome)).finalize())
    }

    /// The keys of the connection.
    pub fn session_keys(&self, agreed: &Transcript) -> SessionKeys {
        let mut keys = [0; 32];
        self.hash(b"pario record", agreed, None).finalize_xof().fill(&mut keys);
        SessionKeys::new(&keys, agreed.protection)
    }

    /// Purposes have the same length, so that no two inputs are alike.
    fn hash(&self, purpose: &[u8; 12], agreed: &Transcript, welcome: Option<&Welcome>) -> blake3::Hasher {
        let mut text = purpose.to_vec();
        VERSION.put(&mut text);
        agreed.client.put(&mut text);
        agreed.server.put(&mut text);
        agreed.protection.put(&mut text);
        agreed.hello.put(&mut text);
        welcome.iter().for_each(|welcome| welcome.put(&mut text));
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&text);
        hasher
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
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
    use pario_types::{ClientId, PartitionId, ServerId};

    #[test]
    fn a_proof_holds_for_nothing_else() {
        let hello = Hello {
            partition: PartitionId(1),
            server: ServerId(2),
            servers: 3,
            client: ClientId(4),
            program: 3,
            role: Role::Client,
            resume_ledger: None,
        };
        let (client, server) = (Nonce([7; 32]), Nonce([8; 32]));
        let agreed = Transcript { hello, client, server, protection: Protection::Authenticated };
        let secret = Secret::new([1; 32]);
        let proof = secret.prove_client(&agreed);
        assert_eq!(proof, secret.prove_client(&agreed));
        let with = |hello| Transcript { hello, ..agreed };
        let others = [
            Transcript { client: server, server: client, ..agreed },
            Transcript { protection: Protection::Encrypted, ..agreed },
            with(Hello { partition: PartitionId(2), ..hello }),
            with(Hello { server: ServerId(1), ..hello }),
            with(Hello { servers: 4, ..hello }),
            with(Hello { client: ClientId(5), ..hello }),
            with(Hello { program: 4, ..hello }),
            with(Hello { role: Role::Peer, ..hello }),
            with(Hello { resume_ledger: Some(0), ..hello }),
        ];
        assert!(others.iter().all(|other| secret.prove_client(other) != proof));
        assert!(Secret::new([2; 32]).prove_client(&agreed) != proof);
        let welcome = Welcome { block: 1, metadata: ServerId(0), cache: 5, retired: [0; 16], ledger: None };
        let welcomed = secret.prove_welcome(&agreed, &welcome);
        assert!(secret.prove_server(&agreed) != proof && welcomed != proof);
        assert!(secret.prove_welcome(&agreed, &Welcome { cache: 6, ..welcome }) != welcomed);
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
