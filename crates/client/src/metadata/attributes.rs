//! Attributes of files and directories.

use std::time::Duration;

use pario_layout::{PlacementMapId, Striping};
use pario_runtime::time::SystemTime;
use pario_types::{FileId, Stamp};
use pario_wire::message::{Attributes, InodeKind};

/// The attributes of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    attributes: Attributes,
    len: u64,
}

impl Metadata {
    pub(crate) fn new(attributes: Attributes, len: u64) -> Metadata {
        Metadata { attributes, len }
    }

    /// Its id in the partition, which is never reused.
    pub fn id(&self) -> FileId {
        self.attributes.file
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.attributes.kind == InodeKind::File
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.attributes.kind == InodeKind::Directory
    }

    /// Bytes of a file; 0 for a directory.
    #[expect(clippy::len_without_is_empty, reason = "as in std::fs::Metadata")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Permission bits.
    pub fn mode(&self) -> u32 {
        self.attributes.mode
    }

    /// The table by which a file is placed, if it is.
    pub fn table(&self) -> Option<PlacementMapId> {
        self.attributes.table
    }

    /// The striping of a file, or of its unplaced bytes; `None` for a directory.
    pub fn striping(&self) -> Option<Striping> {
        self.is_file().then_some(self.attributes.striping)
    }

    /// The time of the last read that a client reported.
    pub fn accessed(&self) -> SystemTime {
        time(self.attributes.accessed)
    }

    /// The time of the last change of its content; for a file as of the last close of a writer.
    pub fn modified(&self) -> SystemTime {
        time(self.attributes.modified)
    }

    /// The time of the last change of content or attributes.
    pub fn changed(&self) -> SystemTime {
        time(self.attributes.changed)
    }

    /// The time of its creation.
    pub fn created(&self) -> SystemTime {
        time(self.attributes.created)
    }

    /// The number of clients that have it open.
    pub fn opens(&self) -> u32 {
        self.attributes.opens
    }

    /// The number of entries of a directory.
    pub fn entries(&self) -> u64 {
        self.attributes.entries
    }
}

/// Converts a time stamp to a system time.
pub(crate) fn time(Stamp(nanoseconds): Stamp) -> SystemTime {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    let time = match nanoseconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(distance),
        _ => SystemTime::UNIX_EPOCH.checked_sub(distance),
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Converts a system time to a time stamp; the nearest one if it is out of range.
pub(crate) fn stamp(time: SystemTime) -> Stamp {
    let clamp = |distance: Duration| i64::try_from(distance.as_nanos()).unwrap_or(i64::MAX);
    Stamp(match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => clamp(after),
        Err(before) => -clamp(before.duration()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_convert_to_and_from_system_time() {
        for nanoseconds in [0, 1, -1, 1_700_000_000_123_456_789, -86_400_000_000_001, i64::MAX] {
            assert_eq!(stamp(time(Stamp(nanoseconds))), Stamp(nanoseconds));
        }
    }
}
