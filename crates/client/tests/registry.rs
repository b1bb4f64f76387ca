//! A partition that is found by its name.

mod fake;

use fake::{Fake, Setup};
use pario_client::{Options, Partition};
use pario_registry::{Description, Registry, Running};
use pario_transport::Address;
use pario_types::{ErrorKind, ServerId, Stamp};

const FILE: &str = "name = \"found\"\nservers = [\"/one\", \"/two\"]\nmetadata = \"/one\"\n";

#[test]
fn a_partition_is_found_by_its_name_when_it_is_up() {
    let dir = std::env::temp_dir().join(format!("pario-client-registry-{}", std::process::id()));
    let registry = Registry::open(&dir).expect("a registry");
    let connect = |name| Partition::open_by_name(&dir, name, Options::default());
    assert_eq!(connect("lost").expect_err("unknown").kind(), ErrorKind::NoSuchFile);

    let description = Description::parse(FILE, None).expect("a description");
    let entry = registry.create(&description, "here").expect("created");
    let down = connect("found").expect_err("not up");
    assert!(down.to_string().contains("server 0 of partition found"), "{down}");
    assert!(down.to_string().contains("it is not running"), "{down}");

    let setup = Setup { servers: 2, stripe: 1000, slots: 0, tcp: &[0, 1] };
    let secret = *registry.secret(entry.id).expect("a secret").bytes();
    let fake = Fake::start_as(setup, entry.id, secret);
    registry
        .update("found", |entry| {
            for (server, addresses) in (0..).map(ServerId).zip(&fake.target().servers) {
                let Address::Tcp(host, port) = &addresses[0] else { unreachable!("told to use TCP") };
                let running = Running {
                    host: "here".into(),
                    pid: std::process::id(),
                    // A socket of another host: it does not exist here.
                    unix: "/nowhere/at/all".into(),
                    tcp: Some(format!("{host}:{port}")),
                    started: Stamp::now(),
                };
                entry.running.insert(server, running);
            }
        })
        .expect("updated");
    let partition = connect("found").expect("connected");
    assert_eq!((partition.name(), partition.id(), partition.servers().count()), ("found", entry.id, 2));
    partition.servers().for_each(|server| partition.ping(server).expect("answered"));
    registry
        .update("found", |entry| entry.running.values_mut().for_each(|running| running.tcp = None))
        .expect("updated");
    let elsewhere = connect("found").expect_err("nothing leads there");
    assert!(elsewhere.to_string().contains("partition found listens on no network address"), "{elsewhere}");
    std::fs::remove_dir_all(&dir).expect("removed");
}
