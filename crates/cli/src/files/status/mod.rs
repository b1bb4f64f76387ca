//! `pario status`: how the servers of partitions are.

mod ask;
mod metrics;
mod show;

use super::error::Error;
use super::print_more;
use crate::env::Environment;
use ask::Picture;
use clap::Args;
use pario_copy::Connections;
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

Exit code: 0 all servers answer that should, 1 one does not or the partition
NAME is down, 2 wrong arguments.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let connections = env.metadata_connections();
    let since = Instant::now();
    let mut before = show::Before::default();
    loop {
        let pictures = look(arguments, &connections)?;
        let text = if arguments.metrics {
            metrics::metrics(&pictures)
        } else if arguments.json {
            let all: Value = pictures.iter().map(show::object).collect();
            if arguments.watch.is_some() { format!("{all}\n") } else { format!("{all:#}\n") }
        } else {
            page(arguments, &pictures, &mut before, since.elapsed())
        };
        match (print_more(&text)?, arguments.watch) {
            (true, Some(seconds)) => std::thread::sleep(Duration::from_secs(seconds)),
            _ => return Ok(verdict(arguments, &pictures)),
        }
    }
}

fn look(arguments: &Arguments, connections: &Connections) -> Result<Vec<Picture>, Error> {
    let registry = connections.registry()?;
    let entries = match &arguments.name {
        Some(name) => vec![registry.get(name)?],
        None => registry.list()?,
    };
    let patience = Duration::from_secs(arguments.timeout);
    Ok(entries.into_iter().map(|entry| Picture::take(&registry, entry, patience)).collect())
}

fn page(arguments: &Arguments, pictures: &[Picture], before: &mut show::Before, at: Duration) -> String {
    let tables: Vec<String> =
        pictures.iter().map(|picture| show::table(picture, before, at, Stamp::now())).collect();
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

fn verdict(arguments: &Arguments, pictures: &[Picture]) -> ExitCode {
    let wanted = |picture: &Picture| arguments.name.is_none() || picture.answering() == picture.servers.len();
    match pictures.iter().all(|picture| !picture.has_silent() && wanted(picture)) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::ask::{Picture, State};
    use pario_registry::{Description, Entry, Running};
    use pario_types::{PartitionId, ServerId, Stamp};
    use pario_wire::message::{
        NamespaceCounters, PoolStatus, PrefetchCounters, ServerStatus, StorageCounters, TrafficCounters,
    };

    /// A server that has done something.
    pub fn status() -> ServerStatus {
        ServerStatus {
            pid: 77,
            started: Stamp(1_700_000_000_000_000_000),
            traffic: TrafficCounters { sessions: 4, requests: 1000, errors: 1, ..Default::default() },
            pool: PoolStatus {
                block: 65536,
                slots: 102,
                valid_slots: 51,
                dirty_slots: 10,
                high_water: 41,
                hits: 75,
                misses: 25,
                ..Default::default()
            },
            storage: StorageCounters { flushed_blocks: 32, ..Default::default() },
            names: NamespaceCounters { files: 12, directories: 3, open_files: 2 },
            prefetches: PrefetchCounters {
                taken: 9,
                refused: 4,
                released: 8,
                loaded_blocks: 20,
                hits: 16,
                kept_blocks: 2,
            },
            last_errors: vec!["/data is full".to_owned()],
            ..ServerStatus::default()
        }
    }

    /// A partition whose servers are in these states.
    pub fn picture(name: &str, servers: Vec<State>) -> Picture {
        let line = |server: usize| format!("ahpfs_server = /data{server}\n");
        let lines: String = (0..servers.len()).map(line).collect();
        let description = Description::parse(&lines, Some(name)).expect("a description");
        let running = Running {
            host: "here".to_owned(),
            pid: 1,
            unix: "/run/s".to_owned(),
            tcp: None,
            started: Stamp(0),
        };
        let running = (0..servers.len() as u16).map(|server| (ServerId(server), running.clone())).collect();
        let entry = Entry {
            id: PartitionId(7),
            description,
            host: "here".to_owned(),
            created: Stamp(0),
            made: true,
            generation: 0,
            running,
            abandoned: Default::default(),
        };
        Picture { entry, servers }
    }
}
