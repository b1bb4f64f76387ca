//! From accesses to chunks: one sweep over each file.
//!
//! The ends of all accesses are sorted, and a point moves over them. Which processes have an access open at the point,
//! and whether one of these is a write, is the signature of the bytes up to the next end; a chunk is a longest run of
//! bytes with one signature. A signature is known by the exclusive or of a number for each of its members, so that an
//! access changes it in constant time, and its list of processes is made only when it is new. What was read and
//! written of a chunk is the difference of two sums that run along with the point. All of it takes n log n for
//! n accesses, whatever they share.

use crate::profile::{Profile, ProfiledAccess};
use pario_placement::{ProcessGroup, ProcessId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// A longest run of bytes that the same processes use in the same way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByteRun {
    /// Its first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// The index of its users in [`Swept::groups`].
    pub group: u32,
    /// When it was first used.
    pub first: u64,
    /// Bytes of it that were read, again and again if so.
    pub read: u64,
    /// Bytes of it that were written, again and again if so.
    pub written: u64,
    /// The weights of its users, if they were requested and it has several.
    pub weighed: Option<Weighed>,
}

/// The weights of the users of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighed {
    /// The process that uses it most.
    pub heaviest: ProcessId,
    /// The smaller one of its shares of the accesses and of their bytes.
    pub share: f64,
    /// Bytes that the others read and wrote.
    pub others: u64,
    /// The reads of the others, if only one process writes it.
    pub fetched: Option<Fetched>,
}

/// Reads of bytes that only another process writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fetched {
    /// The number of bytes.
    pub bytes: u64,
    /// The part of the reads that is in this run: an access of n bytes has [`CALL`] / n in each byte.
    pub reads: u128,
    /// The same for the writes of the other process.
    pub writes: u128,
}

/// One access: a number that many lengths divide, the least common multiple of 1 to 20 among them.
pub const CALL: u64 = 232_792_560 << 34;

/// The chunks of all files of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Swept {
    /// The sets of processes that use chunks.
    pub groups: Vec<ProcessGroup>,
    /// For each file its chunks in the order of offsets.
    pub files: Vec<Vec<ByteRun>>,
}

/// Sweeps all files; with `weigh` it is also told how much each chunk is used by whom.
pub fn sweep(profile: &Profile, weigh: bool) -> Swept {
    let mut numbers: Vec<Vec<u32>> = vec![Vec::new(); profile.files.len()];
    for (number, access) in profile.accesses.iter().enumerate() {
        // A profile holds at most MOST_ACCESSES.
        numbers[access.file() as usize].push(number as u32);
    }
    let mut signatures = Signatures::default();
    let mut files = Vec::new();
    for numbers in numbers {
        let of = |number: u32| &profile.accesses[number as usize];
        let mut starts: Vec<(u64, u32)> = numbers.iter().map(|&number| (of(number).offset, number)).collect();
        let mut ends: Vec<(u64, u32)> = numbers.iter().map(|&number| (of(number).end, number)).collect();
        drop(numbers);
        starts.sort_unstable();
        ends.sort_unstable();
        let mut point = Point::new(profile.processes.len(), weigh);
        files.push(point.pass(&profile.accesses, &starts, &ends, &mut signatures));
    }
    Swept { groups: signatures.groups, files }
}

/// Groups by their key.
#[derive(Default)]
struct Signatures {
    numbers: HashMap<u128, u32, BuildHasherDefault<LowBits>>,
    groups: Vec<ProcessGroup>,
}

/// Keys are random numbers already.
#[derive(Default)]
struct LowBits(u64);

impl Hasher for LowBits {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().rev().fold(self.0, |sum, &byte| sum << 8 | u64::from(byte));
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

/// The accesses of one process that are open at the point.
#[derive(Clone, Copy, Default)]
struct Open {
    reads: u32,
    writes: u32,
    /// Its place in the list of those that have anything open.
    place: u32,
}

impl Open {
    /// Whether it writes, if it has anything open.
    fn edge(&self) -> Option<bool> {
        (self.reads + self.writes > 0).then_some(self.writes > 0)
    }
}

/// The state of a sweep.
struct Point {
    open: Vec<Open>,
    /// Processes that have anything open.
    users: Vec<u32>,
    /// The exclusive or of the members' numbers.
    key: u128,
    /// The offset up to which the sums below are complete.
    at: u64,
    reads: u32,
    writes: u32,
    read: u128,
    written: u128,
    /// Open accesses by time; those that have ended are thrown out when they come to the top.
    times: BinaryHeap<Reverse<(u64, u64)>>,
    weights: Option<Vec<Weight>>,
}

/// The running sums of one process.
#[derive(Clone, Copy, Default)]
struct Weight {
    open: u64,
    begun: u64,
    /// The number of `begun` that began at `at`.
    begun_at: u64,
    at: u64,
    bytes: u128,
    reads: Calls,
    writes: Calls,
    /// The sums when the current run began: accesses that are not in it, bytes.
    base: (u64, u128),
}

/// Shares of accesses, see [`Fetched`].
#[derive(Clone, Copy, Default)]
struct Calls {
    /// Of those that are open, in each byte.
    rate: u128,
    sum: u128,
    /// The sum when the current run began.
    base: u128,
}

impl Weight {
    fn calls(&mut self, access: &ProfiledAccess) -> &mut Calls {
        if access.is_write() { &mut self.writes } else { &mut self.reads }
    }

    fn advance(&mut self, to: u64) {
        if to > self.at {
            self.bytes += u128::from(self.open) * u128::from(to - self.at);
            for calls in [&mut self.reads, &mut self.writes] {
                calls.sum += calls.rate * u128::from(to - self.at);
            }
            (self.at, self.begun_at) = (to, 0);
        }
    }
}

impl Calls {
    /// In the current run.
    fn here(&self) -> u128 {
        self.sum - self.base
    }
}

/// An access in each of its bytes.
fn share(access: &ProfiledAccess) -> u128 {
    u128::from(CALL / (access.end - access.offset).max(1))
}

/// A run that is not at its end.
struct Current {
    key: u128,
    offset: u64,
    first: u64,
    read: u128,
    written: u128,
    group: u32,
}

impl Point {
    fn new(processes: usize, weigh: bool) -> Point {
        Point {
            open: vec![Open::default(); processes],
            users: Vec::new(),
            key: 0,
            at: 0,
            reads: 0,
            writes: 0,
            read: 0,
            written: 0,
            times: BinaryHeap::new(),
            weights: weigh.then(|| vec![Weight::default(); processes]),
        }
    }

    fn pass(
        &mut self,
        accesses: &[ProfiledAccess],
        starts: &[(u64, u32)],
        ends: &[(u64, u32)],
        signatures: &mut Signatures,
    ) -> Vec<ByteRun> {
        let mut runs = Vec::new();
        let mut current: Option<Current> = None;
        let (mut begun, mut ended) = (0, 0);
        while ended < ends.len() {
            let at = starts.get(begun).map_or(u64::MAX, |start| start.0).min(ends[ended].0);
            self.advance(at);
            while ended < ends.len() && ends[ended].0 == at {
                self.end(&accesses[ends[ended].1 as usize]);
                ended += 1;
            }
            let mut first = u64::MAX;
            while begun < starts.len() && starts[begun].0 == at {
                let access = &accesses[starts[begun].1 as usize];
                self.begin(access);
                first = first.min(access.time);
                begun += 1;
            }
            match &mut current {
                Some(run) if run.key == self.key && !self.users.is_empty() => {
                    run.first = run.first.min(first)
                }
                _ => {
                    runs.extend(current.take().map(|run| self.close(&run, &signatures.groups)));
                    current = (!self.users.is_empty()).then(|| self.start(signatures));
                }
            }
        }
        runs
    }

    /// Moves the point.
    fn advance(&mut self, to: u64) {
        let way = u128::from(to - self.at);
        self.read += u128::from(self.reads) * way;
        self.written += u128::from(self.writes) * way;
        self.at = to;
    }

    fn begin(&mut self, access: &ProfiledAccess) {
        self.times.push(Reverse((access.time, access.end)));
        self.change(access, |count| *count += 1);
        if let Some(weights) = &mut self.weights {
            let weight = &mut weights[access.process as usize];
            weight.advance(self.at);
            weight.open += 1;
            weight.begun += 1;
            weight.begun_at += 1;
            weight.calls(access).rate += share(access);
        }
    }

    fn end(&mut self, access: &ProfiledAccess) {
        self.change(access, |count| *count -= 1);
        if self.users.is_empty() {
            self.times.clear();
        }
        if let Some(weights) = &mut self.weights {
            let weight = &mut weights[access.process as usize];
            weight.advance(self.at);
            weight.open -= 1;
            weight.calls(access).rate -= share(access);
        }
    }

    /// Changes what the access's process has open, and with it the key.
    fn change(&mut self, access: &ProfiledAccess, by: impl Fn(&mut u32)) {
        let write = access.is_write();
        let open = &mut self.open[access.process as usize];
        let before = open.edge();
        by(if write { &mut open.writes } else { &mut open.reads });
        let after = open.edge();
        by(if write { &mut self.writes } else { &mut self.reads });
        if before == after {
            return;
        }
        self.key ^= before.map_or(0, |write| member(access.process, write));
        self.key ^= after.map_or(0, |write| member(access.process, write));
        match (before, after) {
            (None, _) => {
                open.place = self.users.len() as u32;
                self.users.push(access.process);
            }
            (_, None) => {
                let place = open.place as usize;
                self.users.swap_remove(place);
                if let Some(&moved) = self.users.get(place) {
                    self.open[moved as usize].place = place as u32;
                }
            }
            _ => (),
        }
    }

    /// A run that begins at the point.
    fn start(&mut self, signatures: &mut Signatures) -> Current {
        while self.times.peek().is_some_and(|Reverse((_, end))| *end <= self.at) {
            self.times.pop();
        }
        if let Some(weights) = &mut self.weights {
            for &user in &self.users {
                let weight = &mut weights[user as usize];
                weight.advance(self.at);
                weight.base = (weight.begun - weight.open, weight.bytes);
                for calls in [&mut weight.reads, &mut weight.writes] {
                    calls.base = calls.sum;
                }
            }
        }
        let group = match signatures.numbers.get(&self.key) {
            Some(&group) => group,
            None => {
                let group = signatures.groups.len() as u32;
                signatures.groups.push(self.group());
                signatures.numbers.insert(self.key, group);
                group
            }
        };
        Current {
            key: self.key,
            offset: self.at,
            first: self.times.peek().map_or(0, |Reverse((time, _))| *time),
            read: self.read,
            written: self.written,
            group,
        }
    }

    fn group(&self) -> ProcessGroup {
        let mut users = self.users.clone();
        users.sort_unstable();
        let writes = |user: &u32| self.open[*user as usize].writes > 0;
        let writers = users.iter().copied().filter(writes).map(ProcessId).collect();
        ProcessGroup { users: users.into_iter().map(ProcessId).collect(), writers }
    }

    /// The run that ends at the point.
    fn close(&mut self, run: &Current, groups: &[ProcessGroup]) -> ByteRun {
        ByteRun {
            offset: run.offset,
            length: self.at - run.offset,
            group: run.group,
            first: run.first,
            read: bytes(self.read - run.read),
            written: bytes(self.written - run.written),
            weighed: self.weighed(&groups[run.group as usize]),
        }
    }

    fn weighed(&mut self, group: &ProcessGroup) -> Option<Weighed> {
        let weights = self.weights.as_mut().filter(|_| group.users.len() > 1)?;
        let (mut accesses, mut all, mut reads) = (0u64, 0u128, 0u128);
        let mut most: Option<(u128, u64, ProcessId)> = None;
        let mut of_writer = None;
        for &process in &group.users {
            let weight = &mut weights[process.0 as usize];
            weight.advance(self.at);
            // An access that begins at the point is not in the run that ends there.
            let count = weight.begun - weight.begun_at - weight.base.0;
            let bytes = weight.bytes - weight.base.1;
            accesses += count;
            all += bytes;
            if most.is_none_or(|(most, ..)| bytes > most) {
                most = Some((bytes, count, process));
            }
            if group.writers == [process] {
                of_writer = Some((bytes, weight.reads.here(), weight.writes.here()));
            }
            reads += weight.reads.here();
        }
        let (most, count, heaviest) = most?;
        let share = (most as f64 / all as f64).min(count as f64 / accesses as f64);
        let fetched = of_writer.map(|(own, own_reads, writes)| Fetched {
            bytes: bytes(all - own),
            reads: reads - own_reads,
            writes,
        });
        Some(Weighed { heaviest, share, others: bytes(all - most), fetched })
    }
}

/// A sum of bytes in the range of a plan, where numbers end at 2^63 - 1.
fn bytes(sum: u128) -> u64 {
    sum.min(i64::MAX as u128) as u64
}

/// The number of a member of a signature: 128 bits from two rounds of splitmix64, so that two of even 2^32 different
/// signatures meet with a chance of 2^-64.
fn member(process: u32, write: bool) -> u128 {
    let seed = u64::from(process) << 1 | u64::from(write);
    let mix = |seed: u64| {
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let low = mix(seed);
    u128::from(mix(low ^ 0x5851_f42d_4c95_7f2d)) << 64 | u128::from(low)
}
