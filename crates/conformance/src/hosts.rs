//! Simulated hosts on one machine: they share no more than several computers do.
//!
//! A host is a set of namespaces: network, host name, processes, System V memory, and mounts with a `/dev/shm`
//! of its own, so that nothing of the memory, no local socket and no process id goes from one to another. They
//! share the file system and a bridge, which is the network interface of a head from which
//! the launchers start. They lie in no way outside these namespaces, so names and addresses are always the
//! same.
//!
//! A process that reads from a pipe of ours holds each of them. When this process ends, for any reason, the
//! pipe ends, the holder ends, and the kernel ends all processes of the host.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::build::{SourceKind, compile_text};
use crate::files::{Scratch, scratch};
use crate::host::HostMpi;

/// Some hosts, named `host1`, `host2` and so on, and a head for launchers.
#[derive(Debug)]
pub struct Hosts {
    head: Holder,
    hosts: Vec<Holder>,
    /// The command that MPI's launchers use instead of `ssh`, and what `pario` uses, as which its options end with `--`.
    agent: PathBuf,
    ssh: PathBuf,
    srun: PathBuf,
    dir: Scratch,
}

/// The namespaces of a head: it sees all processes, as it has to start some on the hosts.
const OF_A_HEAD: &[&str] = &["--net", "--uts", "--mount", "--ipc"];
const OF_A_HOST: &[&str] = &["--net", "--uts", "--mount", "--ipc", "--pid", "--fork"];

/// Furnishes new namespaces as the host `$0`, whose peers are in the file `$1`, tells its process id as others
/// see it, and holds them until its input ends.
const HOLD: &str = r#"
    read -r process rest </proc/self/stat
    hostname "$0" && mount --bind "$1" /etc/hosts && mount -t tmpfs tmpfs /dev/shm || exit
    [ $$ -ne 1 ] || mount -t proc proc /proc || exit
    echo "$process"
    exec cat"#;

/// The process that holds a host.
#[derive(Debug)]
struct Holder {
    child: Child,
    process: u32,
}

impl Holder {
    fn new(namespaces: &[&str], name: &str, peers: &Path) -> Result<Holder, String> {
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", HOLD, name]).arg(peers);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("unshare: {e}"))?;
        let mut line = String::new();
        let said = child.stdout.as_mut().map(|out| BufReader::new(out).read_line(&mut line));
        match line.trim().parse() {
            Ok(process) => Ok(Holder { child, process }),
            Err(_) => {
                let output = child.wait_with_output().map_err(|e| format!("unshare: {e}, after {said:?}"))?;
                Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
            }
        }
    }

    /// A path that this host knows as `inside`.
    fn path(&self, inside: &str) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.process)).join(inside)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(e) = self.child.wait() {
            eprintln!("a host of this test does not end: {e}");
        }
    }
}

/// Enters the host that `$1` names by its number at the end, and executes what follows as `ssh` would.
const AGENT: &str = r#"#!/bin/sh
[ "$1" != -x ] || shift
number=${1#host}
shift
for process in PROCESSES; do
    number=$((number - 1))
    [ "$number" -ne 0 ] || exec nsenter -t "$process" -n -u -m -i -p sh -c "$*"
done
exit 255
"#;

/// The same for a caller that puts options before the host.
const SSH: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec AGENT "$@"
"#;

/// Executes what follows `--` on the host that `--nodelist` names, as `srun` would.
const SRUN: &str = r#"#!/bin/sh
echo "$*" >> CALLS
while [ "$1" != --nodelist ]; do shift; done
number=${2#host}
shift 3
for process in PROCESSES; do
    number=$((number - 1))
    [ "$number" -ne 0 ] || exec nsenter -t "$process" -n -u -m -i -p "$@"
done
exit 255
"#;

/// Writes a script that can be executed.
fn script(path: PathBuf, text: &str) -> PathBuf {
    fs::write(&path, text)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .expect("a scratch directory takes new files");
    path
}

impl Hosts {
    /// Sets `count` hosts up. `None`: this process may not, which it says.
    pub fn new(count: usize) -> Option<Hosts> {
        match Hosts::set_up(count) {
            Ok(hosts) => Some(hosts),
            Err(why) => {
                eprintln!("skipped: no hosts of its own for a test without the rights of root: {why}");
                None
            }
        }
    }

    fn set_up(count: usize) -> Result<Hosts, String> {
        let dir = scratch();
        let peers = dir.join("hosts");
        let mut text = String::from("127.0.0.1 localhost\n10.77.0.254 head\n");
        for number in 1..=count {
            text.push_str(&format!("10.77.0.{number} host{number}\n"));
        }
        fs::write(&peers, text).expect("a scratch directory takes new files");
        let head = Holder::new(OF_A_HEAD, "head", &peers)?;
        in_network(&head, "ip link set lo up")?;
        in_network(&head, "ip link add eth0 type bridge")?;
        in_network(&head, "ip addr add 10.77.0.254/24 dev eth0")?;
        in_network(&head, "ip link set eth0 up")?;
        let mut hosts = Vec::new();
        for number in 1..=count {
            let host = Holder::new(OF_A_HOST, &format!("host{number}"), &peers)?;
            let to = host.process;
            in_network(&head, &format!("ip link add port{number} type veth peer name eth0 netns {to}"))?;
            in_network(&head, &format!("ip link set port{number} master eth0 up"))?;
            in_network(&host, "ip link set lo up")?;
            in_network(&host, &format!("ip addr add 10.77.0.{number}/24 dev eth0"))?;
            in_network(&host, "ip link set eth0 up")?;
            hosts.push(host);
        }
        let processes: Vec<String> = hosts.iter().map(|host| host.process.to_string()).collect();
        let agent = script(dir.join("agent"), &AGENT.replace("PROCESSES", &processes.join(" ")));
        let ssh = script(dir.join("ssh"), &SSH.replace("AGENT", &agent.to_string_lossy()));
        let srun = SRUN.replace("PROCESSES", &processes.join(" "));
        let calls = dir.join("srun.calls").display().to_string();
        let srun = script(dir.join("srun"), &srun.replace("CALLS", &calls));
        Ok(Hosts { head, hosts, agent, ssh, srun, dir })
    }

    /// The prefix of a command that runs it on a host, by its number from 1; 0 is the head.
    pub fn prefix(&self, number: usize) -> Vec<String> {
        let holder = if number == 0 { &self.head } else { &self.hosts[number - 1] };
        let mut words = vec!["nsenter".into(), "-t".into(), holder.process.to_string()];
        words.extend(["-n", "-u", "-m", "-i"].map(String::from));
        words.extend((number > 0).then(|| "-p".into()));
        words
    }

    /// A program that executes a command on a host as `ssh` does: its arguments are options, `--`, the host and the
    /// command. The value of `PARIO_SSH`.
    pub fn ssh(&self) -> &Path {
        &self.ssh
    }

    /// A program that executes a command on a host as `srun` does in a job of Slurm. The value of `PARIO_SRUN`.
    pub fn srun(&self) -> &Path {
        &self.srun
    }

    /// The arguments with which it was called, a line for each call.
    pub fn srun_calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.join("srun.calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Cuts a host off: no packet goes in or out any more, and connections stay open.
    pub fn cut(&self, number: usize) {
        in_network(&self.head, &format!("ip link set port{number} down")).expect("a port can be closed");
    }

    /// Puts it in again.
    pub fn mend(&self, number: usize) {
        in_network(&self.head, &format!("ip link set port{number} up")).expect("a port can be opened");
    }

    /// Makes the cable of every host so slow, in each direction by itself, or as fast as it gets again.
    pub fn limit(&self, mbit_per_s: Option<u32>) -> Result<(), String> {
        let cables = (1..)
            .zip(&self.hosts)
            .flat_map(|(number, host)| [(host, "eth0".to_owned()), (&self.head, format!("port{number}"))]);
        for (holder, device) in cables {
            // There may have been no limit before.
            let _ = in_network(holder, &format!("tc qdisc del dev {device} root"));
            if let Some(rate) = mbit_per_s {
                // Tokens for two of the largest packets that go to a device in one, and 50 ms of queue.
                let bucket = format!("rate {rate}mbit burst 128kb latency 50ms");
                in_network(holder, &format!("tc qdisc add dev {device} root tbf {bucket}"))?;
            }
        }
        Ok(())
    }

    /// All of them, by their numbers.
    pub fn numbers(&self) -> Vec<usize> {
        (1..=self.hosts.len()).collect()
    }

    /// Bytes that each host has sent to the others.
    pub fn sent_bytes(&self) -> Vec<u64> {
        self.hosts.iter().map(|host| carried(host, SENT)).collect()
    }

    /// Bytes that each host has got from the others.
    pub fn received_bytes(&self) -> Vec<u64> {
        self.hosts.iter().map(|host| carried(host, RECEIVED)).collect()
    }

    /// Remains of programs on the hosts: processes, and names in the shared memory.
    pub fn remains(&self) -> Vec<String> {
        self.hosts.iter().flat_map(|host| [processes(host), shared_memory(host)].concat()).collect()
    }

    /// The words, on the head, of a host's launcher that starts `ranks` ranks spread evenly over these hosts, in order.
    pub(crate) fn launcher(&self, host: HostMpi, ranks: u32, at: &[usize]) -> Vec<OsString> {
        let names: Vec<String> = at.iter().map(|number| format!("host{number}")).collect();
        let each = ranks.div_ceil(at.len().max(1) as u32);
        let mut words = vec![host.mpiexec().into_os_string()];
        let mut add = |more: &[&str]| words.extend(more.iter().map(OsString::from));
        let agent = self.agent.to_string_lossy();
        match host {
            HostMpi::Mpich | HostMpi::StandardAbi | HostMpi::Installed(_) => {
                add(&["-launcher", "ssh", "-launcher-exec", &agent]);
                add(&["-hosts", &names.join(","), "-ppn", &each.to_string()]);
            }
            HostMpi::OpenMpi => {
                let slots: Vec<String> = names.iter().map(|name| format!("{name}:{each}")).collect();
                add(&["--host", &slots.join(",")]);
                for (name, value) in [
                    ("plm_rsh_agent", &*agent),
                    ("plm_rsh_no_tree_spawn", "1"),
                    ("oob_tcp_if_include", "eth0"),
                    ("btl_tcp_if_include", "eth0"),
                    ("btl", "tcp,vader,self"),
                    ("pml", "ob1"),
                ] {
                    add(&["--mca", name, value]);
                }
            }
        }
        words
    }
}

/// A library that a host needs to be preloaded when its ranks are on several hosts.
///
/// MPICH 4.0 on UCX 1.13 and TCP often waits for ever in MPI_Finalize: it closes its connections, which needs
/// the other side's help, while that is in a barrier of the process manager already. There is nothing to be
/// flushed any more at that point, so connections are just left to the end of the process.
pub(crate) fn remedy(host: HostMpi) -> Option<PathBuf> {
    let text = "void *ucp_disconnect_nb(void *connection) { (void)connection; return 0; }\n";
    (host == HostMpi::Mpich).then(|| compile_text(host, "farewell.c", text, SourceKind::Library, &[]))
}

/// Executes a command such as `ip` or `tc` in a network, but with all else as here.
fn in_network(holder: &Holder, line: &str) -> Result<(), String> {
    let mut command = Command::new("nsenter");
    command.args(["-t", &holder.process.to_string(), "-n"]).args(line.split(' '));
    let output = command.output().map_err(|e| format!("nsenter: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Numbers in a line of the table of devices.
const RECEIVED: usize = 0;
const SENT: usize = 8;

/// Bytes sent and received by `eth0`.
fn carried(host: &Holder, which: usize) -> u64 {
    let table = fs::read_to_string(format!("/proc/{}/net/dev", host.process)).unwrap_or_default();
    let line = table.lines().find_map(|line| line.trim().strip_prefix("eth0:")).unwrap_or_default();
    line.split_whitespace().nth(which).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Command lines of processes other than the holder; those that have ended have none.
fn processes(host: &Holder) -> Vec<String> {
    let entries = fs::read_dir(host.path("proc")).into_iter().flatten();
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| *id != 1)
        .filter_map(|id| fs::read(host.path(&format!("proc/{id}/cmdline"))).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| !line.is_empty())
        .collect()
}

fn shared_memory(host: &Holder) -> Vec<String> {
    let entries = fs::read_dir(host.path("dev/shm")).into_iter().flatten();
    entries.filter_map(|entry| Some(format!("/dev/shm/{}", entry.ok()?.file_name().display()))).collect()
}
