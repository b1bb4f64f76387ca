//! Where hints come from besides the program: a hint file in ROMIO's format, and the environment.
//!
//! A hint file has one `name value` pair per line; blank lines and everything after a `#` at the start of
//! a word do not count. `PARIO_HINTS` holds `name=value` pairs with semicolons between them. Lines and pairs
//! that make no sense are reported with their number and skipped: a typing mistake in a tuning file must
//! never stop a program. As in ROMIO the first of two lines for the same hint stands.
//!
//! Nothing here opens a file or reads the environment: the caller brings both.

use crate::set::{Hints, Outcome, Refusal, Source, quoted};
use crate::table::find;
use std::fmt;

/// The hint file that is read, if it exists, when no variable names one.
pub const SYSTEM_HINT_FILE: &str = "/etc/romio-hints";

/// The environment variables about hints, with what each is for.
pub const VARIABLES: [(&str, &str); 3] = [
    ("PARIO_HINTS", "hints as name=value pairs with semicolons between them"),
    ("PARIO_HINTS_FILE", "the path of a hint file"),
    ("ROMIO_HINTS", "the same, under ROMIO's name; PARIO_HINTS_FILE counts more"),
];

/// Which hint file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintFile {
    /// Its path.
    pub path: String,
    /// The variable that named it. `None`: the system's file, which may well not exist.
    pub variable: Option<&'static str>,
}

/// One good line of a hint file, or one good pair of the variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintLine {
    /// Its number, from 1.
    pub line: usize,
    /// The hint's name as written.
    pub name: String,
    /// Its value as written.
    pub value: String,
}

/// A line (or pair) that is not a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// The line as written.
    pub text: String,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A name without a value.
    NoValue,
    /// More than a name and a value.
    TooMuch,
    /// No name.
    NoName,
    /// A hint that the given earlier line has set.
    Repeated(usize),
}

/// Something in a hint file or the environment that the user should know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// A line or pair that is not a hint.
    Line(Source, BadLine),
    /// A hint that Pario does not know, where only Pario's can be meant.
    Unknown(Source, String),
    /// A value that is not allowed.
    Refused(Refusal),
}

/// The hint file to read: `PARIO_HINTS_FILE`, else `ROMIO_HINTS`, else the system's.
pub fn hint_file(env: &dyn Fn(&str) -> Option<String>) -> HintFile {
    for variable in ["PARIO_HINTS_FILE", "ROMIO_HINTS"] {
        if let Some(path) = env(variable).filter(|p| !p.is_empty()) {
            return HintFile { path, variable: Some(variable) };
        }
    }
    HintFile { path: SYSTEM_HINT_FILE.to_owned(), variable: None }
}

/// The hints that hold before a program passes any: defaults, the hint file's text if there is one, and the
/// environment. Every line that was not taken is in the complaints.
pub fn load(env: &dyn Fn(&str) -> Option<String>, file: Option<&str>) -> (Hints, Vec<Complaint>) {
    let mut hints = Hints::new();
    let mut complaints = Vec::new();
    let mut take = |source, (good, bad): (Vec<HintLine>, Vec<BadLine>)| {
        complaints.extend(bad.into_iter().map(|b| Complaint::Line(source, b)));
        for HintLine { name, value, .. } in good {
            match hints.apply(source, &name, &value) {
                Outcome::Accepted | Outcome::Ignored(_) => {}
                Outcome::Refused(refusal) => complaints.push(Complaint::Refused(refusal)),
                // A hint file may be shared with ROMIO and carry hints only ROMIO has.
                Outcome::Unknown if source == Source::HintFile && !name.starts_with("pario_") => {}
                Outcome::Unknown => complaints.push(Complaint::Unknown(source, name)),
            }
        }
    };
    if let Some(text) = file {
        take(Source::HintFile, parse_hint_file(text));
    }
    if let Some(text) = env("PARIO_HINTS") {
        take(Source::Environment, parse_hint_variable(&text));
    }
    (hints, complaints)
}

/// The lines of a hint file: the hints, and the lines that are not hints.
pub fn parse_hint_file(text: &str) -> (Vec<HintLine>, Vec<BadLine>) {
    let lines = text.lines().enumerate().map(|(index, line)| {
        let mut words = line.split_whitespace().take_while(|w| !w.starts_with('#'));
        let pair = match (words.next(), words.next(), words.next()) {
            (None, ..) => None,
            (Some(_), None, _) => Some(Err(Fault::NoValue)),
            (Some(name), Some(value), None) => Some(Ok((name, value))),
            (Some(_), Some(_), Some(_)) => Some(Err(Fault::TooMuch)),
        };
        (index + 1, line, pair)
    });
    sort_out(lines)
}

/// The pairs of the variable `PARIO_HINTS`: the hints, and the pairs that are not hints. New lines may stand
/// between pairs, too.
pub fn parse_hint_variable(text: &str) -> (Vec<HintLine>, Vec<BadLine>) {
    let pairs = text.split([';', '\n']).filter(|p| !p.trim().is_empty()).enumerate().map(|(index, pair)| {
        let parsed = match pair.split_once('=') {
            None => Err(Fault::NoValue),
            Some((name, _)) if name.trim().is_empty() => Err(Fault::NoName),
            Some((_, value)) if value.trim().is_empty() => Err(Fault::NoValue),
            Some((name, value)) => Ok((name.trim(), value.trim())),
        };
        (index + 1, pair, Some(parsed))
    });
    sort_out(pairs)
}

/// A line's number, its text, and what it holds: nothing, a name with its value, or a fault.
type Scanned<'a> = (usize, &'a str, Option<Result<(&'a str, &'a str), Fault>>);

fn sort_out<'a>(lines: impl Iterator<Item = Scanned<'a>>) -> (Vec<HintLine>, Vec<BadLine>) {
    let mut first = std::collections::HashMap::new();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (line, text, pair) in lines {
        let fault = match pair {
            None => continue,
            Some(Err(fault)) => fault,
            Some(Ok((name, value))) => {
                // A hint and its alias are the same hint.
                let canonical = find(name).map_or(name, |entry| entry.name);
                match *first.entry(canonical).or_insert(line) {
                    earlier if earlier < line => Fault::Repeated(earlier),
                    _ => {
                        good.push(HintLine { line, name: name.to_owned(), value: value.to_owned() });
                        continue;
                    }
                }
            }
        };
        bad.push(BadLine { line, text: text.trim().to_owned(), fault });
    }
    (good, bad)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoValue => f.write_str("no value"),
            Fault::TooMuch => f.write_str("more than one name and one value"),
            Fault::NoName => f.write_str("no name"),
            Fault::Repeated(line) => write!(f, "repeats {line}, which stands"),
        }
    }
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} skipped: {}", self.line, quoted(&self.text), self.fault)
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Complaint::Line(Source::HintFile, bad) => write!(f, "hint file, line {bad}"),
            Complaint::Line(source, bad) => write!(f, "{source}, pair {bad}"),
            Complaint::Unknown(source, name) => {
                write!(f, "hint {} from {source} is not known (pario hints lists all)", quoted(name))
            }
            Complaint::Refused(refusal) => refusal.fmt(f),
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
        let faults: Vec<_> = bad.iter().map(|b| (b.line, b.fault)).collect();
        assert_eq!(faults, [(5, Fault::Repeated(4)), (6, Fault::NoValue), (7, Fault::TooMuch)]);
        assert_eq!(bad[1].to_string(), "6: \"lonely\" skipped: no value");
    }

    #[test]
    fn the_variable_holds_pairs() {
        let (good, bad) = parse_hint_variable("cb_nodes=4; cb_config_list = *:1;;=3;x;y=");
        assert_eq!(good, [line(1, "cb_nodes", "4"), line(2, "cb_config_list", "*:1")]);
        let faults: Vec<_> = bad.iter().map(|b| b.fault).collect();
        assert_eq!(faults, [Fault::NoName, Fault::NoValue, Fault::NoValue]);
    }

    #[test]
    fn the_variable_counts_more_than_the_file() {
        let env = |name: &str| {
            (name == "PARIO_HINTS").then(|| "cb_nodes=4;pario_typo=1;romio_ds_read=x".to_owned())
        };
        let file = "cb_nodes 2\nind_rd_buffer_size 1M\nromio_lustre_co_ratio 1\npario_odd 1\n";
        let (hints, complaints) = load(&env, Some(file));
        assert_eq!(hints.get("cb_nodes"), Some(("4".to_owned(), Source::Environment)));
        assert_eq!(hints.get("ind_rd_buffer_size"), Some(("1048576".to_owned(), Source::HintFile)));
        let text: Vec<_> = complaints.iter().map(Complaint::to_string).collect();
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
