//! The crate's functions behind a C interface, for the C programs under `tests/c`.
//!
//! It also exports a few `PMPI_*` names that end the program, standing in front of the host's as
//! `libpario.so` stands with its `PMPI_File_*`: reaching one proves that a name was bound wrongly.

use pario_mpi_host::{AbiFamily, Host, HostError, InfoHandle, Pending, Reduce, host};
use pario_view::{Cursor, Pattern};
use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

fn the_host() -> &'static Host {
    host().unwrap_or_else(|why| panic!("{why}"))
}

fn code(result: Result<(), HostError>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("probe: {error}");
            the_host().class(error.kind())
        }
    }
}

macro_rules! own_names {
    ($($name:ident),*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            eprintln!("probe: {} was bound to our own export", stringify!($name));
            std::process::abort()
        })*
    };
}
own_names!(PMPI_File_create_errhandler, PMPI_Type_get_envelope_x, PMPI_Scan);

#[unsafe(no_mangle)]
extern "C" fn probe_family() -> c_int {
    match host() {
        Ok(host) => match host.family() {
            AbiFamily::Mpich => 1,
            AbiFamily::OpenMpi => 2,
            AbiFamily::Standard => 3,
        },
        Err(why) => {
            eprintln!("probe: {why}");
            0
        }
    }
}

/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn probe_constant(name: *const c_char, found: *mut c_int) -> c_longlong {
    // SAFETY: the test program's.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let value = the_host().constants().all().into_iter().find(|c| c.0 == name);
    // SAFETY: the test program's.
    unsafe { *found = c_int::from(value.is_some()) };
    value.map_or(0, |v| v.1)
}

/// Copies the data of `count` instances at `base` to `out` in typemap order; bytes or -1-class.
///
/// # Safety
/// `base` holds the instances and `out` has room for their data.
#[unsafe(no_mangle)]
unsafe extern "C" fn probe_gather(
    raw: usize,
    count: c_int,
    base: *const u8,
    out: *mut u8,
    typed: c_int,
) -> c_longlong {
    let host = the_host();
    let datatype = host.datatype(raw);
    let pattern = match typed {
        0 => host.layout(datatype).map(|l| l.native.clone()),
        _ => host.typed(datatype),
    };
    let pattern = match pattern {
        Ok(pattern) => pattern,
        Err(error) => return -1 - c_longlong::from(code(Err(error))),
    };
    let mut cursor = Cursor::over(&pattern, count as u64, 0);
    let mut at = 0usize;
    while let Some(piece) = cursor.next_piece(u64::MAX) {
        // SAFETY: the test program's.
        unsafe {
            let from = base.offset(piece.offset as isize);
            std::ptr::copy_nonoverlapping(from, out.add(at), piece.len as usize);
        }
        at += piece.len as usize;
    }
    at as c_longlong
}

/// Size, lower bound, extent, true lower bound, true upper bound, external32 size, named.
///
/// # Safety
/// `out` has room for seven numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn probe_facts(raw: usize, out: *mut c_longlong) -> c_int {
    let host = the_host();
    let facts = |native: &Pattern, external: &Pattern, named: bool| {
        let size = [native.size() as i64, native.lb(), native.extent(), native.true_lb(), native.true_ub()];
        [size[0], size[1], size[2], size[3], size[4], external.size() as i64, i64::from(named)]
    };
    let datatype = host.datatype(raw);
    let facts = host
        .layout(datatype)
        .and_then(|layout| Ok(facts(&layout.native, &host.external(datatype)?, layout.named)));
    code(facts.map(|facts| {
        // SAFETY: the test program's.
        unsafe { std::ptr::copy_nonoverlapping(facts.as_ptr(), out, facts.len()) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn probe_layout(raw: usize) -> c_int {
    code(the_host().layout(the_host().datatype(raw)).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn probe_decode(raw: usize) -> c_int {
    code(the_host().decode(the_host().datatype(raw)).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn probe_known_layouts() -> c_int {
    the_host().known_layouts() as c_int
}

#[unsafe(no_mangle)]
extern "C" fn probe_check_comm(raw: usize) -> c_int {
    code(the_host().check_comm(the_host().comm(raw)))
}

#[unsafe(no_mangle)]
extern "C" fn probe_check_info(raw: usize) -> c_int {
    code(the_host().check_info(the_host().info(raw)))
}

/// Exercises every collective; 0 if all gave what they should.
#[unsafe(no_mangle)]
extern "C" fn probe_comm(raw: usize) -> c_int {
    fn all(raw: usize) -> Result<bool, HostError> {
        let comm = the_host().comm(raw);
        let own = comm.dup()?;
        let (rank, size) = (u64::from(own.rank()?), u64::from(own.size()?));
        let mut good = !own.is_inter()? && own.is_congruent(comm)?;
        own.barrier()?;
        let mut text = *if rank == 0 { b"from zero" } else { b"elsewhere" };
        own.bcast(&mut text, 0)?;
        good &= &text == b"from zero";
        let reduced = |how| {
            let mut data = [rank, 1 << rank];
            own.allreduce_u64(&mut data, how).map(|()| data)
        };
        good &= reduced(Reduce::Min)? == [0, 1];
        good &= reduced(Reduce::Max)? == [size - 1, 1 << (size - 1)];
        good &= reduced(Reduce::Sum)? == [size * (size - 1) / 2, (1 << size) - 1];
        good &= reduced(Reduce::Bor)?[1] == (1 << size) - 1;
        good &= own.scan_sum_u64(rank + (1 << 40))? == (rank + 1) * (1 << 40) + rank * (rank + 1) / 2;
        let everybody: Vec<u64> = (0..size).flat_map(|r| [r, r * r]).collect();
        good &= own.allgather_u64(&[rank, rank * rank])? == everybody;
        good &= own.allgather(&[rank as u8])? == (0..size as u8).collect::<Vec<_>>();
        own.free()?;
        Ok(good)
    }
    match all(raw) {
        Ok(true) => 0,
        Ok(false) => -1,
        Err(error) => code(Err(error)),
    }
}

/// # Safety
/// `status` is a status or ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn probe_status(status: *mut c_void, bytes: c_longlong) -> c_int {
    // SAFETY: the test program's.
    code(unsafe { the_host().set_status(status, bytes as u64) })
}

/// Copies an info object pair by pair.
///
/// # Safety
/// `out` is an `MPI_Info *`.
#[unsafe(no_mangle)]
unsafe extern "C" fn probe_copy_info(raw: usize, out: *mut c_void) -> c_int {
    let host = the_host();
    let copy = host.info_pairs(host.info(raw)).and_then(|pairs| {
        let again: InfoHandle = host.new_info(&pairs)?;
        let copy = host.dup_info(again)?;
        host.free_info(again)?;
        Ok(copy)
    });
    // SAFETY: the test program's.
    code(copy.map(|info| unsafe { host.store(out, info.raw()) }))
}

/// Makes a file error handler and sends it through Fortran and back.
///
/// # Safety
/// `out` is an `MPI_Errhandler *`.
#[unsafe(no_mangle)]
unsafe extern "C" fn probe_errhandler(out: *mut c_void) -> c_int {
    let host = the_host();
    let made = host.new_file_errhandler().and_then(|handler| {
        host.check_errhandler(handler)?;
        host.errhandler_f2c(host.errhandler_c2f(handler)?)
    });
    // SAFETY: the test program's.
    code(made.map(|handler| unsafe { host.store(out, handler.raw()) }))
}

#[unsafe(no_mangle)]
extern "C" fn probe_at_finalize() -> c_int {
    fn hook() {
        // MPI must still work here.
        let host = the_host();
        let size = host.comm(host.constants().handle.comm_world).allgather_u64(&[1]).map(|all| all.len());
        println!("hook {}", if size.is_ok() && !host.finalized() { "good" } else { "bad" });
    }
    code(the_host().at_finalize(hook).and_then(|()| the_host().at_finalize(hook)))
}

/// An operation that is done after some polls, or when a thread says so, or when it is waited for.
struct Countdown {
    polls: AtomicI64,
    bytes: u64,
    signal: Option<Arc<(Mutex<bool>, Condvar)>>,
}

static ALIVE: AtomicI64 = AtomicI64::new(0);

impl Pending for Countdown {
    fn poll(&self) -> Option<u64> {
        let done = match &self.signal {
            Some(signal) => *signal.0.lock().unwrap(),
            None => self.polls.fetch_sub(1, Ordering::Relaxed) <= 0,
        };
        done.then_some(self.bytes)
    }

    fn wait(&self) -> u64 {
        if let Some(signal) = &self.signal {
            drop(signal.1.wait_while(signal.0.lock().unwrap(), |done| !*done).unwrap());
        }
        self.bytes
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts an operation that is done after `polls` polls, or, if negative, when a thread has run.
///
/// # Safety
/// `out` is an `MPI_Request *`.
#[unsafe(no_mangle)]
unsafe extern "C" fn probe_start(polls: c_longlong, bytes: c_longlong, out: *mut c_void) -> c_int {
    let signal = (polls < 0).then(Arc::<(Mutex<bool>, Condvar)>::default);
    if let Some(signal) = signal.clone() {
        std::thread::spawn(move || {
            *signal.0.lock().unwrap() = true;
            signal.1.notify_all();
        });
    }
    ALIVE.fetch_add(1, Ordering::Relaxed);
    let op = Countdown { polls: AtomicI64::new(polls), bytes: bytes as u64, signal };
    // SAFETY: the test program's.
    code(unsafe { the_host().start_request(Arc::new(op), out) })
}

#[unsafe(no_mangle)]
extern "C" fn probe_alive() -> c_longlong {
    ALIVE.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
extern "C" fn probe_poll() {
    the_host().poll_requests();
}

/// Shows a datatype as decoded, for a failing test.
#[unsafe(no_mangle)]
extern "C" fn probe_show(raw: usize) {
    eprintln!("{:?}", the_host().decode(the_host().datatype(raw)));
}
