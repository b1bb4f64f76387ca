//! No truncation destroys a write that came after it was resolved, and the metadata server completes a truncation only if
//! no other client could have written since its begin.
//!
//! The model has servers that apply each truncation id once and in order, and messages of clients that arrive late.

use pario_namespace::{CreateMode, Error, LayoutRequest, Namespace, OpenAccess, UnfinishedTruncation};
use pario_types::{ErrorKind, FileId, RequestId, Stamp, TruncationId};
use proptest::prelude::*;

use crate::disk::MemoryDisk;
use crate::random::{caller, open};

const LONG: u64 = 1 << 30;
const CLIENTS: u8 = 3;
const SERVERS: usize = 2;

fn open_as(names: &mut Namespace, access: OpenAccess, client: u8) -> Result<FileId, Error> {
    let by = caller(client, 0, 5);
    let opened = names.open_file("/f", access, CreateMode::Missing, 0o644, LayoutRequest::default(), by)?;
    Ok(opened.attributes.file)
}

/// A name space with a file that this many clients have open for writing.
fn opened_by(clients: u8) -> (MemoryDisk, Namespace, FileId) {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, LONG);
    let mut file = FileId(0);
    for client in 0..clients {
        file = open_as(&mut names, OpenAccess::Both, client).expect("sound");
    }
    (disk, names, file)
}

fn take_one(names: &mut Namespace) -> UnfinishedTruncation {
    let mut left = names.take_truncations();
    assert_eq!(left.len(), 1);
    assert_eq!(names.take_truncations(), [], "it is handed out once");
    left.remove(0)
}

#[test]
fn a_truncation_of_a_lost_client_is_completed_if_no_other_client_wrote() {
    let (_, mut names, file) = opened_by(1);
    let id = names.begin_truncate(file, 9, caller(0, 0, 6)).expect("open");
    open_as(&mut names, OpenAccess::Read, 1).expect("a reader");
    assert_eq!(names.take_truncations(), [], "its client is at it");
    names.client_gone(caller(0, 0, 0).client);
    // Readers can open it, writers wait until it is resolved.
    open_as(&mut names, OpenAccess::Read, 1).expect("a reader");
    assert_eq!(open_as(&mut names, OpenAccess::Both, 1).expect_err("busy").kind(), ErrorKind::FileInUse);
    let left = take_one(&mut names);
    assert_eq!((left.file, left.truncation, left.complete), (file, id, Some(9)));
    names.retry_truncation(file);
    assert_eq!(take_one(&mut names), left, "a server was away, so it is tried again");
    names.truncation_resolved(file, id, Stamp(7)).expect("sound");
    open_as(&mut names, OpenAccess::Both, 1).expect("free again");
    assert!(matches!(names.end_truncate(file, id, caller(0, 0, 8)), Err(Error::TruncationLost { .. })));
}

#[test]
fn a_truncation_is_fenced_if_another_client_could_write_since_its_begin() {
    // Before its begin, or after it; the other one may have closed the file, and the server may have been killed.
    for (before, closes, restarts) in [(true, false, false), (false, false, false), (false, true, true)] {
        let (disk, mut names, file) = opened_by(1 + u8::from(before));
        let id = names.begin_truncate(file, 9, caller(0, 0, 6)).expect("open");
        if !before {
            open_as(&mut names, OpenAccess::Write, 1).expect("its client is at it");
        }
        if closes {
            names.close(file, None, caller(1, 0, 7)).expect("open");
        }
        if restarts {
            drop(names);
            names = open(&disk, LONG).0;
            names.end_grace_period();
        }
        names.client_gone(caller(0, 0, 0).client);
        let left = take_one(&mut names);
        assert_eq!((left.truncation, left.complete), (id, None));
    }
}

#[test]
fn an_aborted_truncation_is_fenced_and_over_when_that_is_done() {
    let (_, mut names, file) = opened_by(1);
    let by = |request| caller(0, request, 6);
    let id = names.begin_truncate(file, 9, by(1)).expect("open");
    assert_eq!(names.abort_truncate(file, id, by(3)), Ok(false));
    assert!(names.end_truncate(file, id, by(4)).is_err());
    assert_eq!(names.begin_truncate(file, 5, by(5)).expect_err("busy").kind(), ErrorKind::FileInUse);
    assert_eq!(take_one(&mut names).complete, None);
    assert_eq!(names.abort_truncate(file, TruncationId(0), by(6)), Ok(false));
    names.truncation_resolved(file, id, Stamp(7)).expect("sound");
    assert_eq!(names.abort_truncate(file, id, by(7)), Ok(true));
    // A begin that was sent before the abort and arrives late has no effect.
    assert!(matches!(names.begin_truncate(file, 5, by(2)), Err(Error::TruncationLost { .. })));
    assert!(names.begin_truncate(file, 5, by(8)).expect("later") > id);
    assert_eq!(names.abort_truncate(file, id, by(9)), Ok(true), "not the one that is over");
    assert_eq!(names.abort_truncate(file, TruncationId(0), by(10)), Ok(false), "the one that is its own");
}

#[test]
fn a_repeated_begin_has_the_same_id_and_ids_survive_snapshots() {
    let (disk, mut names, file) = opened_by(1);
    let by = caller(0, 77, 6);
    let id = names.begin_truncate(file, 9, by).expect("open");
    assert_eq!(names.begin_truncate(file, 9, by), Ok(id));
    names.snapshot().expect("no fault");
    drop(names);
    let (mut names, _) = open(&disk, LONG);
    assert_eq!(names.begin_truncate(file, 9, by), Ok(id));
    names.reopen(by.client, &[(file, OpenAccess::Both)], RequestId(0), Stamp(6)).expect("sound");
    names.end_grace_period();
    assert_eq!(names.take_truncations(), [], "its client has come back");
    names.end_truncate(file, id, caller(0, 78, 6)).expect("its own");
    assert!(names.begin_truncate(file, 9, caller(0, 79, 6)).expect("open") > id);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Open,
    Close,
    /// To one server.
    Write(usize),
    Begin,
    /// A message to one server, which is under way from now on.
    Send(usize),
    /// The first message that is under way arrives.
    Arrive,
    End,
    Abort,
    Die,
    Restart,
    /// The metadata server resolves at one server, after which that may be away.
    Resolve {
        servers: usize,
    },
}

fn step() -> impl Strategy<Value = (u8, Step)> {
    let server = 0..SERVERS;
    let step = prop_oneof![
        6 => Just(Step::Open),
        2 => Just(Step::Close),
        8 => server.clone().prop_map(Step::Write),
        4 => Just(Step::Begin),
        4 => server.prop_map(Step::Send),
        4 => Just(Step::Arrive),
        2 => Just(Step::End),
        2 => Just(Step::Abort),
        1 => Just(Step::Die),
        1 => Just(Step::Restart),
        4 => (0..=SERVERS).prop_map(|servers| Step::Resolve { servers }),
    ];
    (0..CLIENTS, step)
}

/// A write that a server has applied, its client and its time.
#[derive(Clone, Copy, Debug)]
struct Write {
    client: u8,
    at: usize,
}

#[derive(Clone, Debug, Default)]
struct Server {
    applied: TruncationId,
    writes: Vec<Write>,
}

/// A truncation as the model knows it.
#[derive(Clone, Copy, Debug)]
struct Begun {
    id: TruncationId,
    client: u8,
    at: usize,
    /// The time at which it was over: ended, or resolved.
    over: Option<usize>,
}

#[derive(Default)]
struct World {
    servers: [Server; SERVERS],
    /// The number of opens of each client.
    opens: [u32; CLIENTS as usize],
    begun: Vec<Begun>,
    way: Vec<(usize, TruncationId)>,
    /// The truncation under way of each client.
    truncating: [Option<TruncationId>; CLIENTS as usize],
}

impl World {
    fn truncation(&mut self, id: TruncationId) -> &mut Begun {
        self.begun.iter_mut().find(|begun| begun.id == id).expect("it was begun")
    }

    /// A server receives a truncation, from its client or from the metadata server in its place.
    fn apply(&mut self, server: usize, id: TruncationId, by_metadata: bool) {
        let begun = *self.truncation(id);
        let server = &mut self.servers[server];
        if id <= server.applied {
            return;
        }
        server.applied = id;
        for write in std::mem::take(&mut server.writes) {
            assert!(begun.over.is_none_or(|over| write.at < over), "{write:?} came after {begun:?} was over");
            let others = write.client != begun.client && write.at > begun.at;
            assert!(!(by_metadata && others), "{write:?} of another client, {begun:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_stale_truncate_never_destroys_later_writes(steps in prop::collection::vec(step(), 1..150)) {
        let disk = MemoryDisk::new();
        let (mut names, _) = open(&disk, 600);
        let file = open_as(&mut names, OpenAccess::Read, 9).expect("new");
        let mut world = World::default();
        for (at, (client, step)) in steps.into_iter().enumerate() {
            let (who, by) = (usize::from(client), caller(client, 0, 5));
            match step {
                Step::Open if open_as(&mut names, OpenAccess::Both, client).is_ok() => world.opens[who] += 1,
                Step::Close if world.opens[who] > 0 => {
                    names.close(file, None, by).expect("open");
                    world.opens[who] -= 1;
                }
                Step::Write(server) if world.opens[who] > 0 => {
                    world.servers[server].writes.push(Write { client, at });
                }
                Step::Begin if world.truncating[who].is_none() => {
                    if let Ok(id) = names.begin_truncate(file, at as u64, by) {
                        prop_assert!(world.begun.iter().all(|begun| begun.id < id));
                        prop_assert!(world.begun.iter().all(|begun| begun.over.is_some()));
                        world.begun.push(Begun { id, client, at, over: None });
                        world.truncating[who] = Some(id);
                    }
                }
                Step::Send(server) => {
                    world.way.extend(world.truncating[who].map(|id| (server, id)));
                }
                Step::Arrive if !world.way.is_empty() => {
                    let (server, id) = world.way.remove(0);
                    world.apply(server, id, false);
                }
                Step::End => if let Some(id) = world.truncating[who] {
                    let everywhere = world.servers.iter().all(|server| server.applied >= id);
                    if everywhere && names.end_truncate(file, id, by).is_ok() {
                        world.truncation(id).over = Some(at);
                        world.truncating[who] = None;
                    }
                },
                Step::Abort => if let Some(id) = world.truncating[who]
                    && names.abort_truncate(file, id, by).expect("the disk is sound")
                {
                    prop_assert!(world.truncation(id).over.is_some());
                    world.truncating[who] = None;
                },
                Step::Die => {
                    names.client_gone(by.client);
                    (world.opens[who], world.truncating[who]) = (0, None);
                }
                Step::Restart => {
                    drop(names);
                    names = open(&disk, 600).0;
                    for client in 0..CLIENTS {
                        let opens = vec![(file, OpenAccess::Both); world.opens[usize::from(client)] as usize];
                        names.reopen(caller(client, 0, 0).client, &opens, RequestId(0), Stamp(5)).expect("there");
                    }
                    names.end_grace_period();
                }
                Step::Resolve { servers } => for left in names.take_truncations() {
                    for server in 0..servers {
                        match left.complete {
                            Some(_) => world.apply(server, left.truncation, true),
                            None => {
                                let applied = &mut world.servers[server].applied;
                                *applied = left.truncation.max(*applied);
                            }
                        }
                    }
                    match servers == SERVERS {
                        true => {
                            names.truncation_resolved(file, left.truncation, Stamp(5)).expect("sound");
                            world.truncation(left.truncation).over = Some(at);
                        }
                        false => names.retry_truncation(file),
                    }
                },
                _ => {}
            }
        }
    }
}
