//! A start with damage, missing files, or files of an older set. None of them passes for a new name space, and no bytes
//! that were flushed or closed in order are cut off.

use pario_namespace::{
    CreateMode, Disk, Error, LayoutRequest, Namespace, NamespaceConfig, OpenAccess, RecoveryReport,
};
use pario_types::{ErrorKind, FileId, Stamp};

use crate::disk::MemoryDisk;
use crate::random::{caller, config, fingerprint, open};

const LONG: u64 = 1 << 30;

fn create(names: &mut Namespace, path: &str) -> FileId {
    let by = caller(0, 0, 5);
    let file =
        names.open_file(path, OpenAccess::Read, CreateMode::Missing, 0o644, LayoutRequest::default(), by);
    let file = file.expect("sound").attributes.file;
    names.close(file, None, by).expect("open");
    file
}

fn try_open(disk: &MemoryDisk) -> Result<(Namespace, RecoveryReport), Error> {
    Namespace::open_on(disk.boxed(), config(LONG), Stamp(1))
}

fn refused(disk: &MemoryDisk) -> Error {
    try_open(disk).err().expect("it is refused")
}

/// The end of the previous server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It was killed, and the host runs on.
    Killed,
    /// The host lost power, after the last change was flushed or before.
    Power { flushed: bool },
    /// It was shut down.
    Closed,
}

const ENDS: [End; 4] =
    [End::Killed, End::Power { flushed: true }, End::Power { flushed: false }, End::Closed];

/// Returns a name space with five files, of which the first four are flushed, and the offset of the fifth's record.
fn ended(end: End) -> (MemoryDisk, usize) {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    for n in 0..4 {
        create(&mut names, &format!("/{n}"));
    }
    names.sync().expect("sound");
    let flushed = disk.read("journal.0").len();
    create(&mut names, "/4");
    match end {
        End::Killed => {}
        End::Power { flushed: false } => disk.reboot(),
        End::Power { flushed: true } => {
            names.sync().expect("sound");
            disk.reboot();
        }
        End::Closed => names.shut_down().expect("sound"),
    }
    (disk, flushed)
}

#[test]
fn damage_at_the_tail_of_the_journal_is_never_cut_off_silently() {
    for end in ENDS {
        let (disk, last) = ended(end);
        let whole = disk.read("journal.0");
        for at in 0..whole.len() {
            let copy = disk.after_kill();
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            copy.overwrite("journal.0", bytes);
            match try_open(&copy) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged, "{end:?}, byte {at}: {error}");
                    let Error::Damaged { offset, .. } = error else { panic!("{error}") };
                    assert!(offset as usize <= at, "{end:?}, byte {at}, said {offset}");
                    assert_eq!(copy.read("journal.0").len(), whole.len(), "it is left as it is");
                }
                Ok((names, recovered)) => {
                    // A length that was made larger looks like a record that was cut short.
                    let is_length = end == End::Killed && (last..last + 4).contains(&at);
                    assert!(is_length || end == End::Power { flushed: false }, "{end:?}, byte {at}");
                    assert!(
                        at >= last && recovered.torn == (whole.len() - last) as u64,
                        "{end:?}, byte {at}"
                    );
                    assert_eq!(names.counts().files, 4);
                    // The bytes that were cut off are saved.
                    assert!(recovered.is_torn_kept);
                    assert_eq!(copy.read(&format!("torn.0.{last}")).len(), whole.len() - last);
                }
            }
        }
    }
}

#[test]
fn a_journal_that_became_shorter_is_damaged() {
    for end in ENDS {
        let (disk, last) = ended(end);
        let whole = disk.read("journal.0");
        for len in 0..whole.len() {
            let copy = disk.after_kill();
            copy.overwrite("journal.0", whole[..len].to_vec());
            let is_lost = len < last || end == End::Closed || end == End::Power { flushed: true };
            match try_open(&copy) {
                Err(error) => {
                    assert!(is_lost && error.kind() == ErrorKind::Damaged, "{end:?}, {len}: {error}")
                }
                Ok((_, recovered)) => {
                    assert!(!is_lost, "{end:?}, {len}");
                    assert_eq!(recovered.torn, (len - last) as u64);
                }
            }
        }
    }
}

#[test]
fn bytes_behind_the_journal_are_cut_off_only_after_a_loss_of_power() {
    for end in ENDS {
        let (disk, _) = ended(end);
        let whole = disk.read("journal.0");
        let mut bytes = whole.clone();
        bytes.resize(whole.len() + 300_000, 0);
        disk.overwrite("journal.0", bytes);
        match end {
            End::Power { .. } => {
                assert_eq!(try_open(&disk).expect("torn").1.torn, 300_000);
                assert_eq!(disk.read("journal.0"), whole);
                assert_eq!(try_open(&disk).expect("whole").1.torn, 0);
            }
            _ => assert_eq!(refused(&disk).kind(), ErrorKind::Damaged, "{end:?}"),
        }
    }
}

#[test]
fn a_user_can_go_on_without_what_is_damaged() {
    let (disk, last) = ended(End::Closed);
    let mut bytes = disk.read("journal.0");
    bytes[last + 9] ^= 1;
    disk.overwrite("journal.0", bytes.clone());
    let said = refused(&disk).to_string();
    let expected = format!(
        "memory/journal.0 is damaged at byte {last}: a record is not what was written; put back a copy of it, or go on \
         without what follows by truncate -s {last} memory/journal.0 && truncate -s 0 memory/current"
    );
    assert_eq!(said, expected);
    disk.overwrite("journal.0", bytes[..last].to_vec());
    assert_eq!(refused(&disk).kind(), ErrorKind::Damaged, "nobody has accepted that");
    disk.overwrite("current", Vec::new());
    let (mut names, _) = try_open(&disk).expect("accepted");
    assert_eq!(names.counts().files, 4);
    // The id of the lost file is not used again.
    assert!(create(&mut names, "/new").0 > 1 << 32);
    drop(names);
    assert_eq!(try_open(&disk).expect("as any other").0.counts().files, 5);
}

/// A name space in its second generation.
fn second_generation() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    create(&mut names, "/a");
    names.snapshot().expect("no fault");
    create(&mut names, "/b");
    disk
}

#[test]
fn a_missing_file_of_the_name_space_is_an_error_and_not_a_new_name_space() {
    for missing in ["journal.1", "snapshot.1", "current"] {
        let disk = second_generation();
        disk.clone().remove(missing).expect("there");
        let (before, error) = (disk.names(), refused(&disk));
        let mut expected = format!("memory/{missing} is missing, others of its set are there; put it back");
        if missing == "current" {
            expected += ", or accept the others as they are by touch memory/current";
        }
        assert_eq!(error.to_string(), expected);
        assert_eq!(disk.names(), before, "a start removes no evidence");
    }
}

#[test]
fn an_older_set_that_was_put_back_is_refused() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    create(&mut names, "/a");
    let old = disk.after_kill();
    names.snapshot().expect("no fault");
    drop(names);
    // The journal alone, or all but `current`.
    disk.clone().remove("snapshot.1").expect("there");
    disk.clone().remove("journal.1").expect("there");
    disk.overwrite("journal.0", old.read("journal.0"));
    assert!(matches!(refused(&disk), Error::Missing { .. }));
}

#[test]
fn a_name_space_that_knows_less_than_what_is_stored_is_refused() {
    let (disk, _) = ended(End::Closed);
    let with = |highest_file| NamespaceConfig { highest_file: FileId(highest_file), ..config(LONG) };
    let open = |stored| Namespace::open_on(disk.after_kill().boxed(), with(stored), Stamp(1)).map(drop);
    assert_eq!(open(6), Ok(()));
    let error = open(1 << 20).expect_err("it cannot be of this name space");
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().starts_with("the name space in memory is older than the data beside it"));
}

#[test]
fn a_lost_name_space_is_never_replaced_by_an_empty_one() {
    let made = NamespaceConfig { made: true, ..config(LONG) };
    let stored = NamespaceConfig { highest_file: FileId(2), ..config(LONG) };
    for used in [made, stored] {
        let disk = MemoryDisk::new();
        let error = Namespace::open_on(disk.boxed(), used, Stamp(1)).err().expect("lost");
        assert!(matches!(error, Error::Lost { .. }), "{error}");
        assert_eq!(disk.names(), Vec::<String>::new());
        // Only `current` is left.
        let disk = second_generation();
        for name in ["journal.1", "snapshot.1"] {
            disk.clone().remove(name).expect("there");
        }
        let error = Namespace::open_on(disk.boxed(), used, Stamp(1)).err().expect("lost");
        assert_eq!(error.kind(), ErrorKind::Damaged);
    }
}

#[test]
fn numbers_are_not_used_again_after_their_records_were_lost() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    let by = caller(0, 0, 5);
    let open_file = |names: &mut Namespace, path| {
        let opened =
            names.open_file(path, OpenAccess::Both, CreateMode::Missing, 0o644, LayoutRequest::default(), by);
        opened.expect("sound").attributes.file
    };
    let lost = open_file(&mut names, "/a");
    let truncation = names.begin_truncate(lost, 5, by).expect("open");
    for seed in 0..50 {
        let disk = disk.after_power_loss(seed);
        let (mut names, _) = open(&disk, LONG);
        names.end_grace_period();
        let file = open_file(&mut names, "/b");
        assert!(file > lost);
        assert!(names.begin_truncate(file, 5, by).expect("open") > truncation);
    }
}

#[test]
fn a_new_server_waits_for_clients_that_may_have_files_open() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    let by = caller(0, 0, 5);
    let opened =
        names.open_file("/a", OpenAccess::Both, CreateMode::Missing, 0o644, LayoutRequest::default(), by);
    let file = opened.expect("sound").attributes.file;
    names.unlink("/a", by).expect("there");
    let killed = disk.after_kill();
    names.shut_down().expect("sound");
    drop(names);
    // The file has no name, but a client has it open, however the server ended; and the client may not have connected before the next end.
    for _ in 0..2 {
        let (mut names, recovered) = open(&disk, LONG);
        assert!(recovered.closed && recovered.may_have_opens);
        assert_eq!(names.take_orphans(9), []);
        names.shut_down().expect("sound");
    }
    let (mut names, recovered) = open(&killed, LONG);
    assert!(!recovered.closed && recovered.may_have_opens);
    assert_eq!(names.take_orphans(9), []);
    // No client came: the next start waits for none.
    let (mut last, _) = open(&disk, LONG);
    last.end_grace_period();
    last.shut_down().expect("sound");
    drop(last);
    let (mut last, recovered) = open(&disk, LONG);
    assert!(recovered.closed && !recovered.may_have_opens);
    last.end_grace_period();
    assert_eq!(last.take_orphans(9)[0].0, file);
    let state = fingerprint(&names);
    drop(names);
    assert_eq!(fingerprint(&open(&killed, LONG).0), state);
}

#[test]
fn a_first_start_that_is_killed_at_any_step_does_not_lock_anybody_out() {
    use crate::disk::Fault;
    for step in 0.. {
        let disk = MemoryDisk::new();
        disk.set_fault(Fault::Stop { step, part: 20 });
        let whole = try_open(&disk).is_ok();
        let without_power = (0..40).map(|seed| disk.after_power_loss(seed));
        for after in std::iter::once(disk.after_kill()).chain(without_power) {
            let (mut names, _) = try_open(&after).unwrap_or_else(|error| panic!("step {step}: {error}"));
            create(&mut names, "/a");
        }
        if whole {
            break;
        }
    }
}
