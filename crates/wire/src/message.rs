//! Requests of clients, and the replies of servers.
//!
//! *Local* offsets and ends are those of a server's local part of a file, in which its stripes lie one after the other (see
//! `pario-layout`). Blocks are those of the server's pool, also counted in the local part.

pub use pario_layout::PlacementMapId;
pub use pario_metadata::{
    Attributes, CloseReport, CreateMode, DirectoryEntry, FileSize, Inode, InodeKind, LayoutRequest,
    OpenAccess,
};
use pario_types::{ClientId, Epoch, ErrorKind, FileId, Stamp, TruncationId};

pub use crate::status::{
    LeaseCounters, NamespaceCounters, PoolStatus, PrefetchCounters, RangeLockCounters, ServerStatus,
    StorageCounters, StorageSpace, TrafficCounters,
};

/// The error number in the failure of a process that has lost its leases because it did not give them up in time.
pub const ESTALE: i32 = 116;

/// File ids are counted up from 1 and never have this bit. An id with this bit names the replicas of the file's bytes: writers of
/// replicas lock it, independently of the locks that programs take on the file.
pub const REPLICA_LOCK_BIT: u64 = 1 << 63;

/// The largest number of ranges that one lock covers.
pub const MAX_LOCK_RANGES: usize = 1024;

/// A request of a client to a server. Every `path` is absolute within the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    // Data: any server, about its own part of a file.
    /// Asks for the slots of the shared pool that hold these blocks, for a client that has mapped the pool; and for those of up to
    /// `ahead` blocks after them that the client will use next, if they cost little.
    Acquire { file: FileId, intent: AcquireIntent, blocks: Vec<BlockRange>, ahead: u16 },
    /// Reads bytes of the local part. The payload of the reply has them in this order, with zeros beyond the local end.
    Read { file: FileId, what: ByteSelection },
    /// Writes the payload to these bytes of the local part, in this order.
    Write { file: FileId, what: ByteSelection },
    /// Asks for the end of the local part.
    End { file: FileId },
    /// Truncates or extends the local part to this end. The request does nothing if the server has applied or fenced this truncation
    /// of the file, or a later one, before.
    Truncate { file: FileId, end: u64, truncation: TruncationId },
    /// Fences this truncation of the file and every earlier one: from now on they do nothing on this server. Only the metadata server
    /// sends this, to abandon a truncation.
    Fence { file: FileId, truncation: TruncationId },
    /// Writes dirty blocks of the file to storage, and to the medium if `durable`. File 0 means all files.
    Sync { file: FileId, durable: bool },
    /// Removes the local parts of these files.
    RemoveParts { files: Vec<FileId> },
    /// Lists the local parts on this server after the given file, in order of their ids.
    ListParts { after: FileId, most: u32 },
    /// Compares stored blocks with their checksums, from this block on; at most this many blocks.
    VerifyBlocks { file: FileId, from: u64, most: u64 },
    /// Accepts the blocks as they are stored: computes their checksums anew.
    AcceptBlocks { file: FileId, blocks: Vec<u64> },
    /// Locks these bytes of the file (not of the local part) until `Unlock`, or until the client's connection ends. The request waits
    /// until they are free.
    Lock { file: FileId, range: ByteRange, exclusive: bool },
    /// Ends a lock.
    Unlock { lock: u64 },

    /// Announces that bytes of the local part will first be used in the order of these ranges, no two of which overlap. The store lays
    /// out blocks in that order, but only those of a part that has nothing in storage yet.
    Arrange { file: FileId, ranges: Vec<ByteRange> },

    // Leases: a team consists of all processes of one program that cache files together.
    /// Adds this client to the team: its `Read`, `Write` and `Acquire` do not recall leases of the team. Recalls go to the mailbox of
    /// another client of the same process. While the server does not know that mailbox, because it was cut off or the server lost its
    /// record of it, the server refuses `Write` and every `Acquire` that is not for reading (`errno` is [`ESTALE`]).
    JoinTeam { team: u128, mailbox: ClientId },
    /// Leases these local ranges to the team until they are recalled. The request waits until other teams have given them up. The
    /// process does not have what its mailbox yields after this was sent, whatever the reply says. The server refuses the request while
    /// the team has no mailbox here.
    Lease { team: u128, file: FileId, ranges: Vec<ByteRange> },
    /// Makes this connection one of the team's mailboxes, and joins the team. The server replies as soon as there are recalls that this
    /// mailbox has not received, or with none after this time (at most 10 s). If the connection ends, the leases stay, and the same
    /// client can resume its mailbox on another connection, unless other clients needed the leased bytes meanwhile or the server lost
    /// its record of the mailbox. Then the server refuses the request (`errno` is [`ESTALE`]) until the client sends `anew`, which means
    /// that its process has dropped everything it had leased here. The first request of a client also has `anew`.
    PollRecalls { team: u128, anew: bool, wait_ms: u32 },
    /// Reports that this mailbox's process has stored, through a client that has joined, and dropped everything in `gone`, which contains
    /// the recalled range. When all mailboxes of the team have done so, the server gives to others what they all named.
    Yield { number: u64, gone: ByteRange },
    /// Closes this mailbox: its process caches nothing. With its last mailbox a team loses its leases.
    CloseMailbox,
    /// Gives up all leases of the team on the file here.
    ReleaseLeases { team: u128, file: FileId },
    /// Stores the view in the payload, of `len` bytes, under its hash (see `pario_layout::StripedView`). Accesses may then name it.
    PutView { hash: u128, len: u64 },
    /// Changes a shared counter. It belongs to the client that sets it first, and ends with that client's connection.
    Counter { key: u128, change: CounterChange },

    // Prefetching, and a lock without waiting.
    /// Loads these local ranges into the pool and holds them there until the client reads them, cancels them or disconnects. The server
    /// takes each range as a whole or refuses it; after the first refused one it takes none.
    Prefetch { file: FileId, ranges: Vec<ByteRange> },
    /// Releases these ranges, each as it was in a `Prefetch`. The server ignores those that it no longer holds.
    CancelPrefetch { file: FileId, ranges: Vec<ByteRange> },
    /// As `Lock`, but fails at once if it would have to wait. One lock covers several ranges of the file, which are in order and do not
    /// overlap, at most [`MAX_LOCK_RANGES`].
    TryLock { file: FileId, ranges: Vec<ByteRange>, exclusive: bool },

    // Replicas that a client, or a loss of memory, left divergent. Their locks are on file ids with [`REPLICA_LOCK_BIT`].
    /// As `Unlock`, from a client that could not write all replicas of the bytes that it locked.
    MarkDivergent { lock: u64 },
    /// Asks for the bytes of the file whose replicas may differ.
    ListDivergent { file: FileId },
    /// All replicas of the file are equal and synced, since the server had lost its pool so often (`losses` of `Divergent`).
    MarkEqual { file: FileId, losses: u64 },
    /// Ends the client's connection: the server executes nothing more that the client has sent before.
    Disconnect { client: ClientId },

    // The server itself.
    /// Asks whether the server answers.
    Ping,
    /// Asks for the space on the server's storage.
    StorageSpace,
    /// Asks for load, pool and errors.
    Status,
    /// Finishes what is under way, writes everything to storage, and ends the server.
    Shutdown,
    /// Replaces the set of servers that this server knows by one of a later epoch, durably. The metadata server places new files on
    /// the new set from then on. A set of the same epoch changes nothing; the server refuses one of an earlier epoch.
    SetServers { set: ServerSet },

    // Name space: the metadata server.
    /// Asks for the attributes of a file or directory.
    Lookup { path: String },
    /// Opens, or creates and opens. A client that names a table has put it there first.
    Open { path: String, access: OpenAccess, create: CreateMode, mode: u32, layout_request: LayoutRequest },
    /// Ends one of this client's opens of the file. A writer reports what it knows of size and time.
    Close { file: FileId, wrote: Option<CloseReport> },
    /// After reconnecting: this client has exactly these files open, once for each entry. It is going to repeat the request with this id,
    /// if it is not 0: a file that the request created is not removed before that.
    Reopen { files: Vec<OpenFileEntry>, repeated: u64 },
    /// Makes a directory. With `parents` it also makes missing parents, and an existing directory is no error.
    MakeDirectory { path: String, mode: u32, parents: bool },
    /// Removes an empty directory.
    RemoveDirectory { path: String },
    /// Removes a file's name. Clients that have it open can use it until they close it.
    Unlink { path: String },
    /// Renames a file or directory; replaces a file, or an empty directory by a directory.
    Rename { from: String, to: String, replace: bool },
    /// Lists entries of a directory in order of their names, after the given one ("" from the start).
    ReadDirectory { path: String, after: String, most: u32 },
    /// Changes mode or times.
    SetAttributes { path: String, mode: Option<u32>, accessed: Option<Stamp>, modified: Option<Stamp> },
    /// Announces that the client, which has the file open for writing, is about to truncate (or extend) it to this size on all its
    /// servers.
    BeginTruncate { file: FileId, size: u64 },
    /// Reports that the truncation is complete. This fails if the metadata server has resolved the truncation meanwhile.
    EndTruncate { file: FileId, truncation: TruncationId },
    /// Abandons a truncation that the client could not complete (0: the client does not know whether it has begun). After the reply no
    /// server applies any of it.
    AbortTruncate { file: FileId, truncation: TruncationId },
    /// Reports the size that a client found by asking all servers, where the metadata server was not sure. `seen` is the change count
    /// that came with the attributes.
    ReportSize { file: FileId, size: u64, seen: u64 },
    /// Lists files and directories in order of their ids, after the given one, for a check of the partition.
    ListInodes { after: FileId, most: u32 },
    /// Stores the table of this id (see `pario_layout::PlacementMap`) from the payload; files may then be placed by it. The server
    /// keeps it as long as such files exist. Otherwise it may drop it, and replies `NoTable` to an `Open` that names it.
    PutTable { table: PlacementMapId },
    /// Asks for that table, as payload of the reply.
    GetTable { table: PlacementMapId },
}

/// A server's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The request succeeded; there is nothing to add.
    Done,
    /// The request failed.
    Failed(Failure),
    /// To `Acquire`: where the blocks are, in the order of the request. At least one, and as many as the pool has space for; after all
    /// of them perhaps some that follow.
    Slots(Vec<BlockSlot>),
    /// To `Read`: the payload follows; `end` is the local end. To `GetTable`: the payload follows; `end` is its length.
    Data { end: u64 },
    /// To `End`.
    End { end: u64 },
    /// To `ListParts`.
    Parts { parts: Vec<LocalPart>, more: bool },
    /// To `VerifyBlocks`: the damaged blocks, and where to continue; `None` at the end.
    Verified { damaged: Vec<u64>, next: Option<u64> },
    /// To `Prefetch`: how many ranges the server has taken, from the first on. They may not be in the pool yet.
    Prefetched { taken: u32 },
    /// To `Lock` and `TryLock`.
    Locked { lock: u64 },
    /// To `ListDivergent`: ranges that a crashed or failed client had locked and that no client has written completely since; and those
    /// clients. The server has lost the content of its pool `losses` times, the last `unresolved` of them since the last `MarkEqual`.
    Divergent { ranges: Vec<ByteRange>, clients: Vec<ClientId>, losses: u64, unresolved: u64 },
    /// To `Lease`: the extents that the team has around the ranges; at least the ranges, perhaps far more.
    Leased { extents: Vec<ByteRange> },
    /// To `PollRecalls`. All other leases of the team stay valid for `good_ms` from when the request was sent: during that time no other
    /// client accesses these bytes unless the mailbox yields them or ends.
    Recalled { recalls: Vec<LeaseRecall>, good_ms: u32 },
    /// To `Read` and `Write`: the server does not know the view and has done nothing.
    NoView,
    /// To `Open`: the server does not have the table that it names and has done nothing.
    NoTable,
    /// To `Counter`: the value before the change.
    Counted { before: u64 },
    /// To `StorageSpace`.
    StorageSpace(StorageSpace),
    /// To `Status`.
    Status(Box<ServerStatus>),
    /// To `Lookup`, `MakeDirectory`, `SetAttributes`.
    Attributes(Attributes),
    /// To `BeginTruncate`.
    Truncation { truncation: TruncationId },
    /// To `Open`.
    Opened { attributes: Attributes, created: bool },
    /// To `Reopen`: the files that no longer exist.
    Reopened { gone: Vec<FileId> },
    /// To `ReadDirectory`.
    Entries { entries: Vec<DirectoryEntry>, more: bool },
    /// To `ListInodes`: each with its parent directory and its name there (parent 0: open but without name).
    Inodes { inodes: Vec<Inode>, more: bool },
}

/// The servers of a partition, as of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSet {
    pub epoch: Epoch,
    /// By number.
    pub servers: Vec<ServerMember>,
}

/// A server of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerMember {
    /// Its resource, as in the partition file: `node:/dir`.
    pub place: String,
    /// The addresses at which other servers reach it, in the order in which to try them. A Unix socket only if it is on the host of the
    /// server that is told.
    pub addresses: Vec<String>,
}

/// What a client acquires blocks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireIntent {
    /// To read them.
    Read,
    /// To write parts of them: the server fills them first.
    Modify,
    /// To write all of each: the server need not fill them.
    Overwrite,
}

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    pub first: u64,
    pub count: u32,
}

/// Consecutive bytes of a local part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    pub at: u64,
    pub len: u64,
}

/// The recall of bytes that a team has leased and another client needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRecall {
    /// The number that [`Request::Yield`] refers to.
    pub number: u64,
    pub file: FileId,
    pub range: ByteRange,
}

/// Which bytes of a local part, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ByteSelection {
    /// These ranges.
    Ranges(Vec<ByteRange>),
    /// Of the `len` bytes of a view from position `at` on, those that the server holds: so many `bytes`, in the order of the view.
    View { view: u128, at: u64, len: u64, bytes: u64 },
}

/// A change of a shared counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterChange {
    /// Sets the counter, and creates it if it does not exist: then its value before is 0.
    Set(u64),
    /// Adds to the counter, modulo 2^64.
    Add(i64),
    /// Removes the counter.
    Drop,
}

/// Where in the pool a block is, as long as the slot's generation is this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSlot {
    pub block: u64,
    pub slot: u32,
    pub generation: u32,
    /// The client fills all of it and then publishes it (only with [`AcquireIntent::Overwrite`]).
    pub pending: bool,
}

/// A server's part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalPart {
    pub file: FileId,
    pub end: u64,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: ErrorKind,
    /// The system's error number, 0 if there is none.
    pub errno: i32,
    /// What failed and where, in one line.
    pub text: String,
}

/// A file that a client has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFileEntry {
    pub file: FileId,
    pub access: OpenAccess,
}
