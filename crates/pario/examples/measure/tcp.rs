//! Streams over TCP: accesses to the servers' caches, compared with a plain stream between the same addresses.
//!
//! A target is `ID SECRET-FILE ADDRESS,…` in one argument. The peer has as much memory as the file has bytes, and passes
//! over it as often. It reads a letter and eight bytes, `W` or `R` and a number of bytes (little-endian): it receives that
//! many and answers with one byte, or it sends that many.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use pario::{Address, File, OpenOptions, Options, Partition, PartitionId, Secret, ServerId, Target};

use crate::Outcome;
use crate::report::{Case, same};

const SIZES: [usize; 2] = [1 << 20, 16 << 20];

/// Bytes of the file, which fit into the caches, and the number of passes of each measurement.
const LENGTH: usize = 64 << 20;
const PASSES: usize = 4;

/// Pieces in which the peer writes and reads.
const PIECE: usize = 1 << 20;

struct Ends {
    file: File,
    plain: TcpStream,
    from: Vec<u8>,
    into: Vec<u8>,
    /// The buffer of the plain stream, which does not overwrite the bytes that Pario has read.
    other: Vec<u8>,
}

pub fn measure(target: &str, turns: u32, peer: &str) -> Outcome {
    let partition = Partition::connect_to(parse(target)?, Options::default())?;
    let file = partition.open("/tcp", OpenOptions::new().read(true).write(true).create(true))?;
    let plain = TcpStream::connect(peer)?;
    plain.set_nodelay(true)?;
    let most = SIZES[SIZES.len() - 1];
    let mut ends = Ends { file, plain, from: vec![1; most], into: vec![2; most], other: vec![3; most] };
    ends.write(most)?;
    if partition.servers().any(|server| partition.is_mapped(server)) {
        return Err("the servers were reached by shared memory, not by TCP".into());
    }
    for turn in 0..turns {
        for size in SIZES {
            ends.from[..size].fill(turn as u8 ^ size.ilog2() as u8);
            let bytes = (PASSES * LENGTH) as u64;
            let operations = bytes / size as u64;
            let case = |name| Case { name, size, clients: 1, operations, bytes };
            case("tcp-write").beside(
                turn,
                &mut ends,
                |ends| ends.write(size),
                |ends| ends.send(size, bytes),
            )?;
            case("tcp-read").beside(
                turn,
                &mut ends,
                |ends| ends.read(size),
                |ends| ends.receive(size, bytes),
            )?;
            same(&ends.into[..size], &ends.from[..size], "TCP")?;
        }
    }
    ends.file.close()?;
    Ok(partition.remove_file("/tcp")?)
}

fn offsets(size: usize) -> impl Iterator<Item = u64> {
    (0..PASSES).flat_map(move |_| (0..LENGTH as u64).step_by(size))
}

impl Ends {
    fn write(&mut self, size: usize) -> Outcome<f64> {
        let start = Instant::now();
        offsets(size).try_for_each(|at| self.file.write_at(&self.from[..size], at))?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn read(&mut self, size: usize) -> Outcome<f64> {
        let start = Instant::now();
        offsets(size).try_for_each(|at| self.file.read_exact_at(&mut self.into[..size], at))?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn send(&mut self, size: usize, bytes: u64) -> Outcome<f64> {
        let start = Instant::now();
        ask(&mut self.plain, b'W', bytes)?;
        offsets(size).try_for_each(|_| self.plain.write_all(&self.from[..size]))?;
        self.plain.read_exact(&mut [0])?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn receive(&mut self, size: usize, bytes: u64) -> Outcome<f64> {
        let start = Instant::now();
        ask(&mut self.plain, b'R', bytes)?;
        offsets(size).try_for_each(|_| self.plain.read_exact(&mut self.other[..size]))?;
        Ok(start.elapsed().as_secs_f64())
    }
}

fn ask(stream: &mut TcpStream, what: u8, bytes: u64) -> std::io::Result<()> {
    let mut head = [what; 9];
    head[1..].copy_from_slice(&bytes.to_le_bytes());
    stream.write_all(&head)
}

/// Serves plain streams until the input ends; prints its address first.
pub fn peer(address: &str) -> Outcome {
    let listener = TcpListener::bind(address)?;
    println!("listening {}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that is done closes the connection.
            let _ = serve(stream);
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn serve(mut stream: TcpStream) -> Outcome {
    stream.set_nodelay(true)?;
    let mut memory = vec![4; LENGTH];
    let mut head = [0; 9];
    loop {
        stream.read_exact(&mut head)?;
        let mut left = u64::from_le_bytes(head[1..].try_into()?) as usize;
        while left > 0 {
            for piece in memory.chunks_mut(PIECE) {
                let piece = &mut piece[..left.min(PIECE)];
                left -= piece.len();
                match head[0] {
                    b'W' => stream.read_exact(piece)?,
                    _ => stream.write_all(piece)?,
                }
            }
        }
        if head[0] == b'W' {
            stream.write_all(&[1])?;
        }
    }
}

fn parse(target: &str) -> Outcome<Target> {
    let words: Vec<&str> = target.split(' ').collect();
    let [id, secret, addresses] = words[..] else {
        return Err("a target is ID SECRET-FILE ADDRESS,…".into());
    };
    let secret = <[u8; 32]>::try_from(std::fs::read(secret)?).map_err(|_| "the secret has not 32 bytes")?;
    let servers = addresses.split(',').map(|address| Ok(vec![format!("tcp:{address}").parse::<Address>()?]));
    Ok(Target {
        name: "measured".into(),
        partition: PartitionId(u128::from_str_radix(id, 16)?),
        secret: Secret::new(secret),
        servers: servers.collect::<Outcome<_>>()?,
        epoch: Default::default(),
        metadata: ServerId(0),
        access: Default::default(),
    })
}
