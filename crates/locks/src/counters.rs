//! Lock traffic in numbers.

/// How much lock traffic there was, for a file or in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that came; refused ones are not counted.
    pub requests: u64,
    /// Requests that were granted.
    pub grants: u64,
    /// Locks that stood in the way of a request when it came, one for each lock and request.
    pub conflicts: u64,
    /// Revocations that were sent.
    pub revocations: u64,
    /// Requests that could not be granted at once.
    pub waits: u64,
}
