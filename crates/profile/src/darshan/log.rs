//! Reads a log.

use super::zlib::Unpacked;
use super::{
    ACCESS, Accesses, Foreign, Layout, MAGIC, NEW, OLD, OLDEST, RECORD, Segment, WITH_OFFSETS, keep,
};
use crate::Error;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

/// Longer names are no paths.
const LONGEST_NAME: u64 = 64 << 10;

/// The header's entry of a module.
#[derive(Clone, Copy)]
struct Module {
    at: u64,
    len: u64,
    version: u32,
    incomplete: bool,
}

struct Header {
    compressed: bool,
    names: (u64, u64),
    posix: Module,
    mpi: Module,
}

pub(super) fn read(mut input: impl Read + Seek) -> Result<Accesses, Error> {
    let header = Header::read(&mut input)?;
    let mut accesses = Accesses::default();
    let lacks_offsets = header.mpi.len > 0 && header.mpi.version < WITH_OFFSETS;
    if lacks_offsets {
        accesses
            .complaints
            .push("its records of MPI-IO have no offsets; what its processes did below MPI-IO counts");
    }
    let modules = [(header.posix, false), (header.mpi, true)];
    let modules: Vec<_> =
        modules.into_iter().filter(|(module, mpi)| module.len > 0 && !(*mpi && lacks_offsets)).collect();
    if modules.is_empty() {
        return Err(Error::NoDxt);
    }
    if modules.iter().any(|(module, _)| module.incomplete) {
        accesses.complaints.push("it is incomplete: Darshan had no memory for all accesses");
    }
    let names = names(region(&mut input, header.names, header.compressed)?)?;
    let mut segments = Vec::new();
    for (module, mpi) in modules {
        let region = region(&mut input, (module.at, module.len), header.compressed)?;
        records(region, mpi, &names, &mut accesses, &mut segments)?;
    }
    Ok(accesses.with(segments))
}

impl Header {
    fn read(input: &mut impl Read) -> Result<Header, Error> {
        let mut bytes = vec![0; 16];
        input.read_exact(&mut bytes).map_err(ended("it has no header"))?;
        let end = bytes[..8].iter().position(|&byte| byte == 0).unwrap_or(8);
        let version = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let magic = u64_at(&bytes, 8);
        if magic == MAGIC.swap_bytes() {
            return Err(Error::Foreign(Foreign::BigEndian));
        }
        if magic != MAGIC {
            return Err(Error::Damaged("its first bytes are not those of a log"));
        }
        let layout = match version.as_str() {
            "3.10" => OLDEST,
            "3.20" | "3.21" => OLD,
            "3.41" => NEW,
            _ => return Err(Error::Foreign(Foreign::Version(version))),
        };
        bytes.resize(layout.size(), 0);
        input.read_exact(&mut bytes[16..]).map_err(ended("it ends in its header"))?;
        let compressed = match bytes[16] {
            0 => true,
            2 => false,
            other => return Err(Error::Foreign(Foreign::Compression(other))),
        };
        let place = |at: usize| (u64_at(&bytes, at), u64_at(&bytes, at + 8));
        let module = |number| Module::at(&bytes, &layout, number);
        Ok(Header {
            compressed,
            names: place(layout.names()),
            posix: module(layout.posix),
            mpi: module(layout.mpi),
        })
    }
}

impl Module {
    fn at(header: &[u8], layout: &Layout, number: usize) -> Module {
        let (at, version) = (layout.module(number), layout.version(number));
        let flags = header[layout.incomplete.0 + number / 8];
        Module {
            at: u64_at(header, at),
            len: u64_at(header, at + 8),
            version: u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[version + byte])),
            incomplete: flags >> (number % 8) & 1 != 0,
        }
    }
}

/// The bytes of a region, unpacked.
fn region<'a, R: Read + Seek>(
    input: &'a mut R,
    (at, len): (u64, u64),
    compressed: bool,
) -> Result<BufReader<Box<dyn Read + 'a>>, Error> {
    input.seek(SeekFrom::Start(at)).map_err(Error::Unreadable)?;
    let part = BufReader::with_capacity(64 << 10, Part { input, left: len });
    Ok(BufReader::with_capacity(
        64 << 10,
        if compressed { Box::new(Unpacked::new(part)) } else { Box::new(part) },
    ))
}

/// Reads so many bytes of a file; an earlier end is an error.
struct Part<'a, R> {
    input: &'a mut R,
    left: u64,
}

impl<R: Read> Read for Part<'_, R> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        let most = output.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.input.read(&mut output[..most])?;
        if count == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

fn names(mut region: impl BufRead) -> Result<HashMap<u64, String>, Error> {
    const TORN: &str = "it ends within its names";
    let mut names = HashMap::new();
    let mut number = [0; 8];
    while fill(&mut region, &mut number, TORN)? {
        let mut name = Vec::new();
        (&mut region).take(LONGEST_NAME).read_until(0, &mut name).map_err(ended(TORN))?;
        if name.pop() != Some(0) {
            return Err(Error::Damaged(TORN));
        }
        names.insert(u64::from_le_bytes(number), String::from_utf8_lossy(&name).into_owned());
    }
    Ok(names)
}

fn records(
    mut region: impl BufRead,
    mpi: bool,
    names: &HashMap<u64, String>,
    accesses: &mut Accesses,
    segments: &mut Vec<Segment>,
) -> Result<(), Error> {
    const TORN: &str = "it ends within a record";
    let mut head = [0; RECORD];
    while fill(&mut region, &mut head, TORN)? {
        let number = u64_at(&head, 0);
        let rank = u64_at(&head, 8) as i64;
        let host = head[24..88].split(|&byte| byte == 0).next().unwrap_or_default();
        let [writes, reads] = [88, 96].map(|at| u64_at(&head, at));
        let all = writes.checked_add(reads).filter(|&all| all <= i64::MAX as u64);
        let all = all.ok_or(Error::Damaged("a record has a negative number of accesses"))?;
        // Names may be missing where Darshan had no memory for them.
        let name = names.get(&number).cloned().unwrap_or_else(|| format!("file {number}"));
        let rank = accesses.rank(&rank.to_string(), &String::from_utf8_lossy(host));
        let file = accesses.file(&name, mpi && all > 0);
        for count in 0..all {
            let mut bytes = [0; ACCESS];
            if !fill(&mut region, &mut bytes, TORN)? {
                return Err(Error::Damaged(TORN));
            }
            let (offset, len) = (u64_at(&bytes, 0), u64_at(&bytes, 8));
            if offset.checked_add(len).is_none_or(|end| end > i64::MAX as u64) {
                return Err(Error::Damaged("an access lies outside of any file"));
            }
            let (start_ns, end_ns) = (time(&bytes, 16)?, time(&bytes, 24)?);
            let took_ns = end_ns.saturating_sub(start_ns);
            keep(
                segments,
                Segment { file, rank, write: count < writes, mpi, offset, len, start_ns, took_ns },
            )?;
        }
    }
    Ok(())
}

/// Fills the bytes; false at the end of the region. That it ends in between is `torn`.
fn fill(region: &mut impl BufRead, bytes: &mut [u8], torn: &'static str) -> Result<bool, Error> {
    if region.fill_buf().map_err(ended(torn))?.is_empty() {
        return Ok(false);
    }
    region.read_exact(bytes).map_err(ended(torn)).map(|()| true)
}

/// An end where there should be none is damage; anything else is the world's fault.
fn ended(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |e| match e.kind() {
        io::ErrorKind::UnexpectedEof => Error::Damaged(what),
        io::ErrorKind::InvalidData => Error::Damaged("a part of it cannot be unpacked"),
        _ => Error::Unreadable(e),
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| bytes[at + byte]))
}

/// Seconds in nanoseconds. A process's clock may run a little before the job's.
fn time(bytes: &[u8], at: usize) -> Result<u64, Error> {
    let seconds = Some(f64::from_bits(u64_at(bytes, at))).filter(|seconds| seconds.abs() < 1e9);
    let seconds = seconds.ok_or(Error::Damaged("a time is no time"))?;
    Ok((seconds * 1e9).round().max(0.0) as u64)
}
