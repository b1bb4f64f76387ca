//! The simulated machine: every number that a simulation depends on, with its unit and its meaning.
//!
//! The values describe a cluster whose bottleneck is a node's file-system client (one process that writes). A server's
//! storage, many disks with parity, absorbs the writes of a dozen clients as long as they are sequential. Absolute
//! bandwidths follow these numbers and mean little; the useful result is which orderings hold over a range of them
//! ([`crate::sensitivity`]).

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
            /// Every number: its name, unit, default and meaning.
            pub const NUMBERS: &'static [Number] = &[
                $(Number { name: stringify!($name), unit: $unit, value: $value, about: concat!($($doc),+) },)+
            ];

            /// Returns the number of that name.
            pub fn number(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }
        }
    };
}

/// One number of a machine, as the command line shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its default.
    pub value: u64,
    /// Its meaning.
    pub about: &'static str,
}

machine! {
    /// Processes of a node; one of them aggregates.
    processes_per_node = 4 "processes",
    /// Rate of a node's network link in each direction.
    node_rate = 4_000_000_000 "B/s",
    /// From a message's last byte sent to its last byte received, between any two nodes.
    latency = 20_000 "ns",
    /// Processor time of a message at its sender and again at its receiver.
    message_time = 5_000 "ns",
    /// Processor time to find and place one contiguous piece when data is packed, and again when unpacked.
    piece_time = 300 "ns",
    /// Rate at which one process copies.
    copy_rate = 2_000_000_000 "B/s",
    /// Rate at which a node's file-system client sends to servers, and at which it receives.
    client_rate = 300_000_000 "B/s",
    /// Dirty bytes that a file-system client caches before writers wait.
    client_cache = 33_554_432 "B",
    /// Rate of a server's network link in each direction.
    server_rate = 5_000_000_000 "B/s",
    /// Processor time of a server for a request to read or write.
    request_time = 20_000 "ns",
    /// Rate at which a server's storage reads or writes sequentially.
    storage_rate = 5_000_000_000 "B/s",
    /// Time that storage needs for an access elsewhere: to position disks, and to update parity.
    seek_time = 2_000_000 "ns",
    /// Written bytes that a partition's server accepts before its storage has them.
    server_buffer = 268_435_456 "B",
    /// Requests from which a server's storage chooses the nearest.
    storage_queue = 32 "requests",
    /// Bytes of a file that a server reads at a time, before clients request them.
    server_ahead = 8_388_608 "B",
    /// Time of a server's lock manager, and of a holder that receives a revocation or a grant, for one message.
    lock_time = 100_000 "ns",
    /// Bytes that a client reads ahead after a read that is not sequential.
    ahead_first = 16_384 "B",
    /// The most that a client reads ahead; the amount doubles with each sequential read.
    ahead_most = 1_048_576 "B",
    /// Thousandths by which any of these times may be longer or shorter.
    jitter = 100 "thousandths",
    /// Bytes of tier 1 at each aggregator of a partition.
    aggregator_cache = 268_435_456 "B",
    /// Time of the metadata server to open or create a file.
    open_time = 20_000 "ns",
    /// Time of a server to accept a client: the connection and the proof of the secret.
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
