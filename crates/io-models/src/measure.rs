//! A measurement: one run of one model.

use crate::model::Model;
use serde::{Serialize, Serializer};

/// The operation of the processes on the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelOp {
    /// They wrote them.
    Write,
    /// They read them, each what another one had written.
    Read,
}

/// Measurements that are comparable: of one place and one direction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Series {
    /// The directory of the files, as the user wrote it.
    pub target: String,
    /// By which interface: `posix` or `pario`.
    pub io: String,
    /// The operation.
    pub op: ModelOp,
}

/// One run of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The series.
    pub series: Series,
    /// The model.
    pub model: Model,
    /// Which run of this model it was, from 1.
    pub repetition: u32,
    /// Bytes that all processes moved together.
    pub size: u64,
    /// From the barrier before the opens to the last one done.
    pub open_seconds: f64,
    /// From the barrier before the first byte to the last process done.
    pub seconds: f64,
    /// The largest models of its run: the most nodes and the most processes per node.
    pub most: (u32, u32),
    /// Whether nodes were hosts; otherwise they were groups of processes of one host.
    pub real_nodes: bool,
}

/// The value that a picture shows of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Bytes per second.
    Throughput,
    /// Bytes per second per node-hour that the run took.
    Efficiency,
    /// Bytes per second per node.
    PerNode,
}

impl ModelOp {
    /// All of them.
    pub const ALL: [ModelOp; 2] = [ModelOp::Write, ModelOp::Read];

    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            ModelOp::Write => "write",
            ModelOp::Read => "read",
        }
    }
}

impl Serialize for ModelOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl Series {
    /// For people.
    pub fn name(&self) -> String {
        format!("{} {} ({})", self.op.word(), self.target, self.io)
    }
}

impl Measurement {
    /// The value of a metric.
    pub fn value(&self, metric: Metric) -> f64 {
        let throughput = self.size as f64 / self.seconds;
        let nodes = f64::from(self.model.nodes());
        match metric {
            Metric::Throughput => throughput,
            Metric::Efficiency => throughput / (nodes * self.seconds / 3600.0),
            Metric::PerNode => throughput / nodes,
        }
    }
}

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 3] = [Metric::Throughput, Metric::Efficiency, Metric::PerNode];

    /// In one word, as in files and addresses.
    pub fn word(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput",
            Metric::Efficiency => "efficiency",
            Metric::PerNode => "per-node",
        }
    }

    /// For people, with its unit.
    pub fn title(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput, B/s",
            Metric::Efficiency => "efficiency: throughput per node-hour, B/s/(node h)",
            Metric::PerNode => "throughput per node, B/s",
        }
    }
}
