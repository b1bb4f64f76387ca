//! Keeps a server running: starts it, starts another when it dies, and ends it when it is told to.
//!
//! Threads turn everything that can happen into [`SupervisorEvent`]s: a line from the process that started the supervisor, a line
//! from the server, the server's end, a signal. The supervisor waits for the next event, and never for anything else.
//!
//! - *A server that cannot start* says why to `pario up`. A successor that cannot start is tried again, at first soon, then
//!   every few seconds, for as long as its run directory is there: a port that is taken, a disk that is not mounted and a full
//!   memory pass.
//! - *A server that dies* gets a successor, which adopts the pool; one that dies again and again gets one every minute.
//! - *A server that gives no sign of life* is killed after [`SupervisorTimes::patience`]; but not while one of its threads waits for a disk,
//!   since a successor would wait there, too, nor under a debugger.
//! - *SIGTERM, SIGINT and SIGHUP* are passed on to the server, which drains; then the supervisor ends as well.

use pario_runtime::fs::File;
use pario_runtime::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use pario_runtime::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use pario_runtime::time::Instant;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::time::Duration;

use crate::message::{HostMessage, Probe, ServerStart, line, next_line};
use crate::server_process;
use crate::signals;
use crate::supervised::SupervisedRun;

/// A server that dies so often within [`WITHIN`] after it had served is started again only after [`SupervisorTimes::slow`].
const MOST_DEATHS: usize = 5;
const WITHIN: Duration = Duration::from_secs(60);
/// How long after its first death, or a failed start, it is started again; after the next, twice as long, and so on.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long a server that does not serve yet may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// How often the time that a mute server has is doubled, once for each server that was killed.
const MOST_DOUBLINGS: u32 = 6;

/// The supervisor's intervals.
#[derive(Clone, Copy, Debug)]
pub struct SupervisorTimes {
    /// How often a server is asked for a sign of life.
    pub beat: Duration,
    /// How long a server may give no sign of life.
    pub patience: Duration,
    /// How long after its death one that dies too often is started again.
    pub slow: Duration,
}

impl SupervisorTimes {
    /// A server may be mute for longer than its clients wait for it, even if it is swapped out.
    pub fn of(start: &ServerStart) -> SupervisorTimes {
        let patience = (start.description.settings().deadline * 2).max(Duration::from_secs(10));
        SupervisorTimes { beat: Duration::from_secs(5), patience, slow: Duration::from_secs(60) }
    }
}

/// Something that happened.
pub enum SupervisorEvent {
    /// A line from the process that started the supervisor; `None` at the end of the input.
    Told(Option<Vec<u8>>),
    /// A message of the server with this number.
    Said(u32, HostMessage),
    /// A server has ended; it is there to be reaped.
    Ended(u32),
    /// This process got a signal that asks it to end.
    Signal(i32),
}

/// The supervisor of a server.
pub struct Supervisor<S> {
    pub start: ServerStart,
    pub log: File,
    pub times: SupervisorTimes,
    /// Starts a process.
    pub spawn: S,
    /// The right to do so.
    pub supervision: Option<SupervisedRun>,
    pub events: Receiver<SupervisorEvent>,
    /// For the threads of each server.
    pub sender: Sender<SupervisorEvent>,
    /// Lines that were not asked for yet.
    pub told: VecDeque<Option<Vec<u8>>>,
    /// How many servers there were.
    pub servers: u32,
}

/// A server's process.
struct Server {
    number: u32,
    child: Child,
    input: Option<ChildStdin>,
}

impl Server {
    /// Gives it a line. If it is gone, that shows in what it says.
    fn say(&mut self, line: &[u8]) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(line).and_then(|()| input.flush());
        }
    }

    /// Ends it by the end of its input, or if that does not help, by a signal: nobody uses it yet. What it may have adopted
    /// stays in its pool.
    fn dismiss(mut self) {
        self.input = None;
        let until = Instant::now() + GRACE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            pario_runtime::thread::sleep(Duration::from_millis(5));
        }
        // Only so that nothing is left behind; how it ended does not matter.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// The reason why there is no server that serves.
enum SuccessorFailure {
    /// It cannot start, for this reason.
    Failed(String),
    /// The supervisor is to end.
    Told,
}

/// Sends an event for each line from the process that started this one.
pub fn listen(mut input: impl BufRead + Send + 'static, events: Sender<SupervisorEvent>) {
    pario_runtime::thread::spawn(move || {
        loop {
            let line = next_line(&mut input).ok().flatten();
            let is_last = line.is_none();
            if events.send(SupervisorEvent::Told(line)).is_err() || is_last {
                return;
            }
        }
    });
}

/// Sends an event for each line that a server says, and for its end.
fn listen_to(number: u32, pid: u32, said: ChildStdout, events: Sender<SupervisorEvent>) {
    pario_runtime::thread::spawn(move || {
        let mut said = BufReader::new(said);
        while let Ok(Some(line)) = next_line(&mut said) {
            // A line that is no message comes from another program.
            let said = serde_json::from_slice(&line)
                .unwrap_or_else(|_| HostMessage::Failed { why: "it said something odd".to_owned() });
            let _ = events.send(SupervisorEvent::Said(number, said));
        }
        // It can only fail if there is no such child any more.
        let _ = signals::wait_for_end(pid);
        let _ = events.send(SupervisorEvent::Ended(number));
    });
}

impl<S: FnMut() -> io::Result<Child>> Supervisor<S> {
    /// Starts the server, forwards messages between it and the process that started this one, and keeps it running. Returns
    /// whether it served and ended in order.
    pub fn run(mut self, output: &mut impl Write) -> io::Result<bool> {
        let outcome = self.start(output);
        if let Some(supervision) = self.supervision.take() {
            supervision.end();
        }
        outcome
    }

    fn start(&mut self, output: &mut impl Write) -> io::Result<bool> {
        let mut server = self.launch()?;
        server.say(&line(&self.start));
        let ready = self.hear(&server);
        let told = output.write_all(&line(&ready)).and_then(|()| output.flush());
        let HostMessage::Ready { tcp, .. } = ready else {
            server.dismiss();
            return Ok(false);
        };
        // A successor has to be where the others look for it.
        if let Some(port) = tcp.and_then(|tcp| tcp.rsplit_once(':')?.1.parse().ok()) {
            self.start.port = port;
        }
        let Some(peers) = told.ok().and_then(|()| self.peers(&server)) else {
            server.dismiss();
            return Ok(false);
        };
        server.say(&peers);
        let said = self.hear(&server);
        // The process that started this one has what it needs, or is gone: the partition is registered as running by now.
        let _ = output.write_all(&line(&said)).and_then(|()| output.flush());
        if said != HostMessage::Serving {
            server.dismiss();
            return Ok(false);
        }
        self.keep(server, &peers)
    }

    fn launch(&mut self) -> io::Result<Server> {
        let mut child = (self.spawn)()?;
        self.servers += 1;
        let (input, said) = (child.stdin.take(), child.stdout.take().expect("piped"));
        listen_to(self.servers, child.id(), said, self.sender.clone());
        Ok(Server { number: self.servers, child, input })
    }

    /// The next event, or none by that time.
    fn next(&self, until: Option<Instant>) -> Option<SupervisorEvent> {
        let next = match until {
            None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => self.events.recv_timeout(until.saturating_duration_since(Instant::now())),
        };
        match next {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the supervisor has a sender itself"),
        }
    }

    /// The server's next message; `Failed` if it ends before.
    fn hear(&mut self, server: &Server) -> HostMessage {
        let failed = |why: &str| HostMessage::Failed { why: why.to_owned() };
        loop {
            match self.next(None) {
                Some(SupervisorEvent::Said(number, said)) if number == server.number => return said,
                Some(SupervisorEvent::Ended(number)) if number == server.number => {
                    return failed("the server died; its log says more");
                }
                Some(SupervisorEvent::Signal(_)) => return failed("the supervisor was told to end"),
                Some(SupervisorEvent::Told(line)) => self.told.push_back(line),
                _ => {}
            }
        }
    }

    /// The addresses of all servers; `None` if they do not come any more.
    fn peers(&mut self, server: &Server) -> Option<Vec<u8>> {
        loop {
            match self.told.pop_front().map(SupervisorEvent::Told).or_else(|| self.next(None)) {
                Some(SupervisorEvent::Told(peers)) => return peers,
                Some(SupervisorEvent::Signal(_)) => return None,
                Some(SupervisorEvent::Ended(number)) if number == server.number => return None,
                _ => {}
            }
        }
    }

    /// Waits for the server's end, and starts another if it died.
    fn keep(&mut self, mut server: Server, peers: &[u8]) -> io::Result<bool> {
        let mut deaths: Vec<Instant> = Vec::new();
        let mut kills = 0;
        loop {
            let ServerEnd { status, was_told, was_mute } = self.watch(&mut server, kills)?;
            if status.success() {
                return Ok(true);
            }
            if status.code() == Some(server_process::UNSAVED.into()) || was_told {
                self.note(&format!(
                    "the server ended without storing everything ({status}); its pool has the rest"
                ));
                return Ok(false);
            }
            self.note(&format!("the server died: {status}"));
            if !self.start.description.settings().supervise {
                self.note("it is not started again");
                return Ok(false);
            }
            kills = if was_mute { kills + 1 } else { 0 };
            deaths.retain(|death| death.elapsed() < WITHIN);
            deaths.push(Instant::now());
            let pause = match deaths.len() {
                few if few < MOST_DEATHS => PAUSE * (1 << (few - 1)),
                _ => {
                    let slow = self.times.slow;
                    self.note(&format!("it dies too often: the next one starts in {slow:?}"));
                    slow
                }
            };
            match self.successor(peers, pause) {
                Some(next) => server = next,
                None => {
                    self.note("told to end while no server ran; what was not stored is in the pool");
                    return Ok(false);
                }
            }
        }
    }

    /// Waits for the server's end.
    fn watch(&mut self, server: &mut Server, kills: u32) -> io::Result<ServerEnd> {
        let patience = self.times.patience * (1 << kills.min(MOST_DOUBLINGS));
        let mut life = SignsOfLife::new();
        let (mut was_told, mut was_mute) = (false, false);
        loop {
            let due = life.asked.map_or(life.last + self.times.beat, |asked| asked + patience);
            match self.next(Some(due)) {
                Some(SupervisorEvent::Ended(number)) if number == server.number => {
                    return Ok(ServerEnd { status: server.child.wait()?, was_told, was_mute });
                }
                Some(SupervisorEvent::Said(number, HostMessage::Alive)) if number == server.number => {
                    life.shown()
                }
                Some(SupervisorEvent::Signal(signal)) => {
                    was_told = true;
                    // It has not been reaped, so the number is still its.
                    let _ = signals::send(server.child.id(), signal);
                }
                Some(_) => {}
                None if life.asked.is_none() => {
                    // One question is in the pipe at a time, so this does not wait.
                    server.say(&line(&Probe::Alive));
                    life.asked();
                }
                None => match excuse(server.child.id()) {
                    Some(why) => {
                        if life.excused() {
                            self.note(&format!("the server gives no sign of life: {why}"));
                        }
                    }
                    None => {
                        self.note(&format!("the server gave no sign of life for {patience:?} and is killed"));
                        was_mute = true;
                        server.child.kill()?;
                        life.asked();
                    }
                },
            }
        }
    }

    /// Starts another server in the place of one that died, however often it has to try; `None` if the supervisor is to end.
    fn successor(&mut self, peers: &[u8], mut pause: Duration) -> Option<Server> {
        // By now there is data to be found.
        self.start.made = true;
        let mut last = String::new();
        let mut next_pause = PAUSE;
        loop {
            self.rest(pause)?;
            match self.try_successor(peers) {
                Ok((server, pid)) => {
                    self.note(&format!("another server was started: process {pid}"));
                    return Some(server);
                }
                Err(SuccessorFailure::Told) => return None,
                Err(SuccessorFailure::Failed(why)) => {
                    if why != last {
                        self.note(&format!("another server could not be started: {why}; it is tried again"));
                        last = why;
                    }
                }
            }
            pause = next_pause;
            next_pause = (next_pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits; `None` if the supervisor is to end.
    fn rest(&self, pause: Duration) -> Option<()> {
        let until = Instant::now() + pause;
        loop {
            match self.next(Some(until)) {
                Some(SupervisorEvent::Signal(_)) => return None,
                Some(_) => {}
                // The run directory goes when the partition goes down.
                None => return self.supervision.as_ref().is_none_or(SupervisedRun::is_current).then_some(()),
            }
        }
    }

    fn try_successor(&mut self, peers: &[u8]) -> Result<(Server, u32), SuccessorFailure> {
        let mut server = self.launch().map_err(|error| SuccessorFailure::Failed(error.to_string()))?;
        server.say(&line(&self.start));
        server.say(peers);
        let mut process = None;
        loop {
            let trouble = match self.next(None) {
                Some(SupervisorEvent::Said(number, said)) if number == server.number => match (said, process)
                {
                    (HostMessage::Ready { pid, .. }, _) => {
                        process = Some(pid);
                        continue;
                    }
                    (HostMessage::Serving, Some(pid)) => return Ok((server, pid)),
                    (HostMessage::Failed { why }, _) => SuccessorFailure::Failed(why),
                    _ => SuccessorFailure::Failed("it said something odd".to_owned()),
                },
                Some(SupervisorEvent::Ended(number)) if number == server.number => {
                    SuccessorFailure::Failed("it died at once; the log says more".to_owned())
                }
                Some(SupervisorEvent::Signal(signal)) => {
                    // It may have adopted a pool, and be able to store what is in it.
                    let _ = signals::send(server.child.id(), signal);
                    let _ = server.child.wait();
                    SuccessorFailure::Told
                }
                _ => continue,
            };
            server.dismiss();
            return Err(trouble);
        }
    }

    fn note(&mut self, text: &str) {
        // A full disk must not end the supervisor.
        let _ = writeln!(self.log, "pario: supervisor of server {}: {text}", self.start.server);
    }
}

/// How a server ended.
struct ServerEnd {
    status: ExitStatus,
    /// After a signal that asked it to.
    was_told: bool,
    /// It was killed, since it gave no sign of life.
    was_mute: bool,
}

/// The signs of life of a server.
struct SignsOfLife {
    /// When the last one came, or it was started.
    last: Instant,
    /// When it was asked for one, if it has not answered.
    asked: Option<Instant>,
    is_excused: bool,
}

impl SignsOfLife {
    fn new() -> SignsOfLife {
        SignsOfLife { last: Instant::now(), asked: None, is_excused: false }
    }

    fn shown(&mut self) {
        *self = SignsOfLife::new();
    }

    fn asked(&mut self) {
        self.asked = Some(Instant::now());
    }

    /// It does not answer for a reason; whether that is new. It has as long again.
    fn excused(&mut self) -> bool {
        self.asked();
        !std::mem::replace(&mut self.is_excused, true)
    }
}

/// The reason why a mute process is not killed, if there is one.
fn excuse(pid: u32) -> Option<&'static str> {
    signals::thread_states(pid).into_iter().find_map(|state| match state {
        'D' => Some("it waits for its storage, as a successor would"),
        't' => Some("a debugger has stopped it"),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
