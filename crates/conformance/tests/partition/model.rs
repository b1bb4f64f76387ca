//! Random operations of several clients, each result compared with the model: on partitions of all shapes, with
//! caches far smaller than the data, while servers are killed and come back.

use std::sync::atomic::{AtomicBool, Ordering};

use pario::{OpenOptions, Partition};
use pario_types::{FileId, ServerId};

use super::client_group::ClientGroup;
use super::dice::Dice;
use super::site::{Route, Shape, Site};
use super::step::differ;
use super::world::World;
use super::{soon, try_seeds};

/// A partition of a random shape: few servers, little cache.
fn shape(dice: &mut Dice) -> Shape {
    let block = dice.pick(&[4 << 10, 64 << 10]);
    Shape {
        servers: 1 + dice.below(5) as u16,
        stripe: dice.pick(&[4 << 10, 64 << 10, 100_000, 1 << 20, 4 << 20]),
        block,
        cache: dice.pick(&[16 * block, 1 << 20, 2 << 20]),
        more: format!("workers = {}\n", 1 + dice.below(3)),
    }
}

fn routes(dice: &mut Dice) -> Vec<Route> {
    (0..2 + dice.below(3)).map(|_| dice.pick(&[Route::Local, Route::Local, Route::Far])).collect()
}

/// A world whose directories are in the partition.
pub fn world(client: &Partition, clients: usize) -> World {
    let stripes = [0, 4096, 10_000, 64 << 10, 1 << 20, 4 << 20];
    let world = World::new(clients, client.servers().count() as u16, &stripes);
    world.directories().iter().for_each(|path| client.create_dir(path).expect("a new directory"));
    world
}

/// Everything in the partition is what is in the world.
#[track_caller]
pub fn compare(partition: &Partition, world: &World) {
    for (directory, entries) in world.contents() {
        let names: Vec<String> = partition
            .read_dir(&directory)
            .map(|entry| entry.expect("a directory can be read").name().to_owned())
            .collect();
        let wanted: Vec<String> = entries.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names, wanted, "{directory}");
        for (name, content) in entries {
            let path = format!("{directory}/{name}");
            let metadata = partition.metadata(&path).expect("it is there");
            assert_eq!((metadata.is_dir(), metadata.opens()), (content.is_none(), 0), "{path}");
            let Some(content) = content else { continue };
            assert_eq!(metadata.len(), content.len() as u64, "{path}");
            let file = partition.open(&path, OpenOptions::new().read(true)).expect("it can be opened");
            let mut bytes = vec![0xa5; content.len() + 10];
            let read = file.read_at(&mut bytes, 0).expect("it can be read");
            if let Some(why) = differ(content, &bytes[..read], content.len()) {
                panic!("{path} {why}");
            }
        }
    }
}

/// No stored block is damaged.
#[track_caller]
pub fn verify(partition: &Partition) {
    for server in partition.servers() {
        for file in parts(partition, server) {
            let (damaged, next) = partition.verify(server, file, 0, 1 << 20).expect("it can be looked at");
            assert_eq!((damaged, next), (Vec::new(), None), "file {file} on server {server}");
        }
    }
}

/// The files of which a server has a part.
pub fn parts(partition: &Partition, server: ServerId) -> Vec<FileId> {
    let (parts, more) = partition.list_parts(server, FileId(0), 10_000).expect("parts can be listed");
    assert!(!more);
    parts.into_iter().map(|part| part.file).collect()
}

/// Of removed files nothing stays on any server.
#[track_caller]
fn expect_no_orphans(partition: &Partition) {
    let (inodes, more) = partition.list_inodes(FileId(0), 10_000).expect("files can be listed");
    assert!(!more);
    for server in partition.servers() {
        soon("a server has parts of named files only", || {
            let known = |file: &FileId| inodes.iter().any(|inode| inode.attributes.file == *file);
            parts(partition, server).iter().all(known)
        });
    }
}

#[test]
fn clients_agree_with_the_model() {
    try_seeds(&[1, 2, 3], |dice| {
        let site = Site::up(shape(dice));
        let routes = routes(dice);
        let mut world = world(&site.client(), routes.len());
        let group = ClientGroup::new(&site.home(), &routes);
        for _ in 0..8 {
            group.go(world.round(dice, 40));
        }
        group.go(world.farewell());
        drop(group);
        let client = if dice.one_in(2) { site.client() } else { site.far_client() };
        compare(&client, &world);
        verify(&client);
        expect_no_orphans(&client);
        drop(client);
        // Everything is still there after a restart.
        site.stop();
        site.start();
        compare(&site.client(), &world);
    });
}

/// Kills servers at random until `over`. Their supervisors restart them, or this function does by `pario up`.
fn kill_now_and_then(site: &Site, mut dice: Dice, by_hand: bool, over: &AtomicBool) -> u32 {
    let mut deaths = vec![0; usize::from(site.shape().servers)];
    while !over.load(Ordering::Acquire) {
        dice.pause(5..255);
        let server = ServerId(dice.below(u64::from(site.shape().servers)) as u16);
        let died = &mut deaths[usize::from(server.0)];
        // A supervisor gives up on a server that dies too often.
        if by_hand || *died < 4 {
            *died += u32::from(site.kill(server));
        }
        if by_hand {
            site.start();
        }
    }
    deaths.into_iter().sum()
}

fn servers_may_die(dice: &mut Dice, by_hand: bool) {
    let mut shape = shape(dice);
    if by_hand {
        shape.more += "supervise = false\n";
    }
    let site = Site::up(shape);
    let routes = routes(dice);
    let mut world = world(&site.client(), routes.len());
    let group = ClientGroup::new(&site.home(), &routes);
    let over = AtomicBool::new(false);
    let killers = Dice::new(dice.next());
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| kill_now_and_then(&site, killers, by_hand, &over));
        let end = End(&over);
        for _ in 0..10 {
            group.go(world.round(dice, 40));
        }
        drop(end);
        eprintln!("{} servers were killed", killer.join().expect("the killer does not panic"));
    });
    group.go(world.farewell());
    drop(group);
    let client = site.client();
    compare(&client, &world);
    verify(&client);
    drop(client);
    site.stop();
    site.start();
    compare(&site.far_client(), &world);
}

/// Tells the killer to end, also when the trial has failed.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn killed_servers_lose_nothing() {
    try_seeds(&[11, 12], |dice| servers_may_die(dice, false));
}

#[test]
fn killed_servers_lose_nothing_if_up_brings_them_back() {
    try_seeds(&[21, 22], |dice| servers_may_die(dice, true));
}
