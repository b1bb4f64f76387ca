//! The error handlers of files and of MPI_FILE_NULL. The latter applies to open and delete, and new files inherit it.
//!
//! The host creates the handle of a user's handler. Its function and its reference count are here, because only Pario
//! can call the function with a Pario file. The program's handle, each file with this handler, and each handle
//! returned by MPI_File_get_errhandler count as references. The last release frees the host's object. The program may
//! also free a predefined handler that a file returned. The host has not counted that reference, so this module
//! handles such a free.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use pario_mpi_host::{ErrhandlerHandle, Host};
use pario_mpiio::{Error, FileCall, MpiFile, Result, handles, warn};
use pario_types::ErrorKind;

use crate::boundary::{export, on_file, on_null, unserved};
use crate::control::put_handle;

/// The language of a handler's function, which decides its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// (MPI_File *, int *, ...)
    C,
    /// (INTEGER file, INTEGER code), by reference
    Fortran,
    /// A handler of Open MPI's C++ binding, which the host calls
    Cxx,
}

struct UserHandler {
    function: usize,
    language: Language,
    references: usize,
}

/// The users' handlers, by raw handle.
fn users() -> MutexGuard<'static, HashMap<usize, UserHandler>> {
    static USERS: OnceLock<Mutex<HashMap<usize, UserHandler>>> = OnceLock::new();
    USERS.get_or_init(Mutex::default).lock()
}

/// The number of handles of each predefined handler that MPI_File_get_errhandler has returned and the program has not
/// freed.
fn returned() -> MutexGuard<'static, HashMap<usize, usize>> {
    static RETURNED: OnceLock<Mutex<HashMap<usize, usize>>> = OnceLock::new();
    RETURNED.get_or_init(Mutex::default).lock()
}

/// The handler of MPI_FILE_NULL; 0 until one is set.
static OF_NULL: AtomicUsize = AtomicUsize::new(0);

fn or_errors_return(host: &Host, word: usize) -> usize {
    if word == 0 { host.constants().handle.errors_return } else { word }
}

/// The raw handle of MPI_FILE_NULL's handler.
pub(crate) fn of_null(host: &Host) -> usize {
    or_errors_return(host, OF_NULL.load(Ordering::Relaxed))
}

/// The raw handle of a file's handler.
pub(crate) fn of(host: &Host, file: &MpiFile) -> usize {
    or_errors_return(host, file.error_handler_word().load(Ordering::Relaxed))
}

fn retain(raw: usize) {
    if let Some(user) = users().get_mut(&raw) {
        user.references += 1;
    }
}

fn drop_reference(host: &'static Host, raw: usize) -> Result<()> {
    let mut users = users();
    let Some(user) = users.get_mut(&raw) else { return Ok(()) };
    user.references -= 1;
    if user.references > 0 {
        return Ok(());
    }
    users.remove(&raw);
    drop(users);
    Ok(host.free_errhandler(host.errhandler(raw))?)
}

/// Makes a new file inherit the handler of MPI_FILE_NULL.
pub(crate) fn inherit(host: &'static Host, file: &MpiFile) {
    let raw = of_null(host);
    retain(raw);
    file.error_handler_word().store(raw, Ordering::Relaxed);
}

/// Releases the handler of a closed file.
pub(crate) fn release(host: &'static Host, file: &MpiFile) {
    let raw = file.error_handler_word().swap(0, Ordering::Relaxed);
    if let Err(e) = drop_reference(host, raw) {
        warn(&format!("an error handler cannot be freed: {e}"));
    }
}

/// Invokes an error handler for a failure on the file `handle`. Returns the error code that the failed call returns: a user's handler may
/// change it, even to MPI_SUCCESS (MPI 4.1, section 9.3).
pub(crate) fn invoke(
    host: &'static Host,
    handler: usize,
    handle: usize,
    class: c_int,
    describe: &dyn Fn() -> String,
) -> c_int {
    let fixed = &host.constants().handle;
    if handler == fixed.errors_return {
        return class;
    }
    let user = users().get(&handler).map(|user| (user.function, user.language));
    match user {
        Some((function, Language::C)) => call_c(function, handle, class),
        Some((function, Language::Fortran)) => call_fortran(function, handle, class),
        Some((_, Language::Cxx)) => host.invoke_errhandler(host.errhandler(handler), handle, class),
        None => {
            warn(&format!("rank {}: {}; the error handler says to abort", host.world_rank(), describe()));
            host.abort(host.world(), class);
            class
        }
    }
}

fn call_c(function: usize, mut handle: usize, mut class: c_int) -> c_int {
    type Handler = unsafe extern "C-unwind" fn(*mut usize, *mut c_int, ...);
    // SAFETY: the program registered this function as MPI_File_errhandler_function.
    unsafe { std::mem::transmute::<usize, Handler>(function)(&mut handle, &mut class) };
    class
}

fn call_fortran(function: usize, handle: usize, mut class: c_int) -> c_int {
    let mut number = handles::to_fortran(handle);
    // SAFETY: the program registered this subroutine for (file, error code), both INTEGER by reference.
    unsafe {
        std::mem::transmute::<usize, unsafe extern "C-unwind" fn(*mut c_int, *mut c_int)>(function)(
            &mut number,
            &mut class,
        )
    };
    class
}

/// Creates a handler for a user's function.
pub(crate) fn create(host: &'static Host, function: usize, language: Language) -> Result<ErrhandlerHandle> {
    if function == 0 {
        return Err(Error::Usage(ErrorKind::Arg, "the error handler function is a null pointer"));
    }
    let handle = host.new_file_errhandler()?;
    users().insert(handle.raw(), UserHandler { function, language, references: 1 });
    Ok(handle)
}

fn is_file_handler(host: &Host, raw: usize) -> bool {
    let fixed = &host.constants().handle;
    raw == fixed.errors_return
        || raw == fixed.errors_are_fatal
        || host.constants().errors_abort == Some(raw)
        || users().contains_key(&raw)
        || adopt(host, raw)
}

/// Takes over a handler of Open MPI's C++ binding. The handle of the program is its first reference.
fn adopt(host: &Host, raw: usize) -> bool {
    let is_cxx = host.is_cxx_file_errhandler(host.errhandler(raw));
    if is_cxx {
        users().insert(raw, UserHandler { function: 0, language: Language::Cxx, references: 1 });
    }
    is_cxx
}

fn set(host: &'static Host, fh: usize, raw: usize) -> c_int {
    let raw = host.errhandler(raw).raw();
    let check = || {
        if is_file_handler(host, raw) {
            Ok(())
        } else {
            Err(Error::Usage(ErrorKind::Arg, "the error handler is not one for files"))
        }
    };
    let swap = |word: &AtomicUsize| {
        retain(raw);
        drop_reference(host, word.swap(raw, Ordering::Relaxed))
    };
    if fh == host.file_null() {
        return on_null(host, "MPI_File_set_errhandler", || check().and_then(|()| swap(&OF_NULL)));
    }
    on_file(host, const { &FileCall::named("MPI_File_set_errhandler") }, fh, |file| {
        check().and_then(|()| swap(file.error_handler_word()))
    })
}

fn get(host: &'static Host, fh: usize, out: *mut c_void) -> c_int {
    let return_handler = |raw: usize| {
        put_handle(host, out, raw)?;
        if users().contains_key(&raw) {
            retain(raw);
        } else {
            *returned().entry(raw).or_default() += 1;
        }
        Ok(())
    };
    if fh == host.file_null() {
        return on_null(host, "MPI_File_get_errhandler", || return_handler(of_null(host)));
    }
    on_file(host, const { &FileCall::named("MPI_File_get_errhandler") }, fh, |file| {
        return_handler(of(host, file))
    })
}

fn call(host: &'static Host, fh: usize, code: c_int) -> c_int {
    let describe = || format!("MPI_File_call_errhandler with error code {code}");
    if fh == host.file_null() {
        return on_null(host, "MPI_File_call_errhandler", || {
            invoke(host, of_null(host), fh, code, &describe);
            Ok(())
        });
    }
    on_file(host, const { &FileCall::named("MPI_File_call_errhandler") }, fh, |file| {
        invoke(host, of(host, file), fh, code, &describe);
        Ok(())
    })
}

fn free(host: &'static Host, handler: *mut c_void) -> c_int {
    if handler.is_null() {
        // SAFETY: the program's own argument, handed on.
        return unsafe { host.errhandler_free_raw(handler) };
    }
    // SAFETY: not null; the program passes a variable of type MPI_Errhandler.
    let raw = host.errhandler(unsafe { host.load(handler) }).raw();
    let user = users().contains_key(&raw);
    let was_returned =
        !user && returned().get_mut(&raw).is_some_and(|n| n.checked_sub(1).map(|less| *n = less).is_some());
    if !user && !was_returned {
        // SAFETY: as above.
        return unsafe { host.errhandler_free_raw(handler) };
    }
    on_null(host, "MPI_Errhandler_free", || {
        put_handle(host, handler, host.constants().handle.errhandler_null)?;
        if user { drop_reference(host, raw) } else { Ok(()) }
    })
}

export! {
    fn MPI_File_create_errhandler, PMPI_File_create_errhandler, c"PMPI_File_create_errhandler"
        (function: usize, out: *mut c_void) -> c_int
        = |host| on_null(host, "MPI_File_create_errhandler", || {
            put_handle(host, out, create(host, function, Language::C)?.raw())
        }), else unserved();
    fn MPI_File_set_errhandler, PMPI_File_set_errhandler, c"PMPI_File_set_errhandler"
        (fh: usize, errhandler: usize) -> c_int = |host| set(host, fh, errhandler), else unserved();
    fn MPI_File_get_errhandler, PMPI_File_get_errhandler, c"PMPI_File_get_errhandler"
        (fh: usize, out: *mut c_void) -> c_int = |host| get(host, fh, out), else unserved();
    fn MPI_File_call_errhandler, PMPI_File_call_errhandler, c"PMPI_File_call_errhandler"
        (fh: usize, code: c_int) -> c_int = |host| call(host, fh, code), else unserved();
    fn MPI_Errhandler_free, PMPI_Errhandler_free, c"PMPI_Errhandler_free"
        (errhandler: *mut c_void) -> c_int = |host| free(host, errhandler), else unserved();
}
