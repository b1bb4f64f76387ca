//! `pario check`: checks a partition, and repairs it.

use super::error::Error;
use super::print;
use crate::env::Environment;
use clap::Args;
use pario_check::{CheckReport, inspect};
use pario_reports::{ProgressDisplay, check_json, check_text};
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
        print(&format!("{:#}\n", check_json(&arguments.name, &report)))?;
    } else {
        report.errors.iter().for_each(|error| eprintln!("pario: {error}"));
        print(&check_text(&arguments.name, servers, &report))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use pario_check::{CheckFinding, Inconsistency};
    use pario_types::FileId;

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
}
