//! `pario profile`: runs a program, records all that it does with its files, and sums that up.
//!
//! It is `pario run` with `PARIO_TRACE=all` for the ranks. What the recording costs is what the ranks measured of it.

use super::Error;
use crate::env::{Environment, JOB, STATS, TRACE};
use crate::run;
use crate::trace::{select, summary};
use clap::Args;
use pario_profile::statistics_file;
use pario_reports::text::duration;
use pario_trace::{Actor, DEFAULT_DIR, TraceSelection};
use pario_types::round_size;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Run an MPI program and record all that it does with its files.
///
/// The same as 'pario run' with PARIO_TRACE=all, and then a summary, on standard error, of what was recorded, and of
/// what the recording cost. 'pario plan', 'pario advise' and 'pario convert' take the directory from there.
#[derive(Args)]
#[command(
    after_help = NOTES,
    override_usage = "pario profile [OPTIONS] [--] PROGRAM [ARGUMENT]...\n       \
                      pario profile [OPTIONS] [--] mpiexec [OPTION]... PROGRAM [ARGUMENT]..."
)]
#[group(id = "profile")]
pub struct Arguments {
    /// Where the trace goes
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    dir: PathBuf,
    #[command(flatten)]
    run: run::Arguments,
}

const NOTES: &str = "\
Examples:
  pario profile -n 4 -- ./simulation input.nml
  pario profile --dir /tmp/t -- mpiexec -n 4 ./simulation input.nml
      run it, and leave the trace in pario-trace or /tmp/t
  pario plan pario-trace
      where its chunks are best kept

All options of 'pario run' work here, too; 'pario run --help' explains them. The exit
code is the program's.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    if arguments.run.is_host_io() {
        return Err(Error::HostIo);
    }
    let bad_dir = || Error::Directory(arguments.dir.clone());
    let dir = std::path::absolute(&arguments.dir).map_err(|_| bad_dir())?;
    let name = dir.to_str().filter(|name| !name.contains(',')).ok_or_else(bad_dir)?;
    let job = run::fresh().map_err(Error::Run)?;
    let mut extra = vec![(TRACE, format!("all,dir={name}").into()), (JOB, job.clone().into())];
    if !env.has(STATS) {
        // What Pario decided is not in the trace; 'pario advise' looks at it, too.
        let stats = statistics_file(&dir, &job);
        std::fs::create_dir_all(&dir).map_err(|e| Error::Unwritten(dir.clone(), e))?;
        extra.push((STATS, format!("json:{}", stats.display()).into()));
    }
    let began = Instant::now();
    let end = run::carry_out(&arguments.run, &extra, env).map_err(Error::Run)?;
    let took = began.elapsed();
    let Some(end) = end else { return Ok(ExitCode::SUCCESS) };
    let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    // However the program ended, it ends so for our caller, too; what is wrong with the trace is said.
    if let Err(error) = report(&arguments.dir, &job, nanoseconds) {
        eprintln!("pario: {error}");
    }
    end.follow()
}

fn report(dir: &Path, job: &str, took_ns: u64) -> Result<(), Error> {
    let selection = TraceSelection::of(dir, Some(job));
    let mut merged = select::open(&selection)?;
    let mut counts: BTreeMap<(Actor, u32), u64> = BTreeMap::new();
    while let Some((source, _)) = merged.next() {
        let header = merged.sources[source].header();
        *counts.entry((header.actor, header.rank)).or_default() += 1;
    }
    let paths: Vec<&Path> = merged.sources.iter().map(|source| source.path.as_path()).collect();
    let bytes: u64 = paths.iter().filter_map(|path| path.metadata().ok()).map(|found| found.len()).sum();
    let ranks = merged.sources.first().map_or(0, |source| source.header().ranks);
    let traced: BTreeSet<u32> = merged.sources.iter().map(|source| source.header().rank).collect();
    let mut output = std::io::stderr().lock();
    writeln!(
        output,
        "\npario: trace in {}: {}, {} of {ranks} ranks used MPI-IO",
        dir.display(),
        round_size(bytes),
        traced.len()
    )?;
    let cost = merged.sources.iter().filter_map(|source| {
        let header = source.header();
        let count = *counts.get(&(header.actor, header.rank))?;
        source.reader.cost_ns().map(|cost| (cost, count))
    });
    match cost.max() {
        Some((cost, count)) => writeln!(
            output,
            "pario: recording cost {:.0} ns per operation, measured on the way, {} on the busiest rank: {:.2} % of the \
             run's {}",
            cost as f64 / count as f64,
            duration(cost),
            cost as f64 * 100.0 / took_ns.max(1) as f64,
            duration(took_ns)
        )?,
        None => writeln!(output, "pario: what the recording cost is not known: no rank finished its trace")?,
    }
    writeln!(output)?;
    summary::write(&selection, false, &mut output)?;
    Ok(())
}
