//! `pario plan`: where the chunks of a program's files are best kept.

use super::error::complain;
use super::{Error, SourceArguments};
use clap::{Args, ValueEnum};
use pario_placement::PlacementPlan;
use pario_profile::rescale::{self, RescaleTarget, Rescaling, Trend};
use pario_profile::{Broadcast, Profile, ProfileSource, Rule, make};
use pario_reports::{write_chunk_explanation, write_plan_json, write_plan_summary};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Find out where the chunks of a program's files are best kept.
///
/// From a profile of the program's accesses, files are cut into chunks, longest runs of bytes that the same processes
/// read and write. A chunk of one process is local to it; one that several only read is duplicated on each; one that
/// exactly one of several writes is broadcast: each has a copy, and the writer updates all; any other is central.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    #[command(flatten)]
    source: SourceArguments,
    /// Let a chunk of several processes be local to the one that does this share of its accesses, and of their bytes
    #[arg(long, value_name = "SHARE", value_parser = share)]
    dominance: Option<f64>,
    /// When a chunk that one of several processes writes has copies
    #[arg(long, value_enum, value_name = "WHEN", default_value = "always")]
    broadcast: When,
    /// Plan for processes, or for nodes with all of their processes
    #[arg(long, value_enum, value_name = "WHAT", default_value = "process")]
    by: By,
    /// Make the plan for another size of the files, another number of ranks, or both
    #[arg(long, value_name = "size=2x|size=64G|ranks=16", value_delimiter = ',', value_parser = Rescaling::parse)]
    rescale_to: Vec<Rescaling>,
    /// How the program grows, if the profile shows it wrongly or not at all
    #[arg(long, value_enum, value_name = "TREND", requires = "rescale_to", conflicts_with = "sample")]
    trend: Option<Growth>,
    /// A profile or plan of the same program at another size, which shows for certain how it grows
    #[arg(long, value_name = "PROFILE", requires = "rescale_to")]
    sample: Option<PathBuf>,
    /// Write the plan to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the plan in numbers (this is what is done if nothing else is asked for)
    #[arg(long)]
    summary: bool,
    /// Say why a chunk is placed as it is: its number, or FILE:OFFSET of a byte in it
    #[arg(long, value_name = "CHUNK", conflicts_with_all = ["json", "rescale_to"])]
    explain: Option<String>,
    /// Print the plan as JSON, for programs
    #[arg(long, conflicts_with = "summary")]
    json: bool,
}

const NOTES: &str = "\
Profiles:
  a trace directory     made by 'pario profile', or by a run with PARIO_TRACE=all
  a CSV table           columns process,file,offset,length,op,time: any label, bytes,
                        read or write, seconds (or time_ns, nanoseconds)
  a log of Darshan      with extended tracing (DXT), or what 'darshan-dxt-parser' prints of it
  a plan                to look at it again, or to rescale it

Other sizes: programs grow by more chunks of the same size, or by larger chunks in
the same number. A profile shows it if it is regular (rounds, or equal parts); a
second one of another size (--sample) shows it for certain. size=2x makes all files
twice as long, size=64G makes the longest file so long and the others in proportion.
What shows no trend is refused.

Examples:
  pario profile -n 4 -- ./simulation          record what it does
  pario plan pario-trace                      the plan in numbers
  pario plan pario-trace --out sim.plan       and as a file
  pario plan pario-trace --explain out.dat:0  why the first byte's chunk is where it is
  pario plan pario-trace --dominance 0.9      chunks that are nearly one process's are local
  pario plan pario-trace --broadcast if-cheaper   no copies that cost more than they save
  pario plan sim.plan --rescale-to size=4x,ranks=16 --out large.plan
  pario plan accesses.csv --json | jq '.chunks[] | [.file, .offset, .placement]'";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// Each process for itself
    Process,
    /// All processes of a node together
    Node,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum When {
    /// Each of its users has one
    Always,
    /// If updating them moves fewer bytes, or takes fewer accesses, than reading it at its writer's
    IfCheaper,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Growth {
    /// More chunks of the same size
    MoreChunks,
    /// As many chunks, but larger
    LargerChunks,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<(), Error> {
    let (mut plan, profile) = read(&arguments.source.value(), arguments)?;
    if !arguments.rescale_to.is_empty() {
        plan = rescaled(&plan, arguments)?;
    }
    if let Some(out) = &arguments.out {
        std::fs::write(out, plan.to_text()).map_err(|e| Error::Unwritten(out.clone(), e))?;
    }
    let mut output = BufWriter::new(std::io::stdout().lock());
    match &arguments.explain {
        Some(chunk) => {
            if !write_chunk_explanation(&plan, profile.as_ref(), chunk, rule(arguments), &mut output)? {
                return Err(Error::NoChunk(chunk.clone()));
            }
        }
        None if arguments.json => write_plan_json(&plan, &mut output)?,
        None => write_plan_summary(&plan, profile.map_or(0, |profile| profile.idle), &mut output)?,
    }
    output.flush()?;
    Ok(())
}

/// The plan, and the profile that it is made from unless it is a plan already.
fn read(source: &ProfileSource, arguments: &Arguments) -> Result<(PlacementPlan, Option<Profile>), Error> {
    if let Some(plan) = source.plan()? {
        return Ok((plan, None));
    }
    let (profile, facts) = source.profile(arguments.by == By::Node)?;
    complain(&facts);
    let plan = make(&profile, rule(arguments), &source.path.display().to_string());
    Ok((plan, Some(profile)))
}

fn rule(arguments: &Arguments) -> Rule {
    let broadcast = match arguments.broadcast {
        When::Always => Broadcast::Always,
        When::IfCheaper => Broadcast::IfCheaper,
    };
    Rule { dominance: arguments.dominance, broadcast }
}

fn rescaled(plan: &PlacementPlan, arguments: &Arguments) -> Result<PlacementPlan, Error> {
    let (trend, why) = match (arguments.trend, &arguments.sample) {
        (Some(Growth::MoreChunks), _) => (Trend::MoreChunks, "as told".to_owned()),
        (Some(Growth::LargerChunks), _) => (Trend::LargerChunks, "as told".to_owned()),
        (None, Some(path)) => {
            let (sample, _) = read(&ProfileSource::at(path), arguments)?;
            (rescale::between(plan, &sample)?, format!("which {} shows", path.display()))
        }
        (None, None) => (rescale::shown(plan)?, "which this one profile suggests".to_owned()),
    };
    let target = RescaleTarget::of(&arguments.rescale_to, plan);
    let rescaled = rescale::rescale(plan, trend, target)?;
    eprintln!("pario: rescaled by the trend {}, {why}", trend.word());
    Ok(rescaled)
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.5 && *share <= 1.0);
    share.ok_or_else(|| "a share above 0.5 and up to 1 is needed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_more_than_a_half() {
        assert!(
            share("0.5").is_err() && share("1.1").is_err() && share("x").is_err() && share("0.9").is_ok()
        );
    }
}
