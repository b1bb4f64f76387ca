//! After `pario down` all acknowledged bytes are on storage, or it reports where they are. Pools that servers leave behind are
//! found, stored or removed.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use pario::OpenOptions;
use pario_conformance::Hosts;
use pario_conformance::dice::Dice;
use pario_types::ServerId;

use super::site::{Route, Shape, Site, connect, run_directory, write};
use super::soon;

const BYTES: usize = 5_000_000;
/// Nothing is stored in the time of a test.
const STORE_DELAY_US: u32 = 2_000_000;

/// A site whose servers hold on to what is written: their cache is large and their storage slow.
fn site(servers: u16) -> Site {
    let site = Site::new(roomy(servers));
    site.start_slow(STORE_DELAY_US);
    site
}

/// Servers that hold on to what is written for a while.
fn roomy(servers: u16) -> Shape {
    Shape { cache: 16 << 20, more: "high_water = 100%\n".into(), ..Shape::new(servers) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The message of a command that has to fail.
#[track_caller]
fn fails(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn down_stores_what_only_the_pool_of_a_killed_server_has() {
    let site = site(2);
    let bytes = site.write("/file", BYTES);
    let entry = site.entry();
    site.kill_all();
    let listed = site.succeed(&["list"]);
    assert_eq!(listed.matches("unsaved: ").count(), 2, "{listed}");
    assert!(listed.contains("MiB in the pool of server 1 of trial on"), "{listed}");
    let said = site.succeed(&["down", "trial"]);
    assert_eq!(said.matches("that only its pool had are stored now").count(), 2, "{said}");
    assert!(!run_directory(&entry).exists());
    assert!(!site.succeed(&["list"]).contains("unsaved"));
    site.start();
    site.expect_there("/file", &bytes);
}

#[test]
fn down_fails_while_acknowledged_data_cannot_be_stored() {
    let site = site(2);
    let bytes = site.write("/file", BYTES);
    site.kill_all();
    fs::rename(site.data(1), site.path("elsewhere")).expect("nobody uses it");
    for arguments in [&["down", "trial"][..], &["down", "trial", "--forget"]] {
        let said = fails(&site.try_pario(arguments));
        let pool = run_directory(&site.entry()).join("1/pool");
        assert!(said.contains("partition trial is not down"), "{said}");
        assert!(said.contains(&format!("MiB are only in its pool {}", pool.display())), "{said}");
        assert!(said.contains("'pario down' saves everything"), "{said}");
        assert!(pool.exists() && !said.contains("server 0"), "the other server's data is stored: {said}");
    }
    // Given up, it is not lost.
    let said = site.succeed(&["down", "trial", "--force"]);
    assert!(said.contains("it counts as stopped"), "{said}");
    fails(&site.try_pario(&["down", "trial"]));
    assert!(site.succeed(&["list"]).contains("unsaved: "));
    fs::rename(site.path("elsewhere"), site.data(1)).expect("nobody uses it");
    let said = site.succeed(&["down", "trial"]);
    assert!(said.contains("stored now"), "{said}");
    site.start();
    site.expect_there("/file", &bytes);
}

#[test]
fn down_does_not_take_a_server_that_is_slow_to_answer_for_one_that_is_gone() {
    let site = Site::up(roomy(2));
    let bytes = site.write("/file", BYTES);
    let stopped = site.process(ServerId(1)).expect("it runs");
    stopped.stop();
    let said = fails(&site.try_pario(&["down", "trial", "--timeout", "2"]));
    assert!(said.contains("server 1 on") && said.contains("it is alive and does not stop"), "{said}");
    stopped.go_on();
    site.start();
    site.expect_there("/file", &bytes);
    // Killed, it has left its pool.
    let bytes = site.write("/other", BYTES);
    let stopped = site.process(ServerId(1)).expect("it runs");
    stopped.stop();
    let said = site.succeed(&["down", "trial", "--force", "--timeout", "20"]);
    assert!(said.contains("server 1 on") && said.contains("did not run any more"), "{said}");
    soon("no process is left", || site.processes().is_empty());
    site.start();
    site.expect_there("/other", &bytes);
}

#[test]
fn discarded_data_is_counted() {
    let site = site(1);
    site.write("/file", BYTES);
    let entry = site.entry();
    site.kill_all();
    let said = site.succeed(&["down", "trial", "--discard"]);
    assert!(said.contains("4.8 MiB that only its pool had are lost"), "{said}");
    assert!(!run_directory(&entry).exists());
}

#[test]
fn data_of_an_unregistered_partition_is_listed_until_it_is_discarded() {
    let site = site(1);
    site.write("/file", BYTES);
    let entry = site.entry();
    site.kill_all();
    fs::rename(site.data(0), site.path("elsewhere")).expect("nobody uses it");
    let said = site.succeed(&["down", "trial", "--force", "--forget"]);
    assert!(said.contains("4.8 MiB are only in its pool"), "{said}");
    let (id, data) = (entry.id.to_string(), site.data(0));
    let orphan = |text: &str| {
        let line = text.lines().find(|line| line.contains(&id)).unwrap_or_default().to_owned();
        line.starts_with("orphaned pool: 4.8 MiB in the pool of server 0 of trial")
            && line.contains(&format!("'pario up --adopt {}' saves it", data.display()))
    };
    let listed = site.succeed(&["list"]);
    assert!(listed.starts_with("no partitions") && orphan(&listed), "{listed}");
    let kept = site.try_pario(&["clean", &id]);
    assert!(!kept.status.success() && orphan(&text(&kept.stdout)), "{}", text(&kept.stdout));
    let said = site.succeed(&["clean", "--discard", &id]);
    assert!(said.contains("4.8 MiB are lost"), "{said}");
    assert!(!run_directory(&entry).exists() && !site.succeed(&["list"]).contains(&id));
}

/// A job ended without `down` and its registry went with it: what is in memory is of no use to anybody.
#[test]
fn unneeded_pools_are_removed() {
    let site = Site::up(Shape::new(2));
    let file = site.client().open("/file", OpenOptions::new().write(true).create(true)).expect("a new file");
    file.write_at(&[1; 100_000], 0).expect("there is room");
    file.sync().expect("stored");
    let entry = site.entry();
    site.kill_all();
    site.succeed(&["list"]);
    assert!(run_directory(&entry).exists(), "its registry still knows it");
    fs::remove_dir_all(site.home()).expect("removed");
    site.succeed(&["list"]);
    assert!(!run_directory(&entry).exists());
}

#[test]
fn a_failed_up_leaves_nothing_in_memory() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port() - 1;
    let site = Site::new(Shape { more: format!("listen = 127.0.0.1\nport = {port}\n"), ..Shape::new(2) });
    let said = fails(&site.try_pario(&["up", &site.file().to_string_lossy(), "--timeout", "5"]));
    assert!(said.contains("server 1 on"), "{said}");
    soon("nothing is left", || site.processes().is_empty() && !run_directory(&site.entry()).exists());
    drop(taken);
    site.start();
}

/// A node that is this host under another name, as long as the launcher works.
#[test]
fn list_names_unreachable_hosts() {
    let shape = Shape { more: "listen = 127.0.0.1\nlauncher = ssh\n".into(), ..Shape::new(1) };
    let mut site = Site::on(shape, &["node.invalid".to_owned()]);
    let ssh = site.path("ssh");
    let launch = |script: &str| {
        fs::write(&ssh, format!("#!/bin/sh\n{script}\n")).expect("a scratch directory takes new files");
        fs::set_permissions(&ssh, PermissionsExt::from_mode(0o700)).expect("it is there");
    };
    const WORKS: &str = "for last; do :; done; exec sh -c \"$last\"";
    launch(WORKS);
    site.ssh = Some(ssh.clone());
    site.start();
    assert!(!site.succeed(&["list"]).contains("unknown"));
    site.kill_all();
    launch("echo 'no route to host' >&2; exit 255");
    let listed = site.succeed(&["list"]);
    assert!(listed.contains("unknown: node.invalid cannot be asked whether servers of trial"), "{listed}");
    let listed = site.succeed(&["list", "--json"]);
    assert!(listed.contains("\"host\": \"node.invalid\""), "{listed}");
    launch(WORKS);
    assert!(!site.succeed(&["list"]).contains("unknown"));
    site.succeed(&["down", "trial"]);
}

/// Names the registry in the environment of a child.
const CHILD: &str = "PARIO_TEST_DOWN";

/// The child: a client on another host.
fn child(home: &str) {
    write(&connect(Path::new(&home), Route::Any).expect("the partition is up"), "/file", BYTES);
}

#[test]
fn down_stores_what_the_pool_of_a_killed_server_of_another_host_has() {
    if let Ok(home) = std::env::var(CHILD) {
        return child(&home);
    }
    let Some(hosts) = Hosts::new(2) else { return };
    let nodes = [1, 2].map(|number| format!("host{number}"));
    let mut site = Site::on(roomy(2), &nodes);
    (site.prefix, site.ssh) = (hosts.prefix(0), Some(hosts.ssh().to_owned()));
    site.start_slow(STORE_DELAY_US);
    let mut child = site.again(
        &hosts.prefix(1),
        "partition::down::down_stores_what_the_pool_of_a_killed_server_of_another_host_has",
    );
    let written = child.env(CHILD, site.home()).output().expect("this program can be started again");
    assert!(written.status.success(), "{}", text(&written.stdout));
    site.kill_all();
    let listed = site.succeed(&["list"]);
    assert!(listed.contains("in the pool of server 1 of trial on host2"), "{listed}");
    let said = site.succeed(&["down", "trial"]);
    assert_eq!(said.matches("that only its pool had are stored now").count(), 2, "{said}");
    assert_eq!(hosts.remains(), Vec::<String>::new());
    site.start();
    let read = site.pario(&["cat", "trial:/file"]).output().expect("pario runs");
    assert!(read.stdout == Dice::new(5).bytes(BYTES), "{}", text(&read.stderr));
    site.stop();
}
