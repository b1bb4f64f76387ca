//! Names, sizes and options, as programs use them.

mod fake;

use std::time::{Duration, SystemTime};

use fake::{Fake, Setup};
use pario_client::{Error, OpenOptions, Partition};
use pario_types::{ErrorKind, ServerId};

const SETUP: Setup = Setup { servers: 2, stripe: 100, slots: 16, tcp: &[] };

fn writing() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options
}

fn listed(partition: &Partition, path: &str) -> Vec<String> {
    partition.read_dir(path).map(|entry| entry.expect("listed").name().to_owned()).collect()
}

#[test]
fn directories_are_made_listed_renamed_and_removed() {
    let fake = Fake::start(SETUP);
    let partition = fake.connect();
    partition.create_dir("/a").expect("made");
    assert_eq!(partition.create_dir("a").expect_err("there").kind(), ErrorKind::FileExists);
    partition.create_dir_all("/a/b/c").expect("made");
    partition.create_dir_all("/a/b/c").expect("there already");
    for name in ["one", "two", "three", "four", "five", "six", "seven"] {
        partition.open(&format!("/a/{name}"), &writing()).expect("opened").close().expect("closed");
    }
    assert_eq!(listed(&partition, "/a"), ["b", "five", "four", "one", "seven", "six", "three", "two"]);
    partition.rename("/a/one", "/a/b/one").expect("renamed");
    assert_eq!(partition.rename_new("/a/two", "/a/b/one").expect_err("there").kind(), ErrorKind::FileExists);
    assert_eq!(listed(&partition, "/a/b"), ["c", "one"]);
    assert_eq!(partition.remove_dir("/a/b").expect_err("not empty").kind(), ErrorKind::NotEmpty);
    partition.remove_file("/a/two").expect("removed");
    partition.remove_dir_all("/a").expect("removed");
    assert_eq!(listed(&partition, "/"), [""; 0]);
    let missing = partition.remove_dir_all("/a").expect_err("gone");
    assert_eq!(missing.to_string(), "server 0: /a: not there");
}

#[test]
fn metadata_has_the_size_of_whichever_server_knows_it() {
    let fake = Fake::start(SETUP);
    let partition = fake.connect();
    let file = partition.open("/file", &writing()).expect("opened");
    file.write_at(b"bytes", 1234).expect("written");
    for _ in 0..2 {
        let metadata = partition.metadata("/file").expect("there");
        assert_eq!((metadata.len(), metadata.is_file(), metadata.is_dir()), (1239, true, false));
        assert_eq!(metadata.id(), file.id());
        assert_eq!(metadata.striping(), Some(file.striping()));
    }
    let entry = partition.read_dir("/").next().expect("an entry").expect("listed");
    assert_eq!(entry.metadata().expect("asked").len(), 1239);

    partition.set_mode("/file", 0o600).expect("set");
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789);
    partition.set_times("/file", None, Some(time)).expect("set");
    let metadata = partition.metadata("/file").expect("there");
    assert_eq!((metadata.mode(), metadata.modified()), (0o600, time));
    assert_eq!(partition.metadata("/").expect("there").len(), 0);
    assert_eq!(partition.statfs().expect("asked").free, 120);
}

#[test]
fn options_say_what_an_open_may_do() {
    let fake = Fake::start(SETUP);
    let partition = fake.connect();
    let missing = partition.open("/file", OpenOptions::new().read(true)).expect_err("not there");
    assert_eq!(missing.kind(), ErrorKind::NoSuchFile);
    let file = partition.open("/file", OpenOptions::new().write(true).create_new(true)).expect("made");
    file.write_at(&[1; 500], 0).expect("written");
    assert!(matches!(file.read_at(&mut [0; 4], 0), Err(Error::NotOpenFor("reading"))));
    let there = partition.open("/file", OpenOptions::new().write(true).create_new(true)).expect_err("there");
    assert_eq!(there.kind(), ErrorKind::FileExists);

    let reader = partition.open("/file", OpenOptions::new().read(true)).expect("opened");
    assert_eq!(reader.read_at(&mut [0; 600], 100).expect("read"), 400);
    assert!(matches!(reader.write_at(&[1], 0), Err(Error::NotOpenFor("writing"))));
    assert!(matches!(reader.set_len(0), Err(Error::NotOpenFor("writing"))));
    let short = reader.read_exact_at(&mut [0; 600], 100).expect_err("too short");
    assert_eq!(short.to_string(), "600 bytes were wanted at offset 100, and the file ends after 400");

    let truncated = partition.open("/file", OpenOptions::new().write(true).truncate(true)).expect("opened");
    assert_eq!((truncated.len().expect("asked"), reader.len().expect("asked")), (0, 0));
    for options in [OpenOptions::new(), OpenOptions::new().read(true).create(true).clone()] {
        assert_eq!(partition.open("/file", &options).expect_err("senseless").kind(), ErrorKind::Amode);
    }
    let far = truncated.write_at(&[1], i64::MAX as u64).expect_err("too far");
    assert_eq!(far.kind(), ErrorKind::Arg);
    let narrow = partition.open("/narrow", writing().stripe_count(1)).expect("opened");
    assert_eq!(narrow.striping().count(), 1);
}

#[test]
fn opening_a_file_never_continues_an_unfinished_truncation() {
    let fake = Fake::start(SETUP);
    let partition = fake.connect();
    let file = partition.open("/file", &writing()).expect("opened");
    file.write_at(&[1; 1000], 0).expect("written");
    fake.begin_truncate("/file");
    let other = fake.connect().open("/file", OpenOptions::new().read(true)).expect("opened");
    assert_eq!(other.len().expect("asked"), 1000);
    fake.connect().open("/file", &writing()).expect("opened");
    assert_eq!(file.read_at(&mut [0; 1000], 0).expect("read"), 1000);
}

#[test]
fn dropping_closes() {
    let fake = Fake::start(SETUP);
    let partition = fake.connect();
    let file = partition.open("/file", &writing()).expect("opened");
    let (clone, again) = (file.clone(), partition.open("/file", &writing()).expect("opened"));
    assert_eq!(fake.opens(), 2);
    file.close().expect("flushed");
    assert_eq!(fake.opens(), 2, "a clone has it open");
    drop(clone);
    drop(again);
    assert_eq!(fake.opens(), 0);
}

#[test]
fn cached_blocks_of_one_host_need_no_message() {
    let fake = Fake::start(Setup { slots: 64, ..SETUP });
    let partition = fake.connect();
    let file = partition.open("/file", &writing()).expect("opened");
    let mut bytes = [0; 3000];
    file.write_at(&[7; 3000], 50).expect("written");
    file.read_exact_at(&mut bytes, 50).expect("read");
    assert!(partition.servers().all(|server| partition.is_mapped(server)));
    let before = fake.shared.requests.load(std::sync::atomic::Ordering::Relaxed);
    for round in 0..50 {
        file.write_at(&[round; 3000], 50).expect("written");
        file.read_exact_at(&mut bytes, 50).expect("read");
        assert_eq!(bytes, [round; 3000]);
    }
    assert_eq!(fake.shared.requests.load(std::sync::atomic::Ordering::Relaxed), before);
    partition.ping(ServerId(1)).expect("answered");
}
