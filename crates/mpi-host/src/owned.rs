//! Datatypes that outlive the program's handle, and the identity of this process.

use crate::comm::Comm;
use crate::error::HostError;
use crate::handles::{Host, TypeHandle};
use std::ffi::{c_int, c_void};

impl Host {
    /// `MPI_BYTE`.
    pub fn byte(&self) -> TypeHandle {
        TypeHandle(self.constants.handle.byte)
    }

    /// A datatype that Pario owns: a duplicate of `datatype`, or the same handle for a predefined type.
    pub fn own_type(&self, datatype: TypeHandle) -> Result<TypeHandle, HostError> {
        if self.layout(datatype)?.named { Ok(datatype) } else { self.type_dup(datatype) }
    }

    /// Releases a datatype that [`Host::own_type`] returned.
    pub fn release_type(&self, datatype: TypeHandle) -> Result<(), HostError> {
        if self.layout(datatype)?.named { Ok(()) } else { self.type_free(datatype) }
    }

    /// `MPI_COMM_WORLD`.
    pub fn world(&'static self) -> Comm {
        self.comm(self.constants.handle.comm_world)
    }

    /// This process's rank in `MPI_COMM_WORLD`; 0 if the host does not return it.
    pub fn world_rank(&'static self) -> u32 {
        self.world().rank().unwrap_or(0)
    }

    /// The number of processes in `MPI_COMM_WORLD`; 1 if the host does not return it.
    pub fn world_size(&'static self) -> u32 {
        self.world().size().unwrap_or(1)
    }

    /// The host's own `MPI_Errhandler_free` on the program's argument.
    ///
    /// # Safety
    /// `errhandler` is what the program passed to `MPI_Errhandler_free`.
    pub unsafe fn errhandler_free_raw(&self, errhandler: *mut c_void) -> c_int {
        // SAFETY: the caller's.
        unsafe { (self.f.errhandler_free)(errhandler.cast()) }
    }
}
