//! The encoding of the parts of messages: the order of their fields and the numbers of their variants.
//! A change here is a new version of the protocol.

use pario_layout::{PlacementMapId, Striping};
use pario_types::{Epoch, ErrorKind, FileId, Stamp};

use crate::codec::{Field, Reader, numbered, records};
use crate::error::Error;
use crate::message::{
    AcquireIntent, Attributes, BlockRange, BlockSlot, ByteRange, ByteSelection, CloseReport, CounterChange,
    CreateMode, DirectoryEntry, Failure, FileSize, Inode, InodeKind, LayoutRequest, LeaseRecall, LocalPart,
    OpenAccess, OpenFileEntry, ServerMember, ServerSet,
};

numbered! {
    AcquireIntent { 1 => Read, 2 => Modify, 3 => Overwrite }
    OpenAccess { 1 => Read, 2 => Write, 3 => Both }
    CreateMode { 1 => Never, 2 => Missing, 3 => Exclusive }
    InodeKind { 1 => File, 2 => Directory }
    ErrorKind {
        1 => File,
        2 => NotSame,
        3 => Amode,
        4 => UnsupportedDatarep,
        5 => UnsupportedOperation,
        6 => NoSuchFile,
        7 => FileExists,
        8 => BadFile,
        9 => Access,
        10 => NoSpace,
        11 => Quota,
        12 => ReadOnly,
        13 => FileInUse,
        14 => DupDatarep,
        15 => Conversion,
        16 => Io,
        17 => Buffer,
        18 => Count,
        19 => Type,
        20 => Comm,
        21 => Arg,
        22 => Info,
        23 => NoMem,
        24 => Intern,
        25 => OtherRank,
        26 => NotEmpty,
        27 => Unreachable,
        28 => Damaged,
        29 => Protocol,
    }
}

records! {
    BlockSlot { block: u64, slot: u32, generation: u32, pending: bool }
    LocalPart { file: FileId, end: u64 }
    LeaseRecall { number: u64, file: FileId, range: ByteRange }
    OpenFileEntry { file: FileId, access: OpenAccess }
    ServerSet { epoch: Epoch, servers: Vec<ServerMember> }
    ServerMember { place: String, addresses: Vec<String> }
    Failure { kind: ErrorKind, errno: i32, text: String }
    PlacementMapId { hash: u128, len: u32 }
    LayoutRequest { stripe: u64, count: u16, first: Option<u16>, table: Option<PlacementMapId> }
    CloseReport { size: Option<u64>, modified: Stamp }
    Attributes {
        file: FileId,
        kind: InodeKind,
        mode: u32,
        size: FileSize,
        accessed: Stamp,
        modified: Stamp,
        changed: Stamp,
        created: Stamp,
        striping: Striping,
        table: Option<PlacementMapId>,
        truncating: Option<u64>,
        opens: u32,
        entries: u64,
    }
    DirectoryEntry { name: String, attributes: Attributes }
    Inode { parent: FileId, name: String, attributes: Attributes }
}

impl Field for BlockRange {
    const LEAST: usize = 12;

    fn put(&self, out: &mut Vec<u8>) {
        self.first.put(out);
        self.count.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let run = BlockRange { first: Field::take(from)?, count: Field::take(from)? };
        match run.first.checked_add(u64::from(run.count)) {
            Some(_) => Ok(run),
            None => Err(Error::BadField("BlockRange")),
        }
    }
}

impl Field for ByteRange {
    const LEAST: usize = 16;

    fn put(&self, out: &mut Vec<u8>) {
        self.at.put(out);
        self.len.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let range = ByteRange { at: Field::take(from)?, len: Field::take(from)? };
        match range.at.checked_add(range.len) {
            Some(end) if end <= i64::MAX as u64 => Ok(range),
            _ => Err(Error::BadField("ByteRange")),
        }
    }
}

impl Field for ByteSelection {
    const LEAST: usize = 5;

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            ByteSelection::Ranges(ranges) => {
                1u8.put(out);
                ranges.put(out);
            }
            ByteSelection::View { view, at, len, bytes } => {
                2u8.put(out);
                view.put(out);
                [at, len, bytes].into_iter().for_each(|number| number.put(out));
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        match u8::take(from)? {
            1 => Field::take(from).map(ByteSelection::Ranges),
            2 => {
                let view = Field::take(from)?;
                let ByteRange { at, len } = Field::take(from)?;
                match u64::take(from)? {
                    bytes if bytes <= len => Ok(ByteSelection::View { view, at, len, bytes }),
                    _ => Err(Error::BadField("ByteSelection")),
                }
            }
            _ => Err(Error::BadField("ByteSelection")),
        }
    }
}

impl Field for CounterChange {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            CounterChange::Set(value) => {
                1u8.put(out);
                value.put(out);
            }
            CounterChange::Add(more) => {
                2u8.put(out);
                more.put(out);
            }
            CounterChange::Drop => 3u8.put(out),
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        match u8::take(from)? {
            1 => Field::take(from).map(CounterChange::Set),
            2 => Field::take(from).map(CounterChange::Add),
            3 => Ok(CounterChange::Drop),
            _ => Err(Error::BadField("CounterChange")),
        }
    }
}

impl Field for FileSize {
    const LEAST: usize = 9;

    fn put(&self, out: &mut Vec<u8>) {
        let (number, value) = match self {
            FileSize::Known(size) => (1u8, size),
            FileSize::Ask { seen } => (2, seen),
        };
        number.put(out);
        value.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        match (u8::take(from)?, u64::take(from)?) {
            (1, size) => Ok(FileSize::Known(size)),
            (2, seen) => Ok(FileSize::Ask { seen }),
            _ => Err(Error::BadField("FileSize")),
        }
    }
}

impl Field for Striping {
    const LEAST: usize = 14;

    fn put(&self, out: &mut Vec<u8>) {
        self.stripe().put(out);
        self.count().put(out);
        self.first().put(out);
        self.servers().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let stripe = Field::take(from)?;
        let [count, first, servers] = [Field::take(from)?, Field::take(from)?, Field::take(from)?];
        Striping::new(stripe, count, first, servers).map_err(|_| Error::BadField("Striping"))
    }
}
