//! Placed files with replicas on several servers: replicas are equal whichever clients write them, and one of them is
//! enough for a read.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pario::{File, Offset, OpenOptions, Options, Partition, PlacementMap, Pos, ServerId, view};
use pario_types::{ErrorKind, FileId};

use super::dice::Dice;
use super::site::{Shape, Site, run_directory};
use super::try_seeds;

const MIB: u64 = 1 << 20;

/// A new file, of which servers keep ranges.
fn create(client: &Partition, path: &str, kept: &[(Range<u64>, &[u16])]) -> File {
    let servers = |numbers: &[u16]| numbers.iter().copied().map(ServerId).collect();
    let table = PlacementMap::new(kept.iter().map(|(range, numbers)| (range.clone(), servers(numbers))));
    let mut options = OpenOptions::new();
    // Bytes that the table leaves out are on the server that is not killed here.
    options.read(true).write(true).create_new(true).stripe_count(1).first_server(0);
    client.open(path, options.table(table.expect("in order"))).expect("a new file")
}

/// The file as a client reads it that prefers the replicas of a server.
fn read_at(client: &Partition, path: &str, home: u16) -> pario::Result<Vec<u8>> {
    let file = client.open(path, OpenOptions::new().read(true))?;
    file.set_home(ServerId(home));
    let mut bytes = vec![0xa5; 3 << 20];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    file.close()?;
    Ok(bytes)
}

#[track_caller]
fn expect_everywhere(client: &Partition, path: &str, servers: Range<u16>, bytes: &[u8]) {
    for server in servers {
        let read = read_at(client, path, server).expect("it can be read");
        assert!(read == bytes, "{path} differs at server {server}");
    }
}

/// A client with a short deadline.
fn impatient(site: &Site) -> Partition {
    let deadline = Duration::from_secs(1);
    let options = Options { deadline, flush_deadline: deadline, ..Options::default() };
    Partition::open_by_name(&site.home(), "trial", options).expect("the partition is up")
}

#[test]
fn files_stay_readable_and_writable_while_replicas_are_unreachable() {
    let site = Site::up(Shape { more: "supervise = false\n".into(), ..Shape::new(3) });
    let (client, bytes) = (site.client(), Dice::new(5).bytes(2 << 20));
    let all: &[_] = &[(0..MIB, &[1, 2][..]), (MIB..2 * MIB, &[0, 1][..])];
    let file = create(&client, "/file", all);
    file.write_at(&bytes, 0).expect("all servers are up");
    file.close().expect("it can be stored");
    expect_everywhere(&client, "/file", 0..3, &bytes);
    // Open before a server dies.
    let before = client.open("/file", OpenOptions::new().read(true)).expect("it is there");
    before.set_home(ServerId(1));

    assert!(site.kill(ServerId(1)));
    for partition in [&client, &site.client(), &site.far_client()] {
        expect_everywhere(partition, "/file", 0..3, &bytes);
    }
    let mut back = vec![0; 2 << 20];
    before.read_exact_at(&mut back, 0).expect("others have all of it");
    assert!(back == bytes);
    let view = view::strided(Offset(100), 500, 1000).expect("a view");
    let mut strided = vec![0; 500_000];
    assert_eq!(before.read_view(&view, Pos(0), &mut strided).expect("others have all of it"), 500_000);
    assert!(strided.chunks(500).zip(bytes[100..].chunks(1000)).all(|(got, there)| got == &there[..500]));
    site.succeed(&["cp", "trial:/file", "copy"]);
    assert!(std::fs::read(site.path("copy")).expect("a copy") == bytes, "what was copied out differs");

    // A write that cannot reach all copies reaches none.
    let hasty = impatient(&site);
    let file = hasty.open("/file", OpenOptions::new().read(true).write(true)).expect("it is there");
    for range in [10..20_000, MIB - 10..MIB + 10] {
        let lost = file.write_at(&bytes[..(range.end - range.start) as usize], range.start);
        let error = lost.expect_err("one copy is not to be reached");
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(error.to_string().contains("server 1 of partition trial"), "{error}");
    }
    drop(file);

    site.start();
    expect_everywhere(&client, "/file", 0..3, &bytes);
    let file = client.open("/file", OpenOptions::new().read(true).write(true)).expect("it is there");
    let other = Dice::new(6).bytes(2 << 20);
    file.write_at(&other, 0).expect("all servers are up");
    file.close().expect("it can be stored");
    expect_everywhere(&client, "/file", 0..3, &other);
}

#[test]
fn bytes_without_a_reachable_replica_are_an_error() {
    let site = Site::up(Shape { more: "supervise = false\n".into(), ..Shape::new(3) });
    let file = create(&site.client(), "/file", &[(0..MIB, &[1]), (MIB..2 * MIB, &[1, 2])]);
    file.write_at(&[7; 2 << 20], 0).and_then(|()| file.close()).expect("all servers are up");
    assert!(site.kill(ServerId(1)));
    let hasty = impatient(&site);
    let file = hasty.open("/file", OpenOptions::new().read(true)).expect("it is there");
    let mut bytes = vec![0; 1 << 20];
    file.read_exact_at(&mut bytes, MIB).expect("another has it");
    assert!(bytes.iter().all(|byte| *byte == 7));
    assert_eq!(file.read_at(&mut bytes, 0).map_err(|error| error.kind()), Err(ErrorKind::Unreachable));
    site.start();
    drop(hasty);
}

/// One server has lost a copy, another has a damaged one: reads go elsewhere, and `pario check` finds it and puts it right.
/// Kills servers and removes their pools, as a loss of their hosts' memory does, and starts others.
fn lose_memory(site: &Site, servers: &[u16]) {
    let pools = run_directory(&site.entry());
    for server in servers {
        assert!(site.kill(ServerId(*server)));
        std::fs::remove_file(pools.join(format!("{server}/pool"))).expect("it had a pool");
    }
    site.start();
}

#[test]
fn replicas_of_a_server_that_lost_its_memory_are_repaired_before_they_are_read() {
    let more = "supervise = false\nhigh_water = 100%\n".into();
    let site = Site::up(Shape { cache: 16 << 20, more, ..Shape::new(3) });
    let (client, mut dice) = (site.client(), Dice::new(7));
    let (old, new) = (dice.bytes(MIB as usize), dice.bytes(MIB as usize));
    let file = create(&client, "/file", &[(0..MIB, &[1, 2][..])]);
    file.write_at(&old, 0).expect("all servers are up");
    file.sync().expect("it can be stored");
    let far = site.far_client();
    let before = far.open("/file", OpenOptions::new().read(true)).expect("it is there");
    before.set_home(ServerId(1));
    let mut back = vec![0; MIB as usize];
    before.read_exact_at(&mut back, 0).expect("all servers are up");
    file.write_at(&new, 0).expect("all servers are up");

    lose_memory(&site, &[1]);
    before.read_exact_at(&mut back, 0).expect("it is repaired");
    assert!(back == new, "a program that had the file open reads what the server lost");
    expect_everywhere(&site.client(), "/file", 0..3, &new);
    // What a read has returned after a loss is synced, so another loss does not bring back older bytes.
    lose_memory(&site, &[1, 2]);
    expect_everywhere(&site.client(), "/file", 0..3, &new);
    before.read_exact_at(&mut back, 0).expect("it is there");
    assert!(back == new);
    // The writer is told of the loss, although a replica survived.
    file.sync().expect_err("a server lost what it wrote");
    file.sync().expect("only once");
}

#[test]
fn check_finds_and_repairs_divergent_replicas() {
    let site = Site::up(Shape::new(3));
    let bytes = Dice::new(8).bytes(1 << 20);
    let kept: [(_, &[u16]); 3] = [("/lost", &[1, 2]), ("/damaged", &[1, 2, 0]), ("/good", &[0, 2])];
    let [lost, damaged, _] = kept.map(|(path, holders)| {
        let file = create(&site.client(), path, &[(0..MIB, holders)]);
        file.write_at(&bytes, 0).expect("there is room");
        let id = file.id();
        file.close().expect("it can be stored");
        id
    });
    site.stop();
    let part = |file: FileId| {
        let name = file.to_string();
        site.data(1).join("parts").join(&name[name.len() - 2..]).join(&name)
    };
    std::fs::remove_file(part(lost)).expect("it was there");
    let mut stored = std::fs::read(part(damaged)).expect("it is there");
    stored[70_000] ^= 1;
    std::fs::write(part(damaged), stored).expect("it is ours");
    site.start();
    // A copy that is gone is no copy.
    for (path, _) in kept {
        expect_everywhere(&site.client(), path, 0..3, &bytes);
        expect_everywhere(&site.far_client(), path, 0..3, &bytes);
    }
    let found = site.try_pario(&["check", "trial"]);
    let said = String::from_utf8_lossy(&found.stdout).into_owned();
    assert_eq!(found.status.code(), Some(1), "{said}");
    assert!(said.contains("copies   /lost: bytes 0-"), "{said}");
    assert!(said.contains("copies   /damaged: bytes 0-1048575"), "{said}");
    assert!(said.contains("damaged  /damaged: bytes 65536-131071 (server 1"), "{said}");
    site.try_pario(&["check", "--repair", "trial"]);
    site.succeed(&["check", "trial"]);
    for (path, _) in kept {
        expect_everywhere(&site.client(), path, 0..3, &bytes);
    }
}

/// Clients write the same bytes at the same time, while servers are killed and restarted: all replicas have the same winner.
#[test]
fn concurrent_writers_of_the_same_bytes_leave_equal_replicas() {
    try_seeds(&[41], |dice| {
        let site = Site::up(Shape { cache: 1 << 20, ..Shape::new(3) });
        let kept: &[(Range<u64>, &[u16])] = &[(0..200_000, &[0, 1, 2]), (300_000..500_000, &[2, 1])];
        create(&site.client(), "/file", kept).close().expect("a new file");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers = [site.client(), site.client(), site.far_client()].map(|client| {
                let mut dice = Dice::new(dice.next());
                scope.spawn(move || {
                    let file = client.open("/file", OpenOptions::new().read(true).write(true));
                    let file = file.expect("it is there");
                    for _ in 0..60 {
                        let at = dice.pick(&[0, 10_000, 290_000]) + dice.below(5000);
                        let bytes = dice.bytes(1 + dice.clone().index(60_000));
                        match dice.below(3) {
                            0 => file.write_at(&bytes, at),
                            1 => file.write_vectored_at(&[(at, &bytes), (at / 2, &bytes)]),
                            _ => {
                                let view = view::strided(Offset(at / 3), 100, 300).expect("a view");
                                file.write_view(&view, Pos(0), &bytes)
                            }
                        }
                        .expect("servers come back");
                    }
                    file.close().expect("it can be stored");
                })
            });
            let (mut killers, site, over) = (Dice::new(dice.next()), &site, &over);
            let killer = scope.spawn(move || {
                let mut killed = [0; 3];
                while !over.load(Ordering::Acquire) {
                    killers.pause(20..220);
                    let server = killers.index(3);
                    // A supervisor gives up on a server that dies too often.
                    if killed[server] < 3 {
                        killed[server] += u32::from(site.kill(ServerId(server as u16)));
                    }
                }
            });
            let ended = writers.map(|writer| writer.join());
            over.store(true, Ordering::Release);
            killer.join().expect("the killer does not panic");
            assert!(ended.iter().all(Result::is_ok), "a writer failed");
        });
        for client in [site.client(), site.far_client()] {
            let first = read_at(&client, "/file", 0).expect("it can be read");
            assert!(first.len() > 100_000);
            expect_everywhere(&client, "/file", 0..3, &first);
        }
    });
}

/// Tables may be large: neither the client that made one nor a client that already has it requests it.
#[test]
fn a_placement_table_is_requested_only_by_clients_that_lack_it() {
    let site = Site::up(Shape::new(2));
    let file = create(&site.client(), "/file", &[(0..1000, &[0, 1]), (1000..2000, &[1])]);
    let table = file.layout().table().expect("it is placed").clone();
    file.close().expect("it can be stored");
    let watcher = site.client();
    let requests_of = |told: Option<Vec<u8>>| {
        let client = site.client();
        let before = watcher.status(ServerId(0)).expect("it is up").traffic.requests;
        assert!(!client.knows_table(table.id()));
        told.into_iter().for_each(|bytes| client.tell_table(bytes));
        let file = client.open("/file", OpenOptions::new().read(true)).expect("it is there");
        assert!(client.knows_table(table.id()) && file.layout().table() == Some(&table));
        file.close().expect("nothing was written");
        watcher.status(ServerId(0)).expect("it is up").traffic.requests - before
    };
    let asking = requests_of(None);
    assert_eq!(requests_of(Some(table.to_bytes())), asking - 1);
    assert_eq!(requests_of(Some(b"no table".to_vec())), asking, "what is no table does no harm");
}

/// Programs and commands use placed files like others.
#[test]
fn a_placed_file_behaves_like_a_striped_file() {
    let site = Site::up(Shape::new(3));
    let (client, bytes) = (site.client(), Dice::new(9).bytes(1_500_000));
    let kept: &[(Range<u64>, &[u16])] = &[(0..500_000, &[1]), (600_000..MIB, &[0, 2])];
    let file = create(&client, "/file", kept);
    file.write_at(&bytes, 0).expect("there is room");
    let atomic = file.lock(0..MIB, true).expect("nobody has it");
    // A program's lock on a range is not in the way of its own writes there.
    file.write_at(&bytes[..700_000], 0).expect("there is room");
    atomic.unlock().expect("it was held");
    file.sync().expect("it can be stored");
    let soon = [0..100_000, 580_000..700_000];
    assert_eq!(file.prefetch(&soon).expect("a hint"), 2);
    file.forget(&soon).expect("a hint");
    file.set_len(650_000).expect("it can be cut");
    assert_eq!(file.len().expect("it has a length"), 650_000);
    file.set_len(1_200_000).expect("it can be extended");
    let mut expected = bytes[..650_000].to_vec();
    expected.resize(1_200_000, 0);
    file.close().expect("it can be stored");
    client.rename("/file", "/other").expect("it can be renamed");
    expect_everywhere(&client, "/other", 0..3, &expected);
    let told = site.succeed(&["stat", "--json", "trial:/other"]);
    for words in ["\"local\": 500000", "\"copied\": 448576", "\"central\": 251424"] {
        assert!(told.contains(words), "{told}");
    }
    site.succeed(&["check", "trial"]);
    // Names and tables survive the metadata server, and a table that several files have is there as long as one is.
    let again = create(&client, "/again", kept);
    again.write_at(&bytes[..10], 700_000).and_then(|()| again.close()).expect("there is room");
    client.remove_file("/other").expect("it is there");
    site.stop();
    site.start();
    let read = read_at(&site.client(), "/again", 2).expect("it can be read");
    assert!(read.len() == 700_010 && read[700_000..] == bytes[..10]);
    site.succeed(&["rm", "trial:/again"]);
    site.succeed(&["check", "trial"]);
}
