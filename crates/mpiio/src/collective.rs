//! Collective accesses: the three drivers of the two-phase machine.
//!
//! A blocking call steps the machine and waits in between. The begin of a split access steps it until all arguments
//! are known to be valid; the rest runs in the background until the end call. A nonblocking access runs in the
//! background from the start. If several nodes take part, the program's own MPI calls step a nonblocking access
//! instead, because only the program's thread may call MPI.

use std::sync::Arc;
use std::time::Instant;

use pario_activity::CollectiveCall;
use pario_mpi_host::Pending;
use pario_trace::{StrategyChoice, counters};
use pario_two_phase::{
    AccessMachine, AccessStep, AccessSummary, CallKind, CollectiveOutcome, CollectivePlan, CostHistory,
    RankState, TransferStrategy,
};
use pario_types::AccessTuning;
use pario_types::ErrorKind;

use crate::access::{Coordination, DataAccess, Direction, Positioning, Synchronism, ValueCoding};
use crate::data_shipping::ShippingSession;
use crate::error::{Error, Result};
use crate::file::MpiFile;
use crate::file_group::FileGroup;
use crate::io_thread::{Completion, IoThread};
use crate::missing_ranks::{LOOK_INTERVAL, MissingRanksWatch};
use crate::rank_context::RankContext;
use crate::tracing::TracedAccess;

/// One collective access in progress on this rank.
pub(crate) struct CollectiveAccess {
    machine: AccessMachine<RankContext>,
    context: RankContext,
    write: bool,
    /// The error in this rank's arguments. The other ranks learn its kind.
    refusal: Option<Error>,
    /// The program's call.
    call: Option<CollectiveCall>,
}

impl CollectiveAccess {
    pub fn new(
        file: &Arc<MpiFile>,
        d: Direction,
        positioning: Positioning,
        synchronism: Synchronism,
        job: Result<DataAccess>,
    ) -> CollectiveAccess {
        let write = d == Direction::Write;
        let call = CallKind { write, form: positioning.number() | (synchronism as u32) << 4 };
        let settings = file.collective().of(write).clone();
        let coverage = file.group.coverage.clone();
        let costs = match settings.strategy {
            TransferStrategy::CostBased(_) => file.costs.lock().clone(),
            _ => CostHistory::default(),
        };
        let digest = settings.digest() ^ costs.digest();
        let (summary, task, context, refusal) = match job {
            Ok(DataAccess { task, context }) => {
                let context = RankContext { owned: settings.exclusive_domains, ..context };
                let servers = file.is_on_partition();
                let unreadable = write && file.opened().is_some_and(|storage| !storage.can_sieve_writes());
                let alone =
                    file.tuning().atomic || unreadable || !matches!(context.coder, ValueCoding::Plain);
                let cover =
                    (write && settings.strategy != TransferStrategy::Independent).then_some(&*coverage);
                let summary =
                    AccessSummary::of_access(call, digest, &task.view, task.at, task.len, alone, cover);
                // Disabling data sieving also disables windows with holes. Partitions have none either: servers merge
                // small pieces themselves, and a read-modify-write would need a lock that one rank waits for while
                // other ranks wait for that rank. An aggregator that owns its windows does not read before it writes.
                let no_sieving = file.tuning().sieve_write == pario_types::Toggle::Disable;
                let apart = synchronism == Synchronism::Nonblocking && !file.group.is_on_one_node();
                let no_holes = !context.owned && (no_sieving || servers || apart);
                let summary = AccessSummary { no_holes, ..summary };
                (summary, Some(task), context, None)
            }
            Err(e) => {
                let datatype = file.group.host.byte();
                let (coder, owned) = (ValueCoding::Plain, settings.exclusive_domains);
                let context = RankContext { file: file.clone(), owned, coder, base: 0, datatype };
                (AccessSummary::failed(call, digest, e.kind()), None, context, Some(e))
            }
        };
        file.stats.pieces.add(summary.pieces);
        if let Some(task) = &task {
            file.note_bytes(task.len);
        }
        CollectiveAccess {
            machine: AccessMachine::new(summary, task, settings, coverage, costs),
            context,
            write,
            refusal,
            call: file.group.last_collective(),
        }
    }

    /// Whether the program's conversion functions take part. Only the program's own thread may call them.
    fn is_bound_to_thread(&self) -> bool {
        matches!(self.context.coder, ValueCoding::User(..))
    }

    /// Steps the machine as far as possible without waiting.
    fn step(&mut self) -> Result<AccessStep<Error>> {
        let file = self.context.file.clone();
        let mut rank_state = file.group.rank_state();
        self.step_at(&mut rank_state)
    }

    fn step_at(&mut self, rank_state: &mut RankState) -> Result<AccessStep<Error>> {
        let step = self.machine.step(rank_state, &mut self.context);
        if matches!(step, Ok(AccessStep::Agreed)) && self.write {
            self.note_read_modify_write();
        }
        step
    }

    /// Notes that aggregators may do read-modify-write, which all writers of the file must take into account.
    fn note_read_modify_write(&self) {
        if matches!(self.machine.plan, Some(CollectivePlan::TwoPhase { covered: false, .. })) {
            self.context.file.retune(|now| AccessTuning { peers_sieve: true, ..now });
        }
    }

    /// Steps the machine and waits for the other ranks, to the end, or until all ranks agree (then the result is
    /// `None`).
    fn run(&mut self, may_call: bool, until_agreed: bool) -> Option<Result<u64>> {
        let file = self.context.file.clone();
        let mut wait = file.group.wait_in(self.call, may_call);
        loop {
            let step = self.step();
            wait.before_io = self.machine.plan.is_none();
            let waited = match step {
                Ok(AccessStep::Done(outcome)) => return Some(self.finish(outcome)),
                Ok(AccessStep::Agreed) if until_agreed => return None,
                Ok(AccessStep::Agreed) => Ok(()),
                Ok(AccessStep::Waiting) => wait.wait_for_change(),
                Err(e) => {
                    file.group.mark_broken();
                    Err(e)
                }
            };
            if let Err(e) = waited {
                return Some(Err(e));
            }
        }
    }

    fn finish(&mut self, outcome: CollectiveOutcome<Error>) -> Result<u64> {
        let file = &self.context.file;
        let result = match outcome {
            CollectiveOutcome::Moved(bytes) => Ok(bytes),
            CollectiveOutcome::Failed(e) => Err(e),
            CollectiveOutcome::FailedOnPeer(rank, kind) => Err(Error::OtherRank { rank, kind }),
            CollectiveOutcome::Refused(rank, kind) => Err(match self.refusal.take() {
                Some(mine) => mine,
                None if kind == ErrorKind::NotSame => {
                    Error::Usage(kind, "the ranks of the file are in different collective calls")
                }
                None => Error::OtherRank { rank, kind },
            }),
        };
        if let (true, true, Some(CollectivePlan::TwoPhase { domains, .. })) =
            (self.write, self.context.owned, &self.machine.plan)
            && let Some(storage) = file.opened()
        {
            storage.extend_written_end(domains.region().end);
        }
        if let Some(sample) = &self.machine.sample {
            file.costs.lock().record(sample);
        }
        file.count(self.write, &self.machine, self.context.shipping_session().as_deref(), &result);
        result
    }
}

impl MpiFile {
    /// A blocking collective access.
    pub(crate) fn access_collectively(
        self: &Arc<MpiFile>,
        d: Direction,
        positioning: Positioning,
        job: Result<DataAccess>,
    ) -> Result<u64> {
        if self.group.size == 1 {
            return self.access_single_rank(d, job);
        }
        self.group.drain_background()?;
        let mut access = CollectiveAccess::new(self, d, positioning, Synchronism::Blocking, job);
        access.run(true, false).unwrap_or(Ok(0))
    }

    /// Begins a split access. It fails on all ranks if the arguments of one are invalid. The rest runs in the
    /// background if possible.
    pub(crate) fn begin_collectively(
        self: &Arc<MpiFile>,
        d: Direction,
        positioning: Positioning,
        job: Result<DataAccess>,
        on_complete: impl FnOnce(&Result<u64>) + Send + 'static,
    ) -> Result<Arc<Completion>> {
        self.group.drain_background()?;
        let job = match (self.group.size, job) {
            (1, Ok(job)) => return Ok(self.launch(job, on_complete)),
            (_, job) => job,
        };
        let mut access = CollectiveAccess::new(self, d, positioning, Synchronism::Split, job);
        match access.run(true, true) {
            // The access has ended: it moved nothing, or a rank refused it.
            Some(outcome) => {
                on_complete(&outcome);
                outcome.map(|bytes| Completion::finished(Ok(bytes)))
            }
            None => Ok(self.continue_in_background(access, on_complete)),
        }
    }

    /// Starts a nonblocking collective access. A rank with invalid arguments gets its error at once; the other ranks
    /// get an error with their requests.
    pub(crate) fn start_collectively(
        self: &Arc<MpiFile>,
        d: Direction,
        positioning: Positioning,
        job: Result<DataAccess>,
        on_complete: impl FnOnce(&Result<u64>) + Send + 'static,
    ) -> Result<Arc<dyn Pending>> {
        let (job, refusal) = match job {
            Ok(job) if self.group.size == 1 => return Ok(self.launch(job, on_complete)),
            Ok(job) => (Ok(job), None),
            Err(e) => (Err(Error::Deferred(e.kind())), Some(e)),
        };
        let access = CollectiveAccess::new(self, d, positioning, Synchronism::Nonblocking, job);
        if let Some(e) = refusal {
            // This rank returns the error now, so it is not recorded for sync or close.
            let outcome = Err(e);
            if let Some(traced) =
                TracedAccess::begin(d, positioning, Coordination::Collective, Synchronism::Nonblocking)
            {
                traced.end(&self.trace_id, &outcome);
            }
            if self.group.size > 1 {
                self.start_access(access, |_| ());
            }
            return outcome.map(|_: u64| unreachable!("an error"));
        }
        Ok(self.start_access(access, on_complete))
    }

    fn start_access(
        self: &Arc<MpiFile>,
        access: CollectiveAccess,
        on_complete: impl FnOnce(&Result<u64>) + Send + 'static,
    ) -> Arc<dyn Pending> {
        if self.thread_for(&access).is_some() {
            self.continue_in_background(access, on_complete)
        } else {
            self.queue_access(access, Box::new(on_complete))
        }
    }

    /// The thread that can do the access without calling the host MPI.
    fn thread_for(&self, access: &CollectiveAccess) -> Option<&IoThread> {
        if self.group.is_on_one_node() && !access.is_bound_to_thread() { self.group.worker() } else { None }
    }

    /// Completes an access on the group's thread if that needs no call of the host MPI, else here.
    fn continue_in_background(
        self: &Arc<MpiFile>,
        mut access: CollectiveAccess,
        on_complete: impl FnOnce(&Result<u64>) + Send + 'static,
    ) -> Arc<Completion> {
        let Some(thread) = self.thread_for(&access) else {
            let outcome = access.run(true, false).unwrap_or(Ok(0));
            on_complete(&outcome);
            return Completion::finished(outcome);
        };
        counters().background.add(1);
        let counted = self.group.begin_background();
        let guard = self.begin_access();
        thread.submit(Box::new(move || {
            let outcome = crate::io_thread::catch_panic(|| access.run(false, false).unwrap_or(Ok(0)));
            on_complete(&outcome);
            drop((access, counted, guard));
            outcome
        }))
    }

    /// Queues an access. The program's MPI calls on its request step it.
    fn queue_access(
        self: &Arc<MpiFile>,
        access: CollectiveAccess,
        on_complete: OnComplete,
    ) -> Arc<dyn Pending> {
        counters().background.add(1);
        let completion = Completion::running();
        let (on_complete, watch) = (Some(on_complete), None);
        let queued = QueuedAccess { access, completion: completion.clone(), on_complete, watch };
        self.group.queue(Box::new(queued));
        Arc::new(QueuedRequest { file: self.clone(), completion })
    }

    /// A collective access to a file with one rank.
    fn access_single_rank(self: &Arc<MpiFile>, d: Direction, job: Result<DataAccess>) -> Result<u64> {
        let job = job?;
        let stats = &self.stats;
        match d {
            Direction::Read => stats.collective_reads.add(1),
            Direction::Write => stats.collective_writes.add(1),
        }
        stats.decide(
            d == Direction::Write,
            StrategyChoice {
                strategy: "independent",
                partitioning: "",
                aggregators: 1,
                why: "the file has one rank".into(),
            },
        );
        job.run()
    }

    /// Adds an access to the file's statistics.
    fn count(
        &self,
        write: bool,
        machine: &AccessMachine<RankContext>,
        shipping_session: Option<&ShippingSession>,
        result: &Result<u64>,
    ) {
        let (stats, counted) = (&self.stats, &machine.counters);
        let calls = if write { &stats.collective_writes } else { &stats.collective_reads };
        calls.add(1);
        self.count_moved(write, *result.as_ref().unwrap_or(&0));
        stats.rounds.add(counted.windows);
        stats.messages.add(counted.messages);
        stats.message_bytes.add(counted.message_bytes);
        stats.copied_bytes.add(counted.copied);
        stats.rmw.add(counted.rmw);
        stats.lock_requests.add(counted.locks);
        stats.server_requests.add(counted.server_requests);
        stats.server_bytes.add(counted.server_bytes);
        stats.io_ns.add(counted.io.as_nanos() as u64);
        stats.exchange_ns.add(machine.elapsed.saturating_sub(counted.io).as_nanos() as u64);
        stats.errors.add(u64::from(result.is_err()));
        let collective = self.collective();
        let settings = collective.of(write);
        match &machine.plan {
            Some(CollectivePlan::TwoPhase { domains, reason, .. }) => {
                let aggregators = domains.aggregators();
                stats.window_bytes.see(2 * settings.window * u64::from(aggregators));
                let (strategy, partitioning) = (collective.word, settings.method.name());
                stats.decide(
                    write,
                    StrategyChoice { strategy, partitioning, aggregators, why: reason.clone() },
                );
            }
            Some(CollectivePlan::Independent(reason)) => {
                let why = reason.clone();
                let strategy = if self.is_on_partition() { "server-directed" } else { "independent" };
                let (partitioning, aggregators) = ("", self.group.size);
                let direct = StrategyChoice { strategy, partitioning, aggregators, why: why.clone() };
                let shipped = shipping_session
                    .map(|shipping_session| StrategyChoice { why, ..shipping_session.choice.clone() });
                stats.decide(write, shipped.unwrap_or(direct));
            }
            Some(CollectivePlan::Nothing | CollectivePlan::Refused { .. }) | None => {}
        }
    }
}

/// A function that gets the outcome.
type OnComplete = Box<dyn FnOnce(&Result<u64>) + Send>;

/// An access that the program's MPI calls step.
pub(crate) struct QueuedAccess {
    access: CollectiveAccess,
    completion: Arc<Completion>,
    on_complete: Option<OnComplete>,
    /// The wait for other ranks, and the time of the next look at them.
    watch: Option<(MissingRanksWatch, Instant)>,
}

impl QueuedAccess {
    /// Looks at the other ranks from time to time while the access waits for them.
    fn watch(&mut self, group: &FileGroup) {
        let now = Instant::now();
        match &mut self.watch {
            Some((_, due)) if now < *due => {}
            Some((watch, due)) => {
                watch.look(group, self.access.machine.plan.is_none());
                *due = now + LOOK_INTERVAL;
            }
            None => {
                let watch = MissingRanksWatch::begin(group, self.access.call);
                self.watch = watch.map(|watch| (watch, now + LOOK_INTERVAL));
            }
        }
    }

    /// Steps the access as far as possible without waiting; true once it has ended.
    pub fn step(&mut self) -> bool {
        let file = self.access.context.file.clone();
        let Some(mut rank_state) = file.group.free_rank_state() else { return false };
        let step = self.access.step_at(&mut rank_state);
        drop(rank_state);
        let outcome = match step {
            Ok(AccessStep::Done(outcome)) => self.access.finish(outcome),
            Ok(AccessStep::Agreed) => return self.step(),
            Ok(AccessStep::Waiting) => {
                self.watch(&file.group);
                return false;
            }
            Err(e) => {
                file.group.mark_broken();
                Err(e)
            }
        };
        if let Some((watch, _)) = &self.watch {
            watch.end(&file.group);
        }
        if let Some(on_complete) = self.on_complete.take() {
            on_complete(&outcome);
        }
        self.completion.finish(outcome);
        true
    }
}

/// The request of a queued access.
struct QueuedRequest {
    file: Arc<MpiFile>,
    completion: Arc<Completion>,
}

impl Pending for QueuedRequest {
    fn poll(&self) -> Option<u64> {
        self.file.group.progress();
        self.completion.poll()
    }

    fn wait(&self) -> u64 {
        let mut wait = self.file.group.wait(true);
        loop {
            if let Some(bytes) = self.poll() {
                return bytes;
            }
            if wait.wait_for_change().is_err() {
                return 0;
            }
        }
    }
}
