//! Storage that is full: what was accepted can be stored, and everything else goes on.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pario::{ErrorKind, File, OpenOptions, Partition};
use pario_types::ServerId;

use super::dice::Dice;
use super::site::{Shape, Site};
use super::{soon, try_seeds, within};

const BLOCK: usize = 64 << 10;

fn open(client: &Partition, path: &str) -> File {
    let mut options = OpenOptions::new();
    client.open(path, options.read(true).write(true).create(true)).expect("names have room of their own")
}

/// The expected bytes of a file, as far as they are known: after a failed write they are not.
struct Known {
    bytes: Vec<u8>,
    known: Vec<bool>,
}

impl Known {
    fn new(len: usize) -> Known {
        Known { bytes: vec![0; len], known: vec![true; len] }
    }

    fn written(&mut self, at: usize, bytes: &[u8], worked: bool) {
        self.known[at..at + bytes.len()].fill(worked);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[track_caller]
    fn check(&self, file: &File, what: &str) {
        let mut found = vec![0; self.bytes.len()];
        let len = file.read_at(&mut found, 0).expect("what is there can be read");
        let last = (0..self.bytes.len()).rev().find(|&at| self.known[at] && self.bytes[at] != 0);
        assert!(len > last.unwrap_or(0) || last.is_none(), "{what}: the file ends at {len}");
        let wrong = (0..len).find(|&at| self.known[at] && found[at] != self.bytes[at]);
        assert_eq!(wrong, None, "{what}: a byte that was acknowledged is not there");
    }
}

/// Writes at random until there is no room, and goes on for a while; everything that was acknowledged is there, and every
/// sync and the close succeed.
fn scribble(client: &Partition, path: &str, seed: u64, is_killed: &AtomicBool) -> Known {
    let mut dice = Dice::new(seed);
    let mut known = Known::new(96 * BLOCK);
    let file = open(client, path);
    let mut refused = 0;
    for _ in 0..400 {
        let len = if dice.below(2) == 0 { BLOCK } else { dice.below(3 * BLOCK as u64) as usize + 1 };
        let at = dice.below((known.bytes.len() - len) as u64) as usize;
        let at = if dice.below(2) == 0 { at / BLOCK * BLOCK } else { at };
        let bytes = dice.bytes(len);
        let written = file.write_at(&bytes, at as u64);
        known.written(at, &bytes, written.is_ok());
        if let Err(error) = &written {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            refused += 1;
        }
        if dice.below(20) == 0 {
            file.sync().expect("what was accepted can be stored");
        }
        if refused > 40 {
            break;
        }
    }
    assert!(refused > 0, "there was room for everything");
    is_killed.store(true, Ordering::Relaxed);
    known.check(&file, "while it is open");
    file.close().expect("what was accepted can be stored");
    known
}

/// Programs of this host and of another, on storage that has room for a part of what they write; a server is killed in
/// the middle.
#[test]
fn accepted_writes_can_be_stored_on_a_full_disk() {
    try_seeds(&[1, 2], |dice| {
        let cache = [1 << 20, 4 << 20, 32 << 20][dice.below(3) as usize];
        let mut site = Site::new(Shape { cache, ..Shape::new(2) });
        if !site.mount(0, "8m") || !site.mount(1, "6m") {
            return;
        }
        site.start();
        let is_full = AtomicBool::new(false);
        let seeds: Vec<u64> = (0..3).map(|_| dice.below(1 << 30)).collect();
        let known: Vec<Known> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..)
                .zip(&seeds)
                .map(|(i, seed)| {
                    let client = if i % 2 == 0 { site.client() } else { site.far_client() };
                    let is_full = &is_full;
                    scope.spawn(move || scribble(&client, &format!("/file{i}"), *seed, is_full))
                })
                .collect();
            within(Duration::from_secs(120), "storage is full, or all is written", || {
                is_full.load(Ordering::Relaxed) || writers.iter().all(|writer| writer.is_finished())
            });
            site.kill(ServerId(1));
            writers.into_iter().map(|writer| writer.join().expect("a writer")).collect()
        });
        let check = |pass: &str| {
            let client = site.client();
            let files = (0..).zip(&known).skip(1);
            files.for_each(|(i, known)| known.check(&open(&client, &format!("/file{i}")), pass));
        };
        known[0].check(&open(&site.client(), "/file0"), "after the writers");
        check("after the writers");
        // A removal frees room for all writers.
        site.succeed(&["rm", "trial:/file0"]);
        let (client, bytes) = (site.client(), dice.bytes(2 << 20));
        let file = open(&client, "/after");
        soon("there is room again", || file.write_at(&bytes, 0).and_then(|()| file.sync()).is_ok());
        drop((file, client));
        check("after a removal");
        site.stop();
        site.start();
        check("after down and up");
    });
}

/// Takes all room that there is.
fn take_all(path: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(path).expect("there is room");
    for size in [1 << 20, 4096, 1] {
        while file.write(&vec![1; size]).is_ok_and(|written| written == size) {}
    }
}

fn said(log: &Path) -> usize {
    fs::read_to_string(log).unwrap_or_default().lines().filter(|line| line.contains("No space left")).count()
}

/// Another program takes all room after blocks were accepted for which there was enough. They stay in the pool, a sync is an
/// error, the store is not retried too often, `down` reports it, and once there is room everything is stored.
#[test]
fn room_taken_by_others_is_an_error_of_the_sync_until_it_is_free_again() {
    let more = "high_water = 100%\n".into();
    let mut site = Site::new(Shape { cache: 4 << 20, more, ..Shape::new(1) });
    if !site.mount(0, "64m") {
        return;
    }
    site.start();
    let client = site.client();
    let (synced, accepted) = (Dice::new(1).bytes(2 << 20), Dice::new(2).bytes(3 << 20));
    let (early, late) = (open(&client, "/early"), open(&client, "/late"));
    early.write_at(&synced, 0).and_then(|()| early.sync()).expect("there is room");
    late.write_at(&accepted, 0).expect("there is plenty of room");
    let ballast = site.data(0).join("ballast");
    take_all(&ballast);

    // Unless the flusher has been faster than this.
    let outcome = late.sync().map_err(|error| error.kind());
    let is_stored = outcome.is_ok();
    assert!(is_stored || outcome == Err(ErrorKind::NoSpace), "{outcome:?}");
    let (begun, before) =
        (Instant::now(), client.status(ServerId(0)).expect("it answers").storage.flush_errors);
    let other = open(&client, "/other");
    for i in 0..300 {
        let written = other.write_at(&accepted[..BLOCK], i * BLOCK as u64);
        assert_eq!(written.map_err(|error| error.kind()), Err(ErrorKind::NoSpace));
    }
    let status = client.status(ServerId(0)).expect("it answers");
    // The flusher retries at a limited rate, so the limit grows with the time that the loop took.
    let (tries, most) = (status.storage.flush_errors - before, 100.0 + 50.0 * begun.elapsed().as_secs_f64());
    assert!((tries as f64) < most, "the store was tried {tries} times");
    assert!(status.traffic.errors >= 300 && status.last_errors[0].contains("No space left"), "{status:?}");
    let lines = said(&site.home().join("logs/trial.0.log"));
    assert!((1..10).contains(&lines), "{lines} lines in the log");
    let mut back = vec![0; synced.len()];
    early.read_exact_at(&mut back, 0).expect("what is stored can be read");
    assert!(back == synced);
    drop(other);

    if !is_stored {
        let begun = Instant::now();
        let down = site.try_pario(&["down", "trial"]);
        let words = String::from_utf8_lossy(&down.stderr).into_owned();
        assert!(!down.status.success() && words.contains("cannot be stored"), "{words}");
        // A generous limit: `down` does not wait for room.
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
    fs::remove_file(&ballast).expect("it is ours");
    soon("it can be stored", || late.sync().is_ok());
    drop((early, late, client));
    site.stop();
    site.start();
    let mut back = vec![0; accepted.len()];
    open(&site.client(), "/late").read_exact_at(&mut back, 0).expect("it is there");
    assert!(back == accepted);
}

/// A cut within a block that is synced needs room for its new version. Blocks after it give theirs back for that; where there
/// are none, the truncation fails, and all bytes stay what they were written last.
#[test]
fn a_truncation_on_a_full_disk_frees_room_or_changes_nothing() {
    let more = "high_water = 100%\n".into();
    // There is plenty of room until others take it: nothing is reserved.
    let mut site = Site::new(Shape { cache: 4 << 20, more, ..Shape::new(1) });
    if !site.mount(0, "64m") {
        return;
    }
    site.start();
    let client = site.client();
    let (old, new) = (Dice::new(1).bytes(32 * BLOCK), Dice::new(2).bytes(32 * BLOCK));
    let (large, small) = (open(&client, "/large"), open(&client, "/small"));
    for (file, len) in [(&large, 32 * BLOCK), (&small, 2 * BLOCK)] {
        file.write_at(&old[..len], 0).and_then(|()| file.sync()).expect("there is room");
    }
    // Stored are old bytes; the new ones are in the pool, unless the flusher is faster than this.
    large.write_at(&new[8 * BLOCK..], 8 * BLOCK as u64).expect("there is room");
    let ballast = site.data(0).join("ballast");
    take_all(&ballast);
    let check = |file: &File, wanted: &[u8]| {
        let mut found = vec![0; 40 * BLOCK];
        let len = file.read_at(&mut found, 0).expect("it can be read");
        assert!(found[..len] == *wanted, "{len} bytes, {} wanted", wanted.len());
    };
    let within = BLOCK + 100;
    let failed = small.set_len(within as u64).map_err(|error| error.kind());
    assert_eq!(failed, Err(ErrorKind::NoSpace));
    check(&small, &old[..2 * BLOCK]);
    check(&large, &[&old[..8 * BLOCK], &new[8 * BLOCK..]].concat());
    large.set_len((5 * BLOCK + 100) as u64).expect("the blocks after it give room");
    check(&large, &old[..5 * BLOCK + 100]);
    site.kill(ServerId(0));
    let large = open(&site.client(), "/large");
    check(&large, &old[..5 * BLOCK + 100]);
    check(&open(&site.client(), "/small"), &old[..2 * BLOCK]);
    take_all(&site.data(0).join("more"));
    large.set_len(0).expect("it takes no room");
    check(&large, &[]);
    fs::remove_file(&ballast).expect("it is ours");
    small.set_len(within as u64).expect("there is room again");
    check(&small, &old[..within]);
}

/// Others have taken every byte of the storage that has the names and the data.
#[test]
fn a_disk_without_a_byte_of_room_can_be_stopped_started_read_and_cleared() {
    let mut site = Site::new(Shape::new(1));
    if !site.mount(0, "24m") {
        return;
    }
    site.start();
    let bytes = Dice::new(1).bytes(3 << 20);
    let client = site.client();
    for path in ["/kept", "/removed"] {
        let file = open(&client, path);
        file.write_at(&bytes, 0)
            .and_then(|()| file.sync())
            .and_then(|()| file.close())
            .expect("there is room");
    }
    let ballast = site.data(0).join("ballast");
    take_all(&ballast);
    drop(client);
    site.stop();
    site.start();
    let client = site.client();
    let mut back = vec![0; bytes.len()];
    let kept = client.open("/kept", OpenOptions::new().read(true)).expect("it is there");
    kept.read_exact_at(&mut back, 0).expect("it can be read");
    assert!(back == bytes);
    kept.close().expect("nothing was written");
    client.remove_file("/removed").expect("removing takes no room");
    drop(client);
    site.stop();
    fs::remove_file(&ballast).expect("it is ours");
    site.start();
    let other = open(&site.client(), "/other");
    soon("there is room again", || other.write_at(&bytes, 0).and_then(|()| other.sync()).is_ok());
}
