//! Starting a program on a node.
//!
//! There is one way to run a launcher and exchange lines with what it starts ([`LaunchedProcess`]), and a pure function per
//! launcher that makes its command line ([`LaunchMethod::command`]).

use crate::error::Error;
use crate::host;
use crate::message::HostMessage;
use crate::method::LaunchMethod;
use crate::process::LaunchedProcess;
use crate::settings::LaunchSettings;
use pario_runtime::process::{Command, CommandExt};
use std::ffi::OsString;

/// Starts programs on nodes.
pub trait Launch: Sync {
    /// Starts the program on the node and gives it its first line.
    fn start(
        &self,
        node: &str,
        argv: &[OsString],
        first: Vec<u8>,
    ) -> Result<LaunchedProcess<HostMessage>, Error>;

    /// How a program on that node is started.
    fn method(&self, node: &str) -> LaunchMethod;
}

/// Starts programs as processes of this host and through the launchers that the settings name.
pub struct NodeLauncher {
    choice: pario_registry::Launcher,
    settings: LaunchSettings,
}

impl NodeLauncher {
    /// A launcher of the kind that the partition's description names.
    pub fn new(choice: pario_registry::Launcher, settings: &LaunchSettings) -> NodeLauncher {
        NodeLauncher { choice, settings: settings.clone() }
    }

    /// The command that has to be run here so that the program runs on the node.
    pub fn command(&self, node: &str, argv: &[OsString]) -> Command {
        let words = self.method(node).command(node, argv, &self.settings);
        let (program, arguments) = words.split_first().expect("a command has a program");
        let mut command = Command::new(program);
        command.args(arguments);
        command
    }
}

impl Launch for NodeLauncher {
    fn start(
        &self,
        node: &str,
        argv: &[OsString],
        first: Vec<u8>,
    ) -> Result<LaunchedProcess<HostMessage>, Error> {
        let mut command = self.command(node, argv);
        if self.method(node) != LaunchMethod::Local {
            // A launcher that stays must not get a Ctrl-C that is meant for others. A local server starts a session, which
            // the leader of a process group could not.
            command.process_group(0);
        }
        LaunchedProcess::run(&mut command, first).map_err(Error::launcher(&command))
    }

    fn method(&self, node: &str) -> LaunchMethod {
        LaunchMethod::choose(self.choice, || host::is_here(node), self.settings.in_slurm_job)
    }
}
