//! The environment variables of a rank, read once. No other module of the library reads the environment.

use std::path::PathBuf;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use pario_hints::{HintProblem, Hints};
use pario_posix::{FileSystem, FsKind, FsStriping};

use crate::node;
use pario_trace::{StatsTo, TraceSetup};

use crate::launcher;

/// The settings from the environment.
#[derive(Debug)]
pub struct Env {
    /// `PARIO_DISABLE=1`: pass every call to the host's own MPI-IO.
    pub disable: bool,
    /// `PARIO_STATS=1
    ///
    /// json
    ///
    /// json:FILE`: print statistics of each file at close, and the counters at MPI_Finalize.
    pub stats: StatsTo,
    /// `PARIO_TRACE=errors|all[,min=OFFSET][,dir=DIR][,clock=system]`: record operations.
    pub trace: Option<TraceSetup>,
    /// `PARIO_DEVELOP=1`: check more arguments for equality on all ranks.
    pub develop: bool,
    /// `PARIO_NODE`: ranks with different values count as ranks on different nodes, and only ranks with `node0` count
    /// as ranks on the servers' host. For tests.
    node: Option<String>,
    /// `PARIO_PRETEND_FS=KIND[,stripe=BYTES][,count=N]`: treat files as files of this file system. For tests.
    pub pretend: Option<FileSystem>,
    /// `PARIO_PARTITION`: the partition of `pario:/path` and of paths below the mount point.
    pub partition: Option<String>,
    /// `PARIO_MOUNT`: paths below this directory are files on the partition.
    pub mount: Option<PathBuf>,
    /// The directory of the registry of partitions: `PARIO_HOME`, or `.pario` in `HOME`.
    pub registry: Option<PathBuf>,
    /// The number by which servers tell this program from others, if `PARIO_JOB` or the launcher identifies the
    /// program.
    pub program: Option<u64>,
    /// `PARIO_AUTOSTART=1`: start a partition that is down when the program uses it.
    pub autostart: bool,
    /// `PARIO_PROGRAM`: the `pario` that starts it.
    pub pario_program: Option<PathBuf>,
    /// `PARIO_PLAN`: place new files on partitions by this plan.
    pub plan: Option<PathBuf>,
    /// `PARIO_PLACE=LABEL=SERVER,…`: the servers that are the local storage of ranks or nodes.
    pub place: String,
    /// `PARIO_VERBOSE=1`: print a line for every call that fails.
    pub verbose: bool,
    /// The name of the job that this rank belongs to.
    pub(crate) job: Option<String>,
    /// `PARIO_ROLLCALL=SECONDS`: the length of a wait in a collective call after which missing ranks are reported. 0:
    /// never.
    pub(crate) missing_ranks_after: Option<Duration>,
    hints: Hints,
    warnings: Vec<String>,
}

/// The environment of this process.
pub fn env() -> &'static Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    ENV.get_or_init(|| Env::read(&|name| std::env::var(name).ok()))
}

impl Env {
    fn read(var: &dyn Fn(&str) -> Option<String>) -> Env {
        let on = |name| var(name).is_some_and(|value| !matches!(value.as_str(), "" | "0"));
        let set = |name: &str| var(name).filter(|value| !value.is_empty());
        let mut warnings = Vec::new();
        let source = pario_hints::hint_file(var);
        let text = match std::fs::read(&source.path) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(_) if source.variable.is_none() => None,
            Err(e) => {
                let variable = source.variable.unwrap_or_default();
                warnings.push(format!("hint file {} (named by {variable}) cannot be read: {e}", source.path));
                None
            }
        };
        let (hints, found) = pario_hints::load(var, text.as_deref());
        warnings.extend(found.iter().map(HintProblem::to_string));
        let stats = StatsTo::parse(&var("PARIO_STATS").unwrap_or_default()).unwrap_or_else(|refused| {
            warnings.push(refused.to_string());
            StatsTo::Off
        });
        let trace = TraceSetup::parse(&var("PARIO_TRACE").unwrap_or_default()).unwrap_or_else(|refused| {
            warnings.push(refused.to_string());
            None
        });
        let trace = trace.map(|setup| TraceSetup { job: var("PARIO_JOB").unwrap_or_default(), ..setup });
        let pretend = var("PARIO_PRETEND_FS").and_then(|text| {
            let found = parse_pretended_fs(&text);
            if found.is_none() {
                warnings.push(format!("PARIO_PRETEND_FS={text} is not understood"));
            }
            found
        });
        let missing_ranks_after = set("PARIO_ROLLCALL").map_or(Ok(MISSING_RANKS_AFTER), |text| text.parse());
        let missing_ranks_after = missing_ranks_after.unwrap_or_else(|_| {
            warnings.push("PARIO_ROLLCALL is not a number of seconds; it counts as 60".to_owned());
            MISSING_RANKS_AFTER
        });
        let job = launcher::job_name(&set);
        Env {
            disable: on("PARIO_DISABLE"),
            stats,
            trace,
            develop: on("PARIO_DEVELOP"),
            node: var("PARIO_NODE"),
            pretend,
            partition: set("PARIO_PARTITION"),
            mount: set("PARIO_MOUNT").map(PathBuf::from),
            registry: set("PARIO_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(PathBuf::from(set("HOME")?).join(".pario"))),
            program: job.as_ref().map(|job| digest(0, job)),
            autostart: on("PARIO_AUTOSTART"),
            pario_program: set("PARIO_PROGRAM").map(PathBuf::from),
            job,
            missing_ranks_after: (missing_ranks_after > 0).then(|| Duration::from_secs(missing_ranks_after)),
            plan: set("PARIO_PLAN").map(PathBuf::from),
            place: var("PARIO_PLACE").unwrap_or_default(),
            verbose: on("PARIO_VERBOSE"),
            hints,
            warnings,
        }
    }

    #[cfg(test)]
    pub(crate) fn of(var: &dyn Fn(&str) -> Option<String>) -> Env {
        Env::read(var)
    }

    /// A number that is equal on the ranks of one node and differs between nodes.
    pub(crate) fn node_key(&self) -> u64 {
        let named = self.node.as_deref().unwrap_or_default();
        digest(node::node_key(), named)
    }

    /// Whether a test declares this host to be different from the servers' host.
    pub(crate) fn is_far(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node != "node0")
    }

    /// The host name of this node.
    pub(crate) fn host_name(&self) -> String {
        let real = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        self.node.clone().unwrap_or_else(real).trim().to_owned()
    }

    /// The hints that hold for every file before the program passes any.
    pub(crate) fn hints(&self) -> Hints {
        self.hints.clone()
    }

    /// Prints the warnings about the environment, once.
    pub(crate) fn warn_once(&self) {
        static SAID: Once = Once::new();
        SAID.call_once(|| self.warnings.iter().for_each(|line| warn(line)));
    }
}

/// The seconds of a wait after which missing ranks are reported, unless the environment says otherwise.
const MISSING_RANKS_AFTER: u64 = 60;

fn digest(seed: u64, text: &str) -> u64 {
    text.bytes()
        .fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3).rotate_left(7))
}

/// Parses the file system that a test pretends.
fn parse_pretended_fs(text: &str) -> Option<FileSystem> {
    let mut parts = text.split(',');
    let kind = match parts.next()? {
        "lustre" => FsKind::Lustre,
        "gpfs" => FsKind::Gpfs,
        "beegfs" => FsKind::BeeGfs,
        "nfs" => FsKind::Nfs,
        "xfs" => FsKind::Xfs,
        "ext4" => FsKind::Ext4,
        _ => return None,
    };
    let (mut unit, mut count) = (1 << 20, None);
    for part in parts {
        match part.split_once('=')? {
            ("stripe", value) => unit = value.parse().ok()?,
            ("count", value) => count = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(FileSystem::pretend(kind, 4096, Some(FsStriping { unit, count })))
}

/// Prints one line to standard error, in one piece, because other ranks print there as well.
pub fn warn(line: &str) {
    let text = format!("pario: {line}\n");
    eprint!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_variables_are_parsed() {
        let env = Env::read(&|name| match name {
            "PARIO_STATS" => Some("1".into()),
            "PARIO_VERBOSE" => Some("0".into()),
            "PARIO_HINTS" => Some("ind_rd_buffer_size=1M;cb_buffer_size=64Q".into()),
            "ROMIO_HINTS" => Some("/no/such/file".into()),
            _ => None,
        });
        assert!(env.stats == StatsTo::Text && !env.verbose && !env.disable && !env.develop);
        assert_eq!(env.hints().ind_rd_buffer_size(), 1 << 20);
        assert_eq!(env.warnings.len(), 2, "{:?}", env.warnings);
        assert!(env.warnings[0].contains("/no/such/file"));
        assert!(env.warnings[1].contains("cb_buffer_size") && env.warnings[1].contains("64Q"));
    }
}
