//! Profiles as logs of Darshan with extended tracing (DXT) of the MPI-IO level, which pydarshan and Darshan's tools read.
//!
//! The log has version 3.21. All numbers are little-endian; times are doubles, in seconds from the first operation on.
//! The regions behind the header follow each other without gaps; each is a zlib stream (RFC 1950) of stored blocks:
//! as large as what is in it. (A log that says that it is not compressed is read wrongly beyond 1 MiB by libdarshan-util.)
//!
//! ```text
//! header (360 bytes)
//!    0   8  version "3.21"
//!    8   8  magic 6567223
//!   16   1  compression: 0, zlib
//!   20   4  modules that are incomplete: none
//!   24  16  offset and length of the names, as they lie in the file
//!   40 256  offset and length of the records of each of 16 modules; ours is 10, DXT_MPIIO
//!  296  64  version of the records of each module, 4 bytes each; ours is 2
//! job (4096 bytes, unpacked)
//!    0  40  user, start, end (seconds since 1970), processes, job
//!   40 1024 remarks, lines of name=value
//! 1064      command, and on further lines mounted file systems: type, tab, directory; up to a zero
//! names, one after the other
//!    0   8  number of the file
//!    8      its name, up to a zero
//! records, one per file and rank
//!    0   8  number of the file
//!    8   8  rank
//!   16   8  0
//!   24  64  host
//!   88  16  number of writes, number of reads
//!  104      writes and then reads, 32 bytes each: offset, length, start, end
//! ```

use crate::interned::Interned;
use crate::{Collector, Error, Who};
use pario_trace::{Event, Op};
use std::io::{self, Write};

const HEADER: u64 = 360;
const JOB: usize = 4096;
const MODULES: usize = 16;
const DXT_MPIIO: usize = 10;

/// One contiguous access.
#[derive(Clone, Copy, Debug)]
struct Segment {
    file: u32,
    rank: u32,
    is_read: bool,
    offset: u64,
    len: u64,
    start_ns: u64,
    end_ns: u64,
}

/// A log being collected.
#[derive(Debug, Default)]
pub struct Darshan {
    pieces: Collector,
    files: Interned,
    labels: Interned,
    hosts: Vec<String>,
    segments: Vec<Segment>,
}

impl Darshan {
    /// Takes an operation; an access with gaps becomes as many as it has pieces.
    pub fn add(&mut self, who: &Who, event: &Event) -> Result<(), Error> {
        let rank = self.labels.number(&who.label);
        if rank as usize == self.hosts.len() {
            self.hosts.push(who.node.to_string());
        }
        let is_access = matches!(event.call.op, Op::Read | Op::Write) && event.moved > 0;
        let Some(name) = event.file.as_deref().filter(|_| is_access) else { return Ok(()) };
        let file = self.files.number(name);
        for (offset, end) in self.pieces.pieces(who, event)? {
            if self.segments.len() == crate::profile::MOST_ACCESSES {
                return Err(Error::TooMany);
            }
            let (start_ns, end_ns, len) = (event.start_ns, event.end_ns(), end - offset);
            let is_read = event.call.op == Op::Read;
            self.segments.push(Segment { file, rank, is_read, offset, len, start_ns, end_ns });
        }
        Ok(())
    }

    /// Writes the log; `command` is what it says was run.
    pub fn write(mut self, command: &str, output: &mut impl Write) -> io::Result<()> {
        self.segments.sort_by_key(|segment| (segment.file, segment.rank, segment.is_read, segment.start_ns));
        let names = self.names();
        let same = |a: &Segment, b: &Segment| (a.file, a.rank) == (b.file, b.rank);
        let records = self.segments.chunk_by(same).count() as u64;
        let records_size = 104 * records + 32 * self.segments.len() as u64;
        let names_at = HEADER + stored_size(JOB as u64);
        let names_size = stored_size(names.len() as u64);
        let records_at = names_at + names_size;

        let mut header = Vec::new();
        header.extend(b"3.21\0\0\0\0");
        header.extend(6_567_223u64.to_le_bytes());
        header.extend([0; 8]);
        [names_at, names_size].iter().for_each(|number| header.extend(number.to_le_bytes()));
        for module in 0..MODULES {
            let map = if module == DXT_MPIIO { [records_at, stored_size(records_size)] } else { [0, 0] };
            map.iter().for_each(|number| header.extend(number.to_le_bytes()));
        }
        (0..MODULES).for_each(|module| header.extend((2 * u32::from(module == DXT_MPIIO)).to_le_bytes()));
        output.write_all(&header)?;
        for region in [self.job(command), names] {
            let mut stored = Stored::new(&mut *output, region.len() as u64)?;
            stored.write(&region)?;
            stored.finish()?;
        }

        let mut stored = Stored::new(output, records_size)?;
        let began = self.segments.iter().map(|segment| segment.start_ns).min().unwrap_or(0);
        for record in self.segments.chunk_by(same) {
            stored.write(&self.record(record))?;
            for segment in record {
                stored.write(&segment.offset.to_le_bytes())?;
                stored.write(&segment.len.to_le_bytes())?;
                for time in [segment.start_ns, segment.end_ns] {
                    stored.write(&((time - began) as f64 / 1e9).to_le_bytes())?;
                }
            }
        }
        stored.finish()
    }

    fn job(&self, command: &str) -> Vec<u8> {
        let seconds = |ns: Option<u64>| ns.unwrap_or(0) / 1_000_000_000;
        let start = seconds(self.segments.iter().map(|segment| segment.start_ns).min());
        let end = seconds(self.segments.iter().map(|segment| segment.end_ns).max());
        let mut job = Vec::new();
        for number in [0u64, start, end, self.hosts.len() as u64, 0] {
            job.extend(number.to_le_bytes());
        }
        job.extend(b"lib_ver=pario\n");
        job.resize(40 + 1024, 0);
        let mounts = b"\nUNKNOWN\t/";
        let room = JOB - job.len() - mounts.len() - 1;
        job.extend(line(command).bytes().take(room));
        job.extend(mounts);
        job.resize(JOB, 0);
        job
    }

    fn names(&self) -> Vec<u8> {
        let mut names = Vec::new();
        for (number, name) in self.files.strings().iter().enumerate() {
            names.extend((number as u64 + 1).to_le_bytes());
            names.extend(line(name).bytes());
            names.push(0);
        }
        names
    }

    /// The head of the record of these segments, which are of one file and rank.
    fn record(&self, segments: &[Segment]) -> Vec<u8> {
        let Segment { file, rank, .. } = segments[0];
        // Where labels are no ranks, their numbers in the order of their coming are.
        let label = self.labels.strings()[rank as usize].parse::<u32>().unwrap_or(rank);
        let reads = segments.iter().filter(|segment| segment.is_read).count() as u64;
        let mut record = Vec::new();
        for number in [u64::from(file) + 1, u64::from(label), 0] {
            record.extend(number.to_le_bytes());
        }
        record.extend(self.hosts[rank as usize].bytes().take(63));
        record.resize(88, 0);
        for number in [segments.len() as u64 - reads, reads] {
            record.extend(number.to_le_bytes());
        }
        record
    }
}

/// Bytes of a stored block, at most.
const BLOCK: u64 = 65_535;

/// The size of a zlib stream of stored blocks for so many bytes: two bytes, five for each block, and a sum of four.
fn stored_size(bytes: u64) -> u64 {
    2 + 5 * bytes.div_ceil(BLOCK).max(1) + bytes + 4
}

/// A zlib stream of stored blocks, of known size, being written.
struct Stored<W: Write> {
    output: W,
    /// Bytes still to come, and how many of them in the current block.
    left: u64,
    in_block: u64,
    /// The two halves of Adler's sum.
    sum: (u32, u32),
}

impl<W: Write> Stored<W> {
    fn new(mut output: W, bytes: u64) -> io::Result<Stored<W>> {
        output.write_all(&[0x78, 0x01])?;
        let mut stored = Stored { output, left: bytes, in_block: 0, sum: (1, 0) };
        if bytes == 0 {
            stored.begin_block()?;
        }
        Ok(stored)
    }

    fn begin_block(&mut self) -> io::Result<()> {
        self.in_block = self.left.min(BLOCK);
        let size = self.in_block as u16;
        self.output.write_all(&[u8::from(self.left <= BLOCK)])?;
        self.output.write_all(&size.to_le_bytes())?;
        self.output.write_all(&(!size).to_le_bytes())
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        assert!(bytes.len() as u64 <= self.left, "the size was said before");
        while !bytes.is_empty() {
            if self.in_block == 0 {
                self.begin_block()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.in_block as usize));
            self.output.write_all(now)?;
            for &byte in now {
                self.sum.0 = (self.sum.0 + u32::from(byte)) % 65_521;
                self.sum.1 = (self.sum.1 + self.sum.0) % 65_521;
            }
            self.left -= now.len() as u64;
            self.in_block -= now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        assert_eq!(self.left, 0, "the size was said before");
        self.output.write_all(&(self.sum.1 << 16 | self.sum.0).to_be_bytes())
    }
}

/// Text without what ends it in the log.
fn line(text: &str) -> String {
    text.replace(['\0', '\n'], "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_trace::{Call, Pieces};

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let mut log = Darshan::default();
        let mut add = |rank: &str, op, offset: u64, start_ns: u64| {
            let event = Event {
                call: Call::from(op),
                file: Some("/f".into()),
                offset,
                end: offset + 8,
                len: 8,
                moved: 8,
                start_ns: 5_000_000_000 + start_ns,
                took_ns: 500_000_000,
                errno: 0,
                kind: None,
                class: 0,
                on_behalf_of: None,
                pieces: Pieces::All,
            };
            log.add(&Who { label: rank.into(), node: "n1".into() }, &event).expect("taken");
        };
        add("3", Op::Read, 100, 0);
        add("3", Op::Write, 200, 1_000_000_000);
        add("4", Op::Write, 300, 0);
        let mut bytes = Vec::new();
        log.write("./a\nb", &mut bytes).expect("memory takes it");
        let at =
            |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        assert_eq!((at(&bytes, 8), bytes[16], bytes[296 + 40]), (6_567_223, 0, 2));
        let region = |from: u64, size: u64| unpacked(&bytes[from as usize..][..size as usize]);
        let (names_at, names_size) = (at(&bytes, 24), at(&bytes, 32));
        let (records_at, size) = (at(&bytes, 40 + 16 * 10), at(&bytes, 48 + 16 * 10));
        assert_eq!((names_at + names_size, records_at + size), (records_at, bytes.len() as u64));
        let job = region(360, names_at - 360);
        assert_eq!((job.len(), at(&job, 8), at(&job, 16), at(&job, 24)), (4096, 5, 6, 2));
        assert!(job[1064..].starts_with(b"./a?b\nUNKNOWN\t/\0"));
        assert_eq!(region(names_at, names_size), b"\x01\0\0\0\0\0\0\0/f\0");
        let records = region(records_at, size);
        assert_eq!(records.len(), 2 * 104 + 3 * 32);
        let number = |place| at(&records, place);
        assert_eq!([number(0), number(8), number(88), number(96)], [1, 3, 1, 1]);
        assert!(records[24..].starts_with(b"n1\0"));
        // The write first, although it was later.
        let double = |place| f64::from_bits(number(place));
        assert_eq!((number(104), number(112), double(120), double(128)), (200, 8, 1.0, 1.5));
        assert_eq!((number(136), number(168 + 8), number(168 + 104)), (100, 4, 300));
    }

    /// What is in a zlib stream of stored blocks, everything checked.
    fn unpacked(stream: &[u8]) -> Vec<u8> {
        assert_eq!(
            u16::from_be_bytes([stream[0], stream[1]]) % 31,
            0,
            "the first bytes have a check of their own"
        );
        let (mut at, mut all) = (2, Vec::new());
        loop {
            let size = u16::from_le_bytes([stream[at + 1], stream[at + 2]]);
            assert_eq!(!size, u16::from_le_bytes([stream[at + 3], stream[at + 4]]));
            all.extend(&stream[at + 5..][..usize::from(size)]);
            let is_last = stream[at] == 1;
            at += 5 + usize::from(size);
            if is_last {
                break;
            }
        }
        let (mut a, mut b) = (1u64, 0u64);
        for &byte in &all {
            a += u64::from(byte);
            b += a;
        }
        let sum = ((b % 65_521) << 16) | (a % 65_521);
        assert_eq!(stream[at..], (sum as u32).to_be_bytes());
        all
    }

    #[test]
    fn streams_of_any_size_are_whole() {
        for size in [0, 1, 65_534, 65_535, 65_536, 131_070, 131_071] {
            let data: Vec<u8> = (0..size).map(|at| (at * 31 % 251) as u8).collect();
            let mut bytes = Vec::new();
            let mut stored = Stored::new(&mut bytes, size as u64).expect("memory takes it");
            data.chunks(1000).for_each(|part| stored.write(part).expect("memory takes it"));
            stored.finish().expect("memory takes it");
            assert_eq!(bytes.len() as u64, stored_size(size as u64));
            assert_eq!(unpacked(&bytes), data);
        }
    }
}
