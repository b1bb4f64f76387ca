//! Limits of servers: no CPU time when they are idle, and no more memory than configured.

use std::time::Duration;

use pario::OpenOptions;

use super::dice::Dice;
use super::site::{Shape, Site};
use super::{soon, within};

/// Ticks (of 10 ms) that a process which sleeps may use in three seconds: some wake-ups, no polling.
const IDLE_TICKS: u64 = 3;

#[test]
fn idle_servers_use_no_cpu_time() {
    let site = Site::up(Shape::new(3));
    let clients = [site.client(), site.far_client()];
    for (i, client) in clients.iter().enumerate() {
        let mut options = OpenOptions::new();
        let path = format!("/file{i}");
        let file = client.open(&path, options.read(true).write(true).create(true)).expect("a new file");
        file.write_at(&Dice::new(1).bytes(3_000_000), 0).expect("there is room");
    }
    for server in site.servers() {
        soon("everything is stored", || clients[0].status(server).expect("it answers").pool.dirty_slots == 0);
    }
    let processes = site.processes();
    assert_eq!(processes.len(), 6);
    let before: Vec<u64> = processes.iter().map(|process| process.ticks()).collect();
    // CPU time can only be measured over a time in which nothing is requested.
    std::thread::sleep(Duration::from_secs(3));
    for (process, before) in processes.iter().zip(before) {
        let used = process.ticks() - before;
        assert!(used <= IDLE_TICKS, "{used} ticks in 3 s: {}", process.command());
    }
}

/// Memory of a server besides its pool: buffers of its sessions, its indices, its code.
const MOST_BESIDES_KIB: u64 = 48 << 10;

#[test]
fn server_memory_is_bounded_under_heavy_writes() {
    let cache = 8 << 20;
    let site = Site::up(Shape { cache, ..Shape::new(2) });
    let each = 20 * cache as usize / 4;
    let seen: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|i| {
                let client = if i % 2 == 0 { site.client() } else { site.far_client() };
                scope.spawn(move || {
                    let mut options = OpenOptions::new();
                    let path = format!("/file{i}");
                    let options = options.read(true).write(true).create(true);
                    let file = client.open(&path, options).expect("a new file");
                    let bytes = Dice::new(i).bytes(1 << 20);
                    for at in (0..each).step_by(bytes.len()) {
                        file.write_at(&bytes, at as u64).expect("there is room");
                    }
                    file.close().expect("it can be stored");
                })
            })
            .collect();
        let mut seen = vec![(0, 0); 2];
        within(Duration::from_secs(120), "everything is written", || {
            for (server, most) in site.servers().zip(&mut seen) {
                let process = site.process(server).expect("it runs");
                *most = (most.0.max(process.kib("RssAnon")), most.1.max(process.kib("RssShmem")));
            }
            writers.iter().all(|writer| writer.is_finished())
        });
        seen
    });
    for (own, shared) in seen {
        assert!(own <= MOST_BESIDES_KIB, "a server used {own} KiB of its own");
        // Slots and ledgers come on top of the blocks.
        assert!(shared <= cache * 5 / 4 / 1024, "a server used {shared} KiB of shared memory");
    }
    let stored: u64 = site.servers().map(|s| site.client().status(s).expect("it answers").space.used).sum();
    assert!(stored >= 4 * each as u64, "{stored} bytes are stored");
}
