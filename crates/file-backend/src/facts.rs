//! The properties of the storage of a file that decide how it is accessed.

use pario_domain::LockProtocol;

/// The properties of the storage of a file. All ranks use the same: rank 0 broadcasts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageFacts {
    /// The lock protocol of the storage.
    pub protocol: LockProtocol,
    /// Whether the bytes are in the page cache of this host.
    pub local: bool,
    /// Whether the storage is memory, without a disk.
    pub memory: bool,
    /// Whether the storage is a partition, whose servers merge the writes of ranks.
    pub partition: bool,
    /// Whether a placement table says which server holds which bytes.
    pub placed: bool,
    /// Whether ranks may cache blocks of the file in their own memory.
    pub tier1: bool,
    /// Whether all ranks reach the caches of all servers by shared memory.
    pub near: bool,
    /// The block size.
    pub block: u64,
    /// The stripe size, 0 without striping.
    pub stripe: u64,
    /// The number of servers, 0 if unknown.
    pub servers: u32,
}

impl StorageFacts {
    /// The stripe size, or else the block size.
    pub fn lock_unit(&self) -> u64 {
        if self.stripe > 0 { self.stripe } else { self.block }
    }

    /// Encodes the facts for a broadcast. `near` is not part of it.
    pub fn encode(self) -> [u64; 4] {
        let protocol = match self.protocol {
            LockProtocol::Local => 0,
            LockProtocol::Servers => 1,
            LockProtocol::Tokens => 2,
        };
        [
            protocol
                | u64::from(self.local) << 8
                | u64::from(self.memory) << 9
                | u64::from(self.partition) << 10
                | u64::from(self.placed) << 11
                | u64::from(self.tier1) << 12,
            self.block,
            self.stripe,
            u64::from(self.servers),
        ]
    }

    /// Decodes broadcast facts. `near` is false.
    pub fn decode([kind, block, stripe, servers]: [u64; 4]) -> StorageFacts {
        let protocol = match kind & 0xff {
            1 => LockProtocol::Servers,
            2 => LockProtocol::Tokens,
            _ => LockProtocol::Local,
        };
        let [local, memory, partition, placed, tier1] = [8, 9, 10, 11, 12].map(|bit| kind & 1 << bit != 0);
        let near = false;
        StorageFacts {
            protocol,
            local,
            memory,
            partition,
            placed,
            tier1,
            near,
            block: block.max(1),
            stripe,
            servers: servers as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_encoding() {
        for protocol in [LockProtocol::Local, LockProtocol::Servers, LockProtocol::Tokens] {
            for (local, memory) in [(true, true), (true, false), (false, false)] {
                let facts = StorageFacts {
                    protocol,
                    local,
                    memory,
                    partition: memory,
                    placed: local,
                    tier1: true,
                    near: false,
                    block: 4096,
                    stripe: 65536,
                    servers: 7,
                };
                assert_eq!(StorageFacts::decode(facts.encode()), facts);
            }
        }
    }
}
