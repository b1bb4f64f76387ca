//! `pario bench diff`: has it got slower?

use super::results::{PHASES, Phase, Results, Series};
use super::stats::{self, Verdict};
use super::{Error, summary};
use crate::files::{Side, Table};
use clap::Args;
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

/// More than in a summary, because a file has many comparisons and each may be wrong by chance.
const CONFIDENCE: f64 = 0.99;

/// One comparison.
struct Change<'a> {
    series: &'a Series,
    phase: Phase,
    before: Vec<f64>,
    after: Vec<f64>,
    verdict: Verdict,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let (before, after) = (Results::load(&arguments.before)?, Results::load(&arguments.after)?);
    let changes = changes(&before, &after, arguments.margin / 100.0);
    if changes.is_empty() {
        return Err(Error::NothingInCommon(arguments.before.clone(), arguments.after.clone()));
    }
    std::io::stdout().lock().write_all(text(&changes).as_bytes()).map_err(Error::Output)?;
    let slower = changes.iter().any(|change| change.verdict == Verdict::Larger);
    Ok(if slower { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn changes<'a>(before: &Results, after: &'a Results, margin: f64) -> Vec<Change<'a>> {
    let key = |s: &Series| (s.workload.clone(), s.ranks, s.contender.clone());
    let mut changes = Vec::new();
    for series in &after.series {
        let Some(old) = before.series.iter().find(|old| key(old) == key(series)) else { continue };
        for phase in PHASES {
            let (before, after) = (old.seconds(phase), series.seconds(phase));
            if !before.is_empty() && !after.is_empty() {
                let verdict = stats::verdict(&before, &after, CONFIDENCE, margin);
                changes.push(Change { series, phase, before, after, verdict });
            }
        }
    }
    changes
}

fn text(changes: &[Change]) -> String {
    use Side::{Left, Right};
    let head = ["workload", "ranks", "contender", "phase", "before", "after", "times as long", ""];
    let mut table = Table::with_head(&[Left, Right, Left, Left, Right, Right, Left, Left], &head);
    for change in changes {
        let ratio = stats::ratio(&change.after, &change.before, CONFIDENCE);
        table.row(vec![
            change.series.workload.clone(),
            change.series.ranks.to_string(),
            change.series.contender.clone(),
            change.phase.name().to_owned(),
            summary::seconds_text(stats::median(&change.before)),
            summary::seconds_text(stats::median(&change.after)),
            summary::ratio_text(ratio, change.before.len().min(change.after.len())),
            match change.verdict {
                Verdict::Larger => "SLOWER",
                Verdict::Smaller => "faster",
                Verdict::Alike => "",
                Verdict::TooFew => "too few runs to tell",
            }
            .to_owned(),
        ]);
    }
    table.text(0)
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{results, series};
    use super::*;

    #[test]
    fn only_what_both_have_is_compared() {
        let times = [(1.0, 0.5), (1.01, 0.5), (0.99, 0.51)];
        let slow = times.map(|(write, read)| (write * 1.3, read));
        let before =
            results(vec![series("btio:small", "host", &times), series("btio:small", "pario", &times)]);
        let after =
            results(vec![series("btio:small", "pario", &slow), series("tile:small", "pario", &times)]);
        let changes = changes(&before, &after, 0.05);
        let verdicts: Vec<_> = changes.iter().map(|c| (c.phase, c.verdict)).collect();
        assert_eq!(verdicts, [(Phase::Write, Verdict::Larger), (Phase::Read, Verdict::Alike)]);
        assert!(text(&changes).contains("SLOWER"));
    }
}
