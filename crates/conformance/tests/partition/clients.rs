//! Clients that are killed in the middle of everything: nothing of theirs keeps anybody from anything.
//!
//! A client is this very test program, started again with [`CHILD`] set.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use pario::{OpenOptions, Partition};
use pario_types::{FileId, ServerId};

use super::dice::Dice;
use super::model::parts;
use super::site::{Route, Shape, Site, connect};
use super::{soon, try_seeds};

/// Names the client in a child's environment: its registry, its number, and its seed.
const CHILD: &str = "PARIO_TEST_CLIENT";

/// Connections that the other server may have: of two forwarders and the reaper.
const FROM_PEERS: u32 = 3;

const MOST: u64 = 1 << 20;

/// The work of a child until it is killed.
fn child(told: &str) {
    let words: Vec<&str> = told.split(' ').collect();
    let [home, number, seed] = words[..] else { panic!("{CHILD}={told}") };
    let mut dice = Dice::new(seed.parse().expect("a seed"));
    let route = if dice.one_in(4) { Route::Far } else { Route::Local };
    let partition = connect(Path::new(home), route).expect("the partition is up");
    println!("connected");
    use_everything(&partition, number, &mut dice).expect("nothing goes wrong");
}

/// Opens, writes, reads, cuts, renames and removes files without end, several threads at once.
fn use_everything(partition: &Partition, number: &str, dice: &mut Dice) -> pario::Result<()> {
    let shared = partition.open("/shared", OpenOptions::new().read(true).write(true).create(true))?;
    std::thread::scope(|scope| {
        let reader = Dice::new(dice.next());
        scope.spawn(|| {
            let (mut dice, mut bytes) = (reader, vec![0; 200_000]);
            loop {
                let at = dice.below(MOST);
                shared.read_at(&mut bytes, at).expect("it can be read");
                let len = 1 + dice.index(150_000);
                shared.write_at(&bytes[..len], at).expect("it can be written");
            }
        });
        loop {
            let path = format!("/own-{number}-{}", dice.below(3));
            let mut options = OpenOptions::new();
            let file = partition.open(&path, options.read(true).write(true).create(true))?;
            file.write_at(&dice.bytes(1 + dice.clone().index(300_000)), dice.below(MOST))?;
            match dice.below(6) {
                0 => file.set_len(dice.below(MOST))?,
                1 => file.sync()?,
                2 => partition.remove_file(&path)?,
                3 => partition.rename(&path, &format!("/moved-{number}"))?,
                4 => file.clone().close()?,
                _ => {}
            }
            file.write_at(&dice.bytes(5000), dice.below(MOST))?;
            if dice.one_in(2) {
                file.close()?;
            }
        }
    })
}

/// A client process that is in by now.
fn start(site: &Site, number: u64, seed: u64) -> Child {
    let mut command =
        site.again(&[], "partition::clients::killed_clients_leave_no_pins_sessions_or_open_files");
    command.env(CHILD, format!("{} {number} {seed}", site.home().display()));
    let mut child = command.stdout(Stdio::piped()).spawn().expect("this program can be started again");
    let output = BufReader::new(child.stdout.as_mut().expect("it is piped"));
    let connected = output.lines().map_while(Result::ok).any(|line| line.ends_with("connected"));
    assert!(connected, "a client did not get in");
    child
}

#[test]
fn killed_clients_leave_no_pins_sessions_or_open_files() {
    if let Ok(told) = std::env::var(CHILD) {
        return child(&told);
    }
    try_seeds(&[31, 32], |dice| {
        // A client that lost its connection may reconnect within the deadline of a request.
        let (stripe, more) = (dice.pick(&[4096, 64 << 10, 1 << 20]), "deadline = 2s\n".into());
        let site = Site::up(Shape { stripe, more, ..Shape::new(2) });
        let client = site.client();
        for round in 0..4 {
            let children: Vec<Child> = (0..3).map(|i| start(&site, round * 3 + i, dice.next())).collect();
            for mut child in children {
                dice.pause(0..120);
                child.kill().expect("it runs");
                child.wait().expect("it can be waited for");
            }
        }
        for server in site.servers() {
            // Its own peers may have connections, too.
            let most = 1 + FROM_PEERS;
            let mut status = client.status(server).expect("the server answers");
            soon("no pins, sessions or open files of the dead", || {
                status = client.status(server).expect("the server answers");
                let is_over = status.pool.pinned_slots == 0
                    && status.names.open_files == 0
                    && status.traffic.local_sessions <= 1;
                is_over && status.traffic.sessions <= most
            });
        }
        fill_the_pools(&site, &client);
        // Each name can still be used, and of what has none nothing is left.
        let (inodes, _) = client.list_inodes(FileId(0), 10_000).expect("files can be listed");
        let named: Vec<FileId> = inodes.iter().map(|inode| inode.attributes.file).collect();
        for entry in client.read_dir("/") {
            let entry = entry.expect("the directory can be read");
            let mut options = OpenOptions::new();
            let file = client.open(entry.name(), options.read(true).write(true)).expect("it can be opened");
            let mut bytes = vec![0; 2 << 20];
            let read = file.read_at(&mut bytes, 0).expect("it can be read");
            assert_eq!(read as u64, file.len().expect("it has a length"));
            file.set_len(0).expect("it can be cut");
            file.close().expect("it can be closed");
        }
        for server in site.servers() {
            soon("parts of removed files are gone", || {
                parts(&client, server).iter().all(|file| named.contains(file))
            });
        }
    });
}

/// Uses every block of every server's pool several times over.
fn fill_the_pools(site: &Site, client: &Partition) {
    let mut options = OpenOptions::new();
    let file = client.open("/fill", options.read(true).write(true).create(true)).expect("a new file");
    let bytes = Dice::new(7).bytes((site.shape().cache * 3) as usize * usize::from(site.shape().servers));
    file.write_at(&bytes, 0).expect("there is room");
    let mut back = vec![0; bytes.len()];
    file.read_exact_at(&mut back, 0).expect("it can be read");
    assert!(back == bytes, "what was read is not what was written");
    file.close().expect("it can be stored");
    client.remove_file("/fill").expect("it can be removed");
}

/// Nobody has to wait for a process to come again that has ended.
#[test]
fn a_killed_client_of_this_host_keeps_nothing_open() {
    let site = Site::up(Shape::new(1));
    let client = site.client();
    for number in 0..5 {
        let mut child = start(&site, number, 3);
        soon("it has a file open", || client.status(ServerId(0)).expect("it answers").names.open_files > 0);
        child.kill().expect("it runs");
        child.wait().expect("it can be waited for");
        soon("it has none", || client.status(ServerId(0)).expect("it answers").names.open_files == 0);
    }
}
