//! Advice: what a program does to its files that it should not, with the numbers that show it.
//!
//! Operations are counted as they come ([`Numbers`]); a few rules look at the counts, at the accesses, at what Pario
//! decided, and at the hints. Each rule has its thresholds beside it, is quiet about programs that
//! do little, and about what another rule has said already.

mod bytes;
mod numbers;
mod rules;

pub use bytes::{Overlap, overlaps};
pub use numbers::{AccessTally, FileNumbers, Numbers, StrategyUse};
pub use rules::{Hinted, ProfileFacts, advise};

use std::fmt;

/// The possible gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Little.
    Low,
    /// Something.
    Medium,
    /// Much.
    High,
}

/// The topic of a piece of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Many small accesses.
    Small,
    /// Large accesses that begin within a block.
    Misaligned,
    /// Accesses in no order.
    Random,
    /// Repeated accesses to the same bytes.
    Redundant,
    /// Some processes move much more than others.
    Imbalanced,
    /// Processes access a file in turns, each by itself.
    Independent,
    /// A new view for every access.
    ViewChurn,
    /// Too few or too many aggregators.
    Aggregators,
    /// A hint that does not fit what the program does.
    Hints,
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Its topic.
    pub topic: Topic,
    /// The possible gain.
    pub severity: Severity,
    /// The file, if it is about one.
    pub file: Option<String>,
    /// The numbers that show it.
    pub evidence: String,
    /// The recommendation.
    pub remedy: String,
    /// Pario's own measures against it.
    pub pario: String,
}

impl Severity {
    /// As people and scripts read it.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
        }
    }
}

impl Topic {
    /// As people and scripts read it.
    pub fn word(self) -> &'static str {
        match self {
            Topic::Small => "small",
            Topic::Misaligned => "misaligned",
            Topic::Random => "random",
            Topic::Redundant => "redundant",
            Topic::Imbalanced => "imbalanced",
            Topic::Independent => "independent",
            Topic::ViewChurn => "view-churn",
            Topic::Aggregators => "aggregators",
            Topic::Hints => "hints",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
