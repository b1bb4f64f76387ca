//! Records, large and small, received in any pieces, to any destination.

use std::io::ErrorKind::WouldBlock;

use pario_transport::{RecordReadError, RecordReader, Stream};
use pario_wire::{
    MAX_RECORD, Nonce, Protection, RECORD_HEAD, RecordOpener, RecordSealer, Side, TAG, Transcript,
};
use proptest::prelude::*;

use crate::support::{hello, secret};

fn ends(protection: Protection) -> (RecordSealer, RecordOpener) {
    let (client, server) = (Nonce([1; 32]), Nonce([2; 32]));
    let keys = (Transcript { hello: hello(), client, server, protection }).session_keys(&secret());
    (keys.ends(Side::Client).0, keys.ends(Side::Server).1)
}

/// Bytes in records of these sizes.
fn sealed(sealer: &mut RecordSealer, bytes: &[u8], sizes: &[usize]) -> Vec<u8> {
    let (mut rest, mut sizes, mut records) = (bytes, sizes.iter().cycle(), Vec::new());
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(*sizes.next().expect("endless")));
        records.extend(sealer.records(now));
        rest = later;
    }
    records
}

/// Returns the output of a reader for bytes that arrive in such pieces, if it requests so many bytes at a time.
fn received(opener: RecordOpener, raw: &[u8], cuts: &[usize], wants: &[usize]) -> (Vec<u8>, bool) {
    let (near, far) = Stream::pair().expect("a pair");
    far.set_nonblocking(true).expect("a socket");
    let mut reader = RecordReader::new(opener);
    let (mut rest, mut cuts, mut wants) = (raw, cuts.iter().cycle(), wants.iter().cycle());
    let mut got = Vec::new();
    let mut room = vec![0; *wants.next().expect("endless")];
    loop {
        match reader.read(&far, &mut room) {
            Ok(0) => return (got, false),
            Ok(count) => {
                got.extend_from_slice(&room[..count]);
                room = vec![0; *wants.next().expect("endless")];
            }
            Err(RecordReadError::Tampered) => return (got, true),
            Err(RecordReadError::Stream(error)) => {
                assert_eq!(error.kind(), WouldBlock);
                assert!(!reader.has_more());
                if rest.is_empty() {
                    near.shutdown().expect("a socket");
                    continue;
                }
                let count =
                    near.write(&rest[..rest.len().min(*cuts.next().expect("endless"))]).expect("room");
                rest = &rest[count..];
            }
        }
    }
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![1usize..2000, 10_000..40_000usize, Just(MAX_RECORD), 1..=MAX_RECORD]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn sealed_records_are_read_and_changed_ones_are_refused(
        len in 1usize..500_000,
        sizes in prop::collection::vec(size(), 1..6),
        cuts in prop::collection::vec(prop_oneof![1usize..3000, 20_000..200_000usize], 1..6),
        wants in prop::collection::vec(size(), 1..6),
        encrypted: bool,
        bit: prop::sample::Index,
    ) {
        // Otherwise a few bytes at a time take too long.
        let cuts: Vec<usize> = cuts.iter().map(|cut| (*cut).max(len / 200)).collect();
        let protection = if encrypted { Protection::Encrypted } else { Protection::Authenticated };
        let bytes: Vec<u8> = (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
        let (mut sealer, opener) = ends(protection);
        let mut raw = sealed(&mut sealer, &bytes, &sizes);
        prop_assert!(received(opener, &raw, &cuts, &wants) == (bytes.clone(), false));

        let bit = bit.index(raw.len() * 8);
        raw[bit / 8] ^= 1 << (bit % 8);
        let (got, tampered) = received(ends(protection).1, &raw, &cuts, &wants);
        prop_assert!(bytes.starts_with(&got) && got.len() < bytes.len());
        // A larger length makes it wait for more than there is.
        prop_assert!(tampered || bytes.len() - got.len() < MAX_RECORD + RECORD_HEAD + TAG);
    }
}
