//! The way of lock messages: to the manager, from there to a holder, and what a holder does first.
//!
//! Managers and holders are [`pario_locks`]. With server locks each server has a manager for its local parts of
//! files. With tokens there is one for the file as a whole: it knows who has which token, and the holder splits it.

use pario_locks::{
    BeginOutcome, Grant, LockAction, LockExtent, LockManager, LockMode, LockRelease, LockRequest, LockTicket,
};
use pario_types::FileId;

use super::client::{Deferred, Owing};
use super::{Event, Run};
use crate::link::Link;
use crate::setup::{Callback, Protocol};

/// A lock manager and the processor that it has.
#[derive(Debug)]
pub struct Keeper {
    pub manager: LockManager<Holder>,
    pub core: Link,
}

impl Keeper {
    pub fn new(unit: u64) -> Keeper {
        Keeper { manager: LockManager::new(unit), core: Link::default() }
    }
}

/// A client, and how often it has given up a lock of that manager as a whole. To the manager that is somebody else each time:
/// what a client asks for while it still writes back what was dirty under its old lock waits for that as others do.
pub type Holder = (u32, u32);

/// What a client says to a manager.
#[derive(Debug)]
pub enum Word {
    Request(LockRequest<Holder>),
    Release(Holder, LockRelease),
}

impl Run<'_> {
    /// What a request has to lock, in the order in which locks are taken.
    pub fn locks_for(&self, range: &std::ops::Range<u64>) -> Vec<(u32, LockExtent)> {
        let extent = |start, end| LockExtent::new(start, end).expect("a request has bytes");
        match self.setup.protocol {
            Protocol::Token => vec![(0, extent(range.start, range.end))],
            Protocol::Server | Protocol::Lease => {
                let shares = self.striping.shares(range.clone());
                let mut locks: Vec<(u32, LockExtent)> = shares
                    .map(|share| (u32::from(share.server.0), extent(share.at, share.at + share.len)))
                    .collect();
                locks.sort_unstable();
                locks
            }
        }
    }

    /// Takes locks of a client's operation, and goes on when it has all. A writer takes them one after the other, in an order
    /// that all share; a reader asks for all of its shared locks at once.
    pub fn lock(&mut self, number: u32) {
        loop {
            let client = &mut self.clients[number as usize];
            let operation = client.operation.as_mut().expect("it is under way");
            let Some(&(keeper, extent)) = operation.locks.get(operation.begun) else { break };
            let (file, mode) = (operation.file, operation.mode);
            operation.begun += 1;
            match client.held[keeper as usize].begin(file, extent, mode) {
                BeginOutcome::Now(ticket) => {
                    operation.taken.push((keeper, ticket));
                    self.fetch(number, keeper);
                }
                BeginOutcome::Ask(ticket) => {
                    self.seen.requests += 1;
                    let grant = Grant::Largest;
                    let holder = (number, client.turns[keeper as usize]);
                    let request = LockRequest { holder, ticket, file, extent, mode, grant };
                    self.say(keeper, number, Word::Request(request));
                    if mode == LockMode::Exclusive {
                        return;
                    }
                }
            }
        }
        let operation = self.clients[number as usize].operation.as_ref().expect("it is under way");
        if operation.taken.len() == operation.locks.len() {
            self.locked(number);
        }
    }

    /// Sends a word to a manager.
    pub fn say(&mut self, keeper: u32, from: u32, word: Word) {
        self.messages.locks += 1;
        let at = self.agenda.now() + self.latency();
        let latest = &mut self.clients[from as usize].to[keeper as usize];
        *latest = at.max(*latest);
        self.agenda.put(*latest, Event::ToKeeper { keeper, word });
    }

    pub fn at_keeper(&mut self, keeper: u32, word: Word) {
        let machine = &self.setup.machine;
        // Who has a token is looked up; the work is its holder's.
        let ns = match self.setup.protocol {
            Protocol::Server | Protocol::Lease => machine.lock_time,
            Protocol::Token => machine.message_time,
        };
        let ns = self.about(ns);
        let done = self.keepers[keeper as usize].core.take(self.agenda.now(), ns).1;
        self.agenda.put(done, Event::Kept { keeper, word });
    }

    pub fn kept(&mut self, keeper: u32, word: Word) {
        let manager = &mut self.keepers[keeper as usize].manager;
        let actions = match &word {
            Word::Request(request) => manager.request(*request),
            Word::Release(holder, release) => manager.release(*holder, release),
        };
        for action in actions.expect("clients keep to the protocol") {
            self.messages.locks += 1;
            let at = self.agenda.now() + self.latency();
            let latest = &mut self.clients[action.holder().0 as usize].from[keeper as usize];
            *latest = at.max(*latest);
            self.agenda.put(*latest, Event::ToHolder { keeper, action });
        }
    }

    pub fn at_holder(&mut self, keeper: u32, action: LockAction<Holder>) {
        let ns = self.about(self.setup.machine.lock_time);
        let done = self.clients[action.holder().0 as usize].daemon.take(self.agenda.now(), ns).1;
        self.agenda.put(done, Event::Told { keeper, action });
    }

    pub fn told(&mut self, keeper: u32, action: LockAction<Holder>) {
        match action {
            LockAction::Granted { holder: (number, _), ticket, file, lock, extent, mode } => {
                self.seen.grants += 1;
                let client = &mut self.clients[number as usize];
                let begun = client.held[keeper as usize].granted(ticket, file, lock, extent, mode);
                assert!(begun, "a client waits till it is granted");
                let operation = client.operation.as_mut().expect("it asked");
                operation.taken.push((keeper, ticket));
                self.fetch(number, keeper);
                self.lock(number);
            }
            LockAction::Revoke { holder, file, lock, wanted } => {
                self.seen.revocations += 1;
                self.give_way(Deferred { holder, keeper, file, lock, wanted });
            }
            LockAction::Refused { .. } => unreachable!("no file goes away"),
        }
    }

    /// A client is asked for a lock.
    fn give_way(&mut self, asked: Deferred) {
        let Deferred { holder, keeper, file, lock, wanted } = asked;
        let client = &mut self.clients[holder.0 as usize];
        let held = &mut client.held[keeper as usize];
        let release = match self.setup.callback() {
            Callback::Whole => {
                let covered = client.covered(keeper, file, lock);
                if client.uses(keeper, file, &covered) {
                    client.deferred.push(asked);
                    return;
                }
                client.turns[keeper as usize] += 1;
                client.held[keeper as usize].revoke(lock, LockExtent::ALL)
            }
            Callback::Part => held.revoke(lock, wanted),
            Callback::Kept => {
                let gone = client.kept.leave(keeper, file, wanted);
                held.release_range(lock, gone)
            }
        };
        if let Some(release) = release {
            self.give_up(holder, keeper, release);
        }
    }

    /// Sends a release when what is dirty there has reached its server.
    fn give_up(&mut self, holder: Holder, keeper: u32, release: LockRelease) {
        let client = &mut self.clients[holder.0 as usize];
        let pieces = client.dirty_in(keeper, release.file, &release.gone);
        if pieces.is_empty() {
            self.say(keeper, holder.0, Word::Release(holder, release));
        } else {
            // What somebody waits for goes first.
            let (first, rest): (Vec<_>, Vec<_>) =
                client.sending.drain(..).partition(|piece| pieces.contains(&piece.number));
            client.sending.extend(first.into_iter().chain(rest));
            client.owing.push(Owing { holder, keeper, release, pieces });
        }
    }

    /// A piece is no longer dirty: whoever waited for that gets the lock.
    pub fn cleaned(&mut self, number: u32, piece: u64) {
        let client = &mut self.clients[number as usize];
        client.owing.iter_mut().for_each(|owing| {
            owing.pieces.remove(&piece);
        });
        let (ready, rest): (Vec<Owing>, Vec<Owing>) =
            std::mem::take(&mut client.owing).into_iter().partition(|owing| owing.pieces.is_empty());
        client.owing = rest;
        for Owing { holder, keeper, release, .. } in ready {
            self.say(keeper, number, Word::Release(holder, release));
        }
    }

    /// An operation has ended: what others asked for meanwhile is given up.
    pub fn unlock(&mut self, number: u32, taken: &[(u32, LockTicket)]) {
        for &(keeper, ticket) in taken {
            let client = &mut self.clients[number as usize];
            let holder = (number, client.turns[keeper as usize]);
            for release in client.held[keeper as usize].end(ticket) {
                self.give_up(holder, keeper, release);
            }
        }
        for asked in std::mem::take(&mut self.clients[number as usize].deferred) {
            self.give_way(asked);
        }
    }
}

impl Run<'_> {
    /// Shared for reading, exclusive for writing; leases are exclusive.
    pub fn mode(&self) -> LockMode {
        match self.setup.protocol {
            Protocol::Server | Protocol::Token if !self.setup.write => LockMode::Shared,
            _ => LockMode::Exclusive,
        }
    }
}

impl super::Client {
    /// Whether the operation under way has bytes of these extents.
    fn uses(&self, keeper: u32, file: FileId, extents: &[LockExtent]) -> bool {
        let Some(operation) = self.operation.as_ref().filter(|operation| operation.file == file) else {
            return false;
        };
        let is_taken = operation.taken.iter().any(|(k, _)| *k == keeper);
        let mut used = operation.locks.iter().filter(|(k, _)| is_taken && *k == keeper);
        used.any(|(_, used)| extents.iter().any(|extent| extent.overlaps(*used)))
    }
}
