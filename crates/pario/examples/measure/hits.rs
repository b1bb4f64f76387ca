//! Accesses to the servers' caches, compared with memcpy of as much memory.

use std::hint::black_box;
use std::ops::Range;

use pario::{File, OpenOptions, Partition};

use crate::Outcome;
use crate::clients::{COUNTS, together};
use crate::report::{Case, same};

const SIZES: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];

/// Bytes of all clients together: much more than a processor's own caches, and less than a server's.
const TOTAL: usize = 64 << 20;

/// The number of passes of each measurement.
const PASSES: usize = 4;

/// Accesses at random offsets.
const RANDOM: u64 = 100_000;

struct Client {
    partition: Partition,
    path: String,
    file: File,
    from: Vec<u8>,
    into: Vec<u8>,
    /// The memory that memcpy uses in place of the file.
    memory: Vec<u8>,
}

pub fn measure(name: &str, turns: u32) -> Outcome {
    for count in COUNTS {
        let length = TOTAL / count;
        let mut clients = (0..count)
            .map(|index| Client::new(name, format!("/hits-{count}-{index}"), length))
            .collect::<Outcome<Vec<_>>>()?;
        for turn in 0..turns {
            for size in SIZES {
                in_order(&mut clients, turn, size)?;
            }
            if count == 1 {
                at_random(&mut clients, turn)?;
            }
            new_blocks(&mut clients, turn)?;
        }
        for client in clients {
            client.file.close()?;
            client.partition.remove_file(&client.path)?;
        }
    }
    Ok(())
}

impl Client {
    fn new(name: &str, path: String, length: usize) -> Outcome<Client> {
        let partition = pario::open(name)?;
        let file = partition.open(&path, OpenOptions::new().read(true).write(true).create(true))?;
        let (from, mut into, memory) = (vec![1; length], vec![2; length], vec![3; length]);
        // All memory is touched and all blocks are cached before the measurement.
        file.write_at(&from, 0)?;
        file.read_exact_at(&mut into, 0)?;
        Ok(Client { partition, path, file, from, into, memory })
    }

    fn write(&mut self, place: Range<usize>) -> Outcome {
        Ok(self.file.write_at(&self.from[..place.len()], place.start as u64)?)
    }

    fn read(&mut self, place: Range<usize>) -> Outcome {
        Ok(self.file.read_exact_at(&mut self.into[..place.len()], place.start as u64)?)
    }

    fn copy_out(&mut self, place: Range<usize>) -> Outcome {
        let length = place.len();
        self.memory[place].copy_from_slice(black_box(&self.from[..length]));
        Ok(())
    }

    fn copy_in(&mut self, place: Range<usize>) -> Outcome {
        let length = place.len();
        self.into[..length].copy_from_slice(black_box(&self.memory[place]));
        Ok(())
    }
}

/// Accesses all bytes, in pieces of a size.
fn in_order(clients: &mut [Client], turn: u32, size: usize) -> Outcome {
    let length = clients[0].from.len();
    let places = || {
        let once = move |_| (0..length / size).map(move |index| index * size..(index + 1) * size);
        (0..PASSES).flat_map(once)
    };
    for client in &mut *clients {
        client.from[..size].fill(turn as u8 ^ size.ilog2() as u8);
    }
    both_ways(clients, turn, ["write", "read"], size, places)?;
    clients.iter_mut().try_for_each(|client| {
        client.read(length - size..length)?;
        same(&client.into[..size], &client.from[..size], "a hit")
    })
}

/// Small accesses at random offsets: the time of a single one.
fn at_random(clients: &mut [Client], turn: u32) -> Outcome {
    let size = SIZES[0];
    let spots = (clients[0].from.len() / size) as u64;
    let places = || {
        // Pseudorandom numbers that are the same for both.
        let number = move |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) % spots;
        (0..RANDOM).map(move |index| number(index) as usize * size).map(move |at| at..at + size)
    };
    both_ways(clients, turn, ["random-write", "random-read"], size, places)
}

/// Writes and reads these offsets of each client's file.
fn both_ways<P: Iterator<Item = Range<usize>>>(
    clients: &mut [Client],
    turn: u32,
    names: [&str; 2],
    size: usize,
    places: impl Fn() -> P + Sync,
) -> Outcome {
    let operations = (places().count() * clients.len()) as u64;
    let bytes = operations * size as u64;
    let [write, read] = names.map(|name| Case { name, size, clients: clients.len(), operations, bytes });
    write.beside(
        turn,
        clients,
        |clients| together(clients, |client| places().try_for_each(|place| client.write(place))),
        |clients| together(clients, |client| places().try_for_each(|place| client.copy_out(place))),
    )?;
    read.beside(
        turn,
        clients,
        |clients| together(clients, |client| places().try_for_each(|place| client.read(place))),
        |clients| together(clients, |client| places().try_for_each(|place| client.copy_in(place))),
    )
}

/// A file that is written for the first time, and fits into the caches.
fn new_blocks(clients: &mut [Client], turn: u32) -> Outcome {
    let length = clients[0].from.len();
    let places = |size| (0..length / size).map(move |index| index * size..(index + 1) * size);
    for size in SIZES {
        let (operations, bytes) = ((TOTAL / size) as u64, TOTAL as u64);
        let case = Case { name: "write-new", size, clients: clients.len(), operations, bytes };
        let mut fresh = Vec::new();
        for client in &*clients {
            let path = format!("{}-new", client.path);
            fresh.push(client.partition.open(&path, OpenOptions::new().write(true).create_new(true))?);
        }
        let mut both: Vec<(&mut Client, &File)> = clients.iter_mut().zip(&fresh).collect();
        case.beside(
            turn,
            &mut both[..],
            |both| {
                together(both, |(client, file)| {
                    let write = |at: Range<usize>| file.write_at(&client.from[..size], at.start as u64);
                    Ok(places(size).try_for_each(write)?)
                })
            },
            |both| together(both, |(client, _)| places(size).try_for_each(|place| client.copy_out(place))),
        )?;
        for client in &*clients {
            client.partition.remove_file(&format!("{}-new", client.path))?;
        }
    }
    Ok(())
}
