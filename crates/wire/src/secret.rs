//! The partition's secret, and how one side shows the other that it has it without saying it.
//!
//! Each side picks a nonce. A proof is a keyed hash (BLAKE3, the secret is the key) over who proves,
//! everything that the client said, and both nonces. So a proof is good for one connection, one direction,
//! one server of one partition.

use std::fmt;

use crate::codec::{Field, Reader};
use crate::error::Error;
use crate::greeting::{Hello, VERSION};

/// A partition's secret. It never appears in messages, errors or debug output.
#[derive(Clone)]
pub struct Secret([u8; 32]);

/// A number that is used for one connection only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce(pub [u8; 32]);

/// That somebody knows the secret. Comparing two takes the same time wherever they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(blake3::Hash);

/// Who proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who connects.
    Client,
    /// Who is connected to.
    Server,
}

impl Secret {
    /// The secret with these bytes.
    pub fn new(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    /// The proof that one side of a connection gives.
    pub fn proof(&self, side: Side, hello: &Hello, client: Nonce, server: Nonce) -> Proof {
        let mut text = match side {
            Side::Client => b"pario client".to_vec(),
            Side::Server => b"pario server".to_vec(),
        };
        VERSION.put(&mut text);
        client.put(&mut text);
        server.put(&mut text);
        hello.put(&mut text);
        Proof(blake3::keyed_hash(&self.0, &text))
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
    use pario_units::{ClientId, PartitionId, ServerId};

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
        let (secret, one, two) = (Secret::new([1; 32]), Nonce([7; 32]), Nonce([8; 32]));
        let proof = secret.proof(Side::Client, &hello, one, two);
        assert_eq!(proof, secret.proof(Side::Client, &hello, one, two));
        let others = [
            Secret::new([2; 32]).proof(Side::Client, &hello, one, two),
            secret.proof(Side::Server, &hello, one, two),
            secret.proof(Side::Client, &hello, two, one),
            secret.proof(Side::Client, &Hello { partition: PartitionId(2), ..hello }, one, two),
            secret.proof(Side::Client, &Hello { server: ServerId(1), ..hello }, one, two),
            secret.proof(Side::Client, &Hello { servers: 4, ..hello }, one, two),
            secret.proof(Side::Client, &Hello { client: ClientId(5), ..hello }, one, two),
            secret.proof(Side::Client, &Hello { role: Role::Peer, ..hello }, one, two),
            secret.proof(Side::Client, &Hello { resume_ledger: Some(0), ..hello }, one, two),
        ];
        assert!(others.iter().all(|other| *other != proof));
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
