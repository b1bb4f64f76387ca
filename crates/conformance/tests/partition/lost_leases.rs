//! A process with blocks in tier 1 loses the connection to a server. It keeps its blocks if no other program got their
//! leases, and never returns or stores them if one did.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use pario::{File, OpenOptions, Partition, TierOptions};
use pario_types::ServerId;

use super::faulty_proxy::{FaultyProxy, State};
use super::processes::ProcessHandle;
use super::site::{Route, Shape, Site, connect};

/// How another start of this program is told to keep blocks, and how it gets in.
const KEEPS: &str = "PARIO_TEST_KEEPS";

const BLOCK: usize = 65536;

fn open(client: &Partition) -> File {
    let mut options = OpenOptions::new();
    client.open("/file", options.read(true).write(true).create(true)).expect("it can be opened")
}

/// The work of that process: it stores ones in two blocks, caches twos, and then executes the commands of the test.
fn a_process_that_keeps_blocks(route: &str) {
    let home = std::env::var_os("PARIO_HOME").expect("the site says where it is");
    let route = match route {
        "local" => Route::Local,
        "far" => Route::Far,
        port => Route::By(port.parse().expect("a port")),
    };
    let client = connect(home.as_ref(), route).expect("it is up");
    let file = open(&client);
    let settle = Duration::from_secs(1000);
    let options =
        TierOptions { bytes: 8 * BLOCK as u64, block: BLOCK as u64, settle, ..TierOptions::default() };
    let kept = client.tier1().open(&file, 1, &options).expect("there is memory");
    kept.write_at(&[1; 2 * BLOCK], 0).and_then(|()| kept.flush()).expect("nobody else is there");
    kept.write_at(&[2; 2 * BLOCK], 0).expect("it is in memory");
    println!("kept");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let mut bytes = [0; BLOCK + 1];
        let said = match line.as_str() {
            "read" => kept.read_at(&mut bytes, 0).map(|_| format!("{} {}", bytes[0], bytes[BLOCK])),
            "write" => kept.write_at(&[3; 10], BLOCK as u64).map(|()| "done".into()),
            "flush" => kept.flush().map(|()| "done".into()),
            other => panic!("{other}"),
        };
        println!("{line}: {}", said.unwrap_or_else(|error| error.to_string()));
    }
    kept.close(false).and_then(|()| file.close()).expect("it can be stored");
    println!("closed");
}

/// That process, seen from here.
struct CachingProcess {
    child: Child,
    told: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl CachingProcess {
    fn start(site: &Site, route: &str) -> CachingProcess {
        let mut command =
            site.again(&[], "partition::lost_leases::a_restarted_server_accepts_bytes_cached_meanwhile");
        command.env(KEEPS, route).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program runs");
        let said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut caching = CachingProcess { told: child.stdin.take(), child, said };
        caching.hear("kept");
        caching
    }

    fn process(&self) -> ProcessHandle {
        ProcessHandle(self.child.id())
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.told.as_mut().expect("it listens"), "{what}").expect("it listens");
    }

    fn hear(&mut self, word: &str) -> String {
        let said = self.said.by_ref().map_while(Result::ok);
        said.into_iter().find(|line| line.contains(word)).expect("it says more")
    }

    fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.hear(&format!("{what}: "))
    }

    /// The bytes that it could not store are lost; it gets one error and continues.
    fn has_lost(mut self, site: &Site) {
        assert_eq!(self.ask("read"), "read: 9 1", "what others wrote, and what was stored before");
        let first = self.ask("flush");
        assert!(first.contains("let them go on") && first.contains("is lost"), "{first}");
        assert_eq!(self.ask("flush"), "flush: done");
        assert_eq!(self.ask("write"), "write: done");
        self.ends();
        let mut bytes = [0; BLOCK + 11];
        open(&site.client()).read_exact_at(&mut bytes, 0).expect("it is there");
        assert!(bytes[..100] == [9; 100] && bytes[100..BLOCK].iter().all(|byte| *byte == 1));
        assert_eq!(bytes[BLOCK..], [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 1]);
    }

    /// Nobody else got at what it keeps, so that nothing is lost.
    fn has_kept(mut self, site: &Site) {
        assert_eq!(self.ask("read"), "read: 2 2");
        assert_eq!(self.ask("flush"), "flush: done");
        self.ends();
        let mut bytes = [0; 2 * BLOCK];
        open(&site.client()).read_exact_at(&mut bytes, 0).expect("it is there");
        assert!(bytes.iter().all(|byte| *byte == 2));
    }

    fn ends(mut self) {
        drop(self.told.take());
        self.hear("closed");
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// A server that waits long, or hardly at all, for the holder of a recalled lease.
fn site(is_patient: bool) -> Site {
    let more = if is_patient { "" } else { "deadline = 1s" };
    Site::up(Shape { more: more.into(), ..Shape::new(1) })
}

/// Others write nines.
fn overwrite(site: &Site) {
    open(&site.client()).write_at(&[9; 100], 0).expect("it may");
}

#[test]
fn a_restarted_server_accepts_bytes_cached_meanwhile() {
    if let Ok(route) = std::env::var(KEEPS) {
        return a_process_that_keeps_blocks(&route);
    }
    for route in ["local", "far"] {
        let site = site(true);
        let caching = CachingProcess::start(&site, route);
        assert!(site.kill(ServerId(0)));
        caching.has_kept(&site);
    }
}

#[test]
fn a_partition_that_was_down_accepts_bytes_cached_meanwhile() {
    let site = site(true);
    let caching = CachingProcess::start(&site, "local");
    site.succeed(&["down", "trial"]);
    site.start();
    caching.has_kept(&site);
}

/// Another client accesses the file first. It waits for the process and reads what the process had not stored before.
#[test]
fn after_a_server_restart_other_clients_wait_for_leases() {
    let site = site(true);
    for route in ["local", "far"] {
        let caching = CachingProcess::start(&site, route);
        assert!(site.kill(ServerId(0)));
        let mut bytes = [0; 2 * BLOCK];
        open(&site.client()).read_exact_at(&mut bytes, 0).expect("it is there");
        assert!(bytes.iter().all(|byte| *byte == 2), "{} {}", bytes[0], bytes[BLOCK]);
        caching.has_kept(&site);
    }
}

/// The process does not run when the server comes back, so that others go on without it.
#[test]
fn a_process_that_missed_the_restart_of_a_killed_server_overwrites_nothing() {
    let site = site(false);
    for route in ["local", "far"] {
        let caching = CachingProcess::start(&site, route);
        caching.process().stop();
        assert!(site.kill(ServerId(0)));
        overwrite(&site);
        caching.process().go_on();
        caching.has_lost(&site);
        open(&site.client()).set_len(0).expect("nobody has it");
    }
}

#[test]
fn leases_survive_a_repaired_connection() {
    let site = site(true);
    let proxy = FaultyProxy::to(&site);
    let caching = CachingProcess::start(&site, &proxy.port().to_string());
    proxy.set(State::Cut);
    proxy.set(State::All);
    caching.has_kept(&site);
}

/// The server does not wait for a process without a connection; the cached bytes of the process are neither stored nor read later.
#[test]
fn a_process_that_was_cut_off_overwrites_nothing() {
    let site = site(true);
    let proxy = FaultyProxy::to(&site);
    let caching = CachingProcess::start(&site, &proxy.port().to_string());
    proxy.set(State::Cut);
    overwrite(&site);
    proxy.set(State::All);
    caching.has_lost(&site);
}

/// Nobody says that the proxy is dead: others wait as long as they have to, and the process shows nothing of what it keeps
/// from then on, though it does not know more.
#[test]
fn possibly_stale_bytes_are_not_read() {
    let site = site(false);
    let proxy = FaultyProxy::to(&site);
    let mut caching = CachingProcess::start(&site, &proxy.port().to_string());
    proxy.set(State::Nothing);
    overwrite(&site);
    caching.tell("read");
    proxy.set(State::All);
    assert_eq!(caching.hear("read: "), "read: 9 1");
    caching.has_lost(&site);
}
