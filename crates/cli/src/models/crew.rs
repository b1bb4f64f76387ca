//! The hosts of a run, seen from `pario models`: started, given orders, dismissed.
//!
//! An order goes to all hosts that take part; it is done when the last of them has said so, which makes it a
//! barrier as well. Whoever waits for hosts looks every moment whether the user wants to stop.

use super::error::Error;
use super::message::{Order, Report, Start};
use super::worker::{Part, command};
use crate::signal;
use pario_launch::message::line;
use pario_launch::{LaunchFailure, LaunchedProcess, NodeLauncher};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

/// How often the user's wish to stop is looked for.
const MOMENT: Duration = Duration::from_millis(100);

/// Why a run ends early.
#[derive(Debug)]
pub enum Stop {
    /// The user asked for it, by this signal.
    Asked(i32),
    /// Something failed.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Failed(error.into())
    }
}

/// The hosts.
pub struct Crew {
    hosts: Vec<Host>,
    /// How long one order may take.
    patience: Duration,
}

struct Host {
    name: String,
    first_node: u32,
    started: LaunchedProcess<Report>,
}

impl Crew {
    /// Starts the processes of all hosts. Without names of hosts they are all here, and nodes are virtual.
    pub fn start(
        start: &Start,
        hosts: &[String],
        launcher: &NodeLauncher,
        patience: Duration,
    ) -> Result<Crew, Stop> {
        let argv = command(Part::Host).map_err(pario_launch::Error::NoProgram)?;
        let mut crew = Crew { hosts: Vec::new(), patience };
        let here = [pario_launch::host::name()];
        let each = if hosts.is_empty() { start.nodes } else { 1 };
        let names = if hosts.is_empty() { &here } else { hosts };
        let begun = names.iter().zip(0u32..).try_for_each(|(name, number)| {
            let mut command = launcher.command(name, &argv);
            // Ctrl-C is for `pario models`, which then ends its hosts.
            command.process_group(0);
            let first_node = number * each;
            let first = line(&Start { first_node, nodes: each, ..start.clone() });
            let started =
                LaunchedProcess::run(&mut command, first).map_err(pario_launch::Error::launcher(&command))?;
            crew.hosts.push(Host { name: name.clone(), first_node, started });
            Ok::<_, Stop>(())
        });
        let ready = begun.and_then(|()| crew.hear("the start", u32::MAX).map(|_| ()));
        match ready {
            Ok(()) => Ok(crew),
            Err(stop) => {
                crew.dismiss();
                Err(stop)
            }
        }
    }

    /// Has an order followed by all that take part; how many seconds that took. On one host, by its own clock from
    /// the first process that began to the last that was done; on several, by the clock here, from giving the order
    /// to the last host's word, since hosts' clocks differ.
    pub fn order(&mut self, order: &Order) -> Result<f64, Stop> {
        let [nodes, ..] = order.model;
        let begun = Instant::now();
        let words = line(order);
        for host in self.hosts.iter_mut().filter(|host| host.first_node < nodes) {
            host.started.send(words.clone());
        }
        let report = self.hear(&doing(order), nodes)?;
        Ok(if self.hosts.len() == 1 { report.seconds() } else { begun.elapsed().as_secs_f64() })
    }

    /// Waits for the reports of the hosts of these nodes.
    fn hear(&mut self, doing: &str, nodes: u32) -> Result<Report, Stop> {
        let until = Instant::now() + self.patience;
        let mut all: Option<Report> = None;
        for host in self.hosts.iter_mut().filter(|host| host.first_node < nodes) {
            let report = host.hear(until, self.patience)?;
            if let Some(what) = report.error {
                let (doing, host) = (doing.to_owned(), host.name.clone());
                return Err(Stop::Failed(Error::Step { doing, host, what }));
            }
            all = Some(match all {
                Some(before) => before.and(report),
                None => report,
            });
        }
        Ok(all.expect("a model has a node"))
    }

    /// Ends all processes; their files are removed.
    pub fn dismiss(self) {
        for host in self.hosts {
            host.started.end();
        }
    }
}

impl Host {
    fn hear(&mut self, until: Instant, patience: Duration) -> Result<Report, Stop> {
        loop {
            if let Some(signal) = signal::asked_to_end() {
                return Err(Stop::Asked(signal));
            }
            let why = match self.started.receive(until.min(Instant::now() + MOMENT)) {
                Ok(report) => return Ok(report),
                Err(LaunchFailure::Silent(_)) if Instant::now() < until => continue,
                Err(LaunchFailure::Silent(_)) => LaunchFailure::Silent(patience),
                Err(why) => why,
            };
            return Err(Stop::Failed(Error::Host { host: self.name.clone(), why }));
        }
    }
}

fn doing(order: &Order) -> String {
    let model = order.model().map(|model| model.to_string()).unwrap_or_default();
    let step = format!("{:?}", order.step).to_lowercase();
    format!("{step} of the model {model}")
}
