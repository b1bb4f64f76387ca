//! Tables of many parts, unused tables, invalid tables.

use pario_layout::{Layout, PlacementMap, PlacementMapId};
use pario_namespace::{CreateMode, Error, LayoutRequest, OpenAccess};
use pario_types::{ErrorKind, FileId, ServerId, Stamp};

use crate::disk::{Fault, MemoryDisk};
use crate::random::{caller, open};

const LONG: u64 = 1 << 30;

/// Some ten parts.
fn large() -> PlacementMap {
    let extent = |i: u64| (i * 5000..i * 5000 + 4000 + i % 3, vec![ServerId((i % 3) as u16)]);
    let table = PlacementMap::new((0..100_000).map(extent)).expect("in order");
    assert!(table.to_bytes().len() > 400_000);
    table
}

fn placed(
    path: &str,
    table: &PlacementMap,
) -> impl FnOnce(&mut pario_namespace::Namespace) -> Result<FileId, Error> {
    let (path, layout_request) =
        (path.to_owned(), LayoutRequest { table: Some(table.id()), ..LayoutRequest::default() });
    move |names| {
        let opened = names.open_file(
            &path,
            OpenAccess::Both,
            CreateMode::Exclusive,
            0o644,
            layout_request,
            caller(1, 0, 5),
        )?;
        Ok(opened.attributes.file)
    }
}

#[test]
fn a_table_stays_as_long_as_a_file_has_it() {
    let (disk, table) = (MemoryDisk::new(), large());
    let (mut names, _) = open(&disk, LONG);
    assert_eq!(placed("/a", &table)(&mut names), Err(Error::NoTable { hash: table.id().hash }));
    names.put_table(table.id(), &table.to_bytes(), Stamp(5)).expect("a table");
    let first = placed("/a", &table)(&mut names).expect("it is there");
    placed("/b", &table)(&mut names).expect("it is there");
    for snapshot in [false, true] {
        if snapshot {
            names.snapshot().expect("there is room");
        }
        names = open(&disk.after_kill(), LONG).0;
        assert_eq!(names.lookup("/a").expect("it is there").table, Some(table.id()));
        assert_eq!(names.table(table.id()).expect("it is there"), table.to_bytes());
    }
    let disk = disk.after_kill();
    let (mut names, _) = open(&disk, LONG);
    names.end_grace_period();
    names.unlink("/a", caller(1, 1, 6)).expect("it is there");
    let striping = names.lookup("/b").expect("it is there").striping;
    let orphans = names.take_orphans(9);
    assert_eq!(orphans[0].0, first);
    let holders: Vec<_> = Layout::placed(striping, table.clone()).expect("sound").holders().collect();
    assert_eq!(orphans[0].1.holders().count(), holders.len());
    names.reaped(first, Stamp(7)).expect("it was taken");
    names.snapshot().expect("there is room");
    assert!(names.table(table.id()).is_ok(), "the other has it");
    names.unlink("/b", caller(1, 2, 6)).expect("it is there");
    let last = names.take_orphans(9)[0].0;
    names.reaped(last, Stamp(7)).expect("it was taken");
    names.snapshot().expect("there is room");
    assert!(names.table(table.id()).is_err());
    assert!(disk.read("snapshot.2").len() < 1000);
}

/// However much of it was written when the server was killed: the table is unknown or complete.
#[test]
fn a_table_is_whole_or_not_there() {
    let table = large();
    for step in 0.. {
        let disk = MemoryDisk::new();
        let (mut names, _) = open(&disk, LONG);
        disk.set_fault(Fault::Stop { step: disk.steps() + step, part: 1000 });
        let put = names.put_table(table.id(), &table.to_bytes(), Stamp(5));
        let (mut after, _) = open(&disk.after_kill(), LONG);
        assert!(put.is_err() || after.table(table.id()).is_ok());
        if let Ok(bytes) = after.table(table.id()) {
            assert_eq!(bytes, table.to_bytes());
        }
        after.put_table(table.id(), &table.to_bytes(), Stamp(5)).expect("no fault");
        placed("/a", &table)(&mut after).expect("it is there");
        if put.is_ok() {
            break;
        }
    }
}

#[test]
fn invalid_tables_are_refused() {
    let (mut names, _) = open(&MemoryDisk::new(), LONG);
    let table = PlacementMap::new([(0..10, vec![ServerId(2)])]).expect("in order");
    let foreign = PlacementMap::new([(0..10, vec![ServerId(3)])]).expect("in order");
    let wrong = PlacementMapId { hash: 1, ..table.id() };
    for (id, bytes) in [
        (wrong, table.to_bytes()),
        (foreign.id(), foreign.to_bytes()),
        (PlacementMapId::of(b"x"), b"x".into()),
    ] {
        let error = names.put_table(id, &bytes, Stamp(5)).expect_err("it is none");
        assert_eq!(error.kind(), ErrorKind::Arg);
        assert!(names.table(id).is_err());
    }
    names.put_table(table.id(), &table.to_bytes(), Stamp(5)).expect("a table");
}
