//! Pretended servers: files are vectors of bytes, leases are kept as simply as can be, and nothing goes over a
//! connection. They insist that who writes for a team has leased what it writes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use pario_layout::Striping;
use pario_units::{ErrorKind, FileId, ServerId};
use pario_wire::message::{Failure, STALE};

use super::super::door::{Door, Mailbox, Recall};
use super::super::ranges::Ranges;
use super::super::state::FURTHEST;
use super::super::{Shared, TierFile, TierOptions};
use crate::error::{Error, Result};

pub const FILE: FileId = FileId(7);

/// All servers.
pub struct World {
    pub striping: Striping,
    ground: Mutex<Ground>,
    changed: Condvar,
}

#[derive(Default)]
pub struct Ground {
    pub files: BTreeMap<FileId, Vec<u8>>,
    leases: BTreeMap<(ServerId, FileId), BTreeMap<u128, Ranges>>,
    boxes: Vec<Letters>,
    recalls: Vec<Recalled>,
    numbers: u64,
    /// The servers' caches are on the same host.
    pub near: bool,
    /// A lease is only what was asked for.
    pub stingy: bool,
    /// Writes wait until this is so no more.
    pub slow: bool,
    /// Reads have their bytes, but are not answered.
    pub slow_reads: bool,
    /// Leases are not answered before somebody else has recalled them.
    pub late_leases: bool,
    /// Writes fail.
    pub broken: bool,
    /// Teams, of one process, that were cut off.
    fenced: BTreeSet<(u128, ServerId)>,
    /// Somebody's mailbox was lost: its dirty bytes come without a lease.
    pub lossy: bool,
    pub reads: u64,
    pub writes: u64,
    pub grants: u64,
    /// How many wait for an answer.
    pub waiting: u32,
}

struct Letters {
    number: u64,
    team: u128,
    server: ServerId,
    letters: Vec<Recall>,
    is_dead: bool,
}

/// A recall that was not answered by all.
struct Recalled {
    number: u64,
    team: u128,
    server: ServerId,
    file: FileId,
    range: Range<u64>,
    missing: BTreeSet<u64>,
    gone: Range<u64>,
}

impl World {
    pub fn new(stripe: u64, servers: u16) -> Arc<World> {
        let striping = Striping::new(stripe, servers, 0, servers).expect("sound");
        Arc::new(World { striping, ground: Mutex::default(), changed: Condvar::new() })
    }

    pub fn ground(&self) -> MutexGuard<'_, Ground> {
        crate::core::lock(&self.ground)
    }

    pub fn set(&self, change: impl FnOnce(&mut Ground)) {
        change(&mut self.ground());
        self.changed.notify_all();
    }

    pub fn wait<'a>(&self, ground: MutexGuard<'a, Ground>) -> MutexGuard<'a, Ground> {
        let (ground, waited) = self.changed.wait_timeout(ground, Duration::from_secs(20)).unwrap();
        assert!(!waited.timed_out(), "somebody waits for ever");
        ground
    }

    pub fn wait_while(&self, is_so: impl Fn(&Ground) -> bool) {
        let mut ground = self.ground();
        while is_so(&ground) {
            ground = self.wait(ground);
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.ground().files.get(&FILE).cloned().unwrap_or_default()
    }

    pub fn open(self: &Arc<World>, shared: &Arc<Shared>, team: u128, options: &TierOptions) -> TierFile {
        self.try_open(shared, team, options).expect("opened")
    }

    pub fn try_open(
        self: &Arc<World>,
        shared: &Arc<Shared>,
        team: u128,
        options: &TierOptions,
    ) -> Result<TierFile> {
        shared.open((team, FILE), Arc::new(Way { world: Arc::clone(self), team }), options)
    }

    /// Changes bytes as a stranger who lets nobody in between.
    pub fn count_up(&self, range: Range<u64>) {
        let mut ground = self.demand(self.ground(), None, range.clone());
        let bytes = ground.files.get_mut(&FILE).expect("it is there");
        bytes[range.start as usize..range.end as usize].iter_mut().for_each(|count| *count += 1);
    }

    /// Reads as a stranger.
    pub fn read(&self, at: u64, len: u64) -> Vec<u8> {
        let ground = self.demand(self.ground(), None, at..at + len);
        let bytes = ground.files.get(&FILE).map_or(&[][..], Vec::as_slice);
        bytes[(at as usize).min(bytes.len())..((at + len) as usize).min(bytes.len())].to_vec()
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        let mut ground = self.demand(self.ground(), None, at..at + bytes.len() as u64);
        ground.put(FILE, at, bytes);
    }

    pub fn cut(&self, size: u64) {
        let mut ground = self.demand(self.ground(), None, size..FURTHEST);
        ground.files.entry(FILE).or_default().resize(size as usize, 0);
    }

    /// The same to a team that did not answer a recall: what it still has there is not taken any more.
    pub fn cut_off(&self, team: u128, server: ServerId) {
        self.ground().fenced.insert((team, server));
        self.kill(team, server);
    }

    /// Ends all mailboxes of a team at a server.
    pub fn kill(&self, team: u128, server: ServerId) {
        let mut ground = self.ground();
        for one in ground.boxes.iter_mut().filter(|one| one.team == team && one.server == server) {
            one.is_dead = true;
        }
        ground.lossy = true;
        ground.bury();
        self.changed.notify_all();
    }

    /// Keeps whoever asked waiting as long as this is so.
    fn answer<'a>(
        &'a self,
        mut ground: MutexGuard<'a, Ground>,
        is_late: impl Fn(&Ground) -> bool,
    ) -> MutexGuard<'a, Ground> {
        ground.waiting += 1;
        self.changed.notify_all();
        while is_late(&ground) {
            ground = self.wait(ground);
        }
        ground.waiting -= 1;
        ground
    }

    /// Waits until nobody but this team has a lease of the range.
    fn demand<'a>(
        &'a self,
        mut ground: MutexGuard<'a, Ground>,
        team: Option<u128>,
        range: Range<u64>,
    ) -> MutexGuard<'a, Ground> {
        loop {
            let mut is_free = true;
            for share in self.striping.shares(range.clone()) {
                let local = share.at..share.at + share.len;
                is_free &= !ground.recall(team, share.server, FILE, &local);
            }
            if is_free {
                return ground;
            }
            self.changed.notify_all();
            ground = self.wait(ground);
        }
    }
}

impl Ground {
    fn put(&mut self, file: FileId, at: u64, bytes: &[u8]) {
        let stored = self.files.entry(file).or_default();
        let end = at as usize + bytes.len();
        if stored.len() < end {
            stored.resize(end, 0);
        }
        stored[at as usize..end].copy_from_slice(bytes);
    }

    /// Recalls what others than this team have of a range; whether there was something.
    fn recall(&mut self, team: Option<u128>, server: ServerId, file: FileId, local: &Range<u64>) -> bool {
        self.bury();
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
            for one in self.boxes.iter_mut().filter(|one| one.team == *holder && one.server == server) {
                missing.insert(one.number);
                one.letters.push(Recall { number, file, range: range.clone() });
            }
            let (team, gone) = (*holder, 0..FURTHEST);
            self.recalls.push(Recalled { number, team, server, file, range, missing, gone });
        }
        !holders.is_empty()
    }

    /// A mailbox gives up a range.
    fn give_up(&mut self, mailbox: u64, number: u64, gone: &Range<u64>) {
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

    /// Dead mailboxes have given up everything; a team without any has no leases.
    fn bury(&mut self) {
        let dead: Vec<u64> = self.boxes.iter().filter(|one| one.is_dead).map(|one| one.number).collect();
        self.boxes.retain(|one| !one.is_dead);
        for mailbox in dead {
            let numbers: Vec<u64> = self
                .recalls
                .iter()
                .filter(|one| one.missing.contains(&mailbox))
                .map(|one| one.number)
                .collect();
            numbers.into_iter().for_each(|number| self.give_up(mailbox, number, &(0..FURTHEST)));
        }
        let boxes = &self.boxes;
        for ((server, _), leases) in &mut self.leases {
            leases.retain(|team, _| boxes.iter().any(|one| one.team == *team && one.server == *server));
        }
    }
}

struct Way {
    world: Arc<World>,
    team: u128,
}

fn cut_off(server: ServerId) -> Error {
    Error::Server { server, failure: Failure { kind: ErrorKind::Io, errno: STALE, text: "cut off".into() } }
}

fn failed(kind: ErrorKind, text: &str) -> Error {
    Error::Server { server: ServerId(0), failure: Failure { kind, errno: 0, text: text.into() } }
}

impl Door for Way {
    fn striping(&self) -> Striping {
        self.world.striping
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn may_access(&self, _write: bool) -> Result<()> {
        Ok(())
    }

    fn is_near(&self) -> bool {
        self.world.ground().near
    }

    fn read(&self, segments: &mut [(u64, &mut [u8])]) -> Result<usize> {
        let mut count = 0;
        for (at, bytes) in segments {
            let range = *at..*at + bytes.len() as u64;
            let ground = self.world.demand(self.world.ground(), Some(self.team), range);
            let stored = ground.files.get(&FILE).map_or(&[][..], Vec::as_slice);
            let here = stored.len().saturating_sub(*at as usize).min(bytes.len());
            if here > 0 {
                bytes[..here].copy_from_slice(&stored[*at as usize..][..here]);
            }
            count += here;
            if here < bytes.len() {
                break;
            }
        }
        let mut ground = self.world.answer(self.world.ground(), |ground| ground.slow_reads);
        ground.reads += 1;
        Ok(count)
    }

    fn write(&self, segments: &[(u64, &[u8])]) -> Result<()> {
        let mut ground = self.world.answer(self.world.ground(), |ground| ground.slow);
        if ground.broken {
            return Err(failed(ErrorKind::NoSpace, "there is no room"));
        }
        for (at, bytes) in segments {
            let range = *at..*at + bytes.len() as u64;
            for share in self.world.striping.shares(range.clone()) {
                if ground.fenced.contains(&(self.team, share.server)) {
                    return Err(cut_off(share.server));
                }
                let held = ground.leases.get(&(share.server, FILE)).and_then(|leases| leases.get(&self.team));
                let is_held = held.is_some_and(|held| held.contains(&(share.at..share.at + share.len)));
                assert!(is_held || ground.lossy, "staged without a lease: {range:?}");
            }
            ground = self.world.demand(ground, Some(self.team), range);
            ground.put(FILE, *at, bytes);
        }
        ground.writes += 1;
        self.world.changed.notify_all();
        Ok(())
    }

    fn size(&self) -> Result<u64> {
        Ok(self.world.bytes().len() as u64)
    }

    fn read_straight(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        let found = self.world.read(offset, bytes.len() as u64);
        bytes[..found.len()].copy_from_slice(&found);
        Ok(found.len())
    }

    fn write_straight(&self, segments: &[(u64, &[u8])]) -> Result<()> {
        segments.iter().for_each(|(offset, bytes)| self.world.write(*offset, bytes));
        Ok(())
    }

    fn lease(&self, server: ServerId, range: Range<u64>) -> Result<Vec<Range<u64>>> {
        let mut ground = self.world.ground();
        loop {
            ground.bury();
            if !ground.boxes.iter().any(|one| one.team == self.team && one.server == server) {
                return Err(failed(ErrorKind::Protocol, "no mailbox"));
            }
            let others = ground.recall(Some(self.team), server, FILE, &range);
            // What is recalled of this team is not granted again before that is over.
            let overlaps = |one: &Recalled| {
                one.team == self.team
                    && one.server == server
                    && one.range.start < range.end
                    && range.start < one.range.end
            };
            if !others && !ground.recalls.iter().any(overlaps) {
                break;
            }
            self.world.changed.notify_all();
            ground = self.world.wait(ground);
        }
        let mut free = Ranges::one(0..FURTHEST);
        let stingy = ground.stingy;
        let leases = ground.leases.entry((server, FILE)).or_default();
        for (_, held) in leases.iter().filter(|(team, _)| **team != self.team) {
            held.iter().for_each(|one| free.remove(&one));
        }
        let around = free.iter().find(|one| one.start <= range.start && range.end <= one.end);
        let extent = if stingy { range } else { around.expect("it is free") };
        leases.entry(self.team).or_default().insert(extent.clone());
        ground.grants += 1;
        let is_held = |ground: &Ground| {
            let held = ground.leases.get(&(server, FILE)).and_then(|leases| leases.get(&self.team));
            ground.late_leases && held.is_some_and(|held| held.contains(&extent))
        };
        self.world.answer(ground, is_held).late_leases = false;
        Ok(vec![extent])
    }

    fn mailbox(&self, server: ServerId, anew: bool) -> Result<Box<dyn Mailbox>> {
        let mut ground = self.world.ground();
        if !anew && ground.fenced.contains(&(self.team, server)) {
            return Err(cut_off(server));
        }
        ground.fenced.remove(&(self.team, server));
        ground.numbers += 1;
        let (number, team) = (ground.numbers, self.team);
        ground.boxes.push(Letters { number, team, server, letters: Vec::new(), is_dead: false });
        Ok(Box::new(Slot { world: Arc::clone(&self.world), number }))
    }
}

struct Slot {
    world: Arc<World>,
    number: u64,
}

impl Slot {
    fn gone() -> Error {
        failed(ErrorKind::Unreachable, "the mailbox is dead")
    }
}

impl Mailbox for Slot {
    fn recalls(&mut self) -> Result<Vec<Recall>> {
        let mut ground = self.world.ground();
        loop {
            let mine =
                ground.boxes.iter_mut().find(|one| one.number == self.number).ok_or_else(Slot::gone)?;
            if !mine.letters.is_empty() {
                return Ok(std::mem::take(&mut mine.letters));
            }
            let (woken, waited) = self.world.changed.wait_timeout(ground, Duration::from_millis(50)).unwrap();
            if waited.timed_out() {
                return Ok(Vec::new());
            }
            ground = woken;
        }
    }

    fn give_up(&mut self, number: u64, gone: Range<u64>) -> Result<()> {
        let mut ground = self.world.ground();
        ground.boxes.iter().find(|one| one.number == self.number).ok_or_else(Slot::gone)?;
        ground.give_up(self.number, number, &gone);
        self.world.changed.notify_all();
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut ground = self.world.ground();
        ground.boxes.iter_mut().filter(|one| one.number == self.number).for_each(|one| one.is_dead = true);
        ground.bury();
        self.world.changed.notify_all();
    }
}
