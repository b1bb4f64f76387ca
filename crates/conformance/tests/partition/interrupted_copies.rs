//! A process that is stopped during a copy into the pool of a server, while the partition goes down and up: its acknowledged
//! writes are there.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use pario::{File, OpenOptions, Partition, TierOptions};
use pario_types::ServerId;

use super::dice::Dice;
use super::processes::ProcessHandle;
use super::site::{Route, Shape, Site, connect};
use super::try_seeds;

/// How another start of this program is told which way to write, and the file that ends it.
const WRITES: &str = "PARIO_TEST_WRITES";
const END: &str = "PARIO_TEST_END";

/// Large blocks: copies are nearly all that the process does.
const BLOCK: usize = 1 << 20;
const BLOCKS: usize = 8;

fn open(client: &Partition) -> File {
    let mut options = OpenOptions::new();
    client.open("/file", options.read(true).write(true).create(true)).expect("it can be opened")
}

/// The work of that process: it writes the same number to all bytes of some blocks, then the next number, until the test ends it.
fn a_process_that_writes(way: &str) {
    let end = PathBuf::from(std::env::var_os(END).expect("the test says where"));
    let home = std::env::var_os("PARIO_HOME").expect("the site says where it is");
    let client = connect(home.as_ref(), Route::Local).expect("it is up");
    let file = open(&client);
    let tier = TierOptions {
        bytes: (4 * BLOCKS * BLOCK) as u64,
        block: BLOCK as u64,
        settle: Duration::from_secs(1000),
        ..TierOptions::default()
    };
    let kept = (way == "tier1").then(|| client.tier1().open(&file, 1, &tier).expect("there is memory"));
    let mut bytes = vec![0; BLOCKS * BLOCK];
    let mut number = 0u8;
    let mut at = 0;
    while !end.exists() {
        number = number.wrapping_add(1);
        bytes.fill(number);
        match (&kept, way) {
            (Some(kept), _) => kept.write_at(&bytes, at).and_then(|()| kept.flush()),
            (None, "fills") => {
                // Blocks that no pool has.
                at += bytes.len() as u64;
                file.write_at(&bytes, at)
            }
            (None, _) => file.write_at(&bytes, at),
        }
        .expect("it can be written");
    }
    if let Some(kept) = kept {
        kept.close(false).expect("it can be stored");
    }
    file.sync().and_then(|()| file.close()).expect("it can be stored");
    println!("wrote {number} at {at}");
}

/// Stops that process at a moment when it has a block pinned.
fn stop_in_a_copy(site: &Site, process: ProcessHandle, dice: &mut Dice) {
    let client = site.client();
    let pinned = || client.status(ServerId(0)).expect("it answers").pool.pinned_slots;
    loop {
        dice.pause(0..5);
        process.stop();
        if pinned() > 0 {
            return;
        }
        process.go_on();
    }
}

fn start(site: &Site, way: &str) -> (Child, PathBuf) {
    let end = site.path(&format!("end-{way}"));
    let mut command =
        site.again(&[], "partition::interrupted_copies::a_write_that_is_being_copied_survives_down_and_up");
    let child = command.env(WRITES, way).env(END, &end).stdout(Stdio::piped()).spawn();
    (child.expect("this program can be started again"), end)
}

/// Lets it end; what it says that it wrote, and where.
fn finish(mut child: Child) -> (u8, u64) {
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let lines: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(child.wait().expect("it ends").success(), "a write, sync or close failed");
    let line = lines.iter().find(|line| line.contains("wrote")).expect("it says what it wrote");
    let words: Vec<&str> = line.rsplit(' ').collect();
    (words[2].parse().expect("a number"), words[0].parse().expect("an offset"))
}

fn a_write_survives(way: &str, dice: &mut Dice, between: impl FnOnce(&Site)) {
    let site = Site::up(Shape {
        stripe: (BLOCKS * BLOCK) as u64,
        block: BLOCK as u64,
        cache: (4 * BLOCKS * BLOCK) as u64,
        ..Shape::new(1)
    });
    let (child, end) = start(&site, way);
    let process = ProcessHandle(child.id());
    while site.client().status(ServerId(0)).expect("it answers").pool.dirty_slots == 0 {
        std::thread::yield_now();
    }
    stop_in_a_copy(&site, process, dice);
    std::fs::write(&end, "").expect("a scratch directory takes new files");
    site.succeed(&["down", "trial"]);
    between(&site);
    site.start();
    process.go_on();
    let (number, at) = finish(child);
    let mut bytes = vec![0; BLOCKS * BLOCK];
    open(&site.client()).read_exact_at(&mut bytes, at).expect("it is there");
    let wrong = bytes.iter().position(|byte| *byte != number);
    assert_eq!(wrong, None, "{way}: a write that succeeded is lost");
}

#[test]
fn a_write_that_is_being_copied_survives_down_and_up() {
    if let Ok(way) = std::env::var(WRITES) {
        return a_process_that_writes(&way);
    }
    try_seeds(&[1, 2], |dice| {
        ["hits", "fills", "tier1"].iter().for_each(|way| a_write_survives(way, dice, |_| {}));
    });
}

#[test]
fn a_write_that_is_being_copied_survives_a_pool_of_another_size() {
    try_seeds(&[3], |dice| {
        a_write_survives("hits", dice, |site| {
            let text = std::fs::read_to_string(site.file()).expect("it is there");
            let before = format!("cache = {}", 4 * BLOCKS * BLOCK);
            assert!(text.contains(&before));
            let text = text.replace(&before, &format!("cache = {}", 6 * BLOCKS * BLOCK));
            std::fs::write(site.file(), text).expect("it can be changed");
        });
    });
}
