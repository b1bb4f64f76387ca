//! `pario advise`: what a program does to its files that it should not.

use super::error::complain;
use super::{Error, SourceArguments};
use clap::Args;
use pario_profile::advice::{Advice, Hinted, Numbers, ProfileFacts, advise, overlaps};
use pario_profile::{
    Collector, Profile, ProfileSourceError, SourceFacts, recorded_aggregators, statistics_file,
};
use pario_reports::{Timeline, advice_object, advice_text, profile_page};
use pario_types::Toggle;
use std::io::Write;
use std::path::PathBuf;

/// Look for what a program does to its files that it should not.
///
/// Each piece of advice comes with the numbers that show it, with what to do, and with what Pario does about it by
/// itself. A program without faults gets none.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    #[command(flatten)]
    source: SourceArguments,
    /// The hints of the run, as in PARIO_HINTS: "name=value;name=value"
    #[arg(long, value_name = "HINTS")]
    hints: Option<String>,
    /// Write a report with pictures to this file: one page that needs no other
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

const NOTES: &str = "\
Topics:
  small        many small independent accesses
  misaligned   large independent accesses that begin within a block
  random       accesses in no order
  redundant    the same bytes read again and again, or by many processes
  imbalanced   some processes move much more than others
  independent  processes take turns in a file without collective calls
  view-churn   views set for nearly every access
  aggregators  fewer than nodes, or far too many ('pario profile' records them)
  hints        hints that are refused or do not fit (--hints)

Examples:
  pario profile -n 4 -- ./simulation
  pario advise pario-trace
  pario advise pario-trace --html report.html
  pario advise accesses.csv --json | jq '.advice[] | [.severity, .topic, .file]'";

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<(), Error> {
    let source = arguments.source.value();
    let failed = ProfileSourceError::profile(&source.path);
    let mut numbers = Numbers::default();
    let mut collector = Collector::new(false);
    let mut span = (u64::MAX, 0);
    let facts = source.each(|who, event| {
        numbers.add(who, event);
        span = (span.0.min(event.start_ns), span.1.max(event.end_ns()));
        Ok::<_, Error>(collector.add(who, event).map_err(&failed)?)
    })?;
    complain(&facts);
    let profile = collector.finish().map_err(&failed)?;
    let advice = advice(arguments, &numbers, &profile, &facts)?;
    if let Some(path) = &arguments.html {
        let mut timeline = Timeline::new(&profile, span);
        source.each(|who, event| {
            timeline.add(who, event);
            Ok::<_, Error>(())
        })?;
        let page = profile_page(&source.path.display().to_string(), &advice, &numbers, &profile, &timeline);
        std::fs::write(path, page).map_err(|e| Error::Unwritten(path.clone(), e))?;
    }
    let text = if arguments.json { format!("{:#}\n", advice_object(&advice)) } else { advice_text(&advice) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn advice(
    arguments: &Arguments,
    numbers: &Numbers,
    profile: &Profile,
    facts: &SourceFacts,
) -> Result<Vec<Advice>, Error> {
    let overlaps: Vec<_> = profile.files.iter().map(|name| &**name).zip(overlaps(profile)).collect();
    let aggregators = facts
        .job
        .as_deref()
        .map_or(Ok(Vec::new()), |job| recorded_aggregators(&statistics_file(&arguments.source.path, job)))?;
    let hinted = hinted(arguments.hints.as_deref());
    Ok(advise(&ProfileFacts { numbers, overlaps: &overlaps, aggregators: &aggregators, hinted: &hinted }))
}

fn hinted(text: Option<&str>) -> Hinted {
    let Some(text) = text else { return Hinted::default() };
    let variable = |name: &str| (name == "PARIO_HINTS").then(|| text.to_owned());
    let (hints, complaints) = pario_hints::load(&variable, None);
    Hinted {
        cb_write_off: hints.cb_write() == Toggle::Disable,
        cb_read_off: hints.cb_read() == Toggle::Disable,
        no_independent: hints.no_indep_rw(),
        cb_nodes: hints.cb_nodes(),
        refused: complaints.iter().map(ToString::to_string).collect(),
    }
}
