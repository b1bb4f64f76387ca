//! `pario clean`: the pools on this host of partitions that no registry knows.

use super::error::Error;
use super::print;
use crate::env::Environment;
use clap::Args;
use pario_launch::pools::{HostPool, PoolState, survey, sweep};
use pario_launch::task::ServerInstance;
use pario_launch::{FoundPool, host};
use pario_reports::orphaned_pool_text;
use pario_types::round_size;
use std::process::ExitCode;

/// Remove what servers of partitions that no registry knows have left in the memory of this host.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// Partitions, by their id or name; without, all that no registry knows
    #[arg(value_name = "ID|NAME")]
    partitions: Vec<String>,
    /// Remove pools with data that is stored nowhere else, too: it is lost
    #[arg(long)]
    discard: bool,
}

const NOTES: &str = "\
A server that was killed leaves its pool behind, with data that may not be stored
yet. 'pario up' and 'pario down' save what the pools of their partition hold.
Pools without unsaved data are removed; those with are named, and removed only
with --discard.

Exit code: 0 nothing is left, 1 pools with unsaved data are left.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let base = env.launch().run_base();
    sweep(&base);
    let wanted = |pool: &HostPool| {
        let name = pool.owner.as_ref().map(|owner| owner.name.as_str());
        let is = |text: &String| *text == pool.partition.to_string() || Some(text.as_str()) == name;
        pool.holds_data()
            && pool.is_orphaned()
            && (arguments.partitions.is_empty() || arguments.partitions.iter().any(is))
    };
    let (mut text, mut left) = (String::new(), false);
    for pool in survey(&base)?.into_iter().filter(wanted) {
        let found = FoundPool { host: host::name(), pool };
        if !arguments.discard {
            text += &orphaned_pool_text(&found);
            left = true;
            continue;
        }
        let HostPool { partition, server, owner, state, .. } = found.pool;
        let name = owner.map_or_else(|| partition.to_string(), |owner| owner.name);
        match (ServerInstance { run_base: env.run_base.clone(), partition, server }.discard(), state) {
            (Ok(None), _) | (Ok(_), PoolState::Unreadable { .. }) => {
                text += &format!("removed a pool of {name} that nobody can read\n")
            }
            (Ok(Some(bytes)), _) => {
                text += &format!(
                    "removed the pool of server {server} of {name}: {} are lost\n",
                    round_size(bytes)
                );
            }
            (Err(why), _) => {
                text += &format!("the pool of server {server} of {name} is not removed: {why}\n");
                left = true;
            }
        }
    }
    print(if text.is_empty() { "nothing to clean\n" } else { &text })?;
    Ok(if left { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
