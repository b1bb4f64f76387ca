//! One MPI run: a program, a number of ranks, a host MPI, and whether Pario is preloaded.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use crate::files::scratch;
use crate::gate;
use crate::host::HostMpi;
use crate::hosts::{self, Hosts};
use crate::library::{libpario, pario};
use crate::process::{self, Finished};
use crate::stats::{self, Stats, StatsReport};

/// A run to be started; set the fields or chain the methods.
#[derive(Clone, Debug)]
pub struct ProgramRun {
    /// The MPI library and launcher.
    pub host: HostMpi,
    /// How many ranks.
    pub ranks: u32,
    /// The program each rank executes.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables set in the ranks only.
    pub env: Vec<(String, String)>,
    /// Whether `libpario.so` is preloaded into the ranks.
    pub preload: bool,
    /// A library to be preloaded before it.
    pub shim: Option<PathBuf>,
    /// The node that each rank is told to be on; empty: the one node that it is on.
    pub nodes: Vec<u32>,
    /// The command of `pario` that starts the launcher, if one does.
    pub by: Option<Front>,
    /// Which of some hosts the ranks are spread over; none: this machine.
    pub hosts: Option<(Arc<Hosts>, Vec<usize>)>,
    /// The working directory, if not this process's.
    pub dir: Option<PathBuf>,
    /// After this long the run is killed and counts as failed.
    pub timeout: Duration,
}

/// A command of `pario` before a launcher's, such as `pario run`.
#[derive(Clone, Debug)]
pub struct Front {
    /// The command's name and options.
    pub words: Vec<OsString>,
    /// Variables that it needs.
    pub env: Vec<(&'static str, PathBuf)>,
}

impl ProgramRun {
    /// A run of `program` on the host alone, with two minutes to end.
    pub fn new(host: HostMpi, ranks: u32, program: impl AsRef<Path>) -> ProgramRun {
        ProgramRun {
            host,
            ranks,
            program: program.as_ref().to_path_buf(),
            args: Vec::new(),
            env: Vec::new(),
            preload: false,
            shim: None,
            nodes: Vec::new(),
            by: None,
            hosts: None,
            dir: None,
            timeout: Duration::from_secs(120),
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> ProgramRun {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> ProgramRun {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable in the ranks.
    pub fn env(mut self, name: &str, value: &str) -> ProgramRun {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Whether Pario is preloaded.
    pub fn preload(mut self, preload: bool) -> ProgramRun {
        self.preload = preload;
        self
    }

    /// Puts a library of the test's own in front of the C library, and of Pario.
    pub fn shim(mut self, shim: impl AsRef<Path>) -> ProgramRun {
        self.shim = Some(shim.as_ref().to_path_buf());
        self
    }

    /// Lets rank `r` believe that it runs on the node `nodes[r]`.
    pub fn nodes(mut self, nodes: &[u32]) -> ProgramRun {
        self.nodes = nodes.to_vec();
        self
    }

    /// Spreads the ranks evenly over hosts.
    pub fn hosts(self, hosts: &Arc<Hosts>) -> ProgramRun {
        self.at(hosts, &hosts.numbers())
    }

    /// The same over some of them, by their numbers.
    pub fn at(mut self, hosts: &Arc<Hosts>, numbers: &[usize]) -> ProgramRun {
        self.hosts = Some((hosts.clone(), numbers.to_vec()));
        self
    }

    /// Sets the working directory.
    pub fn dir(mut self, dir: impl AsRef<Path>) -> ProgramRun {
        self.dir = Some(dir.as_ref().to_path_buf());
        self
    }

    /// Sets the time limit in seconds.
    pub fn timeout(mut self, seconds: u64) -> ProgramRun {
        self.timeout = Duration::from_secs(seconds);
        self
    }

    /// Runs to the end, or to the time limit. `PARIO_STATS=1` is set, so that [`Output::pario_calls`] works.
    pub fn run(&self) -> Output {
        let places = gate::enter(self.ranks);
        let output = self.finish();
        drop(places);
        output
    }

    /// Runs several programs at the same time, because they wait for each other.
    pub fn together<const N: usize>(runs: [&ProgramRun; N]) -> [Output; N] {
        let places = gate::enter(runs.iter().map(|run| run.ranks).sum());
        let outputs = std::thread::scope(|scope| {
            let started = runs.map(|run| scope.spawn(|| run.finish()));
            started.map(|thread| thread.join().expect("running does not panic"))
        });
        drop(places);
        outputs
    }

    fn finish(&self) -> Output {
        let (mut command, own) = (self.command(), scratch());
        if self.host.is_open_mpi() && self.hosts.is_none() {
            // Launchers share a directory otherwise, and fail if two of them make it at the same time.
            command.env("OMPI_MCA_orte_tmpdir_base", own.path());
        }
        let finished = process::finish(command, self.timeout);
        Output::of(finished, self.timeout, self.to_string())
    }

    fn command(&self) -> Command {
        let mut words = match &self.hosts {
            Some((hosts, _)) => hosts.prefix(0).into_iter().map(OsString::from).collect(),
            None => Vec::new(),
        };
        if let Some(front) = &self.by {
            words.push(pario().into());
            words.extend(front.words.iter().cloned().chain(["--".into()]));
        }
        words.extend(match &self.hosts {
            Some((hosts, numbers)) => hosts.launcher(self.host, self.ranks, numbers),
            None => vec![self.host.mpiexec().into()],
        });
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(self.host.launch_environment().iter().copied());
        command.arg("-n").arg(self.ranks.to_string());
        let mut set = |name: &str, value: &str| {
            command.args(self.host.rank_variable(name, value));
        };
        if self.by.is_none() && !self.env.iter().any(|(name, _)| name == "PARIO_STATS") {
            set("PARIO_STATS", "1");
        }
        for (name, value) in &self.env {
            set(name, value);
        }
        let remedy = self.hosts.as_ref().and_then(|_| hosts::remedy(self.host));
        let shims = remedy.into_iter().chain(self.shim.clone());
        let preloaded: Vec<PathBuf> = shims.chain(self.preload.then(libpario)).collect();
        let preloaded = preloaded.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>().join(":");
        if self.by.is_none() && !preloaded.is_empty() {
            set("LD_PRELOAD", &preloaded);
        }
        if !self.nodes.is_empty() {
            let nodes: Vec<String> = self.nodes.iter().map(u32::to_string).collect();
            set("PARIO_TEST_NODES", &nodes.join(" "));
            command.args(["sh", "-c", ON_ITS_NODE]);
        }
        command.arg(&self.program).args(&self.args);
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        if let Some(front) = &self.by {
            // It puts Pario behind what is preloaded already.
            command.envs(front.env.iter().cloned()).env("LD_PRELOAD", &preloaded);
        }
        command
    }
}

/// Starts its arguments with the name of a node that the rank finds at its place in `PARIO_TEST_NODES`.
const ON_ITS_NODE: &str = r#"
    program=$0 rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK} i=0
    for node in $PARIO_TEST_NODES; do
        [ "$i" -ne "$rank" ] || export PARIO_NODE="node$node"
        i=$((i + 1))
    done
    exec "$program" "$@""#;

impl fmt::Display for ProgramRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let front = if self.preload { " with Pario" } else { "" };
        let words: Vec<_> = self.args.iter().map(|arg| arg.to_string_lossy()).collect();
        let (program, args) = (self.program.display(), words.join(" "));
        write!(f, "{program} {args}: {} ranks on {}{front}", self.ranks, self.host.name())?;
        if !self.nodes.is_empty() {
            write!(f, ", on nodes {:?}", self.nodes)?;
        }
        if let Some((_, numbers)) = &self.hosts {
            write!(f, ", on hosts {numbers:?}")?;
        }
        if let Some(front) = &self.by {
            let words: Vec<_> = front.words.iter().map(|word| word.to_string_lossy()).collect();
            write!(f, ", by pario {}", words.join(" "))?;
        }
        for (name, value) in &self.env {
            write!(f, ", {name}={value}")?;
        }
        Ok(())
    }
}

/// Runs a plain command, without a launcher, under the same rules: no input, a time limit, nothing left behind.
pub fn execute(command: Command, timeout: Duration) -> Output {
    let what = format!("{command:?}");
    let places = gate::enter(1);
    let finished = process::finish(command, timeout);
    drop(places);
    Output::of(finished, timeout, what)
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// The launcher ended by itself.
    Ended(ExitStatus),
    /// It did not end within this time and was killed.
    TimedOut(Duration),
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub status: RunStatus,
    /// Standard output of all ranks.
    pub stdout: String,
    /// Standard error of all ranks and of the launcher.
    pub stderr: String,
    /// Processes that the launcher left behind and that had to be killed.
    pub left: usize,
    /// From the start of the launcher to its end.
    pub took: Duration,
    what: String,
}

impl Output {
    fn of(finished: Finished, timeout: Duration, what: String) -> Output {
        let status = match finished.status {
            Some(status) => RunStatus::Ended(status),
            None => RunStatus::TimedOut(timeout),
        };
        let Finished { stdout, stderr, left, took, .. } = finished;
        Output { status, stdout, stderr, left, took, what }
    }

    /// Whether the launcher reported success.
    pub fn success(&self) -> bool {
        matches!(self.status, RunStatus::Ended(status) if status.success())
    }

    /// The exit code, if the launcher ended by itself and not by a signal.
    pub fn code(&self) -> Option<i32> {
        match self.status {
            RunStatus::Ended(status) => status.code(),
            RunStatus::TimedOut(_) => None,
        }
    }

    /// Panics with everything the run said unless it succeeded.
    #[track_caller]
    pub fn expect_success(self) -> Output {
        assert!(self.success(), "{self}");
        self
    }

    /// The stats line of each rank.
    pub fn stats(&self) -> Vec<Stats> {
        stats::parse(&self.stderr)
    }

    /// The report on each open file, in the order of their closing; under `PARIO_STATS=json`.
    pub fn reports(&self) -> Vec<StatsReport> {
        stats::reports(&self.stderr)
    }

    /// `MPI_File_*` calls that reached Pario, over all ranks.
    pub fn pario_calls(&self) -> u64 {
        self.stats().iter().map(|stats| stats.calls).sum()
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = match self.status {
            RunStatus::Ended(status) => status.to_string(),
            RunStatus::TimedOut(limit) => format!("killed after {} s", limit.as_secs()),
        };
        writeln!(f, "{}: {ended}", self.what)?;
        write!(f, "--- stdout\n{}\n--- stderr\n{}", tail(&self.stdout), tail(&self.stderr))
    }
}

/// The last 16 KiB: a failure's cause stands near the end.
fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(16 << 10);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].trim_end()
}
