//! Leases: what this process may keep of a file, and how it gives that up.
//!
//! A lease is asked for when a block is used that no lease holds; servers grant as much as is free, so most files
//! take one request per server. Each server at which the team may have leases has a *mailbox*, a connection with
//! a thread that waits for recalls. A recall stages what is dirty, takes the blocks out and gives up the range.
//!
//! A reply to a lease and a recall of it come by different connections. So whoever waits for a lease is told what
//! was given up meanwhile, and takes that off. What is being given up is not asked for until it is gone.
//! Whoever loses a mailbox has lost the leases there: dirty bytes are staged at once, the rest is forgotten. A process that
//! did not answer a recall in time is *cut off*: the server refuses what it still had, which is lost, and said at the next
//! flush.

use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Instant;

use pario_units::ServerId;

use super::door::{Door, Mailbox, Recall};
use super::ranges::Ranges;
use super::state::{FURTHEST, Held, Kept, Key, Leasing, Place, Post, overlap};
use super::{Guard, Shared};
use crate::error::{Error, Result};

impl Shared {
    /// Asks for leases of all blocks of a range. Some may be lost again by the time it returns.
    pub(super) fn lease(
        self: &Arc<Shared>,
        key: Key,
        door: &Arc<dyn Door>,
        range: &Range<u64>,
    ) -> Result<()> {
        let shares = {
            let mut state = self.lock();
            let file = state.file(key);
            file.shares(file.whole(range))
        };
        shares.into_iter().try_for_each(|(server, local)| self.lease_share(key, door, server, &local))
    }

    /// The same at one server.
    fn lease_share(
        self: &Arc<Shared>,
        key: Key,
        door: &Arc<dyn Door>,
        server: ServerId,
        local: &Range<u64>,
    ) -> Result<()> {
        let (since, patience) = (Instant::now(), door.deadline());
        loop {
            let post = self.mailbox(key, server, door, since)?;
            let mut state = self.lock();
            while state.leaving(key, server).any(|gone| overlap(gone, local)) {
                state = self.wait_until(state, since, patience, key)?;
            }
            if state.file(key).has_share(server, local) {
                return Ok(());
            }
            let number = state.tick();
            let mut left = Ranges::default();
            state.leaving(key, server).for_each(|gone| left.insert(gone.clone()));
            state.file(key).leasing.push(Leasing { number, server, left });
            state.counters.leases += 1;
            drop(state);
            let granted = door.lease(server, local.clone());
            let mut state = self.lock();
            let file = state.file(key);
            let asked = file.leasing.iter().position(|one| one.number == number).expect("it was asked");
            let left = file.leasing.swap_remove(asked).left;
            let is_lost = !matches!(state.posts.get(&(key.0, server)), Some(Post::Up(now)) if *now == post);
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
                Ok(_) => return Err(Error::Contended { file: key.1, waited: since.elapsed() }),
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps a range, once it is leased, until the hold is dropped. Servers are taken in the order of their
    /// numbers, so that no two programs wait for each other.
    pub(super) fn hold(
        self: &Arc<Shared>,
        key: Key,
        door: &Arc<dyn Door>,
        range: &Range<u64>,
    ) -> Result<Hold> {
        let (since, patience) = (Instant::now(), door.deadline());
        let mut state = self.lock();
        let number = state.tick();
        let file = state.file(key);
        let range = file.whole(range);
        let shares = file.shares(range.clone());
        file.holds.push(Held { number, range, servers: Vec::new() });
        drop(state);
        let hold = Hold { shared: Arc::clone(self), key, number };
        for (server, local) in shares {
            loop {
                self.lease_share(key, door, server, &local)?;
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

    /// Makes sure of a mailbox: its number.
    fn mailbox(
        self: &Arc<Shared>,
        key: Key,
        server: ServerId,
        door: &Arc<dyn Door>,
        since: Instant,
    ) -> Result<u64> {
        let (team, patience) = (key.0, door.deadline());
        let mut state = self.lock();
        loop {
            match state.posts.get(&(team, server)) {
                Some(Post::Up(number)) => return Ok(*number),
                Some(Post::Failed(_)) => {
                    let Some(Post::Failed(error)) = state.posts.remove(&(team, server)) else { continue };
                    return Err(error);
                }
                Some(Post::Starting | Post::Ending) => {
                    state = self.wait_until(state, since, patience, key)?;
                }
                None => {
                    state.posts.insert((team, server), Post::Starting);
                    let (shared, door) = (Arc::downgrade(self), Arc::clone(door));
                    let run = move || run(&shared, team, server, door);
                    if let Err(cause) = std::thread::Builder::new().name("pario-recalls".into()).spawn(run) {
                        state.posts.remove(&(team, server));
                        return Err(Error::Thread(cause));
                    }
                }
            }
        }
    }

    fn set_post(&self, team: u128, server: ServerId, post: Option<Post>) {
        let mut state = self.lock();
        match post {
            Some(post) => state.posts.insert((team, server), post),
            None => state.posts.remove(&(team, server)),
        };
        self.changed.notify_all();
        self.work.notify_one();
    }

    /// Somebody else wants a range. `false`: the mailbox is of no use any more.
    fn recall(&self, team: u128, server: ServerId, recall: Recall, mailbox: &mut dyn Mailbox) -> bool {
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
        let (state, stored) = self.leave(state, key, server, gone.clone());
        drop(state);
        // What could not be stored is not given up: but nobody waits for it, either.
        let succeeded = stored && mailbox.give_up(recall.number, gone.clone()).is_ok();
        let mut state = self.lock();
        state.has_left(key, server, &gone);
        self.changed.notify_all();
        self.work.notify_one();
        succeeded
    }

    /// Takes a range of a server out; whether all of it could be stored.
    fn leave<'a>(
        &'a self,
        mut state: Guard<'a>,
        key: Key,
        server: ServerId,
        gone: Range<u64>,
    ) -> (Guard<'a>, bool) {
        state.leaving.push((key, server, gone.clone()));
        let Some(file) = state.files.get_mut(&key) else { return (state, true) };
        if let Some(leases) = file.leases.get_mut(&server) {
            leases.remove(&gone);
        }
        let asked = file.leasing.iter_mut().filter(|one| one.server == server);
        asked.for_each(|one| one.left.insert(gone.clone()));
        let blocks = file.blocks_at(server, &gone);
        self.empty(state, key, &blocks)
    }

    /// The mailbox is lost, and with it the team's leases at that server.
    fn lose(&self, team: u128, server: ServerId) {
        let all = 0..FURTHEST;
        let keys: Vec<Key> = self.lock().files.keys().copied().filter(|(whose, _)| *whose == team).collect();
        for key in keys {
            // An error is kept with the file.
            let (mut state, _) = self.leave(self.lock(), key, server, all.clone());
            state.has_left(key, server, &all);
        }
        self.set_post(team, server, None);
    }
}

/// A mailbox's thread: as long as it is of use.
fn run(shared: &Weak<Shared>, team: u128, server: ServerId, door: Arc<dyn Door>) {
    let Some(held) = shared.upgrade() else { return };
    let anew = !held.lock().is_dirty_at(team, server);
    drop(held);
    let mut opened = door.mailbox(server, anew);
    if matches!(&opened, Err(error) if error.cut_off_at().is_some()) {
        let Some(held) = shared.upgrade() else { return };
        held.lock().lose_dirty(team, server);
        drop(held);
        opened = door.mailbox(server, true);
    }
    drop(door);
    let mut mailbox = {
        let Some(shared) = shared.upgrade() else { return };
        match opened {
            Ok(mailbox) => {
                let number = shared.lock().tick();
                shared.set_post(team, server, Some(Post::Up(number)));
                mailbox
            }
            Err(error) => return shared.set_post(team, server, Some(Post::Failed(error))),
        }
    };
    loop {
        let recalls = mailbox.recalls();
        let Some(shared) = shared.upgrade() else { return };
        let is_well = match recalls {
            Ok(recalls) => recalls.into_iter().all(|one| shared.recall(team, server, one, &mut *mailbox)),
            Err(_) => false,
        };
        let is_needed = shared.lock().holds_files_of(team);
        if !is_well || !is_needed {
            shared.set_post(team, server, Some(Post::Ending));
            drop(mailbox);
            return shared.lose(team, server);
        }
    }
}

impl super::state::State {
    /// Blocks of a team that have bytes at a server, some of which it does not have yet.
    fn dirty_at(&self, team: u128, server: ServerId) -> impl Iterator<Item = Place> {
        let files = self.files.iter().filter(move |((whose, _), _)| *whose == team);
        files.flat_map(move |(key, file)| {
            let blocks = file.blocks_at(server, &(0..FURTHEST)).into_iter();
            blocks.filter(|index| !file.blocks[index].dirty.is_empty()).map(|index| (*key, index))
        })
    }

    fn is_dirty_at(&self, team: u128, server: ServerId) -> bool {
        self.dirty_at(team, server).next().is_some()
    }

    /// The team's process was cut off at a server: what that does not have yet it will not take.
    fn lose_dirty(&mut self, team: u128, server: ServerId) {
        let dirty: Vec<Place> = self.dirty_at(team, server).collect();
        for place in dirty {
            if self.block(place).is_some_and(|block| !block.staging) {
                self.lose(place, server);
            }
        }
    }

    /// The team's process was cut off at a server, of which its mailbox there is about to hear: nothing is written under the
    /// old leases any more.
    pub fn is_cut_off(&mut self, team: u128, server: ServerId) {
        for file in self.files.iter_mut().filter(|((whose, _), _)| *whose == team).map(|(_, file)| file) {
            file.leases.remove(&server);
            let asked = file.leasing.iter_mut().filter(|one| one.server == server);
            asked.for_each(|one| one.left.insert(0..FURTHEST));
        }
        if let Some(post @ Post::Up(_)) = self.posts.get_mut(&(team, server)) {
            *post = Post::Ending;
        }
    }

    /// What was written to a block is lost.
    pub fn lose(&mut self, place: Place, server: ServerId) {
        self.discard(place);
        if let Some(file) = self.files.get_mut(&place.0) {
            file.lost.get_or_insert(server);
        }
    }

    fn has_left(&mut self, key: Key, server: ServerId, gone: &Range<u64>) {
        let one = self.leaving.iter().position(|one| one.0 == key && one.1 == server && one.2 == *gone);
        one.map(|index| self.leaving.swap_remove(index));
        self.drop_if_unused(key);
    }
}

impl Kept {
    /// A server's range made larger to what it has of whole blocks.
    fn cover(&self, server: ServerId, local: &Range<u64>) -> Range<u64> {
        let all = self.striping.local_end(server, FURTHEST);
        let share = |at: u64| {
            let offset = self.striping.offset_of(server, at.min(all.saturating_sub(1)))?;
            let mut shares = self.striping.shares(self.range_of(offset.0 / self.block));
            shares.find(|share| share.server == server)
        };
        let start = share(local.start).map_or(local.start, |share| share.at.min(local.start));
        let end = local.end.saturating_sub(1);
        start..share(end).map_or(local.end, |share| (share.at + share.len).max(local.end))
    }

    fn is_held(&self, server: ServerId, local: &Range<u64>) -> bool {
        let held = self.holds.iter().filter(|one| one.servers.contains(&server));
        held.flat_map(|one| self.share(server, &one.range)).any(|share| overlap(&share, local))
    }

    /// More of a server's local part than has to go: on either side all, if nothing there is used.
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

/// A range of a file that no recall takes away while this is there: recalls wait.
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
