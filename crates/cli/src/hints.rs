//! `pario hints`: the table of hints, one hint in full, or a hint file tried out.

use crate::output::print;
use clap::Args;
use pario_hints::{find, suggest, table};
use pario_reports::{checked_hint_file, hint_details, hint_object, hint_table};
use serde_json::Value;
use std::io;
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
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No hint of that name; the nearest one, if any is near.
    #[error("no hint is called {0:?}{near} (pario hints lists all)", near = .1.map_or(String::new(), |near| format!("; is {near} meant?")))]
    Unknown(String, Option<&'static str>),
    /// The hint file could not be read.
    #[error("cannot read the hint file {path}: {1}", path = .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let (text, is_wrong) = match (&arguments.check, &arguments.name) {
        (Some(path), _) => {
            let bytes = std::fs::read(path).map_err(|e| Error::Unreadable(path.clone(), e))?;
            checked_hint_file(&String::from_utf8_lossy(&bytes), arguments.json)
        }
        (None, Some(name)) => {
            let entry = find(name).ok_or_else(|| Error::Unknown(name.clone(), suggest(name)))?;
            let object = || format!("{:#}\n", hint_object(entry));
            (if arguments.json { object() } else { hint_details(entry, width()) }, false)
        }
        (None, None) if arguments.json => {
            (format!("{:#}\n", table().iter().map(hint_object).collect::<Value>()), false)
        }
        (None, None) => (hint_table(width()), false),
    };
    print(&text).map_err(Error::Output)?;
    Ok(ExitCode::from(u8::from(is_wrong)))
}

/// The width to write for: the terminal's, or a readable one where there is no terminal.
fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(terminal_size::Width(w), _)| usize::from(w)).clamp(60, 140)
}
