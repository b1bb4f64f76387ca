//! Random operations, and their execution.

use pario_layout::PlacementMap;
use pario_namespace::{
    Caller, CloseReport, CreateMode, Error, FileSize, Inode, LayoutRequest, Namespace, NamespaceConfig,
    OpenAccess, RecoveryReport,
};
use pario_types::{ClientId, FileId, PartitionId, RequestId, ServerId, Stamp};
use proptest::prelude::*;

use crate::disk::MemoryDisk;

/// One operation of one client.
#[derive(Clone, Debug)]
pub enum Op {
    Open {
        client: u8,
        path: String,
        access: OpenAccess,
        create: CreateMode,
        mode: u32,
    },
    /// Closes one of the client's opens, counted over all it has.
    Close {
        client: u8,
        which: usize,
        size: Option<u64>,
    },
    Gone {
        client: u8,
    },
    MakeDirectory {
        client: u8,
        path: String,
        mode: u32,
        parents: bool,
    },
    RemoveDirectory {
        client: u8,
        path: String,
    },
    Unlink {
        client: u8,
        path: String,
    },
    Rename {
        client: u8,
        from: String,
        to: String,
        replace: bool,
    },
    SetAttributes {
        client: u8,
        path: String,
        mode: Option<u32>,
        modified: Option<i64>,
    },
    /// Takes this many orphans and removes them.
    Reap {
        most: usize,
    },
}

/// Mostly few names, so that they collide.
fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![
        20 => prop::collection::vec(name, 1..4).prop_map(|names| format!("/{}", names.join("/"))),
        1 => prop::sample::select(vec!["/", "", "a", "/a/", "/a/../b"]).prop_map(String::from),
    ]
}

fn mode() -> impl Strategy<Value = u32> {
    prop_oneof![6 => Just(0o755u32), 1 => prop::sample::select(vec![0, 0o100, 0o300, 0o500, 0o600, 0o644])]
}

pub fn op() -> impl Strategy<Value = Op> {
    let client = 0u8..3;
    let access = prop::sample::select(vec![OpenAccess::Read, OpenAccess::Write, OpenAccess::Both]);
    let create = prop::sample::select(vec![
        CreateMode::Never,
        CreateMode::Missing,
        CreateMode::Missing,
        CreateMode::Exclusive,
    ]);
    prop_oneof![
        6 => (client.clone(), path(), access, create, mode())
            .prop_map(|(client, path, access, create, mode)| Op::Open { client, path, access, create, mode }),
        4 => (client.clone(), 0usize..8, prop::option::of(0u64..1000))
            .prop_map(|(client, which, size)| Op::Close { client, which, size }),
        1 => client.clone().prop_map(|client| Op::Gone { client }),
        4 => (client.clone(), path(), mode(), any::<bool>())
            .prop_map(|(client, path, mode, parents)| Op::MakeDirectory { client, path, mode, parents }),
        2 => (client.clone(), path()).prop_map(|(client, path)| Op::RemoveDirectory { client, path }),
        3 => (client.clone(), path()).prop_map(|(client, path)| Op::Unlink { client, path }),
        5 => (client.clone(), path(), path(), prop::bool::weighted(0.8))
            .prop_map(|(client, from, to, replace)| Op::Rename { client, from, to, replace }),
        1 => (client, path(), prop::option::of(mode()), prop::option::of(0i64..99))
            .prop_map(|(client, path, mode, modified)| Op::SetAttributes { client, path, mode, modified }),
        1 => (1usize..4).prop_map(|most| Op::Reap { most }),
    ]
}

pub fn config(journal: u64) -> NamespaceConfig {
    NamespaceConfig { journal, ..NamespaceConfig::new(PartitionId(42), 3, 4096) }
}

pub fn open(disk: &MemoryDisk, journal: u64) -> (Namespace, RecoveryReport) {
    Namespace::open_on(disk.boxed(), config(journal), Stamp(1)).expect("sound")
}

pub fn caller(client: u8, request: u64, now: i64) -> Caller {
    Caller { client: ClientId(u128::from(client) + 1), request: RequestId(request), now: Stamp(now) }
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// A file or directory, and whether it was created.
    About(FileId, bool),
    Orphans(Vec<FileId>),
}

/// The table by which new files of these names are placed.
fn table_of(path: &str) -> Option<PlacementMap> {
    let len = match path.bytes().last()? {
        b'b' => 10,
        b'c' => 20,
        _ => return None,
    };
    PlacementMap::new([(0..len, vec![ServerId(1)]), (len..99, vec![ServerId(0), ServerId(2)])])
}

impl Op {
    /// Whether it may be several changes.
    pub fn is_several(&self) -> bool {
        match self {
            Op::Reap { .. } => true,
            Op::Open { path, .. } => table_of(path).is_some(),
            _ => false,
        }
    }
}

/// Performs an operation at time `now`, as the request of this id. `held`: the client's opens, for `Close`.
pub fn perform(
    names: &mut Namespace,
    op: &Op,
    request: u64,
    now: i64,
    held: &[FileId],
) -> Result<Answer, Error> {
    let by = |client: u8| caller(client, request, now);
    match op {
        Op::Open { client, path, access, create, mode } => {
            let table = table_of(path);
            let layout_request =
                LayoutRequest { table: table.as_ref().map(PlacementMap::id), ..LayoutRequest::default() };
            if let Some(table) = table {
                names.put_table(table.id(), &table.to_bytes(), Stamp(now))?;
            }
            let opened = names.open_file(path, *access, *create, *mode, layout_request, by(*client))?;
            Ok(Answer::About(opened.attributes.file, opened.created))
        }
        Op::Close { client, which, size } => {
            let file = held.get(*which).copied().unwrap_or(FileId(u64::MAX));
            let wrote = CloseReport { size: *size, modified: Stamp(now) };
            names.close(file, Some(wrote), by(*client)).map(|()| Answer::Done)
        }
        Op::Gone { client } => {
            names.client_gone(by(*client).client);
            Ok(Answer::Done)
        }
        Op::MakeDirectory { client, path, mode, parents } => {
            let made = names.make_directory(path, *mode, *parents, by(*client))?;
            Ok(Answer::About(made.file, true))
        }
        Op::RemoveDirectory { client, path } => {
            names.remove_directory(path, by(*client)).map(|()| Answer::Done)
        }
        Op::Unlink { client, path } => names.unlink(path, by(*client)).map(|()| Answer::Done),
        Op::Rename { client, from, to, replace } => {
            names.rename(from, to, *replace, by(*client)).map(|()| Answer::Done)
        }
        Op::SetAttributes { client, path, mode, modified } => {
            let set = names.set_attributes(path, *mode, None, modified.map(Stamp), by(*client))?;
            Ok(Answer::About(set.file, false))
        }
        Op::Reap { most } => {
            let orphans: Vec<_> = names.take_orphans(*most).into_iter().map(|(file, _)| file).collect();
            for (done, file) in orphans.iter().enumerate() {
                if let Err(error) = names.reaped(*file, Stamp(now)) {
                    orphans[done..].iter().for_each(|file| names.retry_orphan(*file));
                    return Err(error);
                }
            }
            Ok(Answer::Orphans(orphans))
        }
    }
}

/// Returns everything that survives, in a form to compare.
pub fn fingerprint(names: &Namespace) -> Vec<Inode> {
    let (mut all, more) = names.list_inodes(FileId(0), u32::MAX);
    assert!(!more);
    for inode in &mut all {
        if let Some(table) = inode.attributes.table {
            assert!(names.table(table).is_ok(), "a table that a file has is there");
        }
        inode.attributes.opens = 0;
        if let FileSize::Ask { seen } = &mut inode.attributes.size {
            *seen = 0;
        }
    }
    all
}
