//! Pools that are lost with the memory of a rebooted machine, or shortened by another program. No sync of their writes succeeds,
//! and other files stay usable.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use pario::{ErrorKind, File, Partition};
use pario_types::ServerId;

use super::site::{Shape, Site, run_directory};
use super::soon;

const BLOCK: usize = 65536;
/// So few that the server is in no hurry to store them.
const BLOCKS: usize = 8;

fn open(client: &Partition, name: &str) -> File {
    let mut options = pario::OpenOptions::new();
    client.open(name, options.read(true).write(true).create(true)).expect("it can be opened")
}

fn pool(site: &Site) -> PathBuf {
    run_directory(&site.entry()).join("0").join("pool")
}

/// A far client, with a file of ones that are synced and of twos on top that are not.
fn begun(site: &Site) -> (Partition, File) {
    let client = site.far_client();
    let file = open(&client, "/file");
    file.write_at(&[1; BLOCKS * BLOCK], 0).and_then(|()| file.sync()).expect("nobody hinders it");
    file.write_at(&[2; BLOCKS * BLOCK], 0).expect("nobody hinders it");
    (client, file)
}

/// Checks the error of a client that wrote to the lost pool, and the bytes that others read: each block as it was synced or as
/// it was written last, and all of them as written last if the sync succeeded.
fn is_told_or_stored(site: &Site, file: &File) -> bool {
    let told = file.sync();
    if let Err(error) = &told {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("lost"), "{error}");
    }
    let mut bytes = vec![0; BLOCKS * BLOCK];
    open(&site.far_client(), "/file").read_exact_at(&mut bytes, 0).expect("it is there");
    for block in bytes.chunks(BLOCK) {
        assert!(block.iter().all(|byte| *byte == block[0]), "a block of two times");
        assert!(block[0] == 2 || (told.is_err() && block[0] == 1), "{} is neither old nor new", block[0]);
    }
    file.write_at(&[3; BLOCKS * BLOCK], 0).and_then(|()| file.sync()).expect("it goes on");
    told.is_err()
}

fn said(site: &Site) -> String {
    site.client().status(ServerId(0)).expect("it answers").last_errors.join("\n")
}

#[test]
fn a_pool_of_another_boot_is_not_adopted_and_its_writers_get_an_error() {
    let site = Site::up(Shape { more: "listen = 127.0.0.1".into(), ..Shape::new(1) });
    let (_client, file) = begun(&site);
    site.kill_all();
    let pool = OpenOptions::new().read(true).write(true).open(pool(&site)).expect("it is left");
    let mut boot = [0; 8];
    pool.read_exact_at(&mut boot, 72).expect("a header");
    boot[0] ^= 1;
    pool.write_all_at(&boot, 72).expect("a header");
    drop(pool);
    site.start();
    assert!(is_told_or_stored(&site, &file), "a pool of another boot was taken for good");
    let said = said(&site);
    assert!(said.contains("before the machine was started again"), "{said}");
}

/// The message of `pario down`, which has to fail.
#[track_caller]
fn down_fails(site: &Site) -> String {
    let output = site.try_pario(&["down", "trial"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

#[test]
fn down_says_that_writes_may_be_lost_if_a_pool_is_gone_with_its_hosts_memory() {
    let site = Site::up(Shape::new(2));
    // A server that has ended in order has lost nothing.
    let before = site.server_processes();
    before.iter().for_each(|process| process.signal("-TERM"));
    soon("the servers are gone", || site.processes().is_empty());
    site.succeed(&["down", "trial"]);
    site.start();
    let directory = run_directory(&site.entry());
    let losses: [(&str, &dyn Fn()); 3] = [
        ("a restart of the host", &|| fs::remove_dir_all(&directory).expect("it is left")),
        ("one pool", &|| fs::remove_file(directory.join("1/pool")).expect("it is left")),
        ("what is in a pool", &|| fs::write(directory.join("1/pool"), "").expect("it is left")),
    ];
    for (what, lose) in losses {
        site.write("/file", 100_000);
        site.kill_all();
        lose();
        for _ in 0..2 {
            let said = down_fails(&site);
            assert!(said.contains("server 1 on"), "{what}: {said}");
            assert!(said.contains("writes that were not synced may be lost"), "{what}: {said}");
        }
        site.start();
        let status = site.client().status(ServerId(1)).expect("it answers").last_errors.join("\n");
        assert!(status.contains("and not synced"), "{what}: {status}");
        site.stop();
        site.start();
    }
    site.kill_all();
    fs::remove_dir_all(&directory).expect("it is left");
    let said = site.succeed(&["down", "trial", "--discard"]);
    assert_eq!(said.matches("writes that were not synced may be lost").count(), 2, "{said}");
    site.succeed(&["down", "trial"]);
}

#[test]
fn discarding_a_pool_that_cannot_be_read_says_that_writes_may_be_lost() {
    let site = Site::up(Shape::new(1));
    site.write("/file", 100_000);
    site.kill_all();
    fs::write(pool(&site), vec![1; 100_000]).expect("it is left");
    let said = down_fails(&site);
    assert!(said.contains("cannot be read"), "{said}");
    let said = site.succeed(&["down", "trial", "--discard"]);
    assert!(said.contains("not synced may be lost") && !said.contains("nothing unsaved"), "{said}");
}

#[test]
fn a_client_that_misses_restarts_of_a_server_loses_nothing() {
    let site = Site::up(Shape { more: "listen = 127.0.0.1".into(), ..Shape::new(1) });
    let (_client, file) = begun(&site);
    for _ in 0..3 {
        site.stop();
        site.start();
    }
    assert!(!is_told_or_stored(&site, &file), "everything was stored at each end");
}

#[test]
fn a_server_recovers_from_a_client_that_shortens_the_pool() {
    for part in [0, 1, 2, 3] {
        let site = Site::up(Shape { more: "listen = 127.0.0.1".into(), ..Shape::new(1) });
        let (_client, file) = begun(&site);
        let path = pool(&site);
        let pool = OpenOptions::new().write(true).open(&path).expect("it is there");
        let len = pool.metadata().expect("it is there").len();
        // All of it; the table of slots; half of the blocks; less than a page.
        let kept = [0, 5000, len - (len / 2) / 4096 * 4096 - 100, len - 1][part];
        pool.set_len(kept).expect("it can be cut");
        let lost = is_told_or_stored(&site, &file);
        assert_eq!(lost, part < 3, "of the last page nobody needs anything");
        if lost {
            let said = said(&site);
            assert!(said.contains("another program"), "{said}");
        }
        let again = open(&site.client(), "/again");
        again.write_at(&[4; BLOCK], 0).and_then(|()| again.sync()).expect("a new client finds a new pool");
    }
}
