//! The worker process of a model: executes one step after the other.
//!
//! A process reads and checks what another process wrote, on another node if there are several, so that neither its
//! own memory nor its node's cache can answer for the file system.

use crate::model_directory::{ModelFile, OpenDirectory};
use crate::orders::{ModelOrder, ModelStep, StepReport, WorkerStart, input_lines, parse, send_report};
use pario_copy::{Connections, Error};
use pario_io_models::content::{Content, difference};
use pario_io_models::{Model, ProcessShare, Spot};
use std::io;

/// Runs the process until its input ends.
pub fn run() -> io::Result<()> {
    let lines = input_lines(|| ());
    let Ok(first) = lines.recv() else { return Ok(()) };
    let start: WorkerStart = parse(&first)?;
    let mut connections = Connections::for_data(start.home.as_deref(), None);
    let mut process = match Process::new(start, &mut connections) {
        Ok(process) => process,
        Err(error) => return send_report(&StepReport::failed(error.to_string())),
    };
    send_report(&StepReport { begin_ns: now_ns(), end_ns: now_ns(), error: None })?;
    for line in lines {
        let order: ModelOrder = parse(&line)?;
        let begin_ns = now_ns();
        let done = process.execute(&order);
        let error = done.err().map(|problem| problem.to_string());
        send_report(&StepReport { begin_ns, end_ns: now_ns(), error })?;
    }
    Ok(())
}

struct Process {
    start: WorkerStart,
    spot: Spot,
    directories: Vec<OpenDirectory>,
    content: Content,
    buffer: Vec<u8>,
    open: Option<ModelFile>,
}

/// Why a step was not done.
enum Problem {
    /// The file system or partition.
    Files(Error),
    /// The file does not contain what was written.
    Wrong(String),
    /// An order that makes no sense.
    BadOrder,
}

impl Process {
    fn new(start: WorkerStart, connections: &mut Connections) -> Result<Process, Error> {
        let directories: Vec<OpenDirectory> = start
            .directories
            .iter()
            .map(|directory| directory.open(connections))
            .collect::<Result<_, _>>()?;
        directories.iter().try_for_each(OpenDirectory::check_exists)?;
        let spot = Spot { node: start.first_node, core: start.core };
        let content = Content::new(0);
        Ok(Process { start, spot, directories, content, buffer: Vec::new(), open: None })
    }

    fn execute(&mut self, order: &ModelOrder) -> Result<(), Problem> {
        let model = order.model().filter(|model| model.has(self.spot)).ok_or(Problem::BadOrder)?;
        let own = model.share(self.spot, self.start.size);
        match order.step {
            ModelStep::Rest => Ok(()),
            ModelStep::Open => {
                // Memory is allocated before the time of the transfer begins.
                let piece = self.piece(own.len);
                self.content = Content::new(piece);
                self.buffer = vec![0; piece];
                self.open = Some(self.directory(order)?.create(own.file)?);
                Ok(())
            }
            ModelStep::Write => self.write(own, order.turn),
            ModelStep::Reopen => {
                self.open = Some(self.directory(order)?.open_file(self.other(model).file)?);
                Ok(())
            }
            ModelStep::Read => self.read(self.other(model)),
            ModelStep::Check => {
                let other = self.other(model);
                let file = self.directory(order)?.open_file(other.file)?;
                self.check(file, other, model, order.turn)
            }
            // The first writer of a file has the share at its beginning.
            ModelStep::Remove if own.offset == 0 => Ok(self.directory(order)?.remove(own.file)?),
            ModelStep::Remove => Ok(()),
        }
    }

    fn directory(&self, order: &ModelOrder) -> Result<&OpenDirectory, Problem> {
        self.directories.get(order.directory).ok_or(Problem::BadOrder)
    }

    /// The bytes of one call.
    fn piece(&self, len: u64) -> usize {
        usize::try_from(len.min(self.start.transfer)).unwrap_or(usize::MAX)
    }

    /// The share of another process: the same one of the next node, or the next one of the only node.
    fn other(&self, model: Model) -> ProcessShare {
        let step = if model.nodes() > 1 { model.ppn() } else { 1 };
        let number = (model.number(self.spot) + step) % model.procs();
        model.share(model.spot(number), self.start.size)
    }

    fn write(&mut self, own: ProcessShare, turn: u64) -> Result<(), Problem> {
        let file = self.open.take().ok_or(Problem::BadOrder)?;
        for (offset, len) in pieces(own, self.piece(own.len)) {
            file.write(self.content.at(turn, own.file, offset, len), offset)?;
        }
        if self.start.fsync {
            file.sync()?;
        }
        Ok(file.close()?)
    }

    fn read(&mut self, share: ProcessShare) -> Result<(), Problem> {
        let file = self.open.take().ok_or(Problem::BadOrder)?;
        for (offset, len) in pieces(share, self.piece(share.len)) {
            file.read(&mut self.buffer[..len], offset)?;
        }
        Ok(file.close()?)
    }

    fn check(
        &mut self,
        file: ModelFile,
        share: ProcessShare,
        model: Model,
        turn: u64,
    ) -> Result<(), Problem> {
        let (len, wanted) = (file.len()?, share.len * u64::from(model.procs_per_file()));
        if len != wanted {
            let name = file.name();
            return Err(Problem::Wrong(format!("{name} has {len} bytes where {wanted} were written")));
        }
        for (offset, len) in pieces(share, self.piece(share.len)) {
            let found = &mut self.buffer[..len];
            file.read(found, offset)?;
            if let Some(place) = difference(found, self.content.at(turn, share.file, offset, len)) {
                let (name, byte) = (file.name(), offset + place as u64);
                return Err(Problem::Wrong(format!("byte {byte} of {name} is not what was written")));
            }
        }
        Ok(file.close()?)
    }
}

/// Offsets and lengths of the calls for a share.
fn pieces(share: ProcessShare, longest: usize) -> impl Iterator<Item = (u64, usize)> {
    let end = share.offset + share.len;
    let step = longest.max(1);
    (share.offset..end).step_by(step).map(move |offset| (offset, (end - offset).min(step as u64) as usize))
}

/// The monotonic clock of the host.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem::Files(error)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Problem::Files(error) => error.fmt(f),
            Problem::Wrong(what) => write!(f, "{what}: the file system or this host lost or changed data"),
            Problem::BadOrder => f.write_str("it got an order that makes no sense"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_are_the_share(offset in 0u64..1000, len in 0u64..1000, longest in 1usize..300) {
            let mut at = offset;
            for (start, piece) in pieces(ProcessShare { file: 0, offset, len }, longest) {
                prop_assert_eq!(start, at);
                prop_assert!(piece > 0 && piece <= longest);
                at += piece as u64;
            }
            prop_assert_eq!(at, offset + len);
        }
    }
}
