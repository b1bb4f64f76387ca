//! `pario down`: stops a partition's servers, which write everything to storage first.

use super::error::Error;
use super::{join, print, registry, seconds};
use crate::env::Environment;
use clap::Args;
use pario_registry::{Entry, Running, Secret};
use pario_units::ServerId;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Stop the servers of a partition; what they hold goes to storage first.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// The partition's name
    #[arg(value_name = "NAME")]
    name: String,
    /// Forget the partition as well; its data stays in the servers' directories
    #[arg(long)]
    forget: bool,
    /// Count servers that could not be stopped as stopped, such as those of a node that is gone
    #[arg(long)]
    force: bool,
    /// How long each server may take, and others who start or stop the partition
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds())]
    timeout: u64,
}

const NOTES: &str = "\
Examples:
  pario down scratch             stop it; 'pario up scratch' starts it again
  pario down scratch --forget    the same, and take it out of the registry

Exit code: 0 all servers are stopped, 1 one is not.";

/// Whether something answers at a server's address shows at once, or the node is gone.
const ANSWER: Duration = Duration::from_secs(5);

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let Arguments { name, forget, force, timeout } = arguments;
    let text = take_down(name, *forget, *force, Duration::from_secs(*timeout), env)?;
    let word = if *forget { "is down and forgotten" } else { "is down" };
    print(&format!("partition {name} {word}\n{text}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Stops all servers of a partition; what there is to say about them.
pub fn take_down(
    name: &str,
    forget: bool,
    force: bool,
    deadline: Duration,
    env: &Environment,
) -> Result<String, Error> {
    let registry = registry(env)?;
    // Before the lock, whose file would stay behind for a name that nobody has.
    registry.get(name)?;
    let lock = registry.lock_partition(name, deadline)?;
    let entry = registry.get(name)?;
    let secret = registry.secret(entry.id)?;
    let mut text = String::new();
    let mut first_error = None;
    let (done, results) = channel();
    std::thread::scope(|scope| {
        for (&server, running) in &entry.running {
            let (entry, secret, done) = (&entry, &secret, done.clone());
            scope.spawn(move || {
                // Nobody listens any more if the registry failed.
                let _ = done.send((server, stop(entry, server, running, secret, deadline)));
            });
        }
        drop(done);
        // Written down one by one, so that the registry is right whenever this ends.
        for (server, stopped) in results {
            match stopped {
                Ok(words) => text += &words,
                Err(error) if force => text += &format!("  {error}; it counts as stopped\n"),
                Err(error) => {
                    first_error = first_error.take().or(Some(error));
                    continue;
                }
            }
            registry.update(name, |entry| {
                entry.running.remove(&server);
            })?;
        }
        Ok::<(), Error>(())
    })?;
    if let Some(error) = first_error {
        return Err(error);
    }
    if forget {
        registry.remove(lock)?;
    }
    Ok(text)
}

/// Stops a server; what there is to say about it.
fn stop(
    entry: &Entry,
    server: ServerId,
    running: &Running,
    secret: &Secret,
    deadline: Duration,
) -> Result<String, Error> {
    if !join::answers(running, ANSWER) {
        return Ok(format!("  server {server} on {} did not run any more\n", running.host));
    }
    join::shut_down(entry, server, running, secret, deadline).map(|()| String::new())
}
