//! Striping: its detection, and the requests at creation, on a simulated Lustre.

mod fixture;

use fixture::*;
use pario_posix::{
    Errno, FileSystem, FsKind, FsStriping, Linux, PlainFile, PlainOpenOptions, StripingOutcome,
    StripingRequest, Syscalls,
};
use std::ffi::CStr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

/// The flags that make a file of Lustre without objects.
const DELAYED: i32 = libc::O_NOCTTY | libc::O_ASYNC;

/// A file system that calls itself Lustre and remembers what it was told.
#[derive(Default)]
struct Lustre {
    /// Flags of every file that was opened, directories excepted.
    opened: Mutex<Vec<i32>>,
    layouts: Mutex<Vec<[u8; 32]>>,
    /// Setting a layout fails with this number.
    refuse: Option<i32>,
}

impl Syscalls for Lustre {
    fn open(&self, path: &CStr, flags: i32, mode: u32) -> Result<OwnedFd, Errno> {
        let fd = Linux.open(path, flags, mode)?;
        if flags & libc::O_DIRECTORY == 0 {
            self.opened.lock().unwrap().push(flags);
        }
        Ok(fd)
    }

    fn file_system(&self, _: RawFd) -> Result<FileSystem, Errno> {
        Ok(FileSystem::recognise(0x0BD0_0BD0, 4 << 20))
    }

    fn attribute(&self, _: RawFd, name: &CStr, to: &mut [u8]) -> Result<usize, Errno> {
        assert_eq!(name, c"lustre.lov");
        let layouts = self.layouts.lock().unwrap();
        let layout = layouts.last().ok_or(Errno(libc::ENODATA))?;
        to[..32].copy_from_slice(layout);
        Ok(32)
    }

    fn set_lustre_layout(&self, _: RawFd, layout: &[u8; 32]) -> Result<(), Errno> {
        if let Some(errno) = self.refuse {
            return Err(Errno(errno));
        }
        self.layouts.lock().unwrap().push(*layout);
        Ok(())
    }
}

fn asking(unit: u64, count: u32) -> PlainOpenOptions {
    let request = StripingRequest { unit: Some(unit), count: Some(count), first: None };
    PlainOpenOptions { striping: Some(request), ..both() }
}

fn open(path: &TempPath, how: &PlainOpenOptions, lustre: &Arc<Lustre>) -> PlainFile {
    PlainFile::open_with(&path.0, how, lustre.clone(), None).unwrap()
}

#[test]
fn a_new_file_gets_its_layout_before_its_objects() {
    let (path, lustre) = (TempPath::new(), Arc::new(Lustre::default()));
    let file = open(&path, &asking(100_000, 4), &lustre);
    assert_eq!(file.filesystem().kind, FsKind::Lustre);
    assert_eq!(file.striping_outcome(), StripingOutcome::Applied);
    assert_eq!(file.striping(), Some(FsStriping { unit: 128 << 10, count: Some(4) }));
    let opened = lustre.opened.lock().unwrap();
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0] & DELAYED, DELAYED);
    assert_ne!(opened[0] & libc::O_EXCL, 0, "an existing file is never taken for a new one");
}

#[test]
fn an_existing_file_keeps_its_layout() {
    let (path, lustre) = (TempPath::with(b"old"), Arc::new(Lustre::default()));
    let file = open(&path, &asking(65536, 4), &lustre);
    assert_eq!(file.striping_outcome(), StripingOutcome::Existing);
    assert_eq!(file.striping_outcome().complaint(), None);
    assert!(lustre.layouts.lock().unwrap().is_empty());
    assert!(lustre.opened.lock().unwrap().iter().all(|flags| flags & DELAYED != DELAYED));
    assert_eq!(path.bytes(), b"old");
    assert_eq!(file.striping(), None, "a file without a layout");
    let exclusive = PlainOpenOptions { exclusive: true, ..asking(65536, 4) };
    let error = PlainFile::open_with(&path.0, &exclusive, lustre, None).err().unwrap();
    assert_eq!(error.errno(), Some(libc::EEXIST));
}

#[test]
fn a_refused_layout_leaves_a_working_file_and_a_message() {
    let lustre = Arc::new(Lustre { refuse: Some(libc::EINVAL), ..Lustre::default() });
    for exclusive in [false, true] {
        let path = TempPath::new();
        let file = open(&path, &PlainOpenOptions { exclusive, ..asking(65536, 9999) }, &lustre);
        assert_eq!(file.striping_outcome(), StripingOutcome::Refused(libc::EINVAL));
        let line = file.striping_outcome().complaint().unwrap();
        assert!(line.starts_with("striping hints not applied: Invalid argument"), "{line}");
        file.write_bytes(pario_types::Offset(0), b"works").unwrap();
        assert_eq!(path.bytes(), b"works");
        let last = *lustre.opened.lock().unwrap().last().unwrap();
        assert_ne!(last & DELAYED, DELAYED, "it was opened again, with objects");
    }
}

#[test]
fn without_a_request_or_a_parallel_file_system_nothing_changes() {
    let (path, lustre) = (TempPath::new(), Arc::new(Lustre::default()));
    assert_eq!(open(&path, &both(), &lustre).striping_outcome(), StripingOutcome::NotAsked);
    let not_making = PlainOpenOptions { create: false, ..asking(65536, 4) };
    assert_eq!(open(&path, &not_making, &lustre).striping_outcome(), StripingOutcome::NotAsked);
    assert!(lustre.opened.lock().unwrap().iter().all(|flags| flags & DELAYED == 0));
    let here = TempPath::new();
    let file = PlainFile::open(&here.0, &asking(65536, 4)).unwrap();
    assert_eq!((file.striping_outcome(), file.striping()), (StripingOutcome::NotHere, None));
}

#[test]
fn a_missing_directory_is_the_same_error_with_a_layout() {
    let path = std::env::temp_dir().join("pario-no-such-directory/file");
    let error = PlainFile::open(&path, &asking(65536, 4)).err().unwrap();
    assert_eq!(error.errno(), Some(libc::ENOENT));
}

#[test]
fn a_simulated_file_system_takes_the_same_path() {
    let striping = FsStriping { unit: 65536, count: Some(4) };
    let lustre = FileSystem::pretend(FsKind::Lustre, 4096, Some(striping));
    let path = TempPath::new();
    let file = PlainFile::open_with(&path.0, &asking(65536, 8), Arc::new(Linux), Some(lustre)).unwrap();
    assert_eq!(file.striping(), Some(striping));
    assert!(file.striping_outcome().complaint().is_some(), "the real file system knows no layouts");
    file.write_bytes(pario_types::Offset(0), b"works").unwrap();
    assert_eq!(path.bytes(), b"works");

    let gpfs = FileSystem::pretend(FsKind::Gpfs, 256 << 10, None);
    let file = PlainFile::open_with(&path.0, &asking(65536, 8), Arc::new(Linux), Some(gpfs)).unwrap();
    assert_eq!(file.striping(), Some(FsStriping { unit: 256 << 10, count: None }));
    assert_eq!(file.striping_outcome(), StripingOutcome::NotHere);
}
