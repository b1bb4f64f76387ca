//! Single cases of the lease table, in the [simulation](super::table_model) of the property tests.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pario_locks::LockExtent;
use pario_types::ClientId;

use super::table_model::{FILE, GRACE, Op, Simulation, UNITS, extent};
use crate::error::Error;
use crate::leases::lease_table::Team;

#[test]
fn a_mailbox_is_cut_off_when_its_time_is_over_and_not_before() {
    let mut simulation = Simulation::new();
    let begun = Instant::now();
    simulation.table.now = begun;
    let (one, two) = (simulation.connect(Team(1)), simulation.connect(Team(2)));
    let mailbox = ClientId(one.into());
    simulation.lease(one, vec![extent(&(0..1))]);
    assert_eq!(simulation.processes[&one].leased.len(), UNITS as usize, "the first gets all");
    simulation.lease(two, vec![extent(&(4..5))]);
    assert_eq!(simulation.table.effects.check_at, Some(begun + GRACE));
    simulation.table.now = begun + GRACE - Duration::from_nanos(1);
    assert_eq!(simulation.table.cut_off(), []);
    assert_eq!(simulation.table.effects.check_at, Some(begun + GRACE));
    simulation.table.now = begun + GRACE;
    // The process writes on another connection.
    let other = ClientId(77);
    simulation.table.clients.join(other, Team(1), Some(70), mailbox).unwrap();
    assert!(simulation.table.may_change(other));
    let cut_off = simulation.table.cut_off();
    let own = BTreeSet::from([mailbox]);
    assert!(cut_off.len() == 1 && cut_off[0].mailboxes == own, "{cut_off:?}");
    let session = simulation.processes[&one].session.unwrap();
    assert_eq!(BTreeSet::from_iter(&cut_off[0].sessions), BTreeSet::from([&session, &70]));
    assert_eq!(cut_off[0].leased, [(FILE, LockExtent::ALL)]);
    assert!(!simulation.table.may_change(other) && simulation.table.may_change(ClientId(two.into())));
    assert_eq!((simulation.table.cut_off(), simulation.table.effects.check_at), (vec![], None));
    simulation.disconnect(one);
    assert!(!simulation.step(0), "the process may still know slots");
    assert!(
        !simulation.table.add_mailbox(80, mailbox, Team(1), true).unwrap(),
        "the cut-off is not complete"
    );
    simulation.table.finish_cut_off(own);
    assert!(simulation.step(0), "the other request continues");
    // The process connects again: the server refuses its changes until it reports that it has dropped its cache.
    simulation.table.clients.join(other, Team(1), Some(71), mailbox).unwrap();
    assert!(matches!(simulation.table.add_mailbox(80, mailbox, Team(1), false), Err(Error::LeaseLost)));
    assert!(!simulation.table.may_change(other));
    assert!(simulation.table.add_mailbox(80, mailbox, Team(1), true).unwrap());
    assert!(simulation.table.may_change(other));
    simulation.table.client_left(80, mailbox);
    assert_eq!((simulation.table.status().cut_off, simulation.table.status().teams), (1, 1));
}

/// A disconnected process keeps its leases until another client needs the bytes, and no client waits for it.
#[test]
fn a_disconnected_process_keeps_leases_that_no_client_needs() {
    let mut simulation = Simulation::new();
    let (one, two) = (simulation.connect(Team(1)), simulation.connect(Team(2)));
    simulation.lease(one, vec![extent(&(0..1))]);
    for wanted in [false, true] {
        simulation.disconnect(one);
        if wanted {
            simulation.access(Some(Team(2)), &[extent(&(3..4))]);
            assert!(simulation.table.effects.check_at.is_some_and(|when| when <= simulation.table.now));
            simulation.check_overdue();
            assert!(simulation.table.is_granted(&simulation.accesses[0].tickets));
        }
        simulation.reconnect(one);
        assert_eq!(simulation.processes[&one].leased.is_empty(), wanted);
    }
    assert_eq!(simulation.table.status().cut_off, 0, "its process may have ended");
    assert!(simulation.table.mailboxes.is_valid(ClientId(two.into())));
}

/// Clients wait for the leases of an expected mailbox, and the mailbox receives the recall.
#[test]
fn a_successor_waits_for_mailboxes_that_were_connected() {
    let mut simulation = Simulation::new();
    let (one, gone) = (simulation.connect(Team(1)), simulation.connect(Team(2)));
    simulation.lease(one, vec![extent(&(0..5))]);
    simulation.lease(gone, vec![extent(&(7..8))]);
    simulation.poll(one);
    simulation.answer(one, 0, 0, 0);
    assert!(simulation.step(0));
    simulation.disconnect(gone);
    simulation.restart();
    simulation.access(None, &[extent(&(7..8))]);
    simulation.check_overdue();
    assert!(
        simulation.table.is_granted(&simulation.accesses[0].tickets),
        "its mailbox was disconnected before"
    );
    simulation.access(None, &[extent(&(2..3))]);
    simulation.check_overdue();
    assert!(!simulation.table.is_granted(&simulation.accesses[1].tickets));
    simulation.reconnect(one);
    simulation.poll(one);
    assert_eq!(simulation.processes[&one].recalls.len(), 1);
    simulation.answer(one, 0, 0, 0);
    assert!(simulation.table.is_granted(&simulation.accesses[1].tickets));
    assert!(simulation.processes[&one].leased.contains(&0), "no client needed these");
}

/// A lock whose revocation was deferred had lost the bytes meanwhile, to a request that waited behind a request for other bytes of the
/// lock.
#[test]
fn regression_a_lock_is_asked_again_only_after_it_has_answered() {
    let lease = |pid, units, more| Op::Lease { pid, units, more };
    let access = |units, more| Op::Access { by: None, units, more };
    let ops = [
        access(2..4, 5..8),
        access(0..1, 0..1),
        Op::End { which: 1 },
        Op::Connect { team: 0 },
        lease(0, 2..3, 8..9),
        Op::Connect { team: 2 },
        lease(6_085_455_393_120_586_099, 6..9, 0..1),
        access(6..8, 3..4),
        lease(0, 0..1, 0..1),
        lease(0, 0..1, 0..1),
        lease(0, 0..1, 0..1),
        Op::Connect { team: 1 },
        access(0..1, 0..1),
        Op::AbandonLease { which: 6_949_520_318_398_444_761 },
        Op::Connect { team: 0 },
        Op::Connect { team: 0 },
        lease(0, 7..9, 0..1),
        lease(0, 0..1, 0..1),
        Op::Connect { team: 0 },
        lease(4_944_884_611_530_007_261, 8..10, 0..1),
        lease(1_084_907_734_747_643_553, 8..9, 6..7),
        access(0..1, 0..1),
    ];
    let mut simulation = Simulation::new();
    ops.into_iter().for_each(|op| simulation.apply(op));
    simulation.complete_all();
}
