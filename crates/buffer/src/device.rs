//! Memory of GPUs.
//!
//! The processor cannot access the memory of most GPUs. If the program passes such memory, Pario copies it to a buffer of
//! its own and uses that. Reading, it copies the buffer back when the access is complete. The driver libraries `libcuda` and
//! `libamdhip64` recognise and copy their memory. Pario asks them only if the program has loaded them, and finds
//! their functions by name.
//!
//! Looking for the libraries must cost nothing where there are none. So an access looks only if the processor's
//! counter has advanced by [`LOOK_INTERVAL`] since the last look, and then compares the number of libraries that were ever
//! loaded. A program needs much longer to load a driver, initialize it and allocate memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use pario_types::ErrorKind;
use pario_view::Pattern;

use crate::UserBuffer;

/// The processor's cycles between two looks for libraries, about a quarter of a millisecond.
const LOOK_INTERVAL: u64 = 1 << 20;

/// The reason why memory of a GPU cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The driver failed.
    #[error(
        "the buffer is GPU memory, and its driver cannot copy it (error {0}); copy it to host memory first"
    )]
    Copy(c_int),
    /// The buffer is described by absolute addresses.
    #[error(
        "the buffer is GPU memory described by absolute addresses (MPI_BOTTOM); pass its address as the buffer"
    )]
    Absolute,
    /// There is no host memory for the copy.
    #[error("the buffer is GPU memory, and there is no host memory for a copy of its {0} bytes")]
    NoMemory(usize),
}

impl DeviceError {
    /// The error class for callers.
    pub fn kind(&self) -> ErrorKind {
        match self {
            DeviceError::Copy(_) | DeviceError::Absolute => ErrorKind::Buffer,
            DeviceError::NoMemory(_) => ErrorKind::NoMem,
        }
    }
}

/// A copy of GPU memory in host memory.
#[derive(Debug)]
pub struct BounceBuffer {
    driver: &'static Driver,
    device: usize,
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to this value. A `UserBuffer` accesses it by the rules of the program's own memory.
unsafe impl Send for BounceBuffer {}
// SAFETY: as above.
unsafe impl Sync for BounceBuffer {}

impl BounceBuffer {
    fn copy_of(driver: &'static Driver, device: usize, len: usize) -> Result<BounceBuffer, DeviceError> {
        let layout = Layout::array::<u8>(len).map_err(|_| DeviceError::NoMemory(len))?;
        // SAFETY: the length is not 0.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(DeviceError::NoMemory(len))?;
        let copy = BounceBuffer { driver, device, memory, layout };
        // SAFETY: the memory has this length; the program's buffer is at least as long.
        driver.check(unsafe { (driver.to_host)(memory.as_ptr(), device, len) })?;
        Ok(copy)
    }

    /// Copies the host memory back to the GPU, after an access that has filled it.
    pub fn copy_back(&self) -> Result<(), DeviceError> {
        // SAFETY: as in `copy_of`.
        self.driver
            .check(unsafe { (self.driver.to_device)(self.device, self.memory.as_ptr(), self.layout.size()) })
    }
}

impl Drop for BounceBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

impl UserBuffer {
    /// Describes memory of the program, which may be memory of a GPU. The buffer is then a copy in host memory.
    ///
    /// # Safety
    /// As [`UserBuffer::new`].
    #[inline]
    pub unsafe fn of_program(base: *mut u8, pattern: Pattern, count: u64) -> Result<UserBuffer, DeviceError> {
        if is_driver_loaded() {
            // SAFETY: the caller's.
            return unsafe { bounced(base, pattern, count) };
        }
        // SAFETY: the caller's.
        Ok(unsafe { UserBuffer::new(base, pattern, count) })
    }
}

/// # Safety
/// As [`UserBuffer::new`].
#[cold]
unsafe fn bounced(base: *mut u8, pattern: Pattern, count: u64) -> Result<UserBuffer, DeviceError> {
    // SAFETY: the caller's.
    let plain = |pattern| Ok(unsafe { UserBuffer::new(base, pattern, count) });
    let Some((low, len)) = span(&pattern, count) else { return plain(pattern) };
    let device = (base as usize).wrapping_add_signed(low);
    let Some(driver) = drivers().find(|driver| (driver.owns)(driver, device)) else { return plain(pattern) };
    if base.is_null() {
        return Err(DeviceError::Absolute);
    }
    let copy = Arc::new(BounceBuffer::copy_of(driver, device, len)?);
    let base = copy.memory.as_ptr().wrapping_offset(low.wrapping_neg());
    // SAFETY: the memory of the copy has all bytes from the lowest to the highest of the pattern.
    Ok(unsafe { UserBuffer::new(base, pattern, count) }.backed_by(copy))
}

/// The offset of the lowest byte, and the number of bytes from there to the highest. `None` if there is none, or if they do
/// not fit into the address space.
fn span(pattern: &Pattern, count: u64) -> Option<(isize, usize)> {
    if pattern.size() == 0 || count == 0 {
        return None;
    }
    let last = i128::from(pattern.extent()) * i128::from(count - 1);
    let low = i128::from(pattern.true_lb()) + last.min(0);
    let high = i128::from(pattern.true_ub()) + last.max(0);
    Some((isize::try_from(low).ok()?, usize::try_from(high - low).ok().filter(|len| *len > 0)?))
}

/// Whether a library of a GPU is loaded.
#[inline]
fn is_driver_loaded() -> bool {
    static NEXT_LOOK: AtomicU64 = AtomicU64::new(0);
    if is_look_due(&NEXT_LOOK) {
        look();
    }
    FOUND.load(Relaxed) != 0
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn is_look_due(next: &AtomicU64) -> bool {
    // SAFETY: every x86-64 processor has this counter.
    let now = unsafe { std::arch::x86_64::_rdtsc() };
    // Counters of several processors may differ; a counter far behind is one of those.
    let ahead = next.load(Relaxed).wrapping_sub(now);
    if ahead <= LOOK_INTERVAL && ahead > 0 {
        return false;
    }
    next.store(now.wrapping_add(LOOK_INTERVAL), Relaxed);
    true
}

#[cfg(not(target_arch = "x86_64"))]
fn is_look_due(_: &AtomicU64) -> bool {
    true
}

/// A library of a GPU.
struct Driver {
    owns: fn(&Driver, usize) -> bool,
    to_host: unsafe fn(*mut u8, usize, usize) -> c_int,
    to_device: unsafe fn(usize, *const u8, usize) -> c_int,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Driver")
    }
}

impl Driver {
    fn check(&self, code: c_int) -> Result<(), DeviceError> {
        if code == 0 { Ok(()) } else { Err(DeviceError::Copy(code)) }
    }
}

static CUDA: Driver = Driver { owns: cuda::owns, to_host: cuda::to_host, to_device: cuda::to_device };
static HIP: Driver = Driver { owns: hip::owns, to_host: hip::to_host, to_device: hip::to_device };

/// The drivers that were found: bit 0 CUDA, bit 1 HIP.
static FOUND: AtomicU64 = AtomicU64::new(0);

fn drivers() -> impl Iterator<Item = &'static Driver> {
    let found = FOUND.load(Relaxed);
    [(1, &CUDA), (2, &HIP)].into_iter().filter(move |(bit, _)| found & bit != 0).map(|(_, driver)| driver)
}

/// Looks at the libraries that were loaded since the last look.
#[cold]
fn look() {
    static ADDED: AtomicU64 = AtomicU64::new(0);
    struct Search {
        known: u64,
        added: u64,
        cuda: Option<std::ffi::CString>,
        hip: Option<std::ffi::CString>,
    }
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the linker passes a valid structure and our pointer; names are C strings or null.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        search.added = info.dlpi_adds;
        if search.added == search.known {
            return 1;
        }
        if !info.dlpi_name.is_null() {
            // SAFETY: as above.
            let name = unsafe { CStr::from_ptr(info.dlpi_name) };
            let file = name.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            if file.starts_with(b"libcuda.so") {
                search.cuda = Some(name.to_owned());
            } else if file.starts_with(b"libamdhip64.so") {
                search.hip = Some(name.to_owned());
            }
        }
        0
    }
    let mut search = Search { known: ADDED.load(Relaxed), added: 0, cuda: None, hip: None };
    // SAFETY: the function does not unwind, and the search outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    if search.cuda.is_some_and(|name| cuda::load(&name)) {
        FOUND.fetch_or(1, Relaxed);
    }
    if search.hip.is_some_and(|name| hip::load(&name)) {
        FOUND.fetch_or(2, Relaxed);
    }
    ADDED.store(search.added, Relaxed);
}

/// A library that is loaded. It stays loaded.
struct Library(*mut c_void);

impl Library {
    fn open(name: &CStr) -> Option<Library> {
        // SAFETY: a C string; the flag prevents loading anything.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Library(handle))
    }

    fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a handle of `dlopen` and a C string.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

/// Whether the functions of a driver are known; looks for them if they are not.
fn has_functions<T>(known: &OnceLock<T>, find: impl FnOnce() -> Option<T>) -> bool {
    // Another thread may find them at the same time.
    known.get().is_some() || find().is_some_and(|found| known.set(found).is_ok() || known.get().is_some())
}

/// CUDA's driver, by its binary interface.
mod cuda {
    use super::*;

    type PointerGetAttribute = unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int;
    type CopyToHost = unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int;
    type CopyToDevice = unsafe extern "C" fn(u64, *const c_void, usize) -> c_int;

    const CONTEXT: c_int = 1;
    const MEMORY_TYPE: c_int = 2;
    const IS_MANAGED: c_int = 8;
    const DEVICE: u32 = 2;

    struct Functions {
        pointer_get_attribute: PointerGetAttribute,
        copy_to_host: CopyToHost,
        copy_to_device: CopyToDevice,
        push_context: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
        pop_context: Option<unsafe extern "C" fn(*mut *mut c_void) -> c_int>,
    }

    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

    pub fn load(name: &CStr) -> bool {
        let find = || {
            let library = Library::open(name)?;
            // SAFETY: the signatures of CUDA's driver interface, which does not change them under these names.
            unsafe {
                Some(Functions {
                    pointer_get_attribute: std::mem::transmute::<*mut c_void, PointerGetAttribute>(
                        library.symbol(c"cuPointerGetAttribute")?,
                    ),
                    copy_to_host: std::mem::transmute::<*mut c_void, CopyToHost>(
                        library.symbol(c"cuMemcpyDtoH_v2")?,
                    ),
                    copy_to_device: std::mem::transmute::<*mut c_void, CopyToDevice>(
                        library.symbol(c"cuMemcpyHtoD_v2")?,
                    ),
                    push_context: library.symbol(c"cuCtxPushCurrent_v2").map(|f| {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(f)
                    }),
                    pop_context: library.symbol(c"cuCtxPopCurrent_v2").map(|f| {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void) -> c_int>(f)
                    }),
                })
            }
        };
        has_functions(&FUNCTIONS, find)
    }

    pub fn owns(_: &Driver, address: usize) -> bool {
        let Some(functions) = FUNCTIONS.get() else { return false };
        let ask = |attribute| {
            let mut value = 0u32;
            // SAFETY: both attributes are 32-bit numbers. An address that is not the driver's is an error code.
            let code = unsafe {
                (functions.pointer_get_attribute)((&raw mut value).cast(), attribute, address as u64)
            };
            (code == 0).then_some(value)
        };
        // The processor can access managed memory.
        ask(MEMORY_TYPE) == Some(DEVICE) && ask(IS_MANAGED).unwrap_or(0) as u8 == 0
    }

    /// Runs `copy` in the context of the memory, because this thread may have another one, or none.
    fn in_context(address: usize, copy: impl FnOnce(&Functions) -> c_int) -> c_int {
        let Some(functions) = FUNCTIONS.get() else { return -1 };
        let mut context = std::ptr::null_mut::<c_void>();
        // SAFETY: the attribute is a pointer.
        let code =
            unsafe { (functions.pointer_get_attribute)((&raw mut context).cast(), CONTEXT, address as u64) };
        let (Some(push), Some(pop)) = (functions.push_context, functions.pop_context) else {
            return copy(functions);
        };
        // SAFETY: a context of the driver.
        let pushed = code == 0 && !context.is_null() && unsafe { push(context) } == 0;
        let result = copy(functions);
        if pushed {
            // SAFETY: pushed above.
            unsafe { pop(&mut context) };
        }
        result
    }

    pub unsafe fn to_host(host: *mut u8, device: usize, len: usize) -> c_int {
        // SAFETY: the caller's.
        in_context(device, |functions| unsafe { (functions.copy_to_host)(host.cast(), device as u64, len) })
    }

    pub unsafe fn to_device(device: usize, host: *const u8, len: usize) -> c_int {
        // SAFETY: the caller's.
        in_context(device, |functions| unsafe { (functions.copy_to_device)(device as u64, host.cast(), len) })
    }
}

/// HIP, by its binary interface.
mod hip {
    use super::*;

    /// The attributes of a pointer, with room for fields of later versions.
    #[repr(C)]
    struct Attributes {
        /// The numbers of the types differ between versions.
        memory_type: c_int,
        device: c_int,
        device_pointer: *mut c_void,
        host_pointer: *mut c_void,
        is_managed: c_int,
        flags: u32,
        later: [u64; 8],
    }

    type PointerGetAttributes = unsafe extern "C" fn(*mut Attributes, *const c_void) -> c_int;
    type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int) -> c_int;

    const HOST_TO_DEVICE: c_int = 1;
    const DEVICE_TO_HOST: c_int = 2;

    struct Functions {
        pointer_get_attributes: PointerGetAttributes,
        copy: Copy,
    }

    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

    pub fn load(name: &CStr) -> bool {
        let find = || {
            let library = Library::open(name)?;
            // SAFETY: the signatures of HIP's interface.
            unsafe {
                Some(Functions {
                    pointer_get_attributes: std::mem::transmute::<*mut c_void, PointerGetAttributes>(
                        library.symbol(c"hipPointerGetAttributes")?,
                    ),
                    copy: std::mem::transmute::<*mut c_void, Copy>(library.symbol(c"hipMemcpy")?),
                })
            }
        };
        has_functions(&FUNCTIONS, find)
    }

    pub fn owns(_: &Driver, address: usize) -> bool {
        let Some(functions) = FUNCTIONS.get() else { return false };
        let null = std::ptr::null_mut();
        let mut found = Attributes {
            memory_type: 0,
            device: 0,
            device_pointer: null,
            host_pointer: null,
            is_managed: 0,
            flags: 0,
            later: [0; 8],
        };
        // SAFETY: writes into a structure that is large enough. An address that is not HIP's is an error code.
        let code = unsafe { (functions.pointer_get_attributes)(&mut found, address as *const c_void) };
        // Memory that the processor can access has an address on the host.
        code == 0 && found.is_managed == 0 && !found.device_pointer.is_null() && found.host_pointer.is_null()
    }

    pub unsafe fn to_host(host: *mut u8, device: usize, len: usize) -> c_int {
        let Some(functions) = FUNCTIONS.get() else { return -1 };
        // SAFETY: the caller's.
        unsafe { (functions.copy)(host.cast(), device as *const c_void, len, DEVICE_TO_HOST) }
    }

    pub unsafe fn to_device(device: usize, host: *const u8, len: usize) -> c_int {
        let Some(functions) = FUNCTIONS.get() else { return -1 };
        // SAFETY: the caller's.
        unsafe { (functions.copy)(device as *mut c_void, host.cast(), len, HOST_TO_DEVICE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_of_a_buffer_has_all_its_bytes() {
        assert_eq!(span(&Pattern::block(8), 3), Some((0, 24)));
        assert_eq!(span(&Pattern::block(8), 0), None);
        assert_eq!(span(&Pattern::block(0), 5), None);
    }

    #[test]
    fn a_look_is_due_once_in_a_while() {
        let next = AtomicU64::new(0);
        assert!(is_look_due(&next));
        #[cfg(target_arch = "x86_64")]
        {
            next.store(next.load(Relaxed) + LOOK_INTERVAL / 2, Relaxed);
            while !is_look_due(&next) {
                std::hint::spin_loop();
            }
            next.store(u64::MAX / 2, Relaxed);
            assert!(is_look_due(&next), "the counter of another processor");
        }
        assert!(!is_driver_loaded());
    }
}
