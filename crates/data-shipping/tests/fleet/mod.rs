//! Ranks pretended by threads of one process: each has the file open for itself, and an agent and a shipper.
#![allow(dead_code)] // each test binary uses its own part

mod memory;

pub use memory::{Handle, Memory};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pario_buffer::lend;
use pario_data_shipping::{
    Agent, AgentAddress, AgentConfig, BlockMap, Error, Shipper, ShippingGroup, ShippingLimits,
};
use pario_file_backend::FileBackend;
use pario_posix::{PlainFile, PlainOpenOptions};
use pario_types::{AccessTuning, PrefetchLimits};
use pario_types::{Offset, Pos};
use pario_view::{Datatype, Pattern, Shape, View};

/// A name in the temporary directory whose file goes away at the end.
pub struct TempPath(pub PathBuf);

impl TempPath {
    pub fn with(bytes: &[u8]) -> TempPath {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("pario-data-shipping-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        TempPath(path)
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).unwrap()
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A file, whatever it is made of.
pub enum Site {
    Plain(TempPath),
    Memory(Arc<Memory>),
}

impl Site {
    pub fn with(in_memory: bool, bytes: &[u8]) -> Site {
        match in_memory {
            false => Site::Plain(TempPath::with(bytes)),
            true => Site::Memory(Memory::with(bytes)),
        }
    }

    /// The file as one rank has it open.
    pub fn open(&self) -> Arc<dyn FileBackend> {
        match self {
            Site::Plain(path) => Arc::new(open(&path.0)),
            Site::Memory(memory) => Arc::new(Handle(memory.clone())),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Site::Plain(path) => path.bytes(),
            Site::Memory(memory) => memory.bytes(),
        }
    }
}

/// The key of the node that all ranks are on.
pub const NODE: u64 = 7;

pub const SECRET: u128 = 0x5ec2e7;

/// The setup of a fleet.
#[derive(Clone, Debug)]
pub struct Plan {
    pub ranks: u32,
    pub unit: u64,
    pub agents: Vec<u32>,
    pub limits: ShippingLimits,
    pub tuning: AccessTuning,
    pub prefetch: PrefetchLimits,
    pub partitioned: bool,
    /// Every rank pretends to be on a node of its own.
    pub tcp: bool,
}

impl Plan {
    pub fn new(ranks: u32, unit: u64, agents: &[u32]) -> Plan {
        let limits = ShippingLimits { deadline: Duration::from_secs(20), ..ShippingLimits::default() };
        let (agents, tuning) = (agents.to_vec(), AccessTuning::default());
        let prefetch = PrefetchLimits { block: 64, max_pre: 4, max_acc: 4 };
        Plan { ranks, unit, agents, limits, tuning, prefetch, partitioned: false, tcp: false }
    }

    pub fn map(&self) -> BlockMap {
        BlockMap::new(self.unit, self.agents.clone()).unwrap()
    }

    pub fn service(&self, rank: u32, file: Arc<dyn FileBackend>) -> AgentConfig {
        AgentConfig {
            file,
            map: self.map(),
            rank,
            node: NODE,
            secret: SECRET,
            tuning: self.tuning,
            prefetch: self.prefetch,
            partitioned: self.partitioned,
            tcp: self.tcp.then(|| [127, 0, 0, 1].into()),
            limits: self.limits,
            report: None,
        }
    }

    pub fn agent(&self, rank: u32, file: Arc<dyn FileBackend>) -> Result<Agent, Error> {
        Agent::start(self.service(rank, file))
    }

    pub fn shipper(
        &self,
        rank: u32,
        file: Arc<dyn FileBackend>,
        addresses: Vec<Option<AgentAddress>>,
    ) -> Shipper {
        let node = if self.tcp { 1 } else { NODE };
        let (map, secret, partitioned, limits) = (self.map(), SECRET, self.partitioned, self.limits);
        Shipper::new(ShippingGroup { map, addresses, rank, node, secret, partitioned, limits }, file).unwrap()
    }

    /// Starts everything on a plain file.
    pub fn launch(&self, path: &Path) -> Fleet {
        self.launch_with(|| Arc::new(open(path)))
    }

    /// Starts everything on a file.
    pub fn launch_on(&self, site: &Site) -> Fleet {
        self.launch_with(|| site.open())
    }

    fn launch_with(&self, open: impl Fn() -> Arc<dyn FileBackend>) -> Fleet {
        let files: Vec<_> = (0..self.ranks).map(|_| open()).collect();
        let started = |rank: u32| self.agent(rank, files[rank as usize].clone()).unwrap();
        let agents: Vec<Option<Agent>> =
            (0..self.ranks).map(|rank| self.agents.contains(&rank).then(|| started(rank))).collect();
        let addresses = exchanged(&agents);
        let shippers = (0..self.ranks).zip(files);
        let shippers = shippers.map(|(rank, file)| self.shipper(rank, file, addresses.clone())).collect();
        Fleet { agents, shippers }
    }
}

/// The agents' addresses as they come out of an exchange between ranks.
pub fn exchanged(agents: &[Option<Agent>]) -> Vec<Option<AgentAddress>> {
    let encoded =
        agents.iter().map(|agent| AgentAddress::encode(agent.as_ref().map(Agent::address).as_ref()));
    encoded.map(|bytes| AgentAddress::decode(&bytes)).collect()
}

pub struct Fleet {
    pub agents: Vec<Option<Agent>>,
    pub shippers: Vec<Shipper>,
}

impl Fleet {
    pub fn stop(self) {
        drop(self.shippers);
        self.agents.into_iter().flatten().for_each(|agent| agent.stop().unwrap());
    }
}

pub fn open(path: &Path) -> PlainFile {
    PlainFile::open(path, &PlainOpenOptions { read: true, write: true, ..PlainOpenOptions::default() })
        .unwrap()
}

pub fn write(
    shipper: &Shipper,
    view: &View,
    at: u64,
    data: &[u8],
    tune: &AccessTuning,
) -> Result<u64, Error> {
    let mut data = data.to_vec();
    let len = data.len() as u64;
    lend(&mut data, |buffer| shipper.write(view, Pos(at), buffer, 0, len, tune))
}

pub const UNTOUCHED: u8 = 0xEE;

/// Reads into marked memory, of which it returns all.
pub fn read(
    shipper: &Shipper,
    view: &View,
    at: u64,
    len: u64,
    tune: &AccessTuning,
) -> Result<(u64, Vec<u8>), Error> {
    let mut memory = vec![UNTOUCHED; len as usize];
    let got = lend(&mut memory, |buffer| shipper.read(view, Pos(at), buffer, 0, len, tune))?;
    Ok((got, memory))
}

/// Pieces (displacement, length), in this order, every `extent` bytes.
pub fn tiled(disp: u64, pieces: &[(i64, u64)], extent: i64) -> View {
    let blocks = pieces.iter().map(|&(disp, len)| (len, disp)).collect();
    let child = Arc::new(Datatype::byte());
    let inner = Datatype { lb: 0, extent, shape: Shape::Hindexed { blocks, child } };
    let shape = Shape::Resized { lb: 0, extent, child: Arc::new(inner) };
    View::new(Offset(disp), Pattern::native(&Datatype { lb: 0, extent, shape }).unwrap())
}
