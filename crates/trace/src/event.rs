//! The contents of a trace: actor, call, bytes and result of each operation.
//!
//! A recorder takes a [`Record`], a reader returns a [`TraceEvent`]. Every enum that a trace file stores as a number is
//! declared here, with the number and the word of each variant.

use std::fmt;
use std::sync::Arc;

use pario_types::ErrorKind;

use crate::clock::Moment;
use crate::recorder::{PatternId, TracedFile};

/// An enum of names that have a number in a trace file; unknown numbers become the last name.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident:
     $($(#[doc = $about:literal])+ $word:ident = $code:literal $text:literal,)+
     else $last:ident) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[doc = $about])+ $word,)+ }

        impl $name {
            /// Every name.
            pub const ALL: &'static [$name] = &[$($name::$word,)+];

            /// The name in output.
            pub fn word(self) -> &'static str {
                match self { $($name::$word => $text,)+ }
            }

            pub(crate) fn code(self) -> u8 {
                match self { $($name::$word => $code,)+ }
            }

            pub(crate) fn from_code(code: u8) -> $name {
                match code { $($code => $name::$word,)+ _ => $name::$last }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

words! {
    /// The actor of an operation. Each actor writes a trace file of its own.
    Actor:
    /// A rank of the program, in its own calls.
    Task = 0 "task",
    /// The part of a rank that serves other ranks' data shipping.
    Agent = 1 "agent",
    /// A storage server.
    Server = 2 "server",
    else Server
}

words! {
    /// The operation.
    TracedOp:
    /// Opened a file.
    Open = 1 "open",
    /// Closed it.
    Close = 2 "close",
    /// Deleted a file by name.
    Delete = 3 "delete",
    /// Read data.
    Read = 4 "read",
    /// Wrote data.
    Write = 5 "write",
    /// Flushed data to storage.
    Sync = 6 "sync",
    /// Set a view.
    SetView = 7 "set_view",
    /// Set the size.
    SetSize = 8 "set_size",
    /// Reserved space.
    Preallocate = 9 "preallocate",
    /// Set hints.
    SetInfo = 10 "set_info",
    /// Switched atomic mode.
    SetAtomicity = 11 "set_atomicity",
    /// Moved a file pointer.
    Seek = 12 "seek",
    /// Asked for the size.
    GetSize = 13 "get_size",
    /// Took a lock.
    Lock = 14 "lock",
    /// Released a lock.
    Unlock = 15 "unlock",
    /// Prefetched data.
    Prefetch = 16 "prefetch",
    /// Dropped prefetched data.
    Release = 17 "release",
    /// An operation of a later version of the format.
    Other = 255 "other",
    else Other
}

impl TracedOp {
    /// Whether the operation is on a range of bytes, so that the smallest offset of a trace applies to it.
    pub fn on_bytes(self) -> bool {
        matches!(
            self,
            TracedOp::Read
                | TracedOp::Write
                | TracedOp::Lock
                | TracedOp::Unlock
                | TracedOp::Prefetch
                | TracedOp::Release
        )
    }
}

words! {
    /// The kind of file pointer that a read or write uses.
    PointerKind:
    /// None, or unknown.
    Unsaid = 0 "",
    /// At an explicit offset.
    At = 1 "at",
    /// At the individual file pointer.
    Individual = 2 "individual",
    /// At the shared file pointer.
    Shared = 3 "shared",
    /// At the shared file pointer, in the order of the ranks.
    Ordered = 4 "ordered",
    else Unsaid
}

words! {
    /// The synchronism of a call: when it returns.
    Pace:
    /// When it is done.
    Blocking = 0 "blocking",
    /// At once; a request reports when it is done.
    Nonblocking = 1 "nonblocking",
    /// At once; a second collective call waits.
    Split = 2 "split",
    else Blocking
}

/// One function of MPI-IO, or an operation of Pario's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TracedCall {
    /// The operation.
    pub op: TracedOp,
    /// The file pointer.
    pub place: PointerKind,
    /// Whether all ranks of the file take part.
    pub collective: bool,
    /// The time of its return.
    pub pace: Pace,
}

impl From<TracedOp> for TracedCall {
    /// A blocking operation of one rank.
    fn from(op: TracedOp) -> TracedCall {
        TracedCall { op, place: PointerKind::Unsaid, collective: false, pace: Pace::Blocking }
    }
}

impl TracedCall {
    /// The same for all ranks together.
    pub fn collective(self) -> TracedCall {
        TracedCall { collective: true, ..self }
    }

    /// Encodes pointer, collectiveness and synchronism in one byte: bits 0–2, bit 3, bits 4–5.
    pub(crate) fn manner(self) -> u8 {
        self.place.code() | u8::from(self.collective) << 3 | self.pace.code() << 4
    }

    pub(crate) fn from_codes(op: u8, manner: u8) -> TracedCall {
        TracedCall {
            op: TracedOp::from_code(op),
            place: PointerKind::from_code(manner & 7),
            collective: manner & 8 != 0,
            pace: Pace::from_code(manner >> 4 & 3),
        }
    }

    /// The name of the MPI function without its `MPI_File_`, or the operation's name.
    pub fn name(self) -> String {
        let mut name = String::new();
        if matches!(self.op, TracedOp::Read | TracedOp::Write) {
            name.push_str(if self.pace == Pace::Nonblocking { "i" } else { "" });
            name.push_str(self.op.word());
            match self.place {
                PointerKind::At => name.push_str("_at"),
                PointerKind::Shared => name.push_str("_shared"),
                PointerKind::Ordered => name.push_str("_ordered"),
                PointerKind::Unsaid | PointerKind::Individual => (),
            }
            let said = matches!(self.place, PointerKind::Ordered);
            name.push_str(if self.collective && !said { "_all" } else { "" });
            name.push_str(if self.pace == Pace::Split { "_begin" } else { "" });
        } else {
            name.push_str(self.op.word());
        }
        name
    }
}

/// One operation, for a recorder.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The call.
    pub call: TracedCall,
    /// The file.
    pub file: Option<&'a TracedFile>,
    /// The first requested byte of the file.
    pub offset: u64,
    /// One past the last requested byte of the file.
    pub end: u64,
    /// The number of requested bytes; less than `end - offset` where there are gaps between them.
    pub len: u64,
    /// The number of bytes moved.
    pub moved: u64,
    /// Its start, by the recorder's clock.
    pub start: Moment,
    /// Its end.
    pub over: Moment,
    /// The operating system's error number, 0 for none.
    pub errno: i32,
    /// The error.
    pub kind: Option<ErrorKind>,
    /// The MPI error class that the caller got, 0 for success.
    pub class: i32,
    /// The rank on whose behalf an agent or server worked.
    pub on_behalf_of: Option<u32>,
    /// The bytes, if they are not simply all from `offset` to `end`.
    pub view: Option<InView<'a>>,
}

/// The bytes of a view that an operation is on.
#[derive(Clone, Copy, Debug)]
pub struct InView<'a> {
    /// The pattern that the view tiles.
    pub pattern: &'a PatternId,
    /// The displacement of the view.
    pub disp: u64,
    /// The first byte of the view's data.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
}

impl<'a> Record<'a> {
    /// A success without data; the other fields are set by name.
    pub fn new(
        call: impl Into<TracedCall>,
        file: Option<&'a TracedFile>,
        start: Moment,
        over: Moment,
    ) -> Record<'a> {
        Record {
            call: call.into(),
            file,
            offset: 0,
            end: 0,
            len: 0,
            moved: 0,
            start,
            over,
            errno: 0,
            kind: None,
            class: 0,
            on_behalf_of: None,
            view: None,
        }
    }

    /// Whether it failed or moved fewer bytes than requested.
    pub fn is_wrong(&self) -> bool {
        self.moved < self.len || self.errno != 0 || self.kind.is_some() || self.class != 0
    }
}

/// One operation, from a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// The call.
    pub call: TracedCall,
    /// The file.
    pub file: Option<Arc<str>>,
    /// The first requested byte of the file.
    pub offset: u64,
    /// One past the last requested byte of the file.
    pub end: u64,
    /// The number of requested bytes.
    pub len: u64,
    /// The number of bytes moved.
    pub moved: u64,
    /// Its start, in nanoseconds since 1970 (UTC).
    pub start_ns: u64,
    /// Its duration, in nanoseconds.
    pub took_ns: u64,
    /// The operating system's error number, 0 for none.
    pub errno: i32,
    /// The error.
    pub kind: Option<ErrorKind>,
    /// The MPI error class that the caller got, 0 for success.
    pub class: i32,
    /// The rank on whose behalf an agent or server worked.
    pub on_behalf_of: Option<u32>,
    /// The bytes between `offset` and `end`.
    pub pieces: TracedPieces,
}

/// The bytes of a range that an operation accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracedPieces {
    /// All of them.
    All,
    /// Those that a view selects.
    View {
        /// The pattern that the view tiles, encoded by the crate `view`.
        pattern: Arc<[u8]>,
        /// The displacement of the view.
        disp: u64,
        /// The first byte of the view's data.
        at: u64,
        /// The number of bytes.
        len: u64,
    },
    /// Some of them; the trace does not record which.
    Unsaid,
}

impl TraceEvent {
    /// Whether it failed.
    pub fn is_failed(&self) -> bool {
        self.errno != 0 || self.kind.is_some() || self.class != 0
    }

    /// Whether it moved fewer bytes than requested.
    pub fn is_short(&self) -> bool {
        self.moved < self.len
    }

    /// Its end, in nanoseconds since 1970 (UTC).
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.took_ns)
    }
}

/// An error kind as one word: `no-such-file`, `io`.
pub fn kind_word(kind: ErrorKind) -> String {
    let mut word = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_ascii_uppercase() && !word.is_empty() {
            word.push('-');
        }
        word.push(c.to_ascii_lowercase());
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_standard_names() {
        let call = |op, place, collective, pace| TracedCall { op, place, collective, pace }.name();
        assert_eq!(call(TracedOp::Write, PointerKind::At, true, Pace::Blocking), "write_at_all");
        assert_eq!(call(TracedOp::Write, PointerKind::Individual, true, Pace::Nonblocking), "iwrite_all");
        assert_eq!(call(TracedOp::Read, PointerKind::Ordered, true, Pace::Split), "read_ordered_begin");
        assert_eq!(call(TracedOp::Read, PointerKind::Shared, false, Pace::Blocking), "read_shared");
        assert_eq!(TracedCall::from(TracedOp::SetView).collective().name(), "set_view");
    }

    #[test]
    fn calls_survive_their_numbers() {
        for &op in TracedOp::ALL {
            for &place in PointerKind::ALL {
                for &pace in Pace::ALL {
                    for collective in [false, true] {
                        let call = TracedCall { op, place, collective, pace };
                        assert_eq!(TracedCall::from_codes(op.code(), call.manner()), call);
                    }
                }
            }
        }
        assert_eq!(TracedOp::from_code(200), TracedOp::Other);
    }

    #[test]
    fn kinds_are_words() {
        assert_eq!(kind_word(ErrorKind::NoSuchFile), "no-such-file");
        assert_eq!(kind_word(ErrorKind::Io), "io");
    }
}
