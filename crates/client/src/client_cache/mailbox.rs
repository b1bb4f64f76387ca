//! Mailboxes: for each server at which a team may have leases a thread waits for recalls, and decides about the leases when
//! the server is silent.
//!
//! Whenever the server answers, it says how long the leases are good. After that time an access waits. When the connection
//! breaks, the leases are *suspended* and the mailbox attaches again. If the server, or its successor, still knows the mailbox,
//! no other client had access, and the leases are good again. If it does not, the cached blocks are evicted, and dirty bytes are
//! lost; the next flush reports that. While the server is unreachable only dirty bytes stay in the cache: when the server is
//! back, it accepts them, or refuses them for the same reason.

use std::sync::{Arc, Weak};
use std::time::Duration;

use pario_runtime::time::Instant;
use pario_types::ServerId;

use super::Shared;
use super::server_io::{Mailbox, MailboxReply, ServerIo};
use super::state::{CachedFile, FURTHEST, Key, MailboxState, State};
use crate::error::{Error, Result};

/// The pause between attempts to attach a mailbox again.
const AGAIN: Duration = Duration::from_millis(500);

impl Shared {
    /// Makes sure that the mailbox exists; returns its number.
    pub(super) fn mailbox(
        self: &Arc<Shared>,
        key: Key,
        server: ServerId,
        servers: &Arc<dyn ServerIo>,
        since: Instant,
    ) -> Result<u64> {
        let (team, patience) = (key.0, servers.deadline());
        let mut state = self.lock();
        loop {
            match state.mailboxes.get(&(team, server)) {
                Some(MailboxState::Up { number, .. }) => return Ok(*number),
                Some(MailboxState::Failed(_)) => {
                    let Some(MailboxState::Failed(error)) = state.mailboxes.remove(&(team, server)) else {
                        continue;
                    };
                    return Err(error);
                }
                Some(MailboxState::Away) => {
                    let waited = since.elapsed();
                    if waited >= patience {
                        return Err(Error::Silent { file: key.1, waited });
                    }
                    state = self.wait(state, patience - waited);
                }
                None => {
                    state.mailboxes.insert((team, server), MailboxState::Away);
                    let (shared, mailbox) = (Arc::downgrade(self), servers.mailbox(server));
                    let run = move || run(&shared, team, server, mailbox);
                    if let Err(cause) =
                        pario_runtime::thread::Builder::new().name("pario-recalls".into()).spawn(run)
                    {
                        state.mailboxes.remove(&(team, server));
                        return Err(Error::Thread(cause));
                    }
                }
            }
        }
    }

    fn set_mailbox(&self, team: u128, server: ServerId, recalls: Option<MailboxState>) {
        let mut state = self.lock();
        match recalls {
            Some(recalls) => state.mailboxes.insert((team, server), recalls),
            None => state.mailboxes.remove(&(team, server)),
        };
        self.changed.notify_all();
        self.work.notify_one();
    }

    /// The server has answered and confirms the leases.
    fn heard(&self, team: u128, server: ServerId, number: u64, good_until: Instant) {
        let mut state = self.lock();
        state.mailboxes.insert((team, server), MailboxState::Up { number, good_until });
        for (_, file) in state.files_of_mut(team) {
            let suspended = file.suspended.remove(&server).unwrap_or_default();
            let leases = file.leases.entry(server).or_default();
            suspended.iter().for_each(|extent| leases.insert(extent));
        }
        self.changed.notify_all();
    }

    /// The server does not answer.
    fn suspend_leases(&self, team: u128, server: ServerId) {
        let mut state = self.lock();
        state.mailboxes.insert((team, server), MailboxState::Away);
        for (_, file) in state.files_of_mut(team) {
            let leases = file.leases.remove(&server).unwrap_or_default();
            let suspended = file.suspended.entry(server).or_default();
            leases.iter().for_each(|extent| suspended.insert(extent));
        }
    }

    /// Removes all blocks that a team has at a server; `lost`: also dirty bytes, because other clients have had access.
    fn forget(&self, team: u128, server: ServerId, lost: bool) {
        let mut state = self.lock();
        state.drop_leases(team, server);
        let keys: Vec<Key> = state.files_of(team).map(|(key, _)| *key).collect();
        for key in keys {
            let Some(file) = state.files.get(&key) else { continue };
            let blocks = file.blocks_at(server, &(0..FURTHEST));
            state = self.landed(state, key, &blocks);
            if lost {
                state.lose_dirty(key, server, &(0..FURTHEST));
            }
            state.take_out(key, &blocks);
            state.drop_if_unused(key);
        }
        self.changed.notify_all();
        self.work.notify_one();
    }

    /// Whether the mailbox is still used; it is detached if not.
    fn is_needed(&self, team: u128, server: ServerId) -> bool {
        let mut state = self.lock();
        let is_needed = state.holds_files_of(team);
        if !is_needed {
            state.mailboxes.insert((team, server), MailboxState::Away);
        }
        is_needed
    }
}

/// A mailbox's thread, which runs as long as the mailbox is used.
fn run(shared: &Weak<Shared>, team: u128, server: ServerId, mut mailbox: Box<dyn Mailbox>) {
    let mut number = None;
    loop {
        let Some((mut heard, anew)) = attach(shared, team, server, &mut *mailbox) else { return };
        let Some(held) = shared.upgrade() else { return };
        let up = match number.filter(|_| !anew) {
            Some(number) => number,
            None => held.lock().tick(),
        };
        match heard {
            // The thread that needs the mailbox gets the error.
            Err(error) if number.is_none() => {
                return held.set_mailbox(team, server, Some(MailboxState::Failed(error)));
            }
            Err(_) => {
                held.forget(team, server, false);
                drop(held.wait(held.lock(), AGAIN));
            }
            Ok(_) => number = Some(up),
        }
        drop(held);
        loop {
            let Some(held) = shared.upgrade() else { return };
            let is_well = heard.is_ok_and(|MailboxReply { recalls, good_until }| {
                held.heard(team, server, up, good_until);
                recalls.into_iter().all(|one| held.recall(team, server, one, &mut *mailbox))
            });
            if !held.is_needed(team, server) {
                drop(mailbox);
                return held.set_mailbox(team, server, None);
            }
            if !is_well {
                held.suspend_leases(team, server);
                break;
            }
            drop(held);
            heard = mailbox.recalls();
        }
    }
}

/// Attaches a mailbox, for the first time or again; returns whether it has no earlier leases. `None`: it is not needed any
/// more.
fn attach(
    shared: &Weak<Shared>,
    team: u128,
    server: ServerId,
    mailbox: &mut dyn Mailbox,
) -> Option<(Result<MailboxReply>, bool)> {
    let anew = !shared.upgrade()?.lock().keeps(team, server);
    let heard = mailbox.attach(anew);
    if !matches!(&heard, Err(error) if error.cut_off_at().is_some()) {
        return Some((heard, anew));
    }
    shared.upgrade()?.forget(team, server, true);
    Some((mailbox.attach(true), true))
}

impl State {
    /// Whether a team caches blocks at a server, or is about to.
    fn keeps(&self, team: u128, server: ServerId) -> bool {
        let keeps = |file: &CachedFile| {
            let leases = [file.leases.get(&server), file.suspended.get(&server)];
            leases.into_iter().flatten().any(|held| !held.is_empty())
                || !file.blocks_at(server, &(0..FURTHEST)).is_empty()
        };
        self.files_of(team).any(|(_, file)| keeps(file))
    }

    /// A server reports that other clients have had access to blocks of the team's process, of which its mailbox is about
    /// to be told, or it is unreachable: the old leases are no longer used.
    pub fn drop_leases(&mut self, team: u128, server: ServerId) {
        for (_, file) in self.files_of_mut(team) {
            file.leases.remove(&server);
            file.suspended.remove(&server);
            let asked = file.pending_leases.iter_mut().filter(|one| one.server == server);
            asked.for_each(|one| one.left.insert(0..FURTHEST));
        }
        if let Some(recalls @ MailboxState::Up { .. }) = self.mailboxes.get_mut(&(team, server)) {
            *recalls = MailboxState::Away;
        }
    }

    /// Whether no other client can have had access to a leased block.
    pub fn is_good(&self, key: Key, index: u64) -> bool {
        let (file, now) = (&self.files[&key], Instant::now());
        let is_good = |server| match self.mailboxes.get(&(key.0, server)) {
            Some(MailboxState::Up { good_until, .. }) => {
                now < *good_until || pario_runtime::is_planted("expired-lease-used")
            }
            _ => false,
        };
        file.striping.shares(file.range_of(index)).all(|share| is_good(share.server))
    }
}
