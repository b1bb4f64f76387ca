//! A partition for a test: `pario up` when it is made, `pario down` when it is dropped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::run::Front;
use crate::{Hosts, ProgramRun, Scratch, libpario, pario, scratch};

/// A partition that runs as long as this value lives.
#[derive(Debug)]
pub struct TestPartition {
    dir: Scratch,
    /// Where its servers are, if not on this host.
    hosts: Option<Arc<Hosts>>,
}

/// Its name.
pub const NAME: &str = "trial";

impl TestPartition {
    /// With so many servers on this host, stripes of so many bytes, and so much cache each.
    #[track_caller]
    pub fn up(servers: u16, stripe: u64, cache: &str) -> TestPartition {
        TestPartition::slow(servers, stripe, cache, 0)
    }

    /// The same with servers that take so much longer for every block of their storage.
    #[track_caller]
    pub fn slow(servers: u16, stripe: u64, cache: &str, delay_us: u64) -> TestPartition {
        let dir = scratch();
        let here: Vec<String> =
            (0..servers).map(|server| dir.join(format!("data{server}")).display().to_string()).collect();
        let more = format!("stripe_size = {stripe}\ncache = \"{cache}\"\nlisten = \"127.0.0.1\"\n");
        TestPartition::start(dir, None, &here, &more, &[("PARIO_STORE_DELAY_US", &delay_us.to_string())])
    }

    /// With so many servers on this host, and these lines of description.
    #[track_caller]
    pub fn described(servers: u16, more: &str) -> TestPartition {
        let dir = scratch();
        let here: Vec<String> =
            (0..servers).map(|server| dir.join(format!("data{server}")).display().to_string()).collect();
        TestPartition::start(dir, None, &here, more, &[])
    }

    /// With a server on each of these hosts, started from their head, and with these lines of description.
    #[track_caller]
    pub fn at(hosts: &Arc<Hosts>, numbers: &[usize], more: &str) -> TestPartition {
        let dir = scratch();
        let data: Vec<String> = (0..)
            .zip(numbers)
            .map(|(server, number)| format!("host{number}:{}", dir.join(format!("data{server}")).display()))
            .collect();
        TestPartition::start(dir, Some(hosts.clone()), &data, more, &[])
    }

    /// The same with the servers' data in the memory of their hosts, which other hosts cannot access.
    #[track_caller]
    pub fn in_memory_of(hosts: &Arc<Hosts>, numbers: &[usize], more: &str) -> TestPartition {
        let dir = scratch();
        let name = dir.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let data: Vec<String> =
            numbers.iter().map(|number| format!("host{number}:/dev/shm/{name}-{number}")).collect();
        TestPartition::start(dir, Some(hosts.clone()), &data, more, &[])
    }

    /// `resources`: the servers, as the description has them.
    #[track_caller]
    fn start(
        dir: Scratch,
        hosts: Option<Arc<Hosts>>,
        resources: &[String],
        more: &str,
        environment: &[(&str, &str)],
    ) -> TestPartition {
        let list: Vec<String> = resources.iter().map(|resource| format!("\"{resource}\"")).collect();
        let file = dir.join("trial.toml");
        let text = format!("name = \"{NAME}\"\nservers = [{}]\n{more}", list.join(", "));
        std::fs::write(&file, text).expect("a scratch directory takes files");
        let partition = TestPartition { dir, hosts };
        let mut up = partition.command(&["up", &file.to_string_lossy()]);
        said(up.envs(environment.iter().copied()));
        partition
    }

    /// The value of `PARIO_HOME`.
    pub fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// Where a server of this host keeps its data.
    pub fn data(&self, server: u16) -> PathBuf {
        self.dir.join(format!("data{server}"))
    }

    /// Copies its files to a directory that is not there.
    #[track_caller]
    pub fn copy_out(&self, to: &Path) {
        std::fs::create_dir_all(to).expect("a scratch directory takes directories");
        self.pario(&["cp", "-r", &format!("{NAME}:/"), &to.to_string_lossy()]);
    }

    /// Removes these files of its root.
    #[track_caller]
    pub fn remove(&self, names: &[String]) {
        let paths: Vec<String> = names.iter().map(|name| format!("{NAME}:/{name}")).collect();
        self.pario(&std::iter::once("rm").chain(paths.iter().map(String::as_str)).collect::<Vec<_>>());
    }

    /// Runs the command `pario`, which has to succeed, and returns its output.
    #[track_caller]
    pub fn pario(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&said(&mut self.command(arguments))).into_owned()
    }

    /// The bytes of one of its files, by `pario cat`.
    #[track_caller]
    pub fn cat(&self, path: &str) -> Vec<u8> {
        said(&mut self.command(&["cat", &format!("{NAME}:{path}")]))
    }

    /// The command `pario`: on the head, if its servers are on hosts of their own.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut words = self.hosts.as_ref().map_or_else(Vec::new, |hosts| hosts.prefix(0));
        words.push(pario().to_string_lossy().into_owned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(arguments).envs(self.variables()).env_remove("SLURM_JOB_ID");
        command
    }

    /// The environment in which the command `pario` finds it.
    fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        let ssh = self.hosts.as_ref().map(|hosts| ("PARIO_SSH", hosts.ssh().to_owned()));
        std::iter::once(("PARIO_HOME", self.home())).chain(ssh).collect()
    }
}

/// Runs a command that has to succeed, and returns its output.
#[track_caller]
fn said(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("pario can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {errors}", output.status);
    output.stdout
}

/// Where and how a program's files are accessed.
#[derive(Debug)]
pub struct Site<'a> {
    /// The partition of the files.
    pub partition: &'a TestPartition,
    /// Hints for every file, as `PARIO_HINTS` has them.
    pub hints: &'a str,
    /// The node of each rank; empty: all on one.
    pub nodes: &'a [u32],
}

impl ProgramRun {
    /// Has the program find its files below a directory on a partition instead.
    pub fn on(self, site: &Site<'_>, mount: &Path) -> ProgramRun {
        let run = self
            .env("PARIO_HOME", &site.partition.home().to_string_lossy())
            .env("PARIO_PARTITION", NAME)
            .env("PARIO_MOUNT", &mount.to_string_lossy())
            .nodes(site.nodes);
        if site.hints.is_empty() { run } else { run.env("PARIO_HINTS", site.hints) }
    }

    /// Has a command of `pario`, such as `run` or `profile`, start it on a partition, with these options.
    pub fn by_pario(mut self, partition: &TestPartition, command: &str, options: &[&str]) -> ProgramRun {
        // A mount would be on the head, where no rank runs.
        let words = [&[command, "--partition", NAME, "--no-mount"], options].concat();
        let words = words.into_iter().map(OsString::from).collect();
        let library = ("PARIO_LIB", libpario());
        self.by = Some(Front { words, env: partition.variables().into_iter().chain([library]).collect() });
        self
    }
}

impl Drop for TestPartition {
    fn drop(&mut self) {
        let down = self.command(&["down", NAME]).status();
        // A test that fails already says more.
        if !std::thread::panicking() {
            assert!(down.is_ok_and(|status| status.success()), "pario down failed");
        }
    }
}

/// A directory where a partition is mounted as long as this value lives.
#[derive(Debug)]
pub struct MountedPartition {
    dir: PathBuf,
}

impl TestPartition {
    /// Mounts it at a directory, which is made. `None`: this machine has no FUSE, which it says.
    #[track_caller]
    pub fn mount(&self, dir: &Path) -> Option<MountedPartition> {
        if !Path::new("/dev/fuse").exists() {
            eprintln!("skipped: there is no /dev/fuse");
            return None;
        }
        std::fs::create_dir(dir).expect("a scratch directory takes directories");
        self.pario(&["mount", NAME, &dir.to_string_lossy()]);
        Some(MountedPartition { dir: dir.to_owned() })
    }
}

impl Drop for MountedPartition {
    fn drop(&mut self) {
        let unmounted = Command::new(pario()).args(["umount", "--lazy"]).arg(&self.dir).status();
        if !std::thread::panicking() {
            assert!(unmounted.is_ok_and(|status| status.success()), "pario umount failed");
        }
    }
}
