//! The announcement of a collective open: what rank 0 tells the other ranks after it has opened or created the file.
//!
//! The ranks exchange words of 64 bits. [`OpenAnnouncement::encode`] and [`OpenAnnouncement::decode`] are the only code
//! that knows their order:
//!
//! | words | content |
//! |---|---|
//! | 0–1 | id of this open, high word first |
//! | 2 | start of the file pointers |
//! | 3 | bits 0–15: server that keeps the shared file pointer; from bit 16 on a byte each of the partition's defaults for accesses: strategy, counted from 1, or 0 for a plain file; whether tier 1 is allowed; its high and its low watermark |
//! | 4–7 | facts about the storage ([`StorageFacts::encode`]) |
//! | 8–9 | team whose blocks rank 0 caches from an earlier open, high word first; 0 if there is none |
//! | 10 | program number at the servers |
//! | 11–13 | placement table: hash, high word first, and length in bytes; 0 if the file is not placed |
//! | 14 | more of these defaults, 0 for a plain file: bits 0–23: bytes of a message; from bit 24 on: bytes of tier 1 |
//!
//! An exchange has at most 15 words.

use pario_layout::PlacementMapId;
use pario_types::{AccessDefaults, MAX_NETWORK_BUFFER, ServerId, Strategy};

use pario_file_backend::StorageFacts;

/// The words of an announcement.
const WORDS: usize = 15;

/// Bits of the bytes of a message, which are before those of tier 1.
const MESSAGE_BITS: u32 = 24;

const _: () = assert!(MAX_NETWORK_BUFFER < 1 << MESSAGE_BITS);

/// The file as rank 0 has opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenAnnouncement {
    /// A random number that identifies this open.
    pub id: u128,
    /// The start of the file pointers, in bytes.
    pub start: u64,
    /// The server that keeps the shared file pointer, if the file is on a partition and its ranks are on several nodes.
    pub pointer_server: ServerId,
    /// The facts about the storage, without [`StorageFacts::near`], which only all ranks together know.
    pub facts: StorageFacts,
    /// The team whose blocks of the file rank 0 still caches from an earlier open; 0 if there is none.
    pub retained_team: u128,
    /// The number by which servers know the program.
    pub program: u64,
    /// The placement table of a placed file.
    pub table: Option<PlacementMapId>,
    /// What the partition file says about accesses, if the file is on a partition.
    pub access: Option<AccessDefaults>,
}

impl OpenAnnouncement {
    pub fn encode(&self) -> [u64; WORDS] {
        let (table_hash, table_len) = self.table.map_or((0, 0), |id| (id.hash, id.len));
        let [id_high, id_low] = halves(self.id);
        let [team_high, team_low] = halves(self.retained_team);
        let [hash_high, hash_low] = halves(table_hash);
        let [kind, block, stripe, servers] = self.facts.encode();
        let (small, sizes) = self.access.map_or((0, 0), encode_access);
        [
            id_high,
            id_low,
            self.start,
            u64::from(self.pointer_server.0) | u64::from(small) << 16,
            kind,
            block,
            stripe,
            servers,
            team_high,
            team_low,
            self.program,
            hash_high,
            hash_low,
            u64::from(table_len),
            sizes,
        ]
    }

    pub fn decode(words: [u64; WORDS]) -> OpenAnnouncement {
        let whole = |at: usize| u128::from(words[at]) << 64 | u128::from(words[at + 1]);
        let table = PlacementMapId { hash: whole(11), len: words[13] as u32 };
        OpenAnnouncement {
            id: whole(0),
            start: words[2],
            pointer_server: ServerId(words[3] as u16),
            facts: StorageFacts::decode([words[4], words[5], words[6], words[7]]),
            retained_team: whole(8),
            program: words[10],
            table: (table.len > 0).then_some(table),
            access: decode_access((words[3] >> 16) as u32, words[14]),
        }
    }
}

fn encode_access(access: AccessDefaults) -> (u32, u64) {
    let AccessDefaults { strategy, network_buffer, tier1, tier1_size, tier1_high, tier1_low } = access;
    let number = Strategy::ALL.iter().position(|one| *one == strategy).expect("one of all") as u8 + 1;
    let small = u32::from_le_bytes([number, u8::from(tier1), tier1_high, tier1_low]);
    (small, network_buffer | tier1_size << MESSAGE_BITS)
}

fn decode_access(small: u32, sizes: u64) -> Option<AccessDefaults> {
    let [number, tier1, tier1_high, tier1_low] = small.to_le_bytes();
    let (network_buffer, tier1_size) = (sizes & ((1 << MESSAGE_BITS) - 1), sizes >> MESSAGE_BITS);
    let strategy = *Strategy::ALL.get(usize::from(number.checked_sub(1)?))?;
    Some(AccessDefaults { strategy, network_buffer, tier1: tier1 != 0, tier1_size, tier1_high, tier1_low })
}

/// A number as two words, the high one first.
pub(crate) fn halves(number: u128) -> [u64; 2] {
    [(number >> 64) as u64, number as u64]
}

#[cfg(test)]
mod tests {
    use pario_domain::LockProtocol;

    use super::*;

    const FACTS: StorageFacts = StorageFacts {
        protocol: LockProtocol::Servers,
        local: false,
        memory: false,
        partition: true,
        placed: true,
        tier1: true,
        near: false,
        block: 4096,
        stripe: 65536,
        servers: 7,
    };

    const ACCESS: AccessDefaults = AccessDefaults {
        strategy: Strategy::ServerDirected,
        network_buffer: 16,
        tier1: true,
        tier1_size: 15,
        tier1_high: 14,
        tier1_low: 13,
    };

    #[test]
    fn an_announcement_survives_encoding() {
        let table = PlacementMapId { hash: 11 << 64 | 12, len: 13 };
        let all = OpenAnnouncement {
            id: 1 << 64 | 2,
            start: 3,
            pointer_server: ServerId(4),
            facts: FACTS,
            retained_team: 8 << 64 | 9,
            program: 10,
            table: Some(table),
            access: Some(ACCESS),
        };
        let none = OpenAnnouncement { retained_team: 0, table: None, access: None, ..all };
        let largest = OpenAnnouncement {
            id: u128::MAX,
            start: u64::MAX,
            pointer_server: ServerId(u16::MAX),
            retained_team: u128::MAX,
            program: u64::MAX,
            table: Some(PlacementMapId { hash: u128::MAX, len: u32::MAX }),
            access: Some(AccessDefaults {
                strategy: Strategy::ServerDirected,
                network_buffer: MAX_NETWORK_BUFFER,
                tier1: true,
                tier1_size: 4 << 30,
                tier1_high: 100,
                tier1_low: 100,
            }),
            ..all
        };
        for announcement in [all, none, largest] {
            assert_eq!(OpenAnnouncement::decode(announcement.encode()), announcement);
        }
    }

    #[test]
    fn every_word_has_its_documented_position() {
        let announcement = OpenAnnouncement {
            id: 1 << 64 | 2,
            start: 3,
            pointer_server: ServerId(4),
            facts: FACTS,
            retained_team: 8 << 64 | 9,
            program: 10,
            table: Some(PlacementMapId { hash: 11 << 64 | 12, len: 13 }),
            access: Some(ACCESS),
        };
        let words = announcement.encode();
        assert_eq!(words[..4], [1, 2, 3, 0x0d0e_0106_0004]);
        assert_eq!(words[4..8], FACTS.encode());
        assert_eq!(words[8..14], [8, 9, 10, 11, 12, 13]);
        assert_eq!(words[14..], [15 << 24 | 16]);
    }
}
