//! The four ways to deal a region out, and which of them suits a file system.

/// How an accessed region is dealt out to aggregators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// One contiguous part each, of the same size.
    Even,
    /// As even, with the boundaries moved to the nearest multiples of the lock unit.
    Aligned,
    /// Blocks of one lock unit in turn; a block has the same aggregator in every call.
    StaticCyclic,
    /// One contiguous part to each group of as many aggregators as there are servers, blocks in turn within
    /// the group; an aggregator has the same server in every call.
    GroupCyclic,
}

/// How a file system keeps writers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Each server locks the stripes that it stores: Lustre, partitions.
    Servers,
    /// Whoever holds the token of a range grants locks in it: GPFS.
    Tokens,
    /// The node's own kernel, or none at all: everything else.
    Local,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 4] = [Method::Even, Method::Aligned, Method::StaticCyclic, Method::GroupCyclic];

    /// The word for it in hints and statistics.
    pub fn word(self) -> &'static str {
        match self {
            Method::Even => "even",
            Method::Aligned => "aligned",
            Method::StaticCyclic => "static-cyclic",
            Method::GroupCyclic => "group-cyclic",
        }
    }

    /// The method of that word.
    pub fn from_word(word: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.word() == word)
    }
}

/// The method for a file system whose user has not asked for one.
///
/// Writers that meet at a lock wait for each other, so a server that locks should see few writers, each in a
/// part of its own, and no two writers should meet in one lock unit. Readers share locks; read-ahead serves
/// them best where each reads one contiguous part.
pub fn auto(protocol: Protocol, write: bool) -> Method {
    match (protocol, write) {
        (Protocol::Servers, true) => Method::GroupCyclic,
        (Protocol::Tokens | Protocol::Local, true) => Method::Aligned,
        (Protocol::Servers | Protocol::Tokens, false) => Method::Aligned,
        (Protocol::Local, false) => Method::Even,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_methods() {
        for method in Method::ALL {
            assert_eq!(Method::from_word(method.word()), Some(method));
        }
        assert_eq!(Method::from_word("auto"), None);
    }

    #[test]
    fn reads_are_never_cyclic() {
        for protocol in [Protocol::Servers, Protocol::Tokens, Protocol::Local] {
            assert!(matches!(auto(protocol, false), Method::Even | Method::Aligned));
        }
        assert_eq!(auto(Protocol::Servers, true), Method::GroupCyclic);
        assert_eq!(auto(Protocol::Tokens, true), Method::Aligned);
        assert_eq!(auto(Protocol::Local, true), Method::Aligned);
    }
}
