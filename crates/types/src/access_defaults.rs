//! The defaults for accesses to the files of a partition, which its partition file sets and hints override.

use crate::Strategy;

/// The most bytes of data in one message between a client and a server that any setting allows.
pub const MAX_NETWORK_BUFFER: u64 = 8 << 20;

/// What a partition file says about accesses to files. The values of [`Default`] apply where neither a partition file nor a
/// hint says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessDefaults {
    /// The strategy of collective calls.
    pub strategy: Strategy,
    /// The most bytes of data in one message.
    pub network_buffer: u64,
    /// Whether ranks may cache blocks in their own memory. `false` counts more than any hint.
    pub tier1: bool,
    /// Bytes of that cache on each rank.
    pub tier1_size: u64,
    /// The percentage of dirty blocks in it above which they are written to the servers at once.
    pub tier1_high: u8,
    /// The percentage down to which they are.
    pub tier1_low: u8,
}

impl Default for AccessDefaults {
    fn default() -> AccessDefaults {
        AccessDefaults {
            strategy: Strategy::Auto,
            network_buffer: 1 << 20,
            tier1: true,
            tier1_size: 64 << 20,
            tier1_high: 50,
            tier1_low: 25,
        }
    }
}
