//! Starts the workers of hosts with the launchers that partitions use.

use super::worker::{Part, command};
use crate::signal;
use pario_benchmarks::{HostLauncher, HostProcess, LostHost, StepReport};
use pario_launch::{LaunchFailure, LaunchedProcess, NodeLauncher};
use std::os::unix::process::CommandExt;
use std::time::Instant;

/// Starts workers on hosts.
pub struct WorkerLauncher(pub NodeLauncher);

/// The worker of a host.
struct Worker(LaunchedProcess<StepReport>);

impl HostLauncher for WorkerLauncher {
    fn start(&self, host: &str, first: Vec<u8>) -> Result<Box<dyn HostProcess>, String> {
        let argv = command(Part::Host).map_err(|error| pario_launch::Error::NoProgram(error).to_string())?;
        let mut command = self.0.command(host, &argv);
        // Ctrl-C is for `pario models`, which then ends the workers.
        command.process_group(0);
        let launched = LaunchedProcess::run(&mut command, first);
        let launched =
            launched.map_err(|cause| pario_launch::Error::launcher(&command)(cause).to_string())?;
        Ok(Box::new(Worker(launched)))
    }

    fn this_host(&self) -> String {
        pario_launch::host::name()
    }

    fn interruption(&self) -> Option<i32> {
        signal::asked_to_end()
    }
}

impl HostProcess for Worker {
    fn send(&mut self, line: Vec<u8>) {
        self.0.send(line);
    }

    fn receive(&mut self, deadline: Instant) -> Result<StepReport, LostHost> {
        self.0.receive(deadline).map_err(|failure| match failure {
            LaunchFailure::Silent(_) => LostHost::Silent,
            other => LostHost::Gone(other.to_string()),
        })
    }

    fn end(self: Box<Self>) {
        self.0.end();
    }
}
