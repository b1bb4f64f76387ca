//! Closing and deleting files.

use std::path::PathBuf;

use pario_hints::Hints;
use pario_trace::{FileReport, StatsTo};

use crate::env::{env, warn};
use crate::error::Result;
use crate::file::MpiFile;
use crate::file_name::FileName;
use crate::handles;
use crate::storage::{Storage, count_server_requests};

/// Closes the file of a handle. The handle is invalid afterwards, even if the close fails. Collective.
pub fn close(handle: usize) -> Result<()> {
    let file = handles::get(handle)?;
    handles::remove(handle);
    // The standard demands that the program has completed its accesses. If it has not, this call completes them.
    file.quiesce();
    let unfinished = file.take_split(|_| Ok(())).map(|split| split.completion.take());
    let met = file.barrier_if_shipping();
    let mine = met
        .and(file.take_deferred_error())
        .and(unfinished.unwrap_or(Ok(0)).map(drop))
        .and_then(|()| if file.must_sync_at_close() { file.sync_mine() } else { Ok(()) })
        .and(file.flush_at_close());
    let mut used_pointer = [u64::from(file.shared.touched())];
    let outcome = file.group.agree_on(mine, &[], &mut used_pointer);
    // No rank accesses the file after this agreement, so the agents can stop.
    let stopped = file.stop_shipping();
    let outcome = outcome.and(stopped).and(file.clean_up(used_pointer[0] > 0));
    let outcome = outcome.and(file.free_view_types()).and(file.report());
    file.group.clone().release();
    outcome
}

impl MpiFile {
    /// Stores what this rank wrote, and returns the error if that fails.
    fn flush_at_close(&self) -> Result<()> {
        match self.opened() {
            Some(storage) => {
                let stays = !self.amode().delete_on_close;
                let wrote = self.amode().write;
                let (counts, closed) = count_server_requests(&self.stats, || storage.close(wrote, stays));
                self.stats.staged_bytes.add(counts.staged_bytes);
                self.stats.recalls.add(counts.recalls);
                Ok(closed?)
            }
            None => Ok(()),
        }
    }

    fn must_sync_at_close(&self) -> bool {
        self.amode().write && self.hints(Hints::close_sync)
    }

    /// Prints the statistics of the file if the user asked for them. Collective.
    fn report(&self) -> Result<()> {
        let to = &env().stats;
        if *to == StatsTo::Off {
            return Ok(());
        }
        let numbers = self.stats.numbers();
        let (sums, peaks) = match self.group.size {
            1 => (numbers.clone(), numbers),
            _ => self.group.reduce_sum_and_max(&numbers)?,
        };
        if self.group.rank == 0 {
            let path = self.path.to_string_lossy();
            let report = FileReport::reduced(&path, self.group.size, &sums, &peaks, self.stats.decisions());
            if let Err(e) = to.deliver(&report) {
                warn(&format!("the statistics of {path} cannot be written: {e}"));
            }
        }
        Ok(())
    }

    /// Removes the shared file pointer, and the file itself with MPI_MODE_DELETE_ON_CLOSE. No rank uses them any more.
    /// Collective.
    fn clean_up(&self, pointer_used: bool) -> Result<()> {
        let delete = self.amode().delete_on_close;
        if !pointer_used && !delete {
            return Ok(());
        }
        self.group.root_bcast(|| {
            if pointer_used {
                self.shared.remove()?;
            }
            if delete {
                Storage::delete(self.name())?;
            }
            Ok([])
        })?;
        Ok(())
    }

    fn free_view_types(&self) -> Result<()> {
        let types = self.types.lock();
        self.host().release_type(types.etype)?;
        Ok(self.host().release_type(types.filetype)?)
    }
}

/// Deletes a file by name. Not collective.
pub fn delete(name: Result<PathBuf>) -> Result<()> {
    Storage::delete(&FileName::parse(&name?, env())?)
}

/// Waits for all accesses in progress on all open files, for programs that finish without closing them.
pub fn quiesce_all() {
    handles::all().iter().for_each(|file| file.quiesce());
}
