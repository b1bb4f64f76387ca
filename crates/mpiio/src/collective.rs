//! Collective accesses: the exchange machine with a real file and real ranks, and its three drivers.
//!
//! A blocking call steps the machine and waits in between. A split access is brought by its begin to where
//! all arguments are known to be good, and from there on runs in the background until its end. A nonblocking
//! one runs in the background altogether; where several nodes take part it is stepped from within the
//! program's own MPI calls instead, because only its thread may call MPI.

use std::ops::Range;
use std::sync::Arc;

use pario_mpi_host::{Message, Pending, TypeHandle};
use pario_posix::{OwnedRange, Tuning};
use pario_trace::{Choice, counters};
use pario_two_phase::{
    self as exchange, Access, Call, Claim, Costs, Messages, Outcome, Seat, Step, Strategy, Way, World,
};
use pario_types::ErrorKind;
use pario_view::View;

use crate::access::{Coordination, DataAccess, Direction, Positioning, Synchronism, ValueCoding};
use crate::data_shipping::ShippingSession;
use crate::error::{Error, Result};
use crate::file::File;
use crate::io_thread::{Completion, IoThread, held};
use crate::storage::{Storage, counted};
use crate::tracing::Traced;

/// The file and the other ranks, as the machine sees them.
pub(crate) struct RankContext {
    pub file: Arc<File>,
    /// Whether this rank keeps the windows that it accesses.
    pub owned: bool,
    pub coder: ValueCoding,
    pub base: usize,
    pub datatype: TypeHandle,
}

impl Messages for RankContext {
    type Error = Error;
    type Transfer = Message;

    fn gather(&mut self, mine: &[u64]) -> Result<Message> {
        self.file.stats.host_calls.add(1);
        self.file.group.messages().gather(mine)
    }

    fn send(&mut self, to: u32, bytes: Vec<u8>) -> Result<Message> {
        self.file.stats.host_calls.add(1);
        self.file.group.messages().send(to, bytes)
    }

    fn receive(&mut self, from: u32, len: usize) -> Result<Message> {
        self.file.stats.host_calls.add(1);
        self.file.group.messages().receive(from, len)
    }

    fn test(&mut self, transfer: &mut Message) -> Result<Option<Vec<u8>>> {
        Ok(transfer.test()?)
    }
}

impl World for RankContext {
    /// Nothing where there are no locks, or nobody else can have the file open.
    type Guard = Option<OwnedRange>;

    fn kind(error: &Error) -> ErrorKind {
        error.kind()
    }

    fn read(&mut self, parts: &mut [(u64, &mut [u8])]) -> Result<usize> {
        let storage = self.file.storage()?;
        counted(&self.file.stats, || storage.read_window(parts, self.owned))
    }

    fn write(&mut self, parts: &[(u64, &[u8])], locked: bool) -> Result<()> {
        let (storage, tuning) = (self.file.storage()?, self.file.tuning());
        counted(&self.file.stats, || storage.write_window(parts, locked, self.owned, &tuning))
    }

    fn is_hole(&mut self, range: Range<u64>) -> Result<bool> {
        self.file.storage()?.is_hole(range)
    }

    fn try_lock(&mut self, range: Range<u64>) -> Result<Option<Option<OwnedRange>>> {
        if self.file.tuning().sole {
            return Ok(Some(None));
        }
        self.file.storage()?.try_lock(range)
    }

    fn direct(&mut self, job: &exchange::Job) -> Result<u64> {
        self.run(job, self.shipping_session().as_deref())
    }

    fn view_of(&mut self, rank: u32, hash: u128) -> Result<Arc<View>> {
        held(&self.file.group.views).get(&hash).cloned().ok_or(Error::Value(
            ErrorKind::Intern,
            "the view of another rank is not known here",
            i64::from(rank),
        ))
    }
}

/// One collective access under way on this rank.
pub(crate) struct CollectiveAccess {
    access: Access<RankContext>,
    context: RankContext,
    write: bool,
    /// What is wrong with this rank's arguments; the others are told.
    refusal: Option<Error>,
}

impl CollectiveAccess {
    pub fn new(
        file: &Arc<File>,
        d: Direction,
        positioning: Positioning,
        synchronism: Synchronism,
        job: Result<DataAccess>,
    ) -> CollectiveAccess {
        let write = d == Direction::Write;
        let call = Call { write, form: positioning.number() | (synchronism as u32) << 4 };
        let settings = file.collective().of(write).clone();
        let coverage = file.group.coverage.clone();
        let costs = match settings.strategy {
            Strategy::Measured(_) => held(&file.costs).clone(),
            _ => Costs::default(),
        };
        let digest = settings.digest() ^ costs.digest();
        let (claim, task, context, refusal) = match job {
            Ok(DataAccess { task, context }) => {
                let context = RankContext { owned: settings.owned, ..context };
                let servers = file.is_on_partition();
                let plain = file.opened().and_then(Storage::plain);
                let unreadable = write && plain.is_some_and(|plain| !plain.can_sieve_writes());
                let alone =
                    file.tuning().atomic || unreadable || !matches!(context.coder, ValueCoding::Plain);
                let cover = (write && settings.strategy != Strategy::Direct).then_some(&*coverage);
                let claim = Claim::access(call, digest, &task.view, task.at, task.len, alone, cover);
                // Who does not want sieving does not want windows with holes either. Servers merge small pieces
                // themselves; and a window that is read, changed and written back would have to be kept from other
                // programs meanwhile, for which one rank would wait while others wait for it. Who owns windows reads
                // nothing.
                let no_sieving = file.tuning().sieve_write == pario_posix::Toggle::Disable;
                let apart = synchronism == Synchronism::Nonblocking && !file.group.is_on_one_node();
                let no_holes = !context.owned && (no_sieving || servers || apart);
                let claim = Claim { no_holes, ..claim };
                (claim, Some(task), context, None)
            }
            Err(e) => {
                let datatype = file.group.host.byte();
                let (coder, owned) = (ValueCoding::Plain, settings.owned);
                let context = RankContext { file: file.clone(), owned, coder, base: 0, datatype };
                (Claim::failed(call, digest, e.kind()), None, context, Some(e))
            }
        };
        file.stats.pieces.add(claim.pieces);
        CollectiveAccess {
            access: Access::new(claim, task, settings, coverage, costs),
            context,
            write,
            refusal,
        }
    }

    /// Whether the program's own functions take part, which only its own thread may call.
    fn is_bound_to_thread(&self) -> bool {
        matches!(self.context.coder, ValueCoding::User(..))
    }

    /// Goes on as far as possible.
    fn step(&mut self) -> Result<Step<Error>> {
        let file = self.context.file.clone();
        let mut seat = file.group.seat();
        self.step_at(&mut seat)
    }

    fn step_at(&mut self, seat: &mut Seat) -> Result<Step<Error>> {
        let step = self.access.step(seat, &mut self.context);
        if matches!(step, Ok(Step::Agreed)) && self.write {
            self.note_read_modify_write();
        }
        step
    }

    /// Where aggregators may read, change and write back, every writer of the file has to know it.
    fn note_read_modify_write(&self) {
        if matches!(self.access.way, Some(Way::Windows { covered: false, .. })) {
            self.context.file.retune(|now| Tuning { peers_sieve: true, ..now });
        }
    }

    /// Goes on, waiting for the others, until all are known to agree (`None`) or to the end.
    fn run(&mut self, may_call: bool, until_agreed: bool) -> Option<Result<u64>> {
        let file = self.context.file.clone();
        let mut wait = file.group.wait(may_call);
        loop {
            let waited = match self.step() {
                Ok(Step::Done(outcome)) => return Some(self.finish(outcome)),
                Ok(Step::Agreed) if until_agreed => return None,
                Ok(Step::Agreed) => Ok(()),
                Ok(Step::Waiting) => wait.wait_for_change(),
                Err(e) => {
                    file.group.break_up();
                    Err(e)
                }
            };
            if let Err(e) = waited {
                return Some(Err(e));
            }
        }
    }

    fn finish(&mut self, outcome: Outcome<Error>) -> Result<u64> {
        let file = &self.context.file;
        let result = match outcome {
            Outcome::Moved(bytes) => Ok(bytes),
            Outcome::Failed(e) => Err(e),
            Outcome::FailedElsewhere(rank, kind) => Err(Error::OtherRank { rank, kind }),
            Outcome::Refused(rank, kind) => Err(match self.refusal.take() {
                Some(mine) => mine,
                None if kind == ErrorKind::NotSame => {
                    Error::Usage(kind, "the ranks of the file are in different collective calls")
                }
                None => Error::OtherRank { rank, kind },
            }),
        };
        if let (true, true, Some(Way::Windows { partition, .. })) =
            (self.write, self.context.owned, &self.access.way)
            && let Some(storage) = file.opened()
        {
            storage.extend_written_end(partition.region().end);
        }
        if let Some(lesson) = &self.access.lesson {
            held(&file.costs).learn(lesson);
        }
        file.count(self.write, &self.access, self.context.shipping_session().as_deref(), &result);
        result
    }
}

impl File {
    /// A blocking collective access.
    pub(crate) fn access_collectively(
        self: &Arc<File>,
        d: Direction,
        positioning: Positioning,
        job: Result<DataAccess>,
    ) -> Result<u64> {
        if self.group.size == 1 {
            return self.access_single_rank(d, job);
        }
        self.group.drain_background()?;
        let mut operation = CollectiveAccess::new(self, d, positioning, Synchronism::Blocking, job);
        operation.run(true, false).unwrap_or(Ok(0))
    }

    /// Begins a split access: all ranks' arguments are good, or it fails on all. The rest is in the background
    /// where it can be.
    pub(crate) fn begin_collectively(
        self: &Arc<File>,
        d: Direction,
        positioning: Positioning,
        job: Result<DataAccess>,
        then: impl FnOnce(&Result<u64>) + Send + 'static,
    ) -> Result<Arc<Completion>> {
        self.group.drain_background()?;
        let job = match (self.group.size, job) {
            (1, Ok(job)) => return Ok(self.launch(job, then)),
            (_, job) => job,
        };
        let mut operation = CollectiveAccess::new(self, d, positioning, Synchronism::Split, job);
        match operation.run(true, true) {
            // Over already: nothing to do, or refused.
            Some(outcome) => {
                then(&outcome);
                outcome.map(|bytes| Completion::finished(Ok(bytes)))
            }
            None => Ok(self.continue_in_background(operation, then)),
        }
    }

    /// Starts a nonblocking collective access. Bad arguments are told at once, here; the other ranks learn of
    /// them with their requests.
    pub(crate) fn start_collectively(
        self: &Arc<File>,
        d: Direction,
        positioning: Positioning,
        job: Result<DataAccess>,
        then: impl FnOnce(&Result<u64>) + Send + 'static,
    ) -> Result<Arc<dyn Pending>> {
        let (job, refusal) = match job {
            Ok(job) if self.group.size == 1 => return Ok(self.launch(job, then)),
            Ok(job) => (Ok(job), None),
            Err(e) => (Err(Error::Deferred(e.kind())), Some(e)),
        };
        let operation = CollectiveAccess::new(self, d, positioning, Synchronism::Nonblocking, job);
        if let Some(e) = refusal {
            // Who is told now is not told again later.
            let outcome = Err(e);
            if let Some(traced) =
                Traced::begin(d, positioning, Coordination::Collective, Synchronism::Nonblocking)
            {
                traced.end(&self.trace_id, &outcome);
            }
            if self.group.size > 1 {
                self.start_operation(operation, |_| ());
            }
            return outcome.map(|_: u64| unreachable!("an error"));
        }
        Ok(self.start_operation(operation, then))
    }

    fn start_operation(
        self: &Arc<File>,
        operation: CollectiveAccess,
        then: impl FnOnce(&Result<u64>) + Send + 'static,
    ) -> Arc<dyn Pending> {
        match self.thread_for(&operation).is_some() {
            true => self.continue_in_background(operation, then),
            false => self.queue_access(operation, Box::new(then)),
        }
    }

    /// The thread that can do an operation without calling the host.
    fn thread_for(&self, operation: &CollectiveAccess) -> Option<&IoThread> {
        match self.group.is_on_one_node() && !operation.is_bound_to_thread() {
            true => self.group.worker(),
            false => None,
        }
    }

    /// Has the rest of an operation done: by the group's thread if that needs no call of the host, else here.
    fn continue_in_background(
        self: &Arc<File>,
        mut operation: CollectiveAccess,
        then: impl FnOnce(&Result<u64>) + Send + 'static,
    ) -> Arc<Completion> {
        let Some(thread) = self.thread_for(&operation) else {
            let outcome = operation.run(true, false).unwrap_or(Ok(0));
            then(&outcome);
            return Completion::finished(outcome);
        };
        counters().background.add(1);
        let busy = self.group.begin_background();
        let guard = self.begin_access();
        thread.submit(Box::new(move || {
            let outcome = crate::io_thread::catch_panic(|| operation.run(false, false).unwrap_or(Ok(0)));
            then(&outcome);
            drop((operation, busy, guard));
            outcome
        }))
    }

    /// Queues an operation to be stepped whenever the program is inside an MPI call that looks at it.
    fn queue_access(self: &Arc<File>, operation: CollectiveAccess, then: OnComplete) -> Arc<dyn Pending> {
        counters().background.add(1);
        let ticket = Completion::running();
        let flight = QueuedAccess { operation, ticket: ticket.clone(), then: Some(then) };
        self.group.queue(Box::new(flight));
        Arc::new(QueuedRequest { file: self.clone(), ticket })
    }

    /// A collective access of a file with one rank.
    fn access_single_rank(self: &Arc<File>, d: Direction, job: Result<DataAccess>) -> Result<u64> {
        let job = job?;
        let stats = &self.stats;
        match d {
            Direction::Read => stats.collective_reads.add(1),
            Direction::Write => stats.collective_writes.add(1),
        }
        stats.decide(
            d == Direction::Write,
            Choice {
                strategy: "independent",
                partitioning: "",
                aggregators: 1,
                why: "the file has one rank".into(),
            },
        );
        job.run()
    }

    /// Puts what an access took into the file's statistics.
    fn count(
        &self,
        write: bool,
        access: &Access<RankContext>,
        shipping_session: Option<&ShippingSession>,
        result: &Result<u64>,
    ) {
        let (stats, tally) = (&self.stats, &access.tally);
        let calls = if write { &stats.collective_writes } else { &stats.collective_reads };
        calls.add(1);
        self.count_moved(write, *result.as_ref().unwrap_or(&0));
        stats.rounds.add(tally.windows);
        stats.messages.add(tally.messages);
        stats.message_bytes.add(tally.message_bytes);
        stats.copied_bytes.add(tally.copied);
        stats.rmw.add(tally.rmw);
        stats.lock_requests.add(tally.locks);
        stats.io_ns.add(tally.io.as_nanos() as u64);
        stats.exchange_ns.add(access.elapsed.saturating_sub(tally.io).as_nanos() as u64);
        stats.errors.add(u64::from(result.is_err()));
        let collective = self.collective();
        let settings = collective.of(write);
        match &access.way {
            Some(Way::Windows { partition, choice, .. }) => {
                let aggregators = partition.aggregators();
                stats.window_bytes.see(2 * settings.window * u64::from(aggregators));
                let (strategy, partitioning) = (collective.word, settings.method.word());
                stats.decide(write, Choice { strategy, partitioning, aggregators, why: choice.why.clone() });
            }
            Some(Way::Direct(choice)) => {
                let why = choice.why.clone();
                let strategy = if self.is_on_partition() { "server-directed" } else { "independent" };
                let (partitioning, aggregators) = ("", self.group.size);
                let direct = Choice { strategy, partitioning, aggregators, why: why.clone() };
                let shipped = shipping_session
                    .map(|shipping_session| Choice { why, ..shipping_session.choice.clone() });
                stats.decide(write, shipped.unwrap_or(direct));
            }
            Some(Way::Nothing | Way::Refused { .. }) | None => {}
        }
    }
}

/// What is done with the outcome.
type OnComplete = Box<dyn FnOnce(&Result<u64>) + Send>;

/// An operation that is stepped from the program's MPI calls.
pub(crate) struct QueuedAccess {
    operation: CollectiveAccess,
    ticket: Arc<Completion>,
    then: Option<OnComplete>,
}

impl QueuedAccess {
    /// Goes on as far as possible; true once it is over.
    pub fn step(&mut self) -> bool {
        let file = self.operation.context.file.clone();
        let Some(mut seat) = file.group.free_seat() else { return false };
        let step = self.operation.step_at(&mut seat);
        drop(seat);
        let outcome = match step {
            Ok(Step::Done(outcome)) => self.operation.finish(outcome),
            Ok(Step::Agreed) => return self.step(),
            Ok(Step::Waiting) => return false,
            Err(e) => {
                file.group.break_up();
                Err(e)
            }
        };
        if let Some(then) = self.then.take() {
            then(&outcome);
        }
        self.ticket.finish(outcome);
        true
    }
}

/// The request for such an operation.
struct QueuedRequest {
    file: Arc<File>,
    ticket: Arc<Completion>,
}

impl Pending for QueuedRequest {
    fn poll(&self) -> Option<u64> {
        self.file.group.progress();
        self.ticket.poll()
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
