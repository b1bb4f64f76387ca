//! Tasks that commands run on a server's host, through the launcher that starts servers there.
//!
//! `pario serve --part task` reads one line, a [`HostTask`], does it, and writes one line. So the state of a server that does not
//! answer is found on its own host.

use crate::error::Error;
use crate::launcher::Launch;
use crate::message::{HostMessage, ServerStart, VERSION, line, next_line, partition, server};
use crate::on_demand::DIRECTORY_PREFIX;
use crate::pools::{PoolOwner, PoolUse, is_server, look, look_at_left, survey, sweep};
use crate::serve::{self, ServePart};
use crate::settings::run_base;
use crate::{server_process, signals};
use pario_registry::{Manifest, Supervision, remove_run_directory};
use pario_runtime::fs::{self, File};
use pario_runtime::process::ExitCode;
use pario_runtime::time::Instant;
use pario_server::unretired_pool;
use pario_types::{PartitionId, ServerId};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a supervisor may take to end, and a killed process to be gone.
const END: Duration = Duration::from_secs(15);

/// Something to do on a host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "lowercase")]
pub enum HostTask {
    /// Say which pools there are, which of these directories servers use, and of which the last pool was not stored whole.
    Pools {
        /// Where run directories are, if not in the usual place.
        run_base: Option<PathBuf>,
        /// Servers' directories.
        directories: Vec<String>,
    },
    /// Say what these directories hold.
    Describe {
        /// Which directories.
        directories: Vec<PathBuf>,
    },
    /// Store what the pool of a dead server holds, and remove it.
    Recover {
        /// The parameters of the server that does it.
        start: Box<ServerStart>,
    },
    /// End a server without storing anything; its pool stays.
    Kill(ServerInstance),
    /// Remove the pool of a dead server with all that it holds.
    Discard(ServerInstance),
    /// Remove the directory of a server, which does not run, with all its data.
    Erase {
        /// The server.
        whose: ServerInstance,
        /// Its directory.
        directory: PathBuf,
    },
}

/// A server of a partition on its host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerInstance {
    /// Where run directories are, if not in the usual place.
    pub run_base: Option<PathBuf>,
    /// The partition.
    #[serde(with = "partition")]
    pub partition: PartitionId,
    /// Which of its servers.
    #[serde(with = "server")]
    pub server: ServerId,
}

/// The contents of a server's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "holds", rename_all = "lowercase")]
pub enum DirectoryContents {
    /// Data of a server, which does not run.
    Data {
        /// Its manifest.
        manifest: Box<Manifest>,
    },
    /// A server uses it.
    InUse,
    /// No data of a server.
    Nothing {
        /// The reason.
        why: String,
    },
}

impl DirectoryContents {
    /// The contents of a directory of this host.
    pub fn of(directory: &Path) -> DirectoryContents {
        match Manifest::read(directory) {
            Ok(_) if is_in_use(directory) => DirectoryContents::InUse,
            Ok(manifest) => DirectoryContents::Data { manifest: Box::new(manifest) },
            Err(error) => DirectoryContents::Nothing { why: error.to_string() },
        }
    }
}

#[derive(Serialize, Deserialize)]
struct TaskMessage<T> {
    version: u32,
    order: T,
}

/// Runs a task on a node and returns its answer.
pub fn ask(
    launcher: &dyn Launch,
    node: &str,
    task: &HostTask,
    until: Instant,
) -> Result<HostMessage, String> {
    let program = pario_runtime::process::current_exe().map_err(|e| Error::NoProgram(e).to_string())?;
    let mut argv = vec![OsString::from(program)];
    argv.extend(serve::arguments(ServePart::Task).map(OsString::from));
    let order = line(&TaskMessage { version: VERSION, order: task });
    let mut started = launcher.start(node, &argv, order).map_err(|e| e.to_string())?;
    let said = started.receive(until);
    started.end();
    match said {
        Ok(HostMessage::Failed { why }) => Err(why),
        Ok(said) => Ok(said),
        Err(why) => Err(why.to_string()),
    }
}

/// Reads a task, does it, and writes the answer.
pub fn perform(mut input: impl BufRead, output: &mut impl Write) -> ExitCode {
    let said = read(&mut input).and_then(|task| execute(&task));
    let code = if said.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let said = said.unwrap_or_else(|why| HostMessage::Failed { why });
    // The process that asked may be gone.
    let _ = output.write_all(&line(&said)).and_then(|()| output.flush());
    code
}

fn read(input: &mut impl BufRead) -> Result<HostTask, String> {
    let told = next_line(input).map_err(|e| format!("reading the task: {e}"))?.ok_or("no task came")?;
    let TaskMessage { version, order } = serde_json::from_slice::<TaskMessage<serde_json::Value>>(&told)
        .map_err(|e| format!("no task: {e}"))?;
    if version != VERSION {
        return Err(format!("pario here speaks version {VERSION}, not {version}"));
    }
    serde_json::from_value(order).map_err(|e| format!("no task: {e}"))
}

fn execute(task: &HostTask) -> Result<HostMessage, String> {
    match task {
        HostTask::Pools { run_base, directories } => {
            let base = crate::settings::run_base(run_base.as_deref());
            sweep(&base);
            let pools = survey(&base).map_err(|e| e.to_string())?;
            let those = |is: fn(&Path) -> bool| {
                directories.iter().filter(|dir| is(Path::new(dir))).cloned().collect()
            };
            let in_use = those(is_in_use);
            let unretired = those(|dir| unretired_pool(dir).is_some());
            Ok(HostMessage::Pools { pools, in_use, unretired })
        }
        HostTask::Describe { directories } => Ok(HostMessage::Described {
            directories: directories.iter().map(|dir| DirectoryContents::of(dir)).collect(),
        }),
        HostTask::Recover { start } => {
            let whose = ServerInstance {
                run_base: start.run_base.clone(),
                partition: start.partition,
                server: start.server,
            };
            whose.end_supervisor()?;
            server_process::recover(start).map(|bytes| HostMessage::Saved { bytes })
        }
        HostTask::Kill(whose) => whose.kill().map(|()| HostMessage::Ended),
        HostTask::Discard(whose) => whose.discard().map(|bytes| HostMessage::Discarded { bytes }),
        HostTask::Erase { whose, directory } => whose.erase(directory).map(|()| HostMessage::Erased),
    }
}

/// Whether a server uses a directory: it holds a lock on it.
pub fn is_in_use(directory: &Path) -> bool {
    File::open(directory).is_ok_and(|file| matches!(fs::try_lock_file_shared(&file), Ok(false)))
}

impl ServerInstance {
    fn run_directory(&self) -> PathBuf {
        let base = run_base(self.run_base.as_deref());
        pario_registry::run_directory_path(&base, self.partition, self.server)
    }

    /// Ends a supervisor that has no server.
    pub fn end_supervisor(&self) -> Result<(), String> {
        let dir = self.run_directory();
        let holder = || Supervision::holder(&dir).map_err(|e| e.to_string());
        let Some(pid) = holder()? else { return Ok(()) };
        if matches!(look_at_left(&dir.join("pool"))?, PoolUse::Served) {
            return Err(format!("server {} is alive again; its supervisor is process {pid}", self.server));
        }
        for sign in [signals::SIGTERM, signals::SIGKILL] {
            signal(pid, sign)?;
            if wait_until(|| Ok(holder()?.is_none()))? {
                return Ok(());
            }
        }
        Err(format!("the supervisor of server {}, process {pid}, does not end", self.server))
    }

    /// Ends a server and its supervisor at once.
    fn kill(&self) -> Result<(), String> {
        let dir = self.run_directory();
        if let Some(pid) = Supervision::holder(&dir).map_err(|e| e.to_string())? {
            signal(pid, signals::SIGKILL)?;
            wait_until(|| Ok(Supervision::holder(&dir).map_err(|e| e.to_string())?.is_none()))?;
        }
        let pool = dir.join("pool");
        if !matches!(look(&pool)?, PoolUse::Served) {
            return Ok(());
        }
        let owner = PoolOwner::read(&dir).ok_or("which process the server is was not noted")?;
        let was_server = is_server(owner.pid);
        if was_server {
            signal(owner.pid, signals::SIGKILL)?;
        }
        match wait_until(|| Ok(!matches!(look(&pool)?, PoolUse::Served)))? {
            true => Ok(()),
            false if !was_server => Err(format!("process {} is not the server any more", owner.pid)),
            false => Err(format!("process {} was killed and is still there", owner.pid)),
        }
    }

    /// Removes the pool; how many unsaved bytes were in it, if that is known.
    pub fn discard(&self) -> Result<Option<u64>, String> {
        self.end_supervisor()?;
        let dir = self.run_directory();
        let held = look_at_left(&dir.join("pool"));
        let bytes = match &held {
            Ok(PoolUse::Served) => return Err(format!("server {} is alive", self.server)),
            Ok(PoolUse::Left(Some(left))) if left.is_lost => None,
            Ok(PoolUse::Left(left)) => Some(left.as_ref().map_or(0, |left| left.unsaved)),
            // Nobody can use it, and nobody can tell what was in it.
            Err(_) => None,
        };
        let base = run_base(self.run_base.as_deref());
        remove_run_directory(&base, self.partition, self.server).map_err(|e| e.to_string())?;
        Ok(bytes)
    }
}

impl ServerInstance {
    /// Removes a directory, if the manifest in it says that it is this server's. A directory that was made for a run may have no manifest,
    /// because the server never came up.
    fn erase(&self, directory: &Path) -> Result<(), String> {
        let refused = |why: &str| Err(format!("{} is not removed: {why}", directory.display()));
        if !fs::exists(directory).unwrap_or(true) {
            return Ok(());
        }
        let is_own = match Manifest::read(directory) {
            Ok(manifest) => (manifest.id, manifest.server) == (self.partition, self.server),
            Err(pario_registry::Error::NoManifest(_)) => {
                let name = directory.file_name().unwrap_or_default();
                name.as_encoded_bytes().starts_with(DIRECTORY_PREFIX.as_bytes())
            }
            Err(error) => return refused(&error.to_string()),
        };
        if !is_own {
            return refused("it is not the directory of this server");
        }
        if is_in_use(directory) {
            return refused("a server uses it");
        }
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => refused(&error.to_string()),
            _ => Ok(()),
        }
    }
}

fn signal(pid: u32, signal: i32) -> Result<(), String> {
    if pid == 0 {
        return Err("which process it is was not noted".to_owned());
    }
    signals::send(pid, signal).map_err(|error| format!("process {pid} cannot be ended: {error}"))
}

fn wait_until(mut is_so: impl FnMut() -> Result<bool, String>) -> Result<bool, String> {
    let until = Instant::now() + END;
    while !is_so()? {
        if Instant::now() >= until {
            return Ok(false);
        }
        pario_runtime::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_registry::Description;
    use pario_types::Epoch;

    #[test]
    fn only_the_directory_of_the_server_is_erased() {
        let top = std::env::temp_dir().join(format!("pario-erase-{}", std::process::id()));
        let whose = ServerInstance { run_base: None, partition: PartitionId(7), server: ServerId(1) };
        let make = |name: &str, of: Option<(u128, u16)>| {
            let directory = top.join(name);
            std::fs::create_dir_all(directory.join("inner")).expect("made");
            if let Some((id, server)) = of {
                let description = Description::parse("servers = ['/a', '/b']", Some("p")).expect("sound");
                let (id, server) = (PartitionId(id), ServerId(server));
                let manifest =
                    Manifest { id, server, description, epoch: Epoch::default(), peers: Vec::new() };
                manifest.write(&directory).expect("written");
            }
            directory
        };
        for (name, of) in [
            ("home", None),
            ("other-partition", Some((8, 1))),
            ("other-server", Some((7, 0))),
            ("pario-run-other", Some((8, 1))),
        ] {
            let directory = make(name, of);
            let error = whose.erase(&directory).expect_err(name);
            assert!(error.contains("is not removed: it is not the directory of this server"), "{error}");
            assert!(directory.join("inner").exists(), "{name}");
        }
        // It is in use while a server holds its lock.
        let own = make("own", Some((7, 1)));
        let held = File::open(&own).expect("there");
        assert!(fs::try_lock_file(&held).expect("it can be locked"));
        assert!(whose.erase(&own).expect_err("in use").contains("a server uses it"));
        drop(held);
        for directory in [own, make("pario-run-1.1", None), top.join("missing")] {
            whose.erase(&directory).expect("removed");
            assert!(!directory.exists());
        }
        std::fs::remove_dir_all(top).expect("removed");
    }
}
