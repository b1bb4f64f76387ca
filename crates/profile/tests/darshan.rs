//! Logs of Darshan: what is written is read, and so is what others write; what is not read is refused.

use pario_profile::darshan::{Accesses, Foreign, Log};
use pario_profile::{Error, TracedProcess};
use pario_trace::{TraceEvent, TracedCall, TracedOp, TracedPieces};
use proptest::prelude::*;
use std::io::Cursor;

/// Rank, file, offset, length, whether it is a write, start and duration in nanoseconds.
type Row = (u32, u8, u64, u64, bool, u64, u64);

fn event(&(_, file, offset, len, write, start_ns, took_ns): &Row) -> TraceEvent {
    TraceEvent {
        call: TracedCall::from(if write { TracedOp::Write } else { TracedOp::Read }),
        file: Some(format!("/scratch/f {file}").into()),
        offset,
        end: offset + len,
        len,
        moved: len,
        start_ns,
        took_ns,
        errno: 0,
        kind: None,
        class: 0,
        on_behalf_of: None,
        pieces: TracedPieces::All,
    }
}

fn who(rank: u32) -> TracedProcess {
    TracedProcess { label: rank.to_string().into(), node: format!("n{}", rank / 2).into() }
}

fn read(bytes: &[u8]) -> Result<Vec<(TracedProcess, TraceEvent)>, Error> {
    Accesses::of_log(Cursor::new(bytes)).map(Iterator::collect)
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        rows in prop::collection::vec(
            (0u32..4, 0u8..3, 0u64..1 << 50, 1u64..1 << 40, any::<bool>(), 0u64..1 << 44, 0u64..1 << 40), 1..60,
        )
    ) {
        let mut log = Log::default();
        for row in &rows {
            log.add(&who(row.0), &event(row)).expect("taken");
        }
        let mut bytes = Vec::new();
        log.write("./program", &mut bytes).expect("memory takes it");
        // Times count from the first operation on.
        let began = rows.iter().map(|row| row.5).min().unwrap_or(0);
        let key = |(who, event): &(TracedProcess, TraceEvent)| {
            let file = event.file.as_deref().unwrap_or_default().to_owned();
            let place = (who.label.to_string(), file, event.call.op, event.start_ns);
            (place, event.offset, event.len, event.took_ns, who.node.to_string())
        };
        let from_there = |row: &Row| TraceEvent { start_ns: row.5 - began, ..event(row) };
        let mut wanted: Vec<_> = rows.iter().map(|row| key(&(who(row.0), from_there(row)))).collect();
        let mut seen: Vec<_> = read(&bytes).expect("a log").iter().map(key).collect();
        wanted.sort();
        seen.sort();
        prop_assert_eq!(seen, wanted);
    }

    #[test]
    fn no_bytes_panic(place in any::<prop::sample::Index>(), value in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = Foreigner::default().log();
        let place = place.index(bytes.len());
        if cut {
            bytes.truncate(place);
            prop_assert!(read(&bytes).is_err(), "cut at {place}");
        } else {
            bytes[place] = value;
            let _ = read(&bytes);
        }
    }
}

/// A log as another program writes it: two records of the lower level, one of MPI-IO.
struct Foreigner {
    version: &'static str,
    magic: u64,
    compression: u8,
    incomplete: u64,
    mpi_version: u32,
    posix_segments: u64,
    mpi_segments: u64,
}

impl Default for Foreigner {
    fn default() -> Foreigner {
        Foreigner {
            version: "3.41",
            magic: 6_567_223,
            compression: 2,
            incomplete: 0,
            mpi_version: 2,
            posix_segments: 3,
            mpi_segments: 2,
        }
    }
}

impl Foreigner {
    fn log(&self) -> Vec<u8> {
        let new = self.version == "3.41";
        let (modules, posix, mpi) = match self.version {
            "3.41" => (64, 10, 11),
            "3.10" => (16, 8, 9),
            _ => (16, 9, 10),
        };
        let names = [&7u64.to_le_bytes()[..], b"/f\0", &8u64.to_le_bytes(), b"/posix\0"].concat();
        let below = [record(7, 0, self.posix_segments, 100), record(8, 1, self.posix_segments, 200)].concat();
        let above = record(7, 1, self.mpi_segments, 300);
        let header = if new { 1328 } else { 360 };
        let starts = [0, names.len(), names.len() + below.len()].map(|at| header + 4096 + at as u64);
        let mut bytes = Vec::new();
        bytes.extend(self.version.bytes());
        bytes.resize(8, 0);
        bytes.extend(self.magic.to_le_bytes());
        bytes.extend([self.compression, 0, 0, 0]);
        match new {
            true => bytes.extend([&[0; 4][..], &self.incomplete.to_le_bytes()].concat()),
            false => bytes.extend((self.incomplete as u32).to_le_bytes()),
        }
        bytes.extend([starts[0].to_le_bytes(), (names.len() as u64).to_le_bytes()].concat());
        for module in 0..modules {
            let (at, len) = match module {
                _ if module == posix => (starts[1], below.len()),
                _ if module == mpi => (starts[2], above.len()),
                _ => (0, 0),
            };
            bytes.extend([at.to_le_bytes(), (len as u64).to_le_bytes()].concat());
        }
        for module in 0..modules {
            let version = if module == mpi { self.mpi_version } else { 1 };
            bytes.extend(version.to_le_bytes());
        }
        assert_eq!(bytes.len() as u64, header);
        bytes.resize(bytes.len() + 4096, 0);
        [bytes, names, below, above].concat()
    }
}

/// A record with one write and then reads.
fn record(file: u64, rank: u64, segments: u64, offset: u64) -> Vec<u8> {
    let mut bytes = [file, rank, u64::MAX].map(u64::to_le_bytes).concat();
    bytes.extend(b"node-1");
    bytes.resize(88, 0);
    bytes.extend([1u64, segments - 1].map(u64::to_le_bytes).concat());
    for segment in 0..segments {
        bytes.extend([offset + segment, 1].map(u64::to_le_bytes).concat());
        bytes.extend([0.25, 0.5].map(f64::to_le_bytes).concat());
    }
    bytes
}

#[test]
fn all_versions_are_read_and_the_highest_level_of_each_file_counts() {
    for version in ["3.10", "3.20", "3.21", "3.41"] {
        let seen = read(&Foreigner { version, ..Foreigner::default() }.log()).expect("a log");
        let seen: Vec<_> = seen
            .iter()
            .map(|(who, event)| {
                let file = event.file.as_deref().unwrap_or_default();
                (format!("{}@{} {file} {}", who.label, who.node, event.call.op), event.offset, event.took_ns)
            })
            .collect();
        let wanted = [
            ("1@node-1 /posix write".to_owned(), 200, 250_000_000),
            ("1@node-1 /posix read".to_owned(), 201, 250_000_000),
            ("1@node-1 /posix read".to_owned(), 202, 250_000_000),
            ("1@node-1 /f write".to_owned(), 300, 250_000_000),
            ("1@node-1 /f read".to_owned(), 301, 250_000_000),
        ];
        assert_eq!(seen, wanted, "{version}");
    }
}

#[test]
fn what_is_missing_is_said() {
    let complaints = |log: Foreigner| {
        let accesses = Accesses::of_log(Cursor::new(log.log())).expect("a log");
        (accesses.complaints().concat(), accesses.count())
    };
    let (said, count) = complaints(Foreigner { incomplete: 1 << 11, ..Foreigner::default() });
    assert!(said.contains("incomplete") && count == 5, "{said}");
    let (said, _) = complaints(Foreigner { incomplete: 1 << 9, ..Foreigner::default() });
    assert_eq!(said, "", "other modules are not ours");
    // Without offsets there are only those of the lower level, of both files.
    let (said, count) = complaints(Foreigner { mpi_version: 1, ..Foreigner::default() });
    assert!(said.contains("no offsets") && count == 6, "{said}");
}

#[test]
fn what_is_not_read_is_refused_in_one_line() {
    let refused = |log: Foreigner| read(&log.log()).expect_err("refused");
    let bzip2 = refused(Foreigner { compression: 1, ..Foreigner::default() });
    assert!(matches!(bzip2, Error::Foreign(Foreign::Compression(1))));
    let big = refused(Foreigner { magic: 6_567_223u64.swap_bytes(), ..Foreigner::default() });
    assert!(matches!(big, Error::Foreign(Foreign::BigEndian)));
    let old = refused(Foreigner { version: "2.06", ..Foreigner::default() });
    let other = refused(Foreigner { magic: 1, ..Foreigner::default() });
    for (error, part) in [
        (bzip2, "bzip2"),
        (big, "big-endian"),
        (old, "version \"2.06\""),
        (other, "damaged: its first bytes"),
    ] {
        let line = error.to_string();
        assert!(line.contains(part) && !line.contains('\n'), "{line}");
    }
    let mut none = Foreigner::default().log();
    // The lengths of both modules.
    for module in [10, 11] {
        none[48 + 16 * module + 8..][..8].fill(0);
    }
    assert!(matches!(read(&none), Err(Error::NoDxt)));
    // The header says zlib, but the data is not.
    assert!(matches!(
        read(&Foreigner { compression: 0, ..Foreigner::default() }.log()),
        Err(Error::Damaged(_))
    ));
}
