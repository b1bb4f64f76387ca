//! A naive lock manager that examines everything again after each event, byte by byte: the reference for the real one.

use std::collections::BTreeMap;

use pario_types::FileId;
use proptest::prelude::*;

use pario_locks::LockCounters;
use pario_locks::LockExtent;
use pario_locks::LockManager;
use pario_locks::{Grant, LockAction, LockId, LockMode, LockRelease, LockRequest, LockTicket};

/// Bytes that are modelled one by one; one more cell stands for all bytes after them.
const BYTES: usize = 24;
const CELLS: usize = BYTES + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Free,
    Idle,
    Owed,
}

#[derive(Clone, Debug)]
struct Lock {
    request: LockRequest<u8>,
    cells: [Cell; CELLS],
    asked: Option<LockExtent>,
}

#[derive(Debug)]
struct Naive {
    unit: u64,
    locks: BTreeMap<LockId, Lock>,
    queue: Vec<LockRequest<u8>>,
    last: u64,
    counters: BTreeMap<FileId, LockCounters>,
}

fn has(extent: LockExtent, cell: usize) -> bool {
    let byte = cell as u64;
    if cell == BYTES { extent.end() > byte } else { (extent.start()..extent.end()).contains(&byte) }
}

fn exclude(a: &LockRequest<u8>, b: &LockRequest<u8>) -> bool {
    let exact = a.grant == Grant::Exact && b.grant == Grant::Exact;
    let writes = a.mode == LockMode::Exclusive || b.mode == LockMode::Exclusive;
    a.file == b.file && writes && (a.holder != b.holder || exact)
}

impl Lock {
    fn excludes(&self, request: &LockRequest<u8>, cell: usize) -> bool {
        self.cells[cell] != Cell::Free && exclude(&self.request, request)
    }

    fn meets(&self, request: &LockRequest<u8>) -> bool {
        (0..CELLS).any(|cell| has(request.extent, cell) && self.excludes(request, cell))
    }
}

impl Naive {
    fn counters(&mut self, file: FileId) -> &mut LockCounters {
        self.counters.entry(file).or_default()
    }

    fn request(&mut self, mut request: LockRequest<u8>, own: bool) -> Vec<LockAction<u8>> {
        if request.grant == Grant::Largest {
            request.extent = request.extent.widened(self.unit);
        }
        let met = self.locks.values().filter(|lock| lock.meets(&request)).count();
        let counters = self.counters(request.file);
        counters.requests += 1;
        counters.conflicts += met as u64;
        if met == 0 && own && self.covers(&request) {
            return vec![self.grant(request)];
        }
        self.queue.push(request);
        let waiting = self.queue.len();
        let actions = self.step(request.file);
        if self.queue.len() == waiting {
            self.counters(request.file).waits += 1;
        }
        actions
    }

    /// Whether the holder has all of it in cached locks of one mode that allows as much.
    fn covers(&self, request: &LockRequest<u8>) -> bool {
        let has_in = |mode: LockMode, cell: usize| {
            self.locks.values().any(|lock| {
                let r = lock.request;
                let own = (r.holder, r.file, r.mode, r.grant);
                own == (request.holder, request.file, mode, Grant::Largest) && lock.cells[cell] != Cell::Free
            })
        };
        let covered = |mode| (0..CELLS).all(|cell| !has(request.extent, cell) || has_in(mode, cell));
        (request.mode == LockMode::Shared && covered(LockMode::Shared)) || covered(LockMode::Exclusive)
    }

    fn release(&mut self, release: &LockRelease) -> Vec<LockAction<u8>> {
        let Some(lock) = self.locks.get_mut(&release.lock) else { return Vec::new() };
        let asked = if release.answer { lock.asked.take() } else { None };
        for cell in 0..CELLS {
            if release.gone.iter().any(|&gone| has(gone, cell)) {
                lock.cells[cell] = Cell::Free;
            } else if asked.is_some_and(|asked| has(asked, cell)) && lock.cells[cell] == Cell::Idle {
                lock.cells[cell] = Cell::Owed;
            }
        }
        self.step(release.file)
    }

    fn cancel(&mut self, holder: u8, ticket: LockTicket) -> Vec<LockAction<u8>> {
        let file = self.queue.iter().find(|r| r.holder == holder && r.ticket == ticket).map(|r| r.file);
        self.queue.retain(|r| r.holder != holder || r.ticket != ticket);
        file.map(|file| self.step(file)).unwrap_or_default()
    }

    fn holder_gone(&mut self, holder: u8) -> Vec<LockAction<u8>> {
        self.queue.retain(|request| request.holder != holder);
        self.locks.retain(|_, lock| lock.request.holder != holder);
        let files: Vec<FileId> = self.counters.keys().copied().collect();
        files.into_iter().flat_map(|file| self.step(file)).collect()
    }

    fn file_gone(&mut self, file: FileId) -> Vec<LockAction<u8>> {
        self.locks.retain(|_, lock| lock.request.file != file);
        self.counters.remove(&file);
        let (gone, queue) = self.queue.drain(..).partition(|request| request.file == file);
        self.queue = queue;
        let gone: Vec<LockRequest<u8>> = gone;
        gone.iter().map(|r| LockAction::Refused { holder: r.holder, ticket: r.ticket, file }).collect()
    }

    fn step(&mut self, file: FileId) -> Vec<LockAction<u8>> {
        self.locks.retain(|_, lock| lock.cells.iter().any(|&cell| cell != Cell::Free));
        let mut actions = Vec::new();
        let mut at = 0;
        while at < self.queue.len() {
            let request = self.queue[at];
            let overlapped = |r: &LockRequest<u8>| r.extent.overlaps(request.extent) && exclude(r, &request);
            let waits = self.locks.values().any(|lock| lock.meets(&request))
                || self.queue[..at].iter().any(overlapped);
            if waits || request.file != file {
                at += 1;
            } else {
                self.queue.remove(at);
                actions.push(self.grant(request));
            }
        }
        for (&id, lock) in &mut self.locks {
            let LockRequest { holder, grant, .. } = lock.request;
            let wants = |request: &&LockRequest<u8>| {
                let idle = |cell| lock.cells[cell] == Cell::Idle && has(request.extent, cell);
                exclude(&lock.request, request) && (0..CELLS).any(idle)
            };
            if lock.request.file != file || lock.asked.is_some() || grant == Grant::Exact {
                continue;
            }
            if let Some(first) = self.queue.iter().find(wants) {
                lock.asked = Some(first.extent.widened(self.unit));
                self.counters.entry(file).or_default().revocations += 1;
                actions.push(LockAction::Revoke { holder, file, lock: id, wanted: first.extent });
            }
        }
        self.check();
        actions
    }

    fn grant(&mut self, request: LockRequest<u8>) -> LockAction<u8> {
        let LockRequest { holder, ticket, file, mode, grant, mut extent } = request;
        if grant == Grant::Largest {
            extent = self.grow(&request);
            for lock in self.locks.values_mut() {
                let r = lock.request;
                if r.holder == holder && r.file == file && r.grant == Grant::Largest && r.mode <= mode {
                    (0..CELLS)
                        .filter(|&cell| has(extent, cell))
                        .for_each(|cell| lock.cells[cell] = Cell::Free);
                }
            }
            self.locks.retain(|_, lock| lock.cells.iter().any(|&cell| cell != Cell::Free));
        }
        self.counters(file).grants += 1;
        self.last += 1;
        let lock = LockId(self.last);
        let cells = std::array::from_fn(|cell| if has(extent, cell) { Cell::Idle } else { Cell::Free });
        self.locks.insert(lock, Lock { request, cells, asked: None });
        LockAction::Granted { holder, ticket, file, lock, extent, mode }
    }

    /// The request's extent, extended unit by unit as far as no other lock conflicts.
    fn grow(&self, request: &LockRequest<u8>) -> LockExtent {
        let open = |cell: usize| {
            let locked = self.locks.values().any(|lock| lock.excludes(request, cell));
            let waited = self.queue.iter().any(|r| has(r.extent, cell) && exclude(r, request));
            !locked && !waited
        };
        let unit = self.unit as usize;
        let (mut start, mut end) =
            (request.extent.start() as usize, request.extent.end().min(CELLS as u64) as usize);
        while start > 0 && (start - unit..start).all(open) {
            start -= unit;
        }
        while end < BYTES && (end..end + unit).all(open) {
            end += unit;
        }
        if end == BYTES && open(BYTES) {
            end = CELLS;
        }
        let end = if end == CELLS { u64::MAX } else { end as u64 };
        LockExtent::new(start as u64, end).expect("not empty")
    }

    /// No byte has two owners that exclude each other.
    fn check(&self) {
        for (id, a) in &self.locks {
            for (_, b) in self.locks.range(LockId(id.0 + 1)..) {
                let both = |cell| a.cells[cell] != Cell::Free && b.cells[cell] != Cell::Free;
                assert!(!exclude(&a.request, &b.request) || !(0..CELLS).any(both), "{a:?} and {b:?}");
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Request { holder: u8, file: u8, extent: LockExtent, mode: LockMode, grant: Grant, own: bool },
    Release { which: usize, gone: Vec<LockExtent>, answer: bool },
    Unlock { which: usize },
    Cancel { which: usize },
    HolderGone { holder: u8 },
    FileGone { file: u8 },
}

fn any_extent() -> impl Strategy<Value = LockExtent> {
    let some = (0..BYTES as u64, 1u64..10)
        .prop_map(|(start, len)| LockExtent::new(start, (start + len).min(BYTES as u64)).expect("not empty"));
    let tail = (0..BYTES as u64).prop_map(|start| LockExtent::new(start, u64::MAX).expect("not empty"));
    prop_oneof![12 => some, 1 => tail]
}

fn any_event() -> impl Strategy<Value = Event> {
    let mode = prop_oneof![Just(LockMode::Shared), Just(LockMode::Exclusive)];
    let grant = prop_oneof![1 => Just(Grant::Exact), 2 => Just(Grant::Largest)];
    let request = (0u8..4, 0u8..2, any_extent(), mode, grant, any::<bool>()).prop_map(
        |(holder, file, extent, mode, grant, own)| {
            let own = own && grant == Grant::Exact;
            Event::Request { holder, file, extent, mode, grant, own }
        },
    );
    let release = (any::<usize>(), prop::collection::vec(any_extent(), 0..3), any::<bool>())
        .prop_map(|(which, gone, answer)| Event::Release { which, gone, answer });
    prop_oneof![
        10 => request,
        8 => release,
        4 => any::<usize>().prop_map(|which| Event::Unlock { which }),
        2 => any::<usize>().prop_map(|which| Event::Cancel { which }),
        1 => (0u8..4).prop_map(|holder| Event::HolderGone { holder }),
        1 => (0u8..2).prop_map(|file| Event::FileGone { file }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_manager_does_what_the_naive_one_does(
        unit in prop_oneof![Just(1u64), Just(2), Just(3)],
        events in prop::collection::vec(any_event(), 1..60),
    ) {
        let mut real = LockManager::new(unit);
        let (locks, queue, counters) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let mut naive = Naive { unit, locks, queue, last: 0, counters };
        for (at, event) in (0u64..).zip(events) {
            let (done, expected) = match event {
                Event::Request { holder, file, extent, mode, grant, own } => {
                    let file = FileId(u64::from(file));
                    let request = LockRequest { holder, ticket: LockTicket(at), file, extent, mode, grant };
                    let done = if own { real.request_own(request) } else { real.request(request) };
                    (done.expect("within limits"), naive.request(request, own))
                }
                Event::Release { .. } | Event::Unlock { .. } if naive.locks.is_empty() => continue,
                Event::Release { which, gone, answer } => {
                    let (&lock, held) = naive.locks.iter().nth(which % naive.locks.len()).expect("one");
                    let LockRequest { holder, file, .. } = held.request;
                    let release = LockRelease { file, lock, gone, answer };
                    (real.release(holder, &release).expect("its own"), naive.release(&release))
                }
                Event::Unlock { which } => {
                    let (&lock, held) = naive.locks.iter().nth(which % naive.locks.len()).expect("one");
                    let LockRequest { holder, file, .. } = held.request;
                    let release = LockRelease { file, lock, gone: vec![LockExtent::ALL], answer: false };
                    (real.unlock(holder, lock).expect("its own"), naive.release(&release))
                }
                Event::Cancel { .. } if naive.queue.is_empty() => continue,
                Event::Cancel { which } => {
                    let LockRequest { holder, ticket, .. } = naive.queue[which % naive.queue.len()];
                    (real.cancel(holder, ticket), naive.cancel(holder, ticket))
                }
                Event::HolderGone { holder } => (real.holder_gone(holder), naive.holder_gone(holder)),
                Event::FileGone { file } => {
                    let file = FileId(u64::from(file));
                    (real.file_gone(file), naive.file_gone(file))
                }
            };
            prop_assert_eq!(done, expected);
            prop_assert_eq!(real.check_invariants(), Ok(()));
            prop_assert_eq!((real.locks(), real.waiting()), (naive.locks.len(), naive.queue.len()));
            for file in [FileId(0), FileId(1)] {
                let counted = naive.counters.get(&file).copied().unwrap_or_default();
                prop_assert_eq!(real.file_counters(file), counted);
            }
        }
        for holder in 0..4 {
            real.holder_gone(holder);
        }
        prop_assert!(real.is_empty());
    }
}
