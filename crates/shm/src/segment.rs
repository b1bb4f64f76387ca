//! One piece of shared memory.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

const PAGE: usize = 4096;

/// From Linux 6.1 on; others refuse it.
const MADV_COLLAPSE: i32 = 25;

/// How much of a memory file the kernel maps at once when a byte of it is read: what of these bytes, whose beginning is a
/// multiple of their number, has pages already. Of a byte that is written it maps the page and no more.
pub const NEIGHBOURHOOD: usize = 64 << 10;

/// Bytes of a large page, which is mapped at once whatever is done to a byte of it.
pub const LARGE_PAGE: usize = 2 << 20;

/// Memory shared by processes.
///
/// It begins at a multiple of [`LARGE_PAGE`], or else of [`NEIGHBOURHOOD`], if it has so many bytes. Its words and bytes are addressed by offsets, checked at each use: a wrong one is a bug and panics.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    len: usize,
    /// How others can open it, until the sharing is closed.
    sharing: Sharing,
}

#[derive(Debug)]
enum Sharing {
    Stopped,
    /// A descriptor that others of the same user find in `/proc`.
    Descriptor(OwnedFd),
    /// A name in the memory file system, gone when this is dropped.
    Name(Name),
}

#[derive(Debug)]
struct Name(u64);

impl Name {
    fn path(&self) -> CString {
        CString::new(format!("/dev/shm/pario-{:016x}", self.0)).expect("digits and slashes")
    }
}

impl Name {
    /// The path, of a name that is not ours to remove.
    fn forget(self) -> CString {
        std::mem::ManuallyDrop::new(self).path()
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // SAFETY: the name is a C string that outlives the call. What cannot be removed nobody will meet
        // again.
        unsafe { libc::unlink(self.path().as_ptr()) };
    }
}

/// How another process of the node finds a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHandle {
    /// Who holds the descriptor.
    pub pid: u32,
    /// The descriptor there.
    pub fd: u32,
    /// The number of the memory file, so that a descriptor that means something else by now is refused. With
    /// process 0: the number in its name.
    pub inode: u64,
}

// SAFETY: the memory is reached through atomics and through `bytes`, whose callers keep apart.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// New memory, all zero.
    pub fn create(len: usize) -> io::Result<Segment> {
        // SAFETY: the name is a C string that outlives the call.
        let fd = unsafe { libc::memfd_create(c"pario".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let size = i64::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // The limit on file sizes holds for memory files too, and a signal would come with the error.
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

    /// New memory, all zero, with a name until the sharing is closed: for processes that may not look into each
    /// other's descriptors. `id` is a random number. All of it is reserved at once, since running out of the
    /// memory file system's space later would be fatal.
    pub fn create_named(len: usize, id: u64) -> io::Result<Segment> {
        if largest_file() < len as u64 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let path = Name(id).forget();
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let fd = open(&path, flags)?;
        let name = Name(id);
        reserve(&fd, len)?;
        let base = map(fd.as_raw_fd(), libc::MAP_SHARED, len)?;
        Ok(Segment { base, len, sharing: Sharing::Name(name) })
    }

    /// New memory, all zero, that is a file at `path` for its user alone, until somebody removes it. There
    /// must be none yet. All of it is reserved at once, as in [`create_named`](Segment::create_named). The
    /// file belongs in a memory file system: elsewhere the kernel writes it to the disk.
    pub fn create_file(path: &Path, len: usize) -> io::Result<Segment> {
        if largest_file() < len as u64 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let name = c_path(path)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let fd = open(&name, flags)?;
        let mapped = reserve(&fd, len).and_then(|()| map(fd.as_raw_fd(), libc::MAP_SHARED, len));
        let base = mapped.inspect_err(|_| {
            // SAFETY: the name is a C string that outlives the call. The file is ours: it was not there
            // before.
            unsafe { libc::unlink(name.as_ptr()) };
        })?;
        Ok(Segment { base, len, sharing: Sharing::Descriptor(fd) })
    }

    /// The memory of an existing file.
    pub fn open_file(path: &Path) -> io::Result<Segment> {
        let fd = open(&c_path(path)?, libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW)?;
        let (_, len) = stat(&fd)?;
        let base = map(fd.as_raw_fd(), libc::MAP_SHARED, len)?;
        Ok(Segment { base, len, sharing: Sharing::Descriptor(fd) })
    }

    /// The same memory with more bytes, all zero, behind those that it has: for a file that somebody has cut short. All of
    /// them are reserved.
    pub fn grow(self, len: usize) -> io::Result<Segment> {
        let Sharing::Descriptor(fd) = &self.sharing else {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        };
        let fd = fd.try_clone()?;
        reserve(&fd, len)?;
        let base = map(fd.as_raw_fd(), libc::MAP_SHARED, len)?;
        Ok(Segment { base, len, sharing: Sharing::Descriptor(fd) })
    }

    /// Ends this process, by a `SIGBUS`, if somebody has cut the file short: what was read from it before may be zeros
    /// that nobody has written.
    #[inline]
    pub fn insist(&self) {
        if self.len > 0 {
            // SAFETY: inside the mapping. Read for its effect; what it is does not matter.
            let _ = unsafe { self.base.as_ptr().add(self.len - 1).read_volatile() };
        }
    }

    /// The memory behind a descriptor that another process passed. The descriptor is closed: so nothing in
    /// this process can cut the file short by accident.
    pub fn from_descriptor(fd: OwnedFd) -> io::Result<Segment> {
        let (_, len) = stat(&fd)?;
        let base = map(fd.as_raw_fd(), libc::MAP_SHARED, len)?;
        Ok(Segment { base, len, sharing: Sharing::Stopped })
    }

    /// The descriptor to pass to other processes, while the sharing is open and if there is one.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.sharing {
            Sharing::Descriptor(fd) => Some(fd.as_fd()),
            Sharing::Stopped | Sharing::Name(_) => None,
        }
    }

    /// Memory for this process alone, all zero.
    pub fn private(len: usize) -> io::Result<Segment> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        Ok(Segment { base: map(-1, flags, len)?, len, sharing: Sharing::Stopped })
    }

    /// Lets nobody else open it any more.
    pub fn stop_sharing(&mut self) {
        self.sharing = Sharing::Stopped;
    }

    /// What another process of this node needs to open it. Only the maker has one.
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

    /// The memory that another process of this node made.
    pub fn open(handle: &SegmentHandle) -> io::Result<Segment> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        let fd = match handle.pid {
            0 => open(&Name(handle.inode).forget(), flags | libc::O_NOFOLLOW)?,
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

    /// Bytes of it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
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
    pub fn half(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(8) && at < self.len && self.len - at >= 8, "word at {at} of {}", self.len);
        // SAFETY: as in `word`.
        unsafe { &*self.base.as_ptr().add(at).cast() }
    }

    /// Lets `f` use `len` bytes from `at` on. Others may use them too: whoever calls this follows a
    /// protocol in which no byte is read by one while another writes it.
    #[inline]
    pub fn bytes<R>(&self, at: usize, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(at <= self.len && self.len - at >= len, "{len} bytes at {at} of {}", self.len);
        // SAFETY: inside the mapping; the protocol of the caller keeps writers apart.
        f(unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at), len) })
    }

    /// Where `len` bytes from `at` on are in this process, for system calls. The pointer is good as long as
    /// the segment is.
    #[inline]
    pub fn pointer(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len && self.len - at >= len, "{len} bytes at {at} of {}", self.len);
        self.base.as_ptr().wrapping_add(at)
    }

    /// Copies bytes out. What another process writes meanwhile comes out old, new, or mixed.
    #[inline]
    pub fn read_into(&self, at: usize, to: &mut [u8]) {
        let from = self.pointer(at, to.len());
        // SAFETY: inside the mapping; `to` is this process's own memory, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    /// Copies bytes in. Where another process writes meanwhile, either's bytes may stay.
    #[inline]
    pub fn write_from(&self, at: usize, from: &[u8]) {
        let to = self.pointer(at, from.len());
        // SAFETY: as in `read_into`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Maps the pages that a neighbourhood has, which costs a fraction of what writing to them one after the other would.
    #[inline]
    pub fn arrive(&self, neighbourhood: usize) {
        let at = neighbourhood * NEIGHBOURHOOD;
        assert!(at < self.len, "neighbourhood {neighbourhood} of {} bytes", self.len);
        // SAFETY: inside the mapping. Read for its effect; what it is does not matter.
        let _ = unsafe { self.base.as_ptr().add(at).read_volatile() };
    }

    /// Gives bytes their pages, and maps these. Large pages where the bytes are all those of one and the kernel finds one,
    /// which costs every process that maps them a five-hundredth, whatever the machine's rule is for those who do not ask.
    /// Where the kernel does not know how, pages come one by one when they are used.
    pub fn prepare(&self, at: usize, len: usize) {
        let from = self.pointer(at, len);
        let whole = at.div_ceil(LARGE_PAGE)..(at + len) / LARGE_PAGE;
        whole.for_each(|page| self.enlarge(page * LARGE_PAGE));
        let within = from as usize % PAGE;
        // SAFETY: inside the mapping; the bytes stay as they are.
        unsafe { libc::madvise(from.wrapping_sub(within).cast(), len + within, libc::MADV_POPULATE_WRITE) };
    }

    /// Makes one page of as many as a large one has. The kernel wants one of them to be there.
    fn enlarge(&self, at: usize) {
        let from = self.pointer(at, LARGE_PAGE);
        // SAFETY: inside the mapping. Read for its effect; the bytes stay as they are.
        unsafe {
            let _ = from.read_volatile();
            libc::madvise(from.cast(), LARGE_PAGE, MADV_COLLAPSE);
        }
    }

    /// Makes bytes zero.
    pub fn zero(&self, at: usize, len: usize) {
        let to = self.pointer(at, len);
        // SAFETY: inside the mapping.
        unsafe { std::ptr::write_bytes(to, 0, len) };
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: our own mapping, used by nobody in this process any more.
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
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Reserves all of a new file.
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
        ..NEIGHBOURHOOD => return mmap(std::ptr::null_mut(), len, access, flags, fd),
        NEIGHBOURHOOD..LARGE_PAGE => NEIGHBOURHOOD,
        LARGE_PAGE.. => LARGE_PAGE,
    };
    // Room for it and for finding a good beginning there; the rest is given back.
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
            // SAFETY: of the room reserved above, what nobody uses.
            unsafe { libc::munmap(from.cast(), len) };
        }
    }
    mapped
}

fn mmap(at: *mut u8, len: usize, access: i32, flags: i32, fd: RawFd) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at a place of the kernel's choice, or in room that was reserved for it.
    let base = unsafe { libc::mmap(at.cast(), len, access, flags, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or(io::Error::from_raw_os_error(libc::ENOMEM))
}

/// The process's limit on file sizes.
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
    fn private_memory_and_a_closed_door_have_no_ticket() {
        let mut one = Segment::create(4096).unwrap();
        one.stop_sharing();
        assert!(one.handle().is_err());
        let private = Segment::private(1 << 40).unwrap();
        private.word(1 << 39).store(1, Ordering::Relaxed);
        assert!(private.handle().is_err());
    }

    #[test]
    fn a_name_is_there_until_the_door_is_closed() {
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
            (NEIGHBOURHOOD, NEIGHBOURHOOD),
            (NEIGHBOURHOOD + 1, NEIGHBOURHOOD),
            (5 * NEIGHBOURHOOD + 4096, NEIGHBOURHOOD),
            (LARGE_PAGE, LARGE_PAGE),
            (3 * LARGE_PAGE + 4097, LARGE_PAGE),
        ] {
            let one = Segment::create(len).unwrap();
            assert_eq!(one.pointer(0, 0) as usize % unit, 0);
            one.write_from(len - 5, b"hello");
            one.prepare(1, len - 1);
            (0..len.div_ceil(NEIGHBOURHOOD)).for_each(|each| one.arrive(each));
            let two = Segment::open(&one.handle().unwrap()).unwrap();
            two.arrive((len - 1) / NEIGHBOURHOOD);
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
