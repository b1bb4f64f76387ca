//! Error handlers: host objects that represent the handlers of files.
//!
//! The host allocates the handle, so that the program can free it with the host's function and the Fortran layer can
//! convert it. The caller stores the function of the handler.

use crate::abi::AbiFamily;
use crate::error::HostError;
use crate::handles::{ErrhandlerHandle, Host};
use crate::validity::word_at;
use std::ffi::{CStr, c_char, c_int, c_void};

impl Host {
    /// A new error handler object for files. The host never calls it.
    pub fn new_file_errhandler(&self) -> Result<ErrhandlerHandle, HostError> {
        let mut raw = 0;
        // SAFETY: the stub takes the two fixed arguments of the variadic C type; writes one handle.
        let code = unsafe { (self.f.file_create_errhandler)(stub, &mut raw) };
        self.check("MPI_File_create_errhandler", code)?;
        Ok(ErrhandlerHandle(self.handle(raw)))
    }

    /// Frees an error handler.
    pub fn free_errhandler(&self, errhandler: ErrhandlerHandle) -> Result<(), HostError> {
        let mut raw = errhandler.0;
        // SAFETY: a handle variable of ours, overwritten with the null handle.
        self.check("MPI_Errhandler_free", unsafe { (self.f.errhandler_free)(&mut raw) })
    }

    /// The Fortran integer of an error handler. In MPICH both are the same number.
    pub fn errhandler_c2f(&self, errhandler: ErrhandlerHandle) -> Result<c_int, HostError> {
        let address = match self.family() {
            AbiFamily::Mpich => return Ok(errhandler.0 as u32 as c_int),
            AbiFamily::OpenMpi => self.conversion(c"PMPI_Errhandler_c2f")?,
            AbiFamily::Standard => self.conversion(c"PMPI_Errhandler_toint")?,
        };
        // SAFETY: both functions take a handle, a pointer here, and return an int.
        let convert =
            unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn(usize) -> c_int>(address) };
        // SAFETY: a handle by value.
        Ok(unsafe { convert(errhandler.0) })
    }

    /// The error handler of a Fortran integer.
    pub fn errhandler_f2c(&self, fortran: c_int) -> Result<ErrhandlerHandle, HostError> {
        let address = match self.family() {
            AbiFamily::Mpich => return Ok(ErrhandlerHandle(fortran as u32 as usize)),
            AbiFamily::OpenMpi => self.conversion(c"PMPI_Errhandler_f2c")?,
            AbiFamily::Standard => self.conversion(c"PMPI_Errhandler_fromint")?,
        };
        // SAFETY: both functions take an int and return a handle, a pointer here.
        let convert =
            unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn(c_int) -> usize>(address) };
        // SAFETY: an int by value; the host checks its table.
        Ok(ErrhandlerHandle(unsafe { convert(fortran) }))
    }

    fn conversion(&self, name: &'static CStr) -> Result<*const c_void, HostError> {
        self.symbol(name).ok_or(HostError::Missing(name.to_str().unwrap_or_default()))
    }

    /// Whether this is a handler for files that Open MPI's C++ binding has created. It creates them without
    /// `MPI_File_create_errhandler`.
    pub fn is_cxx_file_errhandler(&self, errhandler: ErrhandlerHandle) -> bool {
        if self.family() != AbiFamily::OpenMpi || self.symbol(INVOKE).is_none() {
            return false;
        }
        let (Ok(()), Ok(reference)) = (self.check_errhandler(errhandler), self.new_file_errhandler()) else {
            return false;
        };
        let known = kind_and_language(reference.0);
        let found = kind_and_language(errhandler.0);
        let _ = self.free_errhandler(reference);
        known == Some((KIND_FILE, LANGUAGE_C)) && found == Some((KIND_FILE, LANGUAGE_CXX))
    }

    /// Has Open MPI call one of its handlers for files. Returns the error code that the handler leaves.
    pub fn invoke_errhandler(&self, errhandler: ErrhandlerHandle, file: usize, code: c_int) -> c_int {
        type Invoke = unsafe extern "C-unwind" fn(usize, usize, c_int, c_int, *const c_char) -> c_int;
        let Some(address) = self.symbol(INVOKE) else { return code };
        // SAFETY: Open MPI's function of this name; it passes the file on and does not look into it.
        let invoke = unsafe { std::mem::transmute::<*const c_void, Invoke>(address) };
        // SAFETY: a handler that `is_cxx_file_errhandler` has recognised.
        unsafe { invoke(errhandler.0, file, KIND_FILE as c_int, code, c"MPI-IO".as_ptr()) }
    }

    /// `MPI_ERRORS_ARE_FATAL`.
    pub fn errors_are_fatal(&self) -> ErrhandlerHandle {
        ErrhandlerHandle(self.constants.handle.errors_are_fatal)
    }

    /// `MPI_ERRORS_RETURN`.
    pub fn errors_return(&self) -> ErrhandlerHandle {
        ErrhandlerHandle(self.constants.handle.errors_return)
    }

    /// `MPI_ERRORS_ABORT`, if the host has it.
    pub fn errors_abort(&self) -> Option<ErrhandlerHandle> {
        self.constants.errors_abort.map(ErrhandlerHandle)
    }
}

/// Open MPI's function that calls a handler of any language.
const INVOKE: &CStr = c"ompi_errhandler_invoke";

/// Open MPI's numbers for the kind of object that a handler is for, and for its language.
const KIND_FILE: u32 = 3;
const LANGUAGE_C: u32 = 0;
const LANGUAGE_CXX: u32 = 1;

/// Kind and language in an error handler of Open MPI: after 16 bytes of every object and a name of 64 bytes.
fn kind_and_language(raw: usize) -> Option<(u32, u32)> {
    let word = word_at(raw.checked_add(80)?)?;
    Some((word as u32, (word >> 32) as u32))
}

unsafe extern "C" fn stub(_: *mut c_void, _: *mut c_int) {}
