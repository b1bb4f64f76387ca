//! Writes a log: version 3.21, the accesses as records of the MPI-IO level.
//!
//! Times count from the first operation on. The regions behind the header follow each other without gaps; each is one
//! zlib stream of stored blocks: as large as what is in it. (A log that says that it is not compressed is read wrongly
//! beyond 1 MiB by libdarshan-util.)

use super::zlib::{Stored, stored_size};
use super::{ACCESS, MAGIC, OLD, RECORD, WITH_OFFSETS};
use crate::interned::Interned;
use crate::{Collector, Error, TracedProcess};
use pario_trace::{TraceEvent, TracedOp};
use std::io::{self, Write};

const JOB: usize = 4096;

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
pub struct Log {
    pieces: Collector,
    files: Interned,
    labels: Interned,
    hosts: Vec<String>,
    segments: Vec<Segment>,
}

impl Log {
    /// Takes an operation; an access with gaps becomes as many as it has pieces.
    pub fn add(&mut self, who: &TracedProcess, event: &TraceEvent) -> Result<(), Error> {
        let rank = self.labels.number(&who.label);
        if rank as usize == self.hosts.len() {
            self.hosts.push(who.node.to_string());
        }
        let is_access = matches!(event.call.op, TracedOp::Read | TracedOp::Write) && event.moved > 0;
        let Some(name) = event.file.as_deref().filter(|_| is_access) else { return Ok(()) };
        let file = self.files.number(name);
        for (offset, end) in self.pieces.pieces(who, event)? {
            if self.segments.len() == crate::profile::MOST_ACCESSES {
                return Err(Error::TooMany);
            }
            let (start_ns, end_ns, len) = (event.start_ns, event.end_ns(), end - offset);
            let is_read = event.call.op == TracedOp::Read;
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
        let records_size = RECORD as u64 * records + (ACCESS * self.segments.len()) as u64;
        let names_at = OLD.size() as u64 + stored_size(JOB as u64);
        let names_size = stored_size(names.len() as u64);
        let records_at = names_at + names_size;

        let mut header = vec![0; OLD.size()];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"3.21");
        put(8, &MAGIC.to_le_bytes());
        for (at, region) in [
            (OLD.names(), [names_at, names_size]),
            (OLD.module(OLD.mpi), [records_at, stored_size(records_size)]),
        ] {
            put(at, &region[0].to_le_bytes());
            put(at + 8, &region[1].to_le_bytes());
        }
        put(OLD.version(OLD.mpi), &WITH_OFFSETS.to_le_bytes());
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
        // If labels are no ranks, their numbers in order of appearance are used.
        let labels = self.labels.strings();
        let are_ranks = labels.iter().all(|label| label.parse::<u32>().is_ok());
        let label = labels[rank as usize].parse::<u32>().ok().filter(|_| are_ranks).unwrap_or(rank);
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

/// Text without what ends it in the log.
fn line(text: &str) -> String {
    text.replace(['\0', '\n'], "?")
}

#[cfg(test)]
mod tests {
    use super::super::zlib::Unpacked;
    use super::*;
    use pario_trace::{TracedCall, TracedPieces};
    use std::io::Read;

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let mut log = Log::default();
        let mut add = |rank: &str, op, offset: u64, start_ns: u64| {
            let event = TraceEvent {
                call: TracedCall::from(op),
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
                pieces: TracedPieces::All,
            };
            log.add(&TracedProcess { label: rank.into(), node: "n1".into() }, &event).expect("taken");
        };
        add("3", TracedOp::Read, 100, 0);
        add("3", TracedOp::Write, 200, 1_000_000_000);
        add("4", TracedOp::Write, 300, 0);
        let mut bytes = Vec::new();
        log.write("./a\nb", &mut bytes).expect("memory takes it");
        let at =
            |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        assert_eq!((at(&bytes, 8), bytes[16], bytes[296 + 40]), (6_567_223, 0, 2));
        let region = |from: u64, size: u64| {
            let mut all = Vec::new();
            let packed = &bytes[from as usize..][..size as usize];
            Unpacked::new(packed).read_to_end(&mut all).expect("a zlib stream");
            all
        };
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
}
