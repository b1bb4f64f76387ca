//! The four methods to divide a region into file domains, and the default for each kind of file system.

pub use pario_types::PartitioningMethod;

/// The way in which a file system locks ranges against concurrent writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockProtocol {
    /// Each server locks the stripes that it stores: Lustre, partitions.
    Servers,
    /// The holder of the token of a range grants locks in it: GPFS.
    Tokens,
    /// The kernel of the node locks, or there are no locks: all other file systems.
    Local,
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
