//! A partition with all its processes, for one session.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use pario_registry::Registry;

use super::worker::{NAME, Task, VARIABLE};
use crate::dice::Dice;
use crate::processes::ProcessHandle;
use crate::{TmpfsMount, pario};

/// The variable that marks all processes of a session.
const MARK: &str = "PARIO_TORTURE_SESSION";

/// No command of `pario` takes longer, whatever happened before.
const LONGEST_COMMAND: Duration = Duration::from_secs(100);

/// How a worker is started: a program that gets its task from the environment.
pub type LaunchWorker<'a> = &'a (dyn Fn() -> Command + Sync);

/// A partition of this host in a directory of its own.
pub struct Cluster<'a> {
    pub dir: PathBuf,
    pub servers: usize,
    mark: String,
    launch: LaunchWorker<'a>,
    /// The storage of the last server, if it is a small one.
    pub small: Option<TmpfsMount>,
    commands: u32,
    /// Its directory in memory, once it is known.
    pub run: PathBuf,
}

/// The output of a command of `pario`.
#[derive(Debug)]
pub struct Said {
    /// `None`: it did not end in time and was killed.
    pub status: Option<ExitStatus>,
    pub text: String,
}

impl Said {
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

impl<'a> Cluster<'a> {
    /// Describes a partition of a random shape: little cache, so that blocks come and go.
    pub fn new(
        dir: PathBuf,
        dice: &mut Dice,
        small: bool,
        launch: LaunchWorker<'a>,
    ) -> std::io::Result<Cluster<'a>> {
        let servers = 1 + dice.index(3);
        let block = dice.pick(&[4 << 10, 16 << 10, 64 << 10]);
        let stripe = dice.pick(&[4 << 10, 64 << 10, 100_000]);
        let cache = dice.pick(&[16 * block, 512 << 10, 2 << 20]).max(16 * block);
        let mark = dir.display().to_string();
        let data = |server| dir.join(format!("data{server}"));
        let small = small.then(|| TmpfsMount::tmpfs(&data(servers - 1), "24m")).flatten();
        let list: Vec<String> =
            (0..servers).map(|server| format!("{:?}", data(server).display().to_string())).collect();
        let text = format!(
            "name = \"{NAME}\"\nservers = [{}]\nstripe_size = {stripe}\nblock_size = {block}\ncache = {cache}\n\
             workers = {}\nlisten = \"127.0.0.1\"\n",
            list.join(", "),
            1 + dice.below(3)
        );
        fs::write(dir.join("partition.toml"), text)?;
        let run = PathBuf::new();
        Ok(Cluster { dir, servers, mark, launch, small, commands: 0, run })
    }

    /// Where a server keeps its data.
    pub fn data(&self, server: usize) -> PathBuf {
        self.dir.join(format!("data{server}"))
    }

    fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// The environment of all its processes.
    fn prepare(&self, command: &mut Command) {
        command.env("PARIO_HOME", self.home()).env(MARK, &self.mark).env_remove("SLURM_JOB_ID");
        command.current_dir(&self.dir).stdin(Stdio::null());
    }

    /// Runs `pario` with these arguments to its end. Its output goes to files: a server that it started may keep a
    /// pipe open.
    pub fn pario(&mut self, arguments: &[&str]) -> std::io::Result<Said> {
        self.commands += 1;
        let path = self.dir.join(format!("command-{:04}-{}", self.commands, arguments[0]));
        let log = File::create(&path)?;
        let mut command = Command::new(pario());
        self.prepare(&mut command);
        let mut child = command.args(arguments).stdout(log.try_clone()?).stderr(log).spawn()?;
        let until = Instant::now() + LONGEST_COMMAND;
        let status = loop {
            match child.try_wait()? {
                Some(status) => break Some(status),
                None if Instant::now() >= until => {
                    child.kill()?;
                    child.wait()?;
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let text = String::from_utf8_lossy(&fs::read(&path)?).trim().to_owned();
        Ok(Said { status, text })
    }

    /// `pario up`.
    pub fn up(&mut self) -> std::io::Result<Said> {
        let file = self.dir.join("partition.toml").display().to_string();
        let said = self.pario(&["up", &file])?;
        if said.succeeded() {
            let registry = Registry::open(&self.home()).map_err(std::io::Error::other)?;
            let entry = registry.get(NAME).map_err(std::io::Error::other)?;
            let user = format!("pario-{}", pario_transport::own_user());
            let base = pario_registry::run_base(&std::env::temp_dir());
            self.run = base.join(user).join(entry.id.to_string());
        }
        Ok(said)
    }

    /// Removes its shared memory, as a crash of the host does.
    pub fn forget_memory(&self) {
        if !self.run.as_os_str().is_empty() {
            // It is not there if everything went well.
            let _ = fs::remove_dir_all(&self.run);
        }
    }

    /// Starts a worker.
    pub fn spawn(&self, task: &Task) -> std::io::Result<Child> {
        let mut command = (self.launch)();
        self.prepare(&mut command);
        let log = File::create(task.journal.with_extension("log"))?;
        command.env(VARIABLE, task.to_string()).stdout(log.try_clone()?).stderr(log).spawn()
    }

    fn processes(&self, ending: &str) -> Vec<ProcessHandle> {
        let all = ProcessHandle::with(MARK, &self.mark).into_iter();
        all.filter(|process| process.command().ends_with(ending) && !process.is_gone()).collect()
    }

    /// The processes that are servers.
    pub fn server_processes(&self) -> Vec<ProcessHandle> {
        self.processes("serve --part server")
    }

    /// All processes that are servers or supervise them, supervisors first.
    pub fn server_and_supervisor_processes(&self) -> Vec<ProcessHandle> {
        let mut all = self.processes("serve --part supervisor");
        all.extend(self.server_processes());
        all
    }

    /// The process that is this server now.
    pub fn process(&self, server: usize) -> Option<ProcessHandle> {
        let data = self.data(server);
        self.server_processes().into_iter().find(|process| process.has_open_below(&data))
    }

    /// Ends all servers and supervisors by `kill -9`.
    pub fn kill_servers(&self) {
        while let processes @ [_, ..] = &self.server_and_supervisor_processes()[..] {
            processes.iter().for_each(|process| process.kill());
        }
    }

    /// Waits until no server and no supervisor is there; `false` if that does not happen in time.
    pub fn wait_until_gone(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        while !self.server_and_supervisor_processes().is_empty() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// The last lines of the servers' logs.
    pub fn logs(&self) -> String {
        let files = fs::read_dir(self.home().join("logs")).into_iter().flatten().flatten();
        let tail = |path: &Path| {
            let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(30)..].join("\n")
        };
        files.map(|file| format!("--- {}\n{}\n", file.path().display(), tail(&file.path()))).collect()
    }
}

impl Drop for Cluster<'_> {
    /// No process and no shared memory stays, also after a failure.
    fn drop(&mut self) {
        while let processes @ [_, ..] = &ProcessHandle::with(MARK, &self.mark)[..] {
            let left: Vec<_> = processes.iter().filter(|process| !process.is_gone()).collect();
            if left.is_empty() {
                break;
            }
            left.iter().for_each(|process| process.kill());
        }
        self.forget_memory();
    }
}
