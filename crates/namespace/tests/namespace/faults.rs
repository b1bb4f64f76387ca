//! A disk that fails, fills up, or has other bytes than were written.

use pario_namespace::{CreateMode, Error, LayoutRequest, Namespace, OpenAccess};
use pario_types::{ErrorKind, PartitionId, Stamp};
use proptest::prelude::*;

use crate::disk::{EIO, ENOSPC, Fault, MemoryDisk};
use crate::random::{Op, caller, config, fingerprint, op, open, perform};

const LONG: u64 = 1 << 30;

/// Operations that need nothing but their paths.
fn plain(ops: Vec<Op>) -> Vec<Op> {
    ops.into_iter().filter(|op| !matches!(op, Op::Close { .. } | Op::Reap { .. })).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn a_failed_change_leaves_everything_as_it_was(
        ops in prop::collection::vec(op(), 1..25).prop_map(plain),
        journal in prop::sample::select(vec![200u64, 600, LONG]),
        errno in prop::sample::select(vec![ENOSPC, EIO]),
        failing in 1u64..4,
        part in 0usize..200,
    ) {
        for step in 0.. {
            let (disk, sound) = (MemoryDisk::new(), MemoryDisk::new());
            let (mut names, mut reference) = (open(&disk, journal).0, open(&sound, LONG).0);
            let from = disk.steps() + step;
            disk.set_fault(Fault::Fail { from, steps: failing, part, errno });
            for (at, op) in ops.iter().enumerate() {
                let (request, now) = (at as u64 + 1, 100 + at as i64);
                let before = fingerprint(&names);
                match perform(&mut names, op, request, now, &[]) {
                    Err(error @ Error::Io { .. }) => {
                        let kind = if errno == ENOSPC { ErrorKind::NoSpace } else { ErrorKind::Io };
                        prop_assert_eq!(error.kind(), kind);
                        prop_assert_eq!(&fingerprint(&names), &before);
                    }
                    result => prop_assert_eq!(result, perform(&mut reference, op, request, now, &[])),
                }
                prop_assert_eq!(fingerprint(&names), fingerprint(&reference));
            }
            let stopped = disk.steps() > from;
            disk.set_fault(Fault::None);
            perform(&mut names, &Op::Reap { most: 1 }, 0, 999, &[]).expect("the disk is well again");
            let at_last = fingerprint(&names);
            drop(names);
            prop_assert_eq!(fingerprint(&open(&disk, journal).0), at_last);
            if !stopped {
                break;
            }
        }
    }
}

fn create(names: &mut Namespace, path: &str) -> Result<(), Error> {
    let by = caller(0, 0, 5);
    let file =
        names.open_file(path, OpenAccess::Read, CreateMode::Missing, 0o644, LayoutRequest::default(), by)?;
    names.close(file.attributes.file, None, by)
}

#[test]
fn files_can_be_removed_from_a_full_disk() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    disk.set_capacity(Some(3 << 19));
    let mut made = 0;
    let full = loop {
        match create(&mut names, &format!("/{made}")) {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::NoSpace);
    assert_eq!(full.to_string(), "cannot write memory/journal.0: No space left on device (os error 28)");
    for n in 0..1000 {
        names.unlink(&format!("/{n}"), caller(0, 0, 6)).expect("room is kept for this");
    }
    assert!(create(&mut names, "/more").is_err());
    disk.set_capacity(None);
    create(&mut names, "/more").expect("there is room again");
    let state = fingerprint(&names);
    drop(names);
    assert_eq!(fingerprint(&open(&disk, LONG).0), state);
}

#[test]
fn a_failed_flush_is_repaired_by_a_new_snapshot() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    create(&mut names, "/a").expect("sound");
    disk.set_fault(Fault::Fail { from: disk.steps(), steps: 1, part: 0, errno: EIO });
    assert_eq!(names.sync().expect_err("the flush fails").kind(), ErrorKind::Io);
    names.sync().expect("written anew");
    assert_eq!(disk.names(), ["current", "journal.1", "snapshot.1"]);
    assert_eq!(fingerprint(&open(&disk.after_power_loss(0), LONG).0), fingerprint(&names));
}

#[test]
fn a_failed_snapshot_is_reported_and_retried() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, 1000);
    disk.set_fault(Fault::Fail { from: disk.steps(), steps: u64::MAX / 2, part: 0, errno: EIO });
    assert!(names.snapshot().is_err());
    assert!(names.snapshot_error().is_some());
    disk.set_fault(Fault::None);
    for n in 0..100 {
        create(&mut names, &format!("/{n}")).expect("sound");
    }
    assert_eq!(names.snapshot_error(), None);
    assert!(disk.names().iter().any(|name| name.starts_with("snapshot.")));
}

#[test]
fn damage_of_a_snapshot_is_found() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    create(&mut names, "/a").expect("sound");
    names.snapshot().expect("no fault");
    drop(names);
    let whole = disk.read("snapshot.1");
    for at in 0..whole.len() {
        let copy = disk.after_kill();
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        copy.overwrite("snapshot.1", bytes);
        let error = Namespace::open_on(copy.boxed(), config(LONG), Stamp(1)).err().expect("damaged");
        assert_eq!(error.kind(), ErrorKind::Damaged);
        copy.overwrite("snapshot.1", whole[..at].to_vec());
        let error = Namespace::open_on(copy.boxed(), config(LONG), Stamp(1)).err().expect("too short");
        assert_eq!(error.kind(), ErrorKind::Damaged);
    }
}

#[test]
fn files_of_another_partition_are_refused() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    names.snapshot().expect("no fault");
    drop(names);
    let other = pario_namespace::NamespaceConfig { partition: PartitionId(43), ..config(LONG) };
    let error = Namespace::open_on(disk.boxed(), other, Stamp(1)).err().expect("another partition");
    assert_eq!(error.kind(), ErrorKind::Protocol);
    let snapshot = disk.read("snapshot.1");
    let (mut names, _) = open(&disk, LONG);
    names.snapshot().expect("no fault");
    drop(names);
    disk.overwrite("snapshot.2", snapshot);
    let error = Namespace::open_on(disk.boxed(), config(LONG), Stamp(1)).err().expect("wrong names");
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
}

#[test]
fn one_process_at_a_time_has_a_directory() {
    let dir = std::env::temp_dir().join(format!("pario-namespace-{}", std::process::id()));
    let (mut names, recovered) = Namespace::open(&dir, config(LONG), Stamp(1)).expect("new");
    assert!(recovered.fresh);
    create(&mut names, "/a").expect("sound");
    names.sync().expect("sound");
    names.snapshot().expect("sound");
    create(&mut names, "/b").expect("sound");
    let second = Namespace::open(&dir, config(LONG), Stamp(1)).err().expect("in use");
    assert_eq!(second.kind(), ErrorKind::FileInUse);
    let state = fingerprint(&names);
    drop(names);
    let (names, recovered) = Namespace::open(&dir, config(LONG), Stamp(1)).expect("there");
    assert!(!recovered.fresh && recovered.torn == 0);
    assert_eq!(fingerprint(&names), state);
    drop(names);
    std::fs::remove_dir_all(&dir).expect("ours");
}
