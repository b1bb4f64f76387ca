//! Starts a partition that is down when a program uses it, if `PARIO_AUTOSTART` says so.
//!
//! The library starts no servers itself, because a fork within an MPI process is not safe. It runs `pario up`, which takes the
//! partition's lock: of several programs or ranks that come first at once, one starts the servers and the others find them
//! running. The process is started by `posix_spawn`, is in a process group of its own, so that it survives the end of this one, and
//! closes all descriptors that it inherits.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::env::env;
use crate::error::{Error, Result};

/// The time for `pario up`, and a little more for the process around it.
const UP: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(75);

/// The interval between checks whether the process has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// The last words of a process that has ended come at once, unless another process holds its pipe.
const LAST_WORDS: Duration = Duration::from_secs(1);
const MOST_WORDS: u64 = 4096;

/// Starts the servers of a partition that do not run.
pub(crate) fn start(partition: &str) -> Result<()> {
    start_with(&program(), partition, Instant::now() + LONGEST)
}

fn start_with(program: &Path, partition: &str, until: Instant) -> Result<()> {
    let failed = |why: String| Error::Autostart { partition: partition.to_owned(), why };
    loop {
        let mut child = spawn(program, partition)
            .map_err(|error| failed(format!("cannot run {}: {error}", program.display())))?;
        let words = last_words(child.stderr.take());
        match wait(&mut child, until) {
            Some(status) if status.success() => return Ok(()),
            // It was killed; the servers that it was starting end by themselves.
            Some(status) if status.signal().is_some() && Instant::now() < until => {}
            Some(status) => {
                let words = words();
                let line = words.lines().last().unwrap_or_default().trim();
                let line = line.strip_prefix("pario: ").unwrap_or(line);
                return Err(failed(if line.is_empty() { status.to_string() } else { line.to_owned() }));
            }
            None => {
                return Err(failed(format!(
                    "it was not up after {} s; see 'pario status'",
                    LONGEST.as_secs()
                )));
            }
        }
    }
}

fn spawn(program: &Path, partition: &str) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.args(["up", "--autostart", "--timeout", &UP.as_secs().to_string(), partition]);
    // It is no MPI program.
    command.env_remove("LD_PRELOAD").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
}

/// Waits for the end of the process. One that is not there any more, because the program ignores or takes the ends of all its
/// children, counts as successful: the partition shows whether it was.
fn wait(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => thread::sleep(PAUSE),
            Ok(None) => return None,
            Err(_) => return Some(ExitStatus::from_raw(0)),
        }
    }
}

/// Reads the standard error of a process in the background. The returned function gives its text after the process has ended.
fn last_words(stderr: Option<ChildStderr>) -> impl FnOnce() -> String {
    let (sender, words) = channel();
    if let Some(stderr) = stderr {
        thread::spawn(move || {
            let mut text = Vec::new();
            // A part of the text is enough for the error. If the process succeeds, the text is not used.
            let _ = stderr.take(MOST_WORDS).read_to_end(&mut text);
            let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
        });
    }
    move || words.recv_timeout(LAST_WORDS).unwrap_or_default()
}

/// The `pario` to run: the one that `PARIO_PROGRAM` names, the one beside the library, or the one in `PATH`.
fn program() -> PathBuf {
    let named = env().pario_program.clone();
    named.or_else(beside_library).unwrap_or_else(|| PathBuf::from("pario"))
}

fn beside_library() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let library = maps.lines().find_map(|line| {
        let path = &line[line.find('/')?..];
        path.ends_with("/libpario.so").then_some(Path::new(path))
    })?;
    let directory = library.parent()?;
    let places = [directory.join("pario"), directory.join("../bin/pario")];
    places.into_iter().find(|place| place.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A program with this text in a directory of its own.
    fn script(name: &str, text: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("pario-autostart-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("pario");
        std::fs::write(&path, format!("#!/bin/sh\ncd {}\n{text}\n", dir.display())).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
        path
    }

    fn outcome(program: &Path, patience: Duration) -> String {
        let started = start_with(program, "part", Instant::now() + patience);
        if let Some(dir) = program.parent().filter(|dir| dir.starts_with(std::env::temp_dir())) {
            std::fs::remove_dir_all(dir).expect("removed");
        }
        started.map_or_else(|error| error.to_string(), |()| "up".to_owned())
    }

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn the_outcome_is_that_of_the_command() {
        let fine = script("fine", "test \"$*\" = 'up --autostart --timeout 60 part' || exit 9");
        assert_eq!(outcome(&fine, PATIENCE), "up");
        let refused = script("refused", "echo greeting >&2; echo 'pario: no disk' >&2; exit 1");
        assert_eq!(outcome(&refused, PATIENCE), "partition part is down and was not started: no disk");
        let missing = outcome(Path::new("/no/such/pario"), PATIENCE);
        assert!(missing.contains("cannot run /no/such/pario"), "{missing}");
    }

    #[test]
    fn a_command_that_is_killed_is_run_again() {
        let killed = script("killed", "test -e again && exit 0; touch again; kill -9 $$");
        assert_eq!(outcome(&killed, PATIENCE), "up");
    }

    #[test]
    fn a_command_that_does_not_end_has_a_deadline() {
        // The process ends when its pipe does.
        let said = outcome(&script("endless", "exec sleep 3"), Duration::ZERO);
        assert!(said.contains("it was not up after"), "{said}");
    }
}
