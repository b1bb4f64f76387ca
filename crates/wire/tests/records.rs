//! A receiver gets exactly the bytes that the other side sealed, in their order.

use pario_types::{ClientId, PartitionId, ServerId};
use pario_wire::greeting::{Hello, Role};
use pario_wire::{
    Error, MAX_RECORD, Nonce, Protection, RECORD_HEAD, RecordOpener, RecordSealer, Secret, Side, TAG,
    Transcript,
};
use proptest::prelude::*;

/// The sealers and openers of both directions of a connection with this nonce.
fn connection(nonce: u8, protection: Protection) -> [(RecordSealer, RecordOpener); 2] {
    let hello = Hello {
        partition: PartitionId(1),
        server: ServerId(2),
        servers: 3,
        epoch: pario_types::Epoch(0),
        client: ClientId(4),
        program: 5,
        role: Role::Client,
        resume_ledger: None,
    };
    let (client, server) = (Nonce([nonce; 32]), Nonce([8; 32]));
    let keys = (Transcript { hello, client, server, protection }).session_keys(&Secret::new([9; 32]));
    let (client, server) = (keys.ends(Side::Client), keys.ends(Side::Server));
    [(client.0, server.1), (server.0, client.1)]
}

/// The contents of these records, up to the first that is invalid or incomplete.
fn received(mut opener: RecordOpener, bytes: &[u8]) -> (Vec<u8>, Option<Error>) {
    let (mut bytes, mut out) = (bytes.to_vec(), Vec::new());
    let mut rest = &mut bytes[..];
    while let Some(head) = rest.first_chunk::<RECORD_HEAD>() {
        let length = match RecordOpener::length(*head) {
            Ok(length) => length,
            Err(error) => return (out, Some(error)),
        };
        if rest.len() < RECORD_HEAD + length + TAG {
            break;
        }
        let (record, after) = rest.split_at_mut(RECORD_HEAD + length + TAG);
        let (bytes, tag) = record[RECORD_HEAD..].split_last_chunk_mut().expect("so long");
        match opener.open(bytes, tag) {
            Ok(()) => out.extend_from_slice(bytes),
            Err(error) => return (out, Some(error)),
        }
        rest = after;
    }
    (out, None)
}

const BOTH: [Protection; 2] = [Protection::Authenticated, Protection::Encrypted];

#[test]
fn sealed_bytes_are_opened_and_only_encryption_hides_them() {
    for protection in BOTH {
        for len in [1, 2, 31, 32, 33, 4096, MAX_RECORD - 1, MAX_RECORD, MAX_RECORD + 1, 3 * MAX_RECORD + 7] {
            let [(mut sealer, opener), _] = connection(1, protection);
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
            let records = sealer.records(&bytes);
            assert_eq!(records.len(), len + len.div_ceil(MAX_RECORD) * (RECORD_HEAD + TAG));
            let shown = records[RECORD_HEAD..].starts_with(&bytes[..len.min(64)]);
            assert!(len < 8 || shown == (protection == Protection::Authenticated));
            assert!(received(opener, &records) == (bytes, None), "{len}");
        }
    }
}

#[test]
fn records_without_protection_have_the_same_form_and_a_tag_of_zeros() {
    for len in [1, 4096, MAX_RECORD, MAX_RECORD + 1] {
        let [(mut sealer, opener), _] = connection(1, Protection::None);
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let mut records = sealer.records(&bytes);
        assert_eq!(records.len(), len + len.div_ceil(MAX_RECORD) * (RECORD_HEAD + TAG));
        assert!(records.ends_with(&[0; TAG]));
        assert!(received(opener, &records) == (bytes.clone(), None), "{len}");
        // A record of a protected connection is invalid here, and a record from here is invalid there.
        for protection in BOTH {
            let [(_, opener), _] = connection(1, protection);
            assert_eq!(received(opener, &records), (Vec::new(), Some(Error::Tampered)));
        }
        *records.last_mut().expect("a tag") = 1;
        let [(_, opener), _] = connection(1, Protection::None);
        assert_eq!(received(opener, &records).1, Some(Error::Tampered));
    }
}

#[test]
fn bytes_sealed_in_place_make_the_same_record() {
    for protection in [Protection::Authenticated, Protection::None] {
        let [(mut sealer, _), _] = connection(1, protection);
        let [(mut other, _), _] = connection(1, protection);
        for len in [1, 33, 4096, MAX_RECORD] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 3) as u8).collect();
            assert!(sealer.seals_in_place());
            let (head, tag) = sealer.seal_in_place(&bytes);
            assert!([&head[..], &bytes, &tag].concat() == other.records(&bytes), "{protection:?} {len}");
        }
    }
    assert!(!connection(1, Protection::Encrypted)[0].0.seals_in_place());
}

#[test]
fn a_changed_bit_is_detected_before_a_byte_is_used() {
    for protection in BOTH {
        let [(mut sealer, _), _] = connection(1, protection);
        let records = sealer.records(b"a small request");
        for bit in 0..records.len() * 8 {
            let mut records = records.clone();
            records[bit / 8] ^= 1 << (bit % 8);
            let [(_, opener), _] = connection(1, protection);
            let (out, error) = received(opener, &records);
            // With a larger length the receiver waits for bytes that never arrive.
            assert!(out.is_empty() && (error == Some(Error::Tampered) || bit < 32), "bit {bit}: {out:?}");
        }
    }
}

/// What an attacker on the path does to the records of a connection.
#[derive(Clone, Debug)]
enum Act {
    Flip {
        bit: usize,
    },
    Drop {
        record: usize,
    },
    Repeat {
        record: usize,
    },
    Swap {
        record: usize,
    },
    Cut {
        at: usize,
    },
    /// Inserts a record of the other direction, of an earlier connection, or of one with another protection.
    Splice {
        record: usize,
        from: usize,
    },
    Insert {
        record: usize,
        bytes: Vec<u8>,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        any::<u16>().prop_map(|bit| Act::Flip { bit: bit.into() }),
        index().prop_map(|i| Act::Drop { record: i.index(1000) }),
        index().prop_map(|i| Act::Repeat { record: i.index(1000) }),
        index().prop_map(|i| Act::Swap { record: i.index(1000) }),
        any::<u16>().prop_map(|at| Act::Cut { at: at.into() }),
        (index(), 0..3usize).prop_map(|(i, from)| Act::Splice { record: i.index(1000), from }),
        (index(), prop::collection::vec(any::<u8>(), 1..60))
            .prop_map(|(i, bytes)| Act::Insert { record: i.index(1000), bytes }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_byte_of_a_tampered_record_is_accepted(
        sizes in prop::collection::vec(1usize..80, 2..8),
        acts in prop::collection::vec(act(), 1..4),
        encrypted: bool,
    ) {
        let protection = BOTH[usize::from(encrypted)];
        let [(mut sealer, opener), (mut back, _)] = connection(1, protection);
        let [(mut earlier, _), _] = connection(2, protection);
        let [(mut other, _), _] = connection(1, BOTH[usize::from(!encrypted)]);
        let mut sent = Vec::new();
        let (mut records, mut foreign) = (Vec::new(), Vec::new());
        for (i, size) in sizes.iter().enumerate() {
            let bytes: Vec<u8> = (0..*size).map(|at| (i * 100 + at) as u8).collect();
            records.push(sealer.records(&bytes));
            foreign.push([back.records(&bytes), earlier.records(&bytes), other.records(&bytes)]);
            sent.extend(bytes);
        }
        let untouched = records.concat();
        for act in acts {
            records.retain(|record| !record.is_empty());
            let count = records.len();
            if records.iter().all(Vec::is_empty) {
                break;
            }
            match act {
                Act::Flip { bit } => {
                    let mut all = records.concat();
                    let bit = bit % (all.len() * 8);
                    all[bit / 8] ^= 1 << (bit % 8);
                    records = vec![all];
                }
                Act::Drop { record } => drop(records.remove(record % count)),
                Act::Repeat { record } => records.insert(record % count, records[record % count].clone()),
                Act::Swap { record } => records.swap(record % count, (record + 1) % count),
                Act::Cut { at } => {
                    let mut all = records.concat();
                    all.truncate(at % all.len());
                    records = vec![all];
                }
                Act::Splice { record, from } => {
                    records[record % count] = foreign[record % foreign.len()][from].clone();
                }
                Act::Insert { record, bytes } => records.insert(record % count, bytes),
            }
        }
        let got = records.concat();
        let (out, error) = received(opener, &got);
        // Only the records before the first difference may be accepted.
        prop_assert!(sent.starts_with(&out));
        let same = got.iter().zip(&untouched).take_while(|(a, b)| a == b).count();
        prop_assert!(out.len() <= same);
        prop_assert!(error.is_none() || error == Some(Error::Tampered));
    }

    #[test]
    fn random_bytes_are_never_accepted_as_a_record(bytes in prop::collection::vec(any::<u8>(), 0..300), short: bool) {
        let [(_, opener), _] = connection(1, BOTH[bytes.len() % 2]);
        let mut bytes = bytes;
        if short && bytes.len() > RECORD_HEAD + TAG {
            let len = (bytes.len() - RECORD_HEAD - TAG) as u32;
            bytes[..RECORD_HEAD].copy_from_slice(&len.to_le_bytes());
        }
        prop_assert_eq!(received(opener, &bytes).0, Vec::<u8>::new());
    }
}
