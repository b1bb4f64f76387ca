//! A simulated program that uses the partition and records its calls.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pario_client::{OpenOptions, Options, Partition, Target, TierOptions};
use pario_conformance::torture::history::{Call, CallOutcome, How, Op, content};
use pario_conformance::torture::worker_file::{WorkerFile, failed, outcome};
use pario_runtime::simulation::{random, scheduler};

use crate::plan::Plan;

/// A call to a server returns within this time, unless it stores everything.
pub const DEADLINE: Duration = Duration::from_secs(4);
/// A call that stores everything returns within this time.
pub const FLUSH_DEADLINE: Duration = Duration::from_secs(8);

/// The calls of all clients of a history.
pub type Calls = Rc<RefCell<Vec<Call>>>;

/// A client.
pub struct Client {
    pub worker: u32,
    pub plan: Plan,
    pub target: Target,
    pub calls: Calls,
    files: Vec<Option<WorkerFile>>,
    random: fastrand::Rng,
    serials: u64,
}

impl Client {
    pub fn new(worker: u32, plan: &Plan, target: Target, calls: Calls) -> Client {
        let files = (0..plan.files).map(|_| None).collect();
        let random = random::stream(plan.seed, "client", worker.into());
        Client { worker, plan: plan.clone(), target, calls, files, random, serials: 0 }
    }

    /// Executes a call and records when it began, when it returned, and with what.
    fn call(&mut self, op: Op, act: impl FnOnce() -> CallOutcome) -> bool {
        scheduler::log(format!("begins {op}"));
        let index = {
            let mut calls = self.calls.borrow_mut();
            let start = scheduler::now();
            calls.push(Call { worker: self.worker, slot: 0, op, start, end: None, outcome: None });
            calls.len() - 1
        };
        let outcome = act();
        let text = outcome.to_string();
        scheduler::log(format!("returns {:.120}", text));
        let mut calls = self.calls.borrow_mut();
        let call = &mut calls[index];
        (call.end, call.outcome) = (Some(scheduler::now()), Some(outcome));
        call.succeeded()
    }

    fn connect(&mut self, deadline: Duration) -> Option<Partition> {
        let options = Options { deadline, flush_deadline: FLUSH_DEADLINE, ..Options::default() };
        for _ in 0..20 {
            let (mut partition, target) = (None, self.target.clone());
            self.call(Op::Connect, || match Partition::connect_to(target, options) {
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
            // A team of its own; if servers are away, the client does without.
            let options = TierOptions { bytes: 64 << 10, ..TierOptions::default() };
            open.cached = partition.tier1().open(&open.file, self.worker.into(), &options).ok().map(Arc::new);
        }
        self.files[file] = opened;
        self.files[file].is_some()
    }

    fn with(&mut self, file: usize, op: Op, act: impl FnOnce(&WorkerFile) -> CallOutcome) {
        if let Some(open) = self.files[file].clone() {
            self.call(op, || act(&open));
        }
    }

    fn close(&mut self, file: usize) {
        if let Some(open) = self.files[file].take() {
            self.call(Op::Close { file }, || outcome(open.close()));
        }
    }

    fn len(&mut self, file: usize) {
        self.with(file, Op::Len { file }, |open| {
            open.file.len().map_or_else(|error| failed(&error), CallOutcome::Size)
        });
    }

    fn read(&mut self, file: usize, at: u64, len: u64) {
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

    fn write(&mut self, file: usize) {
        self.serials += 1;
        let serial = (u64::from(self.worker) << 32) + self.serials;
        let longest = [20, 5000, 30_000][self.random.usize(0..3)];
        let pieces = if self.random.u32(0..4) == 0 { self.random.u64(2..5) } else { 1 };
        let mut extents = Vec::new();
        let mut at = self.random.u64(0..self.plan.limit);
        for _ in 0..pieces {
            let len = self.random.u64(1..=longest).min(self.plan.limit.saturating_sub(at));
            if len > 0 {
                extents.push((at, len));
            }
            at += len + self.random.u64(1..3000);
        }
        if extents.is_empty() {
            return;
        }
        let bytes: Vec<(u64, Vec<u8>)> =
            extents.iter().map(|(at, len)| (*at, content(serial, *at, *len))).collect();
        let kept = self.files[file].as_ref().is_some_and(|open| open.cached.is_some());
        self.with(file, Op::Write { file, serial, extents, kept }, |open| {
            let pieces: Vec<(u64, &[u8])> = bytes.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
            outcome(open.write(&pieces))
        });
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
                scheduler::sleep(Duration::from_micros(self.random.u64(0..3000)));
            }
            let file = self.random.usize(0..self.plan.files);
            if self.files[file].is_none() {
                let how = if self.random.u32(0..12) == 0 { How::Truncate } else { How::Write };
                self.open(&partition, file, how);
                continue;
            }
            match self.random.u32(0..24) {
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
                5 => self.files[file] = None,
                6 => self.len(file),
                7..=11 => {
                    let at = self.random.u64(0..self.plan.limit);
                    let len = self.random.u64(1..8000);
                    self.read(file, at, len);
                }
                _ => self.write(file),
            }
        }
        for file in 0..self.plan.files {
            if self.random.bool() {
                self.close(file);
            }
        }
        // The process ends without destructors, as a real one does.
        std::mem::forget(self.files);
        std::mem::forget(partition);
    }

    /// Reads everything.
    pub fn look(mut self) {
        let Some(partition) = self.connect(Duration::from_secs(40)) else { return };
        for file in 0..self.plan.files {
            if self.open(&partition, file, How::Read) {
                self.len(file);
                self.read(file, 0, self.plan.limit * 2);
                self.close(file);
            }
        }
    }
}
