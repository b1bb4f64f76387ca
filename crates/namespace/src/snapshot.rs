//! The whole state as a file, in the frame of [`crate::frames`].
//!
//! Payloads of its records, in this order; fields as in [`crate::change`]:
//!
//! ```text
//!  0  1  kind
//!  1     32 begin      next number 8, next truncation 8
//!        33 file       number 8, parent 8, mode 2, accessed 8, modified 8, changed 8, created 8,
//!                      stripe 8, count 2, first 2, servers 2, optional size 8 (none: ask), name
//!        34 directory  number 8, parent 8, mode 2, accessed 8, modified 8, changed 8, created 8, name
//!        35 truncation file 8, size 8, truncation 8, client 16, contended 1
//!        36 client     client 16, then for each remembered request:
//!                      request 8, what it answered about 8 (0: nothing)
//!        37 end        how many inodes 8, truncations 8, clients 8
//!        38 table      hash 16, all its bytes 4, at 4, the bytes from there on
//!        39 placed     file 8, hash 16 and bytes 4 of its table
//! ```
//!
//! Inodes are in order of their ids; a file of parent 0 is an orphan. After them come the tables, each with all its parts,
//! and the files that have them. Clients are in order of silence, the longest silent first.

use std::path::Path;

use pario_types::{ClientId, FileId, PartitionId, RequestId, Stamp, TruncationId};

use crate::change::{decode_part, decode_striping, decode_table, encode_part, encode_striping, encode_table};
use crate::codec::{Reader, Writer};
use crate::disk::{DiskFile, write_all};
use crate::frames::{Contents, Frames, Next, Salt, frame, header};
use crate::inodes::{Body, Entries, Inode, Times};
use crate::requests::Outcome;
use crate::state::{State, Truncation};
use crate::tables::Tables;
use crate::{Error, ROOT};
use pario_metadata::FileSize;

/// Bytes written at a time.
const CHUNK: usize = 1 << 20;

/// Collects records and writes them in large pieces.
struct Sink<'f> {
    file: &'f mut dyn DiskFile,
    salt: Salt,
    at: u64,
    buffer: Vec<u8>,
}

impl Sink<'_> {
    fn put(&mut self, write: impl FnOnce(&mut Writer<'_>)) -> std::io::Result<()> {
        let at = self.at + self.buffer.len() as u64;
        frame(&mut self.buffer, self.salt, at, |to| write(&mut Writer(to)));
        if self.buffer.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        write_all(self.file, &self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Writes the state into an empty file; returns its length.
pub(crate) fn write(
    state: &State,
    file: &mut dyn DiskFile,
    partition: PartitionId,
    generation: u64,
) -> std::io::Result<u64> {
    let header = header(Contents::Snapshot, partition, generation);
    let mut sink = Sink { file, salt: Salt::of(&header), at: 0, buffer: header.to_vec() };
    sink.put(|w| {
        w.u8(32);
        w.u64(state.next);
        w.u64(state.next_truncation);
    })?;
    for (id, inode) in state.inodes.from(FileId(0)) {
        sink.put(|w| encode_inode(id, inode, w))?;
    }
    for (table, bytes) in state.tables.whole() {
        for part in Tables::parts(table, bytes) {
            sink.put(|w| {
                w.u8(38);
                encode_part(part, w);
            })?;
        }
    }
    for (file, table) in state.tables.placed() {
        sink.put(|w| {
            w.u8(39);
            w.u64(file.0);
            encode_table(table, w);
        })?;
    }
    for (file, truncation) in &state.truncations {
        sink.put(|w| {
            w.u8(35);
            w.u64(file.0);
            w.u64(truncation.size);
            w.u64(truncation.id.0);
            w.u128(truncation.client.0);
            w.u8(u8::from(truncation.contended));
        })?;
    }
    let clients = state.requests.all();
    for (client, done) in &clients {
        sink.put(|w| {
            w.u8(36);
            w.u128(client.0);
            for (request, outcome) in *done {
                w.u64(request.0);
                w.u64(if let Outcome::About(file) = outcome { file.0 } else { 0 });
            }
        })?;
    }
    sink.put(|w| {
        w.u8(37);
        w.u64(state.inodes.len());
        w.u64(state.truncations.len() as u64);
        w.u64(clients.len() as u64);
    })?;
    sink.flush()?;
    Ok(sink.at)
}

fn encode_inode(id: FileId, inode: &Inode, w: &mut Writer<'_>) {
    w.u8(if inode.entries().is_some() { 34 } else { 33 });
    w.u64(id.0);
    w.u64(inode.parent.0);
    w.u16(inode.mode);
    let Times { accessed, modified, changed, created } = inode.times;
    for stamp in [accessed, modified, changed, created] {
        w.i64(stamp.0);
    }
    if let Body::File { striping, size } = inode.body {
        encode_striping(striping, w);
        let known = if let FileSize::Known(size) = size { Some(size) } else { None };
        w.maybe(known, Writer::u64);
    }
    w.text(&inode.name);
}

/// Reads a state; returns it with the number of records and bytes.
pub(crate) fn read(
    file: &mut dyn DiskFile,
    name: &Path,
    partition: PartitionId,
    generation: u64,
) -> Result<(State, u64, u64), Error> {
    let mut frames = Frames::open(file, name, Contents::Snapshot, partition, generation)?;
    let mut state = State::new();
    let (mut records, mut truncations, mut clients) = (0u64, 0u64, 0u64);
    loop {
        let (payload, at) = match frames.next()? {
            Next::Record(payload, at) => (payload, at),
            Next::End => return Err(frames.damaged("its end is missing")),
            Next::Bad { .. } => return Err(frames.damaged("a record is not what was written")),
        };
        records += 1;
        let mut r = Reader(payload);
        let read = match r.u8() {
            Some(32) => decode_begin(&mut state, r),
            Some(kind @ (33 | 34)) => decode_inode(kind == 34, &mut state, r),
            Some(35) => {
                truncations += 1;
                decode_truncation(&mut state, r)
            }
            Some(36) => {
                clients += 1;
                decode_client(&mut state, r)
            }
            Some(37) => {
                let counts = (r.u64(), r.u64(), r.u64());
                if counts != (Some(state.inodes.len()), Some(truncations), Some(clients)) {
                    return Err(frames.damaged_at(at, "it does not have as many records as were written"));
                }
                break;
            }
            Some(38) => decode_part(&mut r).filter(|part| state.tables.add(*part)).map(drop),
            Some(39) => decode_placed(&mut state, r),
            _ => None,
        };
        if read.is_none() {
            return Err(frames.damaged_at(at, "a record makes no sense"));
        }
    }
    if !matches!(frames.next()?, Next::End) {
        return Err(frames.damaged("something follows its end"));
    }
    let end = frames.at();
    link(&mut state).ok_or_else(|| frames.damaged("its directories do not fit together"))?;
    Ok((state, records, end))
}

fn decode_inode(directory: bool, state: &mut State, mut r: Reader<'_>) -> Option<()> {
    let id = FileId(r.u64()?);
    let parent = FileId(r.u64()?);
    let mode = r.u16()?;
    let mut stamp = || r.i64().map(Stamp);
    let times = Times { accessed: stamp()?, modified: stamp()?, changed: stamp()?, created: stamp()? };
    let body = if directory {
        state.directories += 1;
        Body::Directory(Entries::new())
    } else {
        let striping = decode_striping(&mut r)?;
        let size = r.maybe(Reader::u64)?;
        Body::File { striping, size: size.map_or_else(|| state.ask(), FileSize::Known) }
    };
    if parent == FileId(0) {
        state.orphans.insert(id).then_some(())?;
    }
    let name = r.text()?.into();
    let new = id.0 < state.next && state.inodes.insert(id, Inode { parent, name, mode, times, body });
    r.end(new)?.then_some(())
}

fn decode_placed(state: &mut State, mut r: Reader<'_>) -> Option<()> {
    let file = FileId(r.u64()?);
    let table = decode_table(&mut r)?;
    let sound = state.inodes.get(file)?.size().is_some() && state.tables.place(file, table);
    r.end(sound)?.then_some(())
}

fn decode_begin(state: &mut State, mut r: Reader<'_>) -> Option<()> {
    (state.next, state.next_truncation) = (r.u64()?, r.u64()?);
    r.end(())
}

fn decode_truncation(state: &mut State, mut r: Reader<'_>) -> Option<()> {
    let file = FileId(r.u64()?);
    let size = r.u64()?;
    let id = TruncationId(r.u64()?);
    let client = ClientId(r.u128()?);
    let contended = r.flag()?;
    let known = id.0 < state.next_truncation;
    state.truncations.insert(file, Truncation { id, size, client, contended, is_left: false });
    r.end(known)?.then_some(())
}

fn decode_client(state: &mut State, mut r: Reader<'_>) -> Option<()> {
    let client = ClientId(r.u128()?);
    while !r.0.is_empty() {
        let request = RequestId(r.u64()?);
        let about = FileId(r.u64()?);
        let outcome = if about == FileId(0) { Outcome::Done } else { Outcome::About(about) };
        state.requests.remember(client, request, outcome);
    }
    Some(())
}

/// Puts every inode into its directory, and checks that the snapshot is complete.
fn link(state: &mut State) -> Option<()> {
    let links: Vec<_> =
        state.inodes.from(FileId(0)).map(|(id, inode)| (id, inode.parent, inode.name.clone())).collect();
    for (id, parent, name) in links {
        if parent != FileId(0) && id != ROOT {
            let entries = state.inodes.get_mut(parent)?.entries_mut()?;
            entries.insert(name, id).is_none().then_some(())?;
        }
    }
    let is_file = |file: &FileId| state.inodes.get(*file).is_some_and(|inode| inode.size().is_some());
    let truncated_are_files = state.truncations.keys().all(is_file);
    state.inodes.get(ROOT)?.entries().filter(|_| truncated_are_files).map(|_| ())
}
