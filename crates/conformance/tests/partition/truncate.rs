//! Truncations whose client is killed or gets an error: no later write is lost.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use pario::{File, OpenOptions, Partition};
use pario_types::{FileId, ServerId};

use super::processes::ProcessHandle;
use super::site::{Route, Shape, Site, connect, connect_within};
use super::{soon, within};

/// Where a truncating program finds the site, and how it gets in.
const CHILD: &str = "PARIO_TEST_TRUNCATE";

const SIZE: usize = 1 << 20;

/// Truncates the file once, for a parent that has stopped a server and kills this process.
fn truncator(told: &str) {
    let (home, route) = told.rsplit_once(' ').expect("two words");
    let route = if route == "far" { Route::Far } else { Route::Local };
    let client = connect(&PathBuf::from(home), route).expect("the partition is up");
    let file = open(&client);
    // The parent sees in the metadata server when it has begun.
    let _ = file.set_len(0);
}

fn start(site: &Site, route: &str) -> Child {
    let mut command = site.again(&[], "partition::truncate::a_stale_truncate_never_destroys_later_writes");
    command.env(CHILD, format!("{} {route}", site.home().display())).stdout(Stdio::null());
    command.spawn().expect("this program can be started again")
}

fn open(client: &Partition) -> File {
    let mut options = OpenOptions::new();
    client.open("/file", options.read(true).write(true).create(true)).expect("it can be opened")
}

fn write(file: &File, byte: u8) {
    file.write_at(&[byte; SIZE], 0).and_then(|()| file.sync()).expect("all servers are up");
}

fn is_truncating(client: &Partition, file: FileId) -> bool {
    let (inodes, _) = client.list_inodes(FileId(file.0 - 1), 1).expect("the metadata server is up");
    inodes[0].attributes.truncating.is_some()
}

fn opens(client: &Partition, file: FileId) -> u32 {
    let (inodes, _) = client.list_inodes(FileId(file.0 - 1), 1).expect("the metadata server is up");
    inodes[0].attributes.opens
}

#[track_caller]
fn assert_all(site: &Site, byte: u8) {
    for client in [site.client(), site.far_client()] {
        let file = client.open("/file", OpenOptions::new().read(true)).expect("it is there");
        let mut bytes = vec![0; SIZE];
        file.read_exact_at(&mut bytes, 0).expect("nothing is gone");
        assert!(bytes.iter().all(|one| *one == byte));
    }
}

/// A client is killed while one of the servers has not applied its truncation.
fn kill_in_the_middle(site: &Site, route: &str, client: &Partition, file: FileId) {
    let slow = site.process(ServerId(1)).expect("it is up");
    slow.stop();
    let mut child = start(site, route);
    soon("a truncation has begun", || is_truncating(client, file));
    child.kill().and_then(|()| child.wait()).expect("it is a child of this process");
    slow.go_on();
}

#[test]
fn a_stale_truncate_never_destroys_later_writes() {
    if let Ok(told) = std::env::var(CHILD) {
        return truncator(&told);
    }
    for route in ["local", "far"] {
        // A client of another host is given up so long after its connection has ended.
        let site = Site::up(Shape { more: "deadline = 2s".into(), ..Shape::new(2) });
        let client = site.client();
        let file = open(&client);
        write(&file, 1);
        kill_in_the_middle(&site, route, &client, file.id());
        // Readers are let in meanwhile, and change nothing.
        site.client().open("/file", OpenOptions::new().read(true)).expect("it can be read");
        soon("the truncation is resolved", || !is_truncating(&client, file.id()));
        write(&file, 2);
        assert_all(&site, 2);
        site.servers().for_each(|server| assert!(site.kill(server)));
        assert_all(&site, 2);
        file.close().expect("all servers are up");
        site.stop();
        site.start();
        assert_all(&site, 2);
    }
}

/// A program is stopped in the middle of its truncation, the metadata server gives it up, and it goes on later.
#[test]
fn a_program_that_resumes_an_abandoned_truncation_destroys_nothing() {
    let site = Site::up(Shape { more: "deadline = 2s".into(), ..Shape::new(2) });
    let client = site.client();
    let file = open(&client);
    write(&file, 1);
    let slow = site.process(ServerId(1)).expect("it is up");
    slow.stop();
    let mut child = start(&site, "far");
    soon("a truncation has begun", || is_truncating(&client, file.id()));
    let stopped = ProcessHandle(child.id());
    stopped.stop();
    slow.go_on();
    // It does not come back to a server that was killed, since it is stopped.
    assert!(site.kill(ServerId(0)));
    // A restarted metadata server gives clients 30 s to come back.
    within(Duration::from_secs(90), "the truncation is resolved", || !is_truncating(&client, file.id()));
    write(&file, 2);
    assert_all(&site, 2);
    stopped.go_on();
    let ended = child.wait().expect("it is a child of this process");
    assert!(ended.success(), "it gets an error or success: {ended}");
    assert_all(&site, 2);
    write(&file, 3);
    site.servers().for_each(|server| assert!(site.kill(server)));
    assert_all(&site, 3);
}

#[test]
fn a_truncation_of_a_killed_program_is_completed_if_nobody_else_writes() {
    let site = Site::up(Shape::new(2));
    let client = site.client();
    let file = open(&client);
    let id = file.id();
    write(&file, 1);
    file.close().expect("all servers are up");
    kill_in_the_middle(&site, "local", &client, id);
    // A writer that opens the file before the metadata server knows of the end could write to it: the truncation would be void.
    soon("the metadata server knows of the end", || opens(&client, id) == 0);
    // A new writer waits until it is completed.
    let file = open(&client);
    assert_eq!(file.len().expect("all servers are up"), 0);
    write(&file, 2);
    assert_all(&site, 2);
}

#[test]
fn writes_after_a_failed_set_size_are_not_lost() {
    for route in [Route::Local, Route::Far] {
        let site = Site::up(Shape::new(2));
        let client =
            connect_within(&site.home(), route, Duration::from_secs(1)).expect("the partition is up");
        let (file, again) = (open(&client), open(&client));
        write(&file, 1);
        let slow = site.process(ServerId(1)).expect("it is up");
        slow.stop();
        let error = file.set_len(0).expect_err("one of its servers does not answer");
        // It is not known whether that server will apply it: so nothing is written, and nothing is said to be stored.
        for refused in [file.write_at(&[2; 10], 0), again.write_at(&[2; 10], 0), file.sync()] {
            let refused = refused.expect_err("that server is still away").to_string();
            assert!(
                refused.contains("truncation of file") && refused.contains("failed"),
                "{refused} after {error}"
            );
        }
        slow.go_on();
        soon("the truncation is void", || file.write_at(&[2; SIZE], 0).is_ok());
        file.sync().expect("all servers are up");
        assert_all(&site, 2);
        site.servers().for_each(|server| assert!(site.kill(server)));
        assert_all(&site, 2);
    }
}
