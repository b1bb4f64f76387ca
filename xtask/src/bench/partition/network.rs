//! What lies between a client and its server: nothing, loopback, or two network namespaces with a pair of virtual
//! Ethernet devices, which only root can make.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::program::{self, Failure, Outcome};

/// Addresses that are set aside for documentation: nobody has them outside.
const SERVER: &str = "192.0.2.1";
const CLIENT: &str = "192.0.2.2";

const SERVER_SPACE: &str = "pario-bench-server";
const CLIENT_SPACE: &str = "pario-bench-client";
const DEVICES: [&str; 2] = ["pbench-server", "pbench-client"];

pub enum Between<'a> {
    /// Shared memory.
    Nothing,
    Loopback,
    Veth(&'a Network),
}

impl Between<'_> {
    pub fn label(&self) -> &'static str {
        match self {
            Between::Nothing => "over nothing",
            Between::Loopback => "over loopback",
            Between::Veth(_) => "between network namespaces",
        }
    }

    /// Where servers listen.
    pub fn server(&self) -> &'static str {
        match self {
            Between::Nothing => "none",
            Between::Loopback => "127.0.0.1",
            Between::Veth(_) => SERVER,
        }
    }

    /// A program on the server's side.
    pub fn on_server(&self, program: impl AsRef<OsStr>) -> Command {
        self.command(|network| network.server, program.as_ref())
    }

    /// A program on the client's side.
    pub fn on_client(&self, program: impl AsRef<OsStr>) -> Command {
        self.command(|network| network.client, program.as_ref())
    }

    fn command(&self, space: fn(&Network) -> &'static str, program: &OsStr) -> Command {
        match self {
            Between::Nothing | Between::Loopback => Command::new(program),
            Between::Veth(network) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space(network)]).arg(program);
                command
            }
        }
    }
}

/// Two namespaces that see each other, and go away with this.
pub struct Network {
    server: &'static str,
    client: &'static str,
}

impl Network {
    /// If this is not possible, the failure says why.
    pub fn create() -> Outcome<Network> {
        if !program::works("ip", &["netns", "list"]) {
            return Err(Failure::new("there is no `ip netns`"));
        }
        // Those of a bench that was killed.
        remove();
        let network = Network { server: SERVER_SPACE, client: CLIENT_SPACE };
        for space in [SERVER_SPACE, CLIENT_SPACE] {
            ip(&["netns", "add", space])?;
            ip(&["-n", space, "link", "set", "lo", "up"])?;
        }
        let [server, client] = DEVICES;
        ip(&["link", "add", server, "type", "veth", "peer", "name", client])?;
        for (space, device, address) in [(SERVER_SPACE, server, SERVER), (CLIENT_SPACE, client, CLIENT)] {
            ip(&["link", "set", device, "netns", space])?;
            ip(&["-n", space, "address", "add", &format!("{address}/24"), "dev", device])?;
            ip(&["-n", space, "link", "set", device, "up"])?;
        }
        Ok(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove();
    }
}

/// Removes the namespaces that are there, and with them the devices.
fn remove() {
    for space in [SERVER_SPACE, CLIENT_SPACE] {
        if Path::new("/run/netns").join(space).exists()
            && let Err(failure) = ip(&["netns", "delete", space])
        {
            eprintln!("xtask bench: {failure}");
        }
    }
}

fn ip(arguments: &[&str]) -> Outcome {
    program::stdout(Command::new("ip").args(arguments)).map(|_| ())
}
