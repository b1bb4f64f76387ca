//! Lock traffic in numbers.

/// The lock traffic of a file or of all files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounters {
    /// Requests received; refused ones are not counted.
    pub requests: u64,
    /// Requests that were granted.
    pub grants: u64,
    /// Locks that conflicted with a request when it arrived, one for each lock and request.
    pub conflicts: u64,
    /// Revocations that were sent.
    pub revocations: u64,
    /// Requests that could not be granted at once.
    pub waits: u64,
}
