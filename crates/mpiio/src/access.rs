//! One data access, from the program's arguments to moved bytes.
//!
//! Every data access of MPI-4.1, 14.4 takes the same three steps: find the position (explicit offset, individual,
//! shared or ordered pointer), make a [`DataAccess`] of it, and run that (blocking, on the I/O thread, or as a split
//! collective). A file pointer moves when the access starts, by the requested amount (14.4.1).

use std::sync::Arc;

use pario_buffer::{BounceBuffer, UserBuffer};
use pario_mpi_host::{Pending, TypeHandle};
use pario_trace::counters;
use pario_two_phase::AccessRequest as Task;
use pario_types::ErrorKind;

use crate::datarep::{ConversionFunctions, Datarep};
use crate::device_read::DeviceRead;
use crate::error::{Error, Result};
use crate::file::{MpiFile, Split};
use crate::file_view::{FileView, file_pattern};
use crate::io_thread::{self, Completion};
use crate::rank_context::RankContext;
use crate::tracing::TracedAccess;

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the file to the program.
    Read,
    /// From the program to the file.
    Write,
}

/// The positioning of a data access (MPI-4.1, table 14.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positioning {
    /// At an offset in etypes.
    At(i64),
    /// At the individual file pointer.
    Individual,
    /// At the shared file pointer, in any order of the ranks.
    Shared,
    /// At the shared file pointer, in the order of the ranks.
    Ordered,
}

impl Positioning {
    /// A number for each kind of positioning, below 16.
    pub(crate) fn number(self) -> u32 {
        match self {
            Positioning::At(_) => 0,
            Positioning::Individual => 1,
            Positioning::Shared => 2,
            Positioning::Ordered => 3,
        }
    }
}

/// The synchronism of a data access (MPI-4.1, table 14.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Synchronism {
    Blocking,
    Split,
    Nonblocking,
}

/// The coordination of a data access (MPI-4.1, table 14.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordination {
    /// Noncollective: this rank alone.
    Independent,
    /// Collective: all ranks of the file.
    Collective,
}

/// The program's buffer of an access.
pub struct Operand {
    /// The memory of the buffer.
    pub buffer: UserBuffer,
    /// The address that the program passed.
    pub base: usize,
    /// The datatype of one item.
    pub datatype: TypeHandle,
    /// The number of items.
    pub count: u64,
}

/// One access with checked arguments. It needs the host MPI only if the program's own functions convert the data.
pub(crate) struct DataAccess {
    pub task: Task,
    pub context: RankContext,
}

/// The conversion between the values in memory and in the file.
pub(crate) enum ValueCoding {
    /// No conversion.
    Plain,
    /// Conversion to and from external32; the buffer's pattern is typed.
    External,
    /// Conversion of this many values by the program's functions.
    User(Arc<dyn ConversionFunctions>, u64),
}

impl MpiFile {
    /// A blocking access. Returns the number of bytes of the program's buffer that were moved.
    ///
    /// In a collective access all ranks learn whether all succeeded, so a rank with invalid arguments passes its error
    /// in place of the operand.
    pub fn access(
        self: &Arc<MpiFile>,
        d: Direction,
        positioning: Positioning,
        coordination: Coordination,
        operand: Result<Operand>,
    ) -> Result<u64> {
        let mut traced = TracedAccess::begin(d, positioning, coordination, Synchronism::Blocking);
        let copy = copy_to_return(d, &operand);
        let access = self.prepare_access(d, positioning, coordination, operand);
        record_position(&mut traced, &access);
        let outcome = match coordination {
            Coordination::Independent => access.and_then(DataAccess::run),
            Coordination::Collective => self.access_collectively(d, positioning, access),
        };
        let outcome = copied_back(copy, outcome);
        if let Some(traced) = &traced {
            traced.end(&self.trace_id, &outcome);
        }
        outcome
    }

    /// Starts a nonblocking access. Sync or close reports a failure that occurs after this call.
    pub fn start(
        self: &Arc<MpiFile>,
        d: Direction,
        positioning: Positioning,
        coordination: Coordination,
        operand: Result<Operand>,
    ) -> Result<Arc<dyn Pending>> {
        let copy = copy_to_return(d, &operand);
        if let Some(copy) = copy {
            let inner = self.start_in_host_memory(d, positioning, coordination, operand)?;
            return Ok(Arc::new(DeviceRead::new(self.clone(), inner, copy)));
        }
        self.start_in_host_memory(d, positioning, coordination, operand)
    }

    fn start_in_host_memory(
        self: &Arc<MpiFile>,
        d: Direction,
        positioning: Positioning,
        coordination: Coordination,
        operand: Result<Operand>,
    ) -> Result<Arc<dyn Pending>> {
        let mut traced = TracedAccess::begin(d, positioning, coordination, Synchronism::Nonblocking);
        let access = self.prepare_access(d, positioning, coordination, operand);
        record_position(&mut traced, &access);
        let file = self.clone();
        let on_complete = move |outcome: &Result<u64>| {
            if let Some(traced) = traced {
                traced.end(&file.trace_id, outcome);
            }
            if let Err(e) = outcome {
                file.record_deferred_error(e.kind());
            }
        };
        match (coordination, access) {
            (Coordination::Collective, access) => {
                self.start_collectively(d, positioning, access, on_complete)
            }
            (Coordination::Independent, Ok(access)) => Ok(self.launch(access, on_complete)),
            (Coordination::Independent, Err(e)) => {
                // This call returns the error, so it is not recorded for sync or close.
                let outcome = Err(e);
                if let Some(traced) =
                    TracedAccess::begin(d, positioning, coordination, Synchronism::Nonblocking)
                {
                    traced.end(&self.trace_id, &outcome);
                }
                outcome.map(|_: u64| unreachable!("an error"))
            }
        }
    }

    /// Begins a split collective access. It begins on all ranks or on none.
    pub fn begin(
        self: &Arc<MpiFile>,
        d: Direction,
        positioning: Positioning,
        operand: Result<Operand>,
    ) -> Result<()> {
        let mut traced = TracedAccess::begin(d, positioning, Coordination::Collective, Synchronism::Split);
        let base = operand.as_ref().map_or(0, |operand| operand.base);
        let copy = copy_to_return(d, &operand);
        let access = self.prepare_access(d, positioning, Coordination::Collective, operand);
        record_position(&mut traced, &access);
        let file = self.clone();
        let on_complete = move |outcome: &Result<u64>| {
            if let Some(traced) = traced {
                traced.end(&file.trace_id, outcome);
            }
        };
        let completion = self.begin_collectively(d, positioning, access, on_complete)?;
        let positioning = positioning_kind(positioning);
        self.set_split(Split { direction: d, positioning, base, completion, copy });
        Ok(())
    }

    /// Ends the split collective access that was begun by the matching call with the same buffer.
    pub fn end(self: &Arc<MpiFile>, d: Direction, positioning: Positioning, base: usize) -> Result<u64> {
        let split = self.take_split(|split| {
            if split.direction != d || split.positioning != positioning_kind(positioning) {
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
        self.group.agree(split.and_then(|split| copied_back(split.copy, split.completion.take())))
    }

    /// Runs an access on the I/O thread.
    pub(crate) fn launch(
        self: &Arc<MpiFile>,
        access: DataAccess,
        on_complete: impl FnOnce(&Result<u64>) + Send + 'static,
    ) -> Arc<Completion> {
        if matches!(access.context.coder, ValueCoding::User(..)) {
            // The program's functions may call MPI, so only this thread may call them.
            let outcome = access.run();
            on_complete(&outcome);
            return Completion::finished(outcome);
        }
        counters().background.add(1);
        let guard = self.begin_access();
        io_thread::submit(Box::new(move || {
            let outcome = io_thread::catch_panic(|| access.run());
            on_complete(&outcome);
            drop(guard);
            outcome
        }))
    }

    /// Checks the arguments, finds the position and moves the file pointer.
    fn prepare_access(
        self: &Arc<MpiFile>,
        d: Direction,
        positioning: Positioning,
        coordination: Coordination,
        operand: Result<Operand>,
    ) -> Result<DataAccess> {
        let file_view = self.file_view();
        let checked =
            operand.and_then(|operand| self.check(d, positioning, coordination, &file_view, operand));
        let etypes = checked.as_ref().map_or(0, |(_, len, _)| len / file_view.etype_size);
        // Ordered access is collective, so a rank with invalid arguments takes part too.
        let start = match positioning {
            Positioning::Ordered => self.fetch_add_ordered(etypes)?,
            _ if checked.is_err() => 0,
            Positioning::At(offset) => offset,
            Positioning::Individual => self.fetch_add_individual(etypes)?,
            Positioning::Shared => self.fetch_add_shared(etypes)?,
        };
        let (operand, len, coder) = checked?;
        let at = file_view.pos(start)?;
        at.checked_add(len).ok_or(Error::Value(
            ErrorKind::Arg,
            "the access ends beyond the largest file",
            start,
        ))?;
        let Operand { buffer, datatype, .. } = operand;
        let base = buffer.base();
        let task = Task { write: d == Direction::Write, view: file_view.view.clone(), at, len, buffer };
        Ok(DataAccess {
            task,
            context: RankContext { file: self.clone(), owned: false, coder, base, datatype },
        })
    }

    fn check(
        &self,
        d: Direction,
        positioning: Positioning,
        coordination: Coordination,
        file_view: &FileView,
        operand: Operand,
    ) -> Result<(Operand, u64, ValueCoding)> {
        let amode = self.amode();
        if d == Direction::Read && !amode.read {
            return Err(Error::Usage(ErrorKind::Access, "the file was opened for writing only"));
        }
        if d == Direction::Write && !amode.write {
            return Err(Error::Usage(ErrorKind::ReadOnly, "the file was opened for reading only"));
        }
        if amode.sequential && !matches!(positioning, Positioning::Shared | Positioning::Ordered) {
            return Err(Error::Usage(
                ErrorKind::UnsupportedOperation,
                "a file opened with MPI_MODE_SEQUENTIAL is accessed by its shared pointer only",
            ));
        }
        if coordination == Coordination::Collective {
            self.no_split()?;
        }
        if let Positioning::At(offset) = positioning {
            file_view.pos(offset)?;
        }
        let (operand, len, coder) = self.value_coding(d, file_view, operand)?;
        if len % file_view.etype_size != 0 {
            return Err(Error::Usage(
                ErrorKind::Type,
                "the access is not a whole number of the view's etypes",
            ));
        }
        Ok((operand, len, coder))
    }

    /// Chooses the conversion for the view's data representation. Also returns the number of bytes in the file.
    fn value_coding(
        &self,
        d: Direction,
        file_view: &FileView,
        operand: Operand,
    ) -> Result<(Operand, u64, ValueCoding)> {
        let host = self.host();
        let file_bytes = |size: u64| {
            size.checked_mul(operand.count)
                .filter(|len| *len <= i64::MAX as u64)
                .ok_or(Error::Usage(ErrorKind::Count, "the access is larger than the largest file"))
        };
        match &file_view.rep {
            Datarep::Native | Datarep::Internal => {
                let len = operand.buffer.len();
                Ok((operand, len, ValueCoding::Plain))
            }
            Datarep::External32 => {
                let len = file_bytes(host.external(operand.datatype)?.size())?;
                let typed = host.typed(operand.datatype)?;
                let Operand { buffer, base, datatype, count } = operand;
                let buffer = buffer.described_by(&typed).ok_or(Error::Usage(
                    ErrorKind::Intern,
                    "two layouts of one datatype differ; please report this with the datatype",
                ))?;
                Ok((Operand { buffer, base, datatype, count }, len, ValueCoding::External))
            }
            Datarep::User(_, conversion) => {
                let converts = match d {
                    Direction::Read => conversion.converts_reads(),
                    Direction::Write => conversion.converts_writes(),
                };
                if !converts {
                    let len = operand.buffer.len();
                    return Ok((operand, len, ValueCoding::Plain));
                }
                let len = file_bytes(file_pattern(host, operand.datatype, &file_view.rep)?.size())?;
                let items = host.typed(operand.datatype)?.elements()?.checked_mul(operand.count);
                let items = items.ok_or(Error::Usage(ErrorKind::Count, "the access has too many values"))?;
                Ok((operand, len, ValueCoding::User(conversion.clone(), items)))
            }
        }
    }
}

/// Adds the position to the trace record, in place: copying it would slow down accesses of a few hundred nanoseconds.
#[inline]
fn record_position(traced: &mut Option<TracedAccess>, access: &Result<DataAccess>) {
    if let (Some(traced), Ok(access)) = (traced, access) {
        traced.set_position(&access.task);
    }
}

/// The host memory that a read fills in place of GPU memory.
#[inline]
fn copy_to_return(d: Direction, operand: &Result<Operand>) -> Option<Arc<BounceBuffer>> {
    match (d, operand) {
        (Direction::Read, Ok(operand)) => operand.buffer.copy_of_device().cloned(),
        _ => None,
    }
}

/// The outcome of a read after its bytes are in GPU memory, if they belong there.
#[inline]
fn copied_back(copy: Option<Arc<BounceBuffer>>, outcome: Result<u64>) -> Result<u64> {
    if let (Some(copy), Ok(_)) = (copy, &outcome) {
        copy.copy_back()?;
    }
    outcome
}

/// The end of a split access matches its begin by the kind of positioning, not by the offset.
fn positioning_kind(positioning: Positioning) -> Positioning {
    match positioning {
        Positioning::At(_) => Positioning::At(0),
        other => other,
    }
}

impl DataAccess {
    /// Moves the data. Returns the number of bytes of the program's buffer.
    pub fn run(self) -> Result<u64> {
        let (file, write) = (&self.context.file, self.task.write);
        let shipping_session = self.context.shipping_session();
        let moved = self.context.run(&self.task, shipping_session.as_deref())?;
        if let Some(shipping_session) = shipping_session {
            file.stats.decide(write, shipping_session.choice.clone());
        }
        let calls = if write { &file.stats.independent_writes } else { &file.stats.independent_reads };
        calls.add(1);
        file.count_moved(write, moved);
        Ok(moved)
    }
}

impl MpiFile {
    /// Adds an access and its bytes to the counters.
    pub(crate) fn count_moved(&self, write: bool, moved: u64) {
        let (counters, stats) = (counters(), &self.stats);
        if write {
            counters.writes.add(1);
            counters.written_bytes.add(moved);
            stats.written_bytes.add(moved);
        } else {
            counters.reads.add(1);
            counters.read_bytes.add(moved);
            stats.read_bytes.add(moved);
        }
    }
}
