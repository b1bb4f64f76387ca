//! The messages of a run of models: one JSON object per line, from `pario models` to the worker of each host, and from
//! there to its processes. Each line is answered by a report.
//!
//! ```text
//! WorkerStart   the nodes of the host (or the number of the process), and what does not change during the run
//! ModelOrder    one step of one model; a host forwards it to the processes that take part
//! StepReport    done, or what failed
//! ```
//!
//! The end of its input ends a process at once. A host then ends its processes and removes their files first.

use crate::model_directory::ModelDirectory;
use pario_io_models::{Model, Spot};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};

/// The version of these messages.
pub const MESSAGE_VERSION: u32 = 1;

/// The constant settings of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerStart {
    /// See [`MESSAGE_VERSION`].
    pub version: u32,
    /// The first node of the host.
    pub first_node: u32,
    /// The number of its nodes.
    pub nodes: u32,
    /// For a host: the number of processes per node. For a process: its number in its node.
    pub core: u32,
    /// The directories of the run.
    #[serde(rename = "places")]
    pub directories: Vec<ModelDirectory>,
    /// The directory of the registry of partitions.
    pub home: Option<PathBuf>,
    /// The bytes that a model moves.
    pub size: u64,
    /// The bytes that a process writes or reads by one call.
    pub transfer: u64,
    /// Whether the time of a write includes a sync.
    pub fsync: bool,
}

/// A step of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelStep {
    /// Nothing; measures the time of an order itself.
    Rest,
    /// Create the file, or open it if another process has created it.
    Open,
    /// Write the process's share, and close the file.
    Write,
    /// Open the file with the share of another process.
    Reopen,
    /// Read that share, and close the file.
    Read,
    /// Compare that share with what was written.
    Check,
    /// Remove the file; the first of its writers does.
    Remove,
}

/// An order to the processes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelOrder {
    /// The step.
    pub step: ModelStep,
    /// The number of the directory.
    #[serde(rename = "place")]
    pub directory: usize,
    /// Nodes, processes per node, files per node, nodes per file.
    pub model: [u32; 4],
    /// A number that differs from run to run.
    pub turn: u64,
}

/// The result of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// When the first process began, by the host's monotonic clock.
    pub begin_ns: u64,
    /// When the last process was done.
    pub end_ns: u64,
    /// The operation that failed.
    pub error: Option<String>,
}

impl ModelOrder {
    /// A step of a model.
    pub fn new(step: ModelStep, directory: usize, model: Model, turn: u64) -> ModelOrder {
        let numbers = [model.nodes(), model.ppn(), model.files_per_node(), model.shared_nodes()];
        ModelOrder { step, directory, model: numbers, turn }
    }

    /// The model; `None` if there is no such model.
    pub fn model(&self) -> Option<Model> {
        let [nodes, ppn, files, shared] = self.model;
        Model::new(nodes, ppn, files, shared)
    }
}

impl WorkerStart {
    /// The processes of the host.
    pub fn spots(&self) -> Vec<Spot> {
        let nodes = self.first_node..self.first_node.saturating_add(self.nodes);
        nodes.flat_map(|node| (0..self.core).map(move |core| Spot { node, core })).collect()
    }

    /// The message for one process.
    pub fn for_process(&self, spot: Spot) -> WorkerStart {
        WorkerStart { first_node: spot.node, nodes: 1, core: spot.core, ..self.clone() }
    }
}

impl StepReport {
    /// The report of a failure.
    pub fn failed(error: String) -> StepReport {
        StepReport { begin_ns: 0, end_ns: 0, error: Some(error) }
    }

    /// Both reports together: from the first begin to the last end.
    pub fn and(self, other: StepReport) -> StepReport {
        StepReport {
            begin_ns: self.begin_ns.min(other.begin_ns),
            end_ns: self.end_ns.max(other.end_ns),
            error: self.error.or(other.error),
        }
    }

    /// The duration.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.begin_ns) as f64 / 1e9
    }
}

/// A message as a line.
pub(crate) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("messages can be written as JSON");
    line.push(b'\n');
    line
}

/// The message in a line.
pub(crate) fn parse<'a, M: Deserialize<'a>>(line: &'a [u8]) -> io::Result<M> {
    serde_json::from_slice(line).map_err(io::Error::from)
}

/// The next line; `None` at the end, and where the writer ended in the middle of a line.
pub(crate) fn next_line(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    Ok((line.last() == Some(&b'\n')).then_some(line))
}

/// Writes a report to standard output.
pub(crate) fn send_report(report: &StepReport) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(&line(report))?;
    output.flush()
}

/// Reads the lines of standard input in a thread. At the end of the input it calls `at_end` and ends the process.
pub(crate) fn input_lines(at_end: impl FnOnce() + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, lines) = sync_channel(1);
    std::thread::spawn(move || {
        let mut input = BufReader::new(io::stdin());
        while let Ok(Some(line)) = next_line(&mut input) {
            if sender.send(line).is_err() {
                break;
            }
        }
        at_end();
        std::process::exit(0);
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_parse_back_from_their_lines() {
        let model = Model::new(2, 4, 1, 1).expect("a model");
        let order = ModelOrder::new(ModelStep::Write, 1, model, 7);
        let text = line(&order);
        assert_eq!(text, b"{\"step\":\"write\",\"place\":1,\"model\":[2,4,1,1],\"turn\":7}\n");
        let mut input = io::Cursor::new([&text[..], b"cut short"].concat());
        let read = next_line(&mut input).expect("read").expect("a line");
        assert_eq!(parse::<ModelOrder>(&read).expect("an order"), order);
        assert_eq!(next_line(&mut input).expect("read"), None);
    }
}
