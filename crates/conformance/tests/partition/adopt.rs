//! The directories of its servers hold all of a partition: `pario up --adopt` registers it again from them, also if the registry is lost.

use std::fs;

use pario_conformance::Hosts;

use super::site::{Shape, Site, run_directory};

const BYTES: usize = 3_000_000;

/// `pario up --adopt` with these servers' directories.
fn arguments(site: &Site, servers: &[u16]) -> Vec<String> {
    let directories = servers.iter().map(|server| site.data(*server).to_string_lossy().into_owned());
    ["up", "--adopt"].map(str::to_owned).into_iter().chain(directories).collect()
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// The one line of a command that has to fail.
#[track_caller]
fn refused(site: &Site, arguments: &[&str]) -> String {
    let output = site.try_pario(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.lines().count() == 1, "{said}");
    said
}

#[test]
fn an_unregistered_partition_is_adopted_from_its_directories_alone() {
    let site = Site::up(Shape { stripe: 4096, more: "deadline = 45s\n".into(), ..Shape::new(3) });
    let bytes = site.write("/file", BYTES);
    let before = site.entry();
    site.succeed(&["down", "trial", "--forget"]);
    let said = site.succeed(&words(&arguments(&site, &[2, 0, 1])));
    assert!(said.starts_with("partition trial is up"), "{said}");
    site.expect_there("/file", &bytes);
    let after = site.entry();
    assert_eq!(
        (after.id, &after.description),
        (before.id, &before.description),
        "in the order of its servers"
    );
    let said = refused(&site, &words(&arguments(&site, &[2, 0, 1])));
    assert!(said.contains("is in use by a running server"), "{said}");
    site.stop();
    let said = refused(&site, &words(&arguments(&site, &[2, 0, 1])));
    assert!(said.contains("registered already, as trial"), "{said}");
    // The registry is lost altogether, one directory has moved, and the partition file is there.
    fs::remove_dir_all(site.home()).expect("removed");
    site.succeed(&["up", &site.file().to_string_lossy(), "--adopt"]);
    site.expect_there("/file", &bytes);
    site.succeed(&["down", "trial", "--forget"]);
    fs::rename(site.data(1), site.data(7)).expect("nobody uses it");
    site.succeed(&words(&arguments(&site, &[7, 0, 2])));
    site.expect_there("/file", &bytes);
}

#[test]
fn missing_or_foreign_directories_are_not_adopted() {
    let (site, other) = (Site::up(Shape::new(3)), Site::up(Shape::new(1)));
    let bytes = site.write("/file", BYTES);
    other.stop();
    site.succeed(&["down", "trial", "--forget"]);
    let said = refused(&site, &words(&arguments(&site, &[0, 2])));
    assert!(said.contains("the directory of server 1 of partition trial is missing"), "{said}");
    assert!(said.contains(&*site.data(1).to_string_lossy()), "{said}");
    let foreign = other.data(0).to_string_lossy().into_owned();
    let said = refused(&site, &words(&[arguments(&site, &[0, 1]), vec![foreign.clone()]].concat()));
    assert!(said.contains(&format!("{foreign} is of another partition")), "{said}");
    let said = refused(&site, &words(&arguments(&site, &[0, 1, 2, 9])));
    assert!(said.contains("data9 cannot be adopted"), "{said}");
    let manifest = site.data(1).join("partition");
    let good = fs::read(&manifest).expect("read");
    fs::write(&manifest, &good[..good.len() - 9]).expect("written");
    let said = refused(&site, &words(&arguments(&site, &[0, 1, 2])));
    assert!(said.contains("its checksum is wrong"), "{said}");
    assert!(site.succeed(&["list"]).starts_with("no partitions"));
    fs::write(&manifest, good).expect("written");
    site.succeed(&words(&arguments(&site, &[0, 1, 2])));
    site.expect_there("/file", &bytes);
}

/// The servers were killed and the registry is lost: what only their pools have is found as well.
#[test]
fn adoption_stores_dirty_pools_of_killed_servers() {
    let site = Site::new(Shape { cache: 16 << 20, more: "high_water = 100%\n".into(), ..Shape::new(2) });
    site.start_slow(2_000_000);
    let bytes = site.write("/file", BYTES);
    let entry = site.entry();
    site.kill_all();
    fs::remove_dir_all(site.home()).expect("removed");
    let listed = site.succeed(&["list"]);
    assert_eq!(listed.matches(&format!("({})", entry.id)).count(), 2, "{listed}");
    assert!(run_directory(&entry).exists());
    site.succeed(&words(&arguments(&site, &[1, 0])));
    site.expect_there("/file", &bytes);
}

#[test]
fn directories_of_other_hosts_are_adopted_through_the_launcher() {
    let Some(hosts) = Hosts::new(2) else { return };
    let nodes = [1, 2].map(|number| format!("host{number}"));
    let mut site = Site::on(Shape::new(2), &nodes);
    (site.prefix, site.ssh) = (hosts.prefix(0), Some(hosts.ssh().to_owned()));
    site.start();
    let input = site.path("input");
    fs::write(&input, "some bytes").expect("written");
    site.succeed(&["cp", &input.to_string_lossy(), "trial:/file"]);
    site.succeed(&["down", "trial", "--forget"]);
    let place = |number: u16| format!("host{}:{}", number + 1, site.data(number).display());
    site.succeed(&["up", "--adopt", &place(1), &place(0)]);
    assert_eq!(site.succeed(&["cat", "trial:/file"]), "some bytes");
    site.stop();
}
