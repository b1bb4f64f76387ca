//! The times of simulated files, with the interface of `std::fs::FileTimes`.

use std::io;
use std::time::SystemTime;

use super::clock::BOOT;
use super::simulated_file::SimulatedFile;

/// Times to set. A simulated file only has the time of its last change.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedFileTimes {
    modified: Option<SystemTime>,
}

impl SimulatedFileTimes {
    /// No times so far.
    pub fn new() -> SimulatedFileTimes {
        SimulatedFileTimes::default()
    }

    /// The time of the last read.
    pub fn set_accessed(self, _time: SystemTime) -> SimulatedFileTimes {
        self
    }

    /// The time of the last change.
    pub fn set_modified(self, time: SystemTime) -> SimulatedFileTimes {
        SimulatedFileTimes { modified: Some(time) }
    }
}

impl SimulatedFile {
    /// Sets the times of the file.
    pub fn set_times(&self, times: SimulatedFileTimes) -> io::Result<()> {
        let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        match times.modified.map(since) {
            Some(time) => {
                let time = (time.as_nanos() as u64).saturating_sub(BOOT);
                self.act(|model, inode| {
                    model.set_modified(inode, time);
                    Ok(())
                })
            }
            None => Ok(()),
        }
    }
}
