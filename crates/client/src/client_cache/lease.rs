//! Leases: which ranges of a file this process may cache, and how it gives them up.
//!
//! A process requests a lease when it uses a block that no lease covers. Servers grant as much as is free, so most files take
//! one request per server. A recall arrives at a [mailbox](super::mailbox). It stages the dirty bytes, evicts the blocks and
//! gives up the range.
//!
//! The reply to a lease request and a recall of the lease arrive on different connections. So a pending lease request records
//! what was given up meanwhile, and the reply counts without that. A range that is being given up is not requested again
//! before that is done.

use std::ops::Range;
use std::sync::Arc;

use pario_runtime::time::Instant;
use pario_types::{ErrorKind, ServerId};

use super::ranges::Ranges;
use super::server_io::{Mailbox, Recall, ServerIo};
use super::state::{CachedFile, FURTHEST, HeldRange, Key, MailboxState, PendingLease, Place, overlap};
use super::{Guard, Shared};
use crate::error::{Error, Result};

impl Shared {
    /// Requests leases of all blocks of a range. Some may be lost again by the time it returns.
    pub(super) fn lease(
        self: &Arc<Shared>,
        key: Key,
        servers: &Arc<dyn ServerIo>,
        range: &Range<u64>,
    ) -> Result<()> {
        let shares = {
            let mut state = self.lock();
            let file = state.file(key);
            file.shares(file.whole(range))
        };
        shares.into_iter().try_for_each(|(server, local)| self.lease_share(key, servers, server, &local))
    }

    /// The same at one server.
    fn lease_share(
        self: &Arc<Shared>,
        key: Key,
        servers: &Arc<dyn ServerIo>,
        server: ServerId,
        local: &Range<u64>,
    ) -> Result<()> {
        let (since, patience) = (Instant::now(), servers.deadline());
        loop {
            let recalls = self.mailbox(key, server, servers, since)?;
            let mut state = self.lock();
            while state.giving_up(key, server).any(|gone| overlap(gone, local)) {
                state = self.wait_until(state, since, patience, key)?;
            }
            if state.file(key).has_share(server, local) {
                return Ok(());
            }
            let number = state.tick();
            let mut left = Ranges::default();
            state.giving_up(key, server).for_each(|gone| left.insert(gone.clone()));
            state.file(key).pending_leases.push(PendingLease { number, server, left });
            state.counters.leases += 1;
            drop(state);
            let granted = servers.lease(server, local.clone());
            let mut state = self.lock();
            let file = state.file(key);
            let asked =
                file.pending_leases.iter().position(|one| one.number == number).expect("it was asked");
            let left = file.pending_leases.swap_remove(asked).left;
            let now = state.mailboxes.get(&(key.0, server));
            let is_lost = !matches!(now, Some(MailboxState::Up { number, .. }) if *number == recalls);
            match granted {
                Ok(extents) if !is_lost => {
                    let mut mine = Ranges::default();
                    extents.into_iter().for_each(|extent| mine.insert(extent));
                    left.iter().for_each(|gone| mine.remove(&gone));
                    let leases = state.file(key).leases.entry(server).or_default();
                    mine.iter().for_each(|extent| leases.insert(extent));
                    return Ok(());
                }
                _ if is_lost && since.elapsed() < patience => {}
                // The server has cut this process off, of which the mailbox is about to be told.
                Err(error) if error.cut_off_at().is_some() && since.elapsed() < patience => {
                    state.drop_leases(key.0, server);
                }
                Ok(_) => return Err(Error::Contended { file: key.1, waited: since.elapsed() }),
                Err(error) => return Err(error),
            }
        }
    }

    /// Protects a range, once it is leased, from recalls until the hold is dropped. Leases are taken in the order of the
    /// servers' numbers, so that no two programs wait for each other.
    pub(super) fn hold(
        self: &Arc<Shared>,
        key: Key,
        servers: &Arc<dyn ServerIo>,
        range: &Range<u64>,
    ) -> Result<Hold> {
        let (since, patience) = (Instant::now(), servers.deadline());
        let mut state = self.lock();
        let number = state.tick();
        let file = state.file(key);
        let range = file.whole(range);
        let shares = file.shares(range.clone());
        file.holds.push(HeldRange { number, range, servers: Vec::new() });
        drop(state);
        let hold = Hold { shared: Arc::clone(self), key, number };
        for (server, local) in shares {
            loop {
                self.lease_share(key, servers, server, &local)?;
                let mut state = self.lock();
                let file = state.file(key);
                if file.has_share(server, &local) {
                    let held = file.holds.iter_mut().find(|one| one.number == number);
                    held.expect("it is held").servers.push(server);
                    break;
                }
                if since.elapsed() >= patience {
                    return Err(Error::Contended { file: key.1, waited: since.elapsed() });
                }
            }
        }
        Ok(hold)
    }

    /// Another client requests a range. `false`: the mailbox is not needed any more.
    pub(super) fn recall(
        &self,
        team: u128,
        server: ServerId,
        recall: Recall,
        mailbox: &mut dyn Mailbox,
    ) -> bool {
        let key = (team, recall.file);
        let mut state = self.lock();
        state.counters.recalls += 1;
        if let Some(file) = state.files.get_mut(&key) {
            file.recalled += 1;
        }
        let gone = loop {
            let Some(file) = state.files.get(&key) else { break 0..FURTHEST };
            let gone = file.cover(server, &recall.range);
            match file.is_held(server, &gone) {
                true => state = self.wait_for_ever(state),
                false => break file.widen(server, gone),
            }
        };
        let (mut state, failed) = self.leave(state, key, server, gone.clone());
        // A server that was unreachable will ask again.
        let is_ready = failed != Some(ErrorKind::Unreachable);
        if is_ready && failed.is_some() {
            // No client waits for bytes that cannot be stored.
            state.lose_dirty(key, server, &gone);
        }
        drop(state);
        let succeeded = is_ready && mailbox.give_up(recall.number, gone.clone()).is_ok();
        let mut state = self.lock();
        state.end_give_up(key, server, &gone);
        self.changed.notify_all();
        self.work.notify_one();
        succeeded
    }

    /// Removes a range of a server; returns the reason why some of it could not be stored.
    fn leave<'a>(
        &'a self,
        mut state: Guard<'a>,
        key: Key,
        server: ServerId,
        gone: Range<u64>,
    ) -> (Guard<'a>, Option<ErrorKind>) {
        state.giving_up.push((key, server, gone.clone()));
        let Some(file) = state.files.get_mut(&key) else { return (state, None) };
        if let Some(leases) = file.leases.get_mut(&server) {
            leases.remove(&gone);
        }
        let asked = file.pending_leases.iter_mut().filter(|one| one.server == server);
        asked.for_each(|one| one.left.insert(gone.clone()));
        let mut blocks = file.blocks_at(server, &gone);
        if pario_runtime::is_planted("yield-before-staging") {
            blocks.clear();
        }
        self.empty(state, key, &blocks)
    }
}

impl super::state::State {
    /// The bytes written to blocks in a server's range are lost.
    pub fn lose_dirty(&mut self, key: Key, server: ServerId, local: &Range<u64>) {
        let Some(file) = self.files.get(&key) else { return };
        for index in file.blocks_at(server, local) {
            if self.block((key, index)).is_some_and(|block| !block.dirty.is_empty()) {
                self.lose((key, index), server);
            }
        }
    }

    /// The bytes written to a block are lost.
    pub fn lose(&mut self, place: Place, server: ServerId) {
        self.discard(place);
        if let Some(file) = self.files.get_mut(&place.0) {
            file.lost.get_or_insert(server);
        }
    }

    fn end_give_up(&mut self, key: Key, server: ServerId, gone: &Range<u64>) {
        let one = self.giving_up.iter().position(|one| one.0 == key && one.1 == server && one.2 == *gone);
        one.map(|index| self.giving_up.swap_remove(index));
        self.drop_if_unused(key);
    }
}

impl CachedFile {
    /// Returns a server's range extended to its part of whole blocks.
    fn cover(&self, server: ServerId, local: &Range<u64>) -> Range<u64> {
        let all = self.striping.local_end(server, FURTHEST);
        let share = |at: u64| {
            let offset = self.striping.offset_of(server, at.min(all.saturating_sub(1)))?;
            let mut shares = self.striping.shares(self.range_of(offset.0 / self.block));
            shares.find(|share| share.server == server)
        };
        let start = share(local.start).map_or(local.start, |share| share.at.min(local.start));
        let end = local.end.saturating_sub(1);
        start..share(end).map_or(local.end, |share| (share.at + share.len).max(local.end).min(FURTHEST))
    }

    fn is_held(&self, server: ServerId, local: &Range<u64>) -> bool {
        let held = self.holds.iter().filter(|one| one.servers.contains(&server));
        held.flat_map(|one| self.share(server, &one.range)).any(|share| overlap(&share, local))
    }

    /// Returns a larger range of a server's local part to release: on either side all, if nothing there is used.
    fn widen(&self, server: ServerId, gone: Range<u64>) -> Range<u64> {
        let holds = self.holds.iter().filter_map(|one| self.share(server, &one.range));
        let blocks = self.blocks.keys().filter_map(|index| self.share(server, &self.range_of(*index)));
        let (mut below, mut above) = (false, false);
        for used in holds.chain(blocks) {
            below |= used.start < gone.start;
            above |= used.end > gone.end;
        }
        let start = if below { gone.start } else { 0 };
        start..if above { gone.end } else { FURTHEST.max(gone.end) }
    }

    fn share(&self, server: ServerId, range: &Range<u64>) -> Option<Range<u64>> {
        let mut shares = self.striping.shares(range.clone());
        shares.find(|share| share.server == server).map(|share| share.at..share.at + share.len)
    }
}

/// A range of a file that no recall takes while this value exists: recalls wait.
#[must_use = "the hold ends when it is dropped"]
pub struct Hold {
    shared: Arc<Shared>,
    key: Key,
    number: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Some(file) = state.files.get_mut(&self.key) {
            file.holds.retain(|one| one.number != self.number);
        }
        self.shared.changed.notify_all();
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("file", &self.key.1).finish_non_exhaustive()
    }
}
