//! Attributes of files and directories.

use std::time::{Duration, SystemTime};

use pario_layout::{PlacementMapId, Striping};
use pario_types::{FileId, Stamp};
use pario_wire::message::{Attributes, InodeKind};

/// What there is to know of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    attributes: Attributes,
    len: u64,
}

impl Metadata {
    pub(crate) fn new(attributes: Attributes, len: u64) -> Metadata {
        Metadata { attributes, len }
    }

    /// Its number in the partition, which nothing else ever has.
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

    /// How a file, or what its table leaves out, is striped over servers; `None` for a directory.
    pub fn striping(&self) -> Option<Striping> {
        self.is_file().then_some(self.attributes.striping)
    }

    /// When it was last read, as far as somebody said so.
    pub fn accessed(&self) -> SystemTime {
        time(self.attributes.accessed)
    }

    /// When its content last changed; of a file as of the last close of a writer.
    pub fn modified(&self) -> SystemTime {
        time(self.attributes.modified)
    }

    /// When its content or attributes last changed.
    pub fn changed(&self) -> SystemTime {
        time(self.attributes.changed)
    }

    /// When it was made.
    pub fn created(&self) -> SystemTime {
        time(self.attributes.created)
    }

    /// How many have it open.
    pub fn opens(&self) -> u32 {
        self.attributes.opens
    }

    /// How many entries a directory has.
    pub fn entries(&self) -> u64 {
        self.attributes.entries
    }
}

/// The time of a moment.
pub(crate) fn time(Stamp(nanoseconds): Stamp) -> SystemTime {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    let time = match nanoseconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(distance),
        _ => SystemTime::UNIX_EPOCH.checked_sub(distance),
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The moment of a time; the nearest there is, if it is centuries away.
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
    fn times_are_moments() {
        for nanoseconds in [0, 1, -1, 1_700_000_000_123_456_789, -86_400_000_000_001, i64::MAX] {
            assert_eq!(stamp(time(Stamp(nanoseconds))), Stamp(nanoseconds));
        }
    }
}
