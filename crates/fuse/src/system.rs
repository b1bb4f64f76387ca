//! The interface to the kernel: it decodes requests and encodes replies.
//!
//! All files are opened for direct I/O and all replies have a time to live of 0, so the kernel caches neither bytes nor
//! attributes nor names. For the same reason directories are listed without attributes: the kernel would have to ask again
//! for each. The kernel checks permissions (`default_permissions`).

use std::cell::RefCell;
use std::ffi::OsStr;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::attributes::BLOCK;
use crate::files::{Changes, Files, Result};

/// The time for which the kernel may cache replies.
const NOT_AT_ALL: Duration = Duration::ZERO;

/// Inode numbers are never reused, so there is one generation.
const FOREVER: Generation = Generation(0);

/// The length of the longest name, which is the servers' limit.
const LONGEST_NAME: u32 = 255;

/// The unit in which space is reported.
const UNIT: u32 = 4096;

thread_local! {
    /// The buffer for reads; one per thread.
    static BUFFER: RefCell<Vec<u8>> = RefCell::default();
}

/// The kernel's treatment of an open file: it passes every access on, and writes to different parts concurrently.
const DIRECT: FopenFlags = FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

fn entry(found: Result<fuser::FileAttr>, reply: ReplyEntry) {
    match found {
        Ok(attributes) => reply.entry(&NOT_AT_ALL, &attributes, FOREVER),
        Err(errno) => reply.error(errno),
    }
}

fn attr(found: Result<fuser::FileAttr>, reply: ReplyAttr) {
    match found {
        Ok(attributes) => reply.attr(&NOT_AT_ALL, &attributes),
        Err(errno) => reply.error(errno),
    }
}

fn empty(done: Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn moment(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // A kernel that cannot truncate in an open does so after it; one that supports smaller requests says so.
        let _ = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.set_max_write(BLOCK);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.look_up(parent.0, name), reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        Files::forget(self, number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attr(self.get(number.0), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let owner = self.owner;
        if user.is_some_and(|user| user != owner.user) || group.is_some_and(|group| group != owner.group) {
            return reply.error(Errno::EPERM);
        }
        let (accessed, modified) = (accessed.map(moment), modified.map(moment));
        let changes = Changes { size, mode, accessed, modified };
        attr(self.set(number.0, handle.map(|handle| handle.0), &changes), reply);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        entry(self.make_directory(parent.0, name, mode), reply);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        // Plain files are created when they are opened; there are no others.
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.remove(parent.0, name, false), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.remove(parent.0, name, true), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags.intersects(RenameFlags::all() - RenameFlags::RENAME_NOREPLACE) {
            return reply.error(Errno::EINVAL);
        }
        let replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        empty(Files::rename(self, (parent.0, name), (new_parent.0, new_name), replace), reply);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match Files::create(self, parent.0, name, mode, OpenFlags(flags)) {
            Ok((attributes, handle)) => {
                reply.created(&NOT_AT_ALL, &attributes, FOREVER, FileHandle(handle), DIRECT);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match Files::open(self, number.0, flags) {
            Ok(handle) => reply.opened(FileHandle(handle), DIRECT),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size as usize {
                buffer.resize(size as usize, 0);
            }
            match Files::read(self, number.0, handle.0, offset, &mut buffer[..size as usize]) {
                Ok(read) => reply.data(&buffer[..read]),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match Files::write(self, number.0, handle.0, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, number: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        empty(Files::flush(self, number.0, handle.0), reply);
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        empty(Files::release(self, number.0, handle.0), reply);
    }

    fn fsync(&self, _: &Request, number: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(self.sync(number.0, handle.0), reply);
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_directory(number.0) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.list(handle.0, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.release_directory(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(self.sync_all(), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.room() {
            Ok(room) => {
                let [total, free] = [room.total, room.free].map(|bytes| bytes / u64::from(UNIT));
                // The number of files is not limited: 0 means that.
                reply.statfs(total, free, free, 0, 0, UNIT, LONGEST_NAME, UNIT);
            }
            Err(errno) => reply.error(errno),
        }
    }
}
