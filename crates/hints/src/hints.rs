//! The hints of one open file: their values and where they come from.
//!
//! Only values that differ from the table's defaults are stored, so a file without hints costs an empty vector. A
//! value from a stronger source replaces one from a weaker source, in whatever order they are applied. Of two values
//! from the same source the later one counts.

use crate::hint_type::HintValue;
use crate::table::{HintEntry, HintId, find, table};
use pario_types::{AccessDefaults, ErrorKind, Toggle};
use std::borrow::Cow;
use std::fmt;

/// The source of a value, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HintSource {
    /// The built-in default.
    Default,
    /// The partition file of the file's partition.
    Partition,
    /// The hint file.
    HintFile,
    /// The environment variable `PARIO_HINTS`.
    Environment,
    /// An info object that the program passed.
    Info,
}

/// The result of applying one hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The value is in force.
    Accepted,
    /// No hint has this name. MPI allows programs to pass unknown hints, so this is not an error.
    Unknown,
    /// The hint is known and has no effect here.
    Ignored(IgnoreReason),
    /// The value is not allowed. The value in force does not change.
    Refused(RefusedValue),
}

/// The reason why a valid hint has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoreReason {
    /// A stronger source has set it.
    Overridden(HintSource),
    /// The hint can be set only at open, and the file is open.
    FixedAtOpen,
    /// The hint is only reported to programs.
    ReadOnly,
}

/// A value that a hint does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedValue {
    /// The canonical name of the hint.
    pub hint: &'static str,
    /// The value as passed.
    pub value: String,
    /// The allowed values.
    pub allowed: String,
    /// The source of the value.
    pub source: HintSource,
    /// The value that remains in force; `None` if the hint remains unset.
    pub stays: Option<String>,
}

/// The hints of one open file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    set: Vec<Setting>,
    sealed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    id: HintId,
    source: HintSource,
    value: HintValue,
}

impl Hints {
    /// All hints have their defaults.
    pub fn new() -> Hints {
        Hints::default()
    }

    /// Applies one hint from a source.
    pub fn apply(&mut self, source: HintSource, name: &str, value: &str) -> ApplyOutcome {
        let Some(entry) = find(name) else {
            return ApplyOutcome::Unknown;
        };
        if entry.read_only {
            return ApplyOutcome::Ignored(IgnoreReason::ReadOnly);
        }
        if self.sealed && entry.fixed_at_open {
            return ApplyOutcome::Ignored(IgnoreReason::FixedAtOpen);
        }
        let Some(typed) = entry.kind.parse(value) else {
            return ApplyOutcome::Refused(RefusedValue {
                hint: entry.name,
                value: value.to_owned(),
                allowed: entry.kind.allowed(),
                source,
                stays: self.value(entry.id).map(|v| entry.kind.format(v)),
            });
        };
        self.store(entry.id, source, typed)
    }

    /// Marks the file as open: from now on hints that are fixed at open are ignored.
    pub fn seal(&mut self) {
        self.sealed = true;
    }

    /// Every hint that has a value, in the table's order: name, canonical value, source. A value, such as the file
    /// name, may be longer than the MPI library's limit on info values.
    pub fn in_force(&self) -> impl Iterator<Item = (&'static str, String, HintSource)> + '_ {
        table()
            .iter()
            .filter_map(|entry| self.get_entry(entry).map(|(value, source)| (entry.name, value, source)))
    }

    /// The canonical value and the source of a hint, by name or alias.
    pub fn get(&self, name: &str) -> Option<(String, HintSource)> {
        self.get_entry(find(name)?)
    }

    /// Sets the name of the open file, which programs read as the hint `filename`.
    pub fn set_filename(&mut self, name: &str) {
        self.store(HintId::Filename, HintSource::Default, HintValue::Text(Cow::Owned(name.to_owned())));
    }

    /// Sets the number of prefetch ranges that were taken, which programs read as `pario_access_taken`.
    pub fn set_access_taken(&mut self, taken: usize) {
        self.store(HintId::AccessTaken, HintSource::Default, HintValue::Count(taken as u64));
    }

    /// Applies the defaults of the partition that stores the file. They count less than every other source, except that
    /// no hint enables tier 1 on a partition that has it switched off.
    pub fn apply_partition(&mut self, defaults: &AccessDefaults) {
        let AccessDefaults { strategy, network_buffer, tier1, tier1_size, tier1_high, tier1_low } = *defaults;
        let values = [
            (HintId::Strategy, HintValue::Word(strategy.name())),
            (HintId::NetworkBuffer, HintValue::Size(network_buffer)),
            (HintId::Tier1Size, HintValue::Size(tier1_size)),
            (HintId::Tier1High, HintValue::Count(tier1_high.into())),
            (HintId::Tier1Low, HintValue::Count(tier1_low.into())),
        ];
        for (id, value) in values {
            self.store(id, HintSource::Partition, value);
        }
        if !tier1 {
            self.set.retain(|setting| setting.id != HintId::Tier1);
            self.store(HintId::Tier1, HintSource::Partition, HintValue::Toggle(Toggle::Disable));
        }
    }

    fn store(&mut self, id: HintId, source: HintSource, value: HintValue) -> ApplyOutcome {
        match self.set.iter_mut().find(|s| s.id == id) {
            Some(old) if old.source > source => {
                return ApplyOutcome::Ignored(IgnoreReason::Overridden(old.source));
            }
            Some(old) => *old = Setting { id, source, value },
            None => self.set.push(Setting { id, source, value }),
        }
        ApplyOutcome::Accepted
    }

    fn get_entry(&self, entry: &HintEntry) -> Option<(String, HintSource)> {
        let source = self.set.iter().find(|s| s.id == entry.id).map_or(HintSource::Default, |s| s.source);
        Some((entry.kind.format(self.value(entry.id)?), source))
    }

    pub(crate) fn value(&self, id: HintId) -> Option<&HintValue> {
        let own = self.set.iter().find(|s| s.id == id).map(|s| &s.value);
        own.or(id.entry().default)
    }

    /// Whether a source has set the hint.
    pub(crate) fn is_set(&self, id: HintId) -> bool {
        self.set.iter().any(|s| s.id == id)
    }
}

impl RefusedValue {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Info
    }
}

impl fmt::Display for HintSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HintSource::Default => "the defaults",
            HintSource::Partition => "the partition file",
            HintSource::HintFile => "the hint file",
            HintSource::Environment => "the environment variable PARIO_HINTS",
            HintSource::Info => "the program's info object",
        })
    }
}

impl fmt::Display for IgnoreReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IgnoreReason::Overridden(by) => write!(f, "already set by {by}, which counts more"),
            IgnoreReason::FixedAtOpen => f.write_str("can be set only when the file is opened"),
            IgnoreReason::ReadOnly => f.write_str("is reported to programs, never taken from them"),
        }
    }
}

impl fmt::Display for RefusedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RefusedValue { hint, value, allowed, source, .. } = self;
        write!(f, "hint {hint}: value {} from {source} refused; allowed: {allowed}; ", quote(value))?;
        match &self.stays {
            Some(stays) => write!(f, "{stays} stays in force"),
            None => f.write_str("it stays unset"),
        }
    }
}

impl std::error::Error for RefusedValue {}

/// Quotes a user's text on one line: escapes control characters and truncates long text.
pub(crate) fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    let head: String = text.chars().take(SHOWN).collect();
    let more = if head.len() < text.len() { "..." } else { "" };
    format!("\"{}{more}\"", head.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stronger_source_wins_in_any_order() {
        let mut hints = Hints::new();
        assert_eq!(hints.apply(HintSource::Environment, "cb_nodes", "3"), ApplyOutcome::Accepted);
        let weaker = hints.apply(HintSource::HintFile, "cb_nodes", "2");
        assert_eq!(weaker, ApplyOutcome::Ignored(IgnoreReason::Overridden(HintSource::Environment)));
        assert_eq!(hints.apply(HintSource::Info, "cb_nodes", "4"), ApplyOutcome::Accepted);
        assert_eq!(hints.apply(HintSource::Info, "cb_nodes", "5"), ApplyOutcome::Accepted);
        assert_eq!(hints.get("cb_nodes"), Some(("5".to_owned(), HintSource::Info)));
    }

    #[test]
    fn a_partition_file_counts_more_than_defaults_and_less_than_other_sources() {
        let partition = AccessDefaults {
            strategy: pario_types::Strategy::TwoPhase,
            network_buffer: 64 << 10,
            tier1: true,
            tier1_size: 1 << 20,
            tier1_high: 80,
            tier1_low: 10,
        };
        let mut hints = Hints::new();
        hints.apply(HintSource::HintFile, "pario_tier1_size", "2M");
        hints.apply(HintSource::Environment, "pario_tier1_high", "90");
        hints.apply(HintSource::Info, "pario_strategy", "independent");
        hints.apply_partition(&partition);
        let value = |hints: &Hints, name: &str| hints.get(name).map(|(value, _)| value);
        assert_eq!(value(&hints, "pario_strategy").as_deref(), Some("independent"));
        assert_eq!(hints.tier1_size(), (2 << 20, 90, 10));
        assert_eq!(hints.get("pario_network_buffer"), Some(("65536".to_owned(), HintSource::Partition)));
        assert_eq!(value(&hints, "pario_tier1").as_deref(), Some("automatic"));
        assert_eq!(hints.apply(HintSource::Info, "pario_strategy", "auto"), ApplyOutcome::Accepted);
    }

    #[test]
    fn no_hint_enables_tier_1_where_the_partition_has_it_off() {
        let mut hints = Hints::new();
        hints.apply(HintSource::Info, "pario_tier1", "enable");
        hints.apply_partition(&AccessDefaults { tier1: false, ..AccessDefaults::default() });
        assert_eq!(hints.get("pario_tier1"), Some(("disable".to_owned(), HintSource::Partition)));
    }

    #[test]
    fn the_defaults_of_partitions_are_those_of_hints() {
        let mut hints = Hints::new();
        hints.apply_partition(&AccessDefaults::default());
        assert!(
            hints
                .in_force()
                .map(|(name, value, _)| (name, value))
                .eq(Hints::new().in_force().map(|(name, value, _)| (name, value)))
        );
    }

    #[test]
    fn a_refused_value_is_one_line_and_changes_nothing() {
        let mut hints = Hints::new();
        hints.apply(HintSource::HintFile, "ind_rd_buffer_size", "1M");
        let ApplyOutcome::Refused(refusal) = hints.apply(HintSource::Info, "ind_rd_buffer_size", "lots\n")
        else {
            panic!("accepted")
        };
        assert_eq!(
            refusal.to_string(),
            "hint ind_rd_buffer_size: value \"lots\\n\" from the program's info object refused; allowed: a size \
             from 1 byte to 4 GiB, such as 64k, 16M or 1GiB; 1048576 stays in force"
        );
        assert_eq!(hints.ind_rd_buffer_size(), 1 << 20);
        let ApplyOutcome::Refused(refusal) = hints.apply(HintSource::Info, "cb_nodes", &"9".repeat(500))
        else {
            panic!("accepted")
        };
        assert!(refusal.to_string().ends_with("it stays unset"));
        assert!(refusal.to_string().len() < 250);
    }

    #[test]
    fn hints_fixed_at_open_are_ignored_later() {
        let mut hints = Hints::new();
        assert_eq!(hints.apply(HintSource::Info, "striping_unit", "64k"), ApplyOutcome::Accepted);
        hints.seal();
        let later = hints.apply(HintSource::Info, "striping_unit", "128k");
        assert_eq!(later, ApplyOutcome::Ignored(IgnoreReason::FixedAtOpen));
        assert_eq!(hints.apply(HintSource::Info, "ind_rd_buffer_size", "1M"), ApplyOutcome::Accepted);
    }

    #[test]
    fn the_file_name_is_returned_and_never_set_by_programs() {
        let mut hints = Hints::new();
        let taken = hints.apply(HintSource::Info, "filename", "other");
        assert_eq!(taken, ApplyOutcome::Ignored(IgnoreReason::ReadOnly));
        hints.set_filename("/data/a b");
        assert!(hints.in_force().any(|(n, v, _)| n == "filename" && v == "/data/a b"));
        assert_eq!(hints.get("pario_access_taken"), None);
        hints.set_access_taken(3);
        assert_eq!(hints.get("pario_access_taken"), Some(("3".to_owned(), HintSource::Default)));
    }
}
