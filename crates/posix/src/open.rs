//! Opening a file: the flags, the allowed kinds of file, and the striping of a new file.
//!
//! Lustre fixes the layout of a file when it gives it objects, which is when it is made, so a file that shall
//! have a layout of its own is made without objects, gets its layout, and then its objects. Whether this is
//! Lustre has to be known before, so the directory is asked.

use crate::error::{Error, FileOperation};
use crate::filesystem::{FileSystem, FsKind};
use crate::lustre;
use crate::striping::{StripingOutcome, StripingRequest};
use crate::sys::{Errno, Syscalls, errno};
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The options of an open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainOpenOptions {
    /// The program will read.
    pub read: bool,
    /// The program will write.
    pub write: bool,
    /// Make the file if there is none.
    pub create: bool,
    /// With `create`: fail if there is one.
    pub exclusive: bool,
    /// Permission bits of a new file, before the process's mask.
    pub mode: u32,
    /// With `create`: how a new file shall be striped, where the file system can be asked.
    pub striping: Option<StripingRequest>,
}

impl Default for PlainOpenOptions {
    fn default() -> PlainOpenOptions {
        PlainOpenOptions {
            read: true,
            write: false,
            create: false,
            exclusive: false,
            mode: 0o666,
            striping: None,
        }
    }
}

/// An open descriptor and what is known about it.
pub(crate) struct OpenedFile {
    pub fd: OwnedFd,
    /// The descriptor can read, whatever the program asked for.
    pub readable: bool,
    pub outcome: StripingOutcome,
}

/// Opens a file. `pretended` replaces the file system in tests.
pub(crate) fn open(
    path: &Path,
    how: &PlainOpenOptions,
    sys: &dyn Syscalls,
    pretended: Option<&FileSystem>,
) -> Result<OpenedFile, Errno> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::ENOENT))?;
    let request = OpenRequest { name, how, sys };
    match how.striping.filter(|_| how.create) {
        None => request.open(request.make_flags(), StripingOutcome::NotAsked),
        Some(_) if !is_lustre(path, sys, pretended) => {
            request.open(request.make_flags(), StripingOutcome::NotHere)
        }
        Some(wanted) => request.make_striped(&wanted),
    }
}

/// Whether a file of this name would lie on Lustre. A directory that cannot be asked is none of Lustre's;
/// what is wrong with it will be said when the file is opened.
fn is_lustre(path: &Path, sys: &dyn Syscalls, pretended: Option<&FileSystem>) -> bool {
    let real = || {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = CString::new(parent.as_os_str().as_bytes()).ok()?;
        let directory = sys.open(&parent, libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC, 0).ok()?;
        sys.file_system(directory.as_raw_fd()).ok()
    };
    pretended.copied().or_else(real).is_some_and(|fs| fs.kind == FsKind::Lustre)
}

/// A name to open, in one way or another.
struct OpenRequest<'a> {
    name: CString,
    how: &'a PlainOpenOptions,
    sys: &'a dyn Syscalls,
}

impl OpenRequest<'_> {
    fn make_flags(&self) -> i32 {
        match (self.how.create, self.how.exclusive) {
            (false, _) => 0,
            (true, false) => libc::O_CREAT,
            (true, true) => libc::O_CREAT | libc::O_EXCL,
        }
    }

    fn make_striped(&self, wanted: &StripingRequest) -> Result<OpenedFile, Errno> {
        let flags = libc::O_CREAT | libc::O_EXCL | lustre::DELAY_CREATE;
        let made = match self.open(flags, StripingOutcome::Applied) {
            Err(Errno(libc::EEXIST)) if !self.how.exclusive => {
                return self.open(self.make_flags(), StripingOutcome::Existing);
            }
            made => made?,
        };
        match self.sys.set_lustre_layout(made.fd.as_raw_fd(), &lustre::request(wanted)) {
            Ok(()) => Ok(made),
            // The descriptor has nothing to write to; opening the file once more gives it objects.
            Err(Errno(errno)) => self.open(0, StripingOutcome::Refused(errno)),
        }
    }

    /// Opens for what the program wants. A file for writing only is opened for reading too where that is
    /// allowed, so that writes can be sieved.
    fn open(&self, flags: i32, outcome: StripingOutcome) -> Result<OpenedFile, Errno> {
        let opened = |readable| move |fd| OpenedFile { fd, readable, outcome };
        if !self.how.write {
            return self.open_as(flags | libc::O_RDONLY).map(opened(true));
        }
        match self.open_as(flags | libc::O_RDWR) {
            Err(Errno(libc::EACCES | libc::EPERM)) if !self.how.read => {
                self.open_as(flags | libc::O_WRONLY).map(opened(false))
            }
            both => both.map(opened(true)),
        }
    }

    fn open_as(&self, flags: i32) -> Result<OwnedFd, Errno> {
        // Opening a pipe would wait for its other end; without waiting, it is detected and refused. Only a file on which
        // another process is giving up a lease returns "again", and for that one waiting is right.
        let mut wait = libc::O_NONBLOCK;
        loop {
            match self.sys.open(&self.name, flags | libc::O_CLOEXEC | wait, self.how.mode) {
                Err(Errno(libc::EINTR)) => {}
                Err(Errno(libc::EWOULDBLOCK)) if wait != 0 => wait = 0,
                result => return result,
            }
        }
    }
}

/// Refuses anything that is not a file; returns the device of the file.
pub(crate) fn check_is_file(fd: &OwnedFd, path: &Arc<Path>) -> Result<u64, Error> {
    // SAFETY: all-zero is a valid stat, which the call fills.
    let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    if unsafe { libc::fstat64(fd.as_raw_fd(), &mut stat) } != 0 {
        return Err(Error::system(FileOperation::Inspect, path, errno().0));
    }
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFDIR | libc::S_IFIFO | libc::S_IFSOCK => Err(Error::NotAFile { path: path.clone() }),
        _ => Ok(stat.st_dev),
    }
}

/// Removes a file's name.
pub fn delete(path: &Path) -> Result<(), Error> {
    let Err(error) = std::fs::remove_file(path) else { return Ok(()) };
    let path: Arc<Path> = Arc::from(path);
    if path.is_dir() {
        return Err(Error::NotAFile { path });
    }
    Err(Error::system(FileOperation::Delete, &path, error.raw_os_error().unwrap_or(libc::ENOENT)))
}
