//! Storage that fails: full, read-only, damaged. The writer gets an error, and what was stored before stays.

use std::fs;
use std::path::{Path, PathBuf};

use pario::{File, OpenOptions, Partition};
use pario_types::{ErrorKind, FileId, ServerId};

use super::dice::Dice;
use super::site::{Shape, Site};
use super::soon;

fn create(client: &Partition, path: &str) -> File {
    let mut options = OpenOptions::new();
    client.open(path, options.read(true).write(true).create(true).stripe(1 << 20)).expect("a new file")
}

#[track_caller]
fn expect_bytes(file: &File, bytes: &[u8]) {
    let mut back = vec![0xa5; bytes.len() + 1];
    assert_eq!(file.read_at(&mut back, 0).expect("it can be read"), bytes.len());
    assert!(back[..bytes.len()] == *bytes, "it is not what was written");
}

/// Writes piece by piece, then syncs: the first error.
fn fill(file: &File, bytes: &[u8]) -> Option<ErrorKind> {
    let pieces = bytes.chunks(100_000).enumerate();
    let written = pieces.map(|(i, piece)| file.write_at(piece, i as u64 * 100_000)).find(Result::is_err);
    let outcome = written.unwrap_or_else(|| file.sync());
    outcome.err().map(|error| error.kind())
}

/// The storage of server 1 holds 12 MiB, which is enough for two versions of what is written over; names are elsewhere.
#[test]
fn a_full_disk_is_an_error_of_the_write_until_there_is_room() {
    let mut site = Site::new(Shape { cache: 1 << 20, ..Shape::new(2) });
    if !site.mount(1, "12m") {
        return;
    }
    // Room that another program takes and frees.
    let ballast = site.data(1).join("ballast");
    fs::write(&ballast, vec![1; 8 << 20]).expect("there is room");
    site.start();
    let client = site.client();
    let (before, other) = (Dice::new(1).bytes(2 << 20), Dice::new(2).bytes(8 << 20));
    let early = create(&client, "/early");
    early.write_at(&before, 0).and_then(|()| early.sync()).expect("there is room");

    // Half of it goes to the full disk, which has room for less.
    let late = create(&client, "/late");
    assert_eq!(fill(&late, &other), Some(ErrorKind::NoSpace));
    late.sync().expect("what was accepted can be stored");
    assert_eq!(fill(&late, &other), Some(ErrorKind::NoSpace), "it is as full as before");
    expect_bytes(&early, &before);
    let status = client.status(ServerId(1)).expect("it answers");
    assert!(status.traffic.errors > 0 && status.last_errors[0].contains("No space left"), "{status:?}");
    assert_eq!(status.storage.flush_errors, 0, "the store is not asked for what it has no room for");
    // Files that lie elsewhere are not concerned.
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).stripe_count(1).first_server(0);
    let elsewhere = client.open("/elsewhere", options).expect("a new file");
    assert_eq!(fill(&elsewhere, &other), None);

    fs::remove_file(&ballast).expect("it is ours");
    late.sync().expect("there is room now");
    assert_eq!(fill(&late, &other), None);
    expect_bytes(&late, &other);
    late.close().expect("everything is stored");

    // Full again, by a file whose removal frees room.
    let unwanted = create(&client, "/unwanted");
    assert_eq!(fill(&unwanted, &Dice::new(3).bytes(24 << 20)), Some(ErrorKind::NoSpace));
    drop(unwanted);
    client.remove_file("/unwanted").expect("removing takes no room");
    let last = create(&client, "/last");
    soon("there is room again", || last.write_at(&before, 0).and_then(|()| last.sync()).is_ok());
    expect_bytes(&last, &before);
    expect_bytes(&early, &before);
    drop((early, elsewhere, last, client));
    site.stop();
    site.start();
    expect_bytes(&open(&site.client(), "/late"), &other);
}

fn open(client: &Partition, path: &str) -> File {
    client.open(path, OpenOptions::new().read(true)).expect("it is there")
}

/// Also if all of it would fit into the cache: nothing is accepted that cannot be stored.
#[test]
fn a_full_disk_is_an_error_of_the_write_and_not_of_the_close() {
    let mut site = Site::new(Shape { cache: 16 << 20, more: "high_water = 100%\n".into(), ..Shape::new(1) });
    if !site.mount(0, "6m") {
        return;
    }
    site.start();
    let client = site.client();
    let file = create(&client, "/file");
    let bytes = Dice::new(1).bytes(10 << 20);
    let error = file.write_at(&bytes, 0).expect_err("there is a cache, but no room");
    assert_eq!((error.kind(), error.errno()), (ErrorKind::NoSpace, 28), "{error}");
    let told = error.to_string();
    assert!(told.contains("server 0") && told.contains(&*site.data(0).to_string_lossy()), "{told}");
    // Accepted bytes are stored.
    let there = file.len().expect("it answers") as usize;
    file.close().expect("what was accepted can be stored");
    client.remove_file("/file").expect("removing takes no room");
    assert!(there < bytes.len());
    soon("there is room again", || {
        let file = create(&client, "/small");
        file.write_at(&[7; 1000], 0).is_ok() && file.close().is_ok()
    });
    drop(client);
}

/// Directories with long names that certainly do not fit into what a journal has set aside.
const MOST_NAMES: u32 = 20_000;

/// Names are where the storage is full: nothing new can be named, and nothing of what is named is lost.
#[test]
fn names_survive_a_full_disk() {
    let mut site = Site::new(Shape::new(1));
    if !site.mount(0, "4m") {
        return;
    }
    site.start();
    let client = site.client();
    client.create_dir("/before").expect("there is room");
    let ballast = site.data(0).join("ballast");
    fill_up(&ballast);
    let name = |i: u32| format!("{i:0>240}");
    let made = |i: u32| client.create_dir(&format!("/{}", name(i))).map_err(|error| error.kind());
    let mut there: Vec<String> = vec!["before".into()];
    // Changes that fit into the room of the journal may succeed.
    let refused = (0..MOST_NAMES).find(|&i| {
        let outcome = made(i);
        match outcome {
            Ok(()) => there.push(name(i)),
            Err(kind) => assert_eq!(kind, ErrorKind::NoSpace),
        }
        outcome.is_err()
    });
    assert!(refused.is_some(), "{MOST_NAMES} directories take some room");
    there.sort();
    let names = |client: &Partition| -> Vec<String> {
        client.read_dir("/").map(|entry| entry.expect("it can be read").name().to_owned()).collect()
    };
    assert_eq!(names(&client), there);
    // Killed while it is full.
    site.kill(ServerId(0));
    assert_eq!(names(&client), there);
    fs::remove_file(&ballast).expect("it is ours");
    client.create_dir("/zzz").expect("there is room now");
    there.push("zzz".into());
    site.kill(ServerId(0));
    assert_eq!(names(&client), there);
    drop(client);
}

/// Writes until there is no byte of room.
fn fill_up(path: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(path).expect("there is room");
    for size in [1 << 16, 4096, 512, 1] {
        while file.write(&vec![1; size]).is_ok_and(|written| written == size) {}
    }
}

#[test]
fn a_read_only_disk_can_be_read_and_is_an_error_of_the_write() {
    let mut site = Site::new(Shape { cache: 1 << 20, ..Shape::new(2) });
    if !site.mount(1, "16m") {
        return;
    }
    site.start();
    let (bytes, other) = (Dice::new(1).bytes(4 << 20), Dice::new(2).bytes(4 << 20));
    create(&site.client(), "/file").write_at(&bytes, 0).expect("there is room");
    site.stop();
    site.remount("ro");
    site.start();
    let clients = [site.client(), site.far_client()];
    clients.iter().for_each(|client| expect_bytes(&open(client, "/file"), &bytes));
    for client in &clients {
        let file = create(client, "/other");
        assert_eq!(fill(&file, &other), Some(ErrorKind::ReadOnly));
        assert_eq!(file.close().map_err(|error| error.kind()), Err(ErrorKind::ReadOnly));
    }
    // Bytes that cannot be stored are not discarded either.
    let down = site.try_pario(&["down", "trial"]);
    let said = String::from_utf8_lossy(&down.stderr).into_owned();
    assert!(
        !down.status.success() && said.contains("Read-only") && said.trim().lines().count() == 2,
        "{said}"
    );
    site.remount("rw");
    site.start();
    let client = site.client();
    let file = client.open("/other", OpenOptions::new().read(true).write(true)).expect("it is there");
    // A server asks a medium that refused everything only twenty times a second.
    soon("it can be written", || fill(&file, &other).is_none());
    expect_bytes(&file, &other);
    expect_bytes(&open(&client, "/file"), &bytes);
}

/// Dirty blocks that cannot be stored leave slots of the cache for reads.
#[test]
fn dirty_blocks_that_cannot_be_stored_leave_room_for_readers() {
    let mut site = Site::new(Shape { cache: 1 << 20, ..Shape::new(1) });
    if !site.mount(0, "16m") {
        return;
    }
    site.start();
    let bytes = Dice::new(1).bytes(3 << 20);
    let client = site.client();
    let file = create(&client, "/file");
    file.write_at(&bytes, 0).and_then(|()| file.sync()).expect("there is room");
    fill_up(&site.data(0).join("ballast"));
    let other = create(&client, "/other");
    assert_eq!(fill(&other, &bytes), Some(ErrorKind::NoSpace));
    expect_bytes(&file, &bytes);
    // Bytes that wait for room have to be stored before their server may end.
    std::fs::remove_file(site.data(0).join("ballast")).expect("it is there");
}

/// No file system holds a byte there. Without the file its servers can be stopped again.
#[test]
fn a_write_beyond_the_largest_file_is_an_error_of_the_writer() {
    let site = Site::up(Shape::new(2));
    let client = site.client();
    let (far, near) = (create(&client, "/far"), create(&client, "/near"));
    let written = far.write_at(&[1], (i64::MAX - 1) as u64).and_then(|()| far.sync());
    assert!(written.is_err());
    assert_eq!(fill(&near, &[7; 1_000_000]), None, "other files are not concerned");
    // No handle reports the error any more.
    drop(far);
    client.remove_file("/far").expect("removing takes no room");
    soon("all there is can be stored", || client.sync().is_ok());
}

/// Where a server keeps its part of a file.
fn part(site: &Site, server: u16, file: FileId) -> PathBuf {
    let name = file.to_string();
    site.data(server).join("parts").join(&name[name.len() - 2..]).join(&name)
}

#[test]
fn damage_is_detected_and_does_not_spread() {
    let site = Site::up(Shape::new(2));
    let bytes = Dice::new(1).bytes(4 << 20);
    let client = site.client();
    let (bad, good) = (create(&client, "/bad"), create(&client, "/good"));
    for file in [&bad, &good] {
        file.write_at(&bytes, 0).expect("there is room");
    }
    let id = bad.id();
    drop((bad, good, client));
    site.stop();
    // Byte 100,000 of server 1's part is byte 1,148,576 of the file: the second stripe is its first.
    let path = part(&site, 1, id);
    let mut stored = fs::read(&path).expect("a part is a file");
    assert_eq!(stored.len(), 2 << 20);
    stored[100_000] ^= 4;
    fs::write(&path, stored).expect("it is ours");
    site.start();
    for client in [site.client(), site.far_client()] {
        let mut back = vec![0; bytes.len()];
        let read = open(&client, "/bad").read_at(&mut back, 0).map_err(|error| error.kind());
        assert_eq!(read, Err(ErrorKind::Damaged));
        // Blocks beside it are as they were.
        let file = open(&client, "/bad");
        for at in [0, 1 << 20, 2 << 20, 3 << 20] {
            file.read_exact_at(&mut back[..1000], at).expect("it is not damaged");
            assert!(back[..1000] == bytes[at as usize..at as usize + 1000]);
        }
        // A byte of a damaged block cannot be written without the others.
        let file = client.open("/bad", OpenOptions::new().write(true)).expect("it can be opened");
        let kind = file.write_at(&[1], 1_148_577).and_then(|()| file.sync()).map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::Damaged));
        expect_bytes(&open(&client, "/good"), &bytes);
    }
    let client = site.client();
    let status = client.status(ServerId(1)).expect("it answers");
    assert!(status.storage.damaged > 0 && !status.last_errors.is_empty(), "{status:?}");
    let found = client.verify(ServerId(1), id, 0, 1000).expect("it can be looked at");
    assert_eq!(found, (vec![1], None));
    // A write of the whole block repairs it.
    let file = client.open("/bad", OpenOptions::new().read(true).write(true)).expect("it can be opened");
    let block = (1 << 20) + (64 << 10)..(1 << 20) + (128 << 10);
    file.write_at(&bytes[block.clone()], block.start as u64).expect("it can be replaced");
    file.sync().expect("it can be stored");
    expect_bytes(&file, &bytes);
    assert_eq!(client.verify(ServerId(1), id, 0, 1000).expect("it can be looked at"), (vec![], None));
}
