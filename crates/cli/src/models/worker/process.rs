//! The part of a process: one step of one model after the other.
//!
//! What a process reads and checks was written by another one, on another node where there are several, so that
//! neither its own memory nor its node's can answer for the file system.

use super::super::message::{Order, Report, Start, Step, say};
use super::super::place::{Directory, Handle};
use super::{lines, message};
use crate::env::Environment;
use crate::files::Error;
use crate::files::session::Session;
use pario_io_models::content::{Content, difference};
use pario_io_models::{Model, Share, Spot};
use std::io;

pub fn main(env: &Environment) -> io::Result<()> {
    let lines = lines(|| ());
    let Ok(first) = lines.recv() else { return Ok(()) };
    let start: Start = message(&first)?;
    let env = Environment { home: start.home.clone(), ..env.clone() };
    let mut session = Session::of_files(&env);
    let mut process = match Process::new(start, &mut session) {
        Ok(process) => process,
        Err(error) => return say(&Report::failed(error.to_string())),
    };
    say(&Report { begin_ns: now_ns(), end_ns: now_ns(), error: None })?;
    for line in lines {
        let order: Order = message(&line)?;
        let begin_ns = now_ns();
        let done = process.perform(&order);
        let error = done.err().map(|problem| problem.to_string());
        say(&Report { begin_ns, end_ns: now_ns(), error })?;
    }
    Ok(())
}

struct Process {
    start: Start,
    spot: Spot,
    directories: Vec<Directory>,
    content: Content,
    buffer: Vec<u8>,
    open: Option<Handle>,
}

/// Why a step was not done.
enum Problem {
    /// The file system or partition.
    Files(Error),
    /// What is in the file is not what was written.
    Wrong(String),
    /// An order that cannot be.
    Order,
}

impl Process {
    fn new(start: Start, session: &mut Session) -> Result<Process, Error> {
        let directories: Vec<Directory> =
            start.places.iter().map(|place| place.enter(session)).collect::<Result<_, _>>()?;
        directories.iter().try_for_each(Directory::is_there)?;
        let spot = Spot { node: start.first_node, core: start.core };
        let content = Content::new(0);
        Ok(Process { start, spot, directories, content, buffer: Vec::new(), open: None })
    }

    fn perform(&mut self, order: &Order) -> Result<(), Problem> {
        let model = order.model().filter(|model| model.has(self.spot)).ok_or(Problem::Order)?;
        let own = model.share(self.spot, self.start.size);
        match order.step {
            Step::Rest => Ok(()),
            Step::Open => {
                // Memory is got before the clock runs.
                let piece = self.piece(own.len);
                self.content = Content::new(piece);
                self.buffer = vec![0; piece];
                self.open = Some(self.directory(order)?.create(own.file)?);
                Ok(())
            }
            Step::Write => self.write(own, order.turn),
            Step::Reopen => {
                self.open = Some(self.directory(order)?.open(self.other(model).file)?);
                Ok(())
            }
            Step::Read => self.read(self.other(model)),
            Step::Check => {
                let other = self.other(model);
                let file = self.directory(order)?.open(other.file)?;
                self.check(file, other, model, order.turn)
            }
            // The first writer of a file is the one whose share begins it.
            Step::Remove if own.offset == 0 => Ok(self.directory(order)?.remove(own.file)?),
            Step::Remove => Ok(()),
        }
    }

    fn directory(&self, order: &Order) -> Result<&Directory, Problem> {
        self.directories.get(order.place).ok_or(Problem::Order)
    }

    /// Bytes by one call.
    fn piece(&self, len: u64) -> usize {
        usize::try_from(len.min(self.start.transfer)).unwrap_or(usize::MAX)
    }

    /// The share of another process: the same one of the next node, or the next one of the only node.
    fn other(&self, model: Model) -> Share {
        let step = if model.nodes() > 1 { model.ppn() } else { 1 };
        let number = (model.number(self.spot) + step) % model.procs();
        model.share(model.spot(number), self.start.size)
    }

    fn write(&mut self, own: Share, turn: u64) -> Result<(), Problem> {
        let file = self.open.take().ok_or(Problem::Order)?;
        for (offset, len) in pieces(own, self.piece(own.len)) {
            file.write(self.content.at(turn, own.file, offset, len), offset)?;
        }
        if self.start.fsync {
            file.sync()?;
        }
        Ok(file.close()?)
    }

    fn read(&mut self, share: Share) -> Result<(), Problem> {
        let file = self.open.take().ok_or(Problem::Order)?;
        for (offset, len) in pieces(share, self.piece(share.len)) {
            file.read(&mut self.buffer[..len], offset)?;
        }
        Ok(file.close()?)
    }

    fn check(&mut self, file: Handle, share: Share, model: Model, turn: u64) -> Result<(), Problem> {
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
fn pieces(share: Share, longest: usize) -> impl Iterator<Item = (u64, usize)> {
    let end = share.offset + share.len;
    let step = longest.max(1);
    (share.offset..end).step_by(step).map(move |offset| (offset, (end - offset).min(step as u64) as usize))
}

/// A clock that all processes of a host have in common and that never steps.
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
            Problem::Order => f.write_str("it got an order that it cannot follow"),
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
            for (start, piece) in pieces(Share { file: 0, offset, len }, longest) {
                prop_assert_eq!(start, at);
                prop_assert!(piece > 0 && piece <= longest);
                at += piece as u64;
            }
            prop_assert_eq!(at, offset + len);
        }
    }
}
