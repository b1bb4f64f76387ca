//! Repeated requests are not done again. The model test repeats requests at random; these are the cases that it does not
//! reach.

use pario_namespace::{CreateMode, Error, LayoutRequest, Namespace, OpenAccess, OpenedFile};
use pario_types::{RequestId, Stamp};

use crate::disk::MemoryDisk;
use crate::random::{caller, open};

const LONG: u64 = 1 << 30;

fn open_file(names: &mut Namespace, path: &str, request: u64) -> Result<OpenedFile, Error> {
    names.open_file(
        path,
        OpenAccess::Both,
        CreateMode::Missing,
        0o644,
        LayoutRequest::default(),
        caller(0, request, 5),
    )
}

#[test]
fn an_open_counts_once_and_so_does_its_close() {
    let (mut names, _) = open(&MemoryDisk::new(), LONG);
    let file = open_file(&mut names, "/a", 1).expect("made").attributes.file;
    open_file(&mut names, "/a", 2).expect("there");
    assert_eq!(open_file(&mut names, "/a", 2).expect("again").attributes.opens, 2);
    names.close(file, None, caller(0, 3, 6)).expect("open");
    names.close(file, None, caller(0, 3, 6)).expect("again");
    assert_eq!(names.attributes(file).expect("there").opens, 1);
    names.close(file, None, caller(0, 4, 6)).expect("open");
    assert!(matches!(names.close(file, None, caller(0, 5, 6)), Err(Error::NotOpen { .. })));
}

#[test]
fn an_open_whose_answer_was_lost_counts_after_reopening() {
    let (mut names, _) = open(&MemoryDisk::new(), LONG);
    let kept = open_file(&mut names, "/kept", 1).expect("made").attributes.file;
    let lost = open_file(&mut names, "/lost", 2).expect("made").attributes.file;
    // The client reconnects; it never received the second answer.
    names.reopen(caller(0, 0, 0).client, &[(kept, OpenAccess::Both)], RequestId(0), Stamp(6)).expect("there");
    assert_eq!(names.attributes(lost).expect("there").opens, 0);
    let again = open_file(&mut names, "/lost", 2).expect("again");
    assert_eq!((again.attributes.file, again.created, again.attributes.opens), (lost, true, 1));
    assert_eq!(names.attributes(kept).expect("there").opens, 1);
}

#[test]
fn a_close_whose_answer_was_lost_closes_after_reopening() {
    let (mut names, _) = open(&MemoryDisk::new(), LONG);
    let file = open_file(&mut names, "/a", 1).expect("made").attributes.file;
    names.close(file, None, caller(0, 2, 6)).expect("open");
    names.reopen(caller(0, 0, 0).client, &[(file, OpenAccess::Both)], RequestId(0), Stamp(6)).expect("there");
    names.close(file, None, caller(0, 2, 6)).expect("again");
    assert_eq!(names.attributes(file).expect("there").opens, 0);
}

#[test]
fn a_created_file_is_the_same_for_the_next_server_even_under_another_name() {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    let file = open_file(&mut names, "/a", 1).expect("made").attributes.file;
    names.rename("/a", "/b", true, caller(1, 1, 6)).expect("sound");
    names.snapshot().expect("no fault");
    drop(names);
    let (mut names, _) = open(&disk, LONG);
    let again = open_file(&mut names, "/a", 1).expect("again");
    assert_eq!((again.attributes.file, again.created), (file, true));
    assert!(names.lookup("/a").is_err());
    names.rename("/a", "/b", true, caller(1, 1, 7)).expect("again");
}

#[test]
fn a_repeated_create_gets_its_file_even_if_another_client_removed_it_meanwhile() {
    let (mut names, _) = open(&MemoryDisk::new(), LONG);
    let client = caller(0, 0, 0).client;
    for (request, is_repeated) in [(1, true), (2, false)] {
        let file = open_file(&mut names, "/a", request).expect("made").attributes.file;
        names.unlink("/a", caller(1, request, 5)).expect("sound");
        // The client reconnects; it never received the answer.
        names.reopen(client, &[], RequestId(request), Stamp(6)).expect("sound");
        assert!(names.take_orphans(9).is_empty(), "the client is going to ask for it");
        if is_repeated {
            let again = open_file(&mut names, "/a", request).expect("again");
            assert_eq!((again.attributes.file, again.created, again.attributes.opens), (file, true, 1));
            assert!(names.lookup("/a").is_err() && names.take_orphans(9).is_empty());
            names.close(file, None, caller(0, 50, 6)).expect("open");
        } else {
            names.client_gone(client);
        }
        let orphans: Vec<_> = names.take_orphans(9).into_iter().map(|(orphan, _)| orphan).collect();
        assert_eq!(orphans, [file]);
        names.reaped(file, Stamp(7)).expect("taken");
    }
}

#[test]
fn a_number_used_for_two_things_is_refused() {
    let (mut names, _) = open(&MemoryDisk::new(), LONG);
    names.make_directory("/d", 0o755, false, caller(0, 1, 5)).expect("sound");
    let other = |result: Result<(), Error>| assert!(matches!(result, Err(Error::OtherRequest { .. })));
    other(open_file(&mut names, "/a", 1).map(drop));
    other(names.unlink("/a", caller(0, 1, 5)));
    let file = open_file(&mut names, "/a", 2).expect("sound").attributes.file;
    other(names.close(file, None, caller(0, 2, 5)));
}
