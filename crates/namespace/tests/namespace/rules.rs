//! Rules one by one: striping, permissions, times, orphans.

use pario_namespace::{
    CloseReport, CreateMode, Error, FileSize, LayoutRequest, Namespace, OpenAccess, OpenedFile,
};
use pario_types::{ErrorKind, FileId, RequestId, Stamp};

use crate::disk::MemoryDisk;
use crate::random::{caller, open};

const LONG: u64 = 1 << 30;

fn fresh() -> Namespace {
    open(&MemoryDisk::new(), LONG).0
}

fn open_as(
    names: &mut Namespace,
    path: &str,
    access: OpenAccess,
    client: u8,
    now: i64,
) -> Result<OpenedFile, Error> {
    names.open_file(
        path,
        access,
        CreateMode::Missing,
        0o644,
        LayoutRequest::default(),
        caller(client, 0, now),
    )
}

fn striped(
    names: &mut Namespace,
    path: &str,
    layout_request: LayoutRequest,
) -> Result<(u64, u16, u16), Error> {
    let by = caller(0, 0, 5);
    let striping = names
        .open_file(path, OpenAccess::Read, CreateMode::Exclusive, 0o644, layout_request, by)?
        .attributes
        .striping;
    Ok((striping.stripe(), striping.count(), striping.first()))
}

#[test]
fn files_begin_on_all_servers_in_turn() {
    let mut names = fresh();
    let begin = |path| striped(&mut names, path, LayoutRequest::default()).expect("sound");
    assert_eq!(["/a", "/b", "/c", "/d"].map(begin), [2, 0, 1, 2].map(|first| (4096, 3, first)));
}

#[test]
fn a_file_has_the_requested_striping() {
    let mut names = fresh();
    let layout_request = |stripe, count, first| LayoutRequest { stripe, count, first, table: None };
    assert_eq!(striped(&mut names, "/a", layout_request(512, 2, Some(1))), Ok((512, 2, 1)));
    assert_eq!(striped(&mut names, "/b", layout_request(0, 99, Some(0))), Ok((4096, 3, 0)));
    let error = striped(&mut names, "/c", layout_request(0, 0, Some(3))).expect_err("there are three");
    assert_eq!(error.kind(), ErrorKind::Arg);
    assert_eq!(
        striped(&mut names, "/c", layout_request(1 << 41, 0, None)).expect_err("huge").kind(),
        ErrorKind::Arg
    );
    assert!(names.lookup("/c").is_err());
}

#[test]
fn errors_say_where() {
    let mut names = fresh();
    open_as(&mut names, "/f", OpenAccess::Read, 0, 5).expect("sound");
    names.make_directory("/d", 0o600, false, caller(0, 0, 5)).expect("sound");
    let say = |result: Result<_, Error>| result.expect_err("wrong").to_string();
    assert_eq!(say(names.lookup("/f/x/y")), "/f: not a directory");
    assert_eq!(say(names.lookup("/no/x/y")), "/no: no such file or directory");
    assert_eq!(say(names.lookup("/d/x")), "/d: no search permission");
    assert_eq!(say(names.lookup("d")), "\"d\" is no path: it does not begin with /");
    let error = names.make_directory("/d/x/y", 0o700, true, caller(0, 0, 5)).expect_err("closed");
    assert_eq!(error.to_string(), "/d: no search permission");
    names.set_attributes("/d", Some(0o500), None, None, caller(0, 0, 5)).expect("owner");
    let error = names.make_directory("/d/x/y", 0o700, true, caller(0, 0, 5)).expect_err("closed");
    assert_eq!(error.to_string(), "/d: no write permission");
}

#[test]
fn a_new_file_may_be_written_whatever_its_mode() {
    let mut names = fresh();
    let by = caller(0, 0, 5);
    let layout_request = LayoutRequest::default();
    names
        .open_file("/a", OpenAccess::Both, CreateMode::Exclusive, 0o400, layout_request, by)
        .expect("just made");
    let error = names
        .open_file("/a", OpenAccess::Write, CreateMode::Never, 0, layout_request, by)
        .expect_err("read only");
    assert_eq!(error.kind(), ErrorKind::Access);
    names.open_file("/a", OpenAccess::Read, CreateMode::Never, 0, layout_request, by).expect("may be read");
}

#[test]
fn a_time_that_was_set_stands_until_the_next_write() {
    let mut names = fresh();
    let file = open_as(&mut names, "/a", OpenAccess::Write, 0, 10).expect("sound").attributes.file;
    // Written at 12, set back at 13 as by cp -p, closed at 14.
    names.set_attributes("/a", None, None, Some(Stamp(3)), caller(0, 0, 13)).expect("sound");
    let wrote = CloseReport { size: None, modified: Stamp(12) };
    names.close(file, Some(wrote), caller(0, 0, 14)).expect("open");
    assert_eq!(names.lookup("/a").expect("there").modified, Stamp(3));
    // The next client writes later.
    open_as(&mut names, "/a", OpenAccess::Write, 0, 15).expect("sound");
    let wrote = CloseReport { size: None, modified: Stamp(16) };
    names.close(file, Some(wrote), caller(0, 0, 17)).expect("open");
    assert_eq!(names.lookup("/a").expect("there").modified, Stamp(16));
}

#[test]
fn an_orphan_exists_while_a_client_has_it_open() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    let client = caller(0, 0, 0).client;
    let file = open_as(&mut names, "/a", OpenAccess::Both, 0, 5).expect("sound").attributes.file;
    names.unlink("/a", caller(1, 0, 6)).expect("sound");
    assert_eq!(names.take_orphans(9), []);
    drop(names);

    let (mut names, _) = open(&disk, LONG);
    assert_eq!(names.take_orphans(9), []);
    let both = [(file, OpenAccess::Both), (FileId(99), OpenAccess::Read)];
    assert_eq!(names.reopen(client, &both, RequestId(0), Stamp(7)).expect("sound"), [FileId(99)]);
    names.end_grace_period();
    assert_eq!(names.take_orphans(9), []);
    names.close(file, None, caller(0, 0, 8)).expect("open");
    assert_eq!(names.take_orphans(9)[0].0, file);
    assert_eq!(names.take_orphans(9), []);
    assert_eq!(
        names.reopen(client, &[(file, OpenAccess::Read)], RequestId(0), Stamp(9)).expect("sound"),
        [file]
    );
    names.retry_orphan(file);
    assert_eq!(names.take_orphans(9).len(), 1);
    drop(names);

    let (mut names, _) = open(&disk, LONG);
    names.end_grace_period();
    assert_eq!(names.take_orphans(9).len(), 1);
    names.reaped(file, Stamp(9)).expect("taken");
    assert!(names.reaped(file, Stamp(9)).is_err());
    drop(names);
    let (mut names, _) = open(&disk, LONG);
    names.end_grace_period();
    assert_eq!((names.take_orphans(9), names.counts().orphans), (vec![], 0));
    let next = open_as(&mut names, "/b", OpenAccess::Read, 0, 9).expect("sound").attributes.file;
    assert!(next > file, "numbers are not used again");
}

#[test]
fn a_file_removed_before_its_clients_are_back_waits_for_them() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    let file = open_as(&mut names, "/a", OpenAccess::Both, 0, 5).expect("sound").attributes.file;
    drop(names);
    let (mut names, _) = open(&disk, LONG);
    names.unlink("/a", caller(1, 0, 6)).expect("sound");
    assert_eq!(names.take_orphans(9), []);
    let client = caller(0, 0, 0).client;
    names.reopen(client, &[(file, OpenAccess::Both)], RequestId(0), Stamp(7)).expect("sound");
    names.end_grace_period();
    assert_eq!(names.take_orphans(9), []);
    // The client is away for a while, and back before the file is removed.
    names.client_gone(client);
    assert_eq!(names.reopen(client, &[(file, OpenAccess::Both)], RequestId(0), Stamp(7)), Ok(vec![]));
    assert_eq!(names.take_orphans(9), []);
}

#[test]
fn an_open_sent_again_saves_an_orphan() {
    let mut names = fresh();
    let by = caller(0, 1, 5);
    let open = |names: &mut Namespace| {
        names.open_file("/a", OpenAccess::Both, CreateMode::Exclusive, 0o644, LayoutRequest::default(), by)
    };
    let file = open(&mut names).expect("new").attributes.file;
    names.unlink("/a", caller(1, 0, 6)).expect("sound");
    names.client_gone(by.client);
    assert_eq!(open(&mut names).expect("again").attributes.file, file);
    assert_eq!(names.take_orphans(9), []);
}

#[test]
fn a_removed_file_takes_its_truncation_along() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    let by = caller(0, 0, 5);
    let file = open_as(&mut names, "/a", OpenAccess::Both, 0, 5).expect("sound").attributes.file;
    names.begin_truncate(file, 9, by).expect("open");
    names.unlink("/a", by).expect("sound");
    names.snapshot().expect("no fault");
    names.client_gone(by.client);
    assert_eq!(names.take_truncations(), []);
    assert_eq!(names.take_orphans(9).len(), 1);
    names.reaped(file, Stamp(6)).expect("taken");
    names.snapshot().expect("no fault");
    drop(names);
    assert_eq!(open(&disk, LONG).0.counts().orphans, 0);
}

#[test]
fn a_vanished_client_leaves_its_orphans_to_the_reaper() {
    let mut names = fresh();
    let file = open_as(&mut names, "/a", OpenAccess::Both, 0, 5).expect("sound").attributes.file;
    open_as(&mut names, "/b", OpenAccess::Both, 1, 5).expect("sound");
    names.rename("/b", "/a", true, caller(1, 0, 6)).expect("sound");
    assert_eq!(names.take_orphans(9), []);
    names.client_gone(caller(0, 0, 0).client);
    assert_eq!(names.take_orphans(9)[0].0, file);
}

#[test]
fn a_late_size_report_is_ignored() {
    let mut names = fresh();
    let file = open_as(&mut names, "/a", OpenAccess::Both, 0, 5).expect("sound").attributes.file;
    let FileSize::Ask { seen } = names.lookup("/a").expect("there").size else { panic!("being written") };
    assert_eq!(names.report_size(file, 5, seen, Stamp(6)), Ok(false));
    names.close(file, None, caller(0, 0, 7)).expect("open");
    assert_eq!(names.report_size(file, 5, seen, Stamp(8)), Ok(false));
    let FileSize::Ask { seen } = names.lookup("/a").expect("there").size else { panic!("nobody said") };
    assert_eq!(names.report_size(file, 6, seen, Stamp(8)), Ok(true));
    assert_eq!(names.lookup("/a").expect("there").size, FileSize::Known(6));
}

#[test]
fn many_entries_come_in_pages() {
    let mut names = fresh();
    for n in 0..5000 {
        open_as(&mut names, &format!("/{n:04}"), OpenAccess::Read, 0, 5).expect("sound");
    }
    let (mut seen, mut after) = (0, String::new());
    loop {
        let (page, more) = names.read_directory("/", &after, 64).expect("readable");
        for entry in &page {
            assert_eq!(entry.name, format!("{seen:04}"));
            seen += 1;
        }
        after = page.last().expect("never an empty page in between").name.clone();
        // Removed entries do not affect the others.
        names.unlink(&format!("/{after}"), caller(0, 0, 6)).expect("there");
        if !more {
            break;
        }
    }
    assert_eq!(seen, 5000);
}
