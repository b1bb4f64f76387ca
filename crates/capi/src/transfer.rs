//! The data access functions: blocking, nonblocking and split, with and without offset, small and large counts. Each
//! function is one line of a table.

use std::ffi::{c_int, c_void};

use pario_buffer::UserBuffer;
use pario_mpi_host::Host;
use pario_mpiio::{Coordination, Direction, Error, FileCall, Operand, Positioning, Result};
use pario_types::ErrorKind;

use crate::boundary::{export, on_file, unserved};

/// The buffer arguments of the program.
#[derive(Clone, Copy)]
struct ProgramBuffer {
    buffer: *const c_void,
    count: i64,
    datatype: usize,
}

impl ProgramBuffer {
    /// Checks the arguments and turns them into an operand.
    fn operand(self, host: &'static Host) -> Result<Operand> {
        let ProgramBuffer { buffer, count, datatype } = self;
        let count = u64::try_from(count)
            .map_err(|_| Error::Value(ErrorKind::Count, "the count must not be negative", count))?;
        let datatype = crate::control::datatype(host, datatype)?;
        let layout = host.layout(datatype)?;
        let pattern = &layout.native;
        let len = pattern.size().checked_mul(count).filter(|len| *len <= i64::MAX as u64);
        let len = len.ok_or(Error::Usage(ErrorKind::Count, "the access is larger than the largest file"))?;
        if buffer.is_null() && len > 0 && pattern.true_lb() == 0 {
            // MPI_BOTTOM is also a null pointer; its datatypes contain addresses.
            return Err(Error::Usage(ErrorKind::Buffer, "the buffer is a null pointer"));
        }
        // SAFETY: the program promises by the MPI standard that its buffer holds count items of the datatype
        // and stays in place until the access is complete.
        let memory = unsafe { UserBuffer::of_program(buffer.cast_mut().cast(), pattern.clone(), count) }?;
        if memory.len() != len {
            return Err(Error::Usage(ErrorKind::Count, "the buffer reaches beyond the address space"));
        }
        Ok(Operand { buffer: memory, base: buffer as usize, datatype, count })
    }
}

/// One data access function.
#[derive(Clone, Copy)]
struct Access {
    call: &'static FileCall,
    direction: Direction,
    positioning: Positioning,
    coordination: Coordination,
}

impl Access {
    fn run(self, host: &'static Host, fh: usize, memory: ProgramBuffer, status: Out) -> c_int {
        on_file(host, self.call, fh, |file| {
            let bytes =
                file.access(self.direction, self.positioning, self.coordination, memory.operand(host))?;
            // SAFETY: the program's status object, or the host's MPI_STATUS_IGNORE.
            Ok(unsafe { host.set_status(status, bytes) }?)
        })
    }

    fn start(self, host: &'static Host, fh: usize, memory: ProgramBuffer, request: Out) -> c_int {
        on_file(host, self.call, fh, |file| {
            let pending =
                file.start(self.direction, self.positioning, self.coordination, memory.operand(host))?;
            // SAFETY: the program's request variable.
            let started = unsafe { host.start_request(pending.clone(), request) };
            if started.is_err() {
                // Without a request the program may reuse its memory when this call returns.
                pending.wait();
            }
            Ok(started?)
        })
    }

    fn begin(self, host: &'static Host, fh: usize, memory: ProgramBuffer) -> c_int {
        on_file(host, self.call, fh, |file| {
            file.begin(self.direction, self.positioning, memory.operand(host))
        })
    }

    fn end(self, host: &'static Host, fh: usize, buffer: *const c_void, status: Out) -> c_int {
        on_file(host, self.call, fh, |file| {
            let bytes = file.end(self.direction, self.positioning, buffer as usize)?;
            // SAFETY: the program's status object, or the host's MPI_STATUS_IGNORE.
            Ok(unsafe { host.set_status(status, bytes) }?)
        })
    }
}

type Buf = *mut c_void;
type Out = *mut c_void;

macro_rules! named {
    ($buffer:ident, $count:ident, $datatype:ident) => {
        ProgramBuffer { buffer: $buffer, count: $count.into(), datatype: $datatype }
    };
}

/// `shape name positioning direction coordination;` for each function with an int count and its `_c` variant.
macro_rules! transfers {
    ($($shape:ident $name:ident $pname:ident $symbol:literal $name_c:ident $pname_c:ident $symbol_c:literal:
        $direction:ident $positioning:ident $coordination:ident;)+) => {$(
        transfers!(@$shape c_int, $name, $pname, $symbol, $direction, $positioning, $coordination);
        transfers!(@$shape i64, $name_c, $pname_c, $symbol_c, $direction, $positioning, $coordination);
    )+};
    (@access $name:ident, $direction:ident, At, $coordination:ident, $offset:ident) => {
        Access { call: const { &FileCall::named(stringify!($name)) }, direction: Direction::$direction, positioning: Positioning::At($offset), coordination: Coordination::$coordination }
    };
    (@access $name:ident, $direction:ident, $positioning:ident, $coordination:ident) => {
        Access { call: const { &FileCall::named(stringify!($name)) }, direction: Direction::$direction, positioning: Positioning::$positioning, coordination: Coordination::$coordination }
    };
    (@run $count:ty, $name:ident, $pname:ident, $symbol:literal, $direction:ident, At, $coordination:ident) => { export! {
        fn $name, $pname, $symbol (fh: usize, offset: i64, buf: Buf, count: $count, datatype: usize, status: Out) -> c_int
            = |host| transfers!(@access $name, $direction, At, $coordination, offset).run(host, fh, named!(buf, count, datatype), status),
            else unserved();
    } };
    (@run $count:ty, $name:ident, $pname:ident, $symbol:literal, $direction:ident, $positioning:ident, $coordination:ident) => { export! {
        fn $name, $pname, $symbol (fh: usize, buf: Buf, count: $count, datatype: usize, status: Out) -> c_int
            = |host| transfers!(@access $name, $direction, $positioning, $coordination).run(host, fh, named!(buf, count, datatype), status),
            else unserved();
    } };
    (@start $count:ty, $name:ident, $pname:ident, $symbol:literal, $direction:ident, At, $coordination:ident) => { export! {
        fn $name, $pname, $symbol (fh: usize, offset: i64, buf: Buf, count: $count, datatype: usize, request: Out) -> c_int
            = |host| transfers!(@access $name, $direction, At, $coordination, offset).start(host, fh, named!(buf, count, datatype), request),
            else unserved();
    } };
    (@start $count:ty, $name:ident, $pname:ident, $symbol:literal, $direction:ident, $positioning:ident, $coordination:ident) => { export! {
        fn $name, $pname, $symbol (fh: usize, buf: Buf, count: $count, datatype: usize, request: Out) -> c_int
            = |host| transfers!(@access $name, $direction, $positioning, $coordination).start(host, fh, named!(buf, count, datatype), request),
            else unserved();
    } };
    (@begin $count:ty, $name:ident, $pname:ident, $symbol:literal, $direction:ident, At, $coordination:ident) => { export! {
        fn $name, $pname, $symbol (fh: usize, offset: i64, buf: Buf, count: $count, datatype: usize) -> c_int
            = |host| transfers!(@access $name, $direction, At, $coordination, offset).begin(host, fh, named!(buf, count, datatype)),
            else unserved();
    } };
    (@begin $count:ty, $name:ident, $pname:ident, $symbol:literal, $direction:ident, $positioning:ident, $coordination:ident) => { export! {
        fn $name, $pname, $symbol (fh: usize, buf: Buf, count: $count, datatype: usize) -> c_int
            = |host| transfers!(@access $name, $direction, $positioning, $coordination).begin(host, fh, named!(buf, count, datatype)),
            else unserved();
    } };
}

transfers! {
    run MPI_File_read_at PMPI_File_read_at c"PMPI_File_read_at" MPI_File_read_at_c PMPI_File_read_at_c c"PMPI_File_read_at_c": Read At Independent;
    run MPI_File_read_at_all PMPI_File_read_at_all c"PMPI_File_read_at_all" MPI_File_read_at_all_c PMPI_File_read_at_all_c c"PMPI_File_read_at_all_c": Read At Collective;
    run MPI_File_read PMPI_File_read c"PMPI_File_read" MPI_File_read_c PMPI_File_read_c c"PMPI_File_read_c": Read Individual Independent;
    run MPI_File_read_all PMPI_File_read_all c"PMPI_File_read_all" MPI_File_read_all_c PMPI_File_read_all_c c"PMPI_File_read_all_c": Read Individual Collective;
    run MPI_File_read_shared PMPI_File_read_shared c"PMPI_File_read_shared" MPI_File_read_shared_c PMPI_File_read_shared_c c"PMPI_File_read_shared_c": Read Shared Independent;
    run MPI_File_read_ordered PMPI_File_read_ordered c"PMPI_File_read_ordered" MPI_File_read_ordered_c PMPI_File_read_ordered_c c"PMPI_File_read_ordered_c": Read Ordered Collective;
    run MPI_File_write_at PMPI_File_write_at c"PMPI_File_write_at" MPI_File_write_at_c PMPI_File_write_at_c c"PMPI_File_write_at_c": Write At Independent;
    run MPI_File_write_at_all PMPI_File_write_at_all c"PMPI_File_write_at_all" MPI_File_write_at_all_c PMPI_File_write_at_all_c c"PMPI_File_write_at_all_c": Write At Collective;
    run MPI_File_write PMPI_File_write c"PMPI_File_write" MPI_File_write_c PMPI_File_write_c c"PMPI_File_write_c": Write Individual Independent;
    run MPI_File_write_all PMPI_File_write_all c"PMPI_File_write_all" MPI_File_write_all_c PMPI_File_write_all_c c"PMPI_File_write_all_c": Write Individual Collective;
    run MPI_File_write_shared PMPI_File_write_shared c"PMPI_File_write_shared" MPI_File_write_shared_c PMPI_File_write_shared_c c"PMPI_File_write_shared_c": Write Shared Independent;
    run MPI_File_write_ordered PMPI_File_write_ordered c"PMPI_File_write_ordered" MPI_File_write_ordered_c PMPI_File_write_ordered_c c"PMPI_File_write_ordered_c": Write Ordered Collective;
    start MPI_File_iread_at PMPI_File_iread_at c"PMPI_File_iread_at" MPI_File_iread_at_c PMPI_File_iread_at_c c"PMPI_File_iread_at_c": Read At Independent;
    start MPI_File_iread_at_all PMPI_File_iread_at_all c"PMPI_File_iread_at_all" MPI_File_iread_at_all_c PMPI_File_iread_at_all_c c"PMPI_File_iread_at_all_c": Read At Collective;
    start MPI_File_iread PMPI_File_iread c"PMPI_File_iread" MPI_File_iread_c PMPI_File_iread_c c"PMPI_File_iread_c": Read Individual Independent;
    start MPI_File_iread_all PMPI_File_iread_all c"PMPI_File_iread_all" MPI_File_iread_all_c PMPI_File_iread_all_c c"PMPI_File_iread_all_c": Read Individual Collective;
    start MPI_File_iread_shared PMPI_File_iread_shared c"PMPI_File_iread_shared" MPI_File_iread_shared_c PMPI_File_iread_shared_c c"PMPI_File_iread_shared_c": Read Shared Independent;
    start MPI_File_iwrite_at PMPI_File_iwrite_at c"PMPI_File_iwrite_at" MPI_File_iwrite_at_c PMPI_File_iwrite_at_c c"PMPI_File_iwrite_at_c": Write At Independent;
    start MPI_File_iwrite_at_all PMPI_File_iwrite_at_all c"PMPI_File_iwrite_at_all" MPI_File_iwrite_at_all_c PMPI_File_iwrite_at_all_c c"PMPI_File_iwrite_at_all_c": Write At Collective;
    start MPI_File_iwrite PMPI_File_iwrite c"PMPI_File_iwrite" MPI_File_iwrite_c PMPI_File_iwrite_c c"PMPI_File_iwrite_c": Write Individual Independent;
    start MPI_File_iwrite_all PMPI_File_iwrite_all c"PMPI_File_iwrite_all" MPI_File_iwrite_all_c PMPI_File_iwrite_all_c c"PMPI_File_iwrite_all_c": Write Individual Collective;
    start MPI_File_iwrite_shared PMPI_File_iwrite_shared c"PMPI_File_iwrite_shared" MPI_File_iwrite_shared_c PMPI_File_iwrite_shared_c c"PMPI_File_iwrite_shared_c": Write Shared Independent;
    begin MPI_File_read_at_all_begin PMPI_File_read_at_all_begin c"PMPI_File_read_at_all_begin" MPI_File_read_at_all_begin_c PMPI_File_read_at_all_begin_c c"PMPI_File_read_at_all_begin_c": Read At Collective;
    begin MPI_File_read_all_begin PMPI_File_read_all_begin c"PMPI_File_read_all_begin" MPI_File_read_all_begin_c PMPI_File_read_all_begin_c c"PMPI_File_read_all_begin_c": Read Individual Collective;
    begin MPI_File_read_ordered_begin PMPI_File_read_ordered_begin c"PMPI_File_read_ordered_begin" MPI_File_read_ordered_begin_c PMPI_File_read_ordered_begin_c c"PMPI_File_read_ordered_begin_c": Read Ordered Collective;
    begin MPI_File_write_at_all_begin PMPI_File_write_at_all_begin c"PMPI_File_write_at_all_begin" MPI_File_write_at_all_begin_c PMPI_File_write_at_all_begin_c c"PMPI_File_write_at_all_begin_c": Write At Collective;
    begin MPI_File_write_all_begin PMPI_File_write_all_begin c"PMPI_File_write_all_begin" MPI_File_write_all_begin_c PMPI_File_write_all_begin_c c"PMPI_File_write_all_begin_c": Write Individual Collective;
    begin MPI_File_write_ordered_begin PMPI_File_write_ordered_begin c"PMPI_File_write_ordered_begin" MPI_File_write_ordered_begin_c PMPI_File_write_ordered_begin_c c"PMPI_File_write_ordered_begin_c": Write Ordered Collective;
}

/// The end functions of split accesses.
macro_rules! ends {
    ($($name:ident $pname:ident $symbol:literal: $direction:ident $positioning:expr;)+) => { export! {$(
        fn $name, $pname, $symbol (fh: usize, buf: Buf, status: Out) -> c_int
            = |host| Access {
                call: const { &FileCall::named(stringify!($name)) },
                direction: Direction::$direction,
                positioning: $positioning,
                coordination: Coordination::Collective,
            }.end(host, fh, buf, status),
            else unserved();
    )+} };
}

ends! {
    MPI_File_read_at_all_end PMPI_File_read_at_all_end c"PMPI_File_read_at_all_end": Read Positioning::At(0);
    MPI_File_read_all_end PMPI_File_read_all_end c"PMPI_File_read_all_end": Read Positioning::Individual;
    MPI_File_read_ordered_end PMPI_File_read_ordered_end c"PMPI_File_read_ordered_end": Read Positioning::Ordered;
    MPI_File_write_at_all_end PMPI_File_write_at_all_end c"PMPI_File_write_at_all_end": Write Positioning::At(0);
    MPI_File_write_all_end PMPI_File_write_all_end c"PMPI_File_write_all_end": Write Positioning::Individual;
    MPI_File_write_ordered_end PMPI_File_write_ordered_end c"PMPI_File_write_ordered_end": Write Positioning::Ordered;
}
