//! `pario status`: how the servers of partitions are.

use super::error::Error;
use crate::env::Environment;
use crate::output::print_more;
use clap::Args;
use pario_copy::Connections;
use pario_launch::PartitionStatus;
use pario_reports::{RequestRates, partition_metrics, partition_status_json, partition_status_text};
use pario_types::Stamp;
use serde_json::Value;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Show how the servers of partitions are.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// Again and again, every few seconds, with requests per second
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
          value_parser = clap::value_parser!(u64).range(1..=86400))]
    watch: Option<u64>,
    /// In JSON; with --watch an object on each line
    #[arg(long, conflicts_with = "metrics")]
    json: bool,
    /// As metrics in Prometheus' text format
    #[arg(long, conflicts_with = "watch")]
    metrics: bool,
    /// How long each server may take to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 3,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Instead of servers, the MPI-IO call that each rank of a job is in, and
    /// which ranks collective calls wait for; all jobs of this host if no JOB
    #[arg(long, value_name = "JOB", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["watch", "json", "metrics", "name"])]
    ranks: Option<String>,
    /// The partition; all of the registry if none
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

const NOTES: &str = "\
Columns:
  SRV     a server's number; * keeps the names of files
  STATE   up: it answers; silent: it should, and does not; down: it was stopped
  UPTIME  how long it has been running
  SESS    connections to it, that of this command included
  REQ     requests since its start; with --watch per second
  CACHE   size of its cache, and how much of it is in use
  DIRTY   of the cache, what is not yet in storage, and how much it takes until
          it is written there
  HITS    of the blocks that were asked for, those that were in the cache
  FLUSH   bytes that went from the cache to storage
  ERR     requests and writes to storage that failed; the last ones follow

Examples:
  pario status                      all partitions
  pario status scratch --watch 5    one of them, every five seconds
  pario status --metrics > /var/lib/node_exporter/pario.prom
  pario status --ranks              where the ranks of running programs are
  pario status --ranks 4711         the ranks that process 4711, a launcher
                                    say, has started

A JOB is a name that the launcher gives to it, as --ranks without JOB shows, or
PARIO_JOB; or the number of a process that is a rank or has started ranks. Only
ranks on this host are shown, and only your own. Ranks also report by themselves
when a collective call has waited for others for a minute; PARIO_ROLLCALL sets
another number of seconds, or 0 for never.

Exit code: 0 all servers answer that should, 1 one does not or the partition
NAME is down, 2 wrong arguments.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    if let Some(job) = &arguments.ranks {
        return super::ranks::main(job);
    }
    let connections = env.metadata_connections();
    let since = Instant::now();
    let mut rates = RequestRates::default();
    loop {
        let statuses = look(arguments, &connections)?;
        let text = if arguments.metrics {
            partition_metrics(&statuses)
        } else if arguments.json {
            let all: Value = statuses.iter().map(partition_status_json).collect();
            if arguments.watch.is_some() { format!("{all}\n") } else { format!("{all:#}\n") }
        } else {
            page(arguments, &statuses, &mut rates, since.elapsed())
        };
        match (print_more(&text).map_err(Error::Output)?, arguments.watch) {
            (true, Some(seconds)) => std::thread::sleep(Duration::from_secs(seconds)),
            _ => return Ok(verdict(arguments, &statuses)),
        }
    }
}

fn look(arguments: &Arguments, connections: &Connections) -> Result<Vec<PartitionStatus>, Error> {
    let registry = connections.registry()?;
    let entries = match &arguments.name {
        Some(name) => vec![registry.get(name)?],
        None => registry.list()?,
    };
    let patience = Duration::from_secs(arguments.timeout);
    Ok(entries.into_iter().map(|entry| PartitionStatus::ask(&registry, entry, patience)).collect())
}

fn page(
    arguments: &Arguments,
    statuses: &[PartitionStatus],
    rates: &mut RequestRates,
    at: Duration,
) -> String {
    let tables: Vec<String> =
        statuses.iter().map(|status| partition_status_text(status, rates, at, Stamp::now())).collect();
    let text = match tables.is_empty() {
        true => "no partitions ('pario up FILE' creates one)\n".to_owned(),
        false => tables.join("\n"),
    };
    match (arguments.watch.is_some(), std::io::stdout().is_terminal()) {
        // The screen is cleared and written from its top.
        (true, true) => format!("\x1b[2J\x1b[H{text}"),
        (true, false) => text + "\n",
        (false, _) => text,
    }
}

fn verdict(arguments: &Arguments, statuses: &[PartitionStatus]) -> ExitCode {
    let wanted =
        |status: &PartitionStatus| arguments.name.is_none() || status.answering() == status.servers.len();
    match statuses.iter().all(|status| !status.has_silent() && wanted(status)) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
