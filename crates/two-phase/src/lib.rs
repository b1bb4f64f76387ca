//! Two-phase collective I/O as a state machine.
//!
//! All ranks of an open file exchange an [`AccessSummary`] by an [`Allgather`]. From the summaries each
//! rank computes the same [`CollectivePlan`]: every rank accesses the file by itself, or *aggregators*
//! access it through *windows*. In the second case the accessed region is divided into file domains
//! ([`pario_domain`]), and each domain is processed in rounds of one window. The windows of a node are in
//! memory that its ranks share ([`NodeSegment`]). For a write, a rank copies its bytes from the memory of
//! the program into the window, and the last rank to do so writes the window to the file. For a read, the
//! first rank that needs the window reads it from the file. Ranks of other nodes send their bytes in view
//! order to the aggregator, which knows their views and copies the bytes to their offsets. A second
//! allgather tells all ranks whether any rank failed.
//!
//! The machine performs no I/O and never waits. [`AccessMachine::step`] runs as far as possible and
//! reports whether the access is finished. The caller provides file access and messages as a
//! [`CollectiveIo`]. Blocking, split and nonblocking calls therefore are three drivers of one machine, and
//! tests run many simulated ranks in one thread.
#![forbid(unsafe_code)]

mod access;
mod allgather;
mod cost;
mod counters;
mod coverage;
mod io;
mod node_segment;
mod plan;
mod portion;
mod rank_state;
mod rounds;
mod summary;

pub use access::{AccessMachine, AccessRequest, AccessStep, CollectiveOutcome};
pub use allgather::Allgather;
pub use cost::{CostEstimate, CostHistory, CostPrior, CostSample};
pub use counters::AccessCounters;
pub use coverage::CoverageHash;
pub use io::{CollectiveIo, NodeMessages, WindowFile};
pub use node_segment::{NodeSegment, SegmentShape, WORDS_PER_RANK};
pub use pario_shm::{SegmentHandle, cores, is_alive};
pub use plan::{CollectivePlan, TransferStrategy, TwoPhaseSettings, plan_access};
pub use rank_state::{NodeMap, RankState};
pub use summary::{AccessSummary, CallKind};
