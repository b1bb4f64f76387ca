//! Lock traffic compared with figures computed by hand, the rules of fairness and refusal, and a large case.

use pario_types::{ErrorKind, FileId};

use crate::clients::{World, operation};
use pario_locks::Error;
use pario_locks::LockCounters;
use pario_locks::LockExtent;
use pario_locks::{Grant, LockAction, LockId, LockMode, LockRelease, LockRequest, LockTicket};
use pario_locks::{LockLimits, LockManager};

const F: FileId = FileId(0);

fn x(start: u64, end: u64) -> LockExtent {
    LockExtent::new(start, end).expect("not empty")
}

/// Each access is one operation of a client (its number) on one block of ten bytes; it ends before the next
/// begins.
fn traffic(mode: LockMode, accesses: impl IntoIterator<Item = (u32, u64)>) -> World {
    let mut world = World::new(10, 2);
    for (who, block) in accesses {
        let ticket = world.begin(who, operation(block * 10, block * 10 + 10, mode, Grant::Largest));
        world.deliver();
        world.end(who, ticket);
        world.deliver();
    }
    world
}

/// Every request is granted, and waits for one lock if for any.
fn counters(requests: u64, conflicts: u64, revocations: u64) -> LockCounters {
    LockCounters { requests, grants: requests, conflicts, revocations, waits: conflicts }
}

#[test]
fn one_holder_alone_asks_once() {
    let world = traffic(LockMode::Exclusive, (0..100).map(|block| (0, block)));
    assert_eq!(world.manager.counters(), counters(1, 0, 0));
    assert_eq!(world.manager.cached(0, F, LockMode::Exclusive), [(LockExtent::ALL, LockId(1))]);
}

#[test]
fn readers_do_not_disturb_each_other() {
    let world = traffic(LockMode::Shared, (0..100).map(|block| (block as u32 % 2, block)));
    assert_eq!(world.manager.counters(), counters(2, 0, 0));
}

#[test]
fn interleaved_blocks_cost_a_revocation_each() {
    // 0: whole file. 1: client 0 keeps block 0, client 1 gets the rest. 2: client 1 keeps block 1, client 0
    // gets the rest; and so on.
    let rounds = |n: u64| (0..n).map(|block| (block as u32 % 2, block));
    assert_eq!(traffic(LockMode::Exclusive, rounds(8)).manager.counters(), counters(8, 7, 7));
    // The second time every client has the locks that it needs.
    let twice = traffic(LockMode::Exclusive, rounds(8).chain(rounds(8)));
    assert_eq!(twice.manager.counters(), counters(8, 7, 7));
    let even =
        [(x(0, 10), LockId(1)), (x(20, 30), LockId(3)), (x(40, 50), LockId(5)), (x(60, 70), LockId(7))];
    assert_eq!(twice.manager.cached(0, F, LockMode::Exclusive), even);
}

#[test]
fn disjoint_halves_settle_after_three_requests() {
    // Client 0 at block 0: whole file. Client 1 at block 4: client 0 keeps block 0. Client 0 at block 1:
    // client 1 gives up what lies before its block 4. From then on both are at home.
    let halves = (0..4).flat_map(|block| [(0, block), (1, 4 + block)]);
    let world = traffic(LockMode::Exclusive, halves);
    assert_eq!(world.manager.counters(), counters(3, 2, 2));
    assert_eq!(world.manager.cached(0, F, LockMode::Exclusive), [(x(0, 40), LockId(3))]);
    assert_eq!(world.manager.cached(1, F, LockMode::Exclusive), [(x(40, u64::MAX), LockId(2))]);
    assert_eq!(world.manager.file_counters(F), world.manager.counters());
    assert_eq!(world.manager.file_counters(FileId(9)), LockCounters::default());
}

#[test]
fn blocks_that_two_holders_share_go_back_and_forth() {
    // Bytes 0..5 and 5..10 are one unit: each access takes it from the other one.
    let mut world = World::new(10, 2);
    for _ in 0..3 {
        for who in 0..2u32 {
            let start = u64::from(who) * 5;
            let ticket = world.begin(who, operation(start, start + 5, LockMode::Exclusive, Grant::Largest));
            world.deliver();
            world.end(who, ticket);
            world.deliver();
        }
    }
    assert_eq!(world.manager.counters(), counters(6, 5, 5));
}

#[test]
fn many_waiters_for_one_holder_need_one_revocation() {
    let mut manager = LockManager::new(1);
    let ask = |holder, extent| LockRequest {
        holder,
        ticket: LockTicket(0),
        file: F,
        extent,
        mode: LockMode::Exclusive,
        grant: Grant::Largest,
    };
    manager.request(ask(0, x(0, 10))).unwrap();
    let revoke = LockAction::Revoke { holder: 0, file: F, lock: LockId(1), wanted: x(20, 30) };
    assert_eq!(manager.request(ask(1, x(20, 30))), Ok(vec![revoke]));
    assert_eq!(manager.request(ask(2, x(40, 50))), Ok(vec![]));
    assert_eq!(manager.request(ask(3, x(60, 70))), Ok(vec![]));
    let answer = LockRelease { file: F, lock: LockId(1), gone: vec![x(10, u64::MAX)], answer: true };
    let actions = manager.release(0, &answer).unwrap();
    let extents = actions.iter().map(|action| match *action {
        LockAction::Granted { holder, extent, .. } => (holder, extent),
        _ => panic!("{action:?}"),
    });
    // The later ones wait no longer for what the earlier ones got, as that ends where they begin.
    assert_eq!(extents.collect::<Vec<_>>(), [(1, x(10, 40)), (2, x(40, 60)), (3, x(60, u64::MAX))]);
    let counted = LockCounters { requests: 4, grants: 4, conflicts: 3, revocations: 1, waits: 3 };
    assert_eq!(manager.counters(), counted);
}

fn exact(holder: u32, ticket: u64, extent: LockExtent, mode: LockMode) -> LockRequest<u32> {
    LockRequest { holder, ticket: LockTicket(ticket), file: F, extent, mode, grant: Grant::Exact }
}

fn granted(request: LockRequest<u32>, lock: u64) -> LockAction<u32> {
    let LockRequest { holder, ticket, file, extent, mode, .. } = request;
    LockAction::Granted { holder, ticket, file, lock: LockId(lock), extent, mode }
}

#[test]
fn a_waiting_writer_holds_back_later_readers() {
    let mut manager = LockManager::new(64);
    let reader = exact(0, 1, x(0, 10), LockMode::Shared);
    let writer = exact(1, 1, x(5, 15), LockMode::Exclusive);
    let late = exact(2, 1, x(0, 10), LockMode::Shared);
    let elsewhere = exact(2, 2, x(15, 20), LockMode::Exclusive);
    assert_eq!(manager.request(reader), Ok(vec![granted(reader, 1)]));
    assert_eq!(manager.request(writer), Ok(vec![]));
    assert_eq!(manager.request(late), Ok(vec![]));
    assert_eq!(manager.request(elsewhere), Ok(vec![granted(elsewhere, 2)]));
    assert_eq!(manager.unlock(0, LockId(1)), Ok(vec![granted(writer, 3)]));
    assert_eq!(manager.unlock(1, LockId(3)), Ok(vec![granted(late, 4)]));
    let counted = LockCounters { requests: 4, grants: 4, conflicts: 1, revocations: 0, waits: 2 };
    assert_eq!(manager.counters(), counted);
}

#[test]
fn exact_locks_of_one_holder_exclude_each_other() {
    let mut manager = LockManager::new(1);
    let (first, second) =
        (exact(0, 1, x(0, 10), LockMode::Exclusive), exact(0, 2, x(9, 11), LockMode::Exclusive));
    assert_eq!(manager.request(first), Ok(vec![granted(first, 1)]));
    assert_eq!(manager.request(second), Ok(vec![]));
    assert_eq!(manager.unlock(0, LockId(1)), Ok(vec![granted(second, 2)]));
}

#[test]
fn an_exact_lock_takes_from_a_cached_one_what_it_needs() {
    let mut world = World::new(10, 2);
    let first = world.begin(0, operation(0, 5, LockMode::Exclusive, Grant::Largest));
    world.deliver();
    world.end(0, first);
    let second = world.begin(1, operation(23, 27, LockMode::Shared, Grant::Exact));
    world.deliver();
    world.end(1, second);
    world.deliver();
    assert_eq!(world.manager.cached(0, F, LockMode::Exclusive), [(x(0, 10), LockId(1))]);
    assert_eq!(world.manager.locks(), 1);
}

#[test]
fn a_holder_can_flush_bytes_before_it_releases_them() {
    let mut manager = LockManager::new(10);
    let cached = |holder, extent| LockRequest {
        grant: Grant::Largest,
        ..exact(holder, 0, extent, LockMode::Exclusive)
    };
    manager.request(cached(0, x(0, 10))).unwrap();
    assert_eq!(manager.request(cached(1, x(20, 30))).unwrap().len(), 1, "a revocation");
    let flush = exact(0, 7, x(20, 30), LockMode::Shared);
    assert_eq!(manager.request_own(flush), Ok(vec![granted(flush, 2)]));
    let answer = LockRelease { file: F, lock: LockId(1), gone: vec![x(10, u64::MAX)], answer: true };
    assert_eq!(manager.release(0, &answer), Ok(vec![]), "it is still being flushed");
    assert_eq!(manager.unlock(0, LockId(2)).unwrap().len(), 1);
    // Now it has no more right than others.
    assert_eq!(manager.request_own(flush).unwrap().len(), 1, "a revocation, and it waits");
    assert!(!manager.is_idle(F) && manager.is_idle(FileId(9)));
}

#[test]
fn invalid_messages_are_refused() {
    let mut manager = LockManager::with_limits(1, LockLimits { waiting: 1, locks: 3 });
    let write = |holder, ticket| exact(holder, ticket, x(0, 10), LockMode::Exclusive);
    manager.request(write(0, 1)).unwrap();
    assert_eq!(manager.request(write(1, 1)), Ok(vec![]));
    assert_eq!(manager.request(write(1, 1)), Err(Error::TicketInUse { ticket: LockTicket(1) }));
    let error = manager.request(write(1, 2)).unwrap_err();
    assert_eq!((error, error.kind()), (Error::TooManyWaiting { file: F, most: 1 }, ErrorKind::FileInUse));
    assert_eq!(manager.unlock(1, LockId(1)), Err(Error::NotYours { lock: LockId(1) }));
    assert_eq!(manager.unlock(1, LockId(77)), Ok(vec![]));
    for start in [20, 30] {
        manager.request(exact(1, start, x(start, start + 1), LockMode::Shared)).unwrap();
    }
    let error = manager.request(exact(1, 40, x(40, 41), LockMode::Shared)).unwrap_err();
    assert_eq!(error, Error::TooManyLocks { file: F, most: 3 });
    assert_eq!(manager.counters().requests, 4, "refused requests do not count");
    assert_eq!(manager.cancel(1, LockTicket(99)), []);
}

#[test]
fn waiters_for_a_removed_file_are_refused() {
    let mut manager = LockManager::new(1);
    let write = |holder| exact(holder, 1, x(0, 10), LockMode::Exclusive);
    manager.request(write(0)).unwrap();
    manager.request(write(1)).unwrap();
    assert_eq!(manager.file_gone(F), [LockAction::Refused { holder: 1, ticket: LockTicket(1), file: F }]);
    assert_eq!(manager.unlock(0, LockId(1)), Ok(vec![]));
    assert!(manager.is_empty());
    assert_eq!((manager.file_counters(F).requests, manager.counters().requests), (0, 2));
}

#[test]
fn a_hundred_thousand_extents() {
    const N: u64 = 100_000;
    let mut manager = LockManager::new(1);
    for block in 0..N {
        let holder = (block % 3) as u32;
        manager.request(exact(holder, 0, x(block * 10, block * 10 + 5), LockMode::Shared)).unwrap();
    }
    // A reader among them, then a writer of everything: it waits for all, and each release costs little.
    let reader = LockRequest { grant: Grant::Largest, ..exact(7, 0, x(500, 501), LockMode::Shared) };
    manager.request(reader).unwrap();
    assert_eq!(manager.cached(7, F, LockMode::Shared), [(LockExtent::ALL, LockId(N + 1))]);
    let writer = exact(8, 0, LockExtent::ALL, LockMode::Exclusive);
    assert_eq!(manager.request(writer).unwrap().len(), 1, "the cached one is revoked");
    assert_eq!(manager.counters().conflicts, N + 1);
    assert_eq!(manager.holder_gone(7), []);
    for block in 0..N {
        let actions = manager.unlock((block % 3) as u32, LockId(block + 1)).unwrap();
        assert_eq!(actions.len(), usize::from(block == N - 1));
    }
    assert_eq!(manager.locks(), 1);
}
