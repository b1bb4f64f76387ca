//! `pario hints`: the table of hints, one hint in full, or a hint file tried out.

use clap::Args;
use pario_hints::{
    ApplyOutcome, HintEntry, HintFamily, HintLine, HintSource, HintStatus, Hints, InvalidLine, find,
    parse_hint_file, suggest, table, wrap,
};
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// List the hints that files understand, explain one, or try a hint file.
///
/// Hints come from the info object a program passes, from the variable PARIO_HINTS ("name=value;name=value"),
/// from a hint file (PARIO_HINTS_FILE or ROMIO_HINTS names it) and from the defaults; the one named first counts
/// most.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Explain this hint only
    #[arg(value_name = "NAME", conflicts_with = "check")]
    name: Option<String>,
    /// Write JSON, for programs
    #[arg(long)]
    json: bool,
    /// Say of every line of a hint file whether it would be taken; exit code 1 if one would not
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  pario hints                         the whole table
  pario hints ind_rd_buffer_size      everything about one hint
  pario hints --json | jq '.[].name'  the names, for a script
  pario hints --check my-hints        try a hint file before a run

A hint file has one 'name value' pair per line; '#' starts a comment.";

/// Why `pario hints` could not do its work.
#[derive(Debug)]
pub enum Error {
    /// No hint of that name; the nearest one, if any is near.
    Unknown(String, Option<&'static str>),
    /// The hint file could not be read.
    Unreadable(PathBuf, io::Error),
    /// The output could not be written.
    Output(io::Error),
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let (text, code) = match (&arguments.check, &arguments.name) {
        (Some(path), _) => {
            let bytes = std::fs::read(path).map_err(|e| Error::Unreadable(path.clone(), e))?;
            check(&String::from_utf8_lossy(&bytes), arguments.json)
        }
        (None, Some(name)) => {
            let entry = find(name).ok_or_else(|| Error::Unknown(name.clone(), suggest(name)))?;
            let text = if arguments.json { pretty(&entry_json(entry)) } else { details(entry, width()) };
            (text, ExitCode::SUCCESS)
        }
        (None, None) if arguments.json => {
            (pretty(&table().iter().map(entry_json).collect::<Value>()), ExitCode::SUCCESS)
        }
        (None, None) => (listing(width()), ExitCode::SUCCESS),
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever reads our output has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(code),
        Err(e) => Err(Error::Output(e)),
        Ok(()) => Ok(code),
    }
}

/// The width to write for: the terminal's, or a readable one where there is no terminal.
fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(terminal_size::Width(w), _)| usize::from(w)).clamp(60, 140)
}

fn listing(width: usize) -> String {
    let longest = |column: fn(&HintEntry) -> usize| table().iter().map(column).max().unwrap_or(0);
    let names = longest(|e| e.name.len());
    let defaults = longest(|e| default(e).len());
    let statuses = longest(|e| e.status.word().len());
    let indent = 2 + names + 2 + defaults + 2 + statuses + 2;
    let mut text = String::new();
    for family in HintFamily::ALL {
        text += &format!("{}{}\n", if text.is_empty() { "" } else { "\n" }, family.title());
        for entry in table().iter().filter(|e| e.family == family) {
            let (name, default, status) = (entry.name, default(entry), entry.status.word());
            text += &format!("  {name:names$}  {default:defaults$}  {status:statuses$}  ");
            text += &wrap(entry.doc, width.saturating_sub(indent)).join(&format!("\n{:indent$}", ""));
            text.push('\n');
        }
    }
    text += "\nactive: honoured now. accepted: checked, kept and returned, without effect yet.\n";
    text + "pario hints NAME tells the allowed values of a hint.\n"
}

fn details(entry: &HintEntry, width: usize) -> String {
    let mut text = format!("{}\n", entry.name);
    for line in wrap(entry.doc, width - 2) {
        text += &format!("  {line}\n");
    }
    let mut rows = vec![("allowed", entry.kind.allowed()), ("default", default(entry))];
    rows.push(("status", entry.status.word().to_owned()));
    if !entry.aliases.is_empty() {
        rows.push(("aliases", entry.aliases.join(", ")));
    }
    if entry.fixed_at_open {
        rows.push(("set", "when the file is opened; ignored later".to_owned()));
    }
    if entry.same_on_all_ranks {
        rows.push(("ranks", "the same value on all".to_owned()));
    }
    rows.push(("family", entry.family.title().to_owned()));
    text.push('\n');
    for (label, value) in rows {
        text += &format!("  {label:8} {}\n", wrap(&value, width - 11).join(&format!("\n{:11}", "")));
    }
    text
}

fn default(entry: &HintEntry) -> String {
    entry.default_text().unwrap_or_else(|| "unset".to_owned())
}

fn entry_json(entry: &HintEntry) -> Value {
    json!({
        "name": entry.name,
        "aliases": entry.aliases,
        "family": entry.family.title(),
        "type": entry.kind.name(),
        "allowed": entry.kind.allowed(),
        "default": entry.default.map(|value| entry.kind.format(value)),
        "status": entry.status.word(),
        "fixed_at_open": entry.fixed_at_open,
        "same_on_all_ranks": entry.same_on_all_ranks,
        "read_only": entry.read_only,
        "meaning": entry.doc,
    })
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// What would become of one line of a hint file.
struct Verdict {
    line: usize,
    word: &'static str,
    text: String,
    bad: bool,
}

fn check(text: &str, as_json: bool) -> (String, ExitCode) {
    let (good, bad) = parse_hint_file(text);
    let mut hints = Hints::new();
    let mut verdicts: Vec<Verdict> = good.iter().map(|line| judge(&mut hints, line)).collect();
    verdicts.extend(bad.iter().map(skipped));
    verdicts.sort_by_key(|v| v.line);
    let code = ExitCode::from(u8::from(verdicts.iter().any(|v| v.bad)));
    if as_json {
        let all = verdicts.iter().map(|v| json!({"line": v.line, "verdict": v.word, "text": v.text}));
        return (pretty(&all.collect::<Value>()), code);
    }
    let mut out: String =
        verdicts.iter().map(|v| format!("{:>4}: {:8}  {}\n", v.line, v.word, v.text)).collect();
    if verdicts.is_empty() {
        out.push_str("no hints in the file\n");
    }
    (out, code)
}

fn judge(hints: &mut Hints, line: &HintLine) -> Verdict {
    let HintLine { line, name, value } = line;
    let (word, text, bad) = match hints.apply(HintSource::HintFile, name, value) {
        ApplyOutcome::Accepted => {
            let (canonical, waits) =
                find(name).map_or((name.as_str(), false), |e| (e.name, e.status == HintStatus::Accepted));
            let value = hints.get(name).map_or_else(|| value.clone(), |(value, _)| value);
            let note = if waits { " (no effect yet)" } else { "" };
            ("accepted", format!("{canonical} = {value}{note}"), false)
        }
        ApplyOutcome::Unknown => {
            let near = suggest(name).map_or_else(String::new, |near| format!("; is {near} meant?"));
            (
                "unknown",
                format!("{} is no hint of Pario and would be ignored{near}", name.escape_debug()),
                false,
            )
        }
        ApplyOutcome::Ignored(why) => ("ignored", format!("{name} {why}"), false),
        ApplyOutcome::Refused(refusal) => ("refused", refusal.to_string(), true),
    };
    Verdict { line: *line, word, text, bad }
}

fn skipped(bad: &InvalidLine) -> Verdict {
    let text = format!("{}: {}", bad.text.escape_debug(), bad.error);
    Verdict { line: bad.line, word: "skipped", text, bad: true }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unknown(name, Some(near)) => {
                write!(f, "no hint is called {name:?}; is {near} meant? (pario hints lists all)")
            }
            Error::Unknown(name, None) => write!(f, "no hint is called {name:?} (pario hints lists all)"),
            Error::Unreadable(path, e) => write!(f, "cannot read the hint file {}: {e}", path.display()),
            Error::Output(e) => write!(f, "cannot write the output: {e}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_keeps_to_the_width() {
        for width in [60, 80, 100, 140] {
            let texts = table().iter().map(|e| details(e, width)).chain([listing(width)]);
            for line in texts.collect::<String>().lines() {
                assert!(line.chars().count() <= width.max(80), "{width}: {line}");
            }
        }
    }

    #[test]
    fn typing_mistakes_find_their_hint() {
        assert_eq!(suggest("cb_node"), Some("cb_nodes"));
        assert_eq!(suggest("romio_ds_raed"), Some("romio_ds_read"));
        assert_eq!(suggest("nc_align"), None);
    }

    #[test]
    fn every_line_of_a_checked_file_gets_a_verdict() {
        let (text, _) = check("cb_nodes 4\nstripe_size 64k\nromio_ds_read maybe\ncb_node 1\nodd\n", false);
        let words: Vec<_> = text.lines().map(|l| l.split_whitespace().nth(1).unwrap_or("")).collect();
        assert_eq!(words, ["accepted", "accepted", "refused", "unknown", "skipped"]);
        assert!(text.contains("striping_unit = 65536"));
        assert!(text.contains("is cb_nodes meant?"));
    }
}
