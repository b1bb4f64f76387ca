//! The setup of a simulation and its outcome.

use pario_domain::PartitioningMethod;
use pario_locks::LockCounters;

use crate::event_queue::SimTime;
use crate::machine::Machine;

/// The lock protocol of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Each server has the locks of the stripes that it stores. A request that spans servers takes their locks in order,
    /// and holds all of them until all its data has arrived.
    Server,
    /// The first client that accesses a file gets a token for all of it; a holder splits its token for later clients. A
    /// request needs one token, however many servers it spans.
    Token,
    /// Leases of a partition, as Pario's servers and tier 1 have them, with each aggregator as a program of its own,
    /// because the processes of one program share their leases. Each server leases the bytes that it stores, for reading
    /// and writing alike; leased bytes are cached however many servers they span; every access to a server passes its lock
    /// manager.
    Lease,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Protocol; 3] = [Protocol::Server, Protocol::Token, Protocol::Lease];

    /// Its name on the command line and in results.
    pub fn word(self) -> &'static str {
        match self {
            Protocol::Server => "server",
            Protocol::Token => "token",
            Protocol::Lease => "lease",
        }
    }
}

/// The reaction of a holder to a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callback {
    /// It ends the operation that uses the lock, writes back all dirty data under the lock, and releases the whole lock, as
    /// clients do whose locks cannot be split (Lustre). Its own new requests wait for that as well.
    Whole,
    /// It releases at once the part that it does not use, and writes back only the dirty data there, as token holders do
    /// (GPFS).
    Part,
    /// It releases the requested part, and each side of it on which it caches no block, as Pario's tier 1 does.
    Kept,
}

/// The synchronization of aggregators within a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// All begin a round together, as in two-phase I/O that exchanges the sizes of each round among all (ROMIO).
    Together,
    /// Each continues as soon as it can, as in Pario.
    Free,
}

/// The parameters of one run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The lock protocol.
    pub protocol: Protocol,
    /// The reaction of holders; `None`: [`Callback::Whole`] with server locks, [`Callback::Part`] with tokens. Leases
    /// always use [`Callback::Kept`].
    pub callback: Option<Callback>,
    /// The partitioning of regions into file domains.
    pub method: PartitioningMethod,
    /// Whether the program writes or reads.
    pub write: bool,
    /// The number of servers over which a file is striped.
    pub servers: u16,
    /// Bytes of a stripe, which is also the lock unit.
    pub stripe: u64,
    /// Bytes of an aggregator's buffer.
    pub buffer: u64,
    /// The synchronization of aggregators.
    pub rounds: Rounds,
    /// The number of aggregators; `None`: one on each node.
    pub aggregators: Option<u32>,
    /// Whether the number of aggregators is rounded to a factor or multiple of the number of servers.
    pub suit_servers: bool,
    /// The seed of the random jitter.
    pub seed: u64,
    /// All other numbers.
    pub machine: Machine,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            protocol: Protocol::Server,
            callback: None,
            method: PartitioningMethod::GroupCyclic,
            write: true,
            servers: 64,
            stripe: 512 << 10,
            buffer: 16 << 20,
            rounds: Rounds::Together,
            aggregators: None,
            suit_servers: false,
            seed: 1,
            machine: Machine::default(),
        }
    }
}

impl Setup {
    /// The reaction of holders, with the default of the protocol.
    pub fn callback(&self) -> Callback {
        match (self.protocol, self.callback) {
            (Protocol::Lease, _) => Callback::Kept,
            (_, Some(callback)) => callback,
            (Protocol::Server, None) => Callback::Whole,
            (Protocol::Token, None) => Callback::Part,
        }
    }
}

/// Numbers of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Between ranks and aggregators.
    pub exchange: u64,
    /// Between clients and servers, with data or for data.
    pub data: u64,
    /// Between clients and lock managers.
    pub locks: u64,
}

impl Messages {
    /// The sum of all.
    pub fn all(&self) -> u64 {
        self.exchange + self.data + self.locks
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The number of ranks.
    pub ranks: u32,
    /// The number of aggregators.
    pub aggregators: u32,
    /// Bytes that the ranks wrote or read.
    pub bytes: u64,
    /// The time from the open to the close, which waits until the servers have everything.
    pub time: SimTime,
    /// The average part of that time in which an aggregator was in the I/O phase.
    pub io_share: f64,
    /// Lock traffic as the lock managers count it.
    pub locks: LockCounters,
    /// Lock traffic as the clients count it: requests that they sent, grants and revocations that they received.
    pub seen: LockCounters,
    /// Messages.
    pub messages: Messages,
    /// Data requests at a server that came from another client than the one before, over all servers.
    pub interleaved: u64,
    /// Accesses of a server's storage that were not sequential, over all servers.
    pub seeks: u64,
    /// Bytes that were read ahead and never used.
    pub wasted: u64,
    /// The number of simulated events.
    pub events: u64,
}

impl Outcome {
    /// Bytes per second, in MiB.
    pub fn bandwidth_mib_s(&self) -> f64 {
        self.bytes as f64 / self.time.seconds().max(1e-9) / f64::from(1 << 20)
    }
}
