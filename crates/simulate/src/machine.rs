//! The pretended machine: every number that a simulation depends on, with its unit and what it stands for.
//!
//! The values are those of a cluster on which a node's file-system client (one process that writes) is the narrow place,
//! and a server's storage, many disks with parity, takes in what a dozen clients give away as long as it is written in order.
//! Absolute bandwidths follow these numbers and mean little; what is worth knowing is which orderings hold over a range of
//! them ([`crate::sensitivity`]).

macro_rules! machine {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:literal $unit:literal,)+) => {
        /// The numbers of a machine. Rates are bytes per second.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Machine {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Default for Machine {
            fn default() -> Machine {
                Machine { $($name: $value,)+ }
            }
        }

        impl Machine {
            /// Every number: its name, its unit, its default, and what it is.
            pub const NUMBERS: &'static [Number] = &[
                $(Number { name: stringify!($name), unit: $unit, value: $value, about: concat!($($doc),+) },)+
            ];

            /// The number of that name.
            pub fn number(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }
        }
    };
}

/// One number of a machine, for those who want to know or change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// What it is called.
    pub name: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// What it is unless said otherwise.
    pub value: u64,
    /// What it stands for.
    pub about: &'static str,
}

machine! {
    /// Processes of a node; one of them aggregates.
    processes_per_node = 4 "processes",
    /// What a node's network link carries in each direction.
    node_rate = 4_000_000_000 "B/s",
    /// From a message's last byte sent to its last byte received, between any two nodes.
    latency = 20_000 "ns",
    /// Processor time of a message at its sender and again at its receiver.
    message_time = 5_000 "ns",
    /// Processor time to find and place one contiguous piece when data is packed, and again when unpacked.
    piece_time = 300 "ns",
    /// What one process copies.
    copy_rate = 2_000_000_000 "B/s",
    /// What a node's file-system client sends to servers, and what it receives.
    client_rate = 300_000_000 "B/s",
    /// Dirty bytes that a file-system client keeps before writers wait.
    client_cache = 33_554_432 "B",
    /// What a server's network link carries in each direction.
    server_rate = 5_000_000_000 "B/s",
    /// Processor time of a server for a request to read or write.
    request_time = 20_000 "ns",
    /// What a server's storage reads or writes when it does so in order.
    storage_rate = 5_000_000_000 "B/s",
    /// What it costs the storage to go on elsewhere than where it is: to position disks, and to bring parity up to date.
    seek_time = 2_000_000 "ns",
    /// Bytes written that a partition's server takes in before its storage has them.
    server_buffer = 268_435_456 "B",
    /// Requests among which a server's storage takes what lies next.
    storage_queue = 32 "requests",
    /// Bytes of a file that a server reads at a time, ahead of those who want them.
    server_ahead = 8_388_608 "B",
    /// Time of a server's lock manager, and of a holder that is asked to give way or told, for one message.
    lock_time = 100_000 "ns",
    /// Bytes that a client reads ahead after a read that does not follow the one before.
    ahead_first = 16_384 "B",
    /// The most that it reads ahead; the amount doubles with each read that follows the one before.
    ahead_most = 1_048_576 "B",
    /// By how many thousandths any of these times may turn out longer or shorter.
    jitter = 100 "thousandths",
    /// Bytes of tier 1 at each aggregator of a partition.
    aggregator_cache = 268_435_456 "B",
    /// Time of the metadata server to open or create a file.
    open_time = 20_000 "ns",
    /// Time of a server to accept a client: the connection, the proof of the secret.
    connect_time = 60_000 "ns",
    /// Time of a file system to let a process read the registry.
    registry_time = 100_000 "ns",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_can_be_found_by_its_name() {
        let mut machine = Machine::default();
        for number in Machine::NUMBERS {
            assert_eq!(machine.number(number.name).copied(), Some(number.value));
        }
        assert_eq!(machine.number("speed of light"), None);
        *machine.number("latency").expect("there is one") = 7;
        assert_eq!(machine.latency, 7);
    }
}
