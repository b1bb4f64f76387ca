//! Cases of the book that are worth a look of their own; in the [world](super::model) of the random ones.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pario_locks::LockExtent;
use pario_types::ClientId;

use super::book::Team;
use super::model::{FILE, GRACE, Op, UNITS, World, extent};
use crate::error::Error;

#[test]
fn a_mailbox_is_cut_off_when_its_time_is_over_and_not_before() {
    let mut world = World::new();
    let begun = Instant::now();
    world.book.now = begun;
    let (one, two) = (world.arrive(Team(1)), world.arrive(Team(2)));
    let mailbox = ClientId(one.into());
    world.lease(one, vec![extent(&(0..1))]);
    assert_eq!(world.processes[&one].has.len(), UNITS as usize, "the first gets all");
    world.lease(two, vec![extent(&(4..5))]);
    assert_eq!(world.book.effects.look_at, Some(begun + GRACE));
    world.book.now = begun + GRACE - Duration::from_nanos(1);
    assert_eq!(world.book.cut_off(), []);
    assert_eq!(world.book.effects.look_at, Some(begun + GRACE));
    world.book.now = begun + GRACE;
    // What it changes comes by another connection.
    let other = ClientId(77);
    world.book.clients.join(other, Team(1), Some(70), mailbox).unwrap();
    assert!(world.book.may_change(other));
    let cut_off = world.book.cut_off();
    let own = BTreeSet::from([mailbox]);
    assert!(cut_off.len() == 1 && cut_off[0].mailboxes == own, "{cut_off:?}");
    let session = world.processes[&one].session.unwrap();
    assert_eq!(BTreeSet::from_iter(&cut_off[0].sessions), BTreeSet::from([&session, &70]));
    assert_eq!(cut_off[0].leased, [(FILE, LockExtent::ALL)]);
    assert!(!world.book.may_change(other) && world.book.may_change(ClientId(two.into())));
    assert_eq!((world.book.cut_off(), world.book.effects.look_at), (vec![], None));
    world.break_off(one);
    assert!(!world.step(0), "it may still know where blocks are");
    assert!(!world.book.add_mailbox(80, mailbox, Team(1), true).unwrap(), "it has not ended yet");
    world.book.ended(own);
    assert!(world.step(0), "the other goes on");
    // It comes again: nothing changes before it says that it has nothing left.
    world.book.clients.join(other, Team(1), Some(71), mailbox).unwrap();
    assert!(matches!(world.book.add_mailbox(80, mailbox, Team(1), false), Err(Error::LeaseLost)));
    assert!(!world.book.may_change(other));
    assert!(world.book.add_mailbox(80, mailbox, Team(1), true).unwrap());
    assert!(world.book.may_change(other));
    world.book.left(80, mailbox);
    assert_eq!((world.book.status().cut_off, world.book.status().teams), (1, 1));
}

/// Nobody waits for who is away, but as long as nobody wants what he has it is his.
#[test]
fn who_is_away_keeps_what_nobody_wants() {
    let mut world = World::new();
    let (one, two) = (world.arrive(Team(1)), world.arrive(Team(2)));
    world.lease(one, vec![extent(&(0..1))]);
    for wanted in [false, true] {
        world.break_off(one);
        if wanted {
            world.access(Some(Team(2)), &[extent(&(3..4))]);
            assert!(world.book.effects.look_at.is_some_and(|when| when <= world.book.now));
            world.look();
            assert!(world.book.is_granted(&world.accesses[0].tickets));
        }
        world.come_again(one);
        assert_eq!(world.processes[&one].has.is_empty(), wanted);
    }
    assert_eq!(world.book.status().cut_off, 0, "it may have ended");
    assert!(world.book.mailboxes.knows(ClientId(two.into())));
}

/// What an expected one has is waited for, and told to it.
#[test]
fn a_successor_waits_for_those_who_were_here() {
    let mut world = World::new();
    let (one, gone) = (world.arrive(Team(1)), world.arrive(Team(2)));
    world.lease(one, vec![extent(&(0..5))]);
    world.lease(gone, vec![extent(&(7..8))]);
    world.poll(one);
    world.answer(one, 0, 0, 0);
    assert!(world.step(0));
    world.break_off(gone);
    world.restart();
    world.access(None, &[extent(&(7..8))]);
    world.look();
    assert!(world.book.is_granted(&world.accesses[0].tickets), "it was away before");
    world.access(None, &[extent(&(2..3))]);
    world.look();
    assert!(!world.book.is_granted(&world.accesses[1].tickets));
    world.come_again(one);
    world.poll(one);
    assert_eq!(world.processes[&one].told.len(), 1);
    world.answer(one, 0, 0, 0);
    assert!(world.book.is_granted(&world.accesses[1].tickets));
    assert!(world.processes[&one].has.contains(&0), "of which nobody wanted more");
}

/// A lock whose revocation was put off had lost the bytes meanwhile, to a request that waited behind who wanted others of
/// its bytes.
#[test]
fn regression_a_lock_is_asked_again_only_after_it_has_answered() {
    let lease = |who, units, more| Op::Lease { who, units, more };
    let access = |units, more| Op::Access { by: None, units, more };
    let ops = [
        access(2..4, 5..8),
        access(0..1, 0..1),
        Op::End { which: 1 },
        Op::Arrive { team: 0 },
        lease(0, 2..3, 8..9),
        Op::Arrive { team: 2 },
        lease(6_085_455_393_120_586_099, 6..9, 0..1),
        access(6..8, 3..4),
        lease(0, 0..1, 0..1),
        lease(0, 0..1, 0..1),
        lease(0, 0..1, 0..1),
        Op::Arrive { team: 1 },
        access(0..1, 0..1),
        Op::GiveUpLease { which: 6_949_520_318_398_444_761 },
        Op::Arrive { team: 0 },
        Op::Arrive { team: 0 },
        lease(0, 7..9, 0..1),
        lease(0, 0..1, 0..1),
        Op::Arrive { team: 0 },
        lease(4_944_884_611_530_007_261, 8..10, 0..1),
        lease(1_084_907_734_747_643_553, 8..9, 6..7),
        access(0..1, 0..1),
    ];
    let mut world = World::new();
    ops.into_iter().for_each(|op| world.apply(op));
    world.settle();
}
