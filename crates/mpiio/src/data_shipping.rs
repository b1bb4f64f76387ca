//! Data shipping: independent accesses go to the I/O agents that own the blocks they touch.
//!
//! The ranks that are agents start threads for it, and all ranks learn the agents' addresses. From then on an access
//! of one rank needs no MPI call of another. Data shipping starts at open, stops at close, and restarts when hints
//! change the blocks or the agents. A file opened with MPI_MODE_UNIQUE_OPEN is in file-partitioning mode: each agent
//! locks the file once, for as long as the agent runs.

use std::sync::Arc;

use pario_data_shipping::{
    Agent, AgentAddress, AgentConfig, BlockMap, Shipper, ShippingGroup, ShippingLimits, ip_of_this_node,
};
use pario_trace::StrategyChoice;
use pario_types::{AccessTuning, PrefetchLimits};
use pario_types::{ErrorKind, digest};

use crate::env::env;
use crate::error::{Error, Result};
use crate::file::MpiFile;
use crate::file_group::MustMatch;
use crate::node::{node_key, random_id};
use crate::settings::{agents, prefetch, shipping_unit, uses_data_shipping};
use crate::tracing;

/// The owners of the blocks, and how the agents lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShippingTerms {
    unit: u64,
    agents: Vec<u32>,
    partitioned: bool,
}

/// Data shipping of one open file.
pub(crate) struct ShippingSession {
    terms: ShippingTerms,
    /// The strategy for the statistics.
    pub choice: StrategyChoice,
    pub shipper: Shipper,
    agent: Option<Agent>,
}

const NO_ADDRESS: &str =
    "data shipping between nodes needs an IPv4 address that other nodes reach; this node has none";

impl ShippingTerms {
    fn choice(&self) -> StrategyChoice {
        let mut agents = self.agents.clone();
        agents.sort_unstable();
        agents.dedup();
        let (strategy, partitioning, why) = ("data-shipping", "static-cyclic", "by hint".into());
        StrategyChoice { strategy, partitioning, aggregators: agents.len() as u32, why }
    }

    fn digest(&self) -> u64 {
        let words = [self.unit, u64::from(self.partitioned)];
        let agents = self.agents.iter().map(|rank| u64::from(*rank));
        digest(words.into_iter().chain(agents))
    }
}

impl MpiFile {
    /// The data shipping session, if there is one.
    pub(crate) fn shipping_session(&self) -> Option<Arc<ShippingSession>> {
        self.shipping.lock().clone()
    }

    /// The terms that these hints ask for; `None` if they do not ask for data shipping.
    fn terms(&self, hints: &pario_hints::Hints) -> Option<ShippingTerms> {
        if self.group.size == 1 || !uses_data_shipping(hints) {
            return None;
        }
        let unit = shipping_unit(hints, &self.facts());
        let agents =
            agents(hints, &self.group).unwrap_or_else(|| self.collective().write.aggregators.clone());
        Some(ShippingTerms { unit, agents, partitioned: self.amode().unique_open && !self.atomicity() })
    }

    /// Whether these hints start, stop or change data shipping.
    pub(crate) fn shipping_changes(&self, hints: &pario_hints::Hints) -> bool {
        self.terms(hints) != self.shipping_session().map(|now| now.terms.clone())
    }

    /// Starts, stops or restarts data shipping as the hints in force ask for. Collective.
    pub(crate) fn restart_shipping(&self) -> Result<()> {
        let terms = self.hints(|hints| self.terms(hints));
        let same = [MustMatch(
            terms.as_ref().map_or(0, ShippingTerms::digest),
            "the hints for data shipping differ between ranks",
        )];
        // After this agreement no rank is inside an access.
        self.group.agree_on(Ok(()), &same, &mut [])?;
        let stopped = self.stop_shipping();
        self.group.agree(stopped)?;
        let Some(terms) = terms else { return Ok(()) };
        let [high, low] = self.group.root_bcast(|| {
            let secret = random_id()
                .map_err(|_| Error::Usage(ErrorKind::Intern, "the system has no random numbers"))?;
            Ok([(secret >> 64) as u64, secret as u64])
        })?;
        let secret = u128::from(high) << 64 | u128::from(low);
        let started = self.start_agent(&terms, secret);
        let address = match &started {
            Ok(agent) => AgentAddress::encode(agent.as_ref().map(Agent::address).as_ref()),
            Err(_) => AgentAddress::encode(None),
        };
        let addresses = self.group.allgather_array(&address)?;
        let agent = self.group.agree(started)?;
        let team = ShippingGroup {
            map: BlockMap::new(terms.unit, terms.agents.clone())?,
            addresses: addresses.iter().map(AgentAddress::decode).collect(),
            rank: self.group.rank,
            node: env().node_key(),
            secret,
            partitioned: terms.partitioned,
            limits: ShippingLimits::default(),
        };
        let shipper = Shipper::new(team, self.storage()?.backend())?;
        if terms.partitioned {
            self.retune(|now| AccessTuning { sole: true, ..now });
        }
        *self.shipping.lock() =
            Some(Arc::new(ShippingSession { choice: terms.choice(), terms, shipper, agent }));
        Ok(())
    }

    fn start_agent(&self, terms: &ShippingTerms, secret: u128) -> Result<Option<Agent>> {
        if !terms.agents.contains(&self.group.rank) {
            return Ok(None);
        }
        let tcp = if self.group.is_on_one_node() {
            None
        } else {
            Some(ip_of_this_node().ok_or(Error::Usage(ErrorKind::Io, NO_ADDRESS))?)
        };
        let (tuning, prefetch) = self.agent_tuning();
        let service = AgentConfig {
            file: self.storage()?.backend(),
            map: BlockMap::new(terms.unit, terms.agents.clone())?,
            rank: self.group.rank,
            node: node_key(),
            secret,
            tuning,
            prefetch,
            partitioned: terms.partitioned,
            tcp,
            limits: ShippingLimits::default(),
            report: tracing::agent_report(&self.path),
        };
        Ok(Some(Agent::start(service)?))
    }

    /// The tuning of this rank's agent.
    fn agent_tuning(&self) -> (AccessTuning, PrefetchLimits) {
        let prefetch = self.hints(|hints| prefetch(hints, &self.facts()));
        (AccessTuning { peers_sieve: true, ..self.tuning() }, prefetch)
    }

    /// Applies the hints in force to this rank's agent.
    pub(crate) fn retune_agent(&self) {
        if let Some(agent) =
            self.shipping_session().as_ref().and_then(|shipping_session| shipping_session.agent.as_ref())
        {
            let (tuning, prefetch) = self.agent_tuning();
            agent.retune(tuning, prefetch);
        }
    }

    /// Waits until no rank is inside an access, before this rank stores what was written to a partition: its agent
    /// writes for other ranks. Collective.
    pub(crate) fn barrier_if_shipping(&self) -> Result<()> {
        if self.is_on_partition() && self.shipping_session().is_some() {
            self.group.agree(Ok(()))
        } else {
            Ok(())
        }
    }

    /// Stops data shipping on this rank. No rank is inside an access.
    pub(crate) fn stop_shipping(&self) -> Result<()> {
        let Some(shipping_session) = self.shipping.lock().take() else { return Ok(()) };
        if shipping_session.terms.partitioned {
            self.retune(|now| AccessTuning { sole: false, ..now });
        }
        let counts = shipping_session.shipper.counts();
        self.stats.messages.add(counts.messages);
        self.stats.message_bytes.add(counts.shipped);
        match Arc::into_inner(shipping_session).and_then(|shipping_session| shipping_session.agent) {
            Some(agent) => {
                self.stats.lock_requests.add(agent.counts().locks);
                Ok(agent.stop()?)
            }
            None => Ok(()),
        }
    }
}
