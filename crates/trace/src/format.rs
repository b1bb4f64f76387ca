//! The trace file, version 3, byte by byte. All numbers are little-endian.
//!
//! A file is a header and then entries, each with its own size, so that a reader can skip what it does not
//! know and a later version can add fields at the end of the header or of any entry.
//!
//! ```text
//! header
//!   0  8  magic "PARIOTRC"
//!   8  4  version, 3; a reader refuses any above (version 2 has no clocks and runs, so that a tick is a
//!         nanosecond; version 1 has no plain operations either and a shorter trailer)
//!  12  2  size of the header, texts included (at least 48)
//!  14  1  actor: 0 task, 1 agent, 2 server
//!  15  1  mode: 0 errors, 1 all
//!  16  4  rank in the world
//!  20  4  ranks of the world
//!  24  8  the moment from which times in this file count: nanoseconds since 1970 (UTC)
//!  32  8  smallest offset: reads and writes wholly below it were left out
//!  40  4  process id
//!  44  2  length of the host's name
//!  46  2  length of the job's word
//!  48     host's name, job's word (UTF-8)
//!
//! every entry
//!   0  2  size of the entry, these two bytes included (at least 4)
//!   2  1  tag
//!
//! tag 1, a file's name; stands before the first operation that refers to it
//!   3  1  0
//!   4  4  number of the file
//!   8     name, as the program gave it (bytes)
//!
//! tag 2, an operation (72 bytes)
//!   3  1  what was done (the numbers of `TracedOp`)
//!   4  1  how: bits 0-2 place, bit 3 collective, bits 4-5 pace
//!   5  1  what went wrong: 0 nothing, else the code of the error kind
//!   6  2  0
//!   8  4  number of the file, 0 for none
//!  12  4  MPI error class, 0 for success (the host MPI's number)
//!  16  4  errno, 0 for none
//!  20  4  1 + the rank on whose behalf it was done, 0 for the actor itself
//!  24  8  first byte asked for
//!  32  8  one past the last byte asked for
//!  40  8  bytes asked for
//!  48  8  bytes moved
//!  56  8  start, in ticks
//!  64  8  duration in ticks
//! and, if the bytes asked for are not simply all from the first to the last (104 bytes)
//!  72  4  number of the view's pattern
//!  76  4  0
//!  80  8  displacement of the view
//!  88  8  position in the view's data
//!  96  8  bytes of the view's data
//!
//! tag 6, a plain operation (28 bytes): it went well, by and for the actor itself, and moved all of what it asked for,
//! which are all bytes from the first to the last; it stands behind another operation
//!   3  1  what was done (the numbers of `TracedOp`)
//!   4  1  how: bits 0-2 place, bit 3 collective, bits 4-5 pace
//!   5  3  number of the file, 0 for none
//!   8  8  first byte asked for
//!  16  4  bytes asked for and moved
//!  20  4  start, in ticks from the start of the operation before in this file, or before that (signed)
//!  24  4  duration in ticks
//!
//! tag 8, a run of plain operations (32 bytes, and 8 for each); all are of the same kind, on the same file
//! and of the same length, and the run stands behind another operation
//!   3  1  what was done (the numbers of `TracedOp`)
//!   4  1  how: bits 0-2 place, bit 3 collective, bits 4-5 pace
//!   5  3  number of the file, 0 for none
//!   8  8  first byte asked for by the first of them
//!  16  8  how much further that of the next is, and so on (signed)
//!  24  4  bytes asked for and moved by each
//!  28  4  0
//!  32     of each: start, in ticks from the start of the operation before (4 bytes), and duration (4 bytes)
//!
//! tag 7, a clock (24 bytes): what the ticks of the operations up to the next clock are. Before the first, a
//! tick is a nanosecond and tick 0 the header's moment
//!   3  5  0
//!   8  8  tick 0, in nanoseconds from the header's moment (signed), by a clock that never steps
//!  16  8  length of a tick, in nanoseconds · 2³²
//!
//! tag 3, the trailer (40 bytes); the last entry of a process that finished
//!   3  5  0
//!   8  8  operations in the file
//!  16  8  operations lost because the file could not be written
//!  24  8  end, in nanoseconds from the header's moment
//!  32  8  what recording cost, in nanoseconds, as the process itself measured it
//!
//! tag 4, a gap (16 bytes): operations were lost before this place
//!   3  5  0
//!   8  8  operations lost from the start of the file to here
//!
//! tag 5, a part of a pattern; the parts, from 0 on, stand before the first operation that refers to it
//!   3  1  0
//!   4  4  number of the pattern
//!   8  4  bytes of the whole pattern
//!  12  4  where in it these bytes belong
//!  16     bytes, whose meaning is that of the crate `view`
//! ```

use crate::clock::Scale;
use crate::event::{Actor, TracedCall};
use crate::plain::{self, PLAIN, RUN, Run};
use crate::setup::TraceMode;

pub(crate) const MAGIC: [u8; 8] = *b"PARIOTRC";
pub(crate) const VERSION: u32 = 3;
pub(crate) const HEADER: usize = 48;
pub(crate) const OPERATION: usize = 72;
pub(crate) const VIEWED: usize = 104;
const NAME: usize = 8;
const TRAILER: usize = 40;
/// What version 1 has of it.
const SHORT_TRAILER: usize = 32;
const GAP: usize = 16;
const CLOCK: usize = 24;
pub(crate) const PART: usize = 16;
/// Bytes of a pattern in one entry.
pub(crate) const LONGEST_PART: usize = 32 << 10;
/// Longer texts are cut: a path is at most 4096 bytes on Linux.
pub(crate) const LONGEST_NAME: usize = 4096;
const LONGEST_TEXT: usize = 255;

/// The header of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceHeader {
    /// The actor that recorded.
    pub actor: Actor,
    /// The recorded operations.
    pub mode: TraceMode,
    /// The rank in the world.
    pub rank: u32,
    /// Ranks of the world.
    pub ranks: u32,
    /// When recording began, in nanoseconds since 1970 (UTC).
    pub began_ns: u64,
    /// Reads and writes wholly below this offset were left out.
    pub min: u64,
    /// The process.
    pub pid: u32,
    /// The host it ran on.
    pub host: String,
    /// The job's word, empty where none was known.
    pub job: String,
}

impl TraceHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (host, job) = (cut(&self.host), cut(&self.job));
        let mut bytes = Vec::with_capacity(HEADER + host.len() + job.len());
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(((HEADER + host.len() + job.len()) as u16).to_le_bytes());
        bytes.push(self.actor.code());
        bytes.push(match self.mode {
            TraceMode::Errors => 0,
            TraceMode::All => 1,
        });
        bytes.extend(self.rank.to_le_bytes());
        bytes.extend(self.ranks.to_le_bytes());
        bytes.extend(self.began_ns.to_le_bytes());
        bytes.extend(self.min.to_le_bytes());
        bytes.extend(self.pid.to_le_bytes());
        bytes.extend((host.len() as u16).to_le_bytes());
        bytes.extend((job.len() as u16).to_le_bytes());
        bytes.extend(host.as_bytes());
        bytes.extend(job.as_bytes());
        bytes
    }

    /// The header of which `fixed` is the start and `texts` the rest; `None` where they do not fit together.
    pub(crate) fn decode(fixed: &[u8; HEADER], texts: &[u8]) -> Option<TraceHeader> {
        let host = usize::from(u16_at(fixed, 44));
        let job = usize::from(u16_at(fixed, 46));
        Some(TraceHeader {
            actor: Actor::from_code(fixed[14]),
            mode: if fixed[15] == 0 { TraceMode::Errors } else { TraceMode::All },
            rank: u32_at(fixed, 16),
            ranks: u32_at(fixed, 20),
            began_ns: u64_at(fixed, 24),
            min: u64_at(fixed, 32),
            pid: u32_at(fixed, 40),
            host: String::from_utf8_lossy(texts.get(..host)?).into_owned(),
            job: String::from_utf8_lossy(texts.get(host..host + job)?).into_owned(),
        })
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// An operation as it stands in the file; times are in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub call: TracedCall,
    pub kind: u8,
    pub file: u32,
    pub class: i32,
    pub errno: i32,
    pub behalf: u32,
    pub offset: u64,
    pub end: u64,
    pub len: u64,
    pub moved: u64,
    pub start: u64,
    pub took: u64,
    pub window: Option<Window>,
}

/// Which bytes of a view an operation is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub pattern: u32,
    pub disp: u64,
    pub at: u64,
    pub len: u64,
}

impl Operation {
    pub fn encode(&self, into: &mut Vec<u8>) {
        let mut bytes = [0; VIEWED];
        let size = if self.window.is_some() { VIEWED } else { OPERATION };
        bytes[0] = size as u8;
        bytes[2] = 2;
        bytes[3] = self.call.op.code();
        bytes[4] = self.call.manner();
        bytes[5] = self.kind;
        bytes[8..12].copy_from_slice(&self.file.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.class.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.errno.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.behalf.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.offset.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.end.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.len.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.moved.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.start.to_le_bytes());
        bytes[64..72].copy_from_slice(&self.took.to_le_bytes());
        if let Some(window) = &self.window {
            bytes[72..76].copy_from_slice(&window.pattern.to_le_bytes());
            bytes[80..88].copy_from_slice(&window.disp.to_le_bytes());
            bytes[88..96].copy_from_slice(&window.at.to_le_bytes());
            bytes[96..104].copy_from_slice(&window.len.to_le_bytes());
        }
        into.extend_from_slice(&bytes[..size]);
    }

    /// The entry of a plain operation, if this is one, behind an operation that started at `before`.
    pub fn plain(&self, before: u64) -> Option<[u8; PLAIN]> {
        let good = (self.kind, self.class, self.errno, self.behalf) == (0, 0, 0, 0) && self.moved == self.len;
        let contiguous = self.window.is_none() && self.end.wrapping_sub(self.offset) == self.len;
        if !good || !contiguous || self.file >= 1 << 24 {
            return None;
        }
        let len = u32::try_from(self.len).ok()?;
        let took = u32::try_from(self.took).ok()?;
        let since = i32::try_from(self.start.wrapping_sub(before) as i64).ok()?;
        let [file, file_1, file_2, _] = self.file.to_le_bytes();
        let what = [self.call.op.code(), self.call.manner(), file, file_1, file_2];
        Some(plain::entry(what, self.offset, len, since, took))
    }

    /// A plain operation; its start counts from that of the operation before.
    fn decode_plain(bytes: &[u8]) -> Operation {
        let (call, file) = (TracedCall::from_codes(bytes[3], bytes[4]), u32_at(bytes, 4) >> 8);
        let (len, took) = (u64::from(u32_at(bytes, 16)), u64::from(u32_at(bytes, 24)));
        let start = i64::from(u32_at(bytes, 20) as i32) as u64;
        Operation::plain_one(call, file, u64_at(bytes, 8), len, start, took)
    }

    /// When it was over.
    pub fn over(&self) -> u64 {
        self.start.saturating_add(self.took)
    }

    /// One of which there is no more to say.
    pub fn plain_one(call: TracedCall, file: u32, offset: u64, len: u64, start: u64, took: u64) -> Operation {
        let end = offset.saturating_add(len);
        let (kind, class, errno, behalf, moved, window) = (0, 0, 0, 0, len, None);
        Operation { call, kind, file, class, errno, behalf, offset, end, len, moved, start, took, window }
    }

    fn decode(bytes: &[u8]) -> Operation {
        Operation {
            call: TracedCall::from_codes(bytes[3], bytes[4]),
            kind: bytes[5],
            file: u32_at(bytes, 8),
            class: u32_at(bytes, 12) as i32,
            errno: u32_at(bytes, 16) as i32,
            behalf: u32_at(bytes, 20),
            offset: u64_at(bytes, 24),
            end: u64_at(bytes, 32),
            len: u64_at(bytes, 40),
            moved: u64_at(bytes, 48),
            start: u64_at(bytes, 56),
            took: u64_at(bytes, 64),
            window: (bytes.len() >= VIEWED).then(|| Window {
                pattern: u32_at(bytes, 72),
                disp: u64_at(bytes, 80),
                at: u64_at(bytes, 88),
                len: u64_at(bytes, 96),
            }),
        }
    }
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Name {
        file: u32,
        name: Vec<u8>,
    },
    Operation(Operation),
    /// The start counts from that of the operation before.
    Plain(Operation),
    Run(Run),
    Clock(Scale),
    Trailer {
        kept: u64,
        lost: u64,
        cost_ns: Option<u64>,
    },
    Gap {
        lost: u64,
    },
    Part {
        pattern: u32,
        size: u32,
        at: u32,
        bytes: Vec<u8>,
    },
    Unknown,
}

impl Entry {
    /// Reads an entry from all of its bytes; `None` if they are too few for its tag.
    pub fn decode(bytes: &[u8]) -> Option<Entry> {
        let fits = |least: usize| (bytes.len() >= least).then_some(());
        match *bytes.get(2)? {
            1 => fits(NAME).map(|()| Entry::Name { file: u32_at(bytes, 4), name: bytes[NAME..].to_vec() }),
            2 => fits(OPERATION).map(|()| Entry::Operation(Operation::decode(bytes))),
            3 => fits(SHORT_TRAILER).map(|()| Entry::Trailer {
                kept: u64_at(bytes, 8),
                lost: u64_at(bytes, 16),
                cost_ns: fits(TRAILER).map(|()| u64_at(bytes, 32)),
            }),
            4 => fits(GAP).map(|()| Entry::Gap { lost: u64_at(bytes, 8) }),
            5 => fits(PART).map(|()| Entry::Part {
                pattern: u32_at(bytes, 4),
                size: u32_at(bytes, 8),
                at: u32_at(bytes, 12),
                bytes: bytes[PART..].to_vec(),
            }),
            6 => fits(PLAIN).map(|()| Entry::Plain(Operation::decode_plain(bytes))),
            7 => fits(CLOCK)
                .map(|()| Entry::Clock(Scale { base_ns: u64_at(bytes, 8) as i64, rate: u64_at(bytes, 16) })),
            8 => fits(RUN).and_then(|()| Run::decode(bytes)).map(Entry::Run),
            _ => Some(Entry::Unknown),
        }
    }
}

/// The start of an entry of `size` bytes: the size, the tag, a zero.
pub(crate) fn head(size: usize, tag: u8) -> [u8; 4] {
    let [low, high] = (size as u16).to_le_bytes();
    [low, high, tag, 0]
}

pub(crate) fn name(file: u32, name: &[u8], into: &mut Vec<u8>) {
    let name = &name[..name.len().min(LONGEST_NAME)];
    into.extend(head(NAME + name.len(), 1));
    into.extend(file.to_le_bytes());
    into.extend(name);
}

/// The part of a pattern that begins at `at`: at most [`LONGEST_PART`] bytes. Its length.
pub(crate) fn part(pattern: u32, whole: &[u8], at: usize, into: &mut Vec<u8>) -> usize {
    let bytes = &whole[at..whole.len().min(at + LONGEST_PART)];
    into.extend(head(PART + bytes.len(), 5));
    [pattern, whole.len() as u32, at as u32].iter().for_each(|number| into.extend(number.to_le_bytes()));
    into.extend(bytes);
    bytes.len()
}

pub(crate) fn trailer(kept: u64, lost: u64, end_ns: u64, cost_ns: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TRAILER);
    bytes.extend(head(TRAILER, 3));
    bytes.extend([0; 4]);
    [kept, lost, end_ns, cost_ns].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes
}

pub(crate) fn gap(lost: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(GAP);
    bytes.extend(head(GAP, 4));
    bytes.extend([0; 4]);
    bytes.extend(lost.to_le_bytes());
    bytes
}

pub(crate) fn clock(scale: Scale) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CLOCK);
    bytes.extend(head(CLOCK, 7));
    bytes.extend([0; 4]);
    bytes.extend(scale.base_ns.to_le_bytes());
    bytes.extend(scale.rate.to_le_bytes());
    bytes
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TracedOp;

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let operation = Operation {
            call: TracedCall::from(TracedOp::Write).collective(),
            kind: 10,
            file: 7,
            class: 36,
            errno: 28,
            behalf: 4,
            offset: 0x0102,
            end: 0x0304,
            len: 5,
            moved: 6,
            start: 7,
            took: 8,
            window: None,
        };
        let encode = |operation: &Operation| {
            let mut bytes = Vec::new();
            operation.encode(&mut bytes);
            bytes
        };
        let bytes = encode(&operation);
        assert_eq!(bytes[..12], [72, 0, 2, 5, 8, 10, 0, 0, 7, 0, 0, 0]);
        assert_eq!((bytes[12], bytes[16], bytes[20], bytes[24], bytes[25]), (36, 28, 4, 2, 1));
        assert_eq!(Entry::decode(&bytes), Some(Entry::Operation(operation)));

        let window = Some(Window { pattern: 3, disp: 4, at: 5, len: 6 });
        let viewed = Operation { window, ..operation };
        let long = encode(&viewed);
        assert_eq!((long[0], long[72], long[80], long[88], long[96]), (104, 3, 4, 5, 6));
        assert_eq!(Entry::decode(&long), Some(Entry::Operation(viewed)));
        let mut parted = Vec::new();
        assert_eq!(part(3, b"abcd", 2, &mut parted), 2);
        assert_eq!(parted, [18, 0, 5, 0, 3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, b'c', b'd']);

        let mut named = Vec::new();
        name(7, b"out", &mut named);
        assert_eq!(named, [11, 0, 1, 0, 7, 0, 0, 0, b'o', b'u', b't']);
        let ended = trailer(1, 2, 3, 4);
        assert_eq!(Entry::decode(&ended), Some(Entry::Trailer { kept: 1, lost: 2, cost_ns: Some(4) }));
        let of_version_1 = &ended[..SHORT_TRAILER];
        assert_eq!(Entry::decode(of_version_1), Some(Entry::Trailer { kept: 1, lost: 2, cost_ns: None }));
        let clock = clock(Scale { base_ns: -2, rate: 3 });
        assert_eq!((clock.len(), clock[..3].to_vec(), clock[8], clock[16]), (24, vec![24, 0, 7], 254, 3));
        assert_eq!(Entry::decode(&clock), Some(Entry::Clock(Scale { base_ns: -2, rate: 3 })));
        assert_eq!(Entry::decode(&gap(9)), Some(Entry::Gap { lost: 9 }));
        assert_eq!(Entry::decode(&[4, 0, 77, 0]), Some(Entry::Unknown));
        assert_eq!(Entry::decode(&bytes[..71]), None);
    }

    #[test]
    fn a_plain_operation_is_short_and_any_other_is_not() {
        let plain = Operation {
            call: TracedCall::from(TracedOp::Write).collective(),
            kind: 0,
            file: 0x0007_0605,
            class: 0,
            errno: 0,
            behalf: 0,
            offset: 0x0102,
            end: 0x0102 + 9,
            len: 9,
            moved: 9,
            start: 1000,
            took: 8,
            window: None,
        };
        let bytes = plain.plain(1003).expect("short");
        let wanted =
            [28, 0, 6, 5, 8, 5, 6, 7, 2, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 253, 255, 255, 255, 8, 0, 0, 0];
        assert_eq!(bytes, wanted);
        let read = Operation { start: plain.start.wrapping_sub(1003), ..plain };
        assert_eq!(Entry::decode(&bytes), Some(Entry::Plain(read)));
        assert_eq!(Entry::decode(&bytes[..27]), None);
        let window = Some(Window { pattern: 3, disp: 4, at: 5, len: 6 });
        for other in [
            Operation { kind: 1, ..plain },
            Operation { class: 1, ..plain },
            Operation { errno: 1, ..plain },
            Operation { behalf: 1, ..plain },
            Operation { moved: 8, ..plain },
            Operation { end: plain.end + 1, ..plain },
            Operation { window, ..plain },
            Operation { file: 1 << 24, ..plain },
            Operation { took: 1 << 32, ..plain },
            Operation { start: 1003 + (1 << 31), ..plain },
            Operation { len: 1 << 32, moved: 1 << 32, end: plain.offset + (1 << 32), ..plain },
        ] {
            assert_eq!(other.plain(1003), None, "{other:?}");
        }
    }

    #[test]
    fn a_header_survives_and_long_texts_are_cut() {
        let mut header = TraceHeader {
            actor: Actor::Agent,
            mode: TraceMode::All,
            rank: 3,
            ranks: 8,
            began_ns: 1 << 60,
            min: 42,
            pid: 99,
            host: "node".to_owned(),
            job: "j1".to_owned(),
        };
        let bytes = header.encode();
        let fixed: &[u8; HEADER] = bytes.first_chunk().unwrap();
        assert_eq!(TraceHeader::decode(fixed, &bytes[HEADER..]).as_ref(), Some(&header));
        assert_eq!(TraceHeader::decode(fixed, &bytes[HEADER..bytes.len() - 1]), None);
        header.job = "ä".repeat(200);
        assert_eq!(usize::from(u16_at(&header.encode(), 46)), 254);
    }
}
