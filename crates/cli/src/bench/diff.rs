//! `pario bench diff`: compares two measurements.

use super::Error;
use clap::Args;
use pario_benchmarks::ComparisonResults;
use pario_benchmarks::statistics::Verdict;
use pario_reports::{changes_text, measured_changes};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare two measurements
///
/// For each workload, number of ranks, contender and phase that both have, the ratio of the median times is given with
/// an interval that holds it with 99 % confidence. Only if the whole interval is beyond the margin it counts as
/// slower or faster; anything else is noise.
#[derive(Args)]
#[command(
    after_help = "Exit code: 0 nothing has got slower; 1 something has; 2 there is nothing to compare."
)]
pub struct Arguments {
    /// The file of the earlier measurement
    before: PathBuf,
    /// The file of the later one
    after: PathBuf,
    /// By how much it may be slower, in percent
    #[arg(long, value_name = "PERCENT", default_value = "5")]
    margin: f64,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let (before, after) =
        (ComparisonResults::load(&arguments.before)?, ComparisonResults::load(&arguments.after)?);
    let changes = measured_changes(&before, &after, arguments.margin / 100.0);
    if changes.is_empty() {
        return Err(Error::NothingInCommon(arguments.before.clone(), arguments.after.clone()));
    }
    std::io::stdout().lock().write_all(changes_text(&changes).as_bytes()).map_err(Error::Output)?;
    let slower = changes.iter().any(|change| change.verdict == Verdict::Larger);
    Ok(if slower { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
