//! The movement of data between ranks and a file: the choices that hints, partition descriptions and simulations share.

/// The strategy of data access, as in the hint `pario_strategy` and the partition key `strategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Pario chooses by file and access.
    #[default]
    Auto,
    /// Each rank accesses the file by itself.
    Independent,
    /// Collective calls go through aggregators among the ranks.
    TwoPhase,
    /// All calls go through I/O agents that own the blocks of the file.
    DataShipping,
    /// Collective calls go through the cache in the memory of the ranks. Only for files on partitions.
    ClientDirected,
    /// Each rank accesses the servers, whose cache merges small pieces. Only for files on partitions.
    ServerDirected,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 6] = [
        Strategy::Auto,
        Strategy::Independent,
        Strategy::TwoPhase,
        Strategy::DataShipping,
        Strategy::ClientDirected,
        Strategy::ServerDirected,
    ];

    /// The name in hints, partition files and statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Auto => "auto",
            Strategy::Independent => "independent",
            Strategy::TwoPhase => "two-phase",
            Strategy::DataShipping => "data-shipping",
            Strategy::ClientDirected => "client-directed",
            Strategy::ServerDirected => "server-directed",
        }
    }

    /// The strategy with this name, in any case.
    pub fn from_name(name: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name().eq_ignore_ascii_case(name))
    }
}

/// The way in which the file domains of a collective access are partitioned among the aggregators, as in the hint
/// `pario_fd_partition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitioningMethod {
    /// One contiguous part of equal size for each aggregator.
    Even,
    /// As `Even`, with boundaries at the nearest multiples of the lock unit.
    Aligned,
    /// Blocks of one lock unit, assigned cyclically. A block has the same aggregator in every call.
    StaticCyclic,
    /// One contiguous part for each group of as many aggregators as there are servers, and blocks assigned cyclically
    /// within the group. An aggregator has the same server in every call.
    GroupCyclic,
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
    pub const fn name(self) -> &'static str {
        match self {
            PartitioningMethod::Even => "even",
            PartitioningMethod::Aligned => "aligned",
            PartitioningMethod::StaticCyclic => "static-cyclic",
            PartitioningMethod::GroupCyclic => "group-cyclic",
        }
    }

    /// The method with this name.
    pub fn from_name(name: &str) -> Option<PartitioningMethod> {
        PartitioningMethod::ALL.into_iter().find(|method| method.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strategy_is_found_by_its_name_in_any_case() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::from_name(strategy.name()), Some(strategy));
            assert_eq!(Strategy::from_name(&strategy.name().to_uppercase()), Some(strategy));
        }
        assert_eq!(Strategy::from_name("direct"), None);
    }
}
