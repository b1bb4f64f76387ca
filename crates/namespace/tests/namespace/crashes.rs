//! A server that is killed at any instant, or loses power, loses nothing that it acknowledged.

use std::collections::BTreeMap;

use pario_namespace::{Error, Inode, Namespace};
use pario_types::Stamp;
use proptest::prelude::*;

use crate::disk::{Fault, MemoryDisk};
use crate::random::{Op, config, fingerprint, op, open, perform};

const LONG: u64 = 1 << 30;

/// Performs the operations as one client; a close ends one of the open files.
struct History {
    names: Namespace,
    held: BTreeMap<u8, Vec<pario_types::FileId>>,
    done: u64,
}

impl History {
    fn new(names: Namespace) -> History {
        History { names, held: BTreeMap::new(), done: 0 }
    }

    fn step(&mut self, op: &Op) -> Result<(), Error> {
        self.done += 1;
        let client = match op {
            Op::Open { client, .. } | Op::Close { client, .. } | Op::Gone { client } => *client,
            _ => 0,
        };
        let held = self.held.entry(client).or_default();
        let answer = perform(&mut self.names, op, self.done, 100 + self.done as i64, held)?;
        match (op, answer) {
            (Op::Open { .. }, crate::random::Answer::About(file, _)) => held.push(file),
            (Op::Close { which, .. }, _) => drop(held.remove(*which)),
            (Op::Gone { .. }, _) => held.clear(),
            _ => {}
        }
        Ok(())
    }
}

/// Whether the storage, and not the request, caused the error.
fn is_fatal(result: &Result<(), Error>) -> bool {
    matches!(result, Err(Error::Io { .. }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_journal_cut_anywhere_gives_a_state_before(ops in prop::collection::vec(op(), 1..40)) {
        let disk = MemoryDisk::new();
        let mut history = History::new(open(&disk, LONG).0);
        let len = || disk.read("journal.0").len();
        let mut states: BTreeMap<usize, Vec<Inode>> = BTreeMap::new();
        states.insert(len(), fingerprint(&history.names));
        for op in &ops {
            let _ = history.step(op);
            states.insert(len(), fingerprint(&history.names));
        }
        let whole = disk.read("journal.0");
        let first = *states.keys().next().expect("there is one");
        let from = states.keys().rev().nth(5).copied().unwrap_or(first);
        for cut in from..=whole.len() {
            let copy = disk.after_kill();
            copy.overwrite("journal.0", whole[..cut].to_vec());
            let (names, recovered) = open(&copy, LONG);
            let (len, state) = states.range(..=cut).next_back().expect("cut after the first");
            // The removal of several files is several changes, each atomic.
            if states.contains_key(&cut) || !ops.iter().any(Op::is_several) {
                prop_assert_eq!(&fingerprint(&names), state);
                prop_assert_eq!(recovered.torn, (cut - len) as u64);
                prop_assert_eq!(copy.read("journal.0").len(), *len);
            }
        }
    }

    #[test]
    fn a_server_killed_at_any_step_loses_nothing(
        ops in prop::collection::vec(op(), 1..25),
        journal in prop::sample::select(vec![200u64, 600]),
        part in 0usize..200,
    ) {
        for step in 0.. {
            let disk = MemoryDisk::new();
            disk.set_fault(Fault::Stop { step, part });
            let mut acknowledged = None;
            let mut attempted = None;
            if let Ok((names, _)) = Namespace::open_on(disk.boxed(), config(journal), Stamp(1)) {
                let mut history = History::new(names);
                acknowledged = Some(fingerprint(&history.names));
                for (at, op) in ops.iter().enumerate() {
                    let result = history.step(op);
                    if is_fatal(&result) {
                        attempted = Some(at);
                        break;
                    }
                    acknowledged = Some(fingerprint(&history.names));
                }
            }
            let stopped = disk.steps() > step;
            let after = disk.after_kill();
            let (names, _) = open(&after, journal);
            let found = fingerprint(&names);
            if let Some(acknowledged) = acknowledged && found != acknowledged {
                // The operation that was under way may have been done, or a part of it if it is several changes.
                let at = attempted.expect("only an operation under way makes a difference");
                let reference = MemoryDisk::new();
                let mut history = History::new(open(&reference, LONG).0);
                ops[..at].iter().for_each(|op| drop(history.step(op)));
                let _ = history.step(&ops[at]);
                if !ops[at].is_several() {
                    prop_assert_eq!(found, fingerprint(&history.names));
                }
            }
            // The successor continues, and its own successor finds the result.
            let mut history = History::new(names);
            history.done = 1000;
            history.names.end_grace_period();
            ops.iter().for_each(|op| drop(history.step(op)));
            let at_last = fingerprint(&history.names);
            drop(history);
            prop_assert_eq!(fingerprint(&open(&after, journal).0), at_last);
            if !stopped {
                break;
            }
        }
    }

    #[test]
    fn synced_changes_survive_a_loss_of_power(
        before in prop::collection::vec(op(), 1..20),
        behind in prop::collection::vec(op(), 1..12),
        journal in prop::sample::select(vec![200u64, 600]),
        seed: u64,
    ) {
        for step in 0.. {
            let disk = MemoryDisk::new();
            let mut history = History::new(open(&disk, journal).0);
            before.iter().for_each(|op| drop(history.step(op)));
            history.names.sync().expect("no fault");
            let mut states = vec![fingerprint(&history.names)];
            let start = disk.steps();
            disk.set_fault(Fault::Stop { step: start + step, part: 0 });
            for op in &behind {
                if is_fatal(&history.step(op)) {
                    break;
                }
                states.push(fingerprint(&history.names));
            }
            let stopped = disk.steps() > start + step;
            let (names, _) = open(&disk.after_power_loss(seed), journal);
            let found = fingerprint(&names);
            let several = behind.iter().any(Op::is_several);
            prop_assert!(several || states.contains(&found));
            if !stopped {
                break;
            }
        }
    }
}

#[test]
fn a_snapshot_stopped_at_any_step_changes_nothing() {
    let filled = MemoryDisk::new();
    let mut history = History::new(open(&filled, LONG).0);
    for n in 0..20u8 {
        let (path, client) = (format!("/d{}", n % 3), n % 2);
        let _ = history.step(&Op::MakeDirectory { client, path: path.clone(), mode: 0o755, parents: true });
        let open = Op::Open {
            client,
            path: format!("{path}/f{n}"),
            access: pario_namespace::OpenAccess::Both,
            create: pario_namespace::CreateMode::Missing,
            mode: 0o644,
        };
        history.step(&open).expect("sound");
    }
    history.step(&Op::Unlink { client: 0, path: "/d0/f0".into() }).expect("sound");
    history.names.sync().expect("no fault");
    let state = fingerprint(&history.names);
    drop(history);
    for step in 0.. {
        for part in [0, 17, usize::MAX] {
            let disk = filled.after_kill();
            let (mut names, _) = open(&disk, LONG);
            disk.set_fault(Fault::Stop { step: disk.steps() + step, part });
            let result = names.snapshot();
            let with_power = std::iter::once(disk.after_kill());
            let without = (0..40).map(|seed| disk.after_power_loss(seed));
            for after in with_power.chain(without) {
                let (found, recovered) = open(&after, LONG);
                assert_eq!(fingerprint(&found), state, "step {step}");
                assert_eq!(recovered.torn, 0);
                let names = after.names();
                assert!(names.len() <= 3, "leftovers: {names:?}");
            }
            if result.is_ok() && step > 12 {
                return;
            }
        }
    }
}
