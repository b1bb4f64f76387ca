//! Files whose blocks are stored in the order of their first use: all clients read the same bytes, and an access in that
//! order reads the storage of each server sequentially.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::Range;

use pario::{FileId, OpenOptions, Partition, PlacementMap, ServerId};

use super::dice::Dice;
use super::site::{Shape, Site};
use super::try_seeds;

const BLOCK: u64 = 4096;

/// A mark in every word of a file besides its number, so that no word looks like one that was never written.
const MARK: u64 = 0x5afe << 48;

/// Bytes of which every word tells where in the file it belongs.
fn telling(len: u64) -> Vec<u8> {
    (0..len / 8).flat_map(|word| (MARK | word).to_le_bytes()).collect()
}

/// Some bytes of a file, and the servers of their replicas.
struct Chunk {
    range: Range<u64>,
    holders: Vec<u16>,
}

/// Where in a server's storage, among the blocks that are in order, each word of a file lies; `None` if it keeps none so.
fn in_order(site: &Site, server: u16, file: FileId) -> Option<HashMap<u64, u64>> {
    let name = file.to_string();
    let path = site.data(server).join("parts").join(&name[14..]).join(format!("{name}.ordered"));
    let bytes = fs::read(path).ok()?;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let start = (32 + 16 * word(16)).next_multiple_of(BLOCK) as usize;
    let words = (start..bytes.len()).step_by(8).map(|at| (word(at), (at - start) as u64));
    Some(words.filter(|(word, _)| word & MARK == MARK).map(|(word, at)| (word & !MARK, at)).collect())
}

/// An access to chunks one after the other needs, on each server, one block of its storage after the other.
#[track_caller]
fn expect_order(site: &Site, client: &Partition, path: &str, by_use: &[&Chunk]) {
    let file = client.metadata(path).expect("it is there").id();
    let mut central = 0;
    for server in site.servers() {
        let Some(stored) = in_order(site, server.0, file) else {
            let kept = by_use.iter().any(|chunk| chunk.holders.contains(&server.0));
            assert!(!kept, "server {server} keeps nothing in order");
            continue;
        };
        let mut touched = HashSet::new();
        for chunk in by_use {
            let is_kept = chunk.holders.contains(&server.0);
            for word in chunk.range.clone().step_by(8).map(|at| at / 8) {
                let Some(at) = stored.get(&word) else {
                    assert!(!is_kept, "server {server} has no word {word}");
                    continue;
                };
                central += u64::from(chunk.holders.is_empty());
                if touched.insert(at / BLOCK) {
                    assert_eq!(at / BLOCK, touched.len() as u64 - 1, "server {server}, word {word}");
                }
            }
        }
    }
    let expected: u64 = by_use
        .iter()
        .filter(|chunk| chunk.holders.is_empty())
        .map(|chunk| (chunk.range.end - chunk.range.start) / 8)
        .sum();
    assert_eq!(central, expected, "words that are central, each on one server");
}

/// Everybody reads the same.
#[track_caller]
fn expect_bytes(site: &Site, path: &str, bytes: &[u8]) {
    for client in [site.client(), site.far_client()] {
        for home in site.servers() {
            let file = client.open(path, OpenOptions::new().read(true)).expect("it is there");
            file.set_home(home);
            let mut found = vec![0xa5; bytes.len() + 100];
            let read = file.read_at(&mut found, 0).expect("it can be read");
            assert!(found[..read] == *bytes, "{path} differs, read at home with server {home}");
        }
    }
    let copy = site.path("copy");
    site.succeed(&["cp", &format!("trial:{path}"), &copy.to_string_lossy()]);
    assert!(fs::read(&copy).expect("a copy") == bytes, "{path} differs where it was copied to");
    fs::remove_file(copy).expect("it is ours");
}

/// Chunks of all lengths with and without gaps, with one replica, several or none.
fn any_chunks(dice: &mut Dice, servers: u16) -> Vec<Chunk> {
    let mut at = 0;
    let chunk = |_| {
        let start = at + dice.pick(&[0, 0, 8, 5000]);
        at = start + 8 * (1 + dice.below(4000));
        let count = dice.pick(&[0, 1, 1, 1, 2]);
        let holders = (0..count).map(|_| dice.below(u64::from(servers)) as u16).collect();
        Chunk { range: start..at, holders }
    };
    (0..60).map(chunk).collect()
}

fn shuffled<'a>(dice: &mut Dice, chunks: &'a [Chunk]) -> Vec<&'a Chunk> {
    let mut by_use: Vec<&Chunk> = chunks.iter().collect();
    for last in (1..by_use.len()).rev() {
        by_use.swap(last, dice.index(last + 1));
    }
    by_use
}

#[test]
fn blocks_are_stored_in_the_order_of_first_use() {
    try_seeds(&[1, 2], |dice| {
        let site = Site::up(Shape { block: BLOCK, stripe: 8192, cache: 1 << 20, ..Shape::new(3) });
        let client = site.client();
        let chunks = any_chunks(dice, 3);
        let by_use = shuffled(dice, &chunks);
        let kept = chunks.iter().map(|chunk| {
            (chunk.range.clone(), chunk.holders.iter().copied().map(ServerId).collect::<Vec<_>>())
        });
        let order: Vec<Range<u64>> = by_use.iter().map(|chunk| chunk.range.clone()).collect();
        let table = PlacementMap::new(kept).expect("in order").in_order(&order).expect("apart");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).table(table);
        let file = client.open("/file", &options).expect("a new file");
        let mut bytes = telling(chunks[chunks.len() - 1].range.end);
        // As a program that fills them for the first time, and what lies between afterwards.
        for Chunk { range, .. } in &by_use {
            file.write_at(&bytes[range.start as usize..range.end as usize], range.start).expect("it is up");
        }
        file.write_at(&bytes, 0).expect("it is up");
        file.sync().expect("it can be stored");
        expect_order(&site, &client, "/file", &by_use);
        expect_bytes(&site, "/file", &bytes);

        // Killed and come back, and cold: nothing is in a cache.
        site.servers().for_each(|server| assert!(site.kill(server)));
        expect_bytes(&site, "/file", &bytes);
        file.close().expect("all is stored");
        drop(client);
        site.stop();
        site.start();
        expect_bytes(&site, "/file", &bytes);

        // Cut, written over and extended, with servers that are killed meanwhile.
        let client = site.client();
        let file = client.open("/file", OpenOptions::new().read(true).write(true)).expect("it is there");
        for round in 0..4 {
            let len = dice.below(bytes.len() as u64 + 10_000);
            file.set_len(len).expect("it is up");
            bytes.resize(len as usize, 0);
            site.kill(ServerId(round % 3));
            let at = dice.index(bytes.len());
            let piece = dice.bytes(dice.clone().index(50_000));
            bytes.resize(bytes.len().max(at + piece.len()), 0);
            bytes[at..at + piece.len()].copy_from_slice(&piece);
            file.write_at(&piece, at as u64).expect("it is up");
            expect_bytes(&site, "/file", &bytes);
        }
        file.close().expect("all is stored");
        drop(client);
        site.stop();
        site.start();
        expect_bytes(&site, "/file", &bytes);
        site.succeed(&["check", "trial"]);
        site.succeed(&["rm", "trial:/file"]);
        site.succeed(&["check", "trial"]);
    });
}

/// A server that has lost its part of a file gets its copies back, and in their order.
#[test]
fn restored_replicas_are_stored_in_order() {
    let site = Site::up(Shape { block: BLOCK, stripe: 8192, ..Shape::new(3) });
    let chunk = |number: u64| Chunk { range: number * 9000..(number + 1) * 9000, holders: vec![1, 2] };
    let chunks: Vec<Chunk> = (0..50).map(chunk).collect();
    let by_use = shuffled(&mut Dice::new(3), &chunks);
    let table = PlacementMap::new([(0..450_000, vec![ServerId(1), ServerId(2)])]).expect("in order");
    let order: Vec<Range<u64>> = by_use.iter().map(|chunk| chunk.range.clone()).collect();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).table(table.in_order(&order).expect("apart"));
    let (client, bytes) = (site.client(), telling(450_000));
    let file = client.open("/file", &options).expect("a new file");
    file.write_at(&bytes, 0).expect("it is up");
    file.close().expect("it can be stored");
    expect_order(&site, &client, "/file", &by_use);
    let name = client.metadata("/file").expect("it is there").id().to_string();
    drop(client);
    site.stop();
    let directory = site.data(1).join("parts").join(&name[14..]);
    for entry in fs::read_dir(directory).expect("it is there") {
        fs::remove_file(entry.expect("a name").path()).expect("it is ours");
    }
    site.start();
    site.try_pario(&["check", "--repair", "trial"]);
    site.succeed(&["check", "trial"]);
    expect_order(&site, &site.client(), "/file", &by_use);
    expect_bytes(&site, "/file", &bytes);
}

/// A plan of two processes that go through a file backwards, each through its own chunks.
#[test]
fn blocks_are_stored_in_the_order_of_the_plan() {
    let site = Site::up(Shape { block: BLOCK, ..Shape::new(3) });
    let chunk = |number: u64| {
        let holders = vec![1 + (number % 2) as u16];
        Chunk { range: number * 10_000..(number + 1) * 10_000, holders }
    };
    let chunks: Vec<Chunk> = (0..40).map(chunk).collect();
    let mut plan = String::from(
        "version = 1\nfrom = \"a test\"\nprocesses = [{ label = \"0\" }, { label = \"1\" }]\n\
         groups = [{ users = [0], writers = [0] }, { users = [1], writers = [1] }]\n\
         [[file]]\nname = \"source\"\nchunks = [\n",
    );
    for (number, Chunk { range, .. }) in chunks.iter().enumerate() {
        plan += &format!(
            "  {{ offset = {}, length = 10000, placement = \"local\", home = {home}, group = {home}, \
             order = {}, read = 0, written = 10000, moved = 0 }},\n",
            range.start,
            39 - number,
            home = number % 2,
        );
    }
    fs::write(site.path("plan"), plan + "]\n").expect("a scratch directory takes new files");
    let bytes = telling(400_000);
    fs::write(site.path("source"), &bytes).expect("a scratch directory takes new files");
    site.succeed(&["cp", "--plan", "plan", "--place", "0=1,1=2", "source", "trial:/"]);
    let by_use: Vec<&Chunk> = chunks.iter().rev().collect();
    expect_order(&site, &site.client(), "/source", &by_use);
    expect_bytes(&site, "/source", &bytes);
    let told: serde_json::Value =
        serde_json::from_str(&site.succeed(&["stat", "--json", "trial:/source"])).expect("JSON");
    assert_eq!(told[0]["layout"]["placed"]["by_first_use"], true, "{told}");
    site.succeed(&["check", "trial"]);
}
