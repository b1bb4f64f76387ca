//! The frame of every exported function: pass-through, panic boundary, error handling.

use std::ffi::{CStr, c_int, c_void};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pario_mpi_host::{Host, host};
use pario_mpiio::{Error, FileCall, MpiFile, Result, env, handles, is_forked, tracing, warn, watch_forks};
use pario_trace::{StatsTo, TracedOp, counters};
use pario_types::ErrorKind;

use crate::errhandler;

/// The implementation of MPI-IO in this process.
pub(crate) enum Mode {
    /// Pario, with the host's communication.
    Pario(&'static Host),
    /// The host itself.
    PassThrough,
    /// None: a process that Pario serves has forked this one.
    Forked,
}

/// The mode of this process, chosen at the first call.
pub(crate) fn mode() -> &'static Mode {
    static MODE: OnceLock<Mode> = OnceLock::new();
    // This check comes first: a thread of the parent may hold any lock.
    if is_forked() {
        return &Mode::Forked;
    }
    MODE.get_or_init(|| match host() {
        Ok(_) if env().disable => Mode::PassThrough,
        Ok(host) => {
            watch_forks();
            if let Err(e) = host.at_finalize(at_finalize) {
                warn(&format!("no hook at MPI_Finalize ({e}): close every file before it"));
            }
            Mode::Pario(host)
        }
        Err(unrecognised) => {
            if !env().disable {
                warn(&format!("{unrecognised}; its own MPI-IO is used"));
            }
            Mode::PassThrough
        }
    })
}

/// The host's own function with this name. If the host has none, prints a line and returns `None`.
pub(crate) fn host_function(name: &'static CStr) -> Option<*const c_void> {
    let found = match host() {
        Ok(host) => host.symbol(name),
        Err(unrecognised) => unrecognised.symbol(name),
    };
    if found.is_none() {
        warn(&format!("the host MPI has no function {}", name.to_string_lossy()));
    }
    found
}

/// The result of a function that no implementation serves: MPI_ERR_INTERN if the host does not have it, MPI_ERR_FILE
/// in a forked child, if the ABI is known.
pub(crate) fn unserved() -> c_int {
    let kind = if is_forked() { ErrorKind::File } else { ErrorKind::Intern };
    host().map_or(16, |host| host.class(kind))
}

/// Says once that a forked child cannot use the files. Takes no lock, because a thread of the parent may hold it.
pub(crate) fn warn_about_fork() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        let line = b"pario: a forked child cannot use the files of its parent: use them in the parent, or execute another \
                     program\n";
        // SAFETY: not closed here; where the program has closed it, writing fails.
        let stderr = ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(2) });
        let _ = (&*stderr).write_all(line);
    }
}

/// Runs at the start of MPI_Finalize: completes all accesses, and prints the counters if the user asked for them.
fn at_finalize() {
    if is_forked() {
        return;
    }
    let settled = catch_unwind(|| {
        pario_mpiio::quiesce_all();
        tracing::finish();
        if env().stats != StatsTo::Off
            && let Ok(host) = host()
        {
            let rank = host.world_rank();
            eprintln!("{}", counters().line(rank));
        }
    });
    if settled.is_err() {
        warn("a bug in Pario was met at MPI_Finalize; please report it with the message above");
    }
}

/// Runs `f` on the open file of a handle; a failure goes to that file's error handler.
pub(crate) fn on_file(
    host: &'static Host,
    call: &FileCall,
    handle: usize,
    f: impl FnOnce(&Arc<MpiFile>) -> Result<()>,
) -> c_int {
    let name = call.name;
    let file = handles::get(handle);
    let _in_progress = file.as_deref().ok().map(|file| file.begin_call(call));
    let handler = file.as_deref().map_or_else(|_| errhandler::of_null(host), |f| errhandler::of(host, f));
    let traced = env().trace.as_ref().and_then(|_| ControlCall::of(name));
    // Data accesses, which may be frequent, are recorded elsewhere.
    let traced = traced.map(|control| (control, Instant::now(), file.as_ref().ok().cloned()));
    let outcome = guard(|| f(&file?));
    if let Some((control, start, file)) = traced {
        control.record(host, file.as_deref(), start, &outcome);
    }
    report_outcome(host, name, handle, handler, outcome)
}

/// Runs `f` without an open file; a failure goes to the error handler of MPI_FILE_NULL.
pub(crate) fn on_null(host: &'static Host, name: &'static str, f: impl FnOnce() -> Result<()>) -> c_int {
    let start = Instant::now();
    let outcome = guard(f);
    if let Some(control) = ControlCall::of(name) {
        control.record(host, None, start, &outcome);
    }
    report_outcome(host, name, host.file_null(), errhandler::of_null(host), outcome)
}

/// A traced call that moves no data. Data accesses are recorded where their offsets are known.
struct ControlCall {
    op: TracedOp,
    collective: bool,
}

impl ControlCall {
    fn of(name: &str) -> Option<ControlCall> {
        let (op, collective) = match name {
            "MPI_File_open" => (TracedOp::Open, true),
            "MPI_File_close" => (TracedOp::Close, true),
            "MPI_File_delete" => (TracedOp::Delete, false),
            "MPI_File_sync" => (TracedOp::Sync, true),
            "MPI_File_set_view" => (TracedOp::SetView, true),
            "MPI_File_set_size" => (TracedOp::SetSize, true),
            "MPI_File_preallocate" => (TracedOp::Preallocate, true),
            "MPI_File_set_info" => (TracedOp::SetInfo, true),
            "MPI_File_set_atomicity" => (TracedOp::SetAtomicity, true),
            "MPI_File_get_size" => (TracedOp::GetSize, false),
            "MPI_File_seek" | "MPI_File_seek_shared" => (TracedOp::Seek, name.ends_with("shared")),
            _ => return None,
        };
        Some(ControlCall { op, collective })
    }

    fn record(&self, host: &'static Host, file: Option<&MpiFile>, start: Instant, outcome: &Result<()>) {
        let failure = outcome.as_ref().err();
        let class = failure.map_or(0, |e| host.class(e.kind()));
        tracing::record_control(self.op, self.collective, file.map(MpiFile::trace_id), start, failure, class);
    }
}

fn guard(f: impl FnOnce() -> Result<()>) -> Result<()> {
    counters().calls.add(1);
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(Err(Error::Usage(
        ErrorKind::Intern,
        "a bug in Pario was met; please report it with the message above",
    )))
}

fn report_outcome(
    host: &'static Host,
    name: &str,
    handle: usize,
    handler: usize,
    outcome: Result<()>,
) -> c_int {
    let Err(error) = outcome else { return 0 };
    counters().errors.add(1);
    let class = host.class(error.kind());
    if env().verbose {
        warn(&format!("rank {}: {name}: {error}", host.world_rank()));
    }
    errhandler::invoke(host, handler, handle, class, &|| format!("{name}: {error}"))
}

/// Exports functions, each under its MPI_ and its PMPI_ name.
///
/// `fn MPI_x, PMPI_x, c"PMPI_x" (args) -> R = |host| body, else value-where-the-host-has-none;`
///
/// The macro expands the body into both functions. Neither calls the other, because a tool in front of Pario may
/// define either name.
macro_rules! export {
    ($(
        fn $name:ident, $pname:ident, $symbol:literal $args:tt -> $ret:ty
            = |$host:ident| $body:expr, else $missing:expr;
    )+) => {$(
        $crate::boundary::export!(@one $name, $symbol, $args, $ret, $host, $body, $missing);
        $crate::boundary::export!(@one $pname, $symbol, $args, $ret, $host, $body, $missing);
    )+};
    (@one $name:ident, $symbol:literal, ($($arg:ident : $ty:ty),* $(,)?), $ret:ty,
     $host:ident, $body:expr, $missing:expr) => {
        #[unsafe(no_mangle)]
        #[doc = concat!("The MPI standard's `", stringify!($name), "`.\n\n# Safety\nAs the standard demands.")]
        // An error handler in C++ may throw an exception through this function.
        pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
            match $crate::boundary::mode() {
                $crate::boundary::Mode::Pario($host) => $body,
                $crate::boundary::Mode::Forked => {
                    $crate::boundary::warn_about_fork();
                    $missing
                }
                $crate::boundary::Mode::PassThrough => {
                    static HOST_FUNCTION: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
                    let host_function_ptr = HOST_FUNCTION.get_or_init(|| {
                        $crate::boundary::host_function($symbol).map(|function| function as usize)
                    });
                    let Some(host_function_ptr) = *host_function_ptr else { return $missing };
                    // SAFETY: the host's function of this name has this signature, by the MPI standard;
                    // handles narrower than a register lie in its low half, as C passes them.
                    unsafe {
                        let host_function_ptr = std::mem::transmute::<usize, unsafe extern "C" fn($($ty),*) -> $ret>(host_function_ptr);
                        host_function_ptr($($arg),*)
                    }
                }
            }
        }
    };
}

pub(crate) use export;
