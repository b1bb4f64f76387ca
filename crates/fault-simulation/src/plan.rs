//! The shape of a history: its partition, its programs and its faults.

use std::time::Duration;

use crate::focus::{Topic, draw_topic, focus};
use crate::scaling;
use crate::swarm::swarm;
use pario_client::{PlacementMap, ServerId};
use pario_runtime::simulation::random;
use pario_runtime::simulation::stall::{StallLengths, StallOptions};

/// The bytes of a block of the pools.
pub const BLOCK: u32 = 4096;

/// Most clients of a history.
pub const MOST_CLIENTS: usize = 3;

/// Most time of all pauses of threads together.
const MOST_STALLED: Duration = Duration::from_secs(12);

/// Where threads pause: a part of the paths of the code, and the beginning of the names of the threads. Anywhere; in the servers' caches; in
/// the transfers of `cp` from and to files of the host; in the threads of tier 1 that hear of recalled leases; in truncations at servers.
const STALL_PLACES: [(&str, &str); 5] = [
    ("", ""),
    ("cache/src", ""),
    ("copy/src/open_file", ""),
    ("", "pario-recalls"),
    ("server/src/pool/truncate", ""),
];

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A server or a client is killed.
    Kill,
    /// A server or a client stands still for a while.
    Stop,
    /// A server ends as after SIGTERM, and is started again.
    Terminate,
    /// A connection breaks.
    Break,
    /// A host is cut off from the others for a while.
    Cut,
    /// A host stops and starts again: its memory is lost, its storage stays.
    HostLost,
    /// A host loses power: its memory, and any part of what was not synced.
    PowerLost,
    /// Some operations of a disk fail with EIO.
    DiskError,
    /// A disk is full for a while.
    DiskFull,
    /// A disk refuses all changes for a while.
    ReadOnly,
    /// A sync fails, and data that it could not write is dropped.
    SyncFails,
    /// A disk is slow for a while.
    SlowDisk,
    /// A disk loses, tears or misdirects a write, or a stored byte changes.
    DiskLies,
    /// `pario up` runs.
    Up,
    /// `pario down` runs.
    Down,
    /// `pario check` runs.
    Check,
    /// `pario cp` runs.
    Copy,
    /// A server loses its supervisor and is told to end, perhaps while `pario up` runs.
    Orphan,
    /// A connection breaks when the next reply arrives at a client.
    LostReply,
    /// Messages in one direction of a connection arrive late for a while.
    Delay,
    /// Nothing arrives in one direction of a connection for a while.
    HalfOpen,
    /// A connection breaks in the middle of a message.
    Tear,
    /// New connections to a server fail for a while.
    Refuse,
    /// The wall clock of a host jumps.
    Clock,
    /// A process gets no more descriptors or no more memory for a while.
    Limit,
    /// `pario scale` runs.
    Scale,
}

impl FaultKind {
    /// Whether only partitions under the control of commands have it.
    pub fn needs_commands(self) -> bool {
        use FaultKind::{Check, Copy, Down, Orphan, Scale, Up};
        matches!(self, Up | Down | Check | Copy | Orphan | Scale)
    }
}

impl FaultKind {
    /// The name that the command line has for it.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// All kinds, with the names that the command line has for them.
pub const KINDS: &[(FaultKind, &str)] = &[
    (FaultKind::Kill, "kill"),
    (FaultKind::Stop, "stop"),
    (FaultKind::Terminate, "term"),
    (FaultKind::Break, "break"),
    (FaultKind::LostReply, "reply"),
    (FaultKind::Cut, "cut"),
    (FaultKind::HostLost, "host"),
    (FaultKind::Up, "up"),
    (FaultKind::Down, "down"),
    (FaultKind::Check, "check"),
    (FaultKind::Copy, "cp"),
    (FaultKind::Orphan, "orphan"),
    (FaultKind::PowerLost, "power"),
    (FaultKind::DiskError, "eio"),
    (FaultKind::DiskFull, "full"),
    (FaultKind::ReadOnly, "rofs"),
    (FaultKind::SyncFails, "fsync"),
    (FaultKind::SlowDisk, "slow"),
    (FaultKind::DiskLies, "lies"),
    (FaultKind::Delay, "delay"),
    (FaultKind::HalfOpen, "half"),
    (FaultKind::Tear, "tear"),
    (FaultKind::Refuse, "refuse"),
    (FaultKind::Clock, "clock"),
    (FaultKind::Limit, "limit"),
    (FaultKind::Scale, "scale"),
];

/// The event between the end of all clients and the last read of all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Nothing,
    /// All servers store everything and end, and are started again.
    Down,
    /// All hosts lose their memory.
    HostsLost,
    /// All hosts lose power.
    PowerLost,
}

/// The shape of a history. The seed determines it before the history starts.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Chooses another order of steps.
    pub schedule: u64,
    /// Whether commands bring the partition up and take it down, and supervisors start its servers again.
    pub managed: bool,
    pub servers: u16,
    /// Servers and clients are on so many hosts, in turn.
    pub hosts: u32,
    pub stripe: u64,
    pub slots: u64,
    pub workers: usize,
    pub files: usize,
    /// The most bytes of a file.
    pub limit: u64,
    pub clients: usize,
    /// Calls of each client.
    pub calls: u32,
    /// Whether clients may cache blocks in their own memory.
    pub tier1: bool,
    /// The kinds of faults that happen, each with its share among all faults.
    pub faults: Vec<(FaultKind, u32)>,
    pub fault_count: u32,
    /// Faults that are left out: bit n stands for the n-th one.
    pub skipped_faults: u64,
    /// Calls that are left out, for each client: bit n stands for the n-th one.
    pub skipped_calls: [u64; MOST_CLIENTS],
    /// The event between the last call and the last read of all files.
    pub ending: Ending,
    /// The longest time between two faults.
    pub fault_interval: Duration,
    /// Whether the clients that use tier 1 are processes of one program, each with blocks of its own.
    pub is_one_team: bool,
    /// Whether clients truncate files often.
    pub truncates: bool,
    /// Whether clients sync files often.
    pub syncs: bool,
    /// Whether clients often close files, or drop their handles without a close.
    pub drops: bool,
    /// Whether most copies by `cp` are into the partition and take seconds.
    pub slow_copies: bool,
    /// Whether clients create, rename, remove and list files.
    pub names: bool,
    /// Whether clients take byte-range locks.
    pub locks: bool,
    /// Whether clients read and write through views.
    pub views: bool,
    /// Whether several threads of a client use a file at the same time.
    pub threads: bool,
    /// Whether clients prefetch.
    pub prefetches: bool,
    /// Whether files are placed, some of their bytes on several servers.
    pub placed: bool,
    /// Where threads pause: the number of an element of [`STALL_PLACES`].
    pub stall_within: u32,
    /// Whether all pauses of threads take up to seconds.
    pub long_stalls: bool,
    /// Which threads pause: 0 all, 1 those of clients, 2 those of servers, 3 those of `cp`, 4 those of `check`.
    pub stall_of: u32,
    /// The longest time that a client waits between two calls.
    pub longest_pause: Duration,
    /// How often everything is also read before the ending.
    pub looks_before_ending: u32,
    /// Long pauses of single threads: at one of so many lines of code, 0 for none.
    pub stall_one_site_in: u64,
    /// At such a line a thread pauses once in so many times.
    pub stall_one_in: u32,
    /// Whether faults happen only while some thread pauses.
    pub faults_at_stalls: bool,
    /// At a scheduling point another thread goes on once in so many times.
    pub switch_one_in: u32,
}

impl FaultKind {
    /// Whether stored bytes may be damaged for good. A server may refuse to start then (SEMANTICS, N3), so that no command succeeds any more.
    pub fn damages_storage(self) -> bool {
        matches!(self, FaultKind::SyncFails | FaultKind::DiskLies)
    }

    /// Whether it concerns storage.
    pub fn is_of_disk(self) -> bool {
        use FaultKind::{DiskError, DiskFull, DiskLies, PowerLost, ReadOnly, SlowDisk, SyncFails};
        matches!(self, PowerLost | DiskError | DiskFull | ReadOnly | SyncFails | SlowDisk | DiskLies)
    }
}

/// How plans are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mix {
    /// Half of the histories mix everything, the others are about one mechanism each.
    #[default]
    Usual,
    /// All histories are about one mechanism.
    Only(Topic),
    /// Each history has a random subset of all features and kinds of faults.
    Swarm,
}

impl Plan {
    pub fn new(seed: u64, allowed: &[FaultKind], mix: Mix) -> Plan {
        let mut random = random::stream(seed, "plan", 0);
        let managed = random.bool();
        let mut disks = random::stream(seed, "plan of disk faults", 0);
        let (of_disk, others): (Vec<FaultKind>, Vec<FaultKind>) = allowed
            .iter()
            .copied()
            .filter(|kind| *kind != FaultKind::Scale)
            .partition(|kind| kind.is_of_disk());
        // Half of the histories with commands are about them.
        let is_about_commands = managed && random::stream(seed, "plan of commands", 0).bool();
        let is_possible = |kind: &&FaultKind| managed || !kind.needs_commands();
        let mut faults: Vec<_> =
            others.iter().filter(|_| random.bool()).filter(is_possible).map(|kind| (*kind, 1)).collect();
        if is_about_commands {
            let share =
                |kind: FaultKind| if kind.needs_commands() { 2 } else { u32::from(kind == FaultKind::Kill) };
            faults =
                others.iter().map(|kind| (*kind, share(*kind))).filter(|(_, share)| *share > 0).collect();
        }
        // Half of all histories have disks that work. Lies weaken the judgement, so they are rarer.
        if others.is_empty() || disks.bool() {
            let is_chosen = |kind: &&FaultKind| {
                let one_in = if kind.damages_storage() { 5 } else { 3 };
                disks.u32(0..one_in) == 0
            };
            let is_possible = |kind: &&FaultKind| !managed || !kind.damages_storage();
            faults.extend(of_disk.iter().filter(is_possible).filter(is_chosen).map(|kind| (*kind, 1)));
        }
        let servers = [1, 1, 2, 2, 3, 3, 4, 5][random.usize(0..8)];
        let mut programs = random::stream(seed, "plan of programs", 0);
        let mut stalls = random::stream(seed, "plan of stalls", 0);
        let mut plan = Plan {
            seed,
            schedule: 0,
            managed,
            servers,
            hosts: [1, 1, 1, 1, 2, 2, 3, 4][random.usize(0..8)],
            stripe: [3000, 4096, 10_000][random.usize(0..3)],
            slots: [16, 16, 24][random.usize(0..3)],
            workers: random.usize(1..=2),
            files: random.usize(1..=2),
            limit: [9000, 9000, 40_000, 150_000][random.usize(0..4)],
            clients: random.usize(1..=MOST_CLIENTS),
            calls: random.u32(5..40),
            tier1: random.u32(0..3) == 0,
            fault_count: match (faults.is_empty(), random.u32(0..4)) {
                (true, _) => 0,
                (false, 0) => random.u32(10..40),
                (false, _) if is_about_commands => random.u32(4..16),
                (false, _) => random.u32(1..6),
            },
            ending: match random.u32(0..4) {
                0 if allowed.contains(&FaultKind::PowerLost) && disks.bool() => Ending::PowerLost,
                0 => Ending::HostsLost,
                1 | 2 => Ending::Down,
                _ => Ending::Nothing,
            },
            faults,
            skipped_faults: 0,
            skipped_calls: [0; MOST_CLIENTS],
            fault_interval: Duration::from_micros(random.u64(200..20_000)),
            switch_one_in: [2, 5, 20, 100][random.usize(0..4)],
            is_one_team: programs.u32(0..4) == 0,
            truncates: programs.u32(0..4) == 0,
            syncs: false,
            drops: false,
            slow_copies: false,
            names: programs.u32(0..3) == 0,
            locks: programs.u32(0..4) == 0,
            views: programs.u32(0..4) == 0,
            threads: programs.u32(0..5) == 0,
            prefetches: programs.u32(0..4) == 0,
            placed: programs.u32(0..5) == 0,
            stall_within: stalls.bool().into(),
            long_stalls: false,
            stall_of: stalls.u32(0..3),
            looks_before_ending: random::stream(seed, "plan of looks", 0).u32(0..3),
            stall_one_site_in: pick(&mut stalls, &[0, 0, 1, 3, 10, 30]),
            stall_one_in: pick(&mut stalls, &[2, 10, 50, 200]),
            faults_at_stalls: stalls.bool(),
            longest_pause: Duration::from_millis(3),
        };
        let mut random = random::stream(seed, "focus", 0);
        let topic = match mix {
            Mix::Usual => draw_topic(&mut random),
            Mix::Only(topic) => Some(topic),
            Mix::Swarm => {
                swarm(&mut plan, &mut random, allowed);
                None
            }
        };
        if let Some(topic) = topic {
            focus(&mut plan, topic, &mut random, allowed);
        }
        scaling::add(&mut plan, allowed);
        plan
    }

    /// Where the bytes of a file are placed, if they are.
    pub fn placement(&self, file: usize) -> Option<PlacementMap> {
        let mut random = random::stream(self.seed, "placement", file as u64);
        let mut extents = Vec::new();
        let mut at = 0;
        while self.placed && at < self.limit {
            let end = at + random.u64(1..20_000);
            let servers = (0..random.u32(0..3)).map(|_| ServerId(random.u16(0..self.servers))).collect();
            extents.push((at..end, servers));
            at = end;
        }
        PlacementMap::new(extents).filter(|_| self.placed)
    }

    /// The pauses of threads.
    pub fn stalls(&self) -> Option<StallOptions> {
        let (within, thread) = STALL_PLACES[self.stall_within as usize % STALL_PLACES.len()];
        (self.stall_one_site_in > 0).then(|| StallOptions {
            random: random::stream(self.seed, "stalls", 0),
            one_site_in: self.stall_one_site_in,
            one_in: self.stall_one_in,
            most: MOST_STALLED,
            lengths: match (self.long_stalls, self.faults_at_stalls) {
                (true, _) => StallLengths::Longest,
                (false, true) => StallLengths::Long,
                (false, false) => StallLengths::Any,
            },
            within,
            thread,
            of: ["", "client", if self.managed { "serve server" } else { "server" }, "cp", "check"]
                [self.stall_of as usize % 5],
        })
    }

    /// Whether faults of this kind happen.
    pub fn has_kind(&self, kind: FaultKind) -> bool {
        self.faults.iter().any(|(one, share)| *one == kind && *share > 0)
    }

    /// Whether the plan has the fault of that number.
    pub fn has_fault(&self, number: u64) -> bool {
        let is_skipped = number < 64 && self.skipped_faults >> number & 1 == 1;
        !is_skipped && self.faults.iter().any(|(_, share)| *share > 0)
    }

    /// Whether the plan has the call of that number of a client.
    pub fn has_call(&self, worker: u32, number: u32) -> bool {
        let skipped = (worker as usize).checked_sub(1).and_then(|index| self.skipped_calls.get(index));
        number >= 64 || skipped.is_none_or(|skipped| skipped >> number & 1 == 0)
    }

    /// The kind of a fault: the smallest of random numbers, of which each kind draws as many as its share. A kind that is taken away therefore
    /// changes only those faults that were of this kind.
    pub fn draw_fault(&self, random: &mut fastrand::Rng) -> FaultKind {
        let seed = random.u64(..);
        let smallest = |(kind, share): &(FaultKind, u32)| {
            let mut random = random::stream(seed, "kind", *kind as u64);
            (0..*share).map(|_| random.u64(..)).min().unwrap_or(u64::MAX)
        };
        self.faults.iter().min_by_key(|one| smallest(one)).expect("a plan without faults injects none").0
    }
}

fn pick<T: Copy>(random: &mut fastrand::Rng, values: &[T]) -> T {
    values[random.usize(0..values.len())]
}
