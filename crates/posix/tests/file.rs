//! Opening, sizes, space, deleting; the operations that each kind of open allows.

mod fixture;

use fixture::*;
use pario_posix::{AccessAdvice, Errno, Linux, PlainFile, PlainOpenOptions, Syscalls, delete};
use pario_types::{AccessTuning, Toggle};
use pario_types::{ErrorKind, Offset, Pos};
use std::os::fd::RawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};

fn kind_of(result: Result<PlainFile, pario_posix::Error>) -> ErrorKind {
    match result {
        Ok(_) => panic!("it opened"),
        Err(error) => error.kind(),
    }
}

#[test]
fn opens_that_must_fail_say_why() {
    let path = TempPath::new();
    let new = PlainOpenOptions { write: true, create: true, exclusive: true, ..PlainOpenOptions::default() };
    assert_eq!(kind_of(PlainFile::open(&path.0, &PlainOpenOptions::default())), ErrorKind::NoSuchFile);
    PlainFile::open(&path.0, &new).unwrap();
    assert_eq!(kind_of(PlainFile::open(&path.0, &new)), ErrorKind::FileExists);
    let dir = std::env::temp_dir();
    assert_eq!(kind_of(PlainFile::open(&dir, &PlainOpenOptions::default())), ErrorKind::BadFile);
    assert_eq!(kind_of(PlainFile::open(&dir, &both())), ErrorKind::BadFile);
    assert_eq!(kind_of(PlainFile::open(&path.0.join("x"), &both())), ErrorKind::BadFile);
    assert_eq!(kind_of(PlainFile::open(Path::new("nul\0byte"), &both())), ErrorKind::NoSuchFile);
}

#[test]
fn a_pipe_is_refused_without_waiting_for_its_other_end() {
    let path = TempPath::new();
    let name = std::ffi::CString::new(path.0.to_str().unwrap()).unwrap();
    // SAFETY: the name is a C string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    assert_eq!(kind_of(PlainFile::open(&path.0, &PlainOpenOptions::default())), ErrorKind::BadFile);
    assert_eq!(kind_of(PlainFile::open(&path.0, &both())), ErrorKind::BadFile);
}

#[test]
fn a_new_file_has_the_requested_permissions() {
    let path = TempPath::new();
    PlainFile::open(&path.0, &PlainOpenOptions { mode: 0o600, ..both() }).unwrap();
    assert_eq!(std::fs::metadata(&path.0).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn each_direction_needs_its_mode() {
    let path = TempPath::with(b"abc");
    let mut bytes = [0; 3];
    let reader = PlainFile::open(&path.0, &PlainOpenOptions::default()).unwrap();
    let writer = PlainFile::open(
        &path.0,
        &PlainOpenOptions { read: false, write: true, ..PlainOpenOptions::default() },
    )
    .unwrap();
    assert_eq!(reader.write_bytes(Offset(0), b"x").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(reader.set_size(0).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(writer.read_bytes(Offset(0), &mut bytes).unwrap_err().kind(), ErrorKind::Access);
    assert!(writer.can_sieve_writes());
    reader.sync().unwrap();
    assert_eq!(reader.read_bytes(Offset(1), &mut bytes).unwrap(), 2);
    assert_eq!(&bytes[..2], b"bc");
}

#[test]
fn preallocation_grows_a_file_and_changes_no_byte() {
    let path = TempPath::with(b"hello");
    let file = open(&path.0);
    file.preallocate(100_000).unwrap();
    assert_eq!(file.size().unwrap(), 100_000);
    assert!(std::fs::metadata(&path.0).unwrap().blocks() * 512 >= 100_000);
    file.preallocate(10).unwrap();
    file.preallocate(0).unwrap();
    assert_eq!(file.size().unwrap(), 100_000);
    assert_eq!(&path.bytes()[..6], b"hello\0");
    file.set_size(3).unwrap();
    assert_eq!(path.bytes(), b"hel");
}

#[test]
fn deleting_takes_files_and_not_directories() {
    let path = TempPath::with(b"");
    delete(&path.0).unwrap();
    assert_eq!(delete(&path.0).unwrap_err().kind(), ErrorKind::NoSuchFile);
    std::fs::create_dir(&path.0).unwrap();
    assert_eq!(delete(&path.0).unwrap_err().kind(), ErrorKind::BadFile);
    std::fs::remove_dir(&path.0).unwrap();
}

#[test]
fn a_thread_may_access_its_locked_range_and_not_across_its_end() {
    let path = TempPath::with(&[1; 100]);
    let file = open(&path.0);
    let guard = file.lock(Offset(10)..Offset(50), true).unwrap();
    file.write_bytes(Offset(20), &[2; 10]).unwrap();
    assert_eq!(file.write_bytes(Offset(45), &[3; 10]).unwrap_err().kind(), ErrorKind::Intern);
    drop(guard);
    file.write_bytes(Offset(45), &[3; 10]).unwrap();
}

#[test]
fn an_access_of_zero_bytes_succeeds() {
    let path = TempPath::with(b"abc");
    let file = open(&path.0);
    let memory = whole(4);
    let empty = Layout { pieces: vec![], extent: 0 };
    for tune in [AccessTuning::default(), AccessTuning { atomic: true, ..AccessTuning::default() }] {
        assert_eq!(file.read(&empty.view(0), Pos(0), &memory.buffer, 0, 0, &tune).unwrap(), 0);
        assert_eq!(file.write(&empty.view(0), Pos(0), &memory.buffer, 4, 0, &tune).unwrap(), 0);
        let error = file.read(&empty.view(0), Pos(0), &memory.buffer, 0, 1, &tune).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Arg);
    }
}

/// A file without read permission still opens, and pieces are written one by one.
#[test]
fn a_file_that_may_only_be_written_is_not_sieved() {
    let path = TempPath::with(&[7; 300]);
    std::fs::set_permissions(&path.0, std::fs::Permissions::from_mode(0o222)).unwrap();
    let how = PlainOpenOptions { read: false, write: true, ..PlainOpenOptions::default() };
    // The superuser may read everything, so this thread accesses files as another user.
    // SAFETY: changes an identity of this thread, no memory.
    let before = unsafe { libc::setfsuid(65534) };
    let opened = PlainFile::open(&path.0, &how);
    // SAFETY: as above.
    unsafe { libc::setfsuid(before as libc::uid_t) };
    let file = opened.unwrap();
    assert!(!file.can_sieve_writes());
    let mut memory = whole(50);
    memory.fill(|_| 9);
    let tune = AccessTuning { sieve_write: Toggle::Enable, ..AccessTuning::default() };
    for tune in [tune, AccessTuning { atomic: true, ..tune }, AccessTuning { sole: true, ..tune }] {
        file.write(&strided(0, 10, 30, 1).view(0), Pos(0), &memory.buffer, 0, 50, &tune).unwrap();
    }
    std::fs::set_permissions(&path.0, std::fs::Permissions::from_mode(0o600)).unwrap();
    let expected: Vec<u8> = (0..300).map(|i| if i % 30 < 10 && i < 150 { 9 } else { 7 }).collect();
    assert_eq!(path.bytes(), expected);
}

#[test]
fn holes_and_the_end_are_known_without_reading() {
    let path = TempPath::with(&[]);
    let file = open(&path.0);
    file.write_bytes(Offset(1 << 20), b"data").unwrap();
    assert!(file.is_hole(Offset(2 << 20)..Offset(3 << 20)).unwrap());
    assert!(!file.is_hole(Offset(0)..Offset((1 << 20) + 1)).unwrap());
    assert!(!file.is_hole(Offset(1 << 20)..Offset(2 << 20)).unwrap());
}

/// A system that takes some advice and remembers all of it.
#[derive(Default)]
struct Advised(Mutex<Vec<(AccessAdvice, u64, u64)>>);

impl Syscalls for Advised {
    fn advise(&self, fd: RawFd, advice: AccessAdvice, at: u64, len: u64) -> Result<(), Errno> {
        self.0.lock().unwrap().push((advice, at, len));
        if advice == AccessAdvice::WillNeed {
            Err(Errno(libc::EINVAL))
        } else {
            Linux.advise(fd, advice, at, len)
        }
    }
}

#[test]
fn advice_reaches_the_system_and_errors_are_returned() {
    let path = TempPath::with(&[7; 100]);
    let real = open(&path.0);
    assert!(real.prefetch(Offset(0)..Offset(100)) && real.release(Offset(0)..Offset(100)));
    assert!(!real.prefetch(Offset(5)..Offset(5)), "there is nothing to fetch");
    assert!(!real.prefetch(Offset(u64::MAX - 1)..Offset(u64::MAX)));
    let system = Arc::new(Advised::default());
    let file = PlainFile::open_with(&path.0, &both(), system.clone(), None).unwrap();
    assert!(!file.prefetch(Offset(10)..Offset(30)));
    assert!(file.release(Offset(10)..Offset(30)) && file.expect_random() && file.expect_sequential());
    let all = i64::MAX as u64;
    let expected = [
        (AccessAdvice::WillNeed, 10, 20),
        (AccessAdvice::DontNeed, 10, 20),
        (AccessAdvice::Random, 0, all),
        (AccessAdvice::Sequential, 0, all),
    ];
    assert_eq!(*system.0.lock().unwrap(), expected);
}
