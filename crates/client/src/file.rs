//! A file of a partition, as programs use it.

use std::ops::Range;
use std::sync::Arc;

use pario_layout::{Layout, StripedView, Striping};
use pario_runtime::time::SystemTime;
use pario_types::{ErrorKind, FileId, Pos, ServerId};
use pario_view::View;
use pario_wire::{Reply, Request, message};

use crate::client_core::{ClientCore, unexpected};
use crate::error::{Error, Result};
use crate::io::memory::Memory;
use crate::io::named_view::{NamedView, UserData, is_worth_naming};
use crate::io::plan::{ReplicaChoice, first_piece};
use crate::io::transfer::transfer;
use crate::metadata::open_file::OpenFile;

/// The number of pieces of a view that are accessed together.
const BATCH: usize = 1024;

/// An open file. Clones are the same open file, and threads may use one at the same time.
///
/// Every access has its own offset; there is no file position. All threads and programs see a write from its return on.
#[derive(Clone)]
pub struct File(Arc<OpenFile>);

impl File {
    pub(crate) fn new(open: OpenFile) -> File {
        File(Arc::new(open))
    }

    pub(crate) fn open(&self) -> &OpenFile {
        &self.0
    }

    /// Its id in the partition, which is never reused.
    pub fn id(&self) -> FileId {
        self.0.file
    }

    /// Its layout.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// Its striping, or that of its unplaced bytes.
    pub fn striping(&self) -> Striping {
        *self.0.layout.striping()
    }

    /// Whether all its servers are on this host, where their pools can be mapped.
    pub fn is_local(&self) -> bool {
        let (target, far) = (self.0.core.target(), self.0.core.options.far);
        self.0.layout.holders().all(|server| target.is_local(server, far))
    }

    /// Lets accesses to several servers begin with the one at this place among the file's servers, modulo their number:
    /// programs that access a file together set different numbers, such as their ranks.
    pub fn set_start(&self, number: u32) {
        self.0.set_start(number);
    }

    /// Limits the bytes of data in one message, within the limits of the protocol; without it the limit is that of the
    /// partition's description.
    pub fn set_network_buffer(&self, bytes: u64) {
        self.0.set_network_buffer(bytes);
    }

    /// Of bytes that several servers hold, this server's replica is read, if it has one; set before the first access. The
    /// default is a server on this host.
    pub fn set_home(&self, server: ServerId) {
        self.0.set_home(server);
    }

    /// Reads from an offset on: as many bytes as the file has there, up to the length of `bytes`.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        self.0.reads()?;
        check(offset, bytes.len())?;
        let range = offset..offset + bytes.len() as u64;
        self.0.read_verified(std::iter::once(range), || self.read_contiguous(bytes, offset))
    }

    fn read_contiguous(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        let hits = self.read_hits(bytes, offset);
        if hits == bytes.len() {
            self.0.at(offset + hits as u64);
            return Ok(hits);
        }
        let rest = &mut bytes[hits..];
        let ahead = self.0.ahead(offset);
        let moved = transfer(&self.0, Memory::Read(&mut [(offset + hits as u64, rest)]), ahead)?;
        self.0.at(offset + (hits + moved) as u64);
        Ok(hits + moved)
    }

    /// Reads all of `bytes` from an offset on; a file that ends before is an error.
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        let wanted = bytes.len();
        match self.read_at(bytes, offset)? {
            found if found == wanted => Ok(()),
            found => Err(Error::Short { offset, wanted, found }),
        }
    }

    /// Writes all of `bytes` at an offset. The file grows as needed; a gap reads as zeros.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.0.writes()?;
        check(offset, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        let hits = self.write_hits(bytes, offset);
        let moved = match hits == bytes.len() {
            true => Ok(hits),
            false => {
                let rest = [(offset + hits as u64, &bytes[hits..])];
                transfer(&self.0, Memory::Write(&rest), self.0.ahead(offset))
            }
        };
        self.0.at(offset + bytes.len() as u64);
        self.0.touch();
        moved.map(|_| ())
    }

    /// Reads several segments, each an offset and memory. Counts the bytes in the order of the segments up to the first
    /// that lies beyond the end of the file; the memory of bytes beyond is not changed.
    pub fn read_vectored_at(&self, segments: &mut [(u64, &mut [u8])]) -> Result<usize> {
        self.0.reads()?;
        segments.iter().try_for_each(|(offset, bytes)| check(*offset, bytes.len()))?;
        if !self.0.layout.has_replicas() {
            return self.read_segments(segments);
        }
        let range = |(offset, bytes): &(u64, &mut [u8])| *offset..*offset + bytes.len() as u64;
        let ranges: Vec<Range<u64>> = segments.iter().map(range).collect();
        self.0.read_verified(ranges.iter().cloned(), || self.read_segments(segments))
    }

    fn read_segments(&self, segments: &mut [(u64, &mut [u8])]) -> Result<usize> {
        let (mut done, mut bytes_done) = (0, 0);
        for (offset, bytes) in segments.iter_mut() {
            if self.read_hits(bytes, *offset) < bytes.len() {
                break;
            }
            done += 1;
            bytes_done += bytes.len();
        }
        match &mut segments[done..] {
            [] => Ok(bytes_done),
            rest => Ok(bytes_done + transfer(&self.0, Memory::Read(rest), 0)?),
        }
    }

    /// Writes several segments, each an offset and bytes. They should not overlap: the result is then undefined.
    pub fn write_vectored_at(&self, segments: &[(u64, &[u8])]) -> Result<()> {
        self.0.writes()?;
        segments.iter().try_for_each(|(offset, bytes)| check(*offset, bytes.len()))?;
        let missed =
            segments.iter().position(|(offset, bytes)| self.write_hits(bytes, *offset) < bytes.len());
        let moved = missed.map_or(Ok(0), |first| transfer(&self.0, Memory::Write(&segments[first..]), 0));
        self.0.touch();
        moved.map(|_| ())
    }

    /// Reads the bytes that a view selects from a position on: as many as there are before the first that lies beyond the
    /// end of the file.
    pub fn read_view(&self, view: &View, position: Pos, bytes: &mut [u8]) -> Result<usize> {
        self.0.reads()?;
        check_view(view, position, bytes.len())?;
        match self.to_name(view, bytes.len())? {
            Some((seen, places)) => {
                let len = bytes.len() as u64;
                let viewed = NamedView::new(seen, position, len, UserData::Read(bytes), places);
                transfer(&self.0, Memory::NamedView(viewed), 0)
            }
            None => self.read_pieces(view, position, bytes),
        }
    }

    /// The same piece by piece.
    pub(crate) fn read_pieces(&self, view: &View, position: Pos, bytes: &mut [u8]) -> Result<usize> {
        let mut cursor = view.cursor(position, bytes.len() as u64);
        let (mut rest, mut done) = (bytes, 0);
        let mut segments = Vec::new();
        loop {
            let mut wanted = 0;
            while segments.len() < BATCH
                && let Some(piece) = cursor.next_piece(u64::MAX)
            {
                let (here, after) = std::mem::take(&mut rest).split_at_mut(piece.len as usize);
                wanted += here.len();
                segments.push((piece.offset as u64, here));
                rest = after;
            }
            let read = self.read_vectored_at(&mut segments)?;
            done += read;
            if read < wanted || wanted == 0 {
                return Ok(done);
            }
            segments.clear();
        }
    }

    /// Writes bytes through a view, from a position on.
    pub fn write_view(&self, view: &View, position: Pos, bytes: &[u8]) -> Result<()> {
        self.0.writes()?;
        check_view(view, position, bytes.len())?;
        match self.to_name(view, bytes.len())? {
            Some((seen, places)) => {
                let viewed =
                    NamedView::new(seen, position, bytes.len() as u64, UserData::Write(bytes), places);
                let moved = transfer(&self.0, Memory::NamedView(viewed), 0);
                self.0.touch();
                moved.map(|_| ())
            }
            None => self.write_pieces(view, position, bytes),
        }
    }

    /// Whether an access through the view is better sent by name, and to all servers.
    fn to_name(&self, view: &View, len: usize) -> Result<Option<(StripedView, Vec<bool>)>> {
        if !is_worth_naming(view, len as u64) || self.0.layout.table().is_some() {
            return Ok(None);
        }
        let remote = self.0.remote()?.filter(|remote| !remote.contains(&false));
        Ok(StripedView::new(view, self.0.layout.striping()).zip(remote))
    }

    /// The same piece by piece.
    pub(crate) fn write_pieces(&self, view: &View, position: Pos, bytes: &[u8]) -> Result<()> {
        let mut cursor = view.cursor(position, bytes.len() as u64);
        let mut rest = bytes;
        let mut segments = Vec::new();
        loop {
            while segments.len() < BATCH
                && let Some(piece) = cursor.next_piece(u64::MAX)
            {
                let (here, after) = rest.split_at(piece.len as usize);
                segments.push((piece.offset as u64, here));
                rest = after;
            }
            if segments.is_empty() {
                return Ok(());
            }
            self.write_vectored_at(&segments)?;
            segments.clear();
        }
    }

    /// Locks a range against other clients, and other accesses of this one, while the lock is held; waits for it. It
    /// excludes only accesses that lock as well.
    pub fn lock(&self, range: Range<u64>, exclusive: bool) -> Result<Lock> {
        let (core, file) = (&self.0.core, self.0.file);
        let server = self.0.server_connection(0).server;
        let at = range.start;
        let range = message::ByteRange { at, len: range.end.saturating_sub(at) };
        let request = Request::Lock { file, range, exclusive };
        core.begin_locking(file)?;
        let mut lock = Lock { core: Arc::clone(core), server, file, lock: None, in_turn: true };
        match core.call(server, &request)? {
            Reply::Locked { lock: number } => lock.lock = Some(number),
            reply => return Err(unexpected(server, &request, &reply)),
        }
        Ok(lock)
    }

    /// The same if the lock is free; `None` if others hold a part of the range. Other locks of this program count as
    /// others.
    pub fn try_lock(&self, range: Range<u64>, exclusive: bool) -> Result<Option<Lock>> {
        let server = self.0.server_connection(0).server;
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        let range = message::ByteRange { at, len };
        let request = Request::TryLock { file: self.0.file, ranges: vec![range], exclusive };
        match self.0.core.call(server, &request) {
            Ok(Reply::Locked { lock }) => {
                let core = Arc::clone(&self.0.core);
                Ok(Some(Lock { core, server, file: self.0.file, lock: Some(lock), in_turn: false }))
            }
            Ok(reply) => Err(unexpected(server, &request, &reply)),
            Err(error) if error.kind() == ErrorKind::FileInUse => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the present length of the file.
    #[expect(clippy::len_without_is_empty, reason = "a file is no collection, and asking costs messages")]
    pub fn len(&self) -> Result<u64> {
        self.0.ask_size()
    }

    /// The same, computed from all its servers, whatever the metadata server knows: for a check.
    pub fn held_len(&self) -> Result<u64> {
        self.0.ask_holders()
    }

    /// The time of the last write through this handle; other clients see it when the handle is closed.
    pub fn modified(&self) -> Option<SystemTime> {
        self.0.modified()
    }

    /// Sets the length: bytes beyond it are removed, added bytes read as zeros.
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.0.writes()?;
        check(size, 0)?;
        self.0.set_len(size)
    }

    /// Makes all writes to the file, of any client, survive a loss of power.
    pub fn sync(&self) -> Result<()> {
        self.0.sync(true)
    }

    /// Makes the servers store the writes through this handle, so that they survive the end of any process.
    pub fn flush(&self) -> Result<()> {
        self.0.sync(false)
    }

    /// Flushes and closes, and fails if any written bytes could not be stored. As long as there are clones it flushes; the
    /// last one closes. A dropped file is closed, too, but without a report of errors.
    pub fn close(self) -> Result<()> {
        match Arc::try_unwrap(self.0) {
            Ok(open) => open.close(),
            Err(shared) => shared.sync(false),
        }
    }

    /// Reads from mapped pools, up to the first byte that is not in one.
    #[inline]
    fn read_hits(&self, bytes: &mut [u8], offset: u64) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let pick = |set| self.0.pick(set);
            let (place, local, together) = first_piece(
                &self.0.layout,
                ReplicaChoice::One(&pick),
                offset + done as u64,
                bytes.len() - done,
            );
            let Some(place) = place else { break };
            let here = &mut bytes[done..done + together];
            let pool = self.0.server_connection(place).pool();
            let moved = pool.as_ref().map_or(0, |pool| pool.read_hits(self.0.file, local, here));
            done += moved;
            if moved < together {
                break;
            }
        }
        done
    }

    /// Writes to mapped pools, up to the first byte that is not in one.
    #[inline]
    fn write_hits(&self, bytes: &[u8], offset: u64) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let (place, local, together) =
                first_piece(&self.0.layout, ReplicaChoice::All, offset + done as u64, bytes.len() - done);
            let Some(place) = place else { break };
            let here = &bytes[done..done + together];
            let mark = self.0.begin_write(place);
            let pool = self.0.server_connection(place).pool();
            let moved = pool.as_ref().map_or(0, |pool| pool.write_hits(self.0.file, local, here));
            self.0.has_written(mark);
            done += moved;
            if moved < together {
                break;
            }
        }
        done
    }
}

/// A locked range of a file.
#[must_use = "the lock ends when it is dropped"]
pub struct Lock {
    core: Arc<ClientCore>,
    server: ServerId,
    file: FileId,
    /// Its id, while it is held.
    lock: Option<u64>,
    /// Whether other threads of this program that lock the file wait until it is released.
    in_turn: bool,
}

impl Lock {
    /// Releases the lock; fails if it was lost meanwhile, so that others may have had the range.
    pub fn unlock(mut self) -> Result<()> {
        self.release()
    }

    fn release(&mut self) -> Result<()> {
        match self.lock.take() {
            Some(lock) => self.core.call(self.server, &Request::Unlock { lock }).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A drop cannot report an error. If the request is lost, the lock ends with the connection.
        let _ = self.release();
        if self.in_turn {
            self.core.end_locking(self.file);
        }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("id", &self.id()).field("striping", &self.striping()).finish()
    }
}

/// Checks that an access stays within the largest file.
pub(crate) fn check(offset: u64, len: usize) -> Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= i64::MAX as u64 => Ok(()),
        _ => Err(Error::TooFar { offset, len: len as u64 }),
    }
}

/// The same through a view, which also must select that many bytes.
pub(crate) fn check_view(view: &View, position: Pos, len: usize) -> Result<()> {
    let len = len as u64;
    let sound =
        len == 0 || (view.bounds(position, len).is_some() && view.cursor(position, len).remaining() == len);
    if sound { Ok(()) } else { Err(Error::View { position: position.0, len }) }
}
