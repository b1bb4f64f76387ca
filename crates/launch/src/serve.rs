//! `pario serve`: what runs on a server's node. Users do not call it; `pario up` does, in one of these parts:
//!
//! - *front*: starts a supervisor that outlives the connection it was started through (`ssh`), forwards its messages until it
//!   serves, and ends.
//! - *supervisor*: in a session of its own, starts the server, forwards the messages between it and `pario up`, and then
//!   stays: if the server dies, it starts another, which adopts the pool of its predecessor (see [`supervisor`]).
//! - *attached*: the same without a session of its own, for launchers that end what they started (`srun`,
//!   `mpiexec`) and therefore stay as long as the server.
//! - *server*: the server.
//! - *task*: does one thing on the host, such as storing what the pool of a dead server holds (`task`).

use crate::message::{HostMessage, ServerStart, VERSION, line, next_line};
use crate::supervised::SupervisedRun;
use crate::supervisor::{self, Supervisor, SupervisorEvent, SupervisorTimes};
use crate::{server_process, signals, task};
use pario_runtime::fs::{File, OpenOptions};
use pario_runtime::process::{self, Command, ExitCode, Stdio};
use pario_runtime::sync::mpsc::channel;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::str::FromStr;

/// A part of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServePart {
    /// Starts a supervisor and ends when it serves
    Front,
    /// Starts and restarts the server, in a session of its own
    Supervisor,
    /// The same in the session of its launcher
    Attached,
    /// The server itself
    Server,
    /// Something that is to be done on the host
    Task,
}

impl ServePart {
    /// All parts, and the words of the command line for them.
    const NAMES: [(ServePart, &str); 5] = [
        (ServePart::Front, "front"),
        (ServePart::Supervisor, "supervisor"),
        (ServePart::Attached, "attached"),
        (ServePart::Server, "server"),
        (ServePart::Task, "task"),
    ];
}

impl FromStr for ServePart {
    type Err = String;

    fn from_str(text: &str) -> Result<ServePart, String> {
        let known = ServePart::NAMES.iter().find(|(_, name)| *name == text);
        known.map(|(part, _)| *part).ok_or_else(|| format!("{text} is no part of a server"))
    }
}

/// The arguments that make `pario` a part of a server.
pub fn arguments(part: ServePart) -> [&'static str; 3] {
    let known = ServePart::NAMES.iter().find(|(one, _)| *one == part);
    ["serve", "--part", known.expect("every part has a name").1]
}
/// Runs a part of a server with the standard input and output of this process.
pub fn run(part: ServePart) -> ExitCode {
    let input = BufReader::new(process::stdin());
    let mut output = process::stdout();
    let done = match part {
        ServePart::Front => front(&mut output),
        ServePart::Supervisor => signals::start_session().and_then(|()| attached(input, &mut output)),
        ServePart::Attached => attached(input, &mut output),
        ServePart::Server => return server_process::serve(input),
        ServePart::Task => return task::perform(input, &mut output),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // The process that started this one may be gone.
            let _ = output.write_all(&line(&HostMessage::Failed { why: error.to_string() }));
            ExitCode::FAILURE
        }
    }
}

fn own(part: ServePart) -> io::Result<Command> {
    let mut command = Command::new(process::current_exe()?);
    command.args(arguments(part));
    Ok(command)
}

/// Whether the supervisor said that it serves.
fn front(output: &mut impl Write) -> io::Result<bool> {
    // It reads this process's input itself.
    let mut supervisor = own(ServePart::Supervisor)?;
    let mut child =
        supervisor.stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut said = BufReader::new(child.stdout.take().expect("piped"));
    while let Some(one) = next_line(&mut said)? {
        output.write_all(&one)?;
        output.flush()?;
        match serde_json::from_slice(&one) {
            Ok(HostMessage::Ready { .. }) => {}
            Ok(HostMessage::Serving) => return Ok(true),
            Ok(_) | Err(_) => return Ok(false),
        }
    }
    Ok(false)
}

fn attached(mut input: impl BufRead + Send + 'static, output: &mut impl Write) -> io::Result<bool> {
    let (sender, events) = channel();
    let signals = sender.clone();
    signals::on_termination(move |signal| {
        // Nobody listens any more when the supervisor ends.
        let _ = signals.send(SupervisorEvent::Signal(signal));
    })?;
    let Some(first) = next_line(&mut input)? else { return Ok(false) };
    let start: ServerStart =
        serde_json::from_slice(&first).map_err(|error| invalid(format!("no start: {error}")))?;
    if start.version != VERSION {
        return Err(invalid(format!("pario here speaks version {VERSION}, not {}", start.version)));
    }
    let supervision = SupervisedRun::take(&start).map_err(invalid)?;
    let log = open_log(&start.log)?;
    let spawn = || {
        let mut command = own(ServePart::Server)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.try_clone()?).spawn()
    };
    supervisor::listen(input, sender.clone());
    let (log, times, told) = (log.try_clone()?, SupervisorTimes::of(&start), VecDeque::new());
    let supervision = Some(supervision);
    Supervisor { start, log, times, spawn, supervision, events, sender, told, servers: 0 }.run(output)
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The server's log, on its own host, for its user's eyes only.
pub fn open_log(path: &Path) -> io::Result<File> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot write the log {}: {error}", path.display()))
    };
    if let Some(dir) = path.parent() {
        pario_runtime::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(named)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(named)
}
