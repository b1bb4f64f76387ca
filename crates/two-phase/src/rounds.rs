//! The data exchange of two-phase I/O, in rounds of one window per file domain.
//!
//! The file domain of an aggregator is divided into windows, one per round. A rank steps all domains in
//! turn and advances in each as far as the window slots allow, so it does not wait in one domain while
//! there is work in another. In a domain of its own node, a rank copies its bytes into or out of the shared
//! window ([`LocalRank`]). In a domain of another node, it sends its bytes to the aggregator or receives
//! them from there ([`RemoteRank`]). The aggregator acts for the ranks of other nodes ([`RemoteProxy`]).

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use pario_domain::FileDomains;
use pario_file_backend::BackendError;

use crate::access::AccessRequest;
use crate::counters::AccessCounters;
use crate::coverage::CoverageHash;
use crate::io::{CollectiveIo, WindowFile};
use crate::plan::TwoPhaseSettings;
use crate::portion::ViewRange;
use crate::rank_state::RankState;
use crate::summary::AccessSummary;

mod domain_rounds;
mod local_rank;
mod remote_proxy;
mod remote_rank;

use domain_rounds::DomainRounds;
use local_rank::LocalRank;
use remote_proxy::RemoteProxy;
use remote_rank::RemoteRank;

/// The rounds of one access on this rank.
pub(crate) struct TwoPhaseRounds<C: CollectiveIo> {
    domains: Vec<DomainState<C>>,
    /// The index of the domain that this rank steps first.
    first: usize,
    plan: RoundPlan,
    moved: u64,
    error: Option<C::Error>,
}

/// The properties that all domains share.
pub(crate) struct RoundPlan {
    pub write: bool,
    /// Windows may have holes and are read before they are written, so ranks announce first what they will
    /// write.
    pub announce: bool,
    /// Windows may have holes and only the bytes of ranks are written, so ranks mark their bytes.
    pub mark_bytes: bool,
    /// Whether this rank may access the file.
    pub may_access: bool,
    /// Whether all ranks of this node may access the file.
    pub all_access: bool,
    /// Whether only its aggregator accesses the windows of a domain.
    pub exclusive_domains: bool,
    /// Whether ranks leave full windows to the rank that is writing already.
    pub single_writer: bool,
    /// The number of arrivals that complete a window of this node.
    pub expected: u64,
    pub coverage: Arc<CoverageHash>,
}

impl RoundPlan {
    fn new(
        write: bool,
        covered: bool,
        settings: &TwoPhaseSettings,
        coverage: Arc<CoverageHash>,
        rank_state: &RankState,
    ) -> RoundPlan {
        let aggregators = &settings.aggregators;
        let is_local = |rank: &&u32| rank_state.local_index(**rank).is_some();
        let local_aggregators = aggregators.iter().filter(is_local).count();
        let all_access = !settings.exclusive_domains && local_aggregators == rank_state.locals.len();
        RoundPlan {
            write,
            announce: write && !covered && !settings.exclusive_domains,
            mark_bytes: write && !covered && settings.exclusive_domains,
            may_access: aggregators.contains(&rank_state.rank),
            all_access,
            exclusive_domains: settings.exclusive_domains,
            single_writer: settings.single_writer && write && all_access,
            expected: rank_state.locals.len() as u64 + u64::from(!rank_state.is_single_node()),
            coverage,
        }
    }
}

/// One file domain, and the role of this rank in it.
struct DomainState<C: CollectiveIo> {
    rounds: DomainRounds,
    role: Role<C>,
    finished: bool,
}

/// The role of this rank in a file domain.
enum Role<C: CollectiveIo> {
    /// The domain belongs to this node. The aggregator of the domain may also be the proxy of remote ranks.
    Local(LocalRank, Option<RemoteProxy<C>>),
    /// The domain belongs to another node.
    Remote(RemoteRank<C>),
}

impl<C: CollectiveIo> Role<C> {
    fn new(
        aggregator: u32,
        summaries: &[AccessSummary],
        rounds: &DomainRounds,
        rank_state: &RankState,
        io: &mut C,
    ) -> Result<Role<C>, C::Error> {
        let Some(index) = rank_state.local_index(aggregator) else {
            return Ok(Role::Remote(RemoteRank::new(aggregator)));
        };
        let is_aggregator = aggregator == rank_state.rank;
        let proxy = if is_aggregator && !rank_state.is_single_node() {
            Some(RemoteProxy::new(summaries, rounds, rank_state, io)?)
        } else {
            None
        };
        let local = LocalRank::new(index, rank_state.sequences[index as usize], is_aggregator);
        Ok(Role::Local(local, proxy))
    }
}

/// The parameters of one step.
pub(crate) struct StepContext<'a, C: CollectiveIo> {
    pub rank_state: &'a RankState,
    pub io: &'a mut C,
    pub plan: &'a RoundPlan,
    /// Whether this rank may access the file for the current domain.
    pub may_access: bool,
    pub request: Option<&'a AccessRequest>,
    pub counters: &'a mut AccessCounters,
    pub moved: &'a mut u64,
    pub error: &'a mut Option<C::Error>,
}

impl<'a, C: CollectiveIo> StepContext<'a, C> {
    /// The bytes of this rank, if it has any.
    pub fn view_range(&self) -> Option<ViewRange<'a>> {
        let request = self.request?;
        (request.len > 0).then_some(ViewRange { view: &request.view, at: request.at.0, len: request.len })
    }

    /// Runs a file access, and counts its time and its requests to servers.
    pub fn access_file<R>(
        &mut self,
        access: impl FnOnce(&WindowFile<'_>) -> Result<R, BackendError>,
    ) -> Result<R, C::Error> {
        let file = self.io.file()?;
        Ok(self.counters.timed_file_access(&file, || access(&file))?)
    }

    /// Records the first failure of this rank.
    pub fn record_failure(&mut self, error: C::Error) {
        self.error.get_or_insert(error);
    }
}

impl<C: CollectiveIo> TwoPhaseRounds<C> {
    /// Prepares the rounds of an access.
    pub fn new(
        summaries: Vec<AccessSummary>,
        domains: &FileDomains,
        covered: bool,
        settings: &TwoPhaseSettings,
        coverage: Arc<CoverageHash>,
        rank_state: &RankState,
        io: &mut C,
    ) -> Result<TwoPhaseRounds<C>, C::Error> {
        let plan = RoundPlan::new(summaries[0].call.write, covered, settings, coverage, rank_state);
        let mut states = Vec::new();
        let mut first = 0;
        for (index, owner) in (0..domains.aggregators()).zip(&settings.aggregators) {
            let rounds = DomainRounds::new(domains.domain(index), settings.window);
            if rounds.count() == 0 {
                continue;
            }
            if *owner <= rank_state.rank {
                first = states.len();
            }
            let role = Role::new(*owner, &summaries, &rounds, rank_state, io)?;
            states.push(DomainState { rounds, role, finished: false });
        }
        Ok(TwoPhaseRounds { domains: states, first, plan, moved: 0, error: None })
    }

    /// Runs as far as possible. Returns true once all domains are finished.
    pub fn step(
        &mut self,
        request: Option<&AccessRequest>,
        rank_state: &RankState,
        io: &mut C,
        counters: &mut AccessCounters,
    ) -> Result<bool, C::Error> {
        let TwoPhaseRounds { domains, plan, moved, error, first } = self;
        let mut context = StepContext {
            rank_state,
            io,
            plan,
            may_access: plan.may_access,
            request,
            counters,
            moved,
            error,
        };
        let count = domains.len();
        loop {
            let (mut progress, mut left) = (false, false);
            for i in 0..count {
                let domain = &mut domains[(*first + i) % count];
                if !domain.finished {
                    progress |= domain.step(&mut context)?;
                    left |= !domain.finished;
                }
                if plan.single_writer && rank_state.node.full_windows().load(Relaxed) > 0 {
                    progress |= write_full(domains, &mut context);
                }
            }
            if !left {
                return Ok(true);
            }
            if !progress {
                return Ok(false);
            }
        }
    }

    /// Returns the result of this rank after all its domains are finished.
    pub fn finish(&mut self, rank_state: &mut RankState) -> Result<u64, C::Error> {
        for domain in &self.domains {
            if let Role::Local(local, _) = &domain.role {
                rank_state.sequences[local.aggregator_index as usize] += domain.rounds.count();
            }
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.moved),
        }
    }
}

/// Writes full windows until none is left, unless another rank is writing. That rank checks for full
/// windows again after it has cleared the writer flag.
fn write_full<C: CollectiveIo>(domains: &mut [DomainState<C>], context: &mut StepContext<'_, C>) -> bool {
    let node = context.rank_state.node.clone();
    let mut progress = false;
    while node.full_windows().load(SeqCst) > 0 && node.active_writer().swap(1, SeqCst) == 0 {
        for domain in &mut *domains {
            if let Role::Local(local, _) = &mut domain.role {
                progress |= local.write_full(&domain.rounds, context);
            }
        }
        node.active_writer().store(0, SeqCst);
    }
    progress
}

impl<C: CollectiveIo> DomainState<C> {
    /// Advances by at most one round in each role. Returns true if there was progress.
    fn step(&mut self, context: &mut StepContext<'_, C>) -> Result<bool, C::Error> {
        let rounds = &self.rounds;
        let mut progress;
        match &mut self.role {
            Role::Local(local, proxy) => {
                context.may_access = local.may_access(context.plan);
                progress = local.step(rounds, context);
                self.finished = local.is_finished(rounds, context);
                if let Some(proxy) = proxy {
                    progress |= proxy.step(rounds, local, context)?;
                    self.finished &= proxy.is_finished(rounds);
                }
            }
            Role::Remote(remote) => {
                progress = remote.step(rounds, context)?;
                self.finished = remote.is_finished(rounds);
            }
        }
        progress |= self.finished;
        Ok(progress)
    }
}
