//! One data access, from the program's arguments to bytes moved.
//!
//! Every read and write of the chapter is the same three steps: find the place (explicit offset, individual,
//! shared or ordered pointer), make a [`Job`] of it, and drive the job (blocking, on the I/O thread, or as a
//! split collective). A pointer moves when the access starts, by what was asked (MPI-4.1, 14.4.1).

use std::sync::Arc;

use pario_buffer::{UserBuffer, lend};
use pario_mpi_host::TypeHandle;
use pario_trace::counters;
use pario_units::{ErrorKind, Pos};

use crate::convert;
use crate::datarep::{Conversion, Datarep};
use crate::error::{Error, Result};
use crate::file::{File, Split};
use crate::window::{Window, file_pattern};
use crate::worker::{self, Ticket};

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the file to the program.
    Read,
    /// From the program to the file.
    Write,
}

/// Where an access starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At an offset in etypes.
    At(i64),
    /// At the individual file pointer.
    Individual,
    /// At the shared file pointer, in any order of the ranks.
    Shared,
    /// At the shared file pointer, in the order of the ranks.
    Ordered,
}

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This rank alone.
    Independent,
    /// All ranks of the file.
    Collective,
}

/// The program's side of an access.
pub struct Operand {
    /// Its memory.
    pub buffer: UserBuffer,
    /// The address that the program passed.
    pub base: usize,
    /// The datatype of one item.
    pub datatype: TypeHandle,
    /// How many items.
    pub count: u64,
}

/// One access, complete: it needs the host MPI no more, unless the program's own functions convert.
struct Job {
    file: Arc<File>,
    window: Arc<Window>,
    direction: Direction,
    at: Pos,
    /// Bytes in the file.
    len: u64,
    operand: Operand,
    coder: Coder,
}

/// How values change on their way.
enum Coder {
    /// Not at all.
    Plain,
    /// To and from external32; the buffer's pattern is typed.
    External,
    /// By the program's functions, for so many values.
    User(Arc<dyn Conversion>, u64),
}

impl File {
    /// A blocking access; returns the bytes of the program's buffer that were moved.
    ///
    /// Of a collective access all ranks learn whether all succeeded, so a rank whose own arguments are bad
    /// comes with its error instead of an operand.
    pub fn access(
        self: &Arc<File>,
        d: Direction,
        place: Place,
        reach: Reach,
        operand: Result<Operand>,
    ) -> Result<u64> {
        let job = self.job(d, place, reach, operand);
        match reach {
            Reach::Independent => job?.run(),
            Reach::Collective => self.access_collectively(job),
        }
    }

    /// Starts an access; the ticket tells when it is done. A late failure is reported by sync or close.
    pub fn start(
        self: &Arc<File>,
        d: Direction,
        place: Place,
        reach: Reach,
        operand: Result<Operand>,
    ) -> Result<Arc<Ticket>> {
        let job = self.job(d, place, reach, operand)?;
        let file = self.clone();
        Ok(self.launch(job, move |outcome| {
            if let Err(e) = outcome {
                file.keep_late_error(e.kind());
            }
        }))
    }

    /// Begins a split collective access. It is under way on all ranks or on none.
    pub fn begin(self: &Arc<File>, d: Direction, place: Place, operand: Result<Operand>) -> Result<()> {
        let job = self.team.agree(self.job(d, place, Reach::Collective, operand))?;
        let base = job.operand.base;
        let ticket = self.launch(job, |_| ());
        self.set_split(Split { direction: d, place: split_kind(place), base, ticket });
        Ok(())
    }

    /// Ends the split collective access that was begun with the same kind of call and the same buffer.
    pub fn end(self: &Arc<File>, d: Direction, place: Place, base: usize) -> Result<u64> {
        let split = self.take_split(|split| {
            if split.direction != d || split.place != split_kind(place) {
                return Err(Error::Usage(
                    ErrorKind::UnsupportedOperation,
                    "the split collective access under way was begun by another kind of call",
                ));
            }
            if split.base != base {
                return Err(Error::Usage(
                    ErrorKind::Buffer,
                    "the split collective access under way was begun with another buffer",
                ));
            }
            Ok(())
        });
        self.team.agree(split.and_then(|split| split.ticket.take()))
    }

    /// The entry of collective accesses: every rank of the file comes through here with its job.
    ///
    /// Each rank does its own part; merging the parts of all ranks belongs in this place and changes nothing
    /// for the callers.
    fn access_collectively(&self, job: Result<Job>) -> Result<u64> {
        self.team.agree(job.and_then(Job::run))
    }

    fn launch(self: &Arc<File>, job: Job, then: impl FnOnce(&Result<u64>) + Send + 'static) -> Arc<Ticket> {
        if matches!(job.coder, Coder::User(..)) {
            // The program's functions may call MPI: only this thread may run them.
            let outcome = job.run();
            then(&outcome);
            return Ticket::finished(outcome);
        }
        counters().background.add(1);
        let guard = self.under_way();
        worker::submit(Box::new(move || {
            let outcome = worker::guarded(|| job.run());
            then(&outcome);
            drop(guard);
            outcome
        }))
    }

    /// Checks the arguments, finds the place and moves the pointer.
    fn job(
        self: &Arc<File>,
        d: Direction,
        place: Place,
        reach: Reach,
        operand: Result<Operand>,
    ) -> Result<Job> {
        let window = self.window();
        let checked = operand.and_then(|operand| self.check(d, place, reach, &window, operand));
        let etypes = checked.as_ref().map_or(0, |(_, len, _)| len / window.etype_size);
        // Ordered access is a meeting of all ranks, so a rank whose arguments are bad comes too.
        let start = match place {
            Place::Ordered => self.claim_ordered(etypes)?,
            _ if checked.is_err() => 0,
            Place::At(offset) => offset,
            Place::Individual => self.claim_individual(etypes)?,
            Place::Shared => self.claim_shared(etypes)?,
        };
        let (operand, len, coder) = checked?;
        let at = window.pos(start)?;
        at.checked_add(len).ok_or(Error::Value(
            ErrorKind::Arg,
            "the access ends beyond the largest file",
            start,
        ))?;
        Ok(Job { file: self.clone(), window, direction: d, at, len, operand, coder })
    }

    fn check(
        &self,
        d: Direction,
        place: Place,
        reach: Reach,
        window: &Window,
        operand: Operand,
    ) -> Result<(Operand, u64, Coder)> {
        let amode = self.amode();
        if d == Direction::Read && !amode.read {
            return Err(Error::Usage(ErrorKind::Access, "the file was opened for writing only"));
        }
        if d == Direction::Write && !amode.write {
            return Err(Error::Usage(ErrorKind::ReadOnly, "the file was opened for reading only"));
        }
        if amode.sequential && !matches!(place, Place::Shared | Place::Ordered) {
            return Err(Error::Usage(
                ErrorKind::UnsupportedOperation,
                "a file opened with MPI_MODE_SEQUENTIAL is accessed by its shared pointer only",
            ));
        }
        if reach == Reach::Collective {
            self.no_split()?;
        }
        if let Place::At(offset) = place {
            window.pos(offset)?;
        }
        let (operand, len, coder) = self.encode_plan(d, window, operand)?;
        if len % window.etype_size != 0 {
            return Err(Error::Usage(
                ErrorKind::Type,
                "the access is not a whole number of the view's etypes",
            ));
        }
        Ok((operand, len, coder))
    }

    /// How the operand's values travel under the window's representation, and how many file bytes they are.
    fn encode_plan(&self, d: Direction, window: &Window, operand: Operand) -> Result<(Operand, u64, Coder)> {
        let host = self.host();
        let file_bytes = |size: u64| {
            size.checked_mul(operand.count)
                .filter(|len| *len <= i64::MAX as u64)
                .ok_or(Error::Usage(ErrorKind::Count, "the access is larger than the largest file"))
        };
        match &window.rep {
            Datarep::Native | Datarep::Internal => {
                let len = operand.buffer.len();
                Ok((operand, len, Coder::Plain))
            }
            Datarep::External32 => {
                let len = file_bytes(host.external(operand.datatype)?.size())?;
                let typed = host.typed(operand.datatype)?;
                let Operand { buffer, base, datatype, count } = operand;
                let buffer = buffer.described_by(&typed).ok_or(Error::Usage(
                    ErrorKind::Intern,
                    "two layouts of one datatype differ; please report this with the datatype",
                ))?;
                Ok((Operand { buffer, base, datatype, count }, len, Coder::External))
            }
            Datarep::User(_, conversion) => {
                let converts = match d {
                    Direction::Read => conversion.converts_reads(),
                    Direction::Write => conversion.converts_writes(),
                };
                if !converts {
                    let len = operand.buffer.len();
                    return Ok((operand, len, Coder::Plain));
                }
                let len = file_bytes(file_pattern(host, operand.datatype, &window.rep)?.size())?;
                let items = host.typed(operand.datatype)?.elements()?.checked_mul(operand.count);
                let items = items.ok_or(Error::Usage(ErrorKind::Count, "the access has too many values"))?;
                Ok((operand, len, Coder::User(conversion.clone(), items)))
            }
        }
    }
}

/// Split accesses are paired by kind, not by offset.
fn split_kind(place: Place) -> Place {
    match place {
        Place::At(_) => Place::At(0),
        other => other,
    }
}

impl Job {
    /// Moves the bytes; returns how many bytes of the program's buffer.
    fn run(self) -> Result<u64> {
        let counters = counters();
        let moved = match self.direction {
            Direction::Read => {
                counters.reads.add(1);
                let moved = self.read()?;
                counters.read_bytes.add(moved);
                moved
            }
            Direction::Write => {
                counters.writes.add(1);
                let moved = self.write()?;
                counters.written_bytes.add(moved);
                moved
            }
        };
        Ok(moved)
    }

    fn read(&self) -> Result<u64> {
        let (view, buffer) = (&self.window.view, &self.operand.buffer);
        let tuning = self.file.tuning();
        let plain = self.file.plain();
        match &self.coder {
            Coder::Plain => Ok(plain.read(view, self.at, buffer, 0, self.len, &tuning)?),
            Coder::External => convert::read_external(plain, view, self.at, self.len, buffer, &tuning),
            Coder::User(conversion, items) => {
                let mut staged = convert::scratch(self.len)?;
                let got =
                    lend(&mut staged, |memory| plain.read(view, self.at, memory, 0, self.len, &tuning))?;
                // Values of one access are of one size only where the datatype is; a short read then
                // gives the values that came whole.
                let items = if got == self.len { *items } else { scaled(*items, got, self.len) };
                let Operand { base, datatype, .. } = self.operand;
                conversion.read(base, datatype, items, &mut staged).map_err(Error::UserFunction)?;
                Ok(if got == self.len { buffer.len() } else { scaled(buffer.len(), got, self.len) })
            }
        }
    }

    fn write(&self) -> Result<u64> {
        let (view, buffer) = (&self.window.view, &self.operand.buffer);
        let tuning = self.file.tuning();
        let plain = self.file.plain();
        match &self.coder {
            Coder::Plain => Ok(plain.write(view, self.at, buffer, 0, self.len, &tuning)?),
            Coder::External => convert::write_external(plain, view, self.at, self.len, buffer, &tuning),
            Coder::User(conversion, items) => {
                let mut staged = convert::scratch(self.len)?;
                let Operand { base, datatype, .. } = self.operand;
                conversion.write(base, datatype, *items, &mut staged).map_err(Error::UserFunction)?;
                lend(&mut staged, |memory| plain.write(view, self.at, memory, 0, self.len, &tuning))?;
                Ok(buffer.len())
            }
        }
    }
}

/// `n · got / len`, rounded down.
fn scaled(n: u64, got: u64, len: u64) -> u64 {
    (u128::from(n) * u128::from(got)).checked_div(u128::from(len)).unwrap_or(0) as u64
}
