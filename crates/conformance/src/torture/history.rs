//! The calls of the workers, with their times and outcomes.
//!
//! A worker writes a line to its own journal, a file outside of the partition, before each call (`B`, begin) and after
//! it (`E`, end). The lines survive the worker's death, so a call that never returned is known as such. All times
//! are of the machine's monotonic clock, which all processes share.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Nanoseconds of the monotonic clock.
pub type Nanos = u64;

/// The time.
pub fn now() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Connect,
    Open {
        file: usize,
        how: How,
    },
    /// All extents with the bytes of this serial number.
    Write {
        file: usize,
        serial: u64,
        extents: Vec<(u64, u64)>,
        /// Into the worker's own memory, at first.
        kept: bool,
    },
    Read {
        file: usize,
        at: u64,
        len: u64,
    },
    Len {
        file: usize,
    },
    SetLen {
        file: usize,
        size: u64,
    },
    Sync {
        file: usize,
    },
    Flush {
        file: usize,
    },
    Close {
        file: usize,
    },
    /// Names are in the directory of the worker's slot. A new file is created, filled with its number and closed.
    Create {
        name: String,
        number: u64,
    },
    Fill {
        name: String,
        number: u64,
    },
    CloseNew {
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        name: String,
    },
    List {
        slot: usize,
    },
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Read,
    Write,
    /// For writing, and empty afterwards.
    Truncate,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Done,
    Bytes(Vec<u8>),
    Size(u64),
    /// Names with the first bytes of the files.
    Names(Vec<(String, Vec<u8>)>),
    Failed {
        kind: String,
        text: String,
    },
}

/// A call of a worker.
#[derive(Clone, Debug)]
pub struct Call {
    pub worker: u32,
    pub slot: usize,
    pub op: Op,
    pub start: Nanos,
    /// When it returned; none if the worker died in it.
    pub end: Option<Nanos>,
    pub outcome: Option<CallOutcome>,
}

impl Call {
    /// Whether it returned success.
    pub fn succeeded(&self) -> bool {
        !matches!(self.outcome, None | Some(CallOutcome::Failed { .. }))
    }

    /// The error that it returned.
    pub fn failure(&self) -> Option<(&str, &str)> {
        match &self.outcome {
            Some(CallOutcome::Failed { kind, text }) => Some((kind, text)),
            _ => None,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Connect => write!(f, "connect"),
            Op::Open { file, how: How::Read } => write!(f, "open-read {file}"),
            Op::Open { file, how: How::Write } => write!(f, "open-write {file}"),
            Op::Open { file, how: How::Truncate } => write!(f, "open-truncate {file}"),
            Op::Write { file, serial, extents, kept } => {
                write!(f, "{} {file} {serial}", if *kept { "keep" } else { "write" })?;
                extents.iter().try_for_each(|(at, len)| write!(f, " {at} {len}"))
            }
            Op::Read { file, at, len } => write!(f, "read {file} {at} {len}"),
            Op::Len { file } => write!(f, "len {file}"),
            Op::SetLen { file, size } => write!(f, "set-len {file} {size}"),
            Op::Sync { file } => write!(f, "sync {file}"),
            Op::Flush { file } => write!(f, "flush {file}"),
            Op::Close { file } => write!(f, "close {file}"),
            Op::Create { name, number } => write!(f, "create {name} {number}"),
            Op::Fill { name, number } => write!(f, "fill {name} {number}"),
            Op::CloseNew { name } => write!(f, "close-new {name}"),
            Op::Rename { from, to } => write!(f, "rename {from} {to}"),
            Op::Remove { name } => write!(f, "remove {name}"),
            Op::List { slot } => write!(f, "list {slot}"),
        }
    }
}

/// Words of a line, taken one after the other.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    fn name(&mut self) -> Option<String> {
        self.word().map(str::to_owned)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.word()?.parse().ok()
    }

    fn op(&mut self) -> Option<Op> {
        let word = self.word()?;
        let op = match word {
            "connect" => Op::Connect,
            "open-read" => Op::Open { file: self.number()?, how: How::Read },
            "open-write" => Op::Open { file: self.number()?, how: How::Write },
            "open-truncate" => Op::Open { file: self.number()?, how: How::Truncate },
            "write" | "keep" => {
                let (file, serial) = (self.number()?, self.number()?);
                let mut extents = Vec::new();
                while let Some(at) = self.number() {
                    extents.push((at, self.number()?));
                }
                Op::Write { file, serial, extents, kept: word == "keep" }
            }
            "read" => Op::Read { file: self.number()?, at: self.number()?, len: self.number()? },
            "len" => Op::Len { file: self.number()? },
            "set-len" => Op::SetLen { file: self.number()?, size: self.number()? },
            "sync" => Op::Sync { file: self.number()? },
            "flush" => Op::Flush { file: self.number()? },
            "close" => Op::Close { file: self.number()? },
            "create" => Op::Create { name: self.name()?, number: self.number()? },
            "fill" => Op::Fill { name: self.name()?, number: self.number()? },
            "close-new" => Op::CloseNew { name: self.name()? },
            "rename" => Op::Rename { from: self.name()?, to: self.name()? },
            "remove" => Op::Remove { name: self.name()? },
            "list" => Op::List { slot: self.number()? },
            _ => return None,
        };
        Some(op)
    }

    fn outcome(&mut self) -> Option<CallOutcome> {
        let outcome = match self.word()? {
            "done" => CallOutcome::Done,
            "bytes" => CallOutcome::Bytes(from_hex(self.word().unwrap_or_default())?),
            "size" => CallOutcome::Size(self.number()?),
            "names" => {
                let mut names = Vec::new();
                while let Some(word) = self.word() {
                    let (name, hex) = word.split_once('=')?;
                    names.push((name.to_owned(), from_hex(hex)?));
                }
                CallOutcome::Names(names)
            }
            "failed" => {
                let kind = self.name()?;
                let text: Vec<&str> = self.0.by_ref().collect();
                CallOutcome::Failed { kind, text: text.join(" ") }
            }
            _ => return None,
        };
        Some(outcome)
    }
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(pair[0])? << 4 | digit(*pair.get(1)?)?) as u8)).collect()
}

impl fmt::Display for CallOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallOutcome::Done => write!(f, "done"),
            CallOutcome::Bytes(bytes) => write!(f, "bytes {}", to_hex(bytes)),
            CallOutcome::Size(size) => write!(f, "size {size}"),
            CallOutcome::Names(names) => {
                write!(f, "names")?;
                names.iter().try_for_each(|(name, bytes)| write!(f, " {name}={}", to_hex(bytes)))
            }
            CallOutcome::Failed { kind, text } => write!(f, "failed {kind} {}", text.replace('\n', " ")),
        }
    }
}

/// The journal of a worker, being written.
pub struct Journal {
    file: File,
}

impl Journal {
    /// A new one.
    pub fn create(path: &Path) -> io::Result<Journal> {
        Ok(Journal { file: OpenOptions::new().create_new(true).append(true).open(path)? })
    }

    /// Executes a call between its two lines.
    pub fn call(&mut self, op: &Op, act: impl FnOnce() -> CallOutcome) -> CallOutcome {
        self.line(&format!("{} B {op}\n", now()));
        let outcome = act();
        self.line(&format!("{} E {outcome}\n", now()));
        outcome
    }

    /// A line in one system call, so that there is all of it or nothing.
    fn line(&mut self, text: &str) {
        self.file.write_all(text.as_bytes()).expect("the journal lies where there is room");
    }
}

/// The calls of a worker. The last one may not have returned.
pub fn calls(path: &Path, worker: u32, slot: usize) -> io::Result<Vec<Call>> {
    let text = match std::fs::read_to_string(path) {
        // Killed before its first line.
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    let mut calls: Vec<Call> = Vec::new();
    for line in text.lines() {
        let mut words = Words(line.split_whitespace());
        let parsed = words.number().zip(words.word()).and_then(|(at, mark)| match mark {
            "B" => {
                let op = words.op()?;
                calls.push(Call { worker, slot, op, start: at, end: None, outcome: None });
                Some(())
            }
            "E" => {
                let outcome = words.outcome()?;
                let call = calls.last_mut()?;
                (call.end, call.outcome) = (Some(at), Some(outcome));
                Some(())
            }
            _ => None,
        });
        let bad = || io::Error::other(format!("{}: not understood: {line:.100}", path.display()));
        parsed.ok_or_else(bad)?;
    }
    Ok(calls)
}

/// The byte that the write of this serial number puts at an offset.
pub fn pattern(serial: u64, at: u64) -> u8 {
    let mut z = (at / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ serial.wrapping_mul(0xd6e8_feb8_6659_fd93);
    z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    z ^= z >> 29;
    z.to_le_bytes()[(at % 8) as usize]
}

/// The bytes of an extent.
pub fn content(serial: u64, at: u64, len: u64) -> Vec<u8> {
    (at..at + len).map(|offset| pattern(serial, offset)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_decodes_to_what_was_encoded() {
        let dir = crate::scratch();
        let path = dir.join("journal");
        let mut journal = Journal::create(&path).expect("a new file");
        let ops = [
            (Op::Connect, CallOutcome::Done),
            (Op::Open { file: 2, how: How::Truncate }, CallOutcome::Done),
            (
                Op::Write { file: 1, serial: 7, extents: vec![(0, 10), (50, 3)], kept: true },
                CallOutcome::Done,
            ),
            (Op::Read { file: 1, at: 5, len: 3 }, CallOutcome::Bytes(vec![0, 255, 16])),
            (Op::Read { file: 1, at: 5, len: 3 }, CallOutcome::Bytes(vec![])),
            (Op::Len { file: 1 }, CallOutcome::Size(53)),
            (Op::List { slot: 0 }, CallOutcome::Names(vec![("a".into(), vec![1, 2]), ("b".into(), vec![])])),
            (
                Op::Rename { from: "a".into(), to: "b".into() },
                CallOutcome::Failed { kind: "Unreachable".into(), text: "server 1: x".into() },
            ),
        ];
        for (op, outcome) in &ops {
            journal.call(op, || outcome.clone());
        }
        journal.line("17 B sync 3\n");
        let calls = calls(&path, 4, 1).expect("it can be read");
        let back: Vec<_> = calls.iter().map(|call| (call.op.clone(), call.outcome.clone())).collect();
        let mut wanted: Vec<_> =
            ops.iter().map(|(op, outcome)| (op.clone(), Some(outcome.clone()))).collect();
        wanted.push((Op::Sync { file: 3 }, None));
        assert_eq!(back, wanted);
    }
}
