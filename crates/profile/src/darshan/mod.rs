//! Darshan's logs with extended tracing (DXT): read as the log itself ([`Accesses::of_log`]) or as what
//! `darshan-dxt-parser` prints of it ([`Accesses::of_text`]), and written ([`Log`]).
//!
//! Where a file was accessed through MPI-IO, the accesses of that level count, because the level below it shows who
//! wrote for others; other files have accesses of the lower level only.
//!
//! A log, byte by byte. All numbers are little-endian on most machines, and here; times are doubles, in seconds from the
//! start of the job on. Each region behind the header is compressed: one or several zlib streams (RFC 1950), each of
//! which may end within a record.
//!
//! ```text
//! header                         versions 3.10, 3.20, 3.21 | 3.41
//!   version, a text up to a zero         0   8            0    8
//!   magic 6567223                        8   8            8    8
//!   compression: 0 zlib, 1 bzip2, 2 none 16   1           16    1
//!   modules that are incomplete, in bits 20   4           24    8
//!   offset and length of the names       24  16           32   16
//!   offset and length of each module     40  16 × 16      48   16 × 64
//!   version of each module's records    296   4 × 16    1072    4 × 64
//!   its size                            360             1328
//!   number of DXT_POSIX, DXT_MPIIO        9, 10; 3.10: 8, 9 | 10, 11
//! job (4096 bytes)
//!    0  40  user, start, end (seconds since 1970), processes, job; in 3.41 start and end have nanoseconds behind them
//!   40 1024 remarks, lines of name=value
//! 1064      command, and on further lines mounted file systems: type, tab, directory; up to a zero
//! names, one after the other
//!    0   8  number of the file
//!    8      its name, up to a zero
//! records of DXT, one per file and rank
//!    0   8  number of the file
//!    8   8  rank
//!   16   8  -1 if others use the file, too
//!   24  64  host
//!   88  16  number of writes, number of reads
//!  104      writes and then reads, 32 bytes each: offset, length, start, end
//! ```
//!
//! Records of DXT_MPIIO have offsets from their version 2 on.

mod log;
mod text;
mod write;
mod zlib;

pub use write::Log;

use crate::interned::Interned;
use crate::profile::MOST_ACCESSES;
use crate::{Error, TracedProcess};
use pario_trace::{TraceEvent, TracedCall, TracedOp, TracedPieces};
use std::io::{BufRead, Read, Seek};

/// How versions of the format differ.
struct Layout {
    /// Where in the header the flags of incomplete modules are, and how many bytes they have.
    incomplete: (usize, usize),
    modules: usize,
    posix: usize,
    mpi: usize,
}

const OLDEST: Layout = Layout { posix: 8, mpi: 9, ..OLD };
const OLD: Layout = Layout { incomplete: (20, 4), modules: 16, posix: 9, mpi: 10 };
const NEW: Layout = Layout { incomplete: (24, 8), modules: 64, posix: 10, mpi: 11 };

impl Layout {
    /// Where the place of the names is.
    fn names(&self) -> usize {
        self.incomplete.0 + self.incomplete.1
    }

    fn module(&self, module: usize) -> usize {
        self.names() + 16 + 16 * module
    }

    fn version(&self, module: usize) -> usize {
        self.module(self.modules) + 4 * module
    }

    /// Bytes of the header.
    fn size(&self) -> usize {
        self.version(self.modules)
    }
}

const MAGIC: u64 = 6_567_223;
/// Bytes of a record before its accesses, and of an access.
const RECORD: usize = 104;
const ACCESS: usize = 32;
/// The first version of DXT_MPIIO's records that has offsets.
const WITH_OFFSETS: u32 = 2;

/// Why a log is not read, although it may be a good one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// It is of a version that is not known.
    #[error("with version {0:?}")]
    Version(String),
    /// It was written on a big-endian machine.
    #[error("from a big-endian machine")]
    BigEndian,
    /// It is compressed by other means than zlib.
    #[error("{}", if *.0 == 1 { "that bzip2 compresses".to_owned() } else { format!("with compression {}", .0) })]
    Compression(u8),
}

/// The accesses of a log as operations.
#[derive(Debug, Default)]
pub struct Accesses {
    files: Interned,
    /// Which files were accessed through MPI-IO.
    by_mpi: Vec<bool>,
    ranks: Interned,
    who: Vec<TracedProcess>,
    segments: std::vec::IntoIter<Segment>,
    complaints: Vec<&'static str>,
}

/// One access, of one level.
#[derive(Clone, Copy, Debug)]
struct Segment {
    file: u32,
    rank: u32,
    write: bool,
    mpi: bool,
    offset: u64,
    len: u64,
    start_ns: u64,
    took_ns: u64,
}

impl Accesses {
    /// Reads what `darshan-dxt-parser` prints of a log.
    pub fn of_text(input: impl BufRead) -> Result<Accesses, Error> {
        text::read(input)
    }

    /// Reads a log.
    pub fn of_log(input: impl Read + Seek) -> Result<Accesses, Error> {
        log::read(input)
    }

    /// In which ways the log is incomplete.
    pub fn complaints(&self) -> &[&'static str] {
        &self.complaints
    }

    /// The number of a file; that it is used through MPI-IO is kept.
    fn file(&mut self, name: &str, mpi: bool) -> u32 {
        let file = self.files.number(name);
        if file as usize == self.by_mpi.len() {
            self.by_mpi.push(false);
        }
        self.by_mpi[file as usize] |= mpi;
        file
    }

    fn rank(&mut self, rank: &str, host: &str) -> u32 {
        let number = self.ranks.number(rank);
        if number as usize == self.who.len() {
            self.who.push(TracedProcess { label: rank.into(), node: host.into() });
        }
        number
    }

    /// All of them are read before the first is handed out, because which ones count shows at the end.
    fn with(mut self, segments: Vec<Segment>) -> Accesses {
        self.segments = segments.into_iter();
        self
    }
}

/// Keeps one more, if there is room.
fn keep(segments: &mut Vec<Segment>, segment: Segment) -> Result<(), Error> {
    if segments.len() == MOST_ACCESSES {
        return Err(Error::TooMany);
    }
    segments.push(segment);
    Ok(())
}

impl Iterator for Accesses {
    type Item = (TracedProcess, TraceEvent);

    fn next(&mut self) -> Option<(TracedProcess, TraceEvent)> {
        let by_mpi = &self.by_mpi;
        let segment = self.segments.find(|segment| segment.mpi == by_mpi[segment.file as usize])?;
        let event = TraceEvent {
            call: TracedCall::from(if segment.write { TracedOp::Write } else { TracedOp::Read }),
            file: Some(self.files.strings()[segment.file as usize].clone()),
            offset: segment.offset,
            end: segment.offset + segment.len,
            len: segment.len,
            moved: segment.len,
            start_ns: segment.start_ns,
            took_ns: segment.took_ns,
            errno: 0,
            kind: None,
            class: 0,
            on_behalf_of: None,
            pieces: TracedPieces::All,
        };
        Some((self.who[segment.rank as usize].clone(), event))
    }
}
