//! Progress reports of long work to its observer.

/// Receives the progress of long work, in bytes. Threads may report at the same time.
pub trait Progress: Sync {
    /// There are this many more bytes to do.
    fn expect(&self, bytes: u64);

    /// The total does not grow any more.
    fn total_known(&self);

    /// This many more bytes are done.
    fn advance(&self, bytes: u64);
}

/// Nobody watches.
impl Progress for () {
    fn expect(&self, _: u64) {}

    fn total_known(&self) {}

    fn advance(&self, _: u64) {}
}
