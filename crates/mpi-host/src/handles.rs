//! The host: its ABI, its handles as opaque values, and the calls that belong to no object.

use crate::abi::{self, AbiFamily, Constants};
use crate::comm::Comm;
use crate::error::HostError;
use crate::find::{self, Library, UnrecognisedHost};
use crate::functions::Functions;
use crate::layout::DatatypeLayouts;
use crate::named::NamedTypes;
use pario_types::ErrorKind;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

/// The host MPI of this process.
pub struct Host {
    pub(crate) f: Functions,
    pub(crate) constants: Constants,
    pub(crate) named: NamedTypes,
    pub(crate) layouts: DatatypeLayouts,
    family: AbiFamily,
    version: String,
    library: Library,
}

/// A datatype of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeHandle(pub(crate) usize);

/// An info object of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InfoHandle(pub(crate) usize);

/// An error handler of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrhandlerHandle(pub(crate) usize);

macro_rules! raw {
    ($($handle:ident),*) => {
        $(impl $handle {
            /// The value that crosses the C boundary.
            pub fn raw(self) -> usize { self.0 }
        })*
    };
}
raw!(TypeHandle, InfoHandle, ErrhandlerHandle);

/// The host MPI, found at the first call. In a process without MPI every call searches again.
pub fn host() -> Result<&'static Host, &'static UnrecognisedHost> {
    static HOST: OnceLock<Result<Host, UnrecognisedHost>> = OnceLock::new();
    if let Some(found) = HOST.get() {
        return found.as_ref();
    }
    let Some(library) = Library::mpi() else { return Err(&find::NO_LIBRARY) };
    HOST.get_or_init(|| {
        find::pin_own_object();
        Host::bind(library)
    })
    .as_ref()
}

impl Host {
    fn bind(library: Library) -> Result<Host, UnrecognisedHost> {
        let f = match Functions::bind(&library) {
            Ok(f) => f,
            Err(name) => return Err(UnrecognisedHost::missing(name, library)),
        };
        let version = library_version(&f);
        let Some(family) = library.family(&version) else {
            return Err(UnrecognisedHost::unknown(version, library));
        };
        let data = |name: &str| CString::new(name).ok().and_then(|n| library.data(&n)).map(|a| a as usize);
        let constants = match family {
            AbiFamily::Mpich => abi::mpich::constants(),
            AbiFamily::Standard => abi::standard::constants(),
            AbiFamily::OpenMpi => match abi::openmpi::constants(data) {
                Ok(constants) => constants,
                Err(name) => return Err(UnrecognisedHost::missing(name, library)),
            },
        };
        let named = NamedTypes::new(&constants);
        Ok(Host { f, constants, named, layouts: DatatypeLayouts::default(), family, version, library })
    }

    /// The ABI of the host.
    pub fn family(&self) -> AbiFamily {
        self.family
    }

    /// The version text of the host.
    pub fn library_version(&self) -> &str {
        &self.version
    }

    /// The host's own function with this name, for passing a call through.
    pub fn symbol(&self, name: &CStr) -> Option<*const c_void> {
        self.library.function(name)
    }

    /// A data symbol of the host, as the program sees it.
    pub(crate) fn data(&self, name: &CStr) -> Option<usize> {
        self.library.data(name).map(|address| address as usize)
    }

    /// The numbers of the host's ABI.
    pub fn constants(&self) -> &Constants {
        &self.constants
    }

    /// The part of a raw argument that is the handle: MPICH leaves the upper half undefined.
    pub(crate) fn handle(&self, raw: usize) -> usize {
        match self.family {
            AbiFamily::Mpich => raw & 0xffff_ffff,
            AbiFamily::OpenMpi | AbiFamily::Standard => raw,
        }
    }

    /// Bytes of a handle in memory (a file handle is a pointer in every ABI).
    pub(crate) fn handle_size(&self) -> usize {
        match self.family {
            AbiFamily::Mpich => 4,
            AbiFamily::OpenMpi | AbiFamily::Standard => 8,
        }
    }

    /// A communicator argument.
    pub fn comm(&'static self, raw: usize) -> Comm {
        Comm::new(self, self.handle(raw))
    }

    /// A datatype argument.
    pub fn datatype(&self, raw: usize) -> TypeHandle {
        TypeHandle(self.handle(raw))
    }

    /// An info argument.
    pub fn info(&self, raw: usize) -> InfoHandle {
        InfoHandle(self.handle(raw))
    }

    /// An error handler argument.
    pub fn errhandler(&self, raw: usize) -> ErrhandlerHandle {
        ErrhandlerHandle(self.handle(raw))
    }

    /// Whether this is `MPI_COMM_NULL` (or a C null pointer, which no ABI uses for a real object).
    pub fn comm_is_null(&self, comm: Comm) -> bool {
        comm.raw() == self.constants.handle.comm_null || comm.raw() == 0
    }

    /// Whether this is `MPI_DATATYPE_NULL`.
    pub fn datatype_is_null(&self, datatype: TypeHandle) -> bool {
        datatype.0 == self.constants.handle.datatype_null || datatype.0 == 0
    }

    /// Whether this is `MPI_INFO_NULL`.
    pub fn info_is_null(&self, info: InfoHandle) -> bool {
        info.0 == self.constants.handle.info_null || info.0 == 0
    }

    /// Whether this is `MPI_ERRHANDLER_NULL`.
    pub fn errhandler_is_null(&self, errhandler: ErrhandlerHandle) -> bool {
        errhandler.0 == self.constants.handle.errhandler_null || errhandler.0 == 0
    }

    /// `MPI_FILE_NULL`.
    pub fn file_null(&self) -> usize {
        self.constants.handle.file_null
    }

    /// Writes a handle through a C out-argument (`MPI_Datatype *`, `MPI_Info *`, ...; not `MPI_File *`).
    ///
    /// # Safety
    /// `out` points to a handle variable of the host's ABI.
    pub unsafe fn store(&self, out: *mut c_void, handle: usize) {
        // SAFETY: the caller's; a handle variable has this size in this family.
        unsafe {
            match self.handle_size() {
                4 => out.cast::<u32>().write_unaligned(handle as u32),
                _ => out.cast::<usize>().write_unaligned(handle),
            }
        }
    }

    /// Reads a handle variable.
    ///
    /// # Safety
    /// `from` points to a handle variable of the host's ABI.
    pub unsafe fn load(&self, from: *const c_void) -> usize {
        // SAFETY: the caller's.
        unsafe {
            match self.handle_size() {
                4 => from.cast::<u32>().read_unaligned() as usize,
                _ => from.cast::<usize>().read_unaligned(),
            }
        }
    }

    /// The error class of this ABI for a kind of failure.
    pub fn class(&self, kind: ErrorKind) -> c_int {
        self.constants.class(kind)
    }

    /// Whether `MPI_Init` has been called.
    pub fn initialized(&self) -> bool {
        let mut flag = 0;
        // SAFETY: callable at any time; writes one int.
        unsafe { (self.f.initialized)(&mut flag) == self.constants.error.success && flag != 0 }
    }

    /// Whether `MPI_Finalize` has completed.
    pub fn finalized(&self) -> bool {
        let mut flag = 0;
        // SAFETY: callable at any time; writes one int.
        unsafe { (self.f.finalized)(&mut flag) == self.constants.error.success && flag != 0 }
    }

    /// Aborts the processes of a communicator, for an error handler that asks for it.
    pub fn abort(&self, comm: Comm, code: c_int) {
        // SAFETY: a communicator handle by value.
        unsafe { (self.f.abort)(comm.raw(), code) };
    }

    /// The error class of an error code of the host.
    pub fn error_class(&self, code: c_int) -> c_int {
        let mut class = self.constants.error.unknown;
        // SAFETY: callable at any time; writes one int.
        if unsafe { (self.f.error_class)(code, &mut class) } != self.constants.error.success {
            return self.constants.error.unknown;
        }
        class
    }

    /// The host's text for an error code.
    pub fn error_string(&self, code: c_int) -> String {
        let mut text = vec![0u8; self.constants.number.max_error_string as usize + 1];
        let mut len = 0;
        // SAFETY: the buffer has the length that the ABI prescribes.
        let result = unsafe { (self.f.error_string)(code, text.as_mut_ptr().cast::<c_char>(), &mut len) };
        if result != self.constants.error.success {
            return format!("unknown error code {code}");
        }
        until_nul(&text)
    }

    /// Turns a return code into a result.
    pub(crate) fn check(&self, call: &'static str, code: c_int) -> Result<(), HostError> {
        if code == self.constants.error.success {
            return Ok(());
        }
        let class = self.error_class(code);
        Err(HostError::Call { call, code, class, kind: self.constants.kind(class) })
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Host({:?}, {})", self.family, self.version.lines().next().unwrap_or(""))
    }
}

fn library_version(f: &Functions) -> String {
    // The largest MPI_MAX_LIBRARY_VERSION_STRING of all ABIs: the family is not known yet.
    let mut text = vec![0u8; 8192 + 1];
    let mut len = 0;
    // SAFETY: the buffer is long enough for every ABI; callable before MPI_Init.
    unsafe { (f.get_library_version)(text.as_mut_ptr().cast::<c_char>(), &mut len) };
    until_nul(&text)
}

/// The text of a C buffer up to its NUL.
pub(crate) fn until_nul(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|&b| b == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}
