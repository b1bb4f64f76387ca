//! `pario scale` while clients use the partition, and interrupted at any of its steps.

use std::time::Duration;

use pario::{File, OpenOptions, Partition, Scaling};
use pario_conformance::pario;
use pario_registry::Entry;
use pario_types::{Epoch, ServerId};

use super::site::{Shape, Site, write};
use super::{soon, try_seeds, within};

const BYTES: usize = 1_000_000;

fn shape(servers: u16) -> Shape {
    Shape { stripe: 4096, block: 4096, ..Shape::new(servers) }
}

/// `pario scale --add` with the directories of these servers.
fn add(site: &Site, servers: &[u16]) -> String {
    site.succeed(&words(&arguments(site, servers)))
}

fn arguments(site: &Site, servers: &[u16]) -> Vec<String> {
    let directories = servers.iter().map(|server| site.data(*server).to_string_lossy().into_owned());
    ["scale", "trial", "--add"].map(str::to_owned).into_iter().chain(directories).collect()
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn create(client: &Partition, path: &str) -> File {
    client.open(path, OpenOptions::new().read(true).write(true).create(true)).expect("a new file")
}

/// The number of servers over which a new file is striped.
fn servers_of_new_file(client: &Partition, path: &str) -> u16 {
    let file = create(client, path);
    let servers = file.striping().servers();
    assert_eq!(file.striping().count(), servers);
    file.close().expect("closed");
    servers
}

#[test]
fn clients_that_run_use_servers_that_are_added() {
    let site = Site::up(shape(1));
    for client in [site.client(), site.far_client()] {
        let before = site.entry();
        let servers = before.members() as u16;
        let old = create(&client, &format!("/old{servers}"));
        old.write_at(&[1; 10_000], 0).expect("written");
        add(&site, &[servers, servers + 1]);
        let entry = site.entry();
        assert_eq!((entry.members() as u16, entry.epoch), (servers + 2, before.epoch.next()));
        // The same client, which has never connected to the new servers.
        let path = format!("/new{servers}");
        let bytes = write(&client, &path, BYTES);
        assert_eq!(servers_of_new_file(&client, "/other"), servers + 2);
        client.remove_file("/other").expect("removed");
        old.write_at(&[2; 10_000], 10_000).expect("written");
        old.close().expect("closed");
        assert_eq!((client.servers().count() as u16, client.epoch()), (servers + 2, entry.epoch));
        client.sync().expect("synced");
        site.expect_there(&path, &bytes);
        let expected = [[1; 10_000], [2; 10_000]].concat();
        site.expect_there(&format!("/old{servers}"), &expected);
    }
    site.stop();
    // The partition file still names one server.
    site.start();
    assert_eq!(site.entry().members(), 5);
    assert!(site.succeed(&["check", "trial"]).contains("nothing is wrong"));
}

#[test]
fn a_rust_program_adds_servers() {
    let site = Site::up(shape(1));
    let scaling = Scaling::new("trial").program(pario()).registry(site.home());
    let place = site.data(1).to_string_lossy().into_owned();
    let error = scaling.clone().add_server("data").run().expect_err("no place");
    assert!(error.to_string().contains("node:/dir"), "{error}");
    assert!(Scaling::new("trial").program("/no/such/program").run().is_err());
    scaling.clone().add_server(&place).run().expect("added");
    scaling.run().expect("there is nothing to complete");
    assert_eq!(servers_of_new_file(&site.client(), "/new"), 2);
}

#[test]
fn a_client_that_only_looks_at_the_whole_partition_finds_added_servers() {
    let site = Site::up(shape(1));
    let client = site.client();
    assert_eq!(client.rooms().expect("told").len(), 1);
    add(&site, &[1]);
    assert_eq!(client.rooms().expect("told").len(), 2);
}

#[test]
fn killed_servers_know_the_set_of_servers() {
    let site = Site::up(shape(2));
    let client = site.client();
    add(&site, &[2]);
    for server in (0..3).map(ServerId) {
        assert!(site.kill(server));
        soon("another is started", || site.process(server).is_some());
    }
    assert_eq!(servers_of_new_file(&client, "/a"), 3);
    let bytes = write(&client, "/b", BYTES);
    // Their supervisors are killed as well.
    site.kill_all();
    site.start();
    assert_eq!(servers_of_new_file(&client, "/c"), 3);
    site.expect_there("/b", &bytes);
    client.remove_file("/b").expect("removed");
    // The metadata server reaches the added one, and removes what it has of the file.
    within(Duration::from_secs(20), "its parts are removed", || {
        client.list_parts(ServerId(2), pario::FileId(0), 10).is_ok_and(|(parts, _)| parts.len() <= 2)
    });
}

#[test]
fn an_adopted_partition_has_the_servers_that_were_added() {
    let site = Site::up(shape(2));
    add(&site, &[2]);
    let bytes = site.write("/file", BYTES);
    site.succeed(&["down", "trial", "--forget"]);
    let directories = [0, 1, 2].map(|server| site.data(server).to_string_lossy().into_owned());
    site.succeed(&["up", "--adopt", &directories[2], &directories[0], &directories[1]]);
    site.expect_there("/file", &bytes);
    assert_eq!((site.entry().members(), site.entry().epoch), (3, Epoch(1)));
    add(&site, &[3]);
    assert_eq!(servers_of_new_file(&site.client(), "/new"), 4);
}

#[test]
fn servers_that_cannot_be_added_change_nothing() {
    let site = Site::up(shape(2));
    let before = site.entry();
    let refused = |arguments: &[&str], why: &str| {
        let output = site.try_pario(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why) && said.lines().count() == 1, "{said}");
        let entry = site.entry();
        assert_eq!((&entry.description, entry.epoch, entry.joining), (&before.description, before.epoch, 0));
        assert_eq!(entry.running, before.running);
    };
    // One of two cannot start: the other one is stopped again.
    let good = site.data(2).to_string_lossy().into_owned();
    refused(&["scale", "trial", "--add", &good, "/proc/nowhere"], "server 3");
    soon("the other one ends", || site.process(ServerId(2)).is_none());
    refused(&["scale", "trial", "--add", &site.data(1).to_string_lossy()], "is a server already");
    refused(&["scale", "trial", "--add", "data"], "node:/dir");
    refused(&["scale", "trial", "--to", "1"], "cannot take servers away");
    add(&site, &[2, 3]);
    assert_eq!(servers_of_new_file(&site.client(), "/new"), 4);
    site.stop();
    let output = site.try_pario(&["scale", "trial", "--to", "5"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("does not run"), "{said}");
}

/// A step of `pario scale`, and whether an entry shows that it is done.
type Step = (&'static str, fn(&Entry) -> bool);

/// `pario scale` is killed as soon as the registry shows that it has come so far.
#[test]
fn an_interrupted_addition_is_undone_or_completed() {
    let steps: [Step; 3] = [
        ("the new server is named", |entry| entry.joining > 0),
        ("the new server has started", |entry| entry.running.contains_key(&ServerId(2))),
        ("the new server is a member", |entry| entry.epoch == Epoch(1)),
    ];
    for (step, is_reached) in steps {
        for repair in ["scale", "up", "up with the partition file"] {
            let site = Site::up(shape(2));
            let client = site.client();
            let bytes = write(&client, "/before", BYTES);
            let mut scale = site.pario(&words(&arguments(&site, &[2]))).spawn().expect("pario runs");
            within(Duration::from_secs(20), step, || is_reached(&site.entry()));
            scale.kill().expect("killed");
            scale.wait().expect("it has ended");
            servers_of_new_file(&client, "/meanwhile");
            match repair {
                "scale" | "up" => site.succeed(&[repair, "trial"]),
                _ => site.start(),
            };
            let entry = site.entry();
            let members = entry.members() as u16;
            assert_eq!((entry.joining, u64::from(members)), (0, 2 + entry.epoch.0), "{step}, {repair}");
            assert_eq!(servers_of_new_file(&client, "/after"), members);
            if members == 2 {
                soon("the new server ends", || site.server_processes().len() == 2);
                add(&site, &[2]);
                assert_eq!(servers_of_new_file(&client, "/again"), 3);
            }
            site.expect_there("/before", &bytes);
            assert!(site.succeed(&["check", "trial"]).contains("nothing is wrong"));
        }
    }
}

/// The same at random instants, and servers are killed as well.
#[test]
fn additions_with_kills_lose_nothing() {
    try_seeds(&[1, 2, 3], |dice| {
        let site = Site::up(shape(1));
        let client = site.client();
        let bytes = write(&client, "/before", BYTES);
        for round in 0..3 {
            let next = site.entry().members() as u16;
            let mut scale = site.pario(&words(&arguments(&site, &[next]))).spawn().expect("pario runs");
            std::thread::sleep(Duration::from_millis(dice.below(400)));
            let victim = ServerId(dice.below(u64::from(next) + 1) as u16);
            if dice.below(2) == 0 {
                site.kill(victim);
            } else {
                scale.kill().expect("killed");
            }
            scale.wait().expect("it has ended");
            site.succeed(&["up", "trial"]);
            let members = site.entry().members() as u16;
            let path = format!("/new{round}");
            assert_eq!(servers_of_new_file(&client, &path), members);
            let written = write(&client, &path, BYTES / 2);
            site.expect_there(&path, &written);
            site.expect_there("/before", &bytes);
        }
        assert!(site.succeed(&["check", "trial"]).contains("nothing is wrong"));
    });
}
