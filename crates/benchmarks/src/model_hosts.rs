//! The hosts of a run of models, as the coordinator sees them: started, given orders, ended.
//!
//! An order goes to all hosts that take part, and is done when the last of them has reported, so it is a barrier as
//! well. While the coordinator waits, it checks regularly whether the user wants to stop.

use crate::error::Error;
use crate::orders::{ModelOrder, StepReport, WorkerStart, line};
use std::time::{Duration, Instant};

/// The time between two checks for an interruption.
const INTERRUPT_CHECK: Duration = Duration::from_millis(100);

/// Why a run ends early.
#[derive(Debug)]
pub enum Stop {
    /// The user asked for it, by this signal.
    Interrupted(i32),
    /// Something failed.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Failed(error.into())
    }
}

/// Why a host gave no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostHost {
    /// It did not report before the deadline.
    Silent,
    /// It ended, or sent something else.
    Gone(String),
}

/// Starts the worker of a host (see [`crate::host_worker`]), and knows about interruptions.
pub trait HostLauncher {
    /// Starts the worker on a host and sends it its first line.
    fn start(&self, host: &str, first: Vec<u8>) -> Result<Box<dyn HostProcess>, String>;

    /// The name of this host.
    fn this_host(&self) -> String;

    /// The signal by which the user asked to stop.
    fn interruption(&self) -> Option<i32>;
}

/// The worker of a host.
pub trait HostProcess {
    /// Sends a line.
    fn send(&mut self, line: Vec<u8>);

    /// Waits for the next report until the deadline.
    fn receive(&mut self, deadline: Instant) -> Result<StepReport, LostHost>;

    /// Ends the worker; it ends its processes and removes their files.
    fn end(self: Box<Self>);
}

/// The hosts of a run.
pub struct ModelHosts<'a> {
    hosts: Vec<Host>,
    launcher: &'a dyn HostLauncher,
    /// The most time that an order may take.
    timeout: Duration,
}

struct Host {
    name: String,
    first_node: u32,
    process: Box<dyn HostProcess>,
}

impl<'a> ModelHosts<'a> {
    /// Starts the processes of all hosts. Without names all nodes are virtual, on this host.
    pub fn start(
        start: &WorkerStart,
        names: &[String],
        launcher: &'a dyn HostLauncher,
        timeout: Duration,
    ) -> Result<ModelHosts<'a>, Stop> {
        let mut hosts = ModelHosts { hosts: Vec::new(), launcher, timeout };
        let this_host = [launcher.this_host()];
        let nodes_each = if names.is_empty() { start.nodes } else { 1 };
        let names = if names.is_empty() { &this_host } else { names };
        let begun = names.iter().zip(0u32..).try_for_each(|(name, number)| {
            let first_node = number * nodes_each;
            let first = line(&WorkerStart { first_node, nodes: nodes_each, ..start.clone() });
            let process = launcher.start(name, first).map_err(Error::Launch)?;
            hosts.hosts.push(Host { name: name.clone(), first_node, process });
            Ok::<_, Stop>(())
        });
        match begun.and_then(|()| hosts.receive("the start", u32::MAX)) {
            Ok(_) => Ok(hosts),
            Err(stop) => {
                hosts.end();
                Err(stop)
            }
        }
    }

    /// Has an order executed by all processes that take part; returns its duration in seconds. On one host the
    /// duration is measured by the host's clock, from the first process that began to the last that was done. On
    /// several hosts, whose clocks differ, it is measured here, from the order to the last report.
    pub fn execute(&mut self, order: &ModelOrder) -> Result<f64, Stop> {
        let [nodes, ..] = order.model;
        let begun = Instant::now();
        let line = line(order);
        for host in self.hosts.iter_mut().filter(|host| host.first_node < nodes) {
            host.process.send(line.clone());
        }
        let report = self.receive(&describe(order), nodes)?;
        Ok(if self.hosts.len() == 1 { report.seconds() } else { begun.elapsed().as_secs_f64() })
    }

    /// Waits for the reports of the hosts of these nodes.
    fn receive(&mut self, step: &str, nodes: u32) -> Result<StepReport, Stop> {
        let deadline = Instant::now() + self.timeout;
        let mut all: Option<StepReport> = None;
        for host in self.hosts.iter_mut().filter(|host| host.first_node < nodes) {
            let report = host.receive(deadline, self.timeout, self.launcher)?;
            if let Some(what) = report.error {
                let (step, host) = (step.to_owned(), host.name.clone());
                return Err(Stop::Failed(Error::Step { step, host, what }));
            }
            all = Some(match all {
                Some(before) => before.and(report),
                None => report,
            });
        }
        Ok(all.expect("a model has a node"))
    }

    /// Ends all processes, and has their files removed.
    pub fn end(self) {
        for host in self.hosts {
            host.process.end();
        }
    }
}

impl Host {
    fn receive(
        &mut self,
        deadline: Instant,
        timeout: Duration,
        launcher: &dyn HostLauncher,
    ) -> Result<StepReport, Stop> {
        loop {
            if let Some(signal) = launcher.interruption() {
                return Err(Stop::Interrupted(signal));
            }
            let why = match self.process.receive(deadline.min(Instant::now() + INTERRUPT_CHECK)) {
                Ok(report) => return Ok(report),
                Err(LostHost::Silent) if Instant::now() < deadline => continue,
                Err(LostHost::Silent) => format!("no word from it for {} s", timeout.as_secs()),
                Err(LostHost::Gone(why)) => why,
            };
            return Err(Stop::Failed(Error::HostLost { host: self.name.clone(), why }));
        }
    }
}

/// A step and its model, for messages.
fn describe(order: &ModelOrder) -> String {
    let model = order.model().map(|model| model.to_string()).unwrap_or_default();
    let step = format!("{:?}", order.step).to_lowercase();
    format!("{step} of the model {model}")
}
