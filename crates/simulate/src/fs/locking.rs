//! Lock messages: to the manager, from there to a holder, and what a holder does before it releases.
//!
//! Managers and holders are those of [`pario_locks`]. With server locks each server has a manager for its local parts of
//! files. With tokens there is one manager for the whole file: it knows the holder of each token, and the holder splits it.

use pario_locks::{
    BeginOutcome, Grant, LockAction, LockExtent, LockManager, LockMode, LockRelease, LockRequest, LockTicket,
};
use pario_types::FileId;

use super::client::{DeferredRevocation, PendingRelease};
use super::{Event, Run};
use crate::link::Link;
use crate::setup::{Callback, Protocol};

/// A lock manager and its processor.
#[derive(Debug)]
pub struct ManagerNode {
    pub locks: LockManager<Holder>,
    pub core: Link,
}

impl ManagerNode {
    pub fn new(unit: u64) -> ManagerNode {
        ManagerNode { locks: LockManager::new(unit), core: Link::default() }
    }
}

/// A client, and the number of times that it has released a lock of that manager as a whole. The manager sees another
/// holder each time: a client that still writes back data of its old lock waits for that like any other client.
pub type Holder = (u32, u32);

/// A message of a client to a manager.
#[derive(Debug)]
pub enum LockMessage {
    Request(LockRequest<Holder>),
    Release(Holder, LockRelease),
}

impl Run<'_> {
    /// Returns the extents that a request has to lock, in the order in which locks are taken.
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

    /// Takes the locks of a client's operation, and resumes it when it has all. A writer takes them one after the other, in
    /// an order that all clients share; a reader requests all of its shared locks at once.
    pub fn lock(&mut self, number: u32) {
        loop {
            let client = &mut self.clients[number as usize];
            let operation = client.operation.as_mut().expect("it is under way");
            let Some(&(manager, extent)) = operation.locks.get(operation.begun) else { break };
            let (file, mode) = (operation.file, operation.mode);
            operation.begun += 1;
            match client.held[manager as usize].begin(file, extent, mode) {
                BeginOutcome::Now(ticket) => {
                    operation.taken.push((manager, ticket));
                    self.fetch(number, manager);
                }
                BeginOutcome::Ask(ticket) => {
                    self.seen.requests += 1;
                    let grant = Grant::Largest;
                    let holder = (number, client.generations[manager as usize]);
                    let request = LockRequest { holder, ticket, file, extent, mode, grant };
                    self.send_lock_message(manager, number, LockMessage::Request(request));
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

    /// Sends a message to a manager.
    pub fn send_lock_message(&mut self, manager: u32, from: u32, message: LockMessage) {
        self.messages.locks += 1;
        let at = self.queue.now() + self.latency();
        let latest = &mut self.clients[from as usize].to[manager as usize];
        *latest = at.max(*latest);
        self.queue.schedule(*latest, Event::LockMessageArrived { manager, message });
    }

    pub fn queue_lock_message(&mut self, manager: u32, message: LockMessage) {
        let machine = &self.setup.machine;
        // The token manager only looks up the holder, which does the work.
        let ns = match self.setup.protocol {
            Protocol::Server | Protocol::Lease => machine.lock_time,
            Protocol::Token => machine.message_time,
        };
        let ns = self.jittered(ns);
        let done = self.managers[manager as usize].core.take(self.queue.now(), ns).1;
        self.queue.schedule(done, Event::LockMessageProcessed { manager, message });
    }

    pub fn process_lock_message(&mut self, manager: u32, message: LockMessage) {
        let locks = &mut self.managers[manager as usize].locks;
        let actions = match &message {
            LockMessage::Request(request) => locks.request(*request),
            LockMessage::Release(holder, release) => locks.release(*holder, release),
        };
        for action in actions.expect("clients keep to the protocol") {
            self.messages.locks += 1;
            let at = self.queue.now() + self.latency();
            let latest = &mut self.clients[action.holder().0 as usize].from[manager as usize];
            *latest = at.max(*latest);
            self.queue.schedule(*latest, Event::LockActionArrived { manager, action });
        }
    }

    pub fn queue_lock_action(&mut self, manager: u32, action: LockAction<Holder>) {
        let ns = self.jittered(self.setup.machine.lock_time);
        let done = self.clients[action.holder().0 as usize].daemon.take(self.queue.now(), ns).1;
        self.queue.schedule(done, Event::LockActionProcessed { manager, action });
    }

    pub fn process_lock_action(&mut self, manager: u32, action: LockAction<Holder>) {
        match action {
            LockAction::Granted { holder: (number, _), ticket, file, lock, extent, mode } => {
                self.seen.grants += 1;
                let client = &mut self.clients[number as usize];
                let begun = client.held[manager as usize].granted(ticket, file, lock, extent, mode);
                assert!(begun, "a client waits till it is granted");
                let operation = client.operation.as_mut().expect("it asked");
                operation.taken.push((manager, ticket));
                self.fetch(number, manager);
                self.lock(number);
            }
            LockAction::Revoke { holder, file, lock, wanted } => {
                self.seen.revocations += 1;
                self.revoke(DeferredRevocation { holder, manager, file, lock, wanted });
            }
            LockAction::Refused { .. } => unreachable!("no file goes away"),
        }
    }

    /// A manager revokes a lock of a client.
    fn revoke(&mut self, asked: DeferredRevocation) {
        let DeferredRevocation { holder, manager, file, lock, wanted } = asked;
        let client = &mut self.clients[holder.0 as usize];
        let held = &mut client.held[manager as usize];
        let release = match self.setup.callback() {
            Callback::Whole => {
                let covered = client.covered(manager, file, lock);
                if client.uses(manager, file, &covered) {
                    client.deferred.push(asked);
                    return;
                }
                client.generations[manager as usize] += 1;
                client.held[manager as usize].revoke(lock, LockExtent::ALL)
            }
            Callback::Part => held.revoke(lock, wanted),
            Callback::Kept => {
                let gone = client.cache.recall(manager, file, wanted);
                held.release_range(lock, gone)
            }
        };
        if let Some(release) = release {
            self.release(holder, manager, release);
        }
    }

    /// Sends a release when the dirty bytes under the lock have reached their server.
    fn release(&mut self, holder: Holder, manager: u32, release: LockRelease) {
        let client = &mut self.clients[holder.0 as usize];
        let pieces = client.dirty_in(manager, release.file, &release.gone);
        if pieces.is_empty() {
            self.send_lock_message(manager, holder.0, LockMessage::Release(holder, release));
        } else {
            // The pieces that another client waits for are sent first.
            let (first, rest): (Vec<_>, Vec<_>) =
                client.sending.drain(..).partition(|piece| pieces.contains(&piece.number));
            client.sending.extend(first.into_iter().chain(rest));
            client.pending_releases.push(PendingRelease { holder, manager, release, pieces });
        }
    }

    /// A piece is no longer dirty: the releases that waited for it are sent.
    pub fn piece_cleaned(&mut self, number: u32, piece: u64) {
        let client = &mut self.clients[number as usize];
        client.pending_releases.iter_mut().for_each(|pending| {
            pending.pieces.remove(&piece);
        });
        let (ready, rest): (Vec<PendingRelease>, Vec<PendingRelease>) =
            std::mem::take(&mut client.pending_releases)
                .into_iter()
                .partition(|pending| pending.pieces.is_empty());
        client.pending_releases = rest;
        for PendingRelease { holder, manager, release, .. } in ready {
            self.send_lock_message(manager, number, LockMessage::Release(holder, release));
        }
    }

    /// An operation has ended: the client releases its locks and the locks that were revoked meanwhile.
    pub fn unlock(&mut self, number: u32, taken: &[(u32, LockTicket)]) {
        for &(manager, ticket) in taken {
            let client = &mut self.clients[number as usize];
            let holder = (number, client.generations[manager as usize]);
            for release in client.held[manager as usize].end(ticket) {
                self.release(holder, manager, release);
            }
        }
        for asked in std::mem::take(&mut self.clients[number as usize].deferred) {
            self.revoke(asked);
        }
    }
}

impl Run<'_> {
    /// Returns the mode of a lock: shared for reading, exclusive for writing. Leases are exclusive.
    pub fn mode(&self) -> LockMode {
        match self.setup.protocol {
            Protocol::Server | Protocol::Token if !self.setup.write => LockMode::Shared,
            _ => LockMode::Exclusive,
        }
    }
}

impl super::Client {
    /// Whether the operation under way has bytes of these extents.
    fn uses(&self, manager: u32, file: FileId, extents: &[LockExtent]) -> bool {
        let Some(operation) = self.operation.as_ref().filter(|operation| operation.file == file) else {
            return false;
        };
        let is_taken = operation.taken.iter().any(|(k, _)| *k == manager);
        let mut used = operation.locks.iter().filter(|(k, _)| is_taken && *k == manager);
        used.any(|(_, used)| extents.iter().any(|extent| extent.overlaps(*used)))
    }
}
