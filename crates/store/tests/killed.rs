//! A real writer that is killed, again and again, in the middle of its work.
//!
//! The test starts itself as the writer, waits until it has worked for a while, and kills it. Afterwards no block may be
//! reported as damaged, and the bytes that the writer had reported as written have to be there.

mod scratch;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use pario_store::{FileStore, Store, StoreIdentity};
use pario_types::{FileId, PartitionId, ServerId};
use scratch::Scratch;

const SIZE: usize = 65536;
const BLOCKS: u64 = 12;
const WHO: StoreIdentity = StoreIdentity { partition: PartitionId(1), server: ServerId(0) };
const WHERE: &str = "PARIO_STORE_TEST_DIRECTORY";

/// The byte of every block of file 1 after so many rounds.
fn byte(round: u64) -> u8 {
    1 + (round % 250) as u8
}

/// Some blocks in an order of their own.
const ORDER: [std::ops::Range<u64>; 3] = [7..10, 1..3, 4..7];

/// Writes all of files 1 and 3 with each round's byte, and cuts and extends file 2; prints each round when it is done. All
/// but file 1 have orders of their own.
fn work(directory: &Path, from: u64) {
    let store = FileStore::open(directory, SIZE, WHO).unwrap();
    for round in from.. {
        let block = vec![byte(round); SIZE];
        store.write(FileId(1), 0, &vec![&block[..]; BLOCKS as usize], u64::MAX).unwrap();
        store.arrange(FileId(3), &ORDER).unwrap();
        store.write(FileId(3), 0, &vec![&block[..]; BLOCKS as usize], u64::MAX).unwrap();
        store.arrange(FileId(2), &[2..4, 0..1]).unwrap();
        store.set_end(FileId(2), 1000 + round % 7 * 30_000, 0).unwrap();
        store.write(FileId(2), round % 3, &[&block], u64::MAX).unwrap();
        store.remove(FileId(100 + round)).unwrap();
        store.arrange(FileId(101 + round), &ORDER).unwrap();
        store.write(FileId(101 + round), 0, &[&block], 10).unwrap();
        println!("\nround {round}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_killed_writer_leaves_no_damage() {
    if let Some(directory) = std::env::var_os(WHERE) {
        let from = std::env::var("PARIO_STORE_TEST_FROM").unwrap().parse().unwrap();
        return work(Path::new(&directory), from);
    }
    let scratch = Scratch::new();
    let mut round = 0;
    for kill in 0..12 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_writer_leaves_no_damage", "--nocapture"])
            .env(WHERE, scratch.path())
            .env("PARIO_STORE_TEST_FROM", round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
        let wanted = round + 3 + kill;
        let mut rounds = lines.by_ref().filter_map(|line| line.strip_prefix("round ")?.parse::<u64>().ok());
        round = rounds.find(|done| *done >= wanted).expect("the writer works");
        writer.kill().unwrap();
        round = rounds.last().unwrap_or(round);
        writer.wait().unwrap();

        let store = FileStore::open(scratch.path(), SIZE, WHO).unwrap();
        let mut block = vec![0; SIZE];
        for (file, number) in (0..BLOCKS).flat_map(|number| [(1, number), (3, number)]) {
            store.read(FileId(file), number, &mut [&mut block]).expect("no damage");
            // The round that was reported, or the one that was under way.
            assert!(block.iter().all(|found| *found == byte(round) || *found == byte(round + 1)));
        }
        for part in store.list(FileId(0), 100).unwrap() {
            let verified = store.verify(part.file, 0, u64::MAX).unwrap();
            assert!(verified.damaged.is_empty(), "file {}: {verified:?}", part.file);
        }
        assert!(store.room().unwrap().parts <= 5 + kill);
        round += 1;
    }
}
