//! Recognising invalid handles without crashing.
//!
//! A program that passes a freed or wrong handle to a file function must get an error class, as it does from the
//! hosts' own I/O. But the host's datatype functions report errors to the handler of `MPI_COMM_WORLD`, which aborts by
//! default, and Open MPI dereferences any pointer. So the handle itself is checked first: in MPICH its kind bits, in
//! Open MPI and in the standard ABI whether the address has an object of that class. The first host calls with the handle are made while the
//! handler of `MPI_COMM_WORLD` returns errors.
//!
//! MPICH reads freed memory if it is asked for the contents of a freed datatype or info object. It gives the handle that was freed last to
//! the next object that it creates, so a few objects are created: a handle that comes up again was free. A handle that was freed long before
//! is not recognised.

use crate::abi::{AbiFamily, mpich};
use crate::comm::Comm;
use crate::error::HostError;
use crate::handles::{ErrhandlerHandle, Host, InfoHandle, TypeHandle};
use pario_types::ErrorKind;
use parking_lot::{Mutex, MutexGuard};
use std::ffi::{CStr, c_int};

/// The number of objects that are created to recognise a freed datatype. Every new datatype of the program pays for it.
const FREED_TYPES: usize = 2;
/// The same for info objects.
const FREED_INFOS: usize = 8;

/// A kind of host object, and how to recognise one.
struct Class {
    what: &'static str,
    kind: ErrorKind,
    mpich: u32,
    openmpi: &'static CStr,
    /// Whether MPICH counts the references to an object of this kind, so that the count of a freed one is 0.
    is_counted: bool,
}

const DATATYPE: Class = Class {
    what: "datatype",
    kind: ErrorKind::Type,
    mpich: mpich::KIND_DATATYPE,
    openmpi: c"ompi_datatype_t_class",
    is_counted: true,
};
const COMM: Class = Class {
    what: "communicator",
    kind: ErrorKind::Comm,
    mpich: mpich::KIND_COMM,
    openmpi: c"ompi_communicator_t_class",
    is_counted: true,
};
const INFO: Class = Class {
    what: "info object",
    kind: ErrorKind::Info,
    mpich: mpich::KIND_INFO,
    openmpi: c"ompi_info_t_class",
    is_counted: false,
};
const ERRHANDLER: Class = Class {
    what: "error handler",
    kind: ErrorKind::Arg,
    mpich: mpich::KIND_ERRHANDLER,
    openmpi: c"ompi_errhandler_t_class",
    is_counted: false,
};

impl Host {
    /// Whether a communicator argument is usable: not null and not freed, as far as that can be checked.
    pub fn check_comm(&self, comm: Comm) -> Result<(), HostError> {
        self.plausible(comm.raw(), self.constants.handle.comm_null, self.constants.handle.comm_world, &COMM)?;
        let _quiet = self.return_errors();
        comm.size().map(drop)
    }

    /// Whether an info argument is usable; `MPI_INFO_NULL` is usable.
    pub fn check_info(&self, info: InfoHandle) -> Result<(), HostError> {
        if self.info_is_null(info) {
            return Ok(());
        }
        self.plausible_info(info)?;
        self.not_freed(
            info.0,
            &INFO,
            FREED_INFOS,
            || Ok(self.new_info::<&str, &str>(&[])?.0),
            |raw| {
                // SAFETY: a handle variable of ours, overwritten with the null handle.
                unsafe { (self.f.info_free)(raw) };
            },
        )?;
        let _quiet = self.return_errors();
        let mut keys = 0;
        // SAFETY: a handle by value; writes one int.
        self.check("MPI_Info_get_nkeys", unsafe { (self.f.info_get_nkeys)(info.0, &mut keys) })
    }

    /// Whether an error handler argument can be an error handler.
    pub fn check_errhandler(&self, errhandler: ErrhandlerHandle) -> Result<(), HostError> {
        let h = &self.constants.handle;
        self.plausible(errhandler.0, h.errhandler_null, h.errors_return, &ERRHANDLER)
    }

    pub(crate) fn plausible_info(&self, info: InfoHandle) -> Result<(), HostError> {
        let null = self.constants.handle.info_null;
        self.plausible(info.0, null, null, &INFO)
    }

    pub(crate) fn plausible_type(&self, datatype: TypeHandle) -> Result<(), HostError> {
        let h = &self.constants.handle;
        self.plausible(datatype.0, h.datatype_null, h.byte, &DATATYPE)?;
        self.not_freed(
            datatype.0,
            &DATATYPE,
            FREED_TYPES,
            || Ok(self.type_dup(self.byte())?.0),
            |raw| {
                // SAFETY: a handle variable of ours, overwritten with the null handle.
                unsafe { (self.f.type_free)(raw) };
            },
        )
    }

    /// Whether MPICH has not freed the object of this handle lately: creates up to `most` objects and looks whether one gets the handle.
    fn not_freed(
        &self,
        raw: usize,
        class: &Class,
        most: usize,
        create: impl Fn() -> Result<usize, HostError>,
        free: impl Fn(&mut usize),
    ) -> Result<(), HostError> {
        let may_be_freed = match self.family() {
            AbiFamily::Mpich => !mpich::is_predefined(raw),
            // The count has told.
            AbiFamily::Standard => !class.is_counted,
            AbiFamily::OpenMpi => false,
        };
        if !may_be_freed {
            return Ok(());
        }
        let mut created = Vec::with_capacity(most);
        while created.len() < most && created.last() != Some(&raw) {
            created.push(create()?);
        }
        let is_freed = created.last() == Some(&raw);
        // The other way round, so that the host's list of free handles is as it was.
        created.iter_mut().rev().for_each(free);
        if is_freed { Err(HostError::Handle { what: class.what, kind: class.kind }) } else { Ok(()) }
    }

    /// `predefined` is a predefined object of the same kind.
    fn plausible(&self, raw: usize, null: usize, predefined: usize, class: &Class) -> Result<(), HostError> {
        let good = raw != 0
            && raw != null
            && match self.family() {
                AbiFamily::Mpich => mpich::kind(raw) == Some(class.mpich) && mpich::is_in_table(raw),
                AbiFamily::OpenMpi => self.is_object(raw, predefined, class.openmpi),
                // Small values are predefined objects; each kind has its own range of a prefix code.
                AbiFamily::Standard if raw < 0x1000 => raw.ilog2() == null.ilog2(),
                AbiFamily::Standard if self.library_version().contains("MPICH") => {
                    is_mpich_object(raw, class)
                }
                AbiFamily::Standard => self.is_object(raw, predefined, class.openmpi),
            };
        if good { Ok(()) } else { Err(HostError::Handle { what: class.what, kind: class.kind }) }
    }

    /// Whether Open MPI has an object of this class at the address. Every object begins with the address of its class
    /// (in debugging builds with a magic number). Static objects may name a parent class, so the first word of a
    /// predefined object is also accepted.
    fn is_object(&self, raw: usize, predefined: usize, class: &CStr) -> bool {
        if !raw.is_multiple_of(align_of::<usize>()) {
            return false;
        }
        match first_word(raw) {
            FirstWord::Is(word) => {
                let own = self.data(class).is_none_or(|address| word == address);
                own || matches!(first_word(predefined), FirstWord::Is(w) if w == word)
            }
            FirstWord::Unmapped => false,
            FirstWord::Unknown => true,
        }
    }

    /// Makes calls without an object return their errors while the result lives.
    pub(crate) fn return_errors(&self) -> Option<Quiet<'_>> {
        if !self.initialized() || self.finalized() {
            return None;
        }
        static HANDLER_LOCK: Mutex<()> = Mutex::new(());
        let lock = HANDLER_LOCK.lock();
        let h = &self.constants.handle;
        let saved = [h.comm_world, h.comm_self].map(|comm| self.silence(comm));
        Some(Quiet { host: self, saved, _lock: lock })
    }

    fn silence(&self, comm: usize) -> Option<(usize, usize)> {
        let mut handler = 0;
        // SAFETY: a predefined communicator; writes one handle into a zeroed word.
        let code = unsafe { (self.f.comm_get_errhandler)(comm, &mut handler) };
        self.check("MPI_Comm_get_errhandler", code).ok()?;
        // SAFETY: handles by value.
        unsafe { (self.f.comm_set_errhandler)(comm, self.constants.handle.errors_return) };
        Some((comm, handler))
    }
}

/// Restores the error handlers of the predefined communicators when dropped.
pub(crate) struct Quiet<'a> {
    host: &'a Host,
    saved: [Option<(usize, usize)>; 2],
    _lock: MutexGuard<'static, ()>,
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        for (comm, mut handler) in self.saved.into_iter().flatten() {
            // SAFETY: handles by value; the second call gives back the reference that the query took.
            unsafe {
                (self.host.f.comm_set_errhandler)(comm, self.host.handle(handler));
                (self.host.f.errhandler_free)(&mut handler);
            }
        }
    }
}

/// Whether MPICH has an object of this kind at the address. In the standard ABI its handles are addresses of objects, and every
/// object begins with the `int` that is its handle in MPICH's own ABI, and its reference count.
fn is_mpich_object(raw: usize, class: &Class) -> bool {
    match first_word(raw) {
        _ if !raw.is_multiple_of(align_of::<c_int>()) => false,
        FirstWord::Is(word) => {
            let is_referenced = (word >> 32) as u32 as i32 > 0;
            mpich::kind(word & 0xffff_ffff) == Some(class.mpich) && (is_referenced || !class.is_counted)
        }
        FirstWord::Unmapped => false,
        FirstWord::Unknown => true,
    }
}

enum FirstWord {
    Is(usize),
    Unmapped,
    /// The system does not allow the check.
    Unknown,
}

/// The word at an address, if it can be read.
pub(crate) fn word_at(address: usize) -> Option<usize> {
    match first_word(address) {
        FirstWord::Is(word) => Some(word),
        FirstWord::Unmapped | FirstWord::Unknown => None,
    }
}

/// The word at an address that may not be mapped.
fn first_word(address: usize) -> FirstWord {
    let mut word = 0usize;
    let local = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: size_of::<usize>() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: size_of::<usize>() };
    // SAFETY: the system call reads our own memory on our behalf and reports bad addresses instead of
    // faulting; the destination is `word`.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    match read {
        8 => FirstWord::Is(word),
        _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => FirstWord::Unmapped,
        _ => FirstWord::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmapped_addresses_are_seen_without_a_fault() {
        let value = 42usize;
        assert!(!matches!(first_word((&raw const value) as usize), FirstWord::Unmapped));
        assert!(!matches!(first_word(8), FirstWord::Is(_)));
    }

    #[test]
    fn mpich_handles_tell_their_kind() {
        assert_eq!(mpich::kind(0x4c00_0405), Some(mpich::KIND_DATATYPE));
        assert_eq!(mpich::kind(0xcc00_0001), Some(mpich::KIND_DATATYPE));
        assert_eq!(mpich::kind(0x4400_0000), Some(mpich::KIND_COMM));
        assert_eq!(mpich::kind(0x0c00_0000), None);
        assert_eq!(mpich::kind(0x9c00_0000), Some(mpich::KIND_INFO));
        assert_eq!(mpich::kind(0x5400_0001), Some(mpich::KIND_ERRHANDLER));
    }
}
