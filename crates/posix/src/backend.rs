//! [`FileBackend`] for plain files.

use std::ops::Range;

use pario_buffer::UserBuffer;
use pario_domain::LockProtocol;
use pario_file_backend::{BackendError, FileBackend, LockAttempt, RangeLock, StorageFacts};
use pario_types::{AccessTuning, Offset, Pos};
use pario_view::View;

use crate::error::Error;
use crate::file::PlainFile;
use crate::filesystem::FsKind;
use crate::locks::OwnedRangeGuard;
use crate::open::PlainOpenOptions;

impl From<Error> for BackendError {
    fn from(error: Error) -> BackendError {
        BackendError {
            kind: error.kind(),
            errno: error.errno(),
            at: error.at(),
            done: error.done(),
            text: error.to_string(),
        }
    }
}

fn offsets(range: &Range<u64>) -> Range<Offset> {
    Offset(range.start)..Offset(range.end)
}

impl FileBackend for PlainFile {
    fn read(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tuning: &AccessTuning,
    ) -> Result<u64, BackendError> {
        Ok(PlainFile::read(self, view, at, buf, buf_at, len, tuning)?)
    }

    fn write(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tuning: &AccessTuning,
    ) -> Result<u64, BackendError> {
        Ok(PlainFile::write(self, view, at, buf, buf_at, len, tuning)?)
    }

    fn is_cached(&self, range: &Range<u64>) -> bool {
        self.is_in_memory(Offset(range.start))
    }

    fn prefetch(&self, ranges: &[Range<u64>]) -> usize {
        let refused = ranges.iter().position(|range| !PlainFile::prefetch(self, offsets(range)));
        refused.unwrap_or(ranges.len())
    }

    fn release(&self, ranges: &[Range<u64>]) {
        for range in ranges {
            // The call is advice. If the system ignores it, there is nothing to release.
            PlainFile::release(self, offsets(range));
        }
    }

    fn prefetch_hinted(&self, ranges: &[Range<u64>]) -> usize {
        self.hinted.prefetch(self, ranges)
    }

    fn release_hinted(&self, ranges: &[Range<u64>]) {
        self.hinted.release(self, ranges);
    }

    fn read_window(&self, parts: &mut [(u64, &mut [u8])], _: bool) -> Result<usize, BackendError> {
        let mut done = 0;
        for (at, to) in parts {
            let got = PlainFile::read_window(self, Offset(*at), to)? as usize;
            done += got;
            if got < to.len() {
                break;
            }
        }
        Ok(done)
    }

    fn write_window(
        &self,
        parts: &[(u64, &[u8])],
        locked: bool,
        _: bool,
        tuning: &AccessTuning,
    ) -> Result<(), BackendError> {
        parts.iter().try_for_each(|(at, from)| {
            if locked {
                Ok(self.write_locked(Offset(*at), from)?)
            } else {
                Ok(self.write_bytes_tuned(Offset(*at), from, tuning)?)
            }
        })
    }

    fn is_hole(&self, range: Range<u64>) -> Result<bool, BackendError> {
        Ok(PlainFile::is_hole(self, offsets(&range))?)
    }

    fn try_lock(&self, range: Range<u64>) -> Result<LockAttempt, BackendError> {
        match self.try_lock_owned(offsets(&range), true) {
            Ok(Some(guard)) => Ok(LockAttempt::Locked(Box::new(guard))),
            Ok(None) => Ok(LockAttempt::Busy),
            Err(Error::NoLocks { .. }) => Ok(LockAttempt::NotNeeded),
            Err(e) => Err(e.into()),
        }
    }

    fn lock_whole_file(&self) -> Result<Option<Box<dyn RangeLock>>, BackendError> {
        // Through a second open: in the first one the lock would conflict with the accesses.
        let own = PlainFile::open(self.path(), &PlainOpenOptions::default())?;
        let range = own.try_lock_owned(Offset(0)..Offset(u64::MAX), false)?;
        Ok(range.map(|range| -> Box<dyn RangeLock> { Box::new(range) }))
    }

    fn size(&self) -> Result<u64, BackendError> {
        Ok(PlainFile::size(self)?)
    }

    fn set_size(&self, size: u64) -> Result<(), BackendError> {
        Ok(PlainFile::set_size(self, size)?)
    }

    fn preallocate(&self, size: u64) -> Result<(), BackendError> {
        Ok(PlainFile::preallocate(self, size)?)
    }

    fn sync(&self) -> Result<(), BackendError> {
        Ok(PlainFile::sync(self)?)
    }

    fn facts(&self) -> StorageFacts {
        let fs = self.filesystem();
        let protocol = match fs.kind {
            FsKind::Lustre => LockProtocol::Servers,
            FsKind::Gpfs => LockProtocol::Tokens,
            _ => LockProtocol::Local,
        };
        let striping = self.striping();
        StorageFacts {
            protocol,
            local: fs.is_local(),
            memory: fs.kind == FsKind::Tmpfs,
            partition: false,
            placed: false,
            tier1: false,
            near: false,
            block: fs.block,
            stripe: striping.map_or(0, |s| s.unit),
            servers: striping.and_then(|s| s.count).unwrap_or(0),
        }
    }

    fn can_sieve_writes(&self) -> bool {
        PlainFile::can_sieve_writes(self)
    }

    fn striping_complaint(&self) -> Option<String> {
        self.striping_outcome().complaint()
    }
}

impl RangeLock for OwnedRangeGuard {
    fn release(self: Box<Self>) -> Result<(), BackendError> {
        Ok(OwnedRangeGuard::release(*self)?)
    }
}
