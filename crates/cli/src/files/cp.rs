//! `pario cp`: copies files into, out of and within partitions, in parallel.

use super::error::Error;
use super::placing;
use super::print;
use super::tally::failures;
use crate::env::Environment;
use crate::size_argument::size;
use clap::Args;
use pario_copy::{CopyObserver, CopyOptions, CopyOutcome, CopyPair, Endpoint, pairs};
use pario_reports::{ProgressDisplay, text};
use pario_types::{Progress, short_size};
use serde_json::json;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Copy files into, out of and within partitions.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// Directories with all that is in them
    #[arg(short = 'r', short_alias = 'R', long)]
    recursive: bool,
    /// Follow symbolic links to directories within directories, too
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Go on where an interrupted copy was, and leave files alone that have been copied
    #[arg(long)]
    resume: bool,
    /// Bring each copy to the medium before it gets its name
    #[arg(long)]
    sync: bool,
    /// Show how far it is, also if the output is no terminal
    #[arg(long)]
    progress: bool,
    /// Say in JSON what was done
    #[arg(long)]
    json: bool,
    /// Threads that copy [default: the number of cores, at most 8]
    #[arg(short = 'j', long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Bytes that a thread copies at a time
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = chunk)]
    chunk: u64,
    /// The most bytes per second, such as 100M, so that others get their share
    #[arg(long, value_name = "SIZE", value_parser = size)]
    limit: Option<u64>,
    /// Stripe size of new files in a partition [default: the partition's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    stripe_size: Option<u64>,
    /// Over how many servers new files in a partition are striped [default: all]
    #[arg(long, value_name = "N")]
    stripe_count: Option<u16>,
    #[command(flatten)]
    placing: placing::Options,
    /// The sources, followed by the name of the copy or the directory to put it into
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<OsString>,
}

const NOTES: &str = "\
Paths are NAME:/path or pario:NAME/path; everything else is a path of this
host (as is ufs:path). A directory without a name of its own, such as . or
scratch:/, stands for what is in it.

A copy keeps the mode and the times of its source, and holes stay holes. It
is written as .NAME.pario-part and gets its name when it is complete. If it is
interrupted, 'pario cp --resume' with the same paths goes on from there,
provided that the source has the same size and time as before.

Examples:
  pario cp input.dat scratch:/                 into the partition scratch
  pario cp -r scratch:/out results             out of it, a whole directory
  pario cp -r --resume scratch:/out results    the same, after an interruption
  pario cp scratch:/a other:/b                 from one partition to another
  pario cp --plan sim.plan input.dat scratch:/ as a plan has it

Exit code: 0 all copied, 1 something could not be, 2 wrong arguments.";

fn chunk(text: &str) -> Result<u64, String> {
    let range = (64 << 10)..=(1 << 30);
    let size = size(text)?;
    if range.contains(&size) { Ok(size) } else { Err("allowed are 64K to 1G".to_owned()) }
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.data_connections();
    let pairs = pairs(&arguments.paths, arguments.recursive, &mut connections)?;
    let placement = match (&arguments.placing.plan, pairs.first()) {
        (None, _) => None,
        (Some(_), Some(CopyPair { target: Endpoint::Partition(partition, _), .. })) => {
            arguments.placing.on(&connections.entry(partition.name())?)?
        }
        _ => return Err(Error::refused("--plan", "files of this host are not placed by a plan")),
    };
    let options = CopyOptions {
        recursive: arguments.recursive,
        follow_links: arguments.dereference,
        resume: arguments.resume,
        sync: arguments.sync,
        chunk: arguments.chunk,
        threads: arguments.jobs,
        rate_limit: arguments.limit,
        stripe_size: arguments.stripe_size.unwrap_or(0),
        stripe_count: arguments.stripe_count.unwrap_or(0),
        placement,
    };
    let reporting = Reporting { json: arguments.json, progress: arguments.progress };
    let copied = transfer(pairs, options, reporting, || false);
    Ok(if report(&copied, reporting)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How the user wants to be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reporting {
    /// In JSON.
    pub json: bool,
    /// With the progress, even without a terminal.
    pub progress: bool,
}

/// A copy and its duration.
pub struct Transfer {
    outcome: CopyOutcome,
    took: Duration,
    /// Whether the user saw the progress.
    is_shown: bool,
}

/// Shows a copy to the user, and stops it if the process is asked to end.
struct Observer {
    display: ProgressDisplay,
    is_interrupted: fn() -> bool,
}

impl Progress for Observer {
    fn expect(&self, bytes: u64) {
        self.display.expect(bytes);
    }

    fn total_known(&self) {
        self.display.total_known();
    }

    fn advance(&self, bytes: u64) {
        self.display.advance(bytes);
    }
}

impl CopyObserver for Observer {
    fn failed(&self, error: &pario_copy::Error) {
        self.display.print(&format!("pario: {error}"));
    }

    fn is_interrupted(&self) -> bool {
        (self.is_interrupted)()
    }
}

/// Copies each source to its target, and shows the progress.
pub fn transfer(
    pairs: Vec<CopyPair>,
    options: CopyOptions,
    reporting: Reporting,
    is_interrupted: fn() -> bool,
) -> Transfer {
    let begun = Instant::now();
    let observer = Observer { display: ProgressDisplay::start(reporting.progress), is_interrupted };
    let outcome = pario_copy::copy(pairs, options, &observer);
    Transfer { outcome, took: begun.elapsed(), is_shown: observer.display.is_shown() }
}

/// Reports the result of a copy. Returns whether all of it was copied.
pub fn report(transfer: &Transfer, reporting: Reporting) -> Result<bool, Error> {
    let Transfer { outcome, took, is_shown } = transfer;
    if reporting.json {
        let object = json!({
            "files": outcome.files,
            "bytes": outcome.bytes,
            "directories": outcome.directories,
            "unchanged": outcome.unchanged,
            "moved_bytes": outcome.moved_bytes,
            "seconds": took.as_secs_f64(),
            "failures": outcome.failures,
            "kept": outcome.resumable,
            "failed": failures(&outcome.failed),
        });
        print(&format!("{object:#}\n"))?;
    } else if *is_shown {
        let copied = text::count(outcome.files, "file");
        let unchanged = match outcome.unchanged {
            0 => String::new(),
            count => format!(", {} copied before", text::count(count, "file")),
        };
        let (bytes, seconds) = (short_size(outcome.bytes), took.as_secs_f64());
        let rate = short_size((outcome.moved_bytes as f64 / seconds.max(1e-3)) as u64);
        eprintln!("copied {copied}, {bytes} in {seconds:.1} s ({rate}/s){unchanged}");
    }
    if outcome.stopped {
        eprintln!("pario: the rest was not tried");
    }
    if outcome.resumable > 0 {
        let kept = text::count(outcome.resumable, "file");
        eprintln!("pario: what was copied of {kept} is kept: 'pario cp --resume' goes on from there");
    }
    Ok(outcome.failures == 0)
}
