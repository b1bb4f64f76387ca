//! Simulated ranks, nodes, files and messages.

use pario_buffer::UserBuffer;
use pario_domain::PartitioningMethod;
use pario_file_backend::{BackendError, FileBackend, LockAttempt, RangeLock, StorageFacts};
use pario_reference_model::Rng;
use pario_two_phase::{
    AccessCounters, AccessMachine, AccessRequest, AccessStep, AccessSummary, CallKind, CollectiveIo,
    CollectiveOutcome, CostHistory, CoverageHash, NodeMap, NodeMessages, NodeSegment, RankState,
    SegmentShape, TransferStrategy, TwoPhaseSettings, WindowFile,
};
use pario_types::{AccessTuning, ErrorKind, Offset, Pos};
use pario_view::{Basic, Datatype, Pattern, View};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

/// A file in memory whose accesses can be made to fail.
#[derive(Default)]
pub struct Disk {
    pub bytes: Vec<u8>,
    pub writes: u64,
    /// After this many accesses, all accesses fail with this error.
    pub fail_after: Option<(u64, ErrorKind)>,
    pub failed: bool,
    pub refuse_locks: u32,
    locks: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Disk {
    pub fn locked(&self) -> usize {
        self.locks.lock().unwrap().len()
    }

    fn access(&mut self) -> Result<(), ErrorKind> {
        match &mut self.fail_after {
            Some((0, kind)) => {
                self.failed = true;
                Err(*kind)
            }
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

struct Lock(Arc<Mutex<Vec<Range<u64>>>>, Range<u64>);

impl RangeLock for Lock {
    fn release(self: Box<Self>) -> Result<(), BackendError> {
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut locks = self.0.lock().unwrap();
        let index = locks.iter().position(|range| *range == self.1).expect("held");
        locks.swap_remove(index);
    }
}

#[derive(Default)]
struct Net {
    mail: HashMap<(u32, u32), VecDeque<Vec<u8>>>,
    /// The words of each node, for each allgather.
    gathers: Vec<HashMap<u32, Vec<u64>>>,
    nodes: u32,
}

pub enum Transfer {
    Sent,
    Awaited(u32, usize),
    Gather(usize),
}

/// The file as one rank accesses it.
struct RankFile {
    rank: u32,
    disk: Arc<Mutex<Disk>>,
    /// The block size and the aggregators, if aggregators own blocks cyclically.
    owners: Option<(u64, Vec<u32>)>,
}

/// The file and the messages of one rank.
struct RankIo {
    rank: u32,
    node: u32,
    file: RankFile,
    net: Rc<RefCell<Net>>,
    views: Rc<RefCell<Vec<Arc<View>>>>,
    gathers: usize,
    /// Delays messages.
    rng: Rng,
}

impl RankFile {
    /// Checks that this rank owns the accessed range.
    fn check_owner(&self, at: u64, len: usize) {
        let Some((unit, aggregators)) = &self.owners else { return };
        for block in at / unit..(at + len as u64).div_ceil(*unit) {
            assert_eq!(aggregators[block as usize % aggregators.len()], self.rank, "a block of another rank");
        }
    }
}

fn failed(kind: ErrorKind) -> BackendError {
    BackendError { kind, errno: None, at: None, done: 0, text: "a simulated failure".into() }
}

impl FileBackend for RankFile {
    fn read_window(&self, parts: &mut [(u64, &mut [u8])], _: bool) -> Result<usize, BackendError> {
        let mut disk = self.disk.lock().unwrap();
        disk.access().map_err(failed)?;
        let mut done = 0;
        for (at, to) in parts {
            self.check_owner(*at, to.len());
            let there = disk.bytes.get(*at as usize..).unwrap_or_default();
            let got = there.len().min(to.len());
            to[..got].copy_from_slice(&there[..got]);
            done += got;
            if got < to.len() {
                break;
            }
        }
        Ok(done)
    }

    fn write_window(
        &self,
        parts: &[(u64, &[u8])],
        locked: bool,
        _: bool,
        _: &AccessTuning,
    ) -> Result<(), BackendError> {
        let mut disk = self.disk.lock().unwrap();
        disk.access().map_err(failed)?;
        disk.writes += 1;
        for (at, from) in parts {
            self.check_owner(*at, from.len());
            let end = at + from.len() as u64;
            let held = disk.locks.lock().unwrap().iter().any(|l| l.start <= *at && end <= l.end);
            assert_eq!(held, locked);
            let size = disk.bytes.len().max(end as usize);
            disk.bytes.resize(size, 0);
            disk.bytes[*at as usize..end as usize].copy_from_slice(from);
        }
        Ok(())
    }

    fn is_hole(&self, range: Range<u64>) -> Result<bool, BackendError> {
        Ok(self.disk.lock().unwrap().bytes.len() as u64 <= range.start)
    }

    fn try_lock(&self, range: Range<u64>) -> Result<LockAttempt, BackendError> {
        let mut disk = self.disk.lock().unwrap();
        if disk.refuse_locks > 0 {
            disk.refuse_locks -= 1;
            return Ok(LockAttempt::Busy);
        }
        let locks = disk.locks.clone();
        let mut held = locks.lock().unwrap();
        assert!(held.iter().all(|l| l.end <= range.start || range.end <= l.start), "overlapping locks");
        held.push(range.clone());
        drop(held);
        Ok(LockAttempt::Locked(Box::new(Lock(locks, range))))
    }

    fn read(
        &self,
        _: &View,
        _: Pos,
        _: &UserBuffer,
        _: u64,
        _: u64,
        _: &AccessTuning,
    ) -> Result<u64, BackendError> {
        unreachable!("these tests access windows only")
    }

    fn write(
        &self,
        _: &View,
        _: Pos,
        _: &UserBuffer,
        _: u64,
        _: u64,
        _: &AccessTuning,
    ) -> Result<u64, BackendError> {
        unreachable!("these tests access windows only")
    }

    fn lock_whole_file(&self) -> Result<Option<Box<dyn RangeLock>>, BackendError> {
        unreachable!("only agents lock the whole file")
    }

    fn size(&self) -> Result<u64, BackendError> {
        unreachable!("a collective access does not ask for the size")
    }

    fn set_size(&self, _: u64) -> Result<(), BackendError> {
        unreachable!("a collective access does not set the size")
    }

    fn sync(&self) -> Result<(), BackendError> {
        unreachable!("a collective access does not sync")
    }

    fn facts(&self) -> StorageFacts {
        unreachable!("the settings are given")
    }
}

impl CollectiveIo for RankIo {
    fn kind(error: &ErrorKind) -> ErrorKind {
        *error
    }

    fn file(&mut self) -> Result<WindowFile<'_>, ErrorKind> {
        let exclusive = self.file.owners.is_some();
        Ok(WindowFile { backend: &self.file, tuning: AccessTuning::default(), exclusive })
    }

    fn access_independently(&mut self, _: &AccessRequest) -> Result<u64, ErrorKind> {
        unreachable!("these tests ask for windows")
    }

    fn view_of(&mut self, rank: u32, hash: u128) -> Result<Arc<View>, ErrorKind> {
        let view = self.views.borrow()[rank as usize].clone();
        assert_eq!(u128::from_le_bytes(view.hash().0), hash);
        Ok(view)
    }
}

impl NodeMessages for RankIo {
    type Error = ErrorKind;
    type Transfer = Transfer;

    fn allgather(&mut self, mine: &[u64]) -> Result<Transfer, ErrorKind> {
        let mut net = self.net.borrow_mut();
        let index = self.gathers;
        self.gathers += 1;
        if net.gathers.len() <= index {
            net.gathers.push(HashMap::new());
        }
        net.gathers[index].insert(self.node, mine.to_vec());
        Ok(Transfer::Gather(index))
    }

    fn send(&mut self, to: u32, bytes: Vec<u8>) -> Result<Transfer, ErrorKind> {
        self.net.borrow_mut().mail.entry((self.rank, to)).or_default().push_back(bytes);
        Ok(Transfer::Sent)
    }

    fn receive(&mut self, from: u32, len: usize) -> Result<Transfer, ErrorKind> {
        Ok(Transfer::Awaited(from, len))
    }

    fn test(&mut self, transfer: &mut Transfer) -> Result<Option<Vec<u8>>, ErrorKind> {
        if self.rng.below(3) == 0 {
            return Ok(None);
        }
        let mut net = self.net.borrow_mut();
        Ok(match transfer {
            Transfer::Sent => Some(Vec::new()),
            Transfer::Awaited(from, len) => {
                let found = net.mail.get_mut(&(*from, self.rank)).and_then(VecDeque::pop_front);
                if let Some(bytes) = &found {
                    assert_eq!(bytes.len(), *len, "both sides know the length of a message");
                }
                found
            }
            Transfer::Gather(index) => {
                let (nodes, words) = (net.nodes, &net.gathers[*index]);
                (words.len() as u32 == nodes).then(|| {
                    (0..nodes).flat_map(|n| words[&n].iter().flat_map(|w| w.to_ne_bytes())).collect()
                })
            }
        })
    }
}

/// The part of one rank in a collective access.
#[derive(Clone)]
pub struct Rank {
    runs: Vec<(u64, u64)>,
    seed: u8,
    refusal: Option<ErrorKind>,
    form: u32,
}

impl Rank {
    pub fn writer(runs: &[(u64, u64)], seed: u8) -> Rank {
        Rank { runs: runs.to_vec(), seed, refusal: None, form: 0 }
    }

    pub fn reader(other: &Rank) -> Rank {
        other.clone()
    }

    pub fn refusing(kind: ErrorKind) -> Rank {
        Rank { runs: Vec::new(), seed: 0, refusal: Some(kind), form: 0 }
    }

    pub fn in_call(self, form: u32) -> Rank {
        Rank { form, ..self }
    }

    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|(_, len)| len).sum()
    }

    fn byte(&self, index: u64) -> u8 {
        (index as u8).wrapping_mul(31).wrapping_add(self.seed)
    }

    fn offsets(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|(at, len)| *at..at + len)
    }

    pub fn write_to(&self, file: &mut Vec<u8>) {
        for (index, offset) in (0..).zip(self.offsets()) {
            if file.len() as u64 <= offset {
                file.resize(offset as usize + 1, 0);
            }
            file[offset as usize] = self.byte(index);
        }
    }

    /// The memory after a read, and the number of leading bytes before the end of the file.
    pub fn read_from(&self, file: &[u8]) -> (Vec<u8>, u64) {
        let visible = self.offsets().take_while(|offset| *offset < file.len() as u64).count() as u64;
        let byte = |(index, offset): (u64, u64)| if index < visible { file[offset as usize] } else { UNREAD };
        ((0..).zip(self.offsets()).map(byte).collect(), visible)
    }

    fn view(&self) -> View {
        let blocks = self.runs.iter().map(|(at, len)| (*len, *at as i64)).collect();
        let child = Arc::new(Datatype::basic(Basic::BYTE));
        let end = self.runs.last().map_or(0, |(at, len)| (at + len) as i64);
        let shape = pario_view::Shape::Hindexed { blocks, child };
        View::new(Offset(0), Pattern::native(&Datatype { lb: 0, extent: end, shape }).unwrap())
    }
}

/// The content of memory before a read.
const UNREAD: u8 = 0x5A;

pub fn filled(len: usize, byte: u8) -> Vec<u8> {
    vec![byte; len]
}

/// Assigns the bytes of a file to ranks in random runs. Some bytes, and some ranks, are left out.
pub fn random_parts(rng: &mut Rng, ranks: u32, size: u64) -> Vec<Rank> {
    let mut parts: Vec<Rank> =
        (0..ranks).map(|r| Rank::writer(&[], (rng.below(200) as u8).wrapping_add(r as u8))).collect();
    let holes = [0, 0, 3, 30][rng.below(4) as usize];
    let longest = [1, 5, 40, 300][rng.below(4) as usize];
    let mut at = rng.below(60);
    while at < size {
        let len = (1 + rng.below(longest)).min(size - at);
        if rng.below(100) >= holes {
            let runs = &mut parts[rng.below(u64::from(ranks)) as usize].runs;
            match runs.last_mut() {
                Some(last) if last.0 + last.1 == at => last.1 += len,
                _ => runs.push((at, len)),
            }
        }
        at += len;
    }
    parts
}

/// The settings of a simulation.
pub struct SimulationSettings {
    pub strategy: TransferStrategy,
    pub method: PartitioningMethod,
    pub unit: u64,
    pub servers: u32,
    pub window: u64,
    pub aggregators: Vec<u32>,
    pub single_writer: bool,
    pub exclusive_domains: bool,
}

/// All ranks of a simulated file.
pub struct Simulation {
    rank_states: Vec<RankState>,
    ios: Vec<RankIo>,
    settings: Arc<TwoPhaseSettings>,
    coverage: Arc<CoverageHash>,
    disk: Arc<Mutex<Disk>>,
    views: Rc<RefCell<Vec<Arc<View>>>>,
    requests: Vec<Option<AccessRequest>>,
    counters: AccessCounters,
}

impl Simulation {
    pub fn new(keys: &[u64], wanted: SimulationSettings, seed: u64) -> Simulation {
        let node_map = Arc::new(NodeMap::by_key(keys));
        let ranks = keys.len() as u32;
        let capacity = wanted.window as usize;
        let segments: Vec<Arc<NodeSegment>> = (0..node_map.nodes())
            .map(|node| {
                let locals = node_map.ranks_of(node).count() as u32;
                Arc::new(NodeSegment::create(SegmentShape { ranks, locals, capacity }).unwrap())
            })
            .collect();
        let disk: Arc<Mutex<Disk>> = Arc::default();
        let net = Rc::new(RefCell::new(Net { nodes: node_map.nodes(), ..Net::default() }));
        let views: Rc<RefCell<Vec<Arc<View>>>> = Rc::default();
        let node_of = |rank: u32| node_map.node_of[rank as usize];
        let owners = (wanted.exclusive_domains && wanted.method == PartitioningMethod::StaticCyclic)
            .then(|| (wanted.unit, wanted.aggregators.clone()));
        let rank_state =
            |rank| RankState::new(segments[node_of(rank) as usize].clone(), rank, node_map.clone());
        let io = |rank| RankIo {
            rank,
            node: node_of(rank),
            file: RankFile { rank, disk: disk.clone(), owners: owners.clone() },
            net: net.clone(),
            views: views.clone(),
            gathers: 0,
            rng: Rng::new(seed ^ u64::from(rank)),
        };
        let SimulationSettings {
            strategy,
            method,
            unit,
            servers,
            window,
            aggregators,
            single_writer,
            exclusive_domains,
        } = wanted;
        let settings = TwoPhaseSettings {
            strategy,
            method,
            unit,
            servers,
            window,
            aggregators,
            single_writer,
            exclusive_domains,
            large_piece: 1 << 30,
        };
        Simulation {
            rank_states: (0..ranks).map(rank_state).collect(),
            ios: (0..ranks).map(io).collect(),
            settings: Arc::new(settings),
            coverage: Arc::new(CoverageHash::new(seed)),
            disk,
            views,
            requests: Vec::new(),
            counters: AccessCounters::default(),
        }
    }

    pub fn ranks(&self) -> u32 {
        self.rank_states.len() as u32
    }

    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    /// The sums over all ranks of the last access.
    pub fn counters(&self) -> AccessCounters {
        self.counters
    }

    /// The memory of a rank after the last access.
    pub fn memory(&self, rank: usize) -> Vec<u8> {
        let Some(request) = &self.requests[rank] else { return Vec::new() };
        let mut bytes = vec![0; request.len as usize];
        request.buffer.pack(0, &mut bytes);
        bytes
    }

    fn access(&self, write: bool, part: &Rank, view: &Arc<View>) -> AccessMachine<RankIo> {
        let call = CallKind { write, form: part.form };
        let digest = self.settings.digest();
        let (summary, request) = match part.refusal {
            Some(kind) => (AccessSummary::failed(call, digest, kind), None),
            None => {
                let len = part.bytes();
                let coverage = write.then_some(&*self.coverage);
                let summary = AccessSummary::of_access(call, digest, view, Pos(0), len, false, coverage);
                let byte = |index| if write { part.byte(index) } else { UNREAD };
                let memory: Vec<u8> = (0..len).map(byte).collect();
                let buffer = UserBuffer::of(Vec::leak(memory));
                (summary, Some(AccessRequest { write, view: view.clone(), at: Pos(0), len, buffer }))
            }
        };
        AccessMachine::new(
            summary,
            request,
            self.settings.clone(),
            self.coverage.clone(),
            CostHistory::default(),
        )
    }

    /// Runs one collective access. Ranks are stepped in random order until all are finished.
    pub fn collective(
        &mut self,
        write: bool,
        parts: &[Rank],
        rng: &mut Rng,
    ) -> Vec<CollectiveOutcome<ErrorKind>> {
        *self.views.borrow_mut() = parts.iter().map(|part| Arc::new(part.view())).collect();
        let views = self.views.borrow().clone();
        let mut accesses: Vec<_> = parts.iter().zip(&views).map(|(p, v)| self.access(write, p, v)).collect();
        let mut outcomes: Vec<Option<CollectiveOutcome<ErrorKind>>> = parts.iter().map(|_| None).collect();
        for steps in 0.. {
            assert!(steps < 2_000_000, "no progress");
            let rank = rng.below(parts.len() as u64) as usize;
            if outcomes[rank].is_some() {
                if outcomes.iter().all(Option::is_some) {
                    break;
                }
                continue;
            }
            if let AccessStep::Done(outcome) =
                accesses[rank].step(&mut self.rank_states[rank], &mut self.ios[rank]).unwrap()
            {
                outcomes[rank] = Some(outcome);
            }
        }
        self.counters = AccessCounters::default();
        for access in &accesses {
            self.counters.rmw += access.counters.rmw;
            self.counters.locks += access.counters.locks;
            self.counters.messages += access.counters.messages;
        }
        self.requests = accesses.into_iter().map(AccessMachine::into_request).collect();
        outcomes.into_iter().flatten().collect()
    }
}
