//! Starting and stopping: one of several concurrent `pario up` starts the servers, a killed one does not prevent the next, and
//! after `pario down` only the data is left.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use super::dice::Dice;
use super::site::{Shape, Site, run_directory};
use super::{soon, within};

/// Bytes of a file that fits into no cache.
const BYTES: usize = 5_000_000;

#[test]
fn down_leaves_the_data_and_nothing_else() {
    let site = Site::up(Shape::new(3));
    // Neither synced nor closed by its writer: that is for the servers to do.
    let bytes = site.write("/file", BYTES);
    let entry = site.entry();
    assert_eq!((site.server_processes().len(), site.processes().len()), (3, 6));
    assert!(run_directory(&entry).join("0/socket").exists());
    site.succeed(&["down", "trial"]);
    // Not even for a moment.
    assert!(!run_directory(&entry).exists(), "{}", run_directory(&entry).display());
    soon("no process is left", || site.processes().is_empty());
    site.start();
    site.expect_there("/file", &bytes);
    site.stop();
    for server in 0..3 {
        assert!(site.data(server).join("format").exists());
    }
    site.start();
    site.expect_there("/file", &bytes);
}

/// Everything is on this host: no interface of it is opened to the network, unless the user says so.
#[test]
fn servers_of_one_host_listen_on_no_network_address_by_default() {
    let site = Site::new(Shape { more: "listen = auto\n".into(), ..Shape::new(2) });
    let said = site.start();
    assert_eq!(said.matches("local socket only").count(), 2, "{said}");
    assert!(site.succeed(&["status", "trial"]).contains("servers listen on local sockets only"));
    for process in site.server_processes() {
        assert_eq!(process.listens_at(), Vec::<String>::new());
    }
    let bytes = site.write("/file", BYTES);
    site.expect_there("/file", &bytes);
    site.stop();
    for (listen, address) in [("127.0.0.1", "0100007F:"), ("all", "00000000:")] {
        let said = site.succeed(&["up", "trial", "--set", &format!("listen={listen}")]);
        assert!(!said.contains("local socket only"), "{said}");
        for process in site.server_processes() {
            let listens = process.listens_at();
            assert!(listens.len() == 1 && listens[0].starts_with(address), "{listens:?}");
        }
        site.stop();
    }
}

#[test]
fn an_empty_directory_is_not_mistaken_for_the_data() {
    let site = Site::up(Shape::new(2));
    let bytes = site.write("/file", BYTES);
    site.stop();
    fs::rename(site.data(1), site.path("elsewhere")).expect("nobody uses it");
    fs::create_dir(site.data(1)).expect("a new directory");
    let output = site.try_pario(&["up", "trial"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("holds no data of this partition"), "{said}");
    soon("no server is left", || site.processes().is_empty());
    fs::remove_dir(site.data(1)).expect("nothing was put there");
    fs::rename(site.path("elsewhere"), site.data(1)).expect("nobody uses it");
    site.start();
    site.expect_there("/file", &bytes);
}

#[test]
fn concurrent_ups_start_one_set_of_servers() {
    let site = Site::new(Shape::new(3));
    for _ in 0..2 {
        let file = site.file();
        let starters: Vec<_> = (0..5)
            .map(|_| {
                let mut up = site.pario(&["up", &file.to_string_lossy()]);
                up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pario runs")
            })
            .collect();
        for starter in starters {
            let output = starter.wait_with_output().expect("it ends");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        assert_eq!((site.server_processes().len(), site.processes().len()), (3, 6));
        let bytes = site.write("/file", BYTES);
        site.expect_there("/file", &bytes);
        site.stop();
    }
}

/// Kills `pario up` at random moments; after each one `up` brings the partition up.
fn starters_are_killed(up: impl Fn(&Site)) {
    let site = Site::new(Shape::new(3));
    let mut dice = Dice::new(41);
    let mut expected: Option<Vec<u8>> = None;
    for attempt in 0..8u64 {
        let mut starter = site.pario(&["up", &site.file().to_string_lossy()]);
        let mut starter = starter.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pario runs");
        dice.pause(attempt * 4..attempt * 4 + 20);
        starter.kill().expect("it has not been waited for");
        starter.wait().expect("it can be waited for");
        up(&site);
        soon("there is one set of servers", || is_one_set(&site));
        if let Some(bytes) = &expected {
            site.expect_there("/file", bytes);
        }
        expected = Some(site.write("/file", BYTES));
        site.stop();
    }
}

/// A server and a supervisor for each.
fn is_one_set(site: &Site) -> bool {
    let servers = usize::from(site.shape().servers);
    (site.server_processes().len(), site.processes().len()) == (servers, 2 * servers)
}

#[test]
fn up_works_after_a_killed_up() {
    starters_are_killed(|site| {
        soon("the partition is up", || {
            site.start();
            is_one_set(site)
        });
    });
}

#[test]
fn up_works_at_once_after_a_killed_up() {
    (0..4).for_each(|_| starters_are_killed(|site| drop(site.start())));
}

/// A supervisor gives up on a server that dies again and again; `pario up` does not.
#[test]
fn up_restarts_servers_whose_supervisor_is_slow() {
    let site = Site::up(Shape::new(2));
    let bytes = site.write("/file", BYTES);
    let entry = site.entry();
    let gone = pario_types::ServerId(0);
    let (path, mut kills) = (site.home().join("logs/trial.0.log"), 0);
    within(Duration::from_secs(60), "the supervisor waits longer", || {
        let log = fs::read_to_string(&path).unwrap_or_default();
        // A server that is killed before it serves is not one that died: its start failed, and is repeated.
        if log.matches("another server was started").count() == kills {
            kills += usize::from(site.kill(gone));
        }
        log.contains("it dies too often")
    });
    assert!(run_directory(&entry).join("0/pool").exists(), "what it had in memory is kept");
    let said = site.start();
    assert!(said.starts_with("partition trial is up"), "{said}");
    assert_eq!((site.server_processes().len(), site.processes().len()), (2, 4));
    site.expect_there("/file", &bytes);
}

/// Both were killed, so no process restarts the server; its dirty blocks are still in the pool.
#[test]
fn a_server_and_its_supervisor_may_die_together() {
    let site = Site::up(Shape { cache: 16 << 20, more: "high_water = 100%\n".into(), ..Shape::new(2) });
    let bytes = site.write("/file", BYTES);
    site.kill_all();
    site.start();
    site.expect_there("/file", &bytes);
}

#[test]
fn a_new_cache_size_applies_at_the_next_start() {
    let site = Site::up(Shape { cache: 16 << 20, ..Shape::new(1) });
    let bytes = site.write("/file", BYTES);
    // Killed with all that is in its cache, and started with a smaller one.
    site.kill_all();
    site.succeed(&["up", "trial", "--set", "cache=1M"]);
    site.expect_there("/file", &bytes);
    let status = site.client().status(pario_types::ServerId(0)).expect("it answers");
    assert_eq!(u64::from(status.pool.slots) * u64::from(status.pool.block), 1 << 20);
}
