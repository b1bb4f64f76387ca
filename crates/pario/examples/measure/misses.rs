//! Sequential accesses to files much larger than the servers' caches: every block is evicted before it is accessed again.
//! They are compared with a plain file of the same size. Both files are in the system's page cache.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pario::{File, OpenOptions, Partition};

use crate::Outcome;
use crate::clients::{COUNTS, together};
use crate::report::{Case, same};

const SIZES: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];

/// Bytes of all clients together.
const TOTAL: usize = 128 << 20;

struct Client {
    partition: Partition,
    path: String,
    file: File,
    plain: fs::File,
    plain_path: PathBuf,
    from: Vec<u8>,
    into: Vec<u8>,
}

pub fn measure(name: &str, turns: u32, dir: &Path) -> Outcome {
    for count in COUNTS {
        let mut clients = (0..count)
            .map(|index| Client::new(name, format!("misses-{count}-{index}"), dir, TOTAL / count))
            .collect::<Outcome<Vec<_>>>()?;
        for turn in 0..turns {
            for size in SIZES {
                in_order(&mut clients, turn, size)?;
            }
        }
        for client in clients {
            client.file.close()?;
            client.partition.remove_file(&client.path)?;
            fs::remove_file(&client.plain_path)?;
        }
    }
    Ok(())
}

impl Client {
    fn new(name: &str, own: String, dir: &Path, length: usize) -> Outcome<Client> {
        let (path, plain_path) = (format!("/{own}"), dir.join(&own));
        let partition = pario::open(name)?;
        let file = partition.open(&path, OpenOptions::new().read(true).write(true).create(true))?;
        let plain =
            fs::File::options().read(true).write(true).create(true).truncate(true).open(&plain_path)?;
        let most = SIZES[SIZES.len() - 1];
        let (from, into) = (vec![1; most], vec![2; most]);
        for at in (0..length as u64).step_by(most) {
            file.write_at(&from, at)?;
            plain.write_all_at(&from, at)?;
        }
        file.flush()?;
        Ok(Client { partition, path, file, plain, plain_path, from, into })
    }
}

fn in_order(clients: &mut [Client], turn: u32, size: usize) -> Outcome {
    let length = TOTAL / clients.len();
    let offsets = || (0..length as u64).step_by(size);
    let (operations, bytes) = ((TOTAL / size) as u64, TOTAL as u64);
    let case = |name| Case { name, size, clients: clients.len(), operations, bytes };
    let (write, read) = (case("write-miss"), case("read-miss"));
    for client in &mut *clients {
        client.from[..size].fill(turn as u8 ^ size.ilog2() as u8);
    }
    write.beside(
        turn,
        clients,
        |clients| {
            together(clients, |client| {
                Ok(offsets().try_for_each(|at| client.file.write_at(&client.from[..size], at))?)
            })
        },
        |clients| {
            together(clients, |client| {
                Ok(offsets().try_for_each(|at| client.plain.write_all_at(&client.from[..size], at))?)
            })
        },
    )?;
    // The reads then find no dirty blocks to write back first.
    clients.iter().try_for_each(|client| client.file.flush())?;
    read.beside(
        turn,
        clients,
        |clients| {
            together(clients, |client| {
                offsets().try_for_each(|at| client.file.read_exact_at(&mut client.into[..size], at))?;
                same(&client.into[..size], &client.from[..size], "a miss")
            })
        },
        |clients| {
            together(clients, |client| {
                offsets().try_for_each(|at| client.plain.read_exact_at(&mut client.into[..size], at))?;
                same(&client.into[..size], &client.from[..size], "a plain file")
            })
        },
    )
}
