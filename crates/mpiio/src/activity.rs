//! The record of the MPI-IO calls that this process is in, for other ranks and for `pario status --ranks`.

use std::sync::{Arc, OnceLock};

use pario_activity::{ActivityRecord, CallName, OPEN};
use pario_mpi_host::Host;

use crate::env::env;
use crate::file::MpiFile;

/// An MPI-IO function.
pub struct FileCall {
    /// Its name.
    pub name: &'static str,
    pub(crate) label: CallName,
    is_collective: bool,
}

impl FileCall {
    /// The function of this name.
    pub const fn named(name: &'static str) -> FileCall {
        FileCall { name, label: CallName::new(name), is_collective: is_collective(name.as_bytes()) }
    }
}

/// The collective functions on an open file: data accesses of all ranks, and these.
const fn is_collective(name: &[u8]) -> bool {
    contains(name, b"_all")
        || contains(name, b"_ordered")
        || contains(name, b"set_view")
        || contains(name, b"set_size")
        || contains(name, b"set_info")
        || contains(name, b"set_atomicity")
        || contains(name, b"preallocate")
        || contains(name, b"seek_shared")
        || contains(name, b"sync")
        || contains(name, b"close")
}

const fn contains(text: &[u8], part: &[u8]) -> bool {
    let mut at = 0;
    while at + part.len() <= text.len() {
        let mut same = 0;
        while same < part.len() && text[at + same] == part[same] {
            same += 1;
        }
        if same == part.len() {
            return true;
        }
        at += 1;
    }
    false
}

static RECORD: OnceLock<Option<Arc<ActivityRecord>>> = OnceLock::new();

/// The record of this process, created by the first open. `None` if there is no memory or descriptor for it.
pub(crate) fn record(host: &'static Host) -> Option<&'static Arc<ActivityRecord>> {
    let create = || {
        let job = env().job.as_deref().unwrap_or_default();
        ActivityRecord::create(host.world_rank(), host.world_size(), job).ok()
    };
    RECORD.get_or_init(create).as_ref()
}

/// A call in progress. Dropping it ends the call.
pub struct CallInProgress(Option<&'static ActivityRecord>);

impl Drop for CallInProgress {
    #[inline]
    fn drop(&mut self) {
        if let Some(record) = self.0 {
            record.end_call();
        }
    }
}

/// Records that MPI_File_open has begun.
pub fn begin_open(host: &'static Host) -> CallInProgress {
    let record = record(host).map(|record| &**record);
    if let Some(record) = record {
        record.begin_call(OPEN, None);
    }
    CallInProgress(record)
}

impl MpiFile {
    /// Records that a call on this file has begun.
    #[inline]
    pub fn begin_call(&self, call: &FileCall) -> CallInProgress {
        let record = RECORD.get().and_then(|record| record.as_deref());
        if let Some(record) = record {
            let file = self.group.activity();
            record.begin_call(call.label, file);
            if let (true, Some(file)) = (call.is_collective, file) {
                file.begin_collective(call.label);
            }
        }
        CallInProgress(record)
    }

    /// Records how many bytes the collective call is about on this rank.
    pub(crate) fn note_bytes(&self, bytes: u64) {
        if let Some(file) = self.group.activity() {
            file.set_bytes(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collective_functions_are_known_by_their_names() {
        for name in [
            "MPI_File_write_at_all",
            "MPI_File_iread_all_c",
            "MPI_File_write_ordered_end",
            "MPI_File_set_view",
            "MPI_File_set_atomicity",
            "MPI_File_preallocate",
            "MPI_File_seek_shared",
            "MPI_File_sync",
            "MPI_File_close",
        ] {
            assert!(FileCall::named(name).is_collective, "{name}");
        }
        for name in
            ["MPI_File_write_at", "MPI_File_get_position_shared", "MPI_File_seek", "MPI_File_get_info"]
        {
            assert!(!FileCall::named(name).is_collective, "{name}");
        }
        for name in ["MPI_File_iwrite_shared", "MPI_File_set_errhandler", "MPI_File_call_errhandler"] {
            assert!(!FileCall::named(name).is_collective, "{name}");
        }
    }
}
