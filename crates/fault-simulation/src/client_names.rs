//! Names, locks, views, prefetching and threads of a simulated client.

use std::time::Duration;

use pario_client::{File, OpenOptions, Partition, Pos, Result};
use pario_conformance::torture::history::{Call, CallOutcome, Op, content};
use pario_conformance::torture::worker_file::{WorkerFile, failed, outcome};
use pario_runtime::simulation::{scheduler, thread};
use pario_types::{ErrorKind, Offset};
use pario_view::{Datatype, Pattern, Shape, View};

use crate::client::Client;
use crate::lock_calls::LockSpan;
use crate::name_calls::{NameCall, NameOp, NameOutcome};

/// Files that are created by name have the numbers from here on: this plus the file's id.
pub const FIRST_NAMED: usize = 1000;

/// Different names in a history.
const NAMES: usize = 4;

/// More bytes than any file has.
const EVERYTHING: u64 = 1 << 40;

/// The most bytes of a file that was created by name.
const NAMED_LIMIT: u64 = 20_000;

impl Client {
    fn name(&mut self) -> String {
        format!("n{}", self.random.usize(0..NAMES))
    }

    /// Executes a call about names and records it.
    fn name_call(&mut self, op: NameOp, act: impl FnOnce(&NameOp) -> Result<NameOutcome>) {
        scheduler::log(format!("begins {op}"));
        let start = scheduler::now();
        let index = {
            let mut names = self.records.names.borrow_mut();
            names.push(NameCall { worker: self.worker, op: op.clone(), start, end: None, outcome: None });
            names.len() - 1
        };
        let outcome = act(&op).unwrap_or_else(|error| match error.kind() {
            ErrorKind::NoSuchFile => NameOutcome::NoSuchFile,
            ErrorKind::FileExists => NameOutcome::FileExists,
            _ => NameOutcome::Unknown(error.to_string()),
        });
        scheduler::log(format!("returns {outcome:?}"));
        let mut names = self.records.names.borrow_mut();
        (names[index].end, names[index].outcome) = (Some(scheduler::now()), Some(outcome));
    }

    /// Perhaps does something other than the usual calls; whether it did.
    pub fn use_extras(&mut self, partition: &Partition) -> bool {
        let plan = &self.plan;
        let wanted = [plan.names, plan.locks, plan.views, plan.threads, plan.prefetches];
        let kinds: Vec<usize> = (0..wanted.len()).filter(|kind| wanted[*kind]).collect();
        if self.random.u32(0..3) != 0 {
            return false;
        }
        let shared: Vec<usize> = self.files.range(..FIRST_NAMED).map(|(number, _)| *number).collect();
        match (self.random.choice(kinds), self.random.choice(shared)) {
            (Some(0), Some(number)) if self.random.u32(0..5) == 0 => self.stat(partition, number),
            (Some(0), _) => self.use_names(partition),
            (Some(1), Some(number)) => self.hold_lock(number),
            (Some(2), Some(number)) => self.use_view(number),
            (Some(3), Some(number)) => self.use_threads(number),
            (Some(4), Some(number)) => self.prefetch(number),
            _ => return false,
        }
        true
    }

    /// Opens a file by its name, and keeps it open.
    fn open_named(&mut self, partition: &Partition, op: NameOp, options: &OpenOptions) -> Option<usize> {
        let mut opened = None;
        self.name_call(op, |op| {
            let (NameOp::Create(name) | NameOp::Open(name)) = op else {
                unreachable!("only these open files")
            };
            let file = partition.open(&format!("/{name}"), options)?;
            let id = file.id().0;
            opened = Some((FIRST_NAMED + id as usize, file));
            Ok(NameOutcome::File(id))
        });
        let (number, file) = opened?;
        // A file that is open twice stays open once.
        self.files.insert(number, WorkerFile { file, cached: None });
        Some(number)
    }

    /// Changes or looks at names, or uses a file that was opened by name.
    pub fn use_names(&mut self, partition: &Partition) {
        let open: Vec<usize> = self.files.range(FIRST_NAMED..).map(|(number, _)| *number).collect();
        let number = self.random.choice(open);
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match (self.random.u32(0..12), number) {
            (0..=3, Some(number)) => self.write_below(number, NAMED_LIMIT),
            (4, Some(number)) => self.read(number, 0, NAMED_LIMIT),
            (5, Some(number)) => self.close(number),
            (0..=6, _) => {
                options.create_new(true);
                let op = NameOp::Create(self.name());
                if let Some(number) = self.open_named(partition, op, &options) {
                    self.write_below(number, NAMED_LIMIT);
                }
            }
            (7, _) => {
                let op = NameOp::Open(self.name());
                if let Some(number) = self.open_named(partition, op, &options) {
                    self.read(number, 0, NAMED_LIMIT);
                }
            }
            (8, _) => {
                let name = self.name();
                self.name_call(NameOp::Remove(name.clone()), |_| {
                    partition.remove_file(&format!("/{name}")).map(|()| NameOutcome::Done)
                });
            }
            (9 | 10, _) => {
                let (from, to, replace) = (self.name(), self.name(), self.random.bool());
                if from == to {
                    return;
                }
                let (old, new) = (format!("/{from}"), format!("/{to}"));
                self.name_call(NameOp::Rename { from, to, replace }, |_| {
                    let renamed =
                        if replace { partition.rename(&old, &new) } else { partition.rename_new(&old, &new) };
                    renamed.map(|()| NameOutcome::Done)
                });
            }
            _ => drop(self.list(partition)),
        }
    }

    /// Lists all files that were created by name.
    fn list(&mut self, partition: &Partition) -> Vec<(String, u64)> {
        let mut found = Vec::new();
        self.name_call(NameOp::List, |_| {
            for entry in partition.read_dir("/") {
                let entry = entry?;
                if entry.name().starts_with('n') {
                    found.push((entry.name().to_owned(), entry.id().0));
                }
            }
            Ok(NameOutcome::Names(found.clone()))
        });
        found
    }

    /// Reads all files that were created by name, and takes a lock of each shared file.
    pub fn look_at_names(&mut self, partition: &Partition) {
        for (name, _) in self.list(partition) {
            let mut options = OpenOptions::new();
            options.read(true);
            if let Some(number) = self.open_named(partition, NameOp::Open(name), &options) {
                self.len(number);
                self.read(number, 0, NAMED_LIMIT * 2);
                self.close(number);
            }
        }
    }

    /// Asks for the size of a shared file by its name.
    fn stat(&mut self, partition: &Partition, number: usize) {
        self.call(Op::Len { file: number }, || {
            let found = partition.metadata(&format!("/f{number}"));
            found.map_or_else(|error| failed(&error), |metadata| CallOutcome::Size(metadata.len()))
        });
    }

    /// Locks bytes of a file for a while.
    pub fn hold_lock(&mut self, number: usize) {
        let Some(open) = self.files.get(&number).cloned() else { return };
        let start = self.random.u64(0..self.plan.limit);
        let bytes = start..start + self.random.u64(1..self.plan.limit);
        let (is_exclusive, waits) = (self.random.u32(0..4) > 0, self.random.bool());
        scheduler::log(format!("begins lock {number} {bytes:?} exclusive {is_exclusive} waits {waits}"));
        let lock = match waits {
            true => open.file.lock(bytes.clone(), is_exclusive).map(Some),
            false => open.file.try_lock(bytes.clone(), is_exclusive),
        };
        let locked = scheduler::now();
        scheduler::log(format!(
            "returns {:?}",
            lock.as_ref().map(Option::is_some).map_err(|e| e.to_string())
        ));
        let Ok(Some(lock)) = lock else { return };
        match self.random.u32(0..3) {
            0 => {
                let longest = [3000, 300_000][self.random.usize(0..2)];
                scheduler::sleep(Duration::from_micros(self.random.u64(0..longest)));
            }
            1 => self.write(number),
            _ => self.read(number, start, 4000),
        }
        let released = scheduler::now();
        scheduler::log(format!("begins unlock {number} {bytes:?}"));
        let unlocked = lock.unlock();
        scheduler::log(format!("returns {:?}", unlocked.as_ref().map_err(|error| error.to_string())));
        if unlocked.is_ok() {
            let (worker, time) = (self.worker, locked..released);
            let span = LockSpan { worker, file: number, bytes, is_exclusive, time };
            self.records.locks.borrow_mut().push(span);
        }
    }

    /// Takes a lock of the whole file: no client has one any more.
    pub fn take_free_lock(&mut self, number: usize) {
        let Some(open) = self.files.get(&number).cloned() else { return };
        let op = Op::Read { file: number, at: 0, len: 0 };
        self.call(op, || match open.file.try_lock(0..EVERYTHING, true) {
            Ok(Some(lock)) => {
                lock.unlock().map_or_else(|error| failed(&error), |()| CallOutcome::Bytes(vec![]))
            }
            Ok(None) => {
                CallOutcome::Failed { kind: "Locked".into(), text: "a lock of a client that is gone".into() }
            }
            Err(error) => failed(&error),
        });
    }

    /// Announces what will be read, or that it will not.
    pub fn prefetch(&mut self, number: usize) {
        let Some(open) = self.files.get(&number).cloned() else { return };
        let start = self.random.u64(0..self.plan.limit);
        let (end, more) = (start + self.random.u64(1..20_000), self.random.u64(1..5000));
        let ranges = [start..end, end..end + more];
        let taken = open.file.prefetch(&ranges);
        scheduler::log(format!(
            "prefetches {number} {ranges:?}: {:?}",
            taken.map_err(|error| error.to_string())
        ));
        match self.random.u32(0..3) {
            0 => drop(open.file.forget(&ranges)),
            _ => self.read(number, start, 8000),
        }
    }

    /// Writes or reads small pieces at equal distances, through a view.
    pub fn use_view(&mut self, number: usize) {
        let Some(open) = self.files.get(&number).cloned().filter(|open| open.cached.is_none()) else {
            return;
        };
        let (piece, stride) = (self.random.u64(1..20), self.random.u64(25..100));
        let start = self.random.u64(0..self.plan.limit / 4);
        // So many pieces that the client may send the name of the view instead of them.
        let count = self.random.u64(66..90).min((self.plan.limit - start) / stride);
        if count == 0 {
            return;
        }
        let view = strided(start, piece, stride);
        let extents: Vec<(u64, u64)> = (0..count).map(|index| (start + index * stride, piece)).collect();
        if self.random.bool() {
            let serial = self.next_serial();
            let bytes: Vec<u8> = extents.iter().flat_map(|(at, len)| content(serial, *at, *len)).collect();
            let op = Op::Write { file: number, serial, extents, kept: false };
            self.call(op, || outcome(open.file.write_view(&view, Pos(0), &bytes)));
        } else {
            self.read_view(&open.file, number, &view, &extents);
        }
    }

    /// Each piece is recorded as a read of its own.
    fn read_view(&mut self, file: &File, number: usize, view: &View, extents: &[(u64, u64)]) {
        let mut bytes = vec![0xa5; extents.iter().map(|extent| extent.1 as usize).sum()];
        let start = scheduler::now();
        scheduler::log(format!("begins view read of {number}, {extents:?}"));
        let read = file.read_view(view, Pos(0), &mut bytes);
        scheduler::log(format!("returns {:?}", read.as_ref().map_err(|error| error.to_string())));
        let Ok(mut left) = read else { return };
        let mut bytes = &bytes[..];
        for (at, len) in extents {
            let here = left.min(*len as usize);
            let (piece, rest) = bytes.split_at(*len as usize);
            (bytes, left) = (rest, left - here);
            if here == 0 {
                break;
            }
            let op = Op::Read { file: number, at: *at, len: *len };
            let outcome = Some(CallOutcome::Bytes(piece[..here].to_vec()));
            let end = Some(scheduler::now());
            self.records.calls.borrow_mut().push(Call {
                worker: self.worker,
                slot: 0,
                op,
                start,
                end,
                outcome,
            });
        }
    }

    /// Several threads use the same open file at the same time.
    pub fn use_threads(&mut self, number: usize) {
        let Some(open) = self.files.get(&number).cloned() else { return };
        let threads = self.random.u32(1..=3);
        let mut handles = Vec::new();
        for _ in 0..threads {
            let mut other = self.sibling(number, open.clone());
            handles.push(thread::start_local("of the program", move || {
                for _ in 0..3 {
                    match other.random.u32(0..3) {
                        0 => {
                            let at = other.random.u64(0..other.plan.limit);
                            other.read(number, at, 5000);
                        }
                        _ => other.write(number),
                    }
                }
            }));
        }
        self.write(number);
        handles.into_iter().for_each(|handle| drop(handle.join()));
    }
}

/// A view of pieces at equal distances.
fn strided(start: u64, piece: u64, stride: u64) -> View {
    let child = Datatype {
        lb: 0,
        extent: piece as i64,
        shape: Shape::Contiguous { count: piece, child: Datatype::byte().into() },
    };
    let shape = Shape::Resized { lb: 0, extent: stride as i64, child: child.into() };
    let tile = Pattern::native(&Datatype { lb: 0, extent: stride as i64, shape }).expect("a sound datatype");
    View::new(Offset(start), tile)
}
