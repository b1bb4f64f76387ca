//! A model of a file system in memory with all faults of storage, from a seed.
//!
//! Every file has *live* content (which a read returns, as from the page cache) and *stable* content (which survives a loss
//! of power), and for every sector all versions between the two. A loss of power selects any of these versions for each
//! sector separately, any of the lengths that the file had since its last sync, and any subset of the changes of names
//! since the last sync of their directory. A failed sync makes some sectors stable and drops others from the list of
//! unwritten ones: those stay readable until they are evicted, and no later sync writes them.
//!
//! [`InjectedFault`]s are planned for the n-th operation that changes something. An [`InjectedFault::Kill`] does a part of that
//! operation and then refuses everything until [`StorageModel::restart`] or [`StorageModel::lose_power`].
//!
//! - `contents`: the bytes of one file.
//! - `name_table`: the inodes of paths.
//! - `names`: names, links and directories.
//! - `faults`: planned faults, kills and loss of power.
//! - `access`: operations on open files.
#![forbid(unsafe_code)]

mod access;
mod contents;
mod faults;
mod name_table;
mod names;

use std::io;
use std::path::Path;

use contents::Contents;
pub use faults::InjectedFault;
use name_table::NameTable;

/// The unit of an atomic write of the medium.
const SECTOR: usize = 512;

/// The unit in which space is allocated.
pub const PAGE: u64 = 4096;

/// The capacity of storage that does not become full.
pub const UNLIMITED: u64 = 1 << 40;

/// A file or directory, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InodeNumber(pub usize);

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// The attributes of an inode.
#[derive(Clone, Copy, Debug)]
pub struct NodeStats {
    /// The kind.
    pub kind: NodeKind,
    /// The length in bytes.
    pub len: u64,
    /// The bytes that it takes on the medium.
    pub used: u64,
    /// The permission bits.
    pub mode: u32,
    /// The time of the last change of its content, as [`StorageModel::set_time`] gave it.
    pub modified: u64,
}

/// A model of a file system.
pub struct StorageModel {
    dice: u64,
    boot: u64,
    is_dead: bool,
    is_read_only: bool,
    /// Whether directories have to exist before there are names in them.
    has_directories: bool,
    /// The bytes that files may take.
    capacity: u64,
    time: u64,
    /// The number of operations that changed something.
    changes: u64,
    /// The number of syncs that lost bytes.
    losing_syncs: u64,
    planned: Vec<(u64, InjectedFault)>,
    /// The number of reads, and those that will fail.
    reads: u64,
    failing_reads: Vec<u64>,
    names: NameTable,
    stable: NameTable,
    renamed: Vec<names::NameChange>,
    nodes: Vec<Node>,
}

struct Node {
    kind: NodeKind,
    mode: u32,
    modified: u64,
    contents: Contents,
}

impl StorageModel {
    /// An empty one without directories: every path may name a file.
    pub fn new(seed: u64) -> StorageModel {
        StorageModel {
            dice: seed,
            boot: 1,
            is_dead: false,
            is_read_only: false,
            has_directories: false,
            capacity: UNLIMITED,
            time: 0,
            changes: 0,
            losing_syncs: 0,
            planned: Vec::new(),
            reads: 0,
            failing_reads: Vec::new(),
            names: NameTable::default(),
            stable: NameTable::default(),
            renamed: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// One with these directories, which survive a loss of power. All others have to be created.
    pub fn with_directories<'a>(seed: u64, directories: impl IntoIterator<Item = &'a str>) -> StorageModel {
        let mut model = StorageModel::new(seed);
        model.has_directories = true;
        for path in directories {
            let node = model.add_node(NodeKind::Directory, 0o777);
            model.names.set(Path::new(path), Some(node));
        }
        model.stable = model.names.clone();
        model
    }

    /// Whether directories have to exist before there are names in them.
    pub fn has_directories(&self) -> bool {
        self.has_directories
    }

    /// The time that files which change get from now on.
    pub fn set_time(&mut self, time: u64) {
        self.time = time;
    }

    /// Limits the bytes that files may take. Files that take more keep what they have.
    pub fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    /// Refuses all changes, or no longer.
    pub fn set_read_only(&mut self, is_read_only: bool) {
        self.is_read_only = is_read_only;
    }

    /// The bytes that files may take.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The bytes that files take, once for each of their names.
    pub fn used(&self) -> u64 {
        self.names.nodes().map(|node| self.nodes[node].contents.used()).sum()
    }

    fn free(&self) -> u64 {
        if self.capacity == UNLIMITED {
            return UNLIMITED;
        }
        self.capacity.saturating_sub(self.used())
    }

    fn add_node(&mut self, kind: NodeKind, mode: u32) -> usize {
        self.nodes.push(Node { kind, mode, modified: self.time, contents: Contents::default() });
        self.nodes.len() - 1
    }

    /// The next random number below `n` (splitmix64).
    fn below(&mut self, n: usize) -> usize {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

fn fail<T>(errno: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(errno))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
