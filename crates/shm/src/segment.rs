//! A segment of shared memory.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::memory_file;

const PAGE: usize = 4096;

/// Available from Linux 6.1 on. Older kernels return an error.
const MADV_COLLAPSE: i32 = 25;

/// The aligned range that the kernel maps when a byte in it is read (fault-around): all its pages that
/// exist already. A write maps only the page of the byte.
pub const FAULT_AROUND: usize = 64 << 10;

/// The size of a large page. Any access to one of its bytes maps all of it.
pub const LARGE_PAGE: usize = 2 << 20;

/// Memory shared by processes.
///
/// It begins at a multiple of [`LARGE_PAGE`] or else of [`FAULT_AROUND`] if it is at least as large. Words
/// and bytes are addressed by offsets that are checked at each use. A wrong offset is a bug and panics.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    len: usize,
    /// The way in which other processes can open the segment.
    sharing: Sharing,
}

#[derive(Debug)]
enum Sharing {
    Stopped,
    /// By a descriptor that processes of the same user find in `/proc`.
    Descriptor(OwnedFd),
    /// By a name in the memory file system. Dropping this value removes the name.
    Name(ShmName),
}

#[derive(Debug)]
struct ShmName(u64);

impl ShmName {
    fn path(&self) -> CString {
        CString::new(format!("/dev/shm/pario-{:016x}", self.0)).expect("digits and slashes")
    }
}

impl ShmName {
    /// The path, without removing the name on drop.
    fn forget(self) -> CString {
        std::mem::ManuallyDrop::new(self).path()
    }
}

impl Drop for ShmName {
    fn drop(&mut self) {
        // SAFETY: the name is a C string that outlives the call. A name that cannot be removed is never
        // used again.
        unsafe { libc::unlink(self.path().as_ptr()) };
    }
}

/// The handle with which another process of the node opens a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHandle {
    /// The process that holds the descriptor.
    pub pid: u32,
    /// The number of the descriptor in that process.
    pub fd: u32,
    /// The inode number of the memory file, to detect a descriptor that was reused. If `pid` is 0, the
    /// number in the name of the segment.
    pub inode: u64,
}

// SAFETY: the memory is accessed through atomics and through `bytes`, whose callers exclude concurrent
// writes.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates a segment of zeros.
    pub fn create(len: usize) -> io::Result<Segment> {
        Segment::create_labelled(c"pario", len)
    }

    /// Creates a segment of zeros whose descriptor `/proc` shows with this label.
    pub fn create_labelled(label: &CStr, len: usize) -> io::Result<Segment> {
        // SAFETY: the label is a C string that outlives the call.
        let fd = unsafe { libc::memfd_create(label.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor without another owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let size = i64::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // The limit on file sizes applies to memory files too, and exceeding it also raises a signal.
        if largest_file() < len as u64 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        // SAFETY: no memory involved.
        if unsafe { libc::ftruncate64(fd.as_raw_fd(), size) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let base = map(fd.as_raw_fd(), libc::MAP_SHARED, len)?;
        Ok(Segment { base, len, sharing: Sharing::Descriptor(fd) })
    }

    /// Creates a segment of zeros that has a name until [`Segment::stop_sharing`], for processes that may
    /// not access the descriptors of each other. `id` is a random number. All memory is reserved at once,
    /// because running out of space in the memory file system later would be fatal.
    pub fn create_named(len: usize, id: u64) -> io::Result<Segment> {
        if largest_file() < len as u64 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let path = ShmName(id).forget();
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let fd = open(&path, flags)?;
        let name = ShmName(id);
        reserve(&fd, len)?;
        let base = map(fd.as_raw_fd(), libc::MAP_SHARED, len)?;
        Ok(Segment { base, len, sharing: Sharing::Name(name) })
    }

    /// Creates a segment of zeros in a file at `path` that only its user may access. The file must not
    /// exist yet, and it stays until it is removed. All memory is reserved at once, as in
    /// [`create_named`](Segment::create_named). The file belongs in a memory file system: elsewhere the
    /// kernel writes it to the disk.
    pub fn create_file(path: &Path, len: usize) -> io::Result<Segment> {
        if largest_file() < len as u64 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let fd = memory_file::create(path)?;
        let mapped = reserve(&fd, len).and_then(|()| map(fd.as_raw_fd(), libc::MAP_SHARED, len));
        // This call created the file.
        let base = mapped.inspect_err(|_| drop(pario_runtime::fs::remove_file(path)))?;
        Ok(Segment { base, len, sharing: Sharing::Descriptor(fd) })
    }

    /// Opens the segment in an existing file.
    pub fn open_file(path: &Path) -> io::Result<Segment> {
        let fd = memory_file::open(path)?;
        let (_, len) = stat(&fd)?;
        let base = map(fd.as_raw_fd(), libc::MAP_SHARED, len)?;
        Ok(Segment { base, len, sharing: Sharing::Descriptor(fd) })
    }

    /// Extends a truncated segment to `len` bytes. The new bytes are zeros, and all memory is reserved.
    pub fn grow(self, len: usize) -> io::Result<Segment> {
        let Sharing::Descriptor(fd) = &self.sharing else {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        };
        let fd = fd.try_clone()?;
        reserve(&fd, len)?;
        let base = map(fd.as_raw_fd(), libc::MAP_SHARED, len)?;
        Ok(Segment { base, len, sharing: Sharing::Descriptor(fd) })
    }

    /// Ends this process with a `SIGBUS` if the file was truncated. Bytes that were read before may then be
    /// zeros that no process wrote.
    #[inline]
    pub fn check_not_truncated(&self) {
        if self.len > 0 {
            // SAFETY: inside the mapping. The value is not used.
            let _ = unsafe { self.base.as_ptr().add(self.len - 1).read_volatile() };
        }
    }

    /// Maps the segment behind a descriptor from another process. The descriptor is closed, so this process
    /// cannot truncate the file by accident.
    pub fn from_descriptor(fd: OwnedFd) -> io::Result<Segment> {
        let (_, len) = stat(&fd)?;
        let base = map(fd.as_raw_fd(), libc::MAP_SHARED, len)?;
        Ok(Segment { base, len, sharing: Sharing::Stopped })
    }

    /// The descriptor to pass to other processes, if the segment is shared by a descriptor.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.sharing {
            Sharing::Descriptor(fd) => Some(fd.as_fd()),
            Sharing::Stopped | Sharing::Name(_) => None,
        }
    }

    /// Creates a segment of zeros for this process alone.
    pub fn private(len: usize) -> io::Result<Segment> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        Ok(Segment { base: map(-1, flags, len)?, len, sharing: Sharing::Stopped })
    }

    /// Prevents other processes from opening the segment.
    pub fn stop_sharing(&mut self) {
        self.sharing = Sharing::Stopped;
    }

    /// The handle with which other processes of this node open the segment. Only the creator has one.
    pub fn handle(&self) -> io::Result<SegmentHandle> {
        match &self.sharing {
            Sharing::Stopped => Err(io::Error::from_raw_os_error(libc::EBADF)),
            Sharing::Descriptor(fd) => {
                let (inode, _) = stat(fd)?;
                Ok(SegmentHandle { pid: std::process::id(), fd: fd.as_raw_fd() as u32, inode })
            }
            Sharing::Name(name) => Ok(SegmentHandle { pid: 0, fd: 0, inode: name.0 }),
        }
    }

    /// Opens the segment that another process of this node created.
    pub fn open(handle: &SegmentHandle) -> io::Result<Segment> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        let fd = match handle.pid {
            0 => open(&ShmName(handle.inode).forget(), flags | libc::O_NOFOLLOW)?,
            pid => {
                let path = format!("/proc/{pid}/fd/{}", handle.fd);
                open(&CString::new(path).expect("digits and slashes"), flags)?
            }
        };
        let (inode, len) = stat(&fd)?;
        if handle.pid != 0 && inode != handle.inode {
            return Err(io::Error::from_raw_os_error(libc::ESTALE));
        }
        let base = map(fd.as_raw_fd(), libc::MAP_SHARED, len)?;
        Ok(Segment { base, len, sharing: Sharing::Stopped })
    }

    /// The size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The 64-bit word at a byte offset that is a multiple of 8.
    #[inline]
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.len && self.len - at >= 8, "word at {at} of {}", self.len);
        // SAFETY: inside the mapping, aligned (a mapping starts at a page), atomic like all uses of it.
        unsafe { &*self.base.as_ptr().add(at).cast() }
    }

    /// The 32-bit word at a byte offset that is a multiple of 8.
    #[inline]
    pub fn word32(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(8) && at < self.len && self.len - at >= 8, "word at {at} of {}", self.len);
        // SAFETY: as in `word`.
        unsafe { &*self.base.as_ptr().add(at).cast() }
    }

    /// Calls `f` with `len` bytes from `at` on. Other processes may use the same bytes. The callers follow
    /// a protocol in which no process reads a byte while another writes it.
    #[inline]
    pub fn bytes<R>(&self, at: usize, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(at <= self.len && self.len - at >= len, "{len} bytes at {at} of {}", self.len);
        // SAFETY: inside the mapping; the protocol of the callers excludes concurrent writes.
        f(unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at), len) })
    }

    /// The address of `len` bytes from `at` on, for system calls. The pointer is valid as long as the
    /// segment.
    #[inline]
    pub fn pointer(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len && self.len - at >= len, "{len} bytes at {at} of {}", self.len);
        self.base.as_ptr().wrapping_add(at)
    }

    /// Copies bytes out. Bytes that another process writes at the same time may be old, new or mixed.
    #[inline]
    pub fn read_into(&self, at: usize, to: &mut [u8]) {
        let from = self.pointer(at, to.len());
        // SAFETY: inside the mapping; `to` is private memory of this process, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    /// Copies bytes in. If another process writes the same bytes at the same time, either value may remain.
    #[inline]
    pub fn write_from(&self, at: usize, from: &[u8]) {
        let to = self.pointer(at, from.len());
        // SAFETY: as in `read_into`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Maps the existing pages of a fault-around range, which costs a fraction of writing to them one by
    /// one.
    #[inline]
    pub fn arrive(&self, neighbourhood: usize) {
        let at = neighbourhood * FAULT_AROUND;
        assert!(at < self.len, "neighbourhood {neighbourhood} of {} bytes", self.len);
        // SAFETY: inside the mapping. The value is not used.
        let _ = unsafe { self.base.as_ptr().add(at).read_volatile() };
    }

    /// Allocates and maps the pages of a range. It uses large pages for aligned ranges if the kernel finds
    /// any, whatever the default of the machine is. Large pages reduce the mapping cost of every process to
    /// one five-hundredth. If the kernel does not support this, pages are allocated on first use.
    pub fn prepare(&self, at: usize, len: usize) {
        let from = self.pointer(at, len);
        let whole = at.div_ceil(LARGE_PAGE)..(at + len) / LARGE_PAGE;
        whole.for_each(|page| self.enlarge(page * LARGE_PAGE));
        let within = from as usize % PAGE;
        // SAFETY: inside the mapping; the bytes stay as they are.
        unsafe { libc::madvise(from.wrapping_sub(within).cast(), len + within, libc::MADV_POPULATE_WRITE) };
    }

    /// Collapses the pages of an aligned range into one large page. The kernel requires one of them to
    /// exist.
    fn enlarge(&self, at: usize) {
        let from = self.pointer(at, LARGE_PAGE);
        // SAFETY: inside the mapping. The value is not used, and the bytes do not change.
        unsafe {
            let _ = from.read_volatile();
            libc::madvise(from.cast(), LARGE_PAGE, MADV_COLLAPSE);
        }
    }

    /// Sets bytes to zero.
    pub fn zero(&self, at: usize, len: usize) {
        let to = self.pointer(at, len);
        // SAFETY: inside the mapping.
        unsafe { std::ptr::write_bytes(to, 0, len) };
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping of this value, which nothing in this process uses any more.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}

fn open(name: &CString, flags: i32) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string that outlives the call.
    let fd = unsafe { libc::open(name.as_ptr(), flags, 0o600) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reserves the space of a new file.
fn reserve(fd: &OwnedFd, len: usize) -> io::Result<()> {
    let size = i64::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    // SAFETY: no memory involved.
    match unsafe { libc::posix_fallocate64(fd.as_raw_fd(), 0, size) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn map(fd: RawFd, flags: i32, len: usize) -> io::Result<NonNull<u8>> {
    if len == 0 {
        return Ok(NonNull::dangling());
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let unit = match len {
        ..FAULT_AROUND => return mmap(std::ptr::null_mut(), len, access, flags, fd),
        FAULT_AROUND..LARGE_PAGE => FAULT_AROUND,
        LARGE_PAGE.. => LARGE_PAGE,
    };
    // Reserves enough address space to choose an aligned start. The rest is unmapped.
    let room = len.checked_add(unit).ok_or(io::Error::from_raw_os_error(libc::ENOMEM))?;
    let reserved = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let start = mmap(std::ptr::null_mut(), room, libc::PROT_NONE, reserved, -1)?.as_ptr();
    let before = start.align_offset(unit);
    let base = start.wrapping_add(before);
    let mapped = mmap(base, len, access, flags | libc::MAP_FIXED, fd);
    let end = base.wrapping_add(len.next_multiple_of(PAGE));
    let after = room.next_multiple_of(PAGE) - before - len.next_multiple_of(PAGE);
    for (from, len) in [(start, before), (end, after), (base, if mapped.is_err() { len } else { 0 })] {
        if len > 0 {
            // SAFETY: an unused part of the address space reserved above.
            unsafe { libc::munmap(from.cast(), len) };
        }
    }
    mapped
}

fn mmap(at: *mut u8, len: usize, access: i32, flags: i32, fd: RawFd) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address that the kernel chooses, or in address space reserved for it.
    let base = unsafe { libc::mmap(at.cast(), len, access, flags, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or(io::Error::from_raw_os_error(libc::ENOMEM))
}

/// The limit on file sizes of this process.
fn largest_file() -> u64 {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call.
    match unsafe { libc::getrlimit64(libc::RLIMIT_FSIZE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

/// Inode number and size.
fn stat(fd: &OwnedFd) -> io::Result<(u64, usize)> {
    // SAFETY: all-zero is a valid stat, which the call fills.
    let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    if unsafe { libc::fstat64(fd.as_raw_fd(), &mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((stat.st_ino, usize::try_from(stat.st_size).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_see_the_same_memory() {
        let one = Segment::create(8192).unwrap();
        let two = Segment::open(&one.handle().unwrap()).unwrap();
        assert_eq!(two.len(), 8192);
        one.word(8).store(7, Ordering::Release);
        one.bytes(4096, 5, |bytes| bytes.copy_from_slice(b"hello"));
        assert_eq!(two.word(8).load(Ordering::Acquire), 7);
        assert_eq!(two.bytes(4096, 5, |bytes| bytes.to_vec()), b"hello");
        assert!(two.handle().is_err(), "only the maker's descriptor is kept");
    }

    #[test]
    fn private_and_unshared_memory_has_no_handle() {
        let mut one = Segment::create(4096).unwrap();
        one.stop_sharing();
        assert!(one.handle().is_err());
        let private = Segment::private(1 << 40).unwrap();
        private.word(1 << 39).store(1, Ordering::Relaxed);
        assert!(private.handle().is_err());
    }

    #[test]
    fn a_name_exists_until_sharing_stops() {
        let id = u64::from(std::process::id()) << 20 | 77;
        let mut one = Segment::create_named(8192, id).unwrap();
        assert!(Segment::create_named(8192, id).is_err(), "never somebody else's");
        let handle = one.handle().unwrap();
        let two = Segment::open(&handle).unwrap();
        one.word(0).store(5, Ordering::Relaxed);
        assert_eq!(two.word(0).load(Ordering::Relaxed), 5);
        one.stop_sharing();
        assert!(Segment::open(&handle).is_err());
    }

    #[test]
    fn a_file_is_shared_by_path_and_by_descriptor_until_it_is_removed() {
        let path = Path::new("/dev/shm").join(format!("pario-test-{}", std::process::id()));
        let one = Segment::create_file(&path, 8192).unwrap();
        assert!(Segment::create_file(&path, 8192).is_err(), "never somebody else's");
        let two = Segment::open_file(&path).unwrap();
        let three =
            Segment::from_descriptor(one.descriptor().unwrap().try_clone_to_owned().unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        one.write_from(4090, b"hello");
        let mut bytes = [0; 7];
        two.read_into(4089, &mut bytes);
        assert_eq!(&bytes, b"\0hello\0");
        three.zero(4091, 3);
        one.read_into(4089, &mut bytes);
        assert_eq!(&bytes, b"\0h\0\0\0o\0");
        assert!(three.descriptor().is_none());
    }

    #[test]
    fn a_file_that_does_not_fit_is_an_error_and_leaves_nothing() {
        let path = Path::new("/dev/shm").join(format!("pario-test-large-{}", std::process::id()));
        assert!(Segment::create_file(&path, 1 << 50).is_err());
        assert!(!path.exists());
    }

    #[test]
    fn memory_begins_at_a_neighbourhood_and_stays_as_it_is_when_prepared() {
        for (len, unit) in [
            (FAULT_AROUND, FAULT_AROUND),
            (FAULT_AROUND + 1, FAULT_AROUND),
            (5 * FAULT_AROUND + 4096, FAULT_AROUND),
            (LARGE_PAGE, LARGE_PAGE),
            (3 * LARGE_PAGE + 4097, LARGE_PAGE),
        ] {
            let one = Segment::create(len).unwrap();
            assert_eq!(one.pointer(0, 0) as usize % unit, 0);
            one.write_from(len - 5, b"hello");
            one.prepare(1, len - 1);
            (0..len.div_ceil(FAULT_AROUND)).for_each(|each| one.arrive(each));
            let two = Segment::open(&one.handle().unwrap()).unwrap();
            two.arrive((len - 1) / FAULT_AROUND);
            let mut bytes = [1; 6];
            two.read_into(len - 6, &mut bytes);
            assert_eq!(&bytes, b"\0hello");
        }
    }

    #[test]
    #[should_panic(expected = "6 bytes at 4091")]
    fn bytes_beyond_the_end_are_bugs() {
        Segment::create(4096).unwrap().write_from(4091, b"hello!");
    }

    #[test]
    fn a_stale_ticket_is_refused() {
        let one = Segment::create(4096).unwrap();
        let handle = one.handle().unwrap();
        assert!(Segment::open(&SegmentHandle { inode: handle.inode + 1, ..handle }).is_err());
        assert!(Segment::open(&SegmentHandle { fd: 99_999, ..handle }).is_err());
    }

    #[test]
    #[should_panic(expected = "word at 4096")]
    fn words_beyond_the_end_are_bugs() {
        Segment::create(4096).unwrap().word(4096);
    }
}
