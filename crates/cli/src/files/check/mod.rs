//! `pario check`: whether everything in a partition is as it should be, and putting it right.

mod finding;
mod inspect;
mod paths;
mod repair;

use super::error::Error;
use super::progress::{Display, Meter};
use super::session::Session;
use super::{print, text};
use crate::env::Environment;
use clap::Args;
use inspect::Report;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;

/// Check a partition: checksums, and that names and stored bytes fit together.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// Put right what can be without loss
    #[arg(long)]
    repair: bool,
    /// Take damaged blocks for right as they are stored, so that they can be read
    #[arg(long, requires = "repair")]
    accept_damaged: bool,
    /// Show how far it is, also if the output is no terminal
    #[arg(long)]
    progress: bool,
    /// In JSON
    #[arg(long)]
    json: bool,
    /// The partition
    #[arg(value_name = "NAME")]
    name: String,
}

const NOTES: &str = "\
Programs may go on using the partition meanwhile. What can be found:
  damaged   bytes that are not what was written: a checksum differs.
            Write them again, or take them as they are: --accept-damaged
  orphan    a server holds bytes of a file that is gone.   repair: remove them
  stray     a server holds bytes that belong elsewhere.    repair: remove them
  size      a file is not as long as it is said to be.     repair: say it right
  copies    servers that keep the same bytes differ.       repair: as most have
            it, else as the one that has more, else as the first
  truncate  a program died while it truncated a file.      repair: wait for the metadata server

Examples:
  pario check scratch             look
  pario check scratch --repair    look, and put right what can be

Exit code: 0 nothing is wrong (any more), 1 something is, 2 not all could be
checked, or wrong arguments.";

/// Runs the subcommand. That a partition cannot be checked at all is an error of code 2.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut session = Session::of_tool(env);
    let partition = session.partition(&arguments.name)?;
    let block = session.entry(&arguments.name)?.description.structure().block_size;
    let meter = Arc::new(Meter::default());
    let display = Display::start(Arc::clone(&meter), arguments.progress);
    let mut report = inspect::inspect(&partition, block, &meter)?;
    drop(display);
    if arguments.repair {
        repair::repair(&partition, &mut report, arguments.accept_damaged);
    }
    let servers = partition.servers().count() as u64;
    match arguments.json {
        true => print(&format!("{:#}\n", object(&arguments.name, &report)))?,
        false => {
            report.troubles.iter().for_each(|trouble| eprintln!("pario: {trouble}"));
            print(&words(&arguments.name, servers, &report))?;
        }
    }
    Ok(ExitCode::from(verdict(&report)))
}

fn verdict(report: &Report) -> u8 {
    let all_right = report.findings.iter().all(|finding| finding.repaired);
    match (report.troubles.is_empty(), all_right) {
        (false, _) => 2,
        (true, false) => 1,
        (true, true) => 0,
    }
}

fn words(name: &str, servers: u64, report: &Report) -> String {
    let mut words: String = report.findings.iter().map(|finding| format!("{finding}\n")).collect();
    words += &format!(
        "partition {name}: {} and {} checked, {} of bytes in {} on {}\n",
        text::count(report.files, "file"),
        text::count(report.directories, "directory"),
        text::short_size(report.bytes),
        text::count(report.parts, "part"),
        text::count(servers, "server"),
    );
    let found = report.findings.len() as u64;
    let repaired = report.findings.iter().filter(|finding| finding.repaired).count();
    words += &match (found, report.troubles.is_empty()) {
        (0, true) => "nothing is wrong\n".to_owned(),
        (0, false) => "nothing wrong was found, but not all could be checked\n".to_owned(),
        _ => format!("{}, {repaired} repaired\n", text::count(found, "finding")),
    };
    words
}

fn object(name: &str, report: &Report) -> Value {
    let troubles: Vec<String> = report.troubles.iter().map(ToString::to_string).collect();
    json!({
        "partition": name,
        "files": report.files,
        "directories": report.directories,
        "parts": report.parts,
        "bytes": report.bytes,
        "findings": report.findings.iter().map(|finding| finding.object()).collect::<Value>(),
        "troubles": troubles,
    })
}

#[cfg(test)]
mod tests {
    use super::finding::{Fault, Finding};
    use super::*;
    use pario_types::FileId;

    #[test]
    fn the_exit_code_says_what_is_left() {
        let finding =
            Finding { file: FileId(2), path: None, fault: Fault::Truncation { size: 1 }, repaired: false };
        let mut report = Report::default();
        assert_eq!(verdict(&report), 0);
        report.findings.push(finding);
        assert_eq!(verdict(&report), 1);
        report.findings[0].repaired = true;
        assert_eq!(verdict(&report), 0);
        report.troubles.push(Error::NoHome);
        assert_eq!(verdict(&report), 2);
    }

    #[test]
    fn the_last_lines_sum_up() {
        let report = Report { files: 1, directories: 2, parts: 3, bytes: 2048, ..Report::default() };
        let words = words("one", 2, &report);
        assert_eq!(
            words,
            "partition one: 1 file and 2 directories checked, 2.0K of bytes in 3 parts on 2 servers\n\
             nothing is wrong\n"
        );
    }
}
