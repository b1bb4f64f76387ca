//! Everything that the clients of a history did and saw.

use crate::client::Calls;
use crate::lock_calls::LockSpans;
use crate::name_calls::NameCalls;

/// The records of all clients, which share them.
#[derive(Clone, Default)]
pub struct Records {
    /// Calls about the contents of files.
    pub calls: Calls,
    pub names: NameCalls,
    pub locks: LockSpans,
}
