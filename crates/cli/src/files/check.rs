//! `pario check`: checks a partition, and repairs it.

use super::error::Error;
use super::print;
use crate::env::Environment;
use clap::Args;
use pario_check::{CheckFinding, CheckReport, Inconsistency, inspect};
use pario_reports::{ProgressDisplay, text};
use pario_types::short_size;
use serde_json::{Value, json};
use std::ops::Range;
use std::process::ExitCode;

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

/// Runs the subcommand. A partition that cannot be checked at all is an error of code 2.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.metadata_connections();
    let partition = connections.partition(&arguments.name)?;
    let block = connections.entry(&arguments.name)?.description.structure().block_size;
    let display = ProgressDisplay::start(arguments.progress);
    let mut report = inspect(&partition, block, &display)?;
    drop(display);
    if arguments.repair {
        pario_check::repair(&partition, &mut report, arguments.accept_damaged);
    }
    let servers = partition.servers().count() as u64;
    if arguments.json {
        print(&format!("{:#}\n", object(&arguments.name, &report)))?;
    } else {
        report.errors.iter().for_each(|error| eprintln!("pario: {error}"));
        print(&summary(&arguments.name, servers, &report))?;
    }
    Ok(ExitCode::from(verdict(&report)))
}

fn verdict(report: &CheckReport) -> u8 {
    let all_right = report.findings.iter().all(|finding| finding.repaired);
    match (report.errors.is_empty(), all_right) {
        (false, _) => 2,
        (true, false) => 1,
        (true, true) => 0,
    }
}

fn summary(name: &str, servers: u64, report: &CheckReport) -> String {
    let mut words: String = report.findings.iter().map(|finding| format!("{finding}\n")).collect();
    words += &format!(
        "partition {name}: {} and {} checked, {} of bytes in {} on {}\n",
        text::count(report.files, "file"),
        text::count(report.directories, "directory"),
        short_size(report.bytes),
        text::count(report.parts, "part"),
        text::count(servers, "server"),
    );
    let found = report.findings.len() as u64;
    let repaired = report.findings.iter().filter(|finding| finding.repaired).count();
    words += &match (found, report.errors.is_empty()) {
        (0, true) => "nothing is wrong\n".to_owned(),
        (0, false) => "nothing wrong was found, but not all could be checked\n".to_owned(),
        _ => format!("{}, {repaired} repaired\n", text::count(found, "finding")),
    };
    words
}

fn object(name: &str, report: &CheckReport) -> Value {
    let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    json!({
        "partition": name,
        "files": report.files,
        "directories": report.directories,
        "parts": report.parts,
        "bytes": report.bytes,
        "findings": report.findings.iter().map(finding_object).collect::<Value>(),
        "troubles": errors,
    })
}

/// A finding for programs.
fn finding_object(finding: &CheckFinding) -> Value {
    let pairs = |bytes: &[Range<u64>]| -> Value {
        bytes.iter().map(|range| json!([range.start, range.end])).collect()
    };
    let mut value = match &finding.inconsistency {
        Inconsistency::Damaged { server, blocks, bytes } => {
            json!({ "server": server.0, "blocks": blocks, "bytes": pairs(bytes) })
        }
        Inconsistency::Copies { bytes } => json!({ "bytes": pairs(bytes) }),
        Inconsistency::Orphan { server, len } | Inconsistency::Stray { server, len } => {
            json!({ "server": server.0, "held": len })
        }
        Inconsistency::Size { recorded, held } => json!({ "believed": recorded, "held": held }),
        Inconsistency::Truncation { size } => json!({ "size": size }),
    };
    value["fault"] = json!(finding.inconsistency.word());
    value["file"] = json!(finding.file.to_string());
    value["path"] = json!(finding.path);
    value["repaired"] = json!(finding.repaired);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_types::{FileId, ServerId};

    #[test]
    fn the_exit_code_says_what_is_left() {
        let inconsistency = Inconsistency::Truncation { size: 1 };
        let finding = CheckFinding { file: FileId(2), path: None, inconsistency, repaired: false };
        let mut report = CheckReport::default();
        assert_eq!(verdict(&report), 0);
        report.findings.push(finding);
        assert_eq!(verdict(&report), 1);
        report.findings[0].repaired = true;
        assert_eq!(verdict(&report), 0);
        let cause = Box::new(pario_client::Error::Registry(pario_registry::Error::NoPartition("one".into())));
        report.errors.push(pario_check::Error { action: "cannot verify", target: "one".into(), cause });
        assert_eq!(verdict(&report), 2);
    }

    #[test]
    fn findings_are_objects_for_programs() {
        let inconsistency =
            Inconsistency::Damaged { server: ServerId(1), blocks: vec![0], bytes: vec![0..10, 20..30] };
        let finding = CheckFinding { file: FileId(255), path: None, inconsistency, repaired: false };
        assert_eq!(finding_object(&finding)["bytes"][1][1], 30);
    }

    #[test]
    fn the_last_lines_sum_up() {
        let report =
            CheckReport { files: 1, directories: 2, parts: 3, bytes: 2048, ..CheckReport::default() };
        let words = summary("one", 2, &report);
        assert_eq!(
            words,
            "partition one: 1 file and 2 directories checked, 2.0K of bytes in 3 parts on 2 servers\n\
             nothing is wrong\n"
        );
    }
}
