//! An open file of a worker, with or without tier 1, and the outcomes of its calls.

use std::sync::Arc;

use pario::{Error, File, Result, TierFile};

use super::history::CallOutcome;

/// An open file, and its blocks in the worker's own memory.
#[derive(Clone)]
pub struct WorkerFile {
    /// The file at its servers.
    pub file: File,
    /// The file in tier 1, if the worker uses that.
    pub cached: Option<Arc<TierFile>>,
}

impl WorkerFile {
    /// Writes extents, to tier 1 if the file is there.
    pub fn write(&self, extents: &[(u64, &[u8])]) -> Result<()> {
        match (&self.cached, extents) {
            (Some(cached), extents) => cached.write_vectored_at(extents),
            (None, [(at, bytes)]) => self.file.write_at(bytes, *at),
            (None, extents) => self.file.write_vectored_at(extents),
        }
    }

    /// Reads, through tier 1 if the file is there.
    pub fn read(&self, bytes: &mut [u8], at: u64) -> Result<usize> {
        match &self.cached {
            Some(cached) => cached.read_at(bytes, at),
            None => self.file.read_at(bytes, at),
        }
    }

    /// Moves dirty blocks of tier 1 to the servers.
    pub fn stage(&self) -> Result<()> {
        self.cached.as_ref().map_or(Ok(()), |cached| cached.flush())
    }

    /// Sets the size of the file.
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.stage()?;
        self.cached.iter().for_each(|cached| cached.cut(size));
        self.file.set_len(size)
    }

    /// Closes the file in tier 1 and at its servers.
    pub fn close(self) -> Result<()> {
        let staged = self.cached.and_then(Arc::into_inner).map_or(Ok(()), |cached| cached.close(false));
        self.file.close().and(staged)
    }
}

/// The outcome of a call that failed.
pub fn failed(error: &Error) -> CallOutcome {
    CallOutcome::Failed { kind: format!("{:?}", error.kind()), text: error.to_string() }
}

/// The outcome of a call that returns nothing.
pub fn outcome(result: Result<()>) -> CallOutcome {
    result.map_or_else(|error| failed(&error), |()| CallOutcome::Done)
}
