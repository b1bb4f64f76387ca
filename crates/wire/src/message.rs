//! Requests of clients, and the replies of servers.
//!
//! *Local* offsets and ends are those of a server's local part of a file, in which its stripes lie one after the other (see
//! `pario-layout`). Blocks are those of the server's pool, also counted in the local part.

pub use pario_layout::PlacementMapId;
pub use pario_metadata::{
    Attributes, CloseReport, CreateMode, DirectoryEntry, FileSize, Inode, InodeKind, LayoutRequest,
    OpenAccess,
};
use pario_types::{ClientId, ErrorKind, FileId, Stamp, TruncationId};

/// `ESTALE`, in the failure of a process that has lost its leases because it did not give them up in time.
pub const STALE: i32 = 116;

/// Numbers of files are counted up from 1: with this bit they stand for the copies of the file's bytes, whose locks have
/// nothing to do with those that programs take on it.
pub const OF_COPIES: u64 = 1 << 63;

/// Most ranges that one lock covers.
pub const MOST_LOCKED: usize = 1024;

/// What a client asks of a server. Where a request says `path`, it is absolute within the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    // Data: any server, about its own part of a file.
    /// Slots of the shared pool that hold these blocks, for a client that has mapped it; and of up to `ahead` blocks
    /// after them that it will want next, if they cost little.
    Acquire { file: FileId, intent: Intent, blocks: Vec<Run>, ahead: u16 },
    /// Bytes of the local part, as payload of the reply in this order; zeros beyond the local end.
    Read { file: FileId, what: ByteSelection },
    /// The payload goes to these bytes of the local part in this order.
    Write { file: FileId, what: ByteSelection },
    /// How far the file's local part reaches.
    End { file: FileId },
    /// The local part ends here from now on: what lies beyond is gone, what is missing is zeros. Does nothing if this
    /// truncation of the file, or a later one, was applied or fenced here before.
    Truncate { file: FileId, end: u64, truncation: TruncationId },
    /// From now on this truncation of the file, and every earlier one, does nothing here. Only the metadata server asks for
    /// this: it abandons a truncation so.
    Fence { file: FileId, truncation: TruncationId },
    /// Dirty blocks of the file go to storage; if `durable` to the medium. 0: of all files.
    Sync { file: FileId, durable: bool },
    /// The local parts of these files are no longer needed.
    Remove { files: Vec<FileId> },
    /// The local parts on this server after the given file, in order of their ids.
    ListParts { after: FileId, most: u32 },
    /// Compares stored blocks with their checksums, from this block on; at most this many blocks.
    Verify { file: FileId, from: u64, most: u64 },
    /// Takes the blocks as they are stored for right: writes their checksums anew.
    Accept { file: FileId, blocks: Vec<u64> },
    /// Keeps others from these bytes of the file (not of the local part) until `Unlock`, or until the client's
    /// connection ends; waits until they are free.
    Lock { file: FileId, range: Range, exclusive: bool },
    /// Ends a lock.
    Unlock { lock: u64 },

    /// Bytes of the local part will first be used in the order of these ranges, no two of which overlap: blocks that hold
    /// some shall lie in storage as they are first used. Only a part that has nothing in storage is laid out so.
    Arrange { file: FileId, ranges: Vec<Range> },

    // Leases: a team is all processes of one program that keep one set of files in their memory together.
    /// This client belongs to the team: its `Read`, `Write`, `Acquire` do not recall what the team has leased. Recalls come
    /// to the mailbox of another client of the same process: as long as that one is not known here, because it was cut off
    /// or the server lost sight of it, `Write` and every `Acquire` but to read are refused (`errno` is [`STALE`]).
    Join { team: u128, mailbox: ClientId },
    /// The team may keep these local ranges to itself until they are recalled; waits until others have given them up.
    /// What a mailbox yields after this was sent it does not have, whatever the reply says. Refused while the team has no
    /// mailbox here.
    Lease { team: u128, file: FileId, ranges: Vec<Range> },
    /// Makes this connection one of the team's mailboxes, and joins it. Answered as soon as there are recalls that this
    /// mailbox has not been told, or with none after this time (at most 10 s). If the connection ends the leases stay, and
    /// the same client goes on with its mailbox by another one; unless others wanted them meanwhile, or the server has lost
    /// sight of it: then it is refused (`errno` is [`STALE`]), until it says `anew`, which means that its process has
    /// nothing that it had leased here. So does the first one of a client.
    Recalls { team: u128, anew: bool, wait_ms: u32 },
    /// This mailbox's process has stored, through a client that has joined, and forgotten everything in `gone`, which
    /// contains the recalled range. When all mailboxes of the team have done so, what they all name may go to others.
    Yield { number: u64, gone: Range },
    /// This mailbox ends: its process has nothing. With its last mailbox a team loses its leases.
    Leave,
    /// The team gives up all of the file here.
    Release { team: u128, file: FileId },
    /// The payload, of `len` bytes, is the view that has this hash (see `pario_layout::StripedView`): accesses may name it.
    View { hash: u128, len: u64 },
    /// Changes a shared number. It belongs to the client that sets it first, and ends with that client's connection.
    Counter { key: u128, change: Change },

    // Prefetching, and a lock without waiting.
    /// Gets these local ranges into the cache and keeps them there until the client reads them, `Forget`s them or
    /// goes. Each is taken as a whole or refused; after the first that is refused none is taken.
    Prefetch { file: FileId, ranges: Vec<Range> },
    /// These ranges, as they were in a `Prefetch`, need not be kept. Those that are not kept any more do not count.
    Forget { file: FileId, ranges: Vec<Range> },
    /// As `Lock`, but fails at once if it would have to wait; one lock for several ranges of the file, which are in order and
    /// do not overlap, at most [`MOST_LOCKED`].
    TryLock { file: FileId, ranges: Vec<Range>, exclusive: bool },

    // About copies of which the writer went before it had written all. Their locks are those of files with [`OF_COPIES`].
    /// As `Unlock`, from a client that could not write all replicas of the bytes that it locked.
    Tear { lock: u64 },
    /// Bytes of the file of which copies may differ.
    Torn { file: FileId },
    /// Nothing that the client has sent before is done any more; its connection ends.
    Expel { client: ClientId },

    // About the server itself.
    /// Nothing; that the server answers.
    Ping,
    /// Room on its storage.
    Room,
    /// Load, cache, errors.
    Status,
    /// Finish what is under way, write everything to storage, and end.
    Shutdown,

    // Name space: the metadata server.
    /// Attributes of what is at this path.
    Lookup { path: String },
    /// Opens, or creates and opens. A client that names a table has put it there first.
    Open { path: String, access: OpenAccess, create: CreateMode, mode: u32, layout_request: LayoutRequest },
    /// One of this client's opens of the file is over. What a writer knows of size and time comes along.
    Close { file: FileId, wrote: Option<CloseReport> },
    /// After connecting again: these files are open here, once each per entry, and no others.
    Reopen { files: Vec<OpenFileEntry> },
    /// Makes a directory; with `parents` those missing above it, too, and an existing one is no error.
    MakeDirectory { path: String, mode: u32, parents: bool },
    /// Removes an empty directory.
    RemoveDirectory { path: String },
    /// Removes a file's name. Clients that have it open can use it until they close it.
    Unlink { path: String },
    /// Gives a file or directory another name; replaces a file, or an empty directory by a directory.
    Rename { from: String, to: String, replace: bool },
    /// Entries of a directory in order of their names, after the given one ("" from the start).
    ReadDirectory { path: String, after: String, most: u32 },
    /// Changes mode or times.
    SetAttributes { path: String, mode: Option<u32>, accessed: Option<Stamp>, modified: Option<Stamp> },
    /// The client, which has the file open for writing, is about to truncate (or extend) it to this size on all its servers.
    BeginTruncate { file: FileId, size: u64 },
    /// It has done so. An error if the metadata server has resolved the truncation meanwhile.
    EndTruncate { file: FileId, truncation: TruncationId },
    /// The client could not do so (0: it does not know whether it has begun). When this is answered, no server applies any
    /// of it any more.
    AbortTruncate { file: FileId, truncation: TruncationId },
    /// The size that a client found by asking all servers, where the metadata server was not sure; `seen` is
    /// the change count that came with the attributes.
    Sized { file: FileId, size: u64, seen: u64 },
    /// Files and directories in order of their ids, after the given one: for checking.
    ListInodes { after: FileId, most: u32 },
    /// The payload is the table of this id (see `pario_layout::PlacementMap`), by which files may be placed. It is kept as long as
    /// there are such files; without any it may be forgotten, and an `Open` that names it is answered with `NoTable`.
    PutTable { table: PlacementMapId },
    /// That table, as payload of the reply.
    GetTable { table: PlacementMapId },
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, nothing to add.
    Done,
    /// It did not work.
    Failed(Failure),
    /// To `Acquire`: where the blocks are, in the order asked for, as far as there was room: at least one; after all of
    /// them perhaps some that follow.
    Slots(Vec<Slot>),
    /// To `Read`: the payload follows; `end` is the local end. To `GetTable`: the payload follows; `end` is its length.
    Data { end: u64 },
    /// To `End`.
    End { end: u64 },
    /// To `ListParts`.
    Parts { parts: Vec<Part>, more: bool },
    /// To `Verify`: the damaged blocks, and where to go on; `None` at the end.
    Verified { damaged: Vec<u64>, next: Option<u64> },
    /// To `Prefetch`: how many ranges are taken, from the first on. They may not be in the cache yet.
    Prefetched { taken: u32 },
    /// To `Lock` and `TryLock`.
    Locked { lock: u64 },
    /// To `Torn`: ranges that a crashed or failed client had locked and that no client has written completely since; and those
    /// clients.
    Torn { ranges: Vec<Range>, clients: Vec<ClientId> },
    /// To `Lease`: what the team has around the ranges; at least those, perhaps far more.
    Leased { extents: Vec<Range> },
    /// To `Recalls`. What the team has otherwise is good for that long from when it was asked: before that, nobody else gets
    /// at it unless the mailbox yields it or ends.
    Recalled { recalls: Vec<Recall>, good_ms: u32 },
    /// To `Read` and `Write`: the server does not know the view; nothing was done.
    NoView,
    /// To `Open`: the table that it names is not there; nothing was done.
    NoTable,
    /// To `Counter`: what the number was before.
    Counted { before: u64 },
    /// To `Room`.
    Room(Room),
    /// To `Status`.
    Status(Box<Status>),
    /// To `Lookup`, `MakeDirectory`, `SetAttributes`.
    Attributes(Attributes),
    /// To `BeginTruncate`.
    Truncation { truncation: TruncationId },
    /// To `Open`.
    Opened { attributes: Attributes, created: bool },
    /// To `Reopen`: the files that are no longer there.
    Reopened { gone: Vec<FileId> },
    /// To `ReadDirectory`.
    Entries { entries: Vec<DirectoryEntry>, more: bool },
    /// To `ListInodes`: with each its parent directory and its name there (parent 0: open but without name).
    Inodes { inodes: Vec<Inode>, more: bool },
}

/// What a client wants blocks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// To read them.
    Read,
    /// To write parts of them: they come filled.
    Modify,
    /// To write all of each: they need not be filled.
    Overwrite,
}

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub first: u64,
    pub count: u32,
}

/// Consecutive bytes of a local part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub at: u64,
    pub len: u64,
}

/// Another client wants bytes that a team has leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    /// To be named in [`Request::Yield`].
    pub number: u64,
    pub file: FileId,
    pub range: Range,
}

/// Which bytes of a local part, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ByteSelection {
    /// These.
    Ranges(Vec<Range>),
    /// Those of the `len` bytes of a view from position `at` on that the server holds: so many `bytes`, in the order of
    /// the view.
    View { view: u128, at: u64, len: u64, bytes: u64 },
}

/// What becomes of a shared number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is this, also if it was not there: then it was 0 before.
    Set(u64),
    /// So much more, or less, modulo 2^64.
    Add(i64),
    /// It is not needed any more.
    Drop,
}

/// Where in the pool a block is, as long as the slot's generation is this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub block: u64,
    pub slot: u32,
    pub generation: u32,
    /// The client fills all of it and then publishes it (only with [`Intent::Overwrite`]).
    pub pending: bool,
}

/// A server's part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub file: FileId,
    pub end: u64,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: ErrorKind,
    /// The system's number behind it, 0 if there is none.
    pub errno: i32,
    /// What and where, in one line.
    pub text: String,
}

/// A file that a client has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFileEntry {
    pub file: FileId,
    pub access: OpenAccess,
}

/// Room on a server's storage, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    pub total: u64,
    pub free: u64,
    /// By this server's parts of files.
    pub used: u64,
    pub parts: u64,
}

/// Leases at a server and their traffic: requests for leases, and accesses to files that have some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    pub teams: u32,
    pub mailboxes: u32,
    pub requests: u64,
    pub grants: u64,
    /// Leases that stood in the way of a request when it came.
    pub conflicts: u64,
    pub revocations: u64,
    /// Requests that had to wait.
    pub waits: u64,
    /// Mailboxes that did not yield in time.
    pub cut_off: u64,
}

/// The traffic that byte-range locks cause, which atomic accesses take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeLocks {
    pub requests: u64,
    pub grants: u64,
    /// Locks that stood in the way of a request when it came.
    pub conflicts: u64,
    /// Requests that had to wait.
    pub waits: u64,
}

/// Ranges that clients wanted to have ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetches {
    pub taken: u64,
    pub refused: u64,
    /// Of those taken: read, forgotten, or their client has gone.
    pub released: u64,
    /// Blocks that were brought into the cache for them.
    pub loaded_blocks: u64,
    /// Blocks that were ready when their client came for them.
    pub hits: u64,
    /// Blocks that are being kept now, or will be.
    pub kept_blocks: u32,
}

/// What a server tells of itself. Counters count from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub pid: u32,
    pub started: Stamp,
    pub sessions: u32,
    /// Of them, those that have mapped the pool.
    pub local_sessions: u32,
    pub requests: u64,
    pub forwarded: u64,
    pub refused: u64,
    pub errors: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub block: u32,
    pub slots: u32,
    pub valid_slots: u32,
    pub dirty_slots: u32,
    pub pinned_slots: u32,
    pub high_water: u32,
    pub low_water: u32,
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    pub flushed_blocks: u64,
    pub flush_errors: u64,
    pub filled_blocks: u64,
    pub store_read_bytes: u64,
    pub store_written_bytes: u64,
    pub damaged: u64,
    pub prefetches: Prefetches,
    /// Of the name space; 0 elsewhere.
    pub files: u64,
    pub directories: u64,
    pub open_files: u64,
    pub leases: Leases,
    pub range_locks: RangeLocks,
    pub room: Room,
    /// What went wrong last, newest first.
    pub last_errors: Vec<String>,
}
