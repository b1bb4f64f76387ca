//! Operations of clients, and their expected outcomes.

use pario_types::ErrorKind;

/// A client's name for one of its open files.
pub type Handle = usize;

/// How many bytes, one after the other, which servers are to keep in a new file; the rest is striped.
pub type Extents = Vec<(u64, Vec<u16>)>;

/// An operation of a client.
#[derive(Clone, Debug)]
pub enum Op {
    Open { handle: Handle, path: String, how: How, stripe: u64, count: u16, extents: Extents },
    Write { handle: Handle, at: u64, bytes: Vec<u8> },
    WriteStrided { handle: Handle, comb: Comb, bytes: Vec<u8> },
    Read { handle: Handle, at: u64, len: usize },
    ReadStrided { handle: Handle, comb: Comb },
    SetLen { handle: Handle, len: u64 },
    Len { handle: Handle },
    Flush { handle: Handle },
    Sync { handle: Handle },
    Close { handle: Handle },
    Drop { handle: Handle },
    Rename { from: String, to: String, replace: bool },
    Unlink { path: String },
    MakeDirectory { path: String },
    RemoveDirectory { path: String },
    List { path: String },
    Stat { path: String },
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Existing,
    ReadOnly,
    Create,
    New,
    Truncate,
}

/// `count` pieces of `len` bytes, the first at `at`, each `stride` after the one before.
#[derive(Clone, Copy, Debug)]
pub struct Comb {
    pub at: u64,
    pub len: usize,
    pub stride: u64,
    pub count: usize,
}

/// Its outcome.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed(ErrorKind),
    Bytes(Vec<u8>),
    Length(u64),
    /// Names, and which are directories.
    Names(Vec<(String, bool)>),
}

/// Its expected outcome.
#[derive(Clone, Debug)]
pub enum Want {
    Exactly(Outcome),
    /// The beginning of these bytes, of at least this length: others may be about to make the file longer.
    AtLeast(usize, Vec<u8>),
}

/// An operation and what must come of it.
#[derive(Clone, Debug)]
pub struct Step {
    pub op: Op,
    pub want: Want,
}

impl Want {
    /// Why this is not what it should be.
    pub fn contradicts(&self, outcome: &Outcome) -> Option<String> {
        match (self, outcome) {
            (Want::Exactly(Outcome::Bytes(wanted)), Outcome::Bytes(got)) => differ(wanted, got, wanted.len()),
            (Want::AtLeast(least, wanted), Outcome::Bytes(got)) => differ(wanted, got, *least),
            (Want::Exactly(wanted), got) if wanted == got => None,
            (wanted, got) => Some(format!("gave {got:?} instead of {wanted:?}")),
        }
    }
}

/// How bytes that were read differ from the beginning of others.
pub fn differ(wanted: &[u8], got: &[u8], least: usize) -> Option<String> {
    if let Some(at) = (0..wanted.len().min(got.len())).find(|&at| wanted[at] != got[at]) {
        let end = got.len().min(at + 8);
        let run = (at..wanted.len().min(got.len())).filter(|&i| wanted[i] != got[i]).count();
        let (a, b) = (&wanted[at..end.min(wanted.len())], &got[at..end]);
        return Some(format!(
            "differs at byte {at} of {}: {b:02x?} instead of {a:02x?}, {run} in all",
            got.len()
        ));
    }
    let fits = (least..=wanted.len()).contains(&got.len());
    (!fits).then(|| format!("gave {} bytes instead of {least} to {}", got.len(), wanted.len()))
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Done => f.write_str("Done"),
            Outcome::Failed(kind) => write!(f, "Failed({kind:?})"),
            Outcome::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Outcome::Length(length) => write!(f, "Length({length})"),
            Outcome::Names(names) => write!(f, "Names({names:?})"),
        }
    }
}
