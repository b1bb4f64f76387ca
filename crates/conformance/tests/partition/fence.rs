//! A process that keeps blocks in its memory, and a server that it loses sight of: it goes on with what it has if nobody
//! else got at it, and never shows or stores it if somebody did.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use pario::{File, OpenOptions, Partition, TierOptions};
use pario_types::ServerId;

use super::cable::{Cable, State};
use super::processes::Process;
use super::site::{Door, Shape, Site, connect};

/// How another start of this program is told to keep blocks, and how it gets in.
const KEEPS: &str = "PARIO_TEST_KEEPS";

const BLOCK: usize = 65536;

fn open(client: &Partition) -> File {
    let mut options = OpenOptions::new();
    client.open("/file", options.read(true).write(true).create(true)).expect("it can be opened")
}

/// What that process does: it stores ones in two blocks, keeps twos, and then does what it is told.
#[test]
fn a_process_that_keeps_blocks() {
    let Ok(door) = std::env::var(KEEPS) else { return };
    let home = std::env::var_os("PARIO_HOME").expect("the site says where it is");
    let door = match door.as_str() {
        "local" => Door::Local,
        "far" => Door::Far,
        port => Door::By(port.parse().expect("a port")),
    };
    let client = connect(home.as_ref(), door).expect("it is up");
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
struct Keeper {
    child: Child,
    told: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl Keeper {
    fn start(site: &Site, door: &str) -> Keeper {
        let mut command = site.again(&[], "partition::fence::a_process_that_keeps_blocks");
        command.env(KEEPS, door).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program runs");
        let said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut keeper = Keeper { told: child.stdin.take(), child, said };
        keeper.hear("kept");
        keeper
    }

    fn process(&self) -> Process {
        Process(self.child.id())
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

    /// What it could not store is lost, it hears of that once, and goes on.
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

/// A server that waits long, or hardly at all, for who has leased what others want.
fn site(is_patient: bool) -> Site {
    let more = if is_patient { "" } else { "deadline = 1s" };
    Site::up(Shape { more: more.into(), ..Shape::new(1) })
}

/// Others write nines.
fn overwrite(site: &Site) {
    open(&site.client()).write_at(&[9; 100], 0).expect("it may");
}

#[test]
fn a_killed_server_takes_what_was_kept_meanwhile() {
    for door in ["local", "far"] {
        let site = site(true);
        let keeper = Keeper::start(&site, door);
        assert!(site.kill(ServerId(0)));
        keeper.has_kept(&site);
    }
}

#[test]
fn a_partition_that_was_down_takes_what_was_kept_meanwhile() {
    let site = site(true);
    let keeper = Keeper::start(&site, "local");
    site.succeed(&["down", "trial"]);
    site.start();
    keeper.has_kept(&site);
}

/// Somebody else is there first, and waits for the process: he gets what it had not stored.
#[test]
fn after_a_killed_server_others_wait_for_what_was_kept() {
    let site = site(true);
    for door in ["local", "far"] {
        let keeper = Keeper::start(&site, door);
        assert!(site.kill(ServerId(0)));
        let mut bytes = [0; 2 * BLOCK];
        open(&site.client()).read_exact_at(&mut bytes, 0).expect("it is there");
        assert!(bytes.iter().all(|byte| *byte == 2), "{} {}", bytes[0], bytes[BLOCK]);
        keeper.has_kept(&site);
    }
}

/// The process does not run when the server comes back, so that others go on without it.
#[test]
fn who_missed_the_return_of_a_killed_server_overwrites_nothing() {
    let site = site(false);
    for door in ["local", "far"] {
        let keeper = Keeper::start(&site, door);
        keeper.process().stop();
        assert!(site.kill(ServerId(0)));
        overwrite(&site);
        keeper.process().go_on();
        keeper.has_lost(&site);
        open(&site.client()).set_len(0).expect("nobody has it");
    }
}

#[test]
fn a_cable_that_is_mended_costs_nothing() {
    let site = site(true);
    let cable = Cable::to(&site);
    let keeper = Keeper::start(&site, &cable.port().to_string());
    cable.set(State::Cut);
    cable.set(State::All);
    keeper.has_kept(&site);
}

/// Nobody waits for who is not connected; what he kept does not appear later, nor does he see it any more.
#[test]
fn who_was_cut_off_overwrites_nothing() {
    let site = site(true);
    let cable = Cable::to(&site);
    let keeper = Keeper::start(&site, &cable.port().to_string());
    cable.set(State::Cut);
    overwrite(&site);
    cable.set(State::All);
    keeper.has_lost(&site);
}

/// Nobody says that the cable is dead: others wait as long as they have to, and the process shows nothing of what it keeps
/// from then on, though it does not know more.
#[test]
fn what_may_be_out_of_date_is_not_shown() {
    let site = site(false);
    let cable = Cable::to(&site);
    let mut keeper = Keeper::start(&site, &cable.port().to_string());
    cable.set(State::Nothing);
    overwrite(&site);
    keeper.tell("read");
    cable.set(State::All);
    assert_eq!(keeper.hear("read: "), "read: 9 1");
    keeper.has_lost(&site);
}
