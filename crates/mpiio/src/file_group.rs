//! The ranks that opened a file together, and how they agree.
//!
//! A group has a duplicate of the program's communicator and, on each node, a segment of shared memory. Every
//! collective call that is not a data access is one allgather of a few words through the segments. All ranks learn
//! from it whether any rank failed, whether the arguments that must match do match, and the maximum of other values.
//! So no rank returns early, and no rank waits for one that has failed. On one node the allgather does not call the
//! host MPI.
//!
//! Creating a group takes several operations of the host MPI. After a close the group stays attached to the program's
//! communicator, and the next open on that communicator reuses it.

use parking_lot::{Mutex, MutexGuard};
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock, Weak};

use pario_activity::{CollectiveCall, FileRecord};
use pario_mpi_host::{Comm, Host, Message, OwnedComm, Reduce};
use pario_two_phase::{
    Allgather, CoverageHash, NodeMap, NodeMessages, NodeSegment, RankState, SegmentShape, WORDS_PER_RANK,
};
use pario_types::{ErrorKind, digest};
use pario_view::View;

use crate::activity;
use crate::collective::QueuedAccess;
use crate::env::env;
use crate::error::{Error, Result};
use crate::in_flight::{InFlight, InFlightGuard};
use crate::io_thread::IoThread;
use crate::rank_identity::RankIdentity;
use crate::shared_counter::SharedWord;
use crate::wait::RankWait;

/// The ranks of one open file.
pub(crate) struct FileGroup {
    pub host: &'static Host,
    comm: Comm,
    /// The communicator of the nodes' leaders, if there are several nodes and this rank leads one.
    leaders: Option<Comm>,
    owned: Mutex<Vec<OwnedComm>>,
    pub rank: u32,
    pub size: u32,
    rank_state: Mutex<RankState>,
    node: Arc<NodeSegment>,
    node_map: Arc<NodeMap>,
    /// The process ids of this node's ranks.
    pids: Vec<u32>,
    /// The host names of the nodes.
    pub names: Vec<String>,
    pub coverage: Arc<CoverageHash>,
    /// A digest of the host and process id of every rank.
    identities: u64,
    /// The views of other ranks, by hash.
    pub views: Mutex<HashMap<u128, Arc<View>>>,
    worker: OnceLock<Option<IoThread>>,
    /// The collective accesses on the I/O thread.
    background: Arc<InFlight>,
    /// The collective accesses that the program's MPI calls step, in order.
    queued: Mutex<VecDeque<Box<QueuedAccess>>>,
    pool: Weak<IdleGroups>,
    /// A number that all ranks of the group know and no other group has.
    id: u64,
    /// The record of this rank's collective calls on the files of the group.
    activity: Option<FileRecord>,
}

/// A value that must be equal on all ranks, and the error text if it is not.
pub(crate) struct MustMatch(pub u64, pub &'static str);

/// The groups of a communicator that have no open file.
#[derive(Default)]
struct IdleGroups(Mutex<Vec<Arc<FileGroup>>>);

/// The communicators of dropped groups. The next open frees them, since a drop must not call MPI.
static RETIRED_COMMS: Mutex<Vec<OwnedComm>> = Mutex::new(Vec::new());

/// The groups with queued accesses.
static WITH_QUEUE: Mutex<Vec<Weak<FileGroup>>> = Mutex::new(Vec::new());

/// The group that was acquired last.
static LATEST: Mutex<Weak<FileGroup>> = Mutex::new(Weak::new());

/// Makes progress in the host MPI and in queued accesses. A caller that waits inside an MPI call for a background
/// access calls this.
pub(crate) fn make_progress() {
    let latest = LATEST.lock().upgrade();
    if let Some(group) = latest {
        group.comm.make_progress();
    }
    progress_all();
}

/// Steps the queued accesses of all files. A rank that waits inside an MPI call does this, because the rank that it
/// waits for may need another queued access first.
pub(crate) fn progress_all() {
    let groups: Vec<Arc<FileGroup>> = match WITH_QUEUE.try_lock() {
        Some(mut waiting) => {
            waiting.retain(|group| group.upgrade().is_some_and(|group| !group.queue_is_empty()));
            waiting.iter().filter_map(Weak::upgrade).collect()
        }
        None => return,
    };
    groups.iter().for_each(|group| group.progress());
}

/// The largest window of a segment, unless the environment asks for more. Unused pages cost no memory.
const CAPACITY: u64 = 16 << 20;

/// The largest window if the whole segment must be reserved.
const SMALL_CAPACITY: usize = 1 << 20;

impl FileGroup {
    /// Returns an idle group of the communicator, or creates one. Collective.
    pub fn acquire(host: &'static Host, comm: Comm) -> Result<Arc<FileGroup>> {
        for gone in std::mem::take(&mut *RETIRED_COMMS.lock()) {
            gone.free()?;
        }
        let known =
            comm.attached()?.and_then(|any: Arc<dyn Any + Send + Sync>| any.downcast::<IdleGroups>().ok());
        let pool = match known {
            Some(pool) => pool,
            None => {
                let pool = Arc::new(IdleGroups::default());
                comm.attach(pool.clone())?;
                pool
            }
        };
        let idle = pool.0.lock().pop();
        let group = match idle {
            Some(group) => group,
            None => Arc::new(FileGroup::create(host, comm, Arc::downgrade(&pool))?),
        };
        *LATEST.lock() = Arc::downgrade(&group);
        if let Some(activity) = group.activity() {
            activity.begin_collective(pario_activity::OPEN);
        }
        Ok(group)
    }

    /// Returns the group to the communicator's idle groups after the close.
    pub fn release(self: Arc<FileGroup>) {
        if let Some(activity) = self.activity() {
            activity.set_path(b"");
        }
        if self.node.is_broken() {
            return;
        }
        if let Some(pool) = self.pool.upgrade() {
            pool.0.lock().push(self);
        }
    }

    fn create(host: &'static Host, comm: Comm, pool: Weak<IdleGroups>) -> Result<FileGroup> {
        let owned = comm.dup()?;
        let comm = *owned;
        let (rank, size) = (comm.rank()?, comm.size()?);
        let identities = RankIdentity::gather(comm)?;
        let shared = NodeMap::by_key(&identities.iter().map(|p| p.node).collect::<Vec<_>>());
        let capacity = env().hints().cb_buffer_size().max(CAPACITY) as usize;
        let (node_map, node) =
            match node_segment(comm, rank, &shared, capacity, identities[rank as usize].random)? {
                Some(node) => (shared, node),
                None => {
                    // Some rank cannot map its node's segment, so every rank counts as a node of its own.
                    let shape = SegmentShape { ranks: size, locals: 1, capacity };
                    (
                        NodeMap { node_of: (0..size).collect() },
                        NodeSegment::private(shape).map_err(no_memory)?,
                    )
                }
            };
        let (node_map, node) = (Arc::new(node_map), Arc::new(node));
        let mut all = vec![owned];
        let leads = |rank: u32| node_map.ranks_of(node_map.node_of[rank as usize]).next() == Some(rank);
        let leaders = match node_map.nodes() {
            0 | 1 => None,
            _ => comm.split(leads(rank).then_some(0))?,
        };
        let leaders = leaders.map(|owned| {
            let comm = *owned;
            all.push(owned);
            comm
        });
        let my_node = node_map.node_of[rank as usize];
        let identity = |rank: u32| &identities[rank as usize];
        let first_of = |node| node_map.ranks_of(node).next().unwrap_or(0);
        let id = identities[0].random.max(1);
        Ok(FileGroup {
            host,
            comm,
            leaders,
            owned: Mutex::new(all),
            rank,
            size,
            rank_state: Mutex::new(RankState::new(node.clone(), rank, node_map.clone())),
            node,
            pids: node_map.ranks_of(my_node).map(|rank| identity(rank).pid).collect(),
            names: (0..node_map.nodes()).map(|node| identity(first_of(node)).name.clone()).collect(),
            coverage: Arc::new(CoverageHash::new(identities[0].random)),
            identities: digest(identities.iter().flat_map(|p| [p.node, u64::from(p.pid)])),
            node_map,
            views: Mutex::default(),
            worker: OnceLock::new(),
            background: Arc::default(),
            queued: Mutex::default(),
            pool,
            id,
            activity: activity::record(host).and_then(|record| record.add_group(id, rank, size)),
        })
    }

    /// A number that all ranks of the group know and no other group has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The record of this rank's collective calls, if there is one.
    #[inline]
    pub fn activity(&self) -> Option<&FileRecord> {
        self.activity.as_ref()
    }

    /// The process ids of this node's ranks.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// The ranks of this node and their process ids.
    pub fn local_ranks(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let my_node = self.node_map.node_of[self.rank as usize];
        self.node_map.ranks_of(my_node).zip(self.pids.iter().copied())
    }

    /// The collective call that this rank has begun last.
    pub fn last_collective(&self) -> Option<CollectiveCall> {
        self.activity().map(FileRecord::last_collective)
    }

    /// The duplicate of the program's communicator.
    pub fn comm(&self) -> Comm {
        self.comm
    }

    /// The node of each rank.
    pub fn node_map(&self) -> &NodeMap {
        &self.node_map
    }

    /// Whether all ranks share memory.
    pub fn is_on_one_node(&self) -> bool {
        self.node_map.nodes() == 1
    }

    /// The largest window of the segment.
    pub fn capacity(&self) -> u64 {
        self.node.shape().capacity as u64
    }

    /// A digest of the processes that cache blocks of this size, if these ranks own them cyclically.
    pub fn cache_owners_digest(&self, aggregators: &[u32], block: u64) -> u64 {
        digest([self.identities, block].into_iter().chain(aggregators.iter().map(|rank| u64::from(*rank))))
    }

    /// A word of the node's segment, for the shared file pointer.
    pub fn shared_word(&self) -> Arc<dyn SharedWord> {
        Arc::new(SegmentWord(self.node.clone()))
    }

    /// The state of this rank in collective calls, for one call at a time.
    pub fn rank_state(&self) -> MutexGuard<'_, RankState> {
        self.rank_state.lock()
    }

    /// A wait for the other ranks in the collective call that was begun last. `may_call`: this thread may call the host
    /// MPI.
    pub fn wait(&self, may_call: bool) -> RankWait<'_> {
        self.wait_in(self.last_collective(), may_call)
    }

    /// A wait for the other ranks in a collective call.
    pub fn wait_in(&self, call: Option<CollectiveCall>, may_call: bool) -> RankWait<'_> {
        RankWait::new(self, &self.node, may_call.then_some(self.comm), call)
    }

    /// The thread for collective accesses in the background that need no call of the host MPI.
    pub fn worker(&self) -> Option<&IoThread> {
        self.worker.get_or_init(|| IoThread::start("pario-collective")).as_ref()
    }

    /// Counts a collective access on the I/O thread until the guard is dropped.
    pub fn begin_background(&self) -> InFlightGuard {
        self.background.begin()
    }

    /// Queues a collective access to be stepped by [`FileGroup::progress`].
    pub fn queue(self: &Arc<FileGroup>, access: Box<QueuedAccess>) {
        self.queued.lock().push_back(access);
        let mut waiting = WITH_QUEUE.lock();
        if !waiting.iter().any(|group| std::ptr::eq(group.as_ptr(), Arc::as_ptr(self))) {
            waiting.push(Arc::downgrade(self));
        }
        drop(waiting);
        self.progress();
    }

    /// Steps the queued accesses. A recursive call, by way of the host MPI, does nothing.
    pub fn progress(&self) {
        let Some(mut queued) = self.queued.try_lock() else { return };
        while let Some(access) = queued.front_mut() {
            if !access.step() {
                return;
            }
            queued.pop_front();
        }
    }

    fn queue_is_empty(&self) -> bool {
        self.queued.try_lock().is_some_and(|queued| queued.is_empty())
    }

    /// The state of this rank, if no other call uses it.
    pub fn free_rank_state(&self) -> Option<MutexGuard<'_, RankState>> {
        self.rank_state.try_lock()
    }

    /// Waits for the collective accesses in the background, so that all collective calls of a file run in order.
    pub fn drain_background(&self) -> Result<()> {
        self.background.wait();
        let mut wait = self.wait(true);
        loop {
            self.progress();
            if self.queued.lock().is_empty() {
                return Ok(());
            }
            wait.wait_for_change()?;
        }
    }

    /// Marks the group as broken after a failure in the middle of a collective call, so that no rank waits for this
    /// one.
    pub fn mark_broken(&self) {
        self.node.mark_broken();
    }

    /// The words of every rank, in rank order; at most [`WORDS_PER_RANK`] each. Collective.
    fn allgather_words(&self, words: &[u64]) -> Result<Vec<[u64; WORDS_PER_RANK]>> {
        self.drain_background()?;
        let mut rank_state = self.rank_state();
        let mut messages = self.messages();
        let mut allgather = Allgather::start(&mut rank_state, words);
        let mut wait = self.wait(true);
        while !allgather.step(&rank_state, &mut messages)? {
            wait.wait_for_change()?;
        }
        Ok((0..self.size).map(|rank| allgather.words(&rank_state, rank)).collect())
    }

    /// The messages to other nodes.
    pub fn messages(&self) -> HostMessages<'_> {
        HostMessages { group: self }
    }

    /// Tells all ranks whether all of them succeeded. Collective.
    pub fn agree<T>(&self, mine: Result<T>) -> Result<T> {
        self.agree_on(mine, &[], &mut [])
    }

    /// As [`FileGroup::agree`]. The values of `same` must also be equal on all ranks (else [`ErrorKind::NotSame`]),
    /// and each word of `most` becomes the maximum over all ranks.
    pub fn agree_on<T>(&self, mine: Result<T>, same: &[MustMatch], most: &mut [u64]) -> Result<T> {
        if self.size == 1 {
            return mine;
        }
        let mut words = vec![mine.as_ref().map_or_else(|e| e.kind().code(), |_| 0)];
        words.extend(same.iter().map(|MustMatch(value, _)| *value));
        words.extend_from_slice(most);
        let all = self.allgather_words(&words)?;
        let values = &all[0][1..1 + same.len()];
        for (i, word) in most.iter_mut().enumerate() {
            *word = all.iter().map(|words| words[1 + same.len() + i]).max().unwrap_or(*word);
        }
        let mine = mine?;
        let failed = (0..).zip(&all).find_map(|(rank, words)| Some((rank, ErrorKind::from_code(words[0])?)));
        if let Some((rank, kind)) = failed {
            return Err(Error::OtherRank { rank, kind });
        }
        for (i, (value, MustMatch(_, text))) in values.iter().zip(same).enumerate() {
            if all.iter().any(|words| words[1 + i] != *value) {
                return Err(Error::Usage(ErrorKind::NotSame, text));
            }
        }
        Ok(mine)
    }

    /// Rank 0 runs `work`; all ranks get its `N` words or its error. Collective.
    pub fn root_bcast<const N: usize>(&self, work: impl FnOnce() -> Result<[u64; N]>) -> Result<[u64; N]> {
        const { assert!(N < WORDS_PER_RANK, "one word is for the error") };
        let mine = if self.rank == 0 { work() } else { Ok([0; N]) };
        if self.size == 1 {
            return mine;
        }
        let mut words = vec![mine.as_ref().map_or_else(|e| e.kind().code(), |_| 0)];
        words.extend_from_slice(mine.as_ref().unwrap_or(&[0; N]));
        let all = self.allgather_words(&words)?;
        mine?;
        match ErrorKind::from_code(all[0][0]) {
            Some(kind) => Err(Error::OtherRank { rank: 0, kind }),
            None => Ok(std::array::from_fn(|i| all[0][i + 1])),
        }
    }

    /// The sum of `n` over the ranks before this one, and over all ranks. Collective.
    pub fn exscan_and_sum(&self, n: u64) -> Result<(u64, u64)> {
        if self.size == 1 {
            return Ok((0, n));
        }
        let all = self.allgather_words(&[n])?;
        let before = all[..self.rank as usize].iter().map(|words| words[0]);
        let (before, total) = (sum(before), sum(all.iter().map(|words| words[0])));
        Ok((before, total))
    }

    /// The sum and the maximum of each number over all ranks. Collective.
    pub fn reduce_sum_and_max(&self, numbers: &[u64]) -> Result<(Vec<u64>, Vec<u64>)> {
        let (mut sums, mut peaks) = (Vec::new(), Vec::new());
        for part in numbers.chunks(WORDS_PER_RANK) {
            let all = self.allgather_words(part)?;
            for i in 0..part.len() {
                sums.push(sum(all.iter().map(|words| words[i])));
                peaks.push(all.iter().map(|words| words[i]).max().unwrap_or(0));
            }
        }
        Ok((sums, peaks))
    }

    /// Makes the view of each rank known to all ranks, if there are several nodes: by its hash if all ranks know the
    /// view, else by its bytes. Collective.
    pub fn share_view(&self, view: &Arc<View>) -> Result<()> {
        if self.is_on_one_node() {
            return Ok(());
        }
        let hash = u128::from_le_bytes(view.hash().0);
        let all = self.allgather_words(&[(hash >> 64) as u64, hash as u64])?;
        let hashes = all.iter().map(|words| u128::from(words[0]) << 64 | u128::from(words[1]));
        let mut known = std::mem::take(&mut *self.views.lock());
        known.insert(hash, view.clone());
        let mut missing = [u64::from(hashes.clone().any(|hash| !known.contains_key(&hash)))];
        self.agree_on(Ok(()), &[], &mut missing)?;
        if known.len() > MAX_VIEWS {
            let current: Vec<u128> = hashes.collect();
            known.retain(|hash, _| current.contains(hash));
        }
        if missing[0] > 0 {
            for bytes in self.allgather_bytes(&view.to_bytes())? {
                let view = View::from_bytes(&bytes)?;
                known.insert(u128::from_le_bytes(view.hash().0), Arc::new(view));
            }
        }
        *self.views.lock() = known;
        Ok(())
    }

    /// The `N` bytes of every rank, in rank order. `N` is a small multiple of 8. Collective.
    pub fn allgather_array<const N: usize>(&self, mine: &[u8; N]) -> Result<Vec<[u8; N]>> {
        let words: Vec<u64> = mine.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let all = self.allgather_words(&words)?;
        let bytes =
            |words: &[u64; WORDS_PER_RANK]| std::array::from_fn(|i| words[i / 8].to_ne_bytes()[i % 8]);
        Ok(all.iter().map(bytes).collect())
    }

    /// Broadcasts bytes of rank 0; all ranks know their number. Calls the host MPI. Collective.
    pub fn bcast_from_root(&self, bytes: &mut [u8]) -> Result<()> {
        Ok(self.comm.bcast(bytes, 0)?)
    }

    /// The bytes of every rank, of any length, in rank order. Calls the host MPI. Collective.
    fn allgather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.comm.allgather_u64(&[mine.len() as u64])?;
        let longest = lengths.iter().copied().max().unwrap_or(0) as usize;
        let mut padded = mine.to_vec();
        padded.resize(longest, 0);
        let all = self.comm.allgather(&padded)?;
        let part = |(rank, len): (usize, &u64)| all[rank * longest..rank * longest + *len as usize].to_vec();
        Ok(lengths.iter().enumerate().map(part).collect())
    }
}

/// The largest number of views of other ranks that are kept.
const MAX_VIEWS: usize = 256;

impl Drop for FileGroup {
    fn drop(&mut self) {
        RETIRED_COMMS.lock().append(&mut self.owned.lock());
    }
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::wrapping_add)
}

fn no_memory(_: std::io::Error) -> Error {
    Error::Usage(ErrorKind::NoMem, "no memory for the segment that the ranks of a node share")
}

/// The segment of this rank's node: its leader creates it, and the other ranks open it. The result is `None` on all
/// ranks if any rank fails. Collective.
fn node_segment(
    comm: Comm,
    rank: u32,
    node_map: &NodeMap,
    capacity: usize,
    random: u64,
) -> Result<Option<NodeSegment>> {
    let locals = node_map.ranks_of(node_map.node_of[rank as usize]).count() as u32;
    let shape = SegmentShape { ranks: node_map.node_of.len() as u32, locals, capacity };
    if locals == 1 && node_map.nodes() == shape.ranks {
        return Ok(Some(NodeSegment::private(shape).map_err(no_memory)?));
    }
    if let Some(node) = create_or_open_segment(comm, rank, node_map, shape, &|| NodeSegment::create(shape))? {
        return Ok(Some(node));
    }
    // A named segment is reserved at once, so it is small.
    let shape = SegmentShape { capacity: capacity.min(SMALL_CAPACITY), ..shape };
    create_or_open_segment(comm, rank, node_map, shape, &|| NodeSegment::create_named(shape, random))
}

fn create_or_open_segment(
    comm: Comm,
    rank: u32,
    node_map: &NodeMap,
    shape: SegmentShape,
    make: &dyn Fn() -> std::io::Result<NodeSegment>,
) -> Result<Option<NodeSegment>> {
    let leader = node_map.ranks_of(node_map.node_of[rank as usize]).next().unwrap_or(rank);
    let made = if rank == leader { make().ok() } else { None };
    let ticket = made.as_ref().and_then(|node| node.handle().ok());
    let mine = ticket.map_or([0; 4], |t| [1, u64::from(t.pid), u64::from(t.fd), t.inode]);
    let all = comm.allgather_u64(&mine)?;
    let mut node = made.or_else(|| {
        let [known, pid, fd, inode] = all.as_chunks::<4>().0.get(leader as usize)?;
        let ticket = pario_two_phase::SegmentHandle { pid: *pid as u32, fd: *fd as u32, inode: *inode };
        (*known == 1).then(|| NodeSegment::open(&ticket, shape).ok())?
    });
    let mut missing = [u64::from(node.is_none())];
    comm.allreduce_u64(&mut missing, Reduce::Max)?;
    if let Some(node) = &mut node {
        node.stop_sharing();
    }
    Ok(if missing[0] == 0 { node } else { None })
}

/// The spare word of a segment.
struct SegmentWord(Arc<NodeSegment>);

impl SharedWord for SegmentWord {
    fn word(&self) -> &std::sync::atomic::AtomicU64 {
        self.0.user_word()
    }
}

/// The messages of one rank to other nodes, through the host MPI.
pub(crate) struct HostMessages<'a> {
    group: &'a FileGroup,
}

/// The tag of the messages of a collective access.
const TAG: u16 = 1;

impl NodeMessages for HostMessages<'_> {
    type Error = Error;
    type Transfer = Message;

    fn allgather(&mut self, mine: &[u64]) -> Result<Message> {
        let Some(leaders) = self.group.leaders else {
            return Err(Error::Usage(ErrorKind::Intern, "only the leaders of nodes exchange words"));
        };
        let node_map = &self.group.node_map;
        let lengths: Vec<usize> =
            (0..node_map.nodes()).map(|node| node_map.ranks_of(node).count() * WORDS_PER_RANK * 8).collect();
        let bytes = mine.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(leaders.start_allgather(bytes, &lengths)?)
    }

    fn send(&mut self, to: u32, bytes: Vec<u8>) -> Result<Message> {
        Ok(self.group.comm.send(to, TAG, bytes)?)
    }

    fn receive(&mut self, from: u32, len: usize) -> Result<Message> {
        Ok(self.group.comm.receive(from, TAG, len)?)
    }

    fn test(&mut self, transfer: &mut Message) -> Result<Option<Vec<u8>>> {
        Ok(transfer.test()?)
    }
}
