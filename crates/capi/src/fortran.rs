//! Fortran: file numbers (`MPI_File_c2f`, in MPI-5 also `MPI_File_toint`), and error handlers whose function is a Fortran subroutine.
//!
//! The hosts' Fortran wrappers call the C names for all other functions. For MPI_File_create_errhandler they pass the
//! subroutine as if it were a C function and mark the language inside the host. So this module exports the creators
//! under every name mangling that compilers use.

use std::ffi::c_int;

use pario_mpiio::handles;

use crate::boundary::{Mode, export, host_function, mode, on_null, unserved};
use crate::errhandler::{Language, create};

export! {
    fn MPI_File_c2f, PMPI_File_c2f, c"PMPI_File_c2f" (fh: usize) -> c_int
        = |_host| handles::to_fortran(fh), else 0;
    fn MPI_File_f2c, PMPI_File_f2c, c"PMPI_File_f2c" (number: c_int) -> usize
        = |host| handles::from_fortran(number).unwrap_or(host.file_null()), else 0;
    fn MPI_File_toint, PMPI_File_toint, c"PMPI_File_toint" (fh: usize) -> c_int
        = |_host| handles::to_fortran(fh), else 0;
    fn MPI_File_fromint, PMPI_File_fromint, c"PMPI_File_fromint" (number: c_int) -> usize
        = |host| handles::from_fortran(number).unwrap_or(host.file_null()), else 0;
}

/// The implementation of all names of the creator. `ierror` is optional in `mpi_f08`.
///
/// # Safety
///
/// `handler` points to an INTEGER; `ierror` is null or points to one.
unsafe fn create_errhandler(
    function: usize,
    handler: *mut c_int,
    ierror: *mut c_int,
    name: &'static std::ffi::CStr,
) {
    let code = match mode() {
        Mode::Pario(host) => on_null(host, "MPI_FILE_CREATE_ERRHANDLER", || {
            let handle = create(host, function, Language::Fortran)?;
            crate::control::put(handler, host.errhandler_c2f(handle)?)
        }),
        Mode::PassThrough => match host_function(name) {
            Some(host_function_ptr) => {
                // SAFETY: the host's creator of this very name takes these arguments.
                unsafe {
                    let host_function_ptr = std::mem::transmute::<
                        *const std::ffi::c_void,
                        unsafe extern "C" fn(usize, *mut c_int, *mut c_int),
                    >(host_function_ptr);
                    return host_function_ptr(function, handler, ierror);
                }
            }
            None => unserved(),
        },
        Mode::Forked => unserved(),
    };
    if !ierror.is_null() {
        // SAFETY: the caller's.
        unsafe { ierror.write(code) };
    }
}

macro_rules! creators {
    ($($name:ident $symbol:literal),+ $(,)?) => {$(
        #[unsafe(no_mangle)]
        #[doc = concat!("`MPI_FILE_CREATE_ERRHANDLER` as `", stringify!($name), "`.\n\n# Safety\nAs the standard demands.")]
        pub unsafe extern "C" fn $name(function: usize, handler: *mut c_int, ierror: *mut c_int) {
            // SAFETY: the caller's.
            unsafe { create_errhandler(function, handler, ierror, $symbol) }
        }
    )+};
}

creators! {
    mpi_file_create_errhandler c"mpi_file_create_errhandler",
    mpi_file_create_errhandler_ c"mpi_file_create_errhandler_",
    mpi_file_create_errhandler__ c"mpi_file_create_errhandler__",
    MPI_FILE_CREATE_ERRHANDLER c"MPI_FILE_CREATE_ERRHANDLER",
    pmpi_file_create_errhandler c"pmpi_file_create_errhandler",
    pmpi_file_create_errhandler_ c"pmpi_file_create_errhandler_",
    pmpi_file_create_errhandler__ c"pmpi_file_create_errhandler__",
    PMPI_FILE_CREATE_ERRHANDLER c"PMPI_FILE_CREATE_ERRHANDLER",
    mpi_file_create_errhandler_f08_ c"mpi_file_create_errhandler_f08_",
    pmpir_file_create_errhandler_f08_ c"pmpir_file_create_errhandler_f08_",
    ompi_file_create_errhandler_f c"ompi_file_create_errhandler_f",
    MPI_File_create_errhandler_f c"MPI_File_create_errhandler_f",
    PMPI_File_create_errhandler_f c"PMPI_File_create_errhandler_f",
}
