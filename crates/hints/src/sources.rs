//! The sources of hints outside the program: a hint file in ROMIO's format, and the environment.
//!
//! A hint file has one `name value` pair per line. Blank lines and everything after a `#` at the start of a word are
//! ignored. `PARIO_HINTS` has `name=value` pairs, separated by semicolons. Invalid lines and pairs are reported with
//! their number and skipped, because a mistake in a tuning file must not stop a program. As in ROMIO, the first of two
//! lines for the same hint counts.
//!
//! This module does no I/O: its callers read the file and the environment.

use crate::hints::{ApplyOutcome, HintSource, Hints, RefusedValue, quote};
use crate::table::find;
use std::fmt;

/// The hint file that is read, if it exists, when no variable names one.
pub const SYSTEM_HINT_FILE: &str = "/etc/romio-hints";

/// The environment variables for hints, and their meaning.
pub const VARIABLES: [(&str, &str); 3] = [
    ("PARIO_HINTS", "hints as name=value pairs with semicolons between them"),
    ("PARIO_HINTS_FILE", "the path of a hint file"),
    ("ROMIO_HINTS", "the same, under ROMIO's name; PARIO_HINTS_FILE counts more"),
];

/// The hint file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintFile {
    /// The path of the file.
    pub path: String,
    /// The variable that names the file. `None`: the system's file, which need not exist.
    pub variable: Option<&'static str>,
}

/// A valid line of a hint file, or a valid pair of the variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintLine {
    /// The number of the line, from 1.
    pub line: usize,
    /// The hint's name as written.
    pub name: String,
    /// The value as written.
    pub value: String,
}

/// An invalid line or pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidLine {
    /// The number of the line, from 1.
    pub line: usize,
    /// The line as written.
    pub text: String,
    /// The reason why it is invalid.
    pub error: LineError,
}

/// The reason why a line is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// A name without a value.
    NoValue,
    /// More than a name and a value.
    ExtraWords,
    /// No name.
    NoName,
    /// An earlier line, with this number, has set the hint.
    Duplicate(usize),
}

/// A problem in a hint file or the environment that is reported to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintProblem {
    /// An invalid line or pair.
    Line(HintSource, InvalidLine),
    /// An unknown hint, in a source or with a prefix that only Pario uses.
    Unknown(HintSource, String),
    /// A value that is not allowed.
    Refused(RefusedValue),
}

/// The hint file to read: `PARIO_HINTS_FILE`, else `ROMIO_HINTS`, else the system's file.
pub fn hint_file(env: &dyn Fn(&str) -> Option<String>) -> HintFile {
    for variable in ["PARIO_HINTS_FILE", "ROMIO_HINTS"] {
        if let Some(path) = env(variable).filter(|p| !p.is_empty()) {
            return HintFile { path, variable: Some(variable) };
        }
    }
    HintFile { path: SYSTEM_HINT_FILE.to_owned(), variable: None }
}

/// The hints in force before a program passes any: defaults, the text of the hint file if there is one, and the
/// environment. Also returns a problem for every line that was not applied.
pub fn load(env: &dyn Fn(&str) -> Option<String>, file: Option<&str>) -> (Hints, Vec<HintProblem>) {
    let mut hints = Hints::new();
    let mut problems = Vec::new();
    let mut take = |source, (good, bad): (Vec<HintLine>, Vec<InvalidLine>)| {
        problems.extend(bad.into_iter().map(|b| HintProblem::Line(source, b)));
        for HintLine { name, value, .. } in good {
            match hints.apply(source, &name, &value) {
                ApplyOutcome::Accepted | ApplyOutcome::Ignored(_) => {}
                ApplyOutcome::Refused(refusal) => problems.push(HintProblem::Refused(refusal)),
                // ROMIO may use the same hint file, with hints that only ROMIO has.
                ApplyOutcome::Unknown if source == HintSource::HintFile && !name.starts_with("pario_") => {}
                ApplyOutcome::Unknown => problems.push(HintProblem::Unknown(source, name)),
            }
        }
    };
    if let Some(text) = file {
        take(HintSource::HintFile, parse_hint_file(text));
    }
    if let Some(text) = env("PARIO_HINTS") {
        take(HintSource::Environment, parse_hint_variable(&text));
    }
    (hints, problems)
}

/// Parses a hint file into valid and invalid lines.
pub fn parse_hint_file(text: &str) -> (Vec<HintLine>, Vec<InvalidLine>) {
    let lines = text.lines().enumerate().map(|(index, line)| {
        let mut words = line.split_whitespace().take_while(|w| !w.starts_with('#'));
        let pair = match (words.next(), words.next(), words.next()) {
            (None, ..) => None,
            (Some(_), None, _) => Some(Err(LineError::NoValue)),
            (Some(name), Some(value), None) => Some(Ok((name, value))),
            (Some(_), Some(_), Some(_)) => Some(Err(LineError::ExtraWords)),
        };
        (index + 1, line, pair)
    });
    collect_lines(lines)
}

/// Parses the variable `PARIO_HINTS` into valid and invalid pairs. Line breaks may also separate pairs.
pub fn parse_hint_variable(text: &str) -> (Vec<HintLine>, Vec<InvalidLine>) {
    let pairs = text.split([';', '\n']).filter(|p| !p.trim().is_empty()).enumerate().map(|(index, pair)| {
        let parsed = match pair.split_once('=') {
            None => Err(LineError::NoValue),
            Some((name, _)) if name.trim().is_empty() => Err(LineError::NoName),
            Some((_, value)) if value.trim().is_empty() => Err(LineError::NoValue),
            Some((name, value)) => Ok((name.trim(), value.trim())),
        };
        (index + 1, pair, Some(parsed))
    });
    collect_lines(pairs)
}

/// The number of a line, its text, and its content: nothing, a name with a value, or an error.
type ScannedLine<'a> = (usize, &'a str, Option<Result<(&'a str, &'a str), LineError>>);

fn collect_lines<'a>(lines: impl Iterator<Item = ScannedLine<'a>>) -> (Vec<HintLine>, Vec<InvalidLine>) {
    let mut first = std::collections::HashMap::new();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (line, text, pair) in lines {
        let error = match pair {
            None => continue,
            Some(Err(error)) => error,
            Some(Ok((name, value))) => {
                // A hint and its alias are the same hint.
                let canonical = find(name).map_or(name, |entry| entry.name);
                match *first.entry(canonical).or_insert(line) {
                    earlier if earlier < line => LineError::Duplicate(earlier),
                    _ => {
                        good.push(HintLine { line, name: name.to_owned(), value: value.to_owned() });
                        continue;
                    }
                }
            }
        };
        bad.push(InvalidLine { line, text: text.trim().to_owned(), error });
    }
    (good, bad)
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineError::NoValue => f.write_str("no value"),
            LineError::ExtraWords => f.write_str("more than one name and one value"),
            LineError::NoName => f.write_str("no name"),
            LineError::Duplicate(line) => write!(f, "repeats {line}, which stands"),
        }
    }
}

impl fmt::Display for InvalidLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} skipped: {}", self.line, quote(&self.text), self.error)
    }
}

impl fmt::Display for HintProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HintProblem::Line(HintSource::HintFile, bad) => write!(f, "hint file, line {bad}"),
            HintProblem::Line(source, bad) => write!(f, "{source}, pair {bad}"),
            HintProblem::Unknown(source, name) => {
                write!(f, "hint {} from {source} is not known (pario hints lists all)", quote(name))
            }
            HintProblem::Refused(refusal) => refusal.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: usize, name: &str, value: &str) -> HintLine {
        HintLine { line, name: name.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn a_hint_file_is_read_like_romios() {
        let text =
            "# tuning\n\nromio_cb_read enable\r\n\t cb_nodes\t 4   # four\ncb_nodes 5\nlonely\na b c\n";
        let (good, bad) = parse_hint_file(text);
        assert_eq!(good, [line(3, "romio_cb_read", "enable"), line(4, "cb_nodes", "4")]);
        let faults: Vec<_> = bad.iter().map(|b| (b.line, b.error)).collect();
        assert_eq!(
            faults,
            [(5, LineError::Duplicate(4)), (6, LineError::NoValue), (7, LineError::ExtraWords)]
        );
        assert_eq!(bad[1].to_string(), "6: \"lonely\" skipped: no value");
    }

    #[test]
    fn the_variable_holds_pairs() {
        let (good, bad) = parse_hint_variable("cb_nodes=4; cb_config_list = *:1;;=3;x;y=");
        assert_eq!(good, [line(1, "cb_nodes", "4"), line(2, "cb_config_list", "*:1")]);
        let faults: Vec<_> = bad.iter().map(|b| b.error).collect();
        assert_eq!(faults, [LineError::NoName, LineError::NoValue, LineError::NoValue]);
    }

    #[test]
    fn the_variable_counts_more_than_the_file() {
        let env = |name: &str| {
            (name == "PARIO_HINTS").then(|| "cb_nodes=4;pario_typo=1;romio_ds_read=x".to_owned())
        };
        let file = "cb_nodes 2\nind_rd_buffer_size 1M\nromio_lustre_co_ratio 1\npario_odd 1\n";
        let (hints, problems) = load(&env, Some(file));
        assert_eq!(hints.get("cb_nodes"), Some(("4".to_owned(), HintSource::Environment)));
        assert_eq!(hints.get("ind_rd_buffer_size"), Some(("1048576".to_owned(), HintSource::HintFile)));
        let text: Vec<_> = problems.iter().map(HintProblem::to_string).collect();
        assert_eq!(text.len(), 3, "{text:?}");
        assert!(
            text[0].contains("pario_odd")
                && text[1].contains("pario_typo")
                && text[2].contains("romio_ds_read")
        );
    }

    #[test]
    fn the_hint_file_is_found_by_variable() {
        let none = |_: &str| None;
        assert_eq!(hint_file(&none), HintFile { path: SYSTEM_HINT_FILE.to_owned(), variable: None });
        let romio = |name: &str| (name == "ROMIO_HINTS").then(|| "/r".to_owned());
        assert_eq!(hint_file(&romio).path, "/r");
        let both = |name: &str| name.ends_with("FILE").then(|| "/p".to_owned()).or_else(|| romio(name));
        assert_eq!(hint_file(&both), HintFile { path: "/p".to_owned(), variable: Some("PARIO_HINTS_FILE") });
    }
}
