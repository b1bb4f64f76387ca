//! The striping of a plain file over the servers of a parallel file system: its value, and the request for it at file
//! creation.

use std::fmt;

/// The striping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FsStriping {
    /// Bytes on one server before the next one's begin; at least 1.
    pub unit: u64,
    /// The number of servers, where it is known.
    pub count: Option<u32>,
}

/// The requested striping of a new file; the file system chooses what is not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StripingRequest {
    /// Bytes on one server before the next one's begin. Brought to what the file system can do.
    pub unit: Option<u64>,
    /// The number of servers; `u32::MAX` stands for all.
    pub count: Option<u32>,
    /// The number of the first server.
    pub first: Option<u32>,
}

/// The result of a [`StripingRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripingOutcome {
    /// No striping was requested, or no file was created.
    NotAsked,
    /// The file was made so.
    Applied,
    /// The file was there already: its striping stays as it is.
    Existing,
    /// The file system has no striping that could be asked for.
    NotHere,
    /// The file system refused with this error number; it created the file with its own striping.
    Refused(i32),
}

impl StripingOutcome {
    /// A line for the user if the file system refused.
    pub fn complaint(self) -> Option<String> {
        matches!(self, StripingOutcome::Refused(_)).then(|| self.to_string())
    }
}

impl fmt::Display for StripingOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StripingOutcome::NotAsked => f.write_str("no striping hints"),
            StripingOutcome::Applied => f.write_str("striping hints applied"),
            StripingOutcome::Existing => {
                f.write_str("striping hints not applied: the file was there already")
            }
            StripingOutcome::NotHere => {
                f.write_str("striping hints not applied: the file system lays files out by itself")
            }
            StripingOutcome::Refused(errno) => write!(
                f,
                "striping hints not applied: {}; the file has the file system's default striping",
                std::io::Error::from_raw_os_error(*errno)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_is_reported() {
        use StripingOutcome::*;
        assert!([NotAsked, Applied, Existing, NotHere].iter().all(|outcome| outcome.complaint().is_none()));
        let line = Refused(libc::EPERM).complaint().unwrap();
        assert!(line.starts_with("striping hints not applied: Operation not permitted"), "{line}");
        assert!(!line.contains('\n'));
    }
}
