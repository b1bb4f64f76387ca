//! Simulated servers: files are vectors of bytes, leases are as simple as possible, and there are no connections. They
//! check that a team has leased what it writes, and refuse clients whose mailbox they do not know.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_layout::Striping;
use pario_runtime::sync::{Condvar, Mutex, MutexGuard};
use pario_types::{ErrorKind, FileId, ServerId};
use pario_wire::message::{ESTALE, Failure};

use super::super::ranges::Ranges;
use super::super::server_io::{Mailbox, MailboxReply, Recall, ServerIo};
use super::super::state::FURTHEST;
use super::super::{Shared, TierFile, TierOptions};
use crate::error::{Error, Result};

pub const FILE: FileId = FileId(7);

/// All servers.
pub struct SimulatedServers {
    pub striping: Striping,
    state: Mutex<SimulatedState>,
    changed: Condvar,
}

#[derive(Default)]
pub struct SimulatedState {
    pub files: BTreeMap<FileId, Vec<u8>>,
    leases: BTreeMap<(ServerId, FileId), BTreeMap<u128, Ranges>>,
    mailboxes: Vec<SimulatedMailbox>,
    recalls: Vec<Recalled>,
    numbers: u64,
    /// The servers' caches are on the same host.
    pub near: bool,
    /// A lease covers only the requested range.
    pub stingy: bool,
    /// Writes wait while this is set.
    pub slow: bool,
    /// Reads have their bytes, but no reply.
    pub slow_reads: bool,
    /// Lease requests get no reply before another client has recalled the lease.
    pub late_leases: bool,
    /// Writes fail.
    pub broken: bool,
    /// The number of reports of losses that no call had returned.
    pub reported_losses: u32,
    /// The next lease request meets a server that has just cut the process off.
    pub refuses_lease: bool,
    /// Mailboxes cannot be attached.
    pub mute: bool,
    /// Attaching a mailbox waits while this is set.
    pub late: bool,
    /// The time for which a reply confirms the leases.
    pub good: Option<Duration>,
    pub reads: u64,
    pub writes: u64,
    pub grants: u64,
    /// The number of requests that wait for a reply.
    pub waiting: u32,
}

/// A mailbox, as a server knows it.
struct SimulatedMailbox {
    owner: Owner,
    letters: Vec<Recall>,
    /// Its connection, if there is one.
    connection: Option<u64>,
}

/// The owner of a mailbox: a process, identified by a number, and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    process: usize,
    team: u128,
    server: ServerId,
}

/// A recall that some mailboxes have not answered.
struct Recalled {
    number: u64,
    team: u128,
    server: ServerId,
    file: FileId,
    range: Range<u64>,
    missing: BTreeSet<Owner>,
    gone: Range<u64>,
}

impl SimulatedServers {
    pub fn new(stripe: u64, servers: u16) -> Arc<SimulatedServers> {
        let striping = Striping::new(stripe, servers, 0, servers).expect("sound");
        Arc::new(SimulatedServers { striping, state: Mutex::default(), changed: Condvar::new() })
    }

    pub fn state(&self) -> MutexGuard<'_, SimulatedState> {
        self.state.lock()
    }

    pub fn set(&self, change: impl FnOnce(&mut SimulatedState)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    pub fn wait<'a>(&self, mut state: MutexGuard<'a, SimulatedState>) -> MutexGuard<'a, SimulatedState> {
        let waited = self.changed.wait_for(&mut state, Duration::from_secs(20));
        assert!(!waited.timed_out(), "somebody waits for ever");
        state
    }

    pub fn wait_while(&self, is_so: impl Fn(&SimulatedState) -> bool) {
        let mut state = self.state();
        while is_so(&state) {
            state = self.wait(state);
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.state().files.get(&FILE).cloned().unwrap_or_default()
    }

    pub fn open(
        self: &Arc<SimulatedServers>,
        shared: &Arc<Shared>,
        team: u128,
        options: &TierOptions,
    ) -> TierFile {
        self.try_open(shared, team, options).expect("opened")
    }

    pub fn try_open(
        self: &Arc<SimulatedServers>,
        shared: &Arc<Shared>,
        team: u128,
        options: &TierOptions,
    ) -> Result<TierFile> {
        let process = Arc::as_ptr(shared) as usize;
        shared.open((team, FILE), Arc::new(SimulatedIo { world: Arc::clone(self), process, team }), options)
    }

    /// Changes bytes as another program, atomically.
    pub fn count_up(&self, range: Range<u64>) {
        let mut state = self.demand(self.state(), None, range.clone());
        let bytes = state.files.get_mut(&FILE).expect("it is there");
        bytes[range.start as usize..range.end as usize].iter_mut().for_each(|count| *count += 1);
    }

    /// Reads as another program.
    pub fn read(&self, at: u64, len: u64) -> Vec<u8> {
        let state = self.demand(self.state(), None, at..at + len);
        let bytes = state.files.get(&FILE).map_or(&[][..], Vec::as_slice);
        bytes[(at as usize).min(bytes.len())..((at + len) as usize).min(bytes.len())].to_vec()
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        let mut state = self.demand(self.state(), None, at..at + bytes.len() as u64);
        state.put(FILE, at, bytes);
    }

    pub fn cut(&self, size: u64) {
        let mut state = self.demand(self.state(), None, size..FURTHEST);
        state.files.entry(FILE).or_default().resize(size as usize, 0);
    }

    /// Revokes what a team's processes have leased at a server, without their knowledge.
    pub fn cut_off(&self, team: u128, server: ServerId) {
        self.state().cut_off(team, server);
        self.changed.notify_all();
    }

    /// The same, and another program writes before the team can attach its mailboxes again.
    pub fn cut_off_and_write(&self, team: u128, server: ServerId, at: u64, bytes: &[u8]) {
        let mut state = self.state();
        state.cut_off(team, server);
        for share in self.striping.shares(at..at + bytes.len() as u64) {
            let is_leased = state.recall(None, share.server, FILE, &(share.at..share.at + share.len));
            assert!(!is_leased, "the write would have to wait for a recall");
        }
        state.put(FILE, at, bytes);
        self.changed.notify_all();
    }

    /// Ends the connections of all mailboxes of a team at a server.
    pub fn kill(&self, team: u128, server: ServerId) {
        let mut state = self.state();
        for one in &mut state.mailboxes {
            if one.owner.team == team && one.owner.server == server {
                one.connection = None;
            }
        }
        self.changed.notify_all();
    }

    /// Delays all replies as long as this is set.
    fn answer<'a>(
        &'a self,
        mut state: MutexGuard<'a, SimulatedState>,
        is_late: impl Fn(&SimulatedState) -> bool,
    ) -> MutexGuard<'a, SimulatedState> {
        state.waiting += 1;
        self.changed.notify_all();
        while is_late(&state) {
            state = self.wait(state);
        }
        state.waiting -= 1;
        state
    }

    /// Waits until only this team has a lease of the range.
    fn demand<'a>(
        &'a self,
        mut state: MutexGuard<'a, SimulatedState>,
        team: Option<u128>,
        range: Range<u64>,
    ) -> MutexGuard<'a, SimulatedState> {
        loop {
            let mut is_free = true;
            for share in self.striping.shares(range.clone()) {
                let local = share.at..share.at + share.len;
                is_free &= !state.recall(team, share.server, FILE, &local);
            }
            if is_free {
                return state;
            }
            self.changed.notify_all();
            state = self.wait(state);
        }
    }
}

impl SimulatedState {
    fn put(&mut self, file: FileId, at: u64, bytes: &[u8]) {
        let stored = self.files.entry(file).or_default();
        let end = at as usize + bytes.len();
        if stored.len() < end {
            stored.resize(end, 0);
        }
        stored[at as usize..end].copy_from_slice(bytes);
    }

    /// Recalls the leases that other teams have of a range; returns whether there were any.
    fn recall(&mut self, team: Option<u128>, server: ServerId, file: FileId, local: &Range<u64>) -> bool {
        let Some(leases) = self.leases.get(&(server, file)) else { return false };
        let overlaps = |held: &Ranges| held.iter().any(|one| one.start < local.end && local.start < one.end);
        let holders: Vec<u128> = leases
            .iter()
            .filter(|(who, held)| Some(**who) != team && overlaps(held))
            .map(|(who, _)| *who)
            .collect();
        for holder in &holders {
            let asked = |one: &Recalled| {
                (one.team, one.server, one.file) == (*holder, server, file) && one.range == *local
            };
            if self.recalls.iter().any(asked) {
                continue;
            }
            self.numbers += 1;
            let (number, range) = (self.numbers, local.clone());
            let mut missing = BTreeSet::new();
            let mut away = Vec::new();
            for one in &mut self.mailboxes {
                if one.owner.team == *holder && one.owner.server == server {
                    missing.insert(one.owner);
                    one.letters.push(Recall { number, file, range: range.clone() });
                    away.extend(one.connection.is_none().then_some(one.owner));
                }
            }
            let (team, gone) = (*holder, 0..FURTHEST);
            self.recalls.push(Recalled { number, team, server, file, range, missing, gone });
            // No client waits for them.
            away.into_iter().for_each(|owner| self.remove_mailbox(owner));
        }
        !holders.is_empty()
    }

    /// A mailbox releases a range.
    fn give_up(&mut self, mailbox: Owner, number: u64, gone: &Range<u64>) {
        let Some(index) = self.recalls.iter().position(|one| one.number == number) else { return };
        let one = &mut self.recalls[index];
        assert!(gone.start <= one.range.start && one.range.end <= gone.end, "{gone:?} has {:?}", one.range);
        one.gone = one.gone.start.max(gone.start)..one.gone.end.min(gone.end);
        one.missing.remove(&mailbox);
        if one.missing.is_empty() {
            let one = self.recalls.swap_remove(index);
            let leases = self.leases.entry((one.server, one.file)).or_default();
            if let Some(held) = leases.get_mut(&one.team) {
                held.remove(&one.gone);
            }
        }
    }

    /// A mailbox has released everything, and is removed; a team without mailboxes has no leases.
    fn remove_mailbox(&mut self, owner: Owner) {
        self.mailboxes.retain(|one| one.owner != owner);
        let owed = self.recalls.iter().filter(|one| one.missing.contains(&owner));
        let numbers: Vec<u64> = owed.map(|one| one.number).collect();
        numbers.into_iter().for_each(|number| self.give_up(owner, number, &(0..FURTHEST)));
        let mailboxes = &self.mailboxes;
        for ((server, _), leases) in &mut self.leases {
            leases.retain(|team, _| {
                mailboxes.iter().any(|one| one.owner.team == *team && one.owner.server == *server)
            });
        }
    }

    fn cut_off(&mut self, team: u128, server: ServerId) {
        let is_one = |owner: &Owner| owner.team == team && owner.server == server;
        let owners: Vec<Owner> = self.mailboxes.iter().map(|one| one.owner).filter(is_one).collect();
        owners.into_iter().for_each(|owner| self.remove_mailbox(owner));
    }

    pub fn is_away(&self, team: u128, server: ServerId) -> bool {
        let is_one = |one: &SimulatedMailbox| one.owner.team == team && one.owner.server == server;
        self.mailboxes.iter().any(|one| is_one(one) && one.connection.is_none())
    }

    fn find(&mut self, owner: Owner) -> Option<&mut SimulatedMailbox> {
        self.mailboxes.iter_mut().find(|one| one.owner == owner)
    }

    fn heard(&self, recalls: Vec<Recall>) -> MailboxReply {
        MailboxReply { recalls, good_until: Instant::now() + self.good.unwrap_or(Duration::from_secs(3600)) }
    }
}

struct SimulatedIo {
    world: Arc<SimulatedServers>,
    process: usize,
    team: u128,
}

fn cut_off(server: ServerId) -> Error {
    Error::Server { server, failure: Failure { kind: ErrorKind::Io, errno: ESTALE, text: "cut off".into() } }
}

fn failed(kind: ErrorKind, text: &str) -> Error {
    Error::Server { server: ServerId(0), failure: Failure { kind, errno: 0, text: text.into() } }
}

impl ServerIo for SimulatedIo {
    fn striping(&self) -> Striping {
        self.world.striping
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn may_access(&self, _write: bool) -> Result<()> {
        Ok(())
    }

    fn is_local(&self) -> bool {
        self.world.state().near
    }

    fn read(&self, segments: &mut [(u64, &mut [u8])]) -> Result<usize> {
        let mut count = 0;
        for (at, bytes) in segments {
            let range = *at..*at + bytes.len() as u64;
            let state = self.world.demand(self.world.state(), Some(self.team), range);
            let stored = state.files.get(&FILE).map_or(&[][..], Vec::as_slice);
            let here = stored.len().saturating_sub(*at as usize).min(bytes.len());
            if here > 0 {
                bytes[..here].copy_from_slice(&stored[*at as usize..][..here]);
            }
            count += here;
            if here < bytes.len() {
                break;
            }
        }
        let mut state = self.world.answer(self.world.state(), |state| state.slow_reads);
        state.reads += 1;
        Ok(count)
    }

    fn write(&self, segments: &[(u64, &[u8])]) -> Result<()> {
        let mut state = self.world.answer(self.world.state(), |state| state.slow);
        if state.broken {
            return Err(failed(ErrorKind::NoSpace, "there is no room"));
        }
        for (at, bytes) in segments {
            let range = *at..*at + bytes.len() as u64;
            for share in self.world.striping.shares(range.clone()) {
                let owner = Owner { process: self.process, team: self.team, server: share.server };
                if state.find(owner).is_none() {
                    return Err(cut_off(share.server));
                }
                let held = state.leases.get(&(share.server, FILE)).and_then(|leases| leases.get(&self.team));
                let is_held = held.is_some_and(|held| held.contains(&(share.at..share.at + share.len)));
                assert!(is_held, "staged without a lease: {range:?}");
            }
            state = self.world.demand(state, Some(self.team), range);
            state.put(FILE, *at, bytes);
        }
        state.writes += 1;
        self.world.changed.notify_all();
        Ok(())
    }

    fn report_loss(&self) {
        self.world.state().reported_losses += 1;
    }

    fn size(&self) -> Result<u64> {
        Ok(self.world.bytes().len() as u64)
    }

    fn read_direct(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        let found = self.world.read(offset, bytes.len() as u64);
        bytes[..found.len()].copy_from_slice(&found);
        Ok(found.len())
    }

    fn write_direct(&self, segments: &[(u64, &[u8])]) -> Result<()> {
        segments.iter().for_each(|(offset, bytes)| self.world.write(*offset, bytes));
        Ok(())
    }

    fn lease(&self, server: ServerId, range: Range<u64>) -> Result<Vec<Range<u64>>> {
        let mut state = self.world.state();
        if std::mem::take(&mut state.refuses_lease) {
            state.cut_off(self.team, server);
            self.world.changed.notify_all();
            return Err(cut_off(server));
        }
        loop {
            if !state.mailboxes.iter().any(|one| one.owner.team == self.team && one.owner.server == server) {
                return Err(cut_off(server));
            }
            let others = state.recall(Some(self.team), server, FILE, &range);
            // A range that is being recalled from this team is not granted again before that is over.
            let overlaps = |one: &Recalled| {
                one.team == self.team
                    && one.server == server
                    && one.range.start < range.end
                    && range.start < one.range.end
            };
            if !others && !state.recalls.iter().any(overlaps) {
                break;
            }
            self.world.changed.notify_all();
            state = self.world.wait(state);
        }
        let mut free = Ranges::one(0..FURTHEST);
        let stingy = state.stingy;
        let leases = state.leases.entry((server, FILE)).or_default();
        for (_, held) in leases.iter().filter(|(team, _)| **team != self.team) {
            held.iter().for_each(|one| free.remove(&one));
        }
        let around = free.iter().find(|one| one.start <= range.start && range.end <= one.end);
        let extent = if stingy { range } else { around.expect("it is free") };
        leases.entry(self.team).or_default().insert(extent.clone());
        state.grants += 1;
        let is_held = |state: &SimulatedState| {
            let held = state.leases.get(&(server, FILE)).and_then(|leases| leases.get(&self.team));
            state.late_leases && held.is_some_and(|held| held.contains(&extent))
        };
        self.world.answer(state, is_held).late_leases = false;
        Ok(vec![extent])
    }

    fn mailbox(&self, server: ServerId) -> Box<dyn Mailbox> {
        let owner = Owner { process: self.process, team: self.team, server };
        Box::new(Slot { world: Arc::clone(&self.world), owner, connection: 0 })
    }
}

struct Slot {
    world: Arc<SimulatedServers>,
    owner: Owner,
    connection: u64,
}

impl Slot {
    /// Returns the mailbox, as long as its connection exists.
    fn mine<'a>(&self, state: &'a mut SimulatedState) -> Result<&'a mut SimulatedMailbox> {
        let mine = state.find(self.owner).filter(|one| one.connection == Some(self.connection));
        mine.ok_or_else(|| failed(ErrorKind::Unreachable, "the connection is broken"))
    }
}

impl Mailbox for Slot {
    fn attach(&mut self, anew: bool) -> Result<MailboxReply> {
        let mut state = self.world.answer(self.world.state(), |state| state.late);
        if state.mute {
            return Err(failed(ErrorKind::Unreachable, "nobody is there"));
        }
        if anew {
            state.remove_mailbox(self.owner);
            state.mailboxes.push(SimulatedMailbox {
                owner: self.owner,
                letters: Vec::new(),
                connection: None,
            });
        }
        state.numbers += 1;
        self.connection = state.numbers;
        let owed = state.recalls.iter().filter(|one| one.missing.contains(&self.owner));
        let told = |one: &Recalled| Recall { number: one.number, file: one.file, range: one.range.clone() };
        let letters: Vec<Recall> = owed.map(told).collect();
        let Some(mine) = state.find(self.owner) else { return Err(cut_off(self.owner.server)) };
        (mine.connection, mine.letters) = (Some(self.connection), Vec::new());
        self.world.changed.notify_all();
        Ok(state.heard(letters))
    }

    fn recalls(&mut self) -> Result<MailboxReply> {
        let mut state = self.world.state();
        let mut is_over = false;
        loop {
            // The connection may also have ended while this thread waited for the lock after its time was over.
            let mine = self.mine(&mut state)?;
            if is_over || !mine.letters.is_empty() {
                let letters = std::mem::take(&mut mine.letters);
                return Ok(state.heard(letters));
            }
            is_over = self.world.changed.wait_for(&mut state, Duration::from_millis(50)).timed_out();
        }
    }

    fn give_up(&mut self, number: u64, gone: Range<u64>) -> Result<()> {
        let mut state = self.world.state();
        self.mine(&mut state)?;
        state.give_up(self.owner, number, &gone);
        self.world.changed.notify_all();
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.world.state();
        if state.find(self.owner).is_some_and(|one| one.connection.is_none_or(|now| now == self.connection)) {
            state.remove_mailbox(self.owner);
        }
        self.world.changed.notify_all();
    }
}
