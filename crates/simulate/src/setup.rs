//! What is to be simulated, and what came of it.

use pario_domain::PartitioningMethod;
use pario_locks::LockCounters;

use crate::agenda::Time;
use crate::machine::Machine;

/// How a file system keeps its clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Each server has the locks of the stripes that it stores. A request that spans servers takes their locks in order,
    /// and holds all of them till all its data has arrived.
    Server,
    /// The first who asks gets a token for the whole file; whoever holds a token splits it for those who come
    /// later. A request needs one token, however many servers it spans.
    Token,
    /// Leases of a partition, as Pario's servers and tier 1 have them, with each aggregator as a program of its own: those of
    /// one program share their leases. Each server leases what it stores, for reading and writing alike; what is leased is
    /// cached however many servers it spans; every access to a server passes its lock manager.
    Lease,
}

impl Protocol {
    /// All.
    pub const ALL: [Protocol; 3] = [Protocol::Server, Protocol::Token, Protocol::Lease];

    /// Its word on the command line and in results.
    pub fn word(self) -> &'static str {
        match self {
            Protocol::Server => "server",
            Protocol::Token => "token",
            Protocol::Lease => "lease",
        }
    }
}

/// What a holder does when it is asked to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callback {
    /// It ends the operation that uses the lock, writes back all that is dirty under the lock, and gives up all of it: what
    /// clients do whose locks cannot be split (Lustre). What it asks for meanwhile waits for that as well.
    Whole,
    /// It gives up at once what it does not use, and writes back what is dirty there and nothing else: what tokens
    /// (GPFS) do.
    Part,
    /// It gives up what is asked for, and on either side all, if it keeps no block there: what Pario's tier 1 does.
    Kept,
}

/// How aggregators get through the windows of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// All begin a round together, as two-phase I/O does that tells everybody the sizes of each round (ROMIO).
    Together,
    /// Each goes on as soon as it can, as Pario's do.
    Free,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How the file system locks.
    pub protocol: Protocol,
    /// How a holder gives way; `None`: [`Callback::Whole`] with server locks, [`Callback::Part`] with tokens. Leases are always
    /// given up as [`Callback::Kept`] says.
    pub callback: Option<Callback>,
    /// How regions are dealt out to aggregators.
    pub method: PartitioningMethod,
    /// Whether the program writes, or reads what is there.
    pub write: bool,
    /// How many servers a file is striped over.
    pub servers: u16,
    /// Bytes of a stripe, which is also the lock unit.
    pub stripe: u64,
    /// Bytes of an aggregator's buffer.
    pub buffer: u64,
    /// How they get through their domains.
    pub rounds: Rounds,
    /// How many aggregators; `None`: one on each node.
    pub aggregators: Option<u32>,
    /// Whether the number of aggregators is brought to a factor or multiple of the number of servers.
    pub suit_servers: bool,
    /// Chance.
    pub seed: u64,
    /// Everything else.
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
    /// How holders give way.
    pub fn callback(&self) -> Callback {
        match (self.protocol, self.callback) {
            (Protocol::Lease, _) => Callback::Kept,
            (_, Some(callback)) => callback,
            (Protocol::Server, None) => Callback::Whole,
            (Protocol::Token, None) => Callback::Part,
        }
    }
}

/// How many messages there were.
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
    /// All of them.
    pub fn all(&self) -> u64 {
        self.exchange + self.data + self.locks
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How many ranks.
    pub ranks: u32,
    /// How many of them aggregated.
    pub aggregators: u32,
    /// Bytes that the ranks wrote or read.
    pub bytes: u64,
    /// From the open to the close, which waits till the servers have everything.
    pub time: Time,
    /// The part of that time in which an aggregator was in the I/O phase, on average.
    pub io_share: f64,
    /// Lock traffic as the lock managers count it.
    pub locks: LockCounters,
    /// Lock traffic as the clients saw it: requests that they sent, grants and revocations that they got.
    pub seen: LockCounters,
    /// Messages.
    pub messages: Messages,
    /// Data requests at a server that came from another client than the one before, over all servers.
    pub interleaved: u64,
    /// How often a server's storage had to go elsewhere, over all servers.
    pub seeks: u64,
    /// Bytes that were read ahead and never asked for.
    pub wasted: u64,
    /// How many events it took to find out.
    pub events: u64,
}

impl Outcome {
    /// Bytes per second, in MiB.
    pub fn bandwidth_mib_s(&self) -> f64 {
        self.bytes as f64 / self.time.seconds().max(1e-9) / f64::from(1 << 20)
    }
}
