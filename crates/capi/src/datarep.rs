//! The registration of data representations, with wrappers of the program's functions.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use pario_mpi_host::TypeHandle;
use pario_mpiio::{ConversionFunctions, Error, Result};
use pario_types::ErrorKind;

use crate::boundary::{export, on_null, unserved};
use crate::control::text;

/// A conversion function with an int count or an MPI_Count; `None` is MPI_CONVERSION_FN_NULL.
#[derive(Clone, Copy)]
enum ConversionFunction {
    Small(SmallFunction),
    Large(LargeFunction),
}

type SmallFunction = unsafe extern "C" fn(*mut c_void, usize, c_int, *mut c_void, i64, *mut c_void) -> c_int;
type LargeFunction = unsafe extern "C" fn(*mut c_void, usize, i64, *mut c_void, i64, *mut c_void) -> c_int;

type Extent = unsafe extern "C" fn(usize, *mut isize, *mut c_void) -> c_int;

struct RegisteredFunctions {
    read: Option<ConversionFunction>,
    write: Option<ConversionFunction>,
    extent: Extent,
    state: usize,
}

impl RegisteredFunctions {
    /// Converts all values in one call.
    fn convert(
        &self,
        function: ConversionFunction,
        base: usize,
        datatype: TypeHandle,
        items: u64,
        file: &mut [u8],
    ) -> std::result::Result<(), i32> {
        let (user, filebuf, state) =
            (base as *mut c_void, file.as_mut_ptr().cast::<c_void>(), self.state as *mut c_void);
        let code = match function {
            // SAFETY: the program's function, its buffer, and as many values in `file` as it is told.
            ConversionFunction::Large(f) => unsafe {
                f(user, datatype.raw(), items as i64, filebuf, 0, state)
            },
            ConversionFunction::Small(f) => match c_int::try_from(items) {
                // SAFETY: as above.
                Ok(items) => unsafe { f(user, datatype.raw(), items, filebuf, 0, state) },
                // More values than an int can count need MPI_Register_datarep_c.
                Err(_) => return Err(c_int::MAX),
            },
        };
        if code == 0 { Ok(()) } else { Err(code) }
    }
}

impl ConversionFunctions for RegisteredFunctions {
    fn extent(&self, predefined: TypeHandle) -> std::result::Result<i64, i32> {
        let mut extent = 0isize;
        // SAFETY: the program's function writes one MPI_Aint.
        let code = unsafe { (self.extent)(predefined.raw(), &mut extent, self.state as *mut c_void) };
        if code == 0 { Ok(extent as i64) } else { Err(code) }
    }

    fn converts_reads(&self) -> bool {
        self.read.is_some()
    }

    fn converts_writes(&self) -> bool {
        self.write.is_some()
    }

    fn read(
        &self,
        base: usize,
        datatype: TypeHandle,
        items: u64,
        file: &mut [u8],
    ) -> std::result::Result<(), i32> {
        self.read.map_or(Ok(()), |function| self.convert(function, base, datatype, items, file))
    }

    fn write(
        &self,
        base: usize,
        datatype: TypeHandle,
        items: u64,
        file: &mut [u8],
    ) -> std::result::Result<(), i32> {
        self.write.map_or(Ok(()), |function| self.convert(function, base, datatype, items, file))
    }
}

fn register(
    name: *const c_char,
    read: Option<ConversionFunction>,
    write: Option<ConversionFunction>,
    extent: usize,
    state: *mut c_void,
) -> Result<()> {
    let name = text(name, ErrorKind::Arg, "the data representation is a null pointer")?;
    if extent == 0 {
        return Err(Error::Usage(ErrorKind::Arg, "the extent function is a null pointer"));
    }
    // SAFETY: the program passes a function of this type.
    let extent = unsafe { std::mem::transmute::<usize, Extent>(extent) };
    pario_mpiio::register_datarep(
        &name,
        Arc::new(RegisteredFunctions { read, write, extent, state: state as usize }),
    )
}

/// MPI_CONVERSION_FN_NULL: a null pointer in MPICH and Open MPI.
fn small(function: usize) -> Option<ConversionFunction> {
    // SAFETY: not null; the program passes a function of this type.
    (function != 0)
        .then(|| ConversionFunction::Small(unsafe { std::mem::transmute::<usize, SmallFunction>(function) }))
}

fn large(function: usize) -> Option<ConversionFunction> {
    // SAFETY: not null; the program passes a function of this type.
    (function != 0)
        .then(|| ConversionFunction::Large(unsafe { std::mem::transmute::<usize, LargeFunction>(function) }))
}

export! {
    fn MPI_Register_datarep, PMPI_Register_datarep, c"PMPI_Register_datarep"
        (name: *const c_char, read: usize, write: usize, extent: usize, state: *mut c_void) -> c_int
        = |host| on_null(host, "MPI_Register_datarep", || {
            register(name, small(read), small(write), extent, state)
        }), else unserved();
    fn MPI_Register_datarep_c, PMPI_Register_datarep_c, c"PMPI_Register_datarep_c"
        (name: *const c_char, read: usize, write: usize, extent: usize, state: *mut c_void) -> c_int
        = |host| on_null(host, "MPI_Register_datarep_c", || {
            register(name, large(read), large(write), extent, state)
        }), else unserved();
}
