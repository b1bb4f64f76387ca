//! One I/O model: how many processes, how many files, and who writes what.
//!
//! All four numbers are powers of two and kept as their logarithms, so that a model that makes no sense cannot
//! be written down.

use std::fmt;

/// An I/O model: 2^a nodes with 2^b processes each, 2^k files per node, each shared by 2^j nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Model {
    nodes: u8,
    ppn: u8,
    files: u8,
    shared: u8,
}

/// The cell that a model falls into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bin {
    /// Log2 of the processes.
    pub procs: u8,
    /// Log2 of the processes per file.
    pub per_file: u8,
}

/// A process: its node, and which of the node's processes it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spot {
    /// The node, from 0.
    pub node: u32,
    /// The process of the node, from 0.
    pub core: u32,
}

/// The bytes that one process writes: contiguous in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessShare {
    /// The number of the file, from 0.
    pub file: u32,
    /// The offset of its bytes.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

impl Model {
    /// The model with these logarithms; `None` if there are more files than processes on a node, or more nodes
    /// to a file than nodes.
    pub fn from_logs(nodes: u8, ppn: u8, files: u8, shared: u8) -> Option<Model> {
        let sound = nodes < 16 && ppn < 16 && files <= ppn && shared <= nodes;
        sound.then_some(Model { nodes, ppn, files, shared })
    }

    /// The model with these numbers; `None` if one is no power of two or they make no sense together.
    pub fn new(nodes: u32, ppn: u32, files_per_node: u32, shared_nodes: u32) -> Option<Model> {
        let log = |n: u32| n.is_power_of_two().then(|| n.trailing_zeros() as u8);
        Model::from_logs(log(nodes)?, log(ppn)?, log(files_per_node)?, log(shared_nodes)?)
    }

    /// The number of nodes.
    pub fn nodes(self) -> u32 {
        1 << self.nodes
    }

    /// The number of processes of each node.
    pub fn ppn(self) -> u32 {
        1 << self.ppn
    }

    /// The number of files that the processes of a node write.
    pub fn files_per_node(self) -> u32 {
        1 << self.files
    }

    /// The number of nodes that write each file.
    pub fn shared_nodes(self) -> u32 {
        1 << self.shared
    }

    /// The number of processes.
    pub fn procs(self) -> u32 {
        1 << (self.nodes + self.ppn)
    }

    /// The number of processes that write each file.
    pub fn procs_per_file(self) -> u32 {
        1 << (self.shared + self.ppn - self.files)
    }

    /// The number of files.
    pub fn files(self) -> u32 {
        1 << (self.nodes - self.shared + self.files)
    }

    /// The cell it falls into.
    pub fn bin(self) -> Bin {
        Bin { procs: self.nodes + self.ppn, per_file: self.shared + self.ppn - self.files }
    }

    /// Whether a process takes part.
    pub fn has(self, spot: Spot) -> bool {
        spot.node < self.nodes() && spot.core < self.ppn()
    }

    /// The processes that take part, node by node.
    pub fn spots(self) -> impl Iterator<Item = Spot> {
        (0..self.procs()).map(move |number| self.spot(number))
    }

    /// The process of a number below [`Model::procs`].
    pub fn spot(self, number: u32) -> Spot {
        Spot { node: number >> self.ppn, core: number & (self.ppn() - 1) }
    }

    /// The number of a process that takes part: it counts node by node.
    pub fn number(self, spot: Spot) -> u32 {
        (spot.node << self.ppn) + spot.core
    }

    /// Returns the bytes that a process writes, of `size` bytes in all.
    pub fn share(self, spot: Spot, size: u64) -> ProcessShare {
        let per_file_here = self.ppn() / self.files_per_node();
        let file = spot.node / self.shared_nodes() * self.files_per_node() + spot.core / per_file_here;
        let place = spot.node % self.shared_nodes() * per_file_here + spot.core % per_file_here;
        let len = size / u64::from(self.procs());
        ProcessShare { file, offset: u64::from(place) * len, len }
    }

    /// The name that people have for it; most have none.
    pub fn common_name(self) -> Option<&'static str> {
        match (self.procs(), self.procs_per_file(), self.files()) {
            (1, ..) => Some("serial"),
            (_, 1, _) => Some("file per process"),
            (.., 1) => Some("single shared file"),
            _ if self.files == 0 && self.shared == 0 => Some("file per node"),
            _ => None,
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, ppn, files, shared) =
            (self.nodes(), self.ppn(), self.files_per_node(), self.shared_nodes());
        write!(f, "nodes={nodes} ppn={ppn} files_per_node={files} shared_nodes={shared}")
    }
}
