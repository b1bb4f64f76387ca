//! One collective access on one rank, as a state machine.
//!
//! The ranks exchange summaries of their parts, run the plan that follows from the summaries, and exchange
//! their results.

use pario_buffer::UserBuffer;
use pario_types::{ErrorKind, Pos};
use pario_view::View;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::allgather::Allgather;
use crate::cost::{CostHistory, CostSample};
use crate::counters::AccessCounters;
use crate::coverage::CoverageHash;
use crate::io::CollectiveIo;
use crate::plan::{AccessTotals, CollectivePlan, TwoPhaseSettings, plan_access};
use crate::rank_state::RankState;
use crate::rounds::TwoPhaseRounds;
use crate::summary::AccessSummary;

/// The part of one rank in a collective access.
pub struct AccessRequest {
    /// True for a write to the file.
    pub write: bool,
    /// The file view.
    pub view: Arc<View>,
    /// The position in the view at which the access begins.
    pub at: Pos,
    /// The number of bytes.
    pub len: u64,
    /// The memory of the rank. The access begins at its first byte.
    pub buffer: UserBuffer,
}

/// The result of a collective access on this rank.
#[derive(Debug)]
pub enum CollectiveOutcome<E> {
    /// All ranks succeeded. This rank moved this many bytes.
    Moved(u64),
    /// The arguments of this rank are invalid. No rank moved a byte.
    Refused(u32, ErrorKind),
    /// The part of this rank failed.
    Failed(E),
    /// The part of the given rank failed. The part of this rank did not.
    FailedOnPeer(u32, ErrorKind),
}

/// The state that [`AccessMachine::step`] reached.
pub enum AccessStep<E> {
    /// The access waits for other ranks.
    Waiting,
    /// The arguments of all ranks are valid. Reported once, and never for a refused access.
    Agreed,
    /// The access is finished.
    Done(CollectiveOutcome<E>),
}

/// A collective access in progress.
pub struct AccessMachine<C: CollectiveIo> {
    request: Option<AccessRequest>,
    settings: Arc<TwoPhaseSettings>,
    coverage: Arc<CoverageHash>,
    costs: CostHistory,
    totals: Option<AccessTotals>,
    /// The time at which this rank computed the plan.
    planned_at: Instant,
    state: State<C>,
    /// Counts of the work that this rank did.
    pub counters: AccessCounters,
    /// The plan, once it is known.
    pub plan: Option<CollectivePlan>,
    started_at: Instant,
    /// The time from the first step to the last.
    pub elapsed: Duration,
    /// The measured cost of the plan, once the access is finished. It is the same on all ranks.
    pub sample: Option<CostSample>,
}

enum State<C: CollectiveIo> {
    Starting(AccessSummary),
    ExchangingSummaries(Allgather<C::Transfer>),
    AccessingIndependently,
    RunningRounds(Box<TwoPhaseRounds<C>>),
    ExchangingResults(Allgather<C::Transfer>, Result<u64, C::Error>),
    Finished,
}

impl<C: CollectiveIo> AccessMachine<C> {
    /// Creates an access from a summary, and from a request unless the summary reports an error.
    pub fn new(
        summary: AccessSummary,
        request: Option<AccessRequest>,
        settings: Arc<TwoPhaseSettings>,
        coverage: Arc<CoverageHash>,
        costs: CostHistory,
    ) -> AccessMachine<C> {
        let (counters, started_at) = (AccessCounters::default(), Instant::now());
        let (state, elapsed) = (State::Starting(summary), Duration::ZERO);
        let (plan, totals, sample, planned_at) = (None, None, None, started_at);
        AccessMachine {
            request,
            settings,
            coverage,
            costs,
            totals,
            planned_at,
            state,
            counters,
            plan,
            started_at,
            elapsed,
            sample,
        }
    }

    /// Returns the request, for callers that need its memory back.
    pub fn into_request(self) -> Option<AccessRequest> {
        self.request
    }

    /// Runs as far as possible without waiting. An error means that messages to other ranks fail and that
    /// this access cannot be finished.
    pub fn step(&mut self, rank_state: &mut RankState, io: &mut C) -> Result<AccessStep<C::Error>, C::Error> {
        loop {
            match &mut self.state {
                State::Starting(summary) => {
                    self.state = State::ExchangingSummaries(Allgather::start(rank_state, &summary.encode()));
                }
                State::ExchangingSummaries(allgather) => {
                    if !allgather.step(rank_state, io)? {
                        return Ok(AccessStep::Waiting);
                    }
                    let summaries: Vec<AccessSummary> = (0..rank_state.ranks())
                        .map(|rank| AccessSummary::decode(&allgather.words(rank_state, rank)))
                        .collect();
                    if let Some(step) = self.start_plan(summaries, rank_state, io)? {
                        return Ok(step);
                    }
                }
                State::AccessingIndependently => {
                    let result = match &self.request {
                        Some(request) => self.counters.timed(|| io.access_independently(request)),
                        None => Ok(0),
                    };
                    self.exchange_results(rank_state, result);
                }
                State::RunningRounds(rounds) => {
                    if !rounds.step(self.request.as_ref(), rank_state, io, &mut self.counters)? {
                        return Ok(AccessStep::Waiting);
                    }
                    let result = rounds.finish(rank_state);
                    self.exchange_results(rank_state, result);
                }
                State::ExchangingResults(allgather, _) => {
                    if !allgather.step(rank_state, io)? {
                        return Ok(AccessStep::Waiting);
                    }
                    return Ok(AccessStep::Done(self.outcome(rank_state)));
                }
                State::Finished => return Ok(AccessStep::Waiting),
            }
        }
    }

    /// Starts the plan that follows from the summaries.
    fn start_plan(
        &mut self,
        summaries: Vec<AccessSummary>,
        rank_state: &mut RankState,
        io: &mut C,
    ) -> Result<Option<AccessStep<C::Error>>, C::Error> {
        self.totals = Some(AccessTotals::of(&summaries));
        self.planned_at = Instant::now();
        let plan = plan_access(&summaries, &self.settings, &self.coverage, &self.costs);
        let step = match &plan {
            CollectivePlan::Refused { kind, rank } => {
                self.state = State::Finished;
                self.elapsed = self.started_at.elapsed();
                AccessStep::Done(CollectiveOutcome::Refused(*rank, *kind))
            }
            CollectivePlan::Nothing => {
                self.exchange_results(rank_state, Ok(0));
                AccessStep::Agreed
            }
            CollectivePlan::Independent(_) => {
                // The access runs in the next step, so that the caller can move it to another thread.
                self.state = State::AccessingIndependently;
                AccessStep::Agreed
            }
            CollectivePlan::TwoPhase { domains, covered, .. } => {
                let coverage = self.coverage.clone();
                let rounds = TwoPhaseRounds::new(
                    summaries,
                    domains,
                    *covered,
                    &self.settings,
                    coverage,
                    rank_state,
                    io,
                )?;
                self.state = State::RunningRounds(Box::new(rounds));
                AccessStep::Agreed
            }
        };
        self.plan = Some(plan);
        Ok(Some(step))
    }

    fn exchange_results(&mut self, rank_state: &mut RankState, result: Result<u64, C::Error>) {
        let code = result.as_ref().map_or_else(|e| C::kind(e).code(), |_| 0);
        let took = self.planned_at.elapsed().as_nanos() as u64;
        self.state = State::ExchangingResults(Allgather::start(rank_state, &[code, took]), result);
    }

    fn outcome(&mut self, rank_state: &RankState) -> CollectiveOutcome<C::Error> {
        self.elapsed = self.started_at.elapsed();
        let State::ExchangingResults(allgather, result) = std::mem::replace(&mut self.state, State::Finished)
        else {
            unreachable!("only called when settled");
        };
        let failed = (0..rank_state.ranks()).find_map(|rank| {
            ErrorKind::from_code(allgather.words(rank_state, rank)[0]).map(|kind| (rank, kind))
        });
        let longest =
            (0..rank_state.ranks()).map(|rank| allgather.words(rank_state, rank)[1]).max().unwrap_or(0);
        self.sample = match (&self.plan, &self.totals, failed) {
            (Some(plan), Some(totals), None) => plan.cost_sample(totals, longest),
            _ => None,
        };
        match (result, failed) {
            (Err(e), _) => CollectiveOutcome::Failed(e),
            (Ok(_), Some((rank, kind))) => CollectiveOutcome::FailedOnPeer(rank, kind),
            (Ok(bytes), None) => CollectiveOutcome::Moved(bytes),
        }
    }
}
