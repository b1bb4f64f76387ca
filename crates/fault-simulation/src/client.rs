//! A simulated program that uses the partition and records its calls.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pario_client::{OpenOptions, Options, Partition, Target, TierOptions};
use pario_conformance::torture::history::{Call, CallOutcome, How, Op, content};
use pario_conformance::torture::worker_file::{WorkerFile, failed, outcome};
use pario_runtime::simulation::{random, scheduler};

use crate::call_log;
use crate::plan::{FaultKind, Plan};
use crate::records::Records;

/// A call to a server returns within this time, unless it stores everything.
pub const DEADLINE: Duration = Duration::from_secs(4);
/// A call that stores everything returns within this time.
pub const FLUSH_DEADLINE: Duration = Duration::from_secs(8);

/// The team of all clients, if they are one program.
const COMMON_TEAM: u128 = 1 << 64;

/// Blocks that processes of a team use in turn: at least as many as there are such processes.
const TEAM_SIZE: u64 = 2;

/// Finds the addresses of the partition, at first and when a server is unreachable.
pub type Resolver = Arc<dyn Fn() -> pario_client::Result<Target> + Send + Sync>;

/// The calls of all clients of a history.
pub type Calls = Rc<RefCell<Vec<Call>>>;

/// A client.
pub struct Client {
    pub worker: u32,
    pub plan: Plan,
    pub resolver: Resolver,
    pub records: Records,
    pub files: BTreeMap<usize, WorkerFile>,
    pub random: fastrand::Rng,
    serials: Rc<Cell<u64>>,
}

impl Client {
    pub fn new(worker: u32, plan: &Plan, resolver: Resolver, records: Records) -> Client {
        let random = random::stream(plan.seed, "client", worker.into());
        let (files, serials) = (BTreeMap::new(), Rc::default());
        Client { worker, plan: plan.clone(), resolver, records, files, random, serials }
    }

    /// The same process in another thread, which uses one file.
    pub fn sibling(&mut self, number: usize, open: WorkerFile) -> Client {
        Client {
            worker: self.worker,
            plan: self.plan.clone(),
            resolver: self.resolver.clone(),
            records: self.records.clone(),
            files: BTreeMap::from([(number, open)]),
            random: self.random.fork(),
            serials: Rc::clone(&self.serials),
        }
    }

    /// A number that no other write has.
    pub fn next_serial(&mut self) -> u64 {
        self.serials.set(self.serials.get() + 1);
        (u64::from(self.worker) << 32) + self.serials.get()
    }

    /// Executes a call and records when it began, when it returned, and with what.
    pub fn call(&mut self, op: Op, act: impl FnOnce() -> CallOutcome) -> bool {
        let kind = call_log::begin(&op);
        let index = {
            let mut calls = self.records.calls.borrow_mut();
            let start = scheduler::now();
            calls.push(Call { worker: self.worker, slot: 0, op, start, end: None, outcome: None });
            calls.len() - 1
        };
        let outcome = act();
        call_log::end(&kind, &outcome);
        let mut calls = self.records.calls.borrow_mut();
        let call = &mut calls[index];
        (call.end, call.outcome) = (Some(scheduler::now()), Some(outcome));
        call.succeeded()
    }

    fn connect(&mut self, deadline: Duration) -> Option<Partition> {
        // Some clients use TCP also to servers of their host.
        let far = self.plan.hosts > 1 && self.worker.is_multiple_of(2);
        let options = Options { deadline, flush_deadline: FLUSH_DEADLINE, far, ..Options::default() };
        for _ in 0..20 {
            let (mut partition, resolver) = (None, self.resolver.clone());
            self.call(Op::Connect, || match Partition::connect(move || resolver(), options) {
                Ok(open) => {
                    partition = Some(open);
                    CallOutcome::Done
                }
                Err(error) => failed(&error),
            });
            if partition.is_some() {
                return partition;
            }
            scheduler::sleep(Duration::from_millis(20));
        }
        None
    }

    fn open(&mut self, partition: &Partition, file: usize, how: How) -> bool {
        let mut options = OpenOptions::new();
        options.read(true).write(how != How::Read).create(how != How::Read).truncate(how == How::Truncate);
        if let Some(table) = self.plan.placement(file).filter(|_| how != How::Read) {
            options.table(table);
        }
        let mut opened = None;
        self.call(Op::Open { file, how }, || match partition.open(&format!("/f{file}"), &options) {
            Ok(file) => {
                opened = Some(WorkerFile { file, cached: None });
                CallOutcome::Done
            }
            Err(error) => failed(&error),
        });
        if let Some(open) =
            opened.as_mut().filter(|_| self.plan.tier1 && self.worker % 2 == 1 && how != How::Read)
        {
            // If servers are away, the client does without.
            let options = TierOptions { bytes: 64 << 10, ..TierOptions::default() };
            let team = if self.plan.is_one_team { COMMON_TEAM } else { self.worker.into() };
            open.cached = partition.tier1().open(&open.file, team, &options).ok().map(Arc::new);
        }
        let is_open = opened.is_some();
        self.files.extend(opened.map(|opened| (file, opened)));
        is_open
    }

    fn with(&mut self, file: usize, op: Op, act: impl FnOnce(&WorkerFile) -> CallOutcome) {
        if let Some(open) = self.files.get(&file).cloned() {
            self.call(op, || act(&open));
        }
    }

    pub fn close(&mut self, file: usize) {
        if let Some(open) = self.files.remove(&file) {
            self.call(Op::Close { file }, || outcome(open.close()));
        }
    }

    pub fn len(&mut self, file: usize) {
        self.with(file, Op::Len { file }, |open| {
            open.file.len().map_or_else(|error| failed(&error), CallOutcome::Size)
        });
    }

    pub fn read(&mut self, file: usize, at: u64, len: u64) {
        let (at, len) = self.own_part(file, at, len);
        self.with(file, Op::Read { file, at, len }, |open| {
            // Not zeros, which might pass for what was read.
            let mut bytes = vec![0xa5; len as usize];
            match open.read(&mut bytes, at) {
                Ok(count) => {
                    bytes.truncate(count);
                    CallOutcome::Bytes(bytes)
                }
                Err(error) => failed(&error),
            }
        });
    }

    pub fn write(&mut self, file: usize) {
        self.write_below(file, self.plan.limit);
    }

    /// Writes somewhere in the first `limit` bytes.
    pub fn write_below(&mut self, file: usize, limit: u64) {
        let serial = self.next_serial();
        let longest = [20, 5000, 30_000][self.random.usize(0..3)];
        let pieces = if self.random.u32(0..4) == 0 { self.random.u64(2..5) } else { 1 };
        let mut extents = Vec::new();
        let mut at = self.random.u64(0..limit);
        for _ in 0..pieces {
            let len = self.random.u64(1..=longest).min(limit.saturating_sub(at));
            if len > 0 {
                extents.push(self.own_part(file, at, len));
            }
            at += len + self.random.u64(1..3000);
        }
        extents.dedup_by_key(|extent| extent.0);
        if extents.is_empty() {
            return;
        }
        let bytes: Vec<(u64, Vec<u8>)> =
            extents.iter().map(|(at, len)| (*at, content(serial, *at, *len))).collect();
        let kept = self.is_cached(file);
        self.with(file, Op::Write { file, serial, extents, kept }, |open| {
            let pieces: Vec<(u64, &[u8])> = bytes.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
            outcome(open.write(&pieces))
        });
    }

    fn is_cached(&self, file: usize) -> bool {
        self.files.get(&file).is_some_and(|open| open.cached.is_some())
    }

    /// The part of some bytes that this process may use: each process of a team uses other blocks in tier 1.
    fn own_part(&self, file: usize, at: u64, len: u64) -> (u64, u64) {
        if !self.plan.is_one_team || !self.is_cached(file) {
            return (at, len);
        }
        let (block, rank) = (self.plan.stripe, u64::from(self.worker / 2) % TEAM_SIZE);
        let own = at / block / TEAM_SIZE * TEAM_SIZE + rank;
        let start = own * block + at % block;
        (start, len.min((own + 1) * block - start))
    }

    /// Makes random calls.
    pub fn work(mut self) {
        let Some(partition) = self.connect(DEADLINE) else { return };
        for index in 0..self.plan.calls {
            // Each call has its own random numbers, so that the others stay as they are when a call is taken away.
            let number = u64::from(self.worker) << 32 | u64::from(index);
            self.random = random::stream(self.plan.seed, "call", number);
            if !self.plan.has_call(self.worker, index) {
                continue;
            }
            if self.random.u32(0..3) == 0 {
                scheduler::sleep(Duration::from_micros(
                    self.random.u64(0..self.plan.longest_pause.as_micros() as u64),
                ));
            }
            let file = self.random.usize(0..self.plan.files);
            if self.use_extras(&partition) {
                continue;
            }
            if !self.files.contains_key(&file) {
                let how = if self.random.u32(0..12) == 0 { How::Truncate } else { How::Write };
                self.open(&partition, file, how);
                continue;
            }
            let kind = match (self.plan.truncates, self.plan.syncs) {
                (true, _) if self.random.u32(0..4) == 0 => 0,
                (_, true) if self.random.u32(0..4) == 0 => 2,
                _ if self.plan.drops && self.random.u32(0..3) == 0 => self.random.u32(4..6),
                _ => self.random.u32(0..24),
            };
            match kind {
                0 | 1 => {
                    let size = self.random.u64(0..self.plan.limit);
                    self.with(file, Op::SetLen { file, size }, |open| outcome(open.set_len(size)));
                }
                2 => self.with(file, Op::Sync { file }, |open| {
                    outcome(open.stage().and_then(|()| open.file.sync()))
                }),
                3 => self.with(file, Op::Flush { file }, |open| {
                    outcome(open.stage().and_then(|()| open.file.flush()))
                }),
                4 => self.close(file),
                5 => drop(self.files.remove(&file)),
                6 => self.len(file),
                7..=11 => {
                    let at = self.random.u64(0..self.plan.limit);
                    // In a small file most reads end before its end, so that nobody is asked for its size.
                    let longest = if self.plan.limit < 8000 { self.plan.limit / 4 } else { 8000 };
                    let len = self.random.u64(1..longest);
                    self.read(file, at, len);
                }
                _ => self.write(file),
            }
        }
        for file in self.files.keys().copied().collect::<Vec<_>>() {
            if self.random.bool() {
                self.close(file);
            }
        }
        // The process ends without destructors, as a real one does.
        std::mem::forget(self.files);
        std::mem::forget(partition);
    }

    /// Compares the replicas of a file: the open has repaired what killed or failed writes left divergent (SEMANTICS, C1).
    fn compare_replicas(&mut self, file: usize) {
        let whole = 0..self.plan.limit * 2;
        self.with(file, Op::Read { file, at: 0, len: 0 }, |open| {
            match open.file.compare_replicas(whole, false) {
                Ok(different) if different.is_empty() => CallOutcome::Bytes(vec![]),
                Ok(different) => {
                    let text = format!("replicas differ in {different:?}");
                    CallOutcome::Failed { kind: "Divergent".into(), text }
                }
                Err(error) => failed(&error),
            }
        });
    }

    /// Reads everything.
    pub fn look(mut self, are_replicas_equal: bool) {
        let Some(partition) = self.connect(Duration::from_secs(40)) else { return };
        for file in 0..self.plan.files {
            if self.open(&partition, file, How::Read) {
                if self.plan.has_kind(FaultKind::SyncFails) {
                    self.with(file, Op::Sync { file }, |open| outcome(open.file.sync()));
                }
                self.len(file);
                self.read(file, 0, self.plan.limit * 2);
                self.take_free_lock(file);
                if are_replicas_equal {
                    self.compare_replicas(file);
                }
                self.close(file);
            }
        }
        self.look_at_names(&partition);
    }
}
