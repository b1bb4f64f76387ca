//! Writers that are killed between two replicas: the next open makes all replicas equal.

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use pario::{File, OpenOptions, Partition, PlacementMap, ServerId};

use super::dice::Dice;
use super::site::{Route, Shape, Site, connect};
use super::{soon, try_seeds};

/// Where a writer finds the site, and what it is to write.
const CHILD: &str = "PARIO_TEST_TORN";

const SIZE: u64 = 3 << 20;
const KEPT: [(Range<u64>, &[u16]); 2] = [(0..1 << 20, &[0, 1, 2]), (2 << 20..SIZE, &[2, 1])];

/// Rounds that are tried at most until a writer was killed just then.
const MOST_ROUNDS: u64 = 60;

/// Writes until it is killed.
fn writer(told: &str) {
    let (home, seed) = told.rsplit_once(' ').expect("two words");
    let client = connect(&PathBuf::from(home), Route::Far).expect("the partition is up");
    let file = open(&client, 0);
    let mut dice = Dice::new(seed.parse().expect("a number"));
    println!("\nconnected");
    loop {
        let bytes = vec![dice.next() as u8; 1 + dice.index(700_000)];
        let at = dice.below(SIZE - bytes.len() as u64);
        file.write_at(&bytes, at).expect("all servers are up");
    }
}

fn start(site: &Site, seed: u64) -> Child {
    let mut command = site.again(
        &[],
        "partition::divergent_replicas::the_next_open_repairs_replicas_that_a_killed_writer_left_divergent",
    );
    command.env(CHILD, format!("{} {seed}", site.home().display()));
    let mut child = command.stdout(Stdio::piped()).spawn().expect("this program can be started again");
    let output = BufReader::new(child.stdout.as_mut().expect("it is piped"));
    let connected = output.lines().map_while(Result::ok).any(|line| line == "connected");
    assert!(connected, "a writer did not get in");
    child
}

/// Opens the file and prefers the replicas of a server.
fn open(client: &Partition, home: u16) -> File {
    let file = client.open("/file", OpenOptions::new().read(true).write(true)).expect("it is there");
    file.set_home(ServerId(home));
    file
}

fn copies(files: &[File; 3]) -> [Vec<u8>; 3] {
    files.each_ref().map(|file| {
        let mut bytes = vec![0; SIZE as usize];
        file.read_exact_at(&mut bytes, 0).expect("all servers are up");
        bytes
    })
}

#[test]
fn the_next_open_repairs_replicas_that_a_killed_writer_left_divergent() {
    if let Ok(told) = std::env::var(CHILD) {
        return writer(&told);
    }
    try_seeds(&[51], |dice| writers_are_killed(dice, 2, |_| {}));
}

#[test]
fn divergent_replicas_are_repaired_after_the_server_was_killed_with_the_writer() {
    try_seeds(&[52], |dice| {
        writers_are_killed(dice, 1, |site| {
            site.kill_all();
            site.start();
        });
    });
}

/// Kills writers until replicas differed this many times, each time followed by `then`, and checks that an open makes them equal.
fn writers_are_killed(dice: &mut Dice, times: u32, then: impl Fn(&Site)) {
    let site = Site::up(Shape::new(3));
    let client = site.client();
    let kept = KEPT.map(|(range, numbers)| (range, numbers.iter().copied().map(ServerId).collect()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).table(PlacementMap::new(kept).expect("in order"));
    let file = client.open("/file", &options).expect("a new file");
    file.write_at(&vec![0; SIZE as usize], 0).expect("there is room");
    // A client that has it open already does not repair it.
    let before = [0, 1, 2].map(|home| open(&client, home));
    let sessions = |server| client.status(ServerId(server)).expect("it is up").traffic.sessions;
    let alone = [0, 1, 2].map(sessions);
    let mut torn = 0;
    for _ in 0..MOST_ROUNDS {
        let mut writers = [start(&site, dice.next()), start(&site, dice.next())];
        dice.pause(0..40);
        for writer in &mut writers {
            writer.kill().and_then(|()| writer.wait().map(drop)).expect("it runs");
        }
        then(&site);
        soon("no session of the dead", || [0, 1, 2].map(sessions) == alone);
        let [first, second, third] = copies(&before);
        torn += u32::from(first != second || second != third);
        let [first, second, third] = copies(&[0, 1, 2].map(|home| open(&client, home)));
        assert!(first == second && second == third, "copies differ");
        if torn == times {
            break;
        }
    }
    assert!(torn > 0, "no writer was ever killed between two copies");
    drop((before, file));
    site.succeed(&["check", "trial"]);
}
