//! Sizes: whenever the name space says that it knows a size, it is the true one.
//!
//! Clients write, ask, cut, close, stat, vanish and come back in any order, and servers restart; the true
//! size is a number on the side. A client says at close what it asked after its own last write or cut, if it
//! asked.

use pario_namespace::{Access, Create, Namespace, Size, Wish, Written};
use pario_units::{FileId, Stamp};
use proptest::prelude::*;

use crate::disk::MemoryDisk;
use crate::random::{caller, open};

const CLIENTS: u8 = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Open {
        client: u8,
        access: Access,
    },
    Write {
        client: u8,
        upto: u64,
    },
    /// Asks all servers for the size, in order to say it at close.
    Ask {
        client: u8,
    },
    Close {
        client: u8,
    },
    BeginCut {
        client: u8,
        size: u64,
    },
    /// Does the cut on the servers, if it has begun one or was given one.
    Cut {
        client: u8,
    },
    EndCut {
        client: u8,
    },
    Look {
        client: u8,
    },
    /// Asks all servers after having looked.
    Count {
        client: u8,
    },
    Sized {
        client: u8,
    },
    /// Killed, with all that it knows.
    Die {
        client: u8,
    },
    /// Disconnected, and connects again.
    Reconnect {
        client: u8,
    },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    let access = prop::sample::select(vec![Access::Read, Access::Write, Access::Both]);
    prop_oneof![
        6 => (client.clone(), access).prop_map(|(client, access)| Step::Open { client, access }),
        6 => (client.clone(), 0u64..100).prop_map(|(client, upto)| Step::Write { client, upto }),
        6 => client.clone().prop_map(|client| Step::Ask { client }),
        8 => client.clone().prop_map(|client| Step::Close { client }),
        2 => (client.clone(), 0u64..50).prop_map(|(client, size)| Step::BeginCut { client, size }),
        3 => client.clone().prop_map(|client| Step::Cut { client }),
        3 => client.clone().prop_map(|client| Step::EndCut { client }),
        4 => client.clone().prop_map(|client| Step::Look { client }),
        4 => client.clone().prop_map(|client| Step::Count { client }),
        4 => client.clone().prop_map(|client| Step::Sized { client }),
        1 => client.clone().prop_map(|client| Step::Die { client }),
        1 => client.prop_map(|client| Step::Reconnect { client }),
        1 => Just(Step::Restart),
    ]
}

#[derive(Clone, Debug, Default)]
struct Client {
    opens: Vec<Access>,
    /// Asked after its own last write or cut.
    asked: Option<u64>,
    cut: Option<u64>,
    cut_done: bool,
    seen: Option<u64>,
    counted: Option<u64>,
}

impl Client {
    fn writes(&self) -> bool {
        self.opens.iter().any(|access| access.writes())
    }
}

fn run(steps: &[Step]) -> usize {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, 500);
    let made =
        names.open_file("/f", Access::Read, Create::Exclusive, 0o644, Wish::default(), caller(9, 0, 1));
    let file = made.expect("new").attributes.file;
    let mut clients = vec![Client::default(); usize::from(CLIENTS)];
    let (mut size, mut known) = (0u64, 0);
    for step in steps {
        apply(*step, &mut names, file, &mut clients, &mut size);
        if let Step::Restart = step {
            drop(names);
            names = open(&disk, 500).0;
            for (client, state) in (0..CLIENTS).zip(&clients) {
                let files: Vec<_> = state.opens.iter().map(|access| (file, *access)).collect();
                names.reopen(caller(client, 0, 0).client, &files, Stamp(5)).expect("there");
            }
            names.grace_over();
        }
        if let Size::Known(said) = names.attributes(file).expect("there").size {
            assert_eq!(said, size, "after {step:?}");
            known += 1;
        }
    }
    known
}

fn apply(step: Step, names: &mut Namespace, file: FileId, clients: &mut [Client], size: &mut u64) {
    let by = |client| caller(client, 0, 5);
    let at = usize::from;
    match step {
        Step::Open { client, access } => {
            let opened = names.open_file("/f", access, Create::Never, 0, Wish::default(), by(client));
            let cutting = opened.expect("there").attributes.cutting;
            let client = &mut clients[at(client)];
            client.opens.push(access);
            if cutting.is_some() {
                (client.cut, client.cut_done) = (cutting, false);
            }
        }
        Step::Write { client, upto } if clients[at(client)].writes() => {
            *size = (*size).max(upto);
            clients[at(client)].asked = None;
        }
        Step::Ask { client } if clients[at(client)].writes() => clients[at(client)].asked = Some(*size),
        Step::Close { client } if !clients[at(client)].opens.is_empty() => {
            let state = &mut clients[at(client)];
            let writer = state.opens.iter().position(|access| access.writes());
            let wrote = writer.map(|_| Written { size: state.asked, modified: Stamp(5) });
            state.opens.remove(writer.unwrap_or(0));
            names.close(file, wrote, by(client)).expect("open");
            if state.opens.is_empty() {
                (state.cut, state.asked) = (None, None);
            }
        }
        Step::BeginCut { client, size } if names.begin_cut(file, size, by(client)).is_ok() => {
            let client = &mut clients[at(client)];
            (client.cut, client.cut_done) = (Some(size), false);
        }
        Step::Cut { client } => {
            if let Some(to) = clients[at(client)].cut {
                *size = to;
                let client = &mut clients[at(client)];
                (client.cut_done, client.asked) = (true, None);
            }
        }
        Step::EndCut { client } if clients[at(client)].cut_done => {
            if let Some(size) = clients[at(client)].cut.take() {
                names.end_cut(file, size, by(client)).expect("sound");
            }
            clients[at(client)].cut_done = false;
        }
        Step::Look { client } => {
            let client = &mut clients[at(client)];
            (client.seen, client.counted) = (None, None);
            if let Size::Ask { seen } = names.lookup("/f").expect("there").size {
                client.seen = Some(seen);
            }
        }
        Step::Count { client } if clients[at(client)].seen.is_some() => {
            clients[at(client)].counted = Some(*size);
        }
        Step::Sized { client } => {
            if let Client { seen: Some(seen), counted: Some(size), .. } = clients[at(client)] {
                names.sized(file, size, seen, Stamp(5)).expect("there");
            }
        }
        Step::Die { client } => {
            names.client_gone(by(client).client);
            clients[at(client)] = Client::default();
        }
        Step::Reconnect { client } => {
            let files: Vec<_> = clients[at(client)].opens.iter().map(|access| (file, *access)).collect();
            names.reopen(by(client).client, &files, Stamp(5)).expect("there");
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn a_known_size_is_true(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps);
    }
}

#[test]
fn writers_that_say_their_size_leave_it_known() {
    use Step::{Ask, Close, Open, Restart, Write};
    let two = |client| Open { client, access: Access::Both };
    // Two at once; the one that wrote less closes last.
    let steps = [
        two(0),
        two(1),
        Write { client: 0, upto: 10 },
        Ask { client: 0 },
        Write { client: 1, upto: 90 },
        Ask { client: 1 },
        Close { client: 1 },
        Close { client: 0 },
        Restart,
    ];
    assert_eq!(run(&steps), 2);
    // A cut by the only writer.
    let cut = [
        two(0),
        Write { client: 0, upto: 10 },
        Step::BeginCut { client: 0, size: 3 },
        Step::Cut { client: 0 },
        Step::EndCut { client: 0 },
        Ask { client: 0 },
        Close { client: 0 },
    ];
    assert_eq!(run(&cut), 1);
    // One that vanished, and somebody who then asks.
    let asked = [
        two(0),
        Write { client: 0, upto: 10 },
        Step::Die { client: 0 },
        Step::Look { client: 1 },
        Step::Count { client: 1 },
        Step::Sized { client: 1 },
    ];
    assert_eq!(run(&asked), 1);
}
