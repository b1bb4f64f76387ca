//! The four methods to divide a region into file domains, and the default for each kind of file system.

/// How a region is divided among aggregators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitioningMethod {
    /// One contiguous part of the same size for each aggregator.
    Even,
    /// As `Even`, with the boundaries moved to the nearest multiples of the lock unit.
    Aligned,
    /// Blocks of one lock unit, assigned cyclically. A block has the same aggregator in every call.
    StaticCyclic,
    /// One contiguous part for each group of as many aggregators as there are servers. Within a group,
    /// blocks are assigned cyclically. An aggregator accesses the same server in every call.
    GroupCyclic,
}

/// How a file system locks ranges against concurrent writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockProtocol {
    /// Each server locks the stripes that it stores: Lustre, partitions.
    Servers,
    /// The holder of the token of a range grants locks in it: GPFS.
    Tokens,
    /// The kernel of the node locks, or there are no locks: all other file systems.
    Local,
}

impl PartitioningMethod {
    /// All methods.
    pub const ALL: [PartitioningMethod; 4] = [
        PartitioningMethod::Even,
        PartitioningMethod::Aligned,
        PartitioningMethod::StaticCyclic,
        PartitioningMethod::GroupCyclic,
    ];

    /// The name in hints and statistics.
    pub fn name(self) -> &'static str {
        match self {
            PartitioningMethod::Even => "even",
            PartitioningMethod::Aligned => "aligned",
            PartitioningMethod::StaticCyclic => "static-cyclic",
            PartitioningMethod::GroupCyclic => "group-cyclic",
        }
    }

    /// The method with this name.
    pub fn from_name(word: &str) -> Option<PartitioningMethod> {
        PartitioningMethod::ALL.into_iter().find(|method| method.name() == word)
    }
}

/// The method for a file system if the user has not chosen one.
///
/// Writers that request the same lock wait for each other. A server that locks should therefore see few
/// writers, each in a range of its own, and no two writers should share a lock unit. Readers share locks.
/// Read-ahead works best if each reader reads one contiguous range.
pub fn default_method(protocol: LockProtocol, write: bool) -> PartitioningMethod {
    match (protocol, write) {
        (LockProtocol::Servers, true) => PartitioningMethod::GroupCyclic,
        (LockProtocol::Tokens | LockProtocol::Local, true) => PartitioningMethod::Aligned,
        (LockProtocol::Servers | LockProtocol::Tokens, false) => PartitioningMethod::Aligned,
        (LockProtocol::Local, false) => PartitioningMethod::Even,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_methods() {
        for method in PartitioningMethod::ALL {
            assert_eq!(PartitioningMethod::from_name(method.name()), Some(method));
        }
        assert_eq!(PartitioningMethod::from_name("auto"), None);
    }

    #[test]
    fn reads_are_never_cyclic() {
        for protocol in [LockProtocol::Servers, LockProtocol::Tokens, LockProtocol::Local] {
            assert!(matches!(
                default_method(protocol, false),
                PartitioningMethod::Even | PartitioningMethod::Aligned
            ));
        }
        assert_eq!(default_method(LockProtocol::Servers, true), PartitioningMethod::GroupCyclic);
        assert_eq!(default_method(LockProtocol::Tokens, true), PartitioningMethod::Aligned);
        assert_eq!(default_method(LockProtocol::Local, true), PartitioningMethod::Aligned);
    }
}
