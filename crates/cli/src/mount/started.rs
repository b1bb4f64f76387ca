//! Starting a process that serves a mount, and learning from it whether it does.

use super::{Arguments, Error};
use crate::env::{Environment, HOME};
use crate::partition;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The line that it writes when it serves; any other line is the reason why it does not.
const READY: &str = "ready";

/// How long it may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// Runs what serves, and says on the standard output how it went.
pub fn report(serve: impl FnOnce(fn() -> io::Result<()>) -> Result<(), Error>) -> Result<ExitCode, Error> {
    let Err(error) = serve(|| say(READY)) else { return Ok(ExitCode::SUCCESS) };
    // After it was ready nobody listens any more.
    let _ = say(&error.to_string());
    Ok(ExitCode::from(error.exit_code()))
}

fn say(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush())
}

/// Starts a process that stays.
pub fn daemon(arguments: &Arguments, env: &Environment) -> Result<(), Error> {
    let Arguments { name, dir, read_only, .. } = arguments;
    let mut command = part("daemon", name, dir, *read_only, env)?;
    hear(&mut command.stdin(Stdio::null()).spawn().map_err(Error::System)?)
}

fn part(part: &str, name: &str, dir: &Path, read_only: bool, env: &Environment) -> Result<Command, Error> {
    let own = std::env::current_exe().map_err(Error::System)?;
    let dir = std::path::absolute(dir).map_err(Error::System)?;
    let mut command = Command::new(own);
    command.args(["mount", "--part", part]).args(read_only.then_some("--read-only"));
    command.args(["--", name]).arg(dir);
    if let Some(home) = &env.home {
        command.env(HOME, std::path::absolute(home).map_err(Error::System)?);
    }
    // It must not keep this directory in use.
    command.current_dir("/").stdout(Stdio::piped()).stderr(Stdio::null());
    Ok(command)
}

/// Waits until it serves. It always says something: each of its requests has a deadline.
fn hear(child: &mut Child) -> Result<(), Error> {
    let mut line = String::new();
    let output = child.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line).map_err(Error::System)?;
    match line.trim_end() {
        READY => Ok(()),
        "" => Err(Error::Silent),
        why => Err(Error::Said(why.to_owned())),
    }
}

/// A mount that ends with this process.
#[derive(Debug)]
pub struct Attached {
    child: Child,
    dir: PathBuf,
    /// Whether the directory was made for it.
    made: bool,
}

impl Attached {
    /// Mounts a partition at a directory, which is made if it is not there. `None` if it is mounted there
    /// already.
    pub fn mount(name: &str, dir: &Path, env: &Environment) -> Result<Option<Attached>, Error> {
        let id = partition::registry(env)?.get(name)?.id;
        match pario_fuse::at(dir)? {
            Some(mount) if mount.is_of(name, id) => return Ok(None),
            Some(other) => return Err(pario_fuse::Error::Taken(other.dir).into()),
            None => {}
        }
        let made = fs::create_dir(dir).is_ok();
        let mut command = part("attached", name, dir, false, env)?;
        let started = command.stdin(Stdio::piped()).spawn().map_err(Error::System).and_then(|mut child| {
            match hear(&mut child) {
                Ok(()) => Ok(child),
                Err(error) => {
                    // It has said its last word.
                    let _ = child.wait();
                    Err(error)
                }
            }
        });
        match started {
            Ok(child) => Ok(Some(Attached { child, dir: dir.to_owned(), made })),
            Err(error) => {
                if made {
                    let _ = fs::remove_dir(dir);
                }
                Err(error)
            }
        }
    }

    /// Ends it.
    pub fn unmount(mut self) -> Result<(), Error> {
        drop(self.child.stdin.take());
        let until = Instant::now() + GRACE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        // If it has not ended by now, a server may not answer; what is left then is removed like after a
        // crash.
        let _ = self.child.kill().and_then(|()| self.child.wait());
        match pario_fuse::unmount(&self.dir, true) {
            Ok(()) | Err(pario_fuse::Error::NotMounted(_)) => {}
            Err(error) => return Err(error.into()),
        }
        if self.made { fs::remove_dir(&self.dir).map_err(Error::System) } else { Ok(()) }
    }
}
