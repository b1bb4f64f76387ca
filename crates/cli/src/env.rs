//! The environment, read once, in one place.

use pario_copy::Connections;
use pario_launch::LaunchSettings;
use pario_launch::mpi_program::{OVERSUBSCRIBE, SearchPaths};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// What `pario` wants to know of its environment.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `PATH` and `LD_LIBRARY_PATH`: where programs, launchers and libraries are.
    pub search: SearchPaths,
    /// `LD_PRELOAD`, if set to something.
    pub preload: Option<OsString>,
    /// `PARIO_LIB`: the libpario.so to use.
    pub pario_lib: Option<PathBuf>,
    /// Names of the variables that ranks on other nodes need, too: Pario's own and ROMIO's hint file.
    pub for_ranks: Vec<String>,
    /// `PARIO_HOME`, or `.pario` in the user's home: where the registry of partitions is.
    pub home: Option<PathBuf>,
    /// `PARIO_PARTITION`: the partition of `pario:/path`.
    pub partition: Option<String>,
    /// `PARIO_MOUNT`: the directory below which paths are on that partition.
    pub mount: Option<PathBuf>,
    /// `TMPDIR`, else `/tmp`.
    pub temporary: PathBuf,
    /// `XDG_CACHE_HOME`, else `.cache` in the user's home, else `TMPDIR`; and `pario` in it: for what can be built
    /// again.
    pub cache: PathBuf,
    /// `PARIO_RUN`: where servers' run directories are, instead of in memory.
    pub run_base: Option<PathBuf>,
    /// `PARIO_STORE_DELAY_US`: servers take this much longer for every block of their storage; for tests.
    pub store_delay: Duration,
    /// `PARIO_TEST_PANICS`: a directory; a server's thread for which there is a file of its name in it panics; for tests.
    pub panics: Option<PathBuf>,
    /// Whether this is within a job of Slurm.
    pub in_slurm_job: bool,
    /// The nodes of that job, as Slurm writes them.
    pub slurm_nodes: Option<String>,
    /// `PARIO_STORAGE`: where servers on demand keep their data.
    pub storage: Option<PathBuf>,
    /// `PARIO_SSH`: the program to use as `ssh`, with options.
    pub ssh: Vec<String>,
    /// `PARIO_SRUN`: the program to use as `srun`, with options.
    pub srun: Vec<String>,
    /// `PARIO_MPIEXEC`: the program to use as `mpiexec`, with options.
    pub mpiexec: Vec<String>,
    /// Whether the user has said how Open MPI is to treat more ranks than cores.
    pub says_oversubscribe: bool,
}

/// Tells the library in the ranks to report its counters at the end.
pub const STATS: &str = "PARIO_STATS";

/// Where the registry of partitions is.
pub const HOME: &str = "PARIO_HOME";
/// The partition of `pario:/path`.
pub const PARTITION: &str = "PARIO_PARTITION";
/// Paths below this directory are on that partition.
pub const MOUNT: &str = "PARIO_MOUNT";

/// Whether a program that uses a partition which is down starts it.
pub const AUTOSTART: &str = "PARIO_AUTOSTART";
/// The `pario` with which it does.
pub const PROGRAM: &str = "PARIO_PROGRAM";

/// New files on partitions are placed as this plan has it.
pub const PLAN: &str = "PARIO_PLAN";
/// The servers that are the local storage of ranks or nodes.
pub const PLACE: &str = "PARIO_PLACE";

/// Tells the library to record operations.
pub const TRACE: &str = "PARIO_TRACE";
/// A word that is the same on all ranks of a job and on no others: servers know its ranks by it, and so do trace files.
pub const JOB: &str = "PARIO_JOB";

impl Environment {
    /// Its settings for launching servers.
    pub fn launch(&self) -> LaunchSettings {
        LaunchSettings {
            ssh: self.ssh.clone(),
            srun: self.srun.clone(),
            mpiexec: self.mpiexec.clone(),
            in_slurm_job: self.in_slurm_job,
            run_base: self.run_base.clone(),
            store_delay: self.store_delay,
            panics: self.panics.clone(),
        }
    }

    /// Connections that read and write files of partitions.
    pub fn data_connections(&self) -> Connections {
        Connections::for_data(self.home.as_deref(), self.partition.as_deref())
    }

    /// Connections that only look at names and partitions.
    pub fn metadata_connections(&self) -> Connections {
        Connections::for_metadata(self.home.as_deref(), self.partition.as_deref())
    }

    /// Whether a variable for the ranks is set.
    pub fn has(&self, name: &str) -> bool {
        self.for_ranks.iter().any(|known| known == name)
    }

    /// The environment of this process.
    pub fn read() -> Environment {
        let get = |name| std::env::var_os(name).filter(|v: &OsString| !v.is_empty());
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let mut for_ranks: Vec<String> =
            names.filter(|n| (n.starts_with("PARIO_") && n != "PARIO_LIB") || n == "ROMIO_HINTS").collect();
        for_ranks.sort();
        Environment {
            search: SearchPaths {
                programs: split(get("PATH").as_deref()),
                libraries: split(get("LD_LIBRARY_PATH").as_deref()),
            },
            preload: get("LD_PRELOAD"),
            pario_lib: get("PARIO_LIB").map(PathBuf::from),
            for_ranks,
            home: get("PARIO_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(PathBuf::from(get("HOME")?).join(".pario"))),
            partition: get("PARIO_PARTITION").and_then(|name| name.into_string().ok()),
            mount: get("PARIO_MOUNT").map(PathBuf::from),
            temporary: std::env::temp_dir(),
            cache: get("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(PathBuf::from(get("HOME")?).join(".cache")))
                .unwrap_or_else(std::env::temp_dir)
                .join("pario"),
            run_base: get("PARIO_RUN").map(PathBuf::from),
            panics: get("PARIO_TEST_PANICS").map(PathBuf::from),
            store_delay: microseconds("PARIO_STORE_DELAY_US", get("PARIO_STORE_DELAY_US")),
            in_slurm_job: get("SLURM_JOB_ID").is_some(),
            slurm_nodes: get("SLURM_JOB_ID")
                .and_then(|_| get("SLURM_JOB_NODELIST").or_else(|| get("SLURM_NODELIST")))
                .and_then(|nodes| nodes.into_string().ok()),
            storage: get("PARIO_STORAGE").map(PathBuf::from),
            ssh: words(get("PARIO_SSH"), "ssh"),
            srun: words(get("PARIO_SRUN"), "srun"),
            mpiexec: words(get("PARIO_MPIEXEC"), "mpiexec"),
            says_oversubscribe: OVERSUBSCRIBE.iter().any(|(name, _)| get(name).is_some()),
        }
    }
}

/// A time that a variable holds; none if it is not set.
fn microseconds(name: &str, variable: Option<OsString>) -> Duration {
    let text = variable.map_or_else(|| "0".into(), |text| text.to_string_lossy().into_owned());
    let number = text.parse().unwrap_or_else(|_| {
        eprintln!("pario: {name}={text} is no number of microseconds and does not count");
        0
    });
    Duration::from_micros(number)
}

/// The words of a command that a variable holds.
fn words(variable: Option<OsString>, otherwise: &str) -> Vec<String> {
    let text = variable.map(|text| text.to_string_lossy().into_owned());
    let words: Vec<String> =
        text.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
    if words.is_empty() { vec![otherwise.to_owned()] } else { words }
}

fn split(list: Option<&OsStr>) -> Vec<PathBuf> {
    list.map(|l| std::env::split_paths(l).filter(|p| !p.as_os_str().is_empty()).collect()).unwrap_or_default()
}
