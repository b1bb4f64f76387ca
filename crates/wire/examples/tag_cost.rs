//! The cost of a record, compared with other ways to protect or check the same bytes:
//! `cargo run --release -p pario-wire --example tag_cost`.
//! The best of several runs, since other programs may be running. `docs/PROTOCOL.md` has the figures.

use std::hint::black_box;
use std::time::Instant;

use pario_types::{ClientId, PartitionId, ServerId};
use pario_wire::greeting::{Hello, Role};
use pario_wire::{Nonce, Protection, RECORD_HEAD, Secret, Side, TAG, Transcript};

const TURNS: usize = 15;
const BYTES: usize = 64 << 20;

fn main() {
    println!("{:>24} {:>9} {:>8} {:>9}", "", "bytes", "GB/s", "ns");
    for len in [96, 4096, 65536, 131_072] {
        let mut to = vec![0; len];
        measure("memcpy", len, |from| black_box(&mut to).copy_from_slice(from));
        measure("CRC-32C", len, |bytes| {
            black_box(crc32c::crc32c(bytes));
        });
        measure("keyed BLAKE3", len, |bytes| {
            black_box(blake3::keyed_hash(&[1; 32], bytes));
        });
        for protection in [Protection::Authenticated, Protection::Encrypted] {
            records(protection, len);
        }
    }
}

/// Sealing, and opening what was sealed.
fn records(protection: Protection, len: usize) {
    let hello = Hello {
        partition: PartitionId(1),
        server: ServerId(0),
        servers: 1,
        epoch: pario_types::Epoch(0),
        client: ClientId(1),
        program: 1,
        role: Role::Client,
        resume_ledger: None,
    };
    let (client, server) = (Nonce([1; 32]), Nonce([2; 32]));
    let keys = (Transcript { hello, client, server, protection }).session_keys(&Secret::new([3; 32]));
    let (mut sealer, _) = keys.ends(Side::Client);
    let mut record = vec![0; RECORD_HEAD + len + TAG];
    measure(&format!("{protection:?}, seal"), len, |_| sealer.seal(&mut record));
    // A record is valid at one place, so each run uses records that were made before.
    let mut best = f64::MAX;
    for _ in 0..TURNS {
        let ((mut sealer, _), (_, mut opener)) = (keys.ends(Side::Client), keys.ends(Side::Server));
        let mut records: Vec<Vec<u8>> = (0..64).map(|_| sealer.records(&vec![0; len])).collect();
        let begun = Instant::now();
        for record in &mut records {
            let (bytes, tag) = record[RECORD_HEAD..].split_last_chunk_mut().expect("so long");
            opener.open(bytes, tag).expect("it was sealed here");
        }
        best = best.min(begun.elapsed().as_secs_f64() / records.len() as f64);
    }
    show(&format!("{protection:?}, open"), len, best);
}

fn measure(name: &str, len: usize, mut act: impl FnMut(&[u8])) {
    let bytes = vec![7; len];
    let times = (BYTES / len).min(200_000);
    let mut best = f64::MAX;
    for _ in 0..TURNS {
        let begun = Instant::now();
        (0..times).for_each(|_| act(black_box(&bytes)));
        best = best.min(begun.elapsed().as_secs_f64() / times as f64);
    }
    show(name, len, best);
}

fn show(name: &str, len: usize, seconds: f64) {
    println!("{name:>24} {len:>9} {:>8.1} {:>9.0}", len as f64 / seconds / 1e9, seconds * 1e9);
}
