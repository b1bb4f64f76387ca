//! Tier 1 with real servers: programs that cache blocks in their own memory, and others that use the same file.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::Barrier;
use std::time::Duration;

use pario::{ErrorKind, File, OpenOptions, Options, Partition, TierFile, TierOptions};
use pario_types::ServerId;

use super::dice::Dice;
use super::processes::ProcessHandle;
use super::site::{Route, Shape, Site, connect};
use super::try_seeds;

fn open(client: &Partition) -> File {
    let mut options = OpenOptions::new();
    client.open("/file", options.read(true).write(true).create(true)).expect("it can be opened")
}

fn small(block: u64, blocks: u64, settle: u64) -> TierOptions {
    TierOptions {
        bytes: block * blocks,
        block,
        settle: Duration::from_millis(settle),
        ..TierOptions::default()
    }
}

/// A process that takes part: in a team, or outside of all teams.
struct Member {
    client: Partition,
    file: File,
    kept: Option<TierFile>,
}

impl Member {
    fn new(client: Partition, team: u128, options: &TierOptions) -> Member {
        let file = open(&client);
        let kept = (team > 0).then(|| client.tier1().open(&file, team, options).expect("there is memory"));
        Member { client, file, kept }
    }

    fn kept(&self) -> &TierFile {
        self.kept.as_ref().expect("it is of a team")
    }

    fn write(&self, bytes: &[u8], at: u64) {
        let written = match &self.kept {
            Some(kept) => kept.write_at(bytes, at),
            None => self.file.write_at(bytes, at),
        };
        written.expect("it can be written");
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> usize {
        let read = match &self.kept {
            Some(kept) => kept.read_at(bytes, at),
            None => self.file.read_at(bytes, at),
        };
        read.expect("it can be read")
    }
}

/// A truncation takes back all that lies beyond, up to the largest offset, which is in the middle of a stripe.
#[test]
fn a_truncation_recalls_leases_of_another_program_without_loss() {
    let site = Site::up(Shape { stripe: 100_000, block: 4096, ..Shape::new(2) });
    let writer = Member::new(site.client(), 1, &small(100_000, 6, 60_000));
    let other = Member::new(site.far_client(), 0, &small(100_000, 6, 0));
    writer.write(&[7; 250_000], 0);
    other.file.set_len(150_000).expect("what is kept is given up in time");
    writer.kept().flush().expect("nothing is lost: it was stored before");
    let mut bytes = vec![0xa5; 200_000];
    assert_eq!(other.read(&mut bytes, 0), 150_000);
    assert!(bytes[..150_000].iter().all(|byte| *byte == 7));
}

/// Two processes of one team, whose blocks alternate, another team, and two processes without a team take turns.
#[test]
fn every_client_reads_the_last_write() {
    // Blocks of tier 1 are smaller than those of servers, the same, or several stripes.
    for (stripe, block, own) in [(4096, 16384, 4096), (65536, 65536, 65536), (4096, 4096, 8192)] {
        let site = Site::up(Shape { stripe, block, ..Shape::new(2) });
        try_seeds(&[1], |dice| tell_the_last(&site, own, dice));
    }
}

fn tell_the_last(site: &Site, own: u64, dice: &mut Dice) {
    let reach = 24 * own;
    let options = small(own, 6, dice.pick(&[0, 1000]));
    let members = [
        Member::new(site.client(), 1, &options),
        Member::new(site.far_client(), 1, &options),
        Member::new(site.client(), 2, &options),
        Member::new(site.client(), 0, &options),
        Member::new(site.far_client(), 0, &options),
    ];
    let mut model = vec![0; reach as usize];
    members[3].write(&model, 0);
    for _ in 0..300 {
        let at = dice.below(reach);
        let len = dice.pick(&[1, 100, own, 3 * own]).min(reach - at);
        let (at, len, who) = match dice.index(4) {
            // A process of the first team keeps to its block.
            0 => (at, len.min(own - at % own), (at / own % 2) as usize),
            who => (at, len, who + 1),
        };
        let range = at as usize..(at + len) as usize;
        match dice.index(8) {
            0..4 => {
                let bytes = dice.bytes(len as usize);
                members[who].write(&bytes, at);
                model[range].copy_from_slice(&bytes);
            }
            7 if who < 3 => members[who].kept().flush().expect("it can be staged"),
            _ => {
                let mut bytes = vec![0xa5; len as usize];
                assert_eq!(members[who].read(&mut bytes, at), bytes.len());
                assert!(bytes == model[range], "{who} read something else at {at}, {len} bytes");
            }
        }
    }
    let recalls: u64 = members.iter().map(|member| member.client.tier1().counters().recalls).sum();
    assert!(recalls > 0);
    for member in members {
        let peak = member.client.tier1().counters().peak_bytes;
        assert!(peak <= options.bytes, "{peak}");
        if let Some(kept) = member.kept {
            kept.close(dice.one_in(2)).expect("it can be stored");
        }
        member.file.close().expect("it can be stored");
    }
    let mut bytes = model.clone();
    open(&site.client()).read_exact_at(&mut bytes, 0).expect("it is all there");
    assert!(bytes == model);
}

/// All processes at the same time: each holds a range from the read to the write of its increment.
#[test]
fn concurrent_increments_under_leases_add_up() {
    const ROUNDS: u64 = 60;
    const BLOCK: u64 = 4096;
    let site = Site::up(Shape { stripe: 4096, block: 4096, ..Shape::new(2) });
    open(&site.client()).write_at(&[0; 8 * BLOCK as usize], 0).expect("there is room");
    std::thread::scope(|scope| {
        for (team, first) in [(1, 0), (1, 1), (2, 0), (3, 0)] {
            let client = if team == 3 { site.far_client() } else { site.client() };
            scope.spawn(move || {
                let member = Member::new(client, team, &small(BLOCK, 4, 1));
                for round in 0..ROUNDS {
                    // The first team's processes alternate; the others take several blocks at once.
                    let at = (round % 4 * 2 + first) * BLOCK;
                    let len = if team == 1 { BLOCK } else { (3 * BLOCK).min(8 * BLOCK - at) };
                    let mut bytes = vec![0; len as usize];
                    let hold = member.kept().hold(at..at + len).expect("others let go");
                    assert_eq!(member.read(&mut bytes, at) as u64, len);
                    bytes[0] += 1;
                    member.write(&bytes, at);
                    drop(hold);
                }
                member.kept.expect("it is of a team").close(false).expect("it can be stored");
            });
        }
        // A client outside of the team sees no count go down.
        let file = open(&site.far_client());
        let mut last = [0; 8];
        for _ in 0..ROUNDS {
            for (block, last) in last.iter_mut().enumerate() {
                let mut count = [0];
                file.read_exact_at(&mut count, block as u64 * BLOCK).expect("it is there");
                assert!(count[0] >= *last, "{} after {last}", count[0]);
                *last = count[0];
            }
        }
    });
    let mut bytes = vec![0; 8 * BLOCK as usize];
    open(&site.client()).read_exact_at(&mut bytes, 0).expect("it is there");
    let total: u64 = bytes.iter().map(|count| u64::from(*count)).sum();
    assert_eq!(total, 4 * ROUNDS);
}

/// Servers are killed while blocks go to them. The test starts them again.
#[test]
fn cached_bytes_survive_killed_servers() {
    let site = Site::up(Shape::new(2));
    let member = Member::new(site.client(), 1, &small(65536, 8, 0));
    let far = Member::new(site.far_client(), 2, &small(65536, 8, 0));
    let bytes = Dice::new(5).bytes(12 << 20);
    for (round, piece) in bytes.chunks(1 << 20).enumerate() {
        let who = if round % 2 == 0 { &member } else { &far };
        who.write(piece, (round << 20) as u64);
        if round % 3 == 1 {
            site.kill(ServerId((round / 3 % 2) as u16));
        }
    }
    for member in [member, far] {
        member.kept.expect("it is of a team").close(false).expect("it can be stored");
        member.file.close().expect("it can be stored");
    }
    let mut back = vec![0; bytes.len()];
    open(&site.client()).read_exact_at(&mut back, 0).expect("it is there");
    assert!(back == bytes, "it is not what was written");
}

/// Two programs read at the same time what the other one has not stored: neither waits for the other's reading.
#[test]
fn two_teams_that_request_each_others_leases_get_them() {
    let site = Site::up(Shape::new(1));
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        for (team, client) in [(1, site.client()), (2, site.client())] {
            let both = &both;
            scope.spawn(move || {
                let member = Member::new(client, team, &small(65536, 4, 1_000_000));
                let (own, others) = (65536 * (team as u64 - 1), 65536 * (2 - team as u64));
                for round in 1..40 {
                    member.write(&[round; 65536], own);
                    both.wait();
                    let mut bytes = vec![0; 65536];
                    assert_eq!(member.read(&mut bytes, others), bytes.len());
                    assert!(bytes.iter().all(|byte| *byte == round), "round {round}");
                    both.wait();
                }
                member.kept.expect("it is of a team").close(false).expect("nobody was cut off");
            });
        }
    });
}

/// How another start of this program gets in, to be stopped.
const STOPPED: &str = "PARIO_TEST_STOPPED";

/// The work of the process that is stopped: it caches its writes to two blocks, and reports the outcome of the flush.
fn a_process_that_is_stopped(route: &str) {
    let home = std::env::var_os("PARIO_HOME").expect("the site says where it is");
    let route = if route == "far" { Route::Far } else { Route::Local };
    let member =
        Member::new(connect(home.as_ref(), route).expect("it is up"), 1, &small(65536, 8, 1_000_000));
    member.write(&[1; 2 * 65536], 0);
    member.kept().flush().expect("nobody else is there");
    member.write(&[2; 2 * 65536], 0);
    let mut line = String::new();
    println!("written");
    std::io::stdin().read_line(&mut line).expect("it is told to go on");
    println!("first: {:?}", member.kept().flush().map_err(|error| error.to_string()));
    println!("then: {:?}", member.kept().flush().map_err(|error| error.to_string()));
    member.write(&[3; 10], 65536);
    member.kept.expect("it is of a team").close(false).expect("it can be stored");
    println!("closed");
}

/// A process that does not run cannot give up its lease. The server revokes it, the dirty bytes of the process are never
/// stored, and the process gets an error.
#[test]
fn a_process_stopped_too_long_overwrites_nothing() {
    if let Ok(route) = std::env::var(STOPPED) {
        return a_process_that_is_stopped(&route);
    }
    let site = Site::up(Shape { more: "deadline = 1s".into(), ..Shape::new(1) });
    for route in ["local", "far"] {
        let mut stopped = site.again(&[], "partition::tier1::a_process_stopped_too_long_overwrites_nothing");
        stopped.env(STOPPED, route).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut stopped = stopped.spawn().expect("this program runs");
        let process = ProcessHandle(stopped.id());
        let mut said = BufReader::new(stopped.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let mut next = |word: &str| said.find(|line| line.contains(word)).expect("it says more");
        next("written");
        process.stop();
        let other = Member::new(site.client(), 0, &small(65536, 2, 0));
        other.write(&[9; 100], 0);
        process.go_on();
        stopped.stdin.take().expect("a pipe").write_all(b"\n").expect("it listens");
        let first = next("first: ");
        assert!(
            first.contains("Err") && first.contains("let them go on") && first.contains("is lost"),
            "{first}"
        );
        assert!(next("then: ").contains("Ok"));
        next("closed");
        assert!(stopped.wait().expect("it ends").success());
        let mut bytes = vec![0; 65536 + 20];
        assert_eq!(other.read(&mut bytes, 0), bytes.len());
        assert!(bytes[..100] == [9; 100] && bytes[100..65536].iter().all(|byte| *byte == 1));
        assert_eq!(bytes[65536..], [[3; 10], [1; 10]].concat());
        open(&site.client()).set_len(0).expect("nobody has it");
    }
}

/// The servers are down: the writer gets an error, and when they are back nothing is missing.
#[test]
fn unreachable_servers_are_an_error_of_the_writer() {
    let site = Site::up(Shape::new(2));
    let options = Options { deadline: Duration::from_secs(1), ..Options::default() };
    let client = Partition::open_by_name(&site.home(), "trial", options).expect("it is up");
    let member = Member::new(client, 1, &small(65536, 8, 1000));
    let bytes = Dice::new(6).bytes(4 * 65536);
    eventually(|| member.kept().write_at(&bytes, 0));
    site.kill_all();
    let more = |at: u64| member.kept().write_at(&bytes, at * bytes.len() as u64);
    let error = (1..100).find_map(|at| more(at).err()).expect("memory is not endless");
    assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::FileInUse), "{error}");
    let error = member.kept().flush().expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    site.start();
    eventually(|| member.kept().flush());
    let mut back = vec![0; bytes.len()];
    open(&site.client()).read_exact_at(&mut back, 0).expect("it is there");
    assert!(back == bytes, "it is not what was written");
}

/// Does what works, but perhaps not in the short time that the client gives its servers on a busy machine.
fn eventually(act: impl Fn() -> Result<(), pario::Error>) {
    let mut outcome = act();
    for _ in 0..60 {
        outcome = outcome.or_else(|_| act());
    }
    outcome.expect("it works in the end");
}

/// The storage of server 1 holds 8 MiB.
#[test]
fn a_full_disk_is_an_error_of_the_flush_until_there_is_room() {
    let mut site = Site::new(Shape { cache: 1 << 20, ..Shape::new(2) });
    if !site.mount(1, "8m") {
        return;
    }
    let ballast = site.data(1).join("ballast");
    fs::write(&ballast, vec![1; 6 << 20]).expect("there is room");
    site.start();
    let client = site.client();
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).stripe_count(1).first_server(1);
    let file = client.open("/full", options).expect("a new file");
    let kept = client.tier1().open(&file, 1, &small(65536, 128, 1)).expect("there is memory");
    let bytes = Dice::new(7).bytes(5 << 20);
    kept.write_at(&bytes, 0).expect("it is in memory");
    let error = kept.flush().and_then(|()| file.sync()).expect_err("there is no room");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    fs::remove_file(ballast).expect("it is there");
    kept.flush().and_then(|()| file.sync()).expect("there is room");
    let mut back = vec![0; bytes.len()];
    file.read_exact_at(&mut back, 0).expect("it is there");
    assert!(back == bytes, "it is not what was written");
    kept.close(false).and_then(|()| file.close()).expect("nothing is missing");
}

/// Blocks that stay cached after a close serve the next open, until another program writes or truncates the file.
#[test]
fn clean_blocks_stay_cached_until_they_are_recalled() {
    let site = Site::up(Shape::new(2));
    let (client, other_client) = (site.client(), site.client());
    let bytes = Dice::new(8).bytes(500_000);
    let mut back = vec![0; bytes.len()];
    for (round, change) in ["nothing", "write", "cut"].into_iter().enumerate() {
        let file = open(&client);
        let kept = client.tier1().open(&file, 9, &TierOptions::default()).expect("there is memory");
        kept.write_at(&bytes, 0).expect("there is memory");
        kept.close(true).and_then(|()| file.close()).expect("it can be stored");
        let other = open(&other_client);
        assert_eq!(client.tier1().retained(other.id()), Some(9));
        match change {
            "write" => other.write_at(&[1; 10], 100_000).expect("written"),
            "cut" => other.set_len(100).expect("cut"),
            _ => {}
        }
        let fetched = client.tier1().counters().fetched_blocks;
        let file = open(&client);
        let kept = client.tier1().open(&file, 9, &TierOptions::default()).expect("there is memory");
        let count = kept.read_at(&mut back, 0).expect("it can be read");
        let fetched = client.tier1().counters().fetched_blocks - fetched;
        let (expected, most) = [(bytes.len(), 0), (bytes.len(), 1), (100, 8)][round];
        assert_eq!(count, expected);
        assert!(fetched <= most, "{fetched} blocks were fetched after {change}");
        let changed = if change == "write" { 100_000..100_010 } else { 0..0 };
        assert!((0..count).all(|at| back[at] == if changed.contains(&at) { 1 } else { bytes[at] }));
        kept.close(false).and_then(|()| file.close()).expect("it can be stored");
    }
}
