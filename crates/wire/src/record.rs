//! Records: how the bytes of a connection are protected after the handshake.
//!
//! A side sends one stream of frames, divided into records at any byte:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | n, the number of bytes of the stream in the record: 1 to [`MAX_RECORD`] |
//! | 4..4+n | these bytes, encrypted if the handshake says so |
//! | 16 more | the tag |
//!
//! The tag is that of AEGIS-128X2. Its key is that of the direction; its nonce is the number of the record in that direction,
//! which is not sent; the number of bytes is part of the tag. So a record is valid at one place of one direction of one
//! connection. The receiver notices a changed, dropped, repeated, moved or forged record before it uses a byte of it. With the
//! processor's AES instructions AEGIS is faster than a CRC-32C, and encrypting costs as little as authenticating
//! (`docs/PROTOCOL.md` has the figures). So the tag is also the end-to-end checksum of payloads. The kernel protects Unix
//! sockets: records there have the same form, but their tags are zeros.

use aegis::aegis128x2::Aegis128X2;

use crate::codec::numbered;
use crate::error::Error;
use crate::secret::Side;

/// Bytes of a record before those of the stream.
pub const RECORD_HEAD: usize = 4;

/// Bytes of a record after those of the stream.
pub const TAG: usize = 16;

/// The largest number of bytes of the stream in one record. A receiver holds a whole record before it uses any of it, and both sides
/// go over its bytes several times, so it fits the second level of a processor's cache.
pub const MAX_RECORD: usize = 128 << 10;

/// The protection that records give the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Against changes. An attacker on the path can read the stream.
    Authenticated,
    /// Against changes and reading.
    Encrypted,
    /// None: the tags are zeros. For Unix sockets, which the kernel protects.
    None,
}

numbered! {
    Protection { 1 => Authenticated, 2 => Encrypted, 3 => None }
}

/// The keys of a connection, one for each direction.
pub struct SessionKeys {
    client: [u8; 16],
    server: [u8; 16],
    protection: Protection,
}

impl SessionKeys {
    pub(crate) fn new(bytes: &[u8; 32], protection: Protection) -> SessionKeys {
        let (mut client, mut server) = ([0; 16], [0; 16]);
        client.copy_from_slice(&bytes[..16]);
        server.copy_from_slice(&bytes[16..]);
        SessionKeys { client, server, protection }
    }

    /// The sealer and the opener of one side.
    pub fn ends(&self, side: Side) -> (RecordSealer, RecordOpener) {
        let (own, other) = match side {
            Side::Client => (self.client, self.server),
            Side::Server => (self.server, self.client),
        };
        let direction = |key| Direction { key, protection: self.protection, next: 0 };
        (RecordSealer(direction(own)), RecordOpener(direction(other)))
    }
}

/// One direction of a connection.
struct Direction {
    key: [u8; 16],
    protection: Protection,
    /// The number of the next record.
    next: u64,
}

impl Direction {
    fn cipher(&mut self) -> Aegis128X2<TAG> {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.next.to_le_bytes());
        // At a record per nanosecond this lasts for 500 years.
        self.next += 1;
        Aegis128X2::new(&self.key, &nonce)
    }
}

/// Makes the records that one side sends.
pub struct RecordSealer(Direction);

impl RecordSealer {
    /// Makes the next record from bytes of the stream, with space for a head before and a tag after them.
    ///
    /// # Panics
    /// If there are no bytes, or more than [`MAX_RECORD`].
    pub fn seal(&mut self, record: &mut [u8]) {
        let len = record.len().saturating_sub(RECORD_HEAD + TAG);
        assert!((1..=MAX_RECORD).contains(&len), "a record of {len} bytes");
        let (head, rest) = record.split_at_mut(RECORD_HEAD);
        let (bytes, tag) = rest.split_at_mut(len);
        head.copy_from_slice(&(len as u32).to_le_bytes());
        tag.copy_from_slice(&match self.0.protection {
            Protection::Authenticated => self.0.cipher().encrypt_in_place(&mut [], bytes),
            Protection::Encrypted => self.0.cipher().encrypt_in_place(bytes, &[]),
            Protection::None => [0; TAG],
        });
    }

    /// Whether a record can be sent without copying its bytes: they are not encrypted.
    pub fn seals_in_place(&self) -> bool {
        self.0.protection != Protection::Encrypted
    }

    /// The head and the tag of the next record, for bytes that are sent without a copy.
    ///
    /// # Panics
    /// If there are no bytes, or more than [`MAX_RECORD`], or if they have to be [encrypted](RecordSealer::seals_in_place).
    pub fn seal_in_place(&mut self, bytes: &[u8]) -> ([u8; RECORD_HEAD], [u8; TAG]) {
        assert!((1..=MAX_RECORD).contains(&bytes.len()), "a record of {} bytes", bytes.len());
        let tag = match self.0.protection {
            Protection::Authenticated => self.0.cipher().encrypt_in_place(&mut [], bytes),
            Protection::None => [0; TAG],
            Protection::Encrypted => panic!("bytes are encrypted in a copy"),
        };
        ((bytes.len() as u32).to_le_bytes(), tag)
    }

    /// Seals these bytes in as many records as necessary.
    pub fn records(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut records = Vec::with_capacity(bytes.len() + RECORD_HEAD + TAG);
        for bytes in bytes.chunks(MAX_RECORD) {
            let start = records.len();
            records.extend_from_slice(&[0; RECORD_HEAD]);
            records.extend_from_slice(bytes);
            records.extend_from_slice(&[0; TAG]);
            self.seal(&mut records[start..]);
        }
        records
    }
}

/// Verifies the records that one side receives.
pub struct RecordOpener(Direction);

impl RecordOpener {
    /// The number of bytes of the stream in the record with this head. The length is within the limits; opening the record verifies
    /// it.
    pub fn length(head: [u8; RECORD_HEAD]) -> Result<usize, Error> {
        let len = u32::from_le_bytes(head) as usize;
        if (1..=MAX_RECORD).contains(&len) { Ok(len) } else { Err(Error::Tampered) }
    }

    /// Verifies and decrypts the bytes between the head and the tag of the next record. After an error these bytes and all later
    /// records are invalid.
    pub fn open(&mut self, bytes: &mut [u8], tag: &[u8; TAG]) -> Result<(), Error> {
        let verified = match self.0.protection {
            Protection::Authenticated => self.0.cipher().decrypt_in_place(&mut [], tag, bytes),
            Protection::Encrypted => self.0.cipher().decrypt_in_place(bytes, tag, &[]),
            Protection::None => return if *tag == [0; TAG] { Ok(()) } else { Err(Error::Tampered) },
        };
        verified.map_err(|_| Error::Tampered)
    }
}

/// `Debug` must not show keys.
macro_rules! hide {
    ($($name:ident),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}

hide!(SessionKeys, RecordSealer, RecordOpener);
