//! The announcement of a collective open: what rank 0 tells the other ranks after it has opened or created the file.
//!
//! The ranks exchange words of 64 bits. [`OpenAnnouncement::encode`] and [`OpenAnnouncement::decode`] are the only code
//! that knows their order:
//!
//! | words | content |
//! |---|---|
//! | 0–1 | id of this open, high word first |
//! | 2 | start of the file pointers |
//! | 3 | server that keeps the shared file pointer |
//! | 4–7 | facts about the storage ([`StorageFacts::encode`]) |
//! | 8–9 | team whose blocks rank 0 caches from an earlier open, high word first; 0 if there is none |
//! | 10 | program number at the servers |
//! | 11–13 | placement table: hash, high word first, and length in bytes; 0 if the file is not placed |

use pario_layout::PlacementMapId;
use pario_types::ServerId;

use pario_file_backend::StorageFacts;

/// The words of an announcement.
const WORDS: usize = 14;

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
}

impl OpenAnnouncement {
    pub fn encode(&self) -> [u64; WORDS] {
        let (table_hash, table_len) = self.table.map_or((0, 0), |id| (id.hash, id.len));
        let [id_high, id_low] = halves(self.id);
        let [team_high, team_low] = halves(self.retained_team);
        let [hash_high, hash_low] = halves(table_hash);
        let [kind, block, stripe, servers] = self.facts.encode();
        [
            id_high,
            id_low,
            self.start,
            u64::from(self.pointer_server.0),
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
        }
    }
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
        };
        let none = OpenAnnouncement { retained_team: 0, table: None, ..all };
        let largest = OpenAnnouncement {
            id: u128::MAX,
            start: u64::MAX,
            pointer_server: ServerId(u16::MAX),
            retained_team: u128::MAX,
            program: u64::MAX,
            table: Some(PlacementMapId { hash: u128::MAX, len: u32::MAX }),
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
        };
        let words = announcement.encode();
        assert_eq!(words[..4], [1, 2, 3, 4]);
        assert_eq!(words[4..8], FACTS.encode());
        assert_eq!(words[8..], [8, 9, 10, 11, 12, 13]);
    }
}
