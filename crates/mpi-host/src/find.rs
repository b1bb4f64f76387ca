//! The MPI library of this process, and the symbols in it.
//!
//! The library is the one that defines `PMPI_Initialized`. The symbol is looked up in the global scope first, and then in
//! every loaded object, because Python and other plug-in hosts load MPI privately. All other functions are looked up
//! through a handle of that library. Such a lookup searches the library and its dependencies, so it never finds the
//! `MPI_File_*` names of this library. As a last check, an address inside the object of this code is refused. Data
//! symbols are looked up globally first: an executable that names them has its own copy (copy relocation), and that
//! copy is the handle.

use crate::abi::AbiFamily;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An open library that outlives the process's use of MPI.
pub(crate) struct Library {
    handle: *mut c_void,
    path: PathBuf,
}

// SAFETY: the handle is only passed to dlsym, which is thread-safe; it is never closed.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// A process without an MPI, or with one whose ABI is not known here. Calls can still be passed through.
pub struct UnrecognisedHost {
    reason: UnrecognisedReason,
    library: Option<Library>,
}

enum UnrecognisedReason {
    NoLibrary,
    UnknownVersion(String),
    MissingSymbol(String),
}

/// The result of a process without any MPI.
pub(crate) static NO_LIBRARY: UnrecognisedHost =
    UnrecognisedHost { reason: UnrecognisedReason::NoLibrary, library: None };

impl UnrecognisedHost {
    pub(crate) fn missing(symbol: &str, library: Library) -> UnrecognisedHost {
        UnrecognisedHost {
            reason: UnrecognisedReason::MissingSymbol(symbol.to_owned()),
            library: Some(library),
        }
    }

    pub(crate) fn unknown(version: String, library: Library) -> UnrecognisedHost {
        UnrecognisedHost { reason: UnrecognisedReason::UnknownVersion(version), library: Some(library) }
    }

    /// The host's own function of that name, for passing a call through.
    pub fn symbol(&self, name: &CStr) -> Option<*const c_void> {
        self.library.as_ref()?.function(name)
    }
}

impl std::fmt::Display for UnrecognisedHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.library.as_ref().map(|l| l.path.as_path()).unwrap_or(Path::new("")).display();
        match &self.reason {
            UnrecognisedReason::NoLibrary => {
                f.write_str("no MPI library is loaded in this process; start it as an MPI program")
            }
            UnrecognisedReason::UnknownVersion(version) => {
                let first = version.lines().next().unwrap_or("");
                write!(
                    f,
                    "MPI library {path} is of an unknown kind ({first}); use MPICH, Open MPI or libmpi_abi"
                )
            }
            UnrecognisedReason::MissingSymbol(name) => {
                write!(f, "MPI library {path} lacks {name}; use a complete MPI-3.0 or later")
            }
        }
    }
}

impl std::fmt::Debug for UnrecognisedHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UnrecognisedHost({self})")
    }
}

impl Library {
    /// The MPI library of this process.
    pub(crate) fn mpi() -> Option<Library> {
        let marker = c"PMPI_Initialized";
        let global = lookup(libc::RTLD_DEFAULT, marker);
        let address = global.or_else(|| loaded_objects().iter().find_map(|name| in_object(name, marker)))?;
        let path = object_of(address)?.1;
        let handle = open_loaded(&path).or_else(open_main)?;
        Some(Library { handle, path })
    }

    /// A function of the library or of what it depends on; never one of our own.
    pub(crate) fn function(&self, name: &CStr) -> Option<*const c_void> {
        let address = lookup(self.handle, name)?;
        (object_of(address)?.0 != own_object()).then_some(address)
    }

    /// A data symbol, as the program sees it.
    pub(crate) fn data(&self, name: &CStr) -> Option<*const c_void> {
        lookup(libc::RTLD_DEFAULT, name).or_else(|| lookup(self.handle, name))
    }

    /// Which ABI the library has, given the text it reports about itself.
    pub(crate) fn family(&self, version: &str) -> Option<AbiFamily> {
        let file = self.path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        if file.starts_with(b"libmpi_abi") {
            return Some(AbiFamily::Standard);
        }
        if self.data(c"ompi_mpi_comm_world").is_some() {
            return Some(AbiFamily::OpenMpi);
        }
        // "MPICH" also stands in what Cray MPICH reports.
        let mpich = ["MPICH", "Intel(R) MPI", "MVAPICH"];
        mpich.iter().any(|name| version.contains(name)).then_some(AbiFamily::Mpich)
    }
}

/// Keeps the object this code lives in loaded for good: the host holds pointers to its functions.
pub(crate) fn pin_own_object() {
    if let Some((_, path)) = object_of(pin_own_object as *const c_void)
        && let Ok(path) = CString::new(path.as_os_str().as_bytes())
    {
        // SAFETY: a valid string; the object is loaded already, so no initialiser runs. The handle is
        // dropped on purpose; failure (code linked into the executable) needs no pinning.
        unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_NODELETE | libc::RTLD_LAZY) };
    }
}

fn lookup(handle: *mut c_void, name: &CStr) -> Option<*const c_void> {
    // SAFETY: a valid handle or pseudo-handle and a valid string.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const())
}

/// Base address and path of the loaded object that holds an address.
fn object_of(address: *const c_void) -> Option<(usize, PathBuf)> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: `info` is a valid place to write to.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: on success the name is a string that lives as long as the object is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some((info.dli_fbase as usize, PathBuf::from(OsStr::from_bytes(name.to_bytes()))))
}

/// Base address of the object this code lives in.
fn own_object() -> usize {
    static OWN: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *OWN.get_or_init(|| object_of(own_object as *const c_void).map_or(0, |o| o.0))
}

/// A handle of an object that is loaded already.
fn open_loaded(path: &Path) -> Option<*mut c_void> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: a valid string; RTLD_NOLOAD loads nothing and runs no code.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    (!handle.is_null()).then_some(handle)
}

/// The program itself, for an MPI that is linked into it. Its scope includes us; `function` refuses those.
fn open_main() -> Option<*mut c_void> {
    // SAFETY: a null name asks for the main program, which is always loaded.
    let handle = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
    (!handle.is_null()).then_some(handle)
}

fn in_object(name: &CStr, symbol: &CStr) -> Option<*const c_void> {
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    lookup(open_loaded(path)?, symbol)
}

/// Names of all loaded objects except the program, the vdso and ourselves.
fn loaded_objects() -> Vec<CString> {
    unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _: usize, out: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid record, and `out` is the vector below.
        let (name, out) = unsafe { ((*info).dlpi_name, &mut *out.cast::<Vec<CString>>()) };
        if !name.is_null() {
            // SAFETY: the loader's names are strings, valid during the walk.
            out.push(unsafe { CStr::from_ptr(name as *const c_char) }.to_owned());
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: `collect` has the right type and `names` lives through the walk. Objects are opened only
    // afterwards, outside the loader's lock.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut names).cast()) };
    let own = object_of(loaded_objects as *const c_void).map(|o| o.1);
    names.retain(|name| {
        let bytes = name.to_bytes();
        !bytes.is_empty()
            && !bytes.starts_with(b"linux-")
            && own.as_deref() != Some(Path::new(OsStr::from_bytes(bytes)))
    });
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_mpi_says_so() {
        assert!(Library::mpi().is_none());
        assert!(NO_LIBRARY.symbol(c"PMPI_Barrier").is_none());
        assert!(NO_LIBRARY.to_string().starts_with("no MPI library is loaded"));
    }

    #[test]
    fn loaded_objects_have_names() {
        let names = loaded_objects();
        assert!(names.iter().any(|n| n.to_string_lossy().contains("libc.so")));
        assert!(names.iter().all(|n| !n.is_empty()));
    }

    #[test]
    fn our_own_functions_are_refused() {
        let library = Library { handle: open_main().unwrap(), path: PathBuf::new() };
        assert!(library.function(c"malloc").is_some());
        assert!(object_of(own_object as *const c_void).unwrap().0 == own_object());
    }
}
