//! What is said while models run: one JSON object per line, down from `pario models` to a host and from a host to
//! its processes, and a report up for each line.
//!
//! ```text
//! Start     which nodes the host stands for (or which process a process is), and what does not change
//! Order     one step of one model; a host passes it on to its processes that take part
//! Report    done, or what went wrong
//! ```
//!
//! The end of its input ends a process at once, and a host after it has ended its processes and removed what they
//! wrote: then `pario models` is done, was interrupted, or is gone.

use super::place::Place;
use pario_io_models::{Model, Spot};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::PathBuf;

/// The version of this conversation.
pub const VERSION: u32 = 1;

/// What does not change during a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// See [`VERSION`].
    pub version: u32,
    /// The first node of the host, and of how many it has the processes.
    pub first_node: u32,
    pub nodes: u32,
    /// For a host: processes per node. For a process: which one of its node it is.
    pub core: u32,
    /// Where the files go.
    pub places: Vec<Place>,
    /// Where the registry of partitions is.
    pub home: Option<PathBuf>,
    /// Bytes that a model moves.
    pub size: u64,
    /// Bytes that a process writes or reads by one call.
    pub transfer: u64,
    /// Whether the time of a write includes that it reached the storage.
    pub fsync: bool,
}

/// A step of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Nothing: how long does an order itself take?
    Rest,
    /// Create the file, or open what another one created.
    Open,
    /// Write one's share and close the file.
    Write,
    /// Open the file with the share of another process.
    Reopen,
    /// Read that share and close the file.
    Read,
    /// Compare it with what should be there.
    Check,
    /// Remove the file; the first one of its writers does.
    Remove,
}

/// What the processes of a model are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub step: Step,
    /// Which of the places.
    pub place: usize,
    /// Nodes, processes per node, files per node, nodes per file.
    pub model: [u32; 4],
    /// Differs from run to run.
    pub turn: u64,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// When the first began and the last was done, by the host's clock that never steps.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// What went wrong.
    pub error: Option<String>,
}

impl Order {
    /// A step of a model.
    pub fn new(step: Step, place: usize, model: Model, turn: u64) -> Order {
        let numbers = [model.nodes(), model.ppn(), model.files_per_node(), model.shared_nodes()];
        Order { step, place, model: numbers, turn }
    }

    /// The model; `None` if there is no such one.
    pub fn model(&self) -> Option<Model> {
        let [nodes, ppn, files, shared] = self.model;
        Model::new(nodes, ppn, files, shared)
    }
}

impl Start {
    /// The processes of a host.
    pub fn spots(&self) -> Vec<Spot> {
        let nodes = self.first_node..self.first_node.saturating_add(self.nodes);
        nodes.flat_map(|node| (0..self.core).map(move |core| Spot { node, core })).collect()
    }

    /// The same for one process.
    pub fn for_process(&self, spot: Spot) -> Start {
        Start { first_node: spot.node, nodes: 1, core: spot.core, ..self.clone() }
    }
}

impl Report {
    /// Something went wrong.
    pub fn failed(error: String) -> Report {
        Report { begin_ns: 0, end_ns: 0, error: Some(error) }
    }

    /// Both together: from the first begin to the last end.
    pub fn and(self, other: Report) -> Report {
        Report {
            begin_ns: self.begin_ns.min(other.begin_ns),
            end_ns: self.end_ns.max(other.end_ns),
            error: self.error.or(other.error),
        }
    }

    /// How long it took.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.begin_ns) as f64 / 1e9
    }
}

/// Says it on standard output.
pub fn say(report: &Report) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(&pario_launch::message::line(report))?;
    output.flush()
}
