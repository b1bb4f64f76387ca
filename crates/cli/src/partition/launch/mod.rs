//! Starting a program on a node.
//!
//! There is one way to run a launcher and speak with what it starts (`Started`), and a pure function per
//! launcher that makes its command line (`command`).

mod command;
mod started;

use super::error::Error;
use super::host;
use super::message::Said;
use crate::env::Environment;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

pub use command::Way;
pub use started::Started;

/// Starts programs on nodes.
pub trait Launcher: Sync {
    /// Starts the program on the node and gives it its first line.
    fn start(&self, node: &str, argv: &[OsString], first: Vec<u8>) -> Result<Started<Said>, Error>;

    /// In which way a program on that node is started.
    fn way(&self, node: &str) -> Way;
}

/// What this host has: processes of its own, and the launchers that the environment names.
pub struct Here<'a> {
    choice: pario_registry::Launcher,
    env: &'a Environment,
}

impl<'a> Here<'a> {
    /// Starts with what the partition's description says.
    pub fn new(choice: pario_registry::Launcher, env: &'a Environment) -> Here<'a> {
        Here { choice, env }
    }

    /// What has to be run so that the program runs on the node.
    pub fn command(&self, node: &str, argv: &[OsString]) -> Command {
        let words = self.way(node).command(node, argv, self.env);
        let (program, arguments) = words.split_first().expect("a command has a program");
        let mut command = Command::new(program);
        command.args(arguments);
        command
    }
}

impl Launcher for Here<'_> {
    fn start(&self, node: &str, argv: &[OsString], first: Vec<u8>) -> Result<Started<Said>, Error> {
        let mut command = self.command(node, argv);
        if self.way(node) != Way::Local {
            // A launcher that stays must not get a Ctrl-C that is meant for others. (A local server makes a
            // session of its own, which the leader of a group could not.)
            command.process_group(0);
        }
        Started::run(&mut command, first).map_err(Error::launcher(&command))
    }

    fn way(&self, node: &str) -> Way {
        Way::choose(self.choice, || host::is_here(node), self.env.in_slurm_job)
    }
}
