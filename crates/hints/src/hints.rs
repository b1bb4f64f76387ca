//! The hints of one open file: which are set, to what, by whom.
//!
//! Only what differs from the table's defaults is stored, so a file without hints costs an empty vector.
//! A value from a stronger source replaces one from a weaker, never the other way round, in whatever order
//! they are applied; of two from the same source the later one stays.

use crate::kind::Value;
use crate::table::{Entry, Id, find, table};
use pario_types::ErrorKind;
use std::borrow::Cow;
use std::fmt;

/// Where a value came from, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Nobody asked: the built-in default.
    Default,
    /// The hint file.
    HintFile,
    /// The environment variable `PARIO_HINTS`.
    Environment,
    /// An info object that the program passed.
    Info,
}

/// What became of one hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value is in force.
    Accepted,
    /// No hint of that name; MPI lets programs pass such, so it is no error.
    Unknown,
    /// A known hint, rightly without effect here.
    Ignored(Ignored),
    /// The value is not allowed; what was in force before stays.
    Refused(Refusal),
}

/// Why a good hint has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// A stronger source has set it.
    Overridden(Source),
    /// It can be set at open only, and the file is open.
    FixedAtOpen,
    /// It is told to programs, never taken from them.
    ReadOnly,
}

/// A value that a hint does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The hint, by its canonical name.
    pub hint: &'static str,
    /// The value as given.
    pub value: String,
    /// What would have been allowed.
    pub allowed: String,
    /// Who asked.
    pub source: Source,
    /// The value that stays in force; `None` if the hint stays unset.
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
    id: Id,
    source: Source,
    value: Value,
}

impl Hints {
    /// All hints at their defaults.
    pub fn new() -> Hints {
        Hints::default()
    }

    /// Takes one hint from a source.
    pub fn apply(&mut self, source: Source, name: &str, value: &str) -> Outcome {
        let Some(entry) = find(name) else {
            return Outcome::Unknown;
        };
        if entry.read_only {
            return Outcome::Ignored(Ignored::ReadOnly);
        }
        if self.sealed && entry.fixed_at_open {
            return Outcome::Ignored(Ignored::FixedAtOpen);
        }
        let Some(typed) = entry.kind.parse(value) else {
            return Outcome::Refused(Refusal {
                hint: entry.name,
                value: value.to_owned(),
                allowed: entry.kind.allowed(),
                source,
                stays: self.value(entry.id).map(|v| entry.kind.spell(v)),
            });
        };
        self.store(entry.id, source, typed)
    }

    /// Says that the file is open: from now on hints that are fixed at open are ignored.
    pub fn seal(&mut self) {
        self.sealed = true;
    }

    /// Every hint that has a value, in the table's order: name, canonical value, source.
    /// A value may be longer than an MPI library's limit on info values (the file name, for one).
    pub fn in_force(&self) -> impl Iterator<Item = (&'static str, String, Source)> + '_ {
        table()
            .iter()
            .filter_map(|entry| self.get_entry(entry).map(|(value, source)| (entry.name, value, source)))
    }

    /// The canonical value of the hint of that name (or alias), and where it came from.
    pub fn get(&self, name: &str) -> Option<(String, Source)> {
        self.get_entry(find(name)?)
    }

    /// Records the name of the open file, which programs get back as the hint `filename`.
    pub fn set_filename(&mut self, name: &str) {
        self.store(Id::Filename, Source::Default, Value::Text(Cow::Owned(name.to_owned())));
    }

    /// Records how many of the ranges to be accessed soon were taken, which programs get back as
    /// `pario_access_taken`.
    pub fn set_access_taken(&mut self, taken: usize) {
        self.store(Id::AccessTaken, Source::Default, Value::Count(taken as u64));
    }

    fn store(&mut self, id: Id, source: Source, value: Value) -> Outcome {
        match self.set.iter_mut().find(|s| s.id == id) {
            Some(old) if old.source > source => return Outcome::Ignored(Ignored::Overridden(old.source)),
            Some(old) => *old = Setting { id, source, value },
            None => self.set.push(Setting { id, source, value }),
        }
        Outcome::Accepted
    }

    fn get_entry(&self, entry: &Entry) -> Option<(String, Source)> {
        let source = self.set.iter().find(|s| s.id == entry.id).map_or(Source::Default, |s| s.source);
        Some((entry.kind.spell(self.value(entry.id)?), source))
    }

    pub(crate) fn value(&self, id: Id) -> Option<&Value> {
        let own = self.set.iter().find(|s| s.id == id).map(|s| &s.value);
        own.or(id.entry().default)
    }

    /// Whether anybody has set it.
    pub(crate) fn is_set(&self, id: Id) -> bool {
        self.set.iter().any(|s| s.id == id)
    }
}

impl Refusal {
    /// The closed kind of this error.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Info
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Default => "the defaults",
            Source::HintFile => "the hint file",
            Source::Environment => "the environment variable PARIO_HINTS",
            Source::Info => "the program's info object",
        })
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ignored::Overridden(by) => write!(f, "already set by {by}, which counts more"),
            Ignored::FixedAtOpen => f.write_str("can be set only when the file is opened"),
            Ignored::ReadOnly => f.write_str("is reported to programs, never taken from them"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { hint, value, allowed, source, .. } = self;
        write!(f, "hint {hint}: value {} from {source} refused; allowed: {allowed}; ", quoted(value))?;
        match &self.stays {
            Some(stays) => write!(f, "{stays} stays in force"),
            None => f.write_str("it stays unset"),
        }
    }
}

impl std::error::Error for Refusal {}

/// A user's text on one line: control characters escaped, the rest of a long one left out.
pub(crate) fn quoted(text: &str) -> String {
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
        assert_eq!(hints.apply(Source::Environment, "cb_nodes", "3"), Outcome::Accepted);
        let weaker = hints.apply(Source::HintFile, "cb_nodes", "2");
        assert_eq!(weaker, Outcome::Ignored(Ignored::Overridden(Source::Environment)));
        assert_eq!(hints.apply(Source::Info, "cb_nodes", "4"), Outcome::Accepted);
        assert_eq!(hints.apply(Source::Info, "cb_nodes", "5"), Outcome::Accepted);
        assert_eq!(hints.get("cb_nodes"), Some(("5".to_owned(), Source::Info)));
    }

    #[test]
    fn a_refusal_says_everything_on_one_line_and_changes_nothing() {
        let mut hints = Hints::new();
        hints.apply(Source::HintFile, "ind_rd_buffer_size", "1M");
        let Outcome::Refused(refusal) = hints.apply(Source::Info, "ind_rd_buffer_size", "lots\n") else {
            panic!("accepted")
        };
        assert_eq!(
            refusal.to_string(),
            "hint ind_rd_buffer_size: value \"lots\\n\" from the program's info object refused; allowed: a size \
             from 1 byte to 4 GiB, such as 64k, 16M or 1GiB; 1048576 stays in force"
        );
        assert_eq!(hints.ind_rd_buffer_size(), 1 << 20);
        let Outcome::Refused(refusal) = hints.apply(Source::Info, "cb_nodes", &"9".repeat(500)) else {
            panic!("accepted")
        };
        assert!(refusal.to_string().ends_with("it stays unset"));
        assert!(refusal.to_string().len() < 250);
    }

    #[test]
    fn hints_fixed_at_open_are_ignored_later() {
        let mut hints = Hints::new();
        assert_eq!(hints.apply(Source::Info, "striping_unit", "64k"), Outcome::Accepted);
        hints.seal();
        let later = hints.apply(Source::Info, "striping_unit", "128k");
        assert_eq!(later, Outcome::Ignored(Ignored::FixedAtOpen));
        assert_eq!(hints.apply(Source::Info, "ind_rd_buffer_size", "1M"), Outcome::Accepted);
    }

    #[test]
    fn the_file_name_is_told_not_taken() {
        let mut hints = Hints::new();
        let taken = hints.apply(Source::Info, "filename", "other");
        assert_eq!(taken, Outcome::Ignored(Ignored::ReadOnly));
        hints.set_filename("/data/a b");
        assert!(hints.in_force().any(|(n, v, _)| n == "filename" && v == "/data/a b"));
        assert_eq!(hints.get("pario_access_taken"), None);
        hints.set_access_taken(3);
        assert_eq!(hints.get("pario_access_taken"), Some(("3".to_owned(), Source::Default)));
    }
}
