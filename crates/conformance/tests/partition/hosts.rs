//! Partitions over several hosts: servers are started through a launcher, and clients reach those of other hosts
//! by TCP only. It takes root; elsewhere these tests say so and pass.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use pario_conformance::Hosts;
use pario_types::ServerId;

use super::client_group::ClientGroup;
use super::dice::Dice;
use super::model::{compare, verify, world};
use super::site::{Route, Shape, Site, connect};
use super::{try_seeds, within};

/// Names the clients in a child's environment: their registry, and their seed.
const CHILD: &str = "PARIO_TEST_HOST";

const HOSTS: u16 = 3;

/// The child: several clients on one host, each result compared with the model.
fn child(told: &str) {
    let (home, seed) = told.split_once(' ').expect("a registry and a seed");
    let (home, mut dice) = (Path::new(home), Dice::new(seed.parse().expect("a seed")));
    let client = connect(home, Route::Any).expect("the partition is up");
    let mut world = world(&client, 3);
    let group = ClientGroup::new(home, &[Route::Any; 3]);
    for _ in 0..6 {
        group.go(world.round(&mut dice, 40));
    }
    group.go(world.farewell());
    drop(group);
    compare(&client, &world);
    verify(&client);
    let mapped = client.servers().filter(|server| client.is_mapped(*server)).count();
    assert_eq!(mapped, 1, "the pool of this host's server, and no other");
    println!("passed");
}

fn start_clients(site: &Site, hosts: &Hosts, number: usize, seed: u64) -> Child {
    let mut command =
        site.again(&hosts.prefix(number), "partition::hosts::servers_of_other_hosts_are_used_by_tcp");
    command.env(CHILD, format!("{} {seed}", site.home().display()));
    command.stdout(Stdio::piped()).spawn().expect("this program can be started again")
}

#[track_caller]
fn expect_passed(child: Child) {
    let output = child.wait_with_output().expect("it can be waited for");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("passed"), "{said}");
}

/// A partition with a server on each host, started from the head.
fn site(hosts: &Hosts, shape: Shape) -> Site {
    let nodes: Vec<String> = (1..=HOSTS).map(|number| format!("host{number}")).collect();
    let mut site = Site::on(shape, &nodes);
    (site.prefix, site.ssh) = (hosts.prefix(0), Some(hosts.ssh().to_owned()));
    site.start();
    site
}

#[test]
fn servers_of_other_hosts_are_used_by_tcp() {
    if let Ok(told) = std::env::var(CHILD) {
        return child(&told);
    }
    try_seeds(&[71], |dice| {
        let Some(hosts) = Hosts::new(HOSTS.into()) else { return };
        let site = site(&hosts, Shape { stripe: 4096, ..Shape::new(HOSTS) });
        let before = hosts.sent_bytes();
        expect_passed(start_clients(&site, &hosts, 2, dice.next()));
        for (before, after) in before.into_iter().zip(hosts.sent_bytes()) {
            assert!(after - before > 1 << 20, "a host sent {} bytes only", after - before);
        }
        site.stop();
        assert_eq!(hosts.remains(), Vec::<String>::new());
    });
}

#[test]
fn servers_of_several_hosts_listen_at_the_address_of_their_own_node() {
    let Some(hosts) = Hosts::new(HOSTS.into()) else { return };
    let site = site(&hosts, Shape::new(HOSTS));
    let status = site.succeed(&["status", "trial"]);
    for (server, running) in site.entry().running {
        let expected = format!("10.77.0.{}:", server.0 + 1);
        let tcp = running.tcp.expect("it listens");
        assert!(tcp.starts_with(&expected), "{tcp}");
        assert!(status.contains(&format!("server {server} listens at {tcp}")), "{status}");
        let process = site.process(server).expect("it runs");
        let listens = process.listens_at();
        let address = format!("{:02X}004D0A:", server.0 + 1);
        assert!(listens.len() == 1 && listens[0].starts_with(&address), "{listens:?}");
    }
    site.stop();
}

#[test]
fn servers_of_other_hosts_may_be_killed() {
    try_seeds(&[72], |dice| {
        let Some(hosts) = Hosts::new(HOSTS.into()) else { return };
        let site = site(&hosts, Shape { stripe: 4096, ..Shape::new(HOSTS) });
        let mut clients = start_clients(&site, &hosts, 1, dice.next());
        let mut deaths = 0;
        while clients.try_wait().expect("it can be waited for").is_none() {
            dice.pause(50..250);
            // A supervisor gives up on a server that dies too often.
            if deaths < 4 * HOSTS {
                site.kill(ServerId(deaths % HOSTS));
                deaths += 1;
            }
        }
        expect_passed(clients);
        eprintln!("{deaths} servers were killed");
        site.stop();
        assert_eq!(hosts.remains(), Vec::<String>::new());
    });
}

#[test]
fn a_server_on_another_host_is_added() {
    let Some(hosts) = Hosts::new(HOSTS.into()) else { return };
    let on = |head: usize, numbers: &[u16]| {
        let nodes: Vec<String> = numbers.iter().map(|number| format!("host{number}")).collect();
        let mut site = Site::on(Shape { stripe: 4096, ..Shape::new(numbers.len() as u16) }, &nodes);
        (site.prefix, site.ssh) = (hosts.prefix(head), Some(hosts.ssh().to_owned()));
        site.start();
        site
    };
    let place = |site: &Site, host: u16, server: u16| format!("host{host}:{}", site.data(server).display());
    {
        let local = on(1, &[1]);
        let output = local.try_pario(&["scale", "trial", "--add", &place(&local, 2, 1)]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("listen on their own host only"), "{said}");
        assert_eq!(local.entry().members(), 1);
    }
    let site = on(0, &[1, 2]);
    site.succeed(&["scale", "trial", "--add", &place(&site, 3, 2)]);
    let bytes = Dice::new(7).bytes(300_000);
    std::fs::write(site.path("bytes"), &bytes).expect("a scratch directory takes files");
    let local = site.path("bytes").to_string_lossy().into_owned();
    for name in ["a", "b"] {
        let path = format!("trial:/{name}");
        site.succeed(&["cp", &local, &path]);
        assert!(site.succeed(&["stat", &path]).contains("over 3 of 3 servers"));
        assert!(site.try_pario(&["cat", &path]).stdout == bytes, "{path} is not what was written");
        // The metadata server reaches the added one, also after its supervisor has started it again.
        site.succeed(&["rm", &path]);
        within(Duration::from_secs(60), "its parts are removed", || {
            let output = site.try_pario(&["status", "trial", "--json"]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.matches("\"parts\": 0").count() == 3
        });
        site.kill(ServerId(0));
    }
    assert!(site.succeed(&["check", "trial"]).contains("nothing is wrong"));
    site.stop();
    assert_eq!(hosts.remains(), Vec::<String>::new());
}
