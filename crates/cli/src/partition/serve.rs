//! `pario serve`: what runs on a server's node. Users do not call it; `pario up` does, in one of these parts:
//!
//! - *front*: starts a supervisor that outlives the connection it was started through (`ssh`), passes on what
//!   that says until it serves, and ends.
//! - *supervisor*: in a session of its own, starts the server, passes the conversation with `pario up`
//!   through, and then stays: if the server dies, it starts another, which finds the pool of its predecessor.
//! - *attached*: the same without a session of its own, for launchers that end what they started (`srun`,
//!   `mpiexec`) and therefore stay as long as the server.
//! - *server*: the server.
//! - *task*: does one thing on the host, such as storing what the pool of a dead server holds (`task`).

use super::error::Error;
use super::message::{Said, Start, VERSION, line, next_line};
use super::{join, task};
use crate::signal;
use clap::{Args, ValueEnum};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Run a part of a partition's server (started by 'pario up')
#[derive(Args)]
pub struct Arguments {
    /// Which part
    #[arg(long, value_enum, default_value = "supervisor")]
    part: Part,
}

/// A part of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
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

/// The arguments that make this program a part of a server.
pub fn arguments(part: Part) -> [&'static str; 3] {
    let name = match part {
        Part::Front => "front",
        Part::Supervisor => "supervisor",
        Part::Attached => "attached",
        Part::Server => "server",
        Part::Task => "task",
    };
    ["serve", "--part", name]
}

/// A server that dies so often within [`WITHIN`] is not started again.
const MOST_DEATHS: usize = 5;
const WITHIN: Duration = Duration::from_secs(60);
/// How long after its first death it is started again; after the next, twice as long, and so on.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a server that was told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let mut input = io::stdin().lock();
    let mut output = io::stdout().lock();
    let done = match arguments.part {
        Part::Front => front(&mut output),
        Part::Supervisor => signal::own_session().and_then(|()| attached(&mut input, &mut output)),
        Part::Attached => attached(&mut input, &mut output),
        Part::Server => return Ok(join::serve(&mut input, &mut output)),
        Part::Task => return Ok(task::perform(&mut input, &mut output)),
    };
    Ok(match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Who started us may be gone.
            let _ = output.write_all(&line(&Said::Failed { why: error.to_string() }));
            ExitCode::FAILURE
        }
    })
}

fn own(part: Part) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments(part));
    Ok(command)
}

/// Whether the supervisor said that it serves.
fn front(output: &mut impl Write) -> io::Result<bool> {
    // It reads this process's input itself.
    let mut supervisor = own(Part::Supervisor)?;
    let mut child =
        supervisor.stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut said = BufReader::new(child.stdout.take().expect("piped"));
    while let Some(one) = next_line(&mut said)? {
        output.write_all(&one)?;
        output.flush()?;
        match serde_json::from_slice(&one) {
            Ok(Said::Ready { .. }) => {}
            Ok(Said::Serving) => return Ok(true),
            Ok(_) | Err(_) => return Ok(false),
        }
    }
    Ok(false)
}

fn attached(input: &mut impl BufRead, output: &mut impl Write) -> io::Result<bool> {
    let Some(first) = next_line(input)? else { return Ok(false) };
    let start: Start =
        serde_json::from_slice(&first).map_err(|error| invalid(format!("no start: {error}")))?;
    if start.version != VERSION {
        return Err(invalid(format!("pario here speaks version {VERSION}, not {}", start.version)));
    }
    let supervision = join::Supervised::take(&start).map_err(invalid)?;
    let log = open_log(&start.log)?;
    let spawn = || {
        let mut command = own(Part::Server)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.try_clone()?).spawn()
    };
    let done = Supervisor { start, log: log.try_clone()?, spawn }.run(input, output);
    supervision.end();
    done
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The server's log, on its own host, for its user's eyes only.
fn open_log(path: &Path) -> io::Result<File> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot write the log {}: {error}", path.display()))
    };
    if let Some(dir) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(named)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(named)
}

/// Starts a server, and starts it again when it dies.
struct Supervisor<S> {
    start: Start,
    log: File,
    spawn: S,
}

/// A server and the ends of its pipes.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
}

impl Server {
    fn new(mut child: Child) -> Server {
        let input = child.stdin.take();
        let said = BufReader::new(child.stdout.take().expect("piped"));
        Server { child, input, said }
    }

    /// Gives it a line. If it is gone, that shows in what it says.
    fn say(&mut self, line: &[u8]) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(line).and_then(|()| input.flush());
        }
    }

    fn hear(&mut self) -> io::Result<Said> {
        let line = next_line(&mut self.said)?;
        let said = line.and_then(|line| serde_json::from_slice(&line).ok());
        Ok(said.unwrap_or_else(|| Said::Failed { why: "the server died; its log says more".to_owned() }))
    }

    /// Ends it by the end of its input, or if that does not help, by a signal: nobody uses it yet.
    fn dismiss(mut self) {
        self.input = None;
        let until = Instant::now() + GRACE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Only so that nothing is left behind; how it ended does not matter.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl<S: FnMut() -> io::Result<Child>> Supervisor<S> {
    /// Whether the server served and ended as it should.
    fn run(mut self, input: &mut impl BufRead, output: &mut impl Write) -> io::Result<bool> {
        let mut server = Server::new((self.spawn)()?);
        server.say(&line(&self.start));
        let ready = server.hear()?;
        let told = output.write_all(&line(&ready)).and_then(|()| output.flush());
        let Said::Ready { tcp, .. } = ready else { return Ok(false) };
        // A successor has to be where the others look for it.
        if let Some(port) = tcp.and_then(|tcp| tcp.rsplit_once(':')?.1.parse().ok()) {
            self.start.port = port;
        }
        let peers = match told.and_then(|()| next_line(input)) {
            Ok(Some(peers)) => peers,
            _ => {
                server.dismiss();
                return Ok(false);
            }
        };
        server.say(&peers);
        let said = server.hear()?;
        // Whoever started us has what it needs, or is gone: the partition has been registered as running by
        // now.
        let _ = output.write_all(&line(&said)).and_then(|()| output.flush());
        if said != Said::Serving {
            server.dismiss();
            return Ok(false);
        }
        self.keep(server, &peers)
    }

    /// Waits for the server's end, and starts another if it died.
    fn keep(mut self, mut server: Server, peers: &[u8]) -> io::Result<bool> {
        let mut deaths: Vec<Instant> = Vec::new();
        loop {
            let status = server.child.wait()?;
            if status.success() {
                return Ok(true);
            }
            self.note(&format!("the server died: {status}"));
            deaths.retain(|death| death.elapsed() < WITHIN);
            deaths.push(Instant::now());
            if !self.start.description.settings().supervise || deaths.len() >= MOST_DEATHS {
                self.note("it is not started again");
                return Ok(false);
            }
            std::thread::sleep(PAUSE * (1 << (deaths.len() - 1)));
            match self.successor(peers) {
                Ok((next, words)) => {
                    self.note(&format!("another server was started: {words}"));
                    server = next;
                }
                Err(error) => {
                    self.note(&format!("another server could not be started: {error}"));
                    return Err(error);
                }
            }
        }
    }

    /// Starts another server in the place of one that died, and what there is to say of it.
    fn successor(&mut self, peers: &[u8]) -> io::Result<(Server, String)> {
        // By now there is data to be found.
        self.start.made = true;
        let mut server = Server::new((self.spawn)()?);
        server.say(&line(&self.start));
        server.say(peers);
        let (ready, serving) = (server.hear()?, server.hear()?);
        Ok((server, describe(&ready, &serving)))
    }

    fn note(&mut self, text: &str) {
        // A full disk must not end the supervisor.
        let _ = writeln!(self.log, "pario: supervisor of server {}: {text}", self.start.server);
    }
}

fn describe(ready: &Said, serving: &Said) -> String {
    match (ready, serving) {
        (Said::Ready { pid, .. }, Said::Serving) => format!("process {pid}"),
        (Said::Failed { why }, _) | (_, Said::Failed { why }) => why.clone(),
        _ => "it said something odd".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::start;
    use super::*;
    use std::io::Cursor;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    const READY: &str = r#"echo '{"say":"ready","pid":1,"unix":"/u","tcp":"0.0.0.0:4711","note":null}'"#;
    const SERVING: &str = r#"echo '{"say":"serving"}'"#;

    /// Runs a supervisor over shell scripts, the first server's and its successors'; gives its result, what
    /// it said, its log, and how many servers there were.
    fn supervised(
        name: &str,
        scripts: [&str; 2],
        peers: &str,
        supervise: &str,
    ) -> (io::Result<bool>, String, String, u32) {
        let dir = std::env::temp_dir().join(format!("pario-serve-{}-{name}", std::process::id()));
        let path = dir.join("logs/log");
        let _ = std::fs::remove_dir_all(&dir);
        let log = open_log(&path).expect("a log");
        let mut start = start();
        start.description = start.description.with("supervise", supervise).expect("allowed");
        let count = AtomicU32::new(0);
        let spawn = || {
            let script = scripts[usize::from(count.fetch_add(1, SeqCst) > 0)];
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
        };
        let mut said = Vec::new();
        let supervisor = Supervisor { start, log, spawn };
        let done = supervisor.run(&mut Cursor::new(peers.as_bytes()), &mut said);
        let log = std::fs::read_to_string(&path).expect("a log");
        let _ = std::fs::remove_dir_all(&dir);
        (done, String::from_utf8(said).expect("text"), log, count.into_inner())
    }

    #[test]
    fn a_server_that_ends_well_is_the_end() {
        let script = format!("read start; {READY}; read peers; {SERVING}");
        let (done, said, log, count) = supervised("well", [&script, ""], "{\"peers\":[]}\n", "true");
        assert!(done.expect("no trouble"));
        assert_eq!((said.lines().count(), log.as_str(), count), (2, "", 1));
    }

    #[test]
    fn a_server_that_dies_gets_a_successor_at_the_same_port() {
        let first = format!("read start; {READY}; read peers; {SERVING}; kill -9 $$");
        // The successor is given port and peers at once, and ends well only if both are right.
        let second = format!(
            r#"read start; case "$start" in *'"port":4711'*) ;; *) exit 1;; esac
               {READY}; read peers; {SERVING}; test "$peers" = '{{"peers":[]}}'"#
        );
        let (done, said, log, count) = supervised("dies", [&first, &second], "{\"peers\":[]}\n", "true");
        assert!(done.expect("no trouble"), "{log}");
        assert_eq!((said.lines().count(), count), (2, 2));
        assert!(log.contains("the server died: signal: 9") && log.contains("started: process 1"), "{log}");
    }

    #[test]
    fn a_server_that_keeps_dying_or_is_not_supervised_is_left() {
        let script = format!("read start; {READY}; read peers; {SERVING}; exit 7");
        let (done, _, log, count) = supervised("keeps", [&script, "exit 8"], "{\"peers\":[]}\n", "true");
        assert!(!done.expect("no trouble"));
        assert_eq!(count as usize, MOST_DEATHS);
        assert!(log.ends_with("it is not started again\n"), "{log}");
        let (done, _, _, count) = supervised("unsupervised", [&script, ""], "{\"peers\":[]}\n", "false");
        assert_eq!((done.expect("no trouble"), count), (false, 1));
    }

    #[test]
    fn a_server_that_cannot_start_says_so() {
        let failed = r#"read start; echo '{"say":"failed","why":"no such directory"}'"#;
        let (done, said, ..) = supervised("cannot", [failed, ""], "", "true");
        assert!(!done.expect("no trouble"));
        assert_eq!(said, "{\"say\":\"failed\",\"why\":\"no such directory\"}\n");
        let (_, said, _, count) = supervised("mute", ["exit 1", ""], "", "true");
        assert!(said.contains("the server died") && count == 1, "{said}");
    }

    #[test]
    fn without_peers_there_is_no_server() {
        let script = format!("read start; {READY}; read peers || exit 0; {SERVING}; exec sleep 600");
        let (done, said, ..) = supervised("no-peers", [&script, ""], "", "true");
        assert_eq!((done.expect("no trouble"), said.lines().count()), (false, 1));
    }
}
