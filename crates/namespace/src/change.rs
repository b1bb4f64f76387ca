//! The changes of the name space, and their records in the journal.
//!
//! Payload of a record; numbers little-endian, a text is its length in 2 bytes and its bytes, an optional
//! field is a byte 0, or a byte 1 and the field:
//!
//! ```text
//!  0  1  kind of the change, see below
//!  1  8  when, nanoseconds since 1970
//!  9 16  client      }  whose request it was;
//! 25  8  request     }  0 and 0: none
//! 33     the change:
//!
//!  1 root              mode 2
//!  2 create            parent 8, file 8, mode 2, opened for writing 1,
//!                      stripe 8, count 2, first 2, servers 2, name
//!  3 make directories  parent 8, number of the first 8, mode 2, mode of those above it 2, relative path
//!  4 remove directory  parent 8, directory 8, name
//!  5 unlink            parent 8, file 8, name
//!  6 rename            from parent 8, to parent 8, what 8, what it replaces 8 (0: nothing),
//!                      from name, to name
//!  7 set attributes    file 8, optional mode 2, optional accessed 8, optional modified 8
//!  8 writing           file 8: a client opens it for writing, its size is no longer certain
//!  9 settle            file 8, optional size 8, optional modified 8: no longer open for writing
//! 10 begin truncate    file 8, size 8, truncation 8, contended 1
//! 11 end truncate      file 8: done on all servers, or fenced there
//! 12 reaped            file 8: nameless, and gone from all servers
//! 13 table             hash 16, all its bytes 4, at 4, the bytes from there on: see [`crate::tables`]
//! 14 create placed     as create, and before the name the table's hash 16 and its bytes 4
//! 15 contend truncate  file 8: its truncation must not be completed for its client any more
//! ```

use pario_layout::{PlacementMapId, Striping};
use pario_types::{ClientId, FileId, RequestId, Stamp, TruncationId};

use crate::codec::{Reader, Writer};
use crate::tables::TablePart;

/// A change with its time and the request that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub now: Stamp,
    pub client: ClientId,
    pub request: RequestId,
    pub change: Change<'a>,
}

/// One change of the name space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    Root {
        mode: u16,
    },
    Create {
        parent: FileId,
        file: FileId,
        mode: u16,
        writing: bool,
        striping: Striping,
        table: Option<PlacementMapId>,
        name: &'a str,
    },
    MakeDirectories {
        parent: FileId,
        first: FileId,
        mode: u16,
        above: u16,
        path: &'a str,
    },
    RemoveDirectory {
        parent: FileId,
        directory: FileId,
        name: &'a str,
    },
    Unlink {
        parent: FileId,
        file: FileId,
        name: &'a str,
    },
    Rename {
        from: FileId,
        to: FileId,
        what: FileId,
        replaced: FileId,
        from_name: &'a str,
        to_name: &'a str,
    },
    SetAttributes {
        file: FileId,
        mode: Option<u16>,
        accessed: Option<Stamp>,
        modified: Option<Stamp>,
    },
    Writing {
        file: FileId,
    },
    Settle {
        file: FileId,
        size: Option<u64>,
        modified: Option<Stamp>,
    },
    BeginTruncate {
        file: FileId,
        size: u64,
        truncation: TruncationId,
        contended: bool,
    },
    EndTruncate {
        file: FileId,
    },
    ContendTruncate {
        file: FileId,
    },
    Reaped {
        file: FileId,
    },
    Table(TablePart<'a>),
}

impl<'a> Record<'a> {
    pub fn encode(&self, to: &mut Vec<u8>) {
        let mut w = Writer(to);
        w.u8(self.change.code());
        w.i64(self.now.0);
        w.u128(self.client.0);
        w.u64(self.request.0);
        self.change.encode(&mut w);
    }

    /// `None` if these bytes are no record.
    pub fn decode(bytes: &'a [u8]) -> Option<Record<'a>> {
        let mut r = Reader(bytes);
        let code = r.u8()?;
        let now = Stamp(r.i64()?);
        let client = ClientId(r.u128()?);
        let request = RequestId(r.u64()?);
        let change = Change::decode(code, &mut r)?;
        r.end(Record { now, client, request, change })
    }
}

impl<'a> Change<'a> {
    /// Whether it may use the space that is reserved on a full disk: it frees something, or ends something under way.
    pub fn is_urgent(&self) -> bool {
        match self {
            Change::Root { .. }
            | Change::Create { .. }
            | Change::MakeDirectories { .. }
            | Change::SetAttributes { .. }
            | Change::Table(_) => false,
            Change::Rename { replaced, .. } => replaced.0 != 0,
            _ => true,
        }
    }

    fn code(&self) -> u8 {
        match self {
            Change::Root { .. } => 1,
            Change::Create { table: None, .. } => 2,
            Change::MakeDirectories { .. } => 3,
            Change::RemoveDirectory { .. } => 4,
            Change::Unlink { .. } => 5,
            Change::Rename { .. } => 6,
            Change::SetAttributes { .. } => 7,
            Change::Writing { .. } => 8,
            Change::Settle { .. } => 9,
            Change::BeginTruncate { .. } => 10,
            Change::EndTruncate { .. } => 11,
            Change::Reaped { .. } => 12,
            Change::Table(_) => 13,
            Change::Create { table: Some(_), .. } => 14,
            Change::ContendTruncate { .. } => 15,
        }
    }

    fn encode(&self, w: &mut Writer<'_>) {
        match *self {
            Change::Root { mode } => w.u16(mode),
            Change::Create { parent, file, mode, writing, striping, table, name } => {
                w.u64(parent.0);
                w.u64(file.0);
                w.u16(mode);
                w.u8(u8::from(writing));
                encode_striping(striping, w);
                table.into_iter().for_each(|table| encode_table(table, w));
                w.text(name);
            }
            Change::MakeDirectories { parent, first, mode, above, path } => {
                w.u64(parent.0);
                w.u64(first.0);
                w.u16(mode);
                w.u16(above);
                w.text(path);
            }
            Change::RemoveDirectory { parent, directory: inode, name }
            | Change::Unlink { parent, file: inode, name } => {
                w.u64(parent.0);
                w.u64(inode.0);
                w.text(name);
            }
            Change::Rename { from, to, what, replaced, from_name, to_name } => {
                for id in [from, to, what, replaced] {
                    w.u64(id.0);
                }
                w.text(from_name);
                w.text(to_name);
            }
            Change::SetAttributes { file, mode, accessed, modified } => {
                w.u64(file.0);
                w.maybe(mode, Writer::u16);
                w.maybe(accessed, |w, at| w.i64(at.0));
                w.maybe(modified, |w, at| w.i64(at.0));
            }
            Change::Settle { file, size, modified } => {
                w.u64(file.0);
                w.maybe(size, Writer::u64);
                w.maybe(modified, |w, at| w.i64(at.0));
            }
            Change::BeginTruncate { file, size, truncation, contended } => {
                w.u64(file.0);
                w.u64(size);
                w.u64(truncation.0);
                w.u8(u8::from(contended));
            }
            Change::Writing { file }
            | Change::EndTruncate { file }
            | Change::ContendTruncate { file }
            | Change::Reaped { file } => w.u64(file.0),
            Change::Table(part) => encode_part(part, w),
        }
    }

    fn decode(code: u8, r: &mut Reader<'a>) -> Option<Change<'a>> {
        let id = |r: &mut Reader<'a>| r.u64().map(FileId);
        let stamp = |r: &mut Reader<'a>| r.i64().map(Stamp);
        Some(match code {
            1 => Change::Root { mode: r.u16()? },
            2 | 14 => Change::Create {
                parent: id(r)?,
                file: id(r)?,
                mode: r.u16()?,
                writing: r.flag()?,
                striping: decode_striping(r)?,
                table: if code == 14 { Some(decode_table(r)?) } else { None },
                name: r.text()?,
            },
            3 => Change::MakeDirectories {
                parent: id(r)?,
                first: id(r)?,
                mode: r.u16()?,
                above: r.u16()?,
                path: r.text()?,
            },
            4 => Change::RemoveDirectory { parent: id(r)?, directory: id(r)?, name: r.text()? },
            5 => Change::Unlink { parent: id(r)?, file: id(r)?, name: r.text()? },
            6 => Change::Rename {
                from: id(r)?,
                to: id(r)?,
                what: id(r)?,
                replaced: id(r)?,
                from_name: r.text()?,
                to_name: r.text()?,
            },
            7 => Change::SetAttributes {
                file: id(r)?,
                mode: r.maybe(Reader::u16)?,
                accessed: r.maybe(stamp)?,
                modified: r.maybe(stamp)?,
            },
            8 => Change::Writing { file: id(r)? },
            9 => Change::Settle { file: id(r)?, size: r.maybe(Reader::u64)?, modified: r.maybe(stamp)? },
            10 => Change::BeginTruncate {
                file: id(r)?,
                size: r.u64()?,
                truncation: TruncationId(r.u64()?),
                contended: r.flag()?,
            },
            11 => Change::EndTruncate { file: id(r)? },
            12 => Change::Reaped { file: id(r)? },
            13 => Change::Table(decode_part(r)?),
            15 => Change::ContendTruncate { file: id(r)? },
            _ => return None,
        })
    }
}

pub(crate) fn encode_striping(striping: Striping, w: &mut Writer<'_>) {
    w.u64(striping.stripe());
    w.u16(striping.count());
    w.u16(striping.first());
    w.u16(striping.servers());
}

pub(crate) fn decode_striping(r: &mut Reader<'_>) -> Option<Striping> {
    Striping::new(r.u64()?, r.u16()?, r.u16()?, r.u16()?).ok()
}

pub(crate) fn encode_table(table: PlacementMapId, w: &mut Writer<'_>) {
    w.u128(table.hash);
    w.u32(table.len);
}

pub(crate) fn decode_table(r: &mut Reader<'_>) -> Option<PlacementMapId> {
    Some(PlacementMapId { hash: r.u128()?, len: r.u32()? })
}

pub(crate) fn encode_part(part: TablePart<'_>, w: &mut Writer<'_>) {
    encode_table(part.table, w);
    w.u32(part.at);
    w.0.extend_from_slice(part.bytes);
}

pub(crate) fn decode_part<'a>(r: &mut Reader<'a>) -> Option<TablePart<'a>> {
    Some(TablePart { table: decode_table(r)?, at: r.u32()?, bytes: r.rest() })
        .filter(|part| !part.bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(id: u64, name: &str, size: Option<u64>, when: Option<Stamp>) -> Vec<Change<'_>> {
        let (file, other) = (FileId(id), FileId(id.wrapping_add(1)));
        let striping = Striping::new(4096, 2, 1, 3).expect("sound");
        let table = Some(PlacementMapId { hash: 7 << 100, len: 99 });
        vec![
            Change::Root { mode: 0o755 },
            Change::Create { parent: other, file, mode: 0o644, writing: true, striping, table: None, name },
            Change::Create { parent: other, file, mode: 0o644, writing: true, striping, table, name },
            Change::MakeDirectories { parent: other, first: file, mode: 0o700, above: 0o711, path: name },
            Change::RemoveDirectory { parent: other, directory: file, name },
            Change::Unlink { parent: other, file, name },
            Change::Rename {
                from: other,
                to: file,
                what: file,
                replaced: FileId(0),
                from_name: name,
                to_name: "x",
            },
            Change::SetAttributes { file, mode: size.map(|s| s as u16), accessed: when, modified: None },
            Change::Writing { file },
            Change::Settle { file, size, modified: when },
            Change::BeginTruncate { file, size: id, truncation: TruncationId(7), contended: true },
            Change::EndTruncate { file },
            Change::ContendTruncate { file },
            Change::Reaped { file },
        ]
    }

    proptest! {
        #[test]
        fn records_are_read_as_written(
            id: u64,
            name in "[a-zäß/]{0,40}",
            size: Option<u64>,
            when: Option<i64>,
            client: u128,
            request: u64,
            now: i64,
        ) {
            for change in all(id, &name, size, when.map(Stamp)) {
                let (client, request) = (ClientId(client), RequestId(request));
                let record = Record { now: Stamp(now), client, request, change };
                let mut bytes = Vec::new();
                record.encode(&mut bytes);
                prop_assert_eq!(Record::decode(&bytes), Some(record));
                prop_assert_eq!(Record::decode(&bytes[..bytes.len() - 1]), None);
                bytes.push(0);
                prop_assert_eq!(Record::decode(&bytes), None);
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(0u8..20, 0..120)) {
            let _ = Record::decode(&bytes);
        }
    }
}
