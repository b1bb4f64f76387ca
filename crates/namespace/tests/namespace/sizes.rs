//! Whenever the name space reports a known size, it is the true one.
//!
//! Clients write, ask, truncate, close, stat, vanish and return in any order, and servers restart; a variable beside them
//! has the true size. At close a client reports the size that it asked for since it opened for writing and after its own
//! last write or truncation, if it asked.

use pario_namespace::{CloseReport, CreateMode, FileSize, LayoutRequest, Namespace, OpenAccess};
use pario_types::{ErrorKind, FileId, RequestId, Stamp, TruncationId};
use proptest::prelude::*;

use crate::disk::MemoryDisk;
use crate::random::{caller, open};

const CLIENTS: u8 = 2;

#[derive(Clone, Copy, Debug)]
enum Step {
    Open {
        access: OpenAccess,
    },
    Write {
        upto: u64,
    },
    /// Asks all servers for the size, to report it at close.
    Ask,
    Close,
    BeginTruncate {
        size: u64,
    },
    /// Truncates on the servers, if it has begun to.
    Truncate,
    EndTruncate,
    /// The metadata server completes or fences the truncations that are left.
    Resolve,
    Look,
    /// Asks all servers after a lookup.
    Count,
    Sized,
    /// Looks up, asks and reports, with nothing in between.
    Stat,
    /// Is killed, with all its state.
    Die,
    /// The name space takes it for dead; it writes nothing until it reconnects.
    Lost,
    Reconnect,
    /// Another server takes over. Clients continue with the data, and reconnect before they send it a request.
    Restart,
    /// All clients have reconnected or died.
    GraceOver,
}

fn step() -> impl Strategy<Value = (u8, Step)> {
    let access = prop::sample::select(vec![OpenAccess::Read, OpenAccess::Write, OpenAccess::Both]);
    let step = prop_oneof![
        8 => access.prop_map(|access| Step::Open { access }),
        8 => (0u64..100).prop_map(|upto| Step::Write { upto }),
        8 => Just(Step::Ask),
        8 => Just(Step::Close),
        3 => (0u64..50).prop_map(|size| Step::BeginTruncate { size }),
        3 => Just(Step::Truncate),
        3 => Just(Step::EndTruncate),
        3 => Just(Step::Resolve),
        2 => Just(Step::Look),
        2 => Just(Step::Count),
        2 => Just(Step::Sized),
        4 => Just(Step::Stat),
        1 => Just(Step::Die),
        1 => Just(Step::Lost),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Restart),
        2 => Just(Step::GraceOver),
    ];
    (0..CLIENTS, step)
}

#[derive(Clone, Debug, Default)]
struct Client {
    opens: Vec<OpenAccess>,
    /// Asked while open for writing, and after its own last write or truncation.
    asked: Option<u64>,
    truncation: Option<(TruncationId, u64)>,
    truncated: bool,
    seen: Option<u64>,
    counted: Option<u64>,
    /// It has to reconnect.
    away: bool,
    lost: bool,
}

impl Client {
    fn writes(&self) -> bool {
        self.opens.iter().any(|access| access.writes())
    }
}

struct World {
    disk: MemoryDisk,
    names: Option<Namespace>,
    file: FileId,
    clients: Vec<Client>,
    size: u64,
    /// The last truncation that the servers have applied or fenced.
    applied: TruncationId,
}

impl World {
    fn new() -> World {
        let disk = MemoryDisk::new();
        let (mut names, _) = open(&disk, 500);
        let by = caller(9, 0, 1);
        let made = names.open_file(
            "/f",
            OpenAccess::Read,
            CreateMode::Exclusive,
            0o644,
            LayoutRequest::default(),
            by,
        );
        let file = made.expect("new").attributes.file;
        let clients = vec![Client::default(); usize::from(CLIENTS)];
        World { disk, names: Some(names), file, clients, size: 0, applied: TruncationId(0) }
    }

    fn names(&mut self) -> &mut Namespace {
        self.names.as_mut().expect("always there between steps")
    }

    fn reconnect(&mut self, client: u8) {
        let state = &mut self.clients[usize::from(client)];
        (state.away, state.lost) = (false, false);
        let files: Vec<_> = state.opens.iter().map(|access| (self.file, *access)).collect();
        self.names().reopen(caller(client, 0, 0).client, &files, RequestId(0), Stamp(5)).expect("there");
    }

    fn look(&mut self) -> Option<u64> {
        match self.names().lookup("/f").expect("there").size {
            FileSize::Ask { seen } => Some(seen),
            FileSize::Known(_) => None,
        }
    }

    /// Performs a client's step on the data, without the name space.
    fn with_data(&mut self, client: u8, step: Step) {
        let state = &mut self.clients[usize::from(client)];
        match step {
            Step::Write { upto } if state.writes() && !state.lost => {
                self.size = self.size.max(upto);
                state.asked = None;
            }
            Step::Ask if state.writes() => state.asked = Some(self.size),
            Step::Truncate => {
                if let Some((id, to)) = state.truncation {
                    if id > self.applied {
                        (self.size, self.applied) = (to, id);
                    }
                    (state.truncated, state.asked) = (true, None);
                }
            }
            Step::Count if state.seen.is_some() => state.counted = Some(self.size),
            _ => {}
        }
    }

    /// Performs a client's step on the name space.
    fn with_names(&mut self, client: u8, step: Step) {
        if self.clients[usize::from(client)].away {
            self.reconnect(client);
        }
        let (file, size, by) = (self.file, self.size, caller(client, 0, 5));
        let mut state = std::mem::take(&mut self.clients[usize::from(client)]);
        let names = self.names();
        match step {
            Step::Open { access } => {
                let opened =
                    names.open_file("/f", access, CreateMode::Never, 0, LayoutRequest::default(), by);
                match opened {
                    Ok(_) => state.opens.push(access),
                    Err(error) => assert!(access.writes() && error.kind() == ErrorKind::FileInUse),
                }
            }
            Step::Close if !state.opens.is_empty() => {
                let writer = state.opens.iter().position(|access| access.writes());
                let wrote = writer.map(|_| CloseReport { size: state.asked, modified: Stamp(5) });
                state.opens.remove(writer.unwrap_or(0));
                names.close(file, wrote, by).expect("open");
                if !state.writes() {
                    state.asked = None;
                }
            }
            Step::BeginTruncate { size } if state.truncation.is_none() => {
                let begun = names.begin_truncate(file, size, by).ok();
                (state.truncation, state.truncated) = (begun.map(|id| (id, size)), false);
            }
            Step::EndTruncate if state.truncated => {
                if let Some((id, _)) = state.truncation.take() {
                    // It is too late if the truncation was resolved.
                    let _ = names.end_truncate(file, id, by);
                }
                state.truncated = false;
            }
            Step::Look => (state.seen, state.counted) = (self.look(), None),
            Step::Sized => {
                if let (Some(seen), Some(counted)) = (state.seen, state.counted) {
                    names.report_size(file, counted, seen, Stamp(5)).expect("there");
                }
            }
            Step::Stat => {
                if let Some(seen) = self.look() {
                    self.names().report_size(file, size, seen, Stamp(5)).expect("there");
                }
            }
            _ => {}
        }
        self.clients[usize::from(client)] = state;
    }

    fn step(&mut self, client: u8, step: Step) {
        let state = &mut self.clients[usize::from(client)];
        match step {
            Step::Write { .. } | Step::Ask | Step::Truncate | Step::Count => self.with_data(client, step),
            Step::Die => {
                *state = Client::default();
                self.names().client_gone(caller(client, 0, 0).client);
            }
            Step::Lost => {
                (state.away, state.lost) = (true, true);
                self.names().client_gone(caller(client, 0, 0).client);
            }
            Step::Reconnect => self.reconnect(client),
            Step::Resolve => {
                for left in self.names().take_truncations() {
                    if let (Some(size), true) = (left.complete, left.truncation > self.applied) {
                        self.size = size;
                    }
                    self.applied = self.applied.max(left.truncation);
                    let resolved = self.names().truncation_resolved(left.file, left.truncation, Stamp(5));
                    resolved.expect("the disk is sound");
                }
            }
            Step::Restart => {
                self.clients.iter_mut().for_each(|client| client.away = true);
                self.names = None;
                self.names = Some(open(&self.disk, 500).0);
            }
            Step::GraceOver => {
                for client in 0..CLIENTS {
                    if self.clients[usize::from(client)].away {
                        self.reconnect(client);
                    }
                }
                self.names().end_grace_period();
            }
            _ => self.with_names(client, step),
        }
    }
}

/// Returns the number of steps after which the size was known.
fn run(steps: &[(u8, Step)]) -> usize {
    let mut world = World::new();
    let mut known = 0;
    for (client, step) in steps {
        world.step(*client, *step);
        let file = world.file;
        if let FileSize::Known(said) = world.names().attributes(file).expect("there").size {
            assert_eq!(said, world.size, "after {step:?}");
            known += 1;
        }
    }
    known
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn a_known_size_is_true(steps in prop::collection::vec(step(), 1..120)) {
        run(&steps);
    }
}

const OPEN: Step = Step::Open { access: OpenAccess::Both };

#[test]
fn writers_that_say_their_size_leave_it_known() {
    // Two writers at the same time; the one that wrote less closes last.
    let steps = [
        (0, OPEN),
        (1, OPEN),
        (0, Step::Write { upto: 10 }),
        (0, Step::Ask),
        (1, Step::Write { upto: 90 }),
        (1, Step::Ask),
        (1, Step::Close),
        (0, Step::Close),
        (0, Step::Restart),
    ];
    assert_eq!(run(&steps), 2);
}

#[test]
fn a_truncation_by_the_only_writer_leaves_the_size_known() {
    let steps = [
        (0, OPEN),
        (0, Step::Write { upto: 10 }),
        (0, Step::BeginTruncate { size: 3 }),
        (0, Step::Truncate),
        (0, Step::EndTruncate),
        (0, Step::Ask),
        (0, Step::Close),
    ];
    assert_eq!(run(&steps), 1);
}

#[test]
fn a_size_reported_after_a_writer_vanished_is_known() {
    let steps = [(0, OPEN), (0, Step::Write { upto: 10 }), (0, Step::Die), (1, Step::Stat)];
    assert_eq!(run(&steps), 1);
}

#[test]
fn an_uncertain_size_is_not_known() {
    // A writer that vanished had written more than the other one knows.
    let vanished = [
        (0, OPEN),
        (1, OPEN),
        (0, Step::Ask),
        (1, Step::Write { upto: 90 }),
        (1, Step::Die),
        (0, Step::Close),
    ];
    assert_eq!(run(&vanished), 0);
    // The other writer has truncated the file since.
    let truncated = [
        (0, OPEN),
        (1, OPEN),
        (0, Step::Write { upto: 90 }),
        (0, Step::Ask),
        (1, Step::BeginTruncate { size: 3 }),
        (1, Step::Truncate),
        (1, Step::EndTruncate),
        (0, Step::Close),
        (1, Step::Ask),
        (1, Step::Close),
    ];
    assert_eq!(run(&truncated), 0);
    // A size from before a restart is not valid afterwards.
    let late = [
        (0, OPEN),
        (1, Step::Look),
        (1, Step::Count),
        (0, Step::Write { upto: 90 }),
        (0, Step::Close),
        (0, Step::Restart),
        (0, Step::GraceOver),
        (1, Step::Sized),
    ];
    assert_eq!(run(&late), 0);
    // A writer from before the restart has not yet reconnected.
    let restarted = [
        (0, OPEN),
        (0, Step::Restart),
        (1, OPEN),
        (1, Step::Ask),
        (0, Step::Write { upto: 90 }),
        (1, Step::Close),
        (1, Step::Stat),
    ];
    assert_eq!(run(&restarted), 0);
}
