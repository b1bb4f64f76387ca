//! Pretended ranks, nodes, files and messages.

use pario_buffer::UserBuffer;
use pario_domain::Method;
use pario_reference_model::Rng;
use pario_two_phase::{
    Access, Call, Claim, Costs, Coverage, Job, Messages, Node, Outcome, Seat, Seating, Settings, Shape, Step,
    Strategy, Tally, World,
};
use pario_types::{ErrorKind, Offset, Pos};
use pario_view::{Basic, Datatype, Pattern, View};
use std::cell::{RefCell, RefMut};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// A file of bytes that can be made to fail.
#[derive(Default)]
pub struct Disk {
    pub bytes: Vec<u8>,
    pub writes: u64,
    /// From so many accesses on, all fail with this.
    pub fail_after: Option<(u64, ErrorKind)>,
    pub failed: bool,
    pub refuse_locks: u32,
    locks: Rc<RefCell<Vec<Range<u64>>>>,
}

impl Disk {
    pub fn locked(&self) -> usize {
        self.locks.borrow().len()
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

pub struct Lock(Rc<RefCell<Vec<Range<u64>>>>, Range<u64>);

impl Drop for Lock {
    fn drop(&mut self) {
        let mut locks = self.0.borrow_mut();
        let index = locks.iter().position(|range| *range == self.1).expect("held");
        locks.swap_remove(index);
    }
}

#[derive(Default)]
struct Net {
    mail: HashMap<(u32, u32), VecDeque<Vec<u8>>>,
    /// What each node brought to each exchange.
    gathers: Vec<HashMap<u32, Vec<u64>>>,
    nodes: u32,
}

pub enum Transfer {
    Sent,
    Awaited(u32, usize),
    Gather(usize),
}

/// One rank's world.
struct Mine {
    rank: u32,
    node: u32,
    disk: Rc<RefCell<Disk>>,
    net: Rc<RefCell<Net>>,
    views: Rc<RefCell<Vec<Arc<View>>>>,
    gathers: usize,
    /// Where aggregators own blocks in turn: the block and the aggregators.
    owners: Option<(u64, Vec<u32>)>,
    /// Delays messages.
    rng: Rng,
}

impl Mine {
    /// That what is accessed is this rank's to access.
    fn own(&self, at: u64, len: usize) {
        let Some((unit, aggregators)) = &self.owners else { return };
        for block in at / unit..(at + len as u64).div_ceil(*unit) {
            assert_eq!(aggregators[block as usize % aggregators.len()], self.rank, "somebody else's block");
        }
    }
}

impl World for Mine {
    type Guard = Lock;

    fn kind(error: &ErrorKind) -> ErrorKind {
        *error
    }

    fn read(&mut self, parts: &mut [(u64, &mut [u8])]) -> Result<usize, ErrorKind> {
        let mut disk = self.disk.borrow_mut();
        disk.access()?;
        let mut done = 0;
        for (at, to) in parts {
            self.own(*at, to.len());
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

    fn write(&mut self, parts: &[(u64, &[u8])], locked: bool) -> Result<(), ErrorKind> {
        let mut disk = self.disk.borrow_mut();
        disk.access()?;
        disk.writes += 1;
        for (at, from) in parts {
            self.own(*at, from.len());
            let end = at + from.len() as u64;
            let held = disk.locks.borrow().iter().any(|l| l.start <= *at && end <= l.end);
            assert_eq!(held, locked);
            let size = disk.bytes.len().max(end as usize);
            disk.bytes.resize(size, 0);
            disk.bytes[*at as usize..end as usize].copy_from_slice(from);
        }
        Ok(())
    }

    fn is_hole(&mut self, range: Range<u64>) -> Result<bool, ErrorKind> {
        Ok(self.disk.borrow().bytes.len() as u64 <= range.start)
    }

    fn try_lock(&mut self, range: Range<u64>) -> Result<Option<Lock>, ErrorKind> {
        let mut disk = self.disk.borrow_mut();
        if disk.refuse_locks > 0 {
            disk.refuse_locks -= 1;
            return Ok(None);
        }
        let locks = disk.locks.clone();
        assert!(
            locks.borrow().iter().all(|l| l.end <= range.start || range.end <= l.start),
            "overlapping locks"
        );
        locks.borrow_mut().push(range.clone());
        Ok(Some(Lock(locks, range)))
    }

    fn direct(&mut self, _: &Job) -> Result<u64, ErrorKind> {
        unreachable!("these tests ask for windows")
    }

    fn view_of(&mut self, rank: u32, hash: u128) -> Result<Arc<View>, ErrorKind> {
        let view = self.views.borrow()[rank as usize].clone();
        assert_eq!(u128::from_le_bytes(view.hash().0), hash);
        Ok(view)
    }
}

impl Messages for Mine {
    type Error = ErrorKind;
    type Transfer = Transfer;

    fn gather(&mut self, mine: &[u64]) -> Result<Transfer, ErrorKind> {
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
                let (nodes, brought) = (net.nodes, &net.gathers[*index]);
                (brought.len() as u32 == nodes).then(|| {
                    (0..nodes).flat_map(|n| brought[&n].iter().flat_map(|w| w.to_ne_bytes())).collect()
                })
            }
        })
    }
}

/// What one rank does in a collective access.
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

    /// The memory after a read, and how many leading bytes were there.
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

/// What memory holds before a read.
const UNREAD: u8 = 0x5A;

pub fn filled(len: usize, byte: u8) -> Vec<u8> {
    vec![byte; len]
}

/// Deals the bytes of a file to ranks in random runs; some bytes, and some ranks, are left out.
pub fn deal(rng: &mut Rng, ranks: u32, size: u64) -> Vec<Rank> {
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

/// The settings of a scene.
pub struct Wish {
    pub strategy: Strategy,
    pub method: Method,
    pub unit: u64,
    pub servers: u32,
    pub window: u64,
    pub aggregators: Vec<u32>,
    pub one_writer: bool,
    pub owned: bool,
}

/// All ranks of a pretended file.
pub struct Scene {
    seats: Vec<Seat>,
    worlds: Vec<Mine>,
    settings: Arc<Settings>,
    coverage: Arc<Coverage>,
    disk: Rc<RefCell<Disk>>,
    views: Rc<RefCell<Vec<Arc<View>>>>,
    jobs: Vec<Option<Job>>,
    tally: Tally,
}

impl Scene {
    pub fn new(keys: &[u64], wish: Wish, seed: u64) -> Scene {
        let seating = Arc::new(Seating::by_key(keys));
        let ranks = keys.len() as u32;
        let capacity = wish.window as usize;
        let tables: Vec<Arc<Node>> = (0..seating.nodes())
            .map(|node| {
                let locals = seating.ranks_of(node).count() as u32;
                Arc::new(Node::create(Shape { ranks, locals, capacity }).unwrap())
            })
            .collect();
        let disk: Rc<RefCell<Disk>> = Rc::default();
        let net = Rc::new(RefCell::new(Net { nodes: seating.nodes(), ..Net::default() }));
        let views: Rc<RefCell<Vec<Arc<View>>>> = Rc::default();
        let node_of = |rank: u32| seating.node_of[rank as usize];
        let owners = (wish.owned && wish.method == Method::StaticCyclic)
            .then(|| (wish.unit, wish.aggregators.clone()));
        let seat = |rank| Seat::new(tables[node_of(rank) as usize].clone(), rank, seating.clone());
        let world = |rank| Mine {
            rank,
            node: node_of(rank),
            disk: disk.clone(),
            net: net.clone(),
            views: views.clone(),
            gathers: 0,
            owners: owners.clone(),
            rng: Rng::new(seed ^ u64::from(rank)),
        };
        let Wish { strategy, method, unit, servers, window, aggregators, one_writer, owned } = wish;
        let settings = Settings {
            strategy,
            method,
            unit,
            servers,
            window,
            aggregators,
            one_writer,
            owned,
            direct_piece: 1 << 30,
        };
        Scene {
            seats: (0..ranks).map(seat).collect(),
            worlds: (0..ranks).map(world).collect(),
            settings: Arc::new(settings),
            coverage: Arc::new(Coverage::new(seed)),
            disk,
            views,
            jobs: Vec::new(),
            tally: Tally::default(),
        }
    }

    pub fn ranks(&self) -> u32 {
        self.seats.len() as u32
    }

    pub fn disk(&self) -> RefMut<'_, Disk> {
        self.disk.borrow_mut()
    }

    /// The sum over all ranks of the last access.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// What a rank's memory holds after the last access.
    pub fn memory(&self, rank: usize) -> Vec<u8> {
        let Some(job) = &self.jobs[rank] else { return Vec::new() };
        let mut bytes = vec![0; job.len as usize];
        job.buffer.pack(0, &mut bytes);
        bytes
    }

    fn access(&self, write: bool, part: &Rank, view: &Arc<View>) -> Access<Mine> {
        let call = Call { write, form: part.form };
        let digest = self.settings.digest();
        let (claim, job) = match part.refusal {
            Some(kind) => (Claim::failed(call, digest, kind), None),
            None => {
                let len = part.bytes();
                let coverage = write.then_some(&*self.coverage);
                let claim = Claim::access(call, digest, view, Pos(0), len, false, coverage);
                let byte = |index| if write { part.byte(index) } else { UNREAD };
                let memory: Vec<u8> = (0..len).map(byte).collect();
                let buffer = UserBuffer::of(Vec::leak(memory));
                (claim, Some(Job { write, view: view.clone(), at: Pos(0), len, buffer }))
            }
        };
        Access::new(claim, job, self.settings.clone(), self.coverage.clone(), Costs::default())
    }

    /// Runs one collective access; every rank is stepped in random order until all are done.
    pub fn collective(&mut self, write: bool, parts: &[Rank], rng: &mut Rng) -> Vec<Outcome<ErrorKind>> {
        *self.views.borrow_mut() = parts.iter().map(|part| Arc::new(part.view())).collect();
        let views = self.views.borrow().clone();
        let mut accesses: Vec<_> = parts.iter().zip(&views).map(|(p, v)| self.access(write, p, v)).collect();
        let mut outcomes: Vec<Option<Outcome<ErrorKind>>> = parts.iter().map(|_| None).collect();
        for steps in 0.. {
            assert!(steps < 2_000_000, "nobody gets on");
            let rank = rng.below(parts.len() as u64) as usize;
            if outcomes[rank].is_some() {
                if outcomes.iter().all(Option::is_some) {
                    break;
                }
                continue;
            }
            if let Step::Done(outcome) =
                accesses[rank].step(&mut self.seats[rank], &mut self.worlds[rank]).unwrap()
            {
                outcomes[rank] = Some(outcome);
            }
        }
        self.tally = Tally::default();
        for access in &accesses {
            self.tally.rmw += access.tally.rmw;
            self.tally.locks += access.tally.locks;
            self.tally.messages += access.tally.messages;
        }
        self.jobs = accesses.into_iter().map(Access::into_job).collect();
        outcomes.into_iter().flatten().collect()
    }
}
