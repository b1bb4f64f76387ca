//! A program that was started, here or through a launcher, and the messages to and from it.
//!
//! Three threads move lines, so that every wait has a deadline: one writes the program's input, one reads its output, and one
//! keeps the last lines of its standard error for an error message. They end with the program.

use crate::error::LaunchFailure;
use crate::message::next_line;
use pario_runtime::process::{Child, Command, Stdio};
use pario_runtime::sync::Mutex;
use pario_runtime::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use pario_runtime::thread::{JoinHandle, spawn};
use pario_runtime::time::Instant;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::Arc;
use std::time::Duration;

/// How many lines of complaints are kept, and how much of each.
const MOST_LINES: usize = 4;
const LONGEST_LINE: usize = 300;
/// How long a program that was told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(3);

/// A program that was started and sends messages of type `S`.
pub struct LaunchedProcess<S> {
    child: Child,
    input: Option<Sender<Vec<u8>>>,
    said: Receiver<S>,
    complaints: Arc<Mutex<VecDeque<String>>>,
    complaining: Option<JoinHandle<()>>,
}

impl<S: DeserializeOwned + Send + 'static> LaunchedProcess<S> {
    /// Runs the command and gives it its first line.
    pub fn run(command: &mut Command, first: Vec<u8>) -> io::Result<LaunchedProcess<S>> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stdin = child.stdin.take().expect("piped");
        let stdout = child.stdout.take().expect("piped");
        let stderr = child.stderr.take().expect("piped");
        let complaints = Arc::new(Mutex::new(VecDeque::new()));
        let (input, lines) = channel();
        // Few messages come; the program waits if nobody receives them.
        let (saying, said) = sync_channel(4);
        spawn(move || write(stdin, lines));
        let (keep, also_keep) = (complaints.clone(), complaints.clone());
        spawn(move || listen(BufReader::new(stdout), saying, &keep));
        let complaining = spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                complain(&also_keep, &line);
            }
        });
        let mut started =
            LaunchedProcess { child, input: Some(input), said, complaints, complaining: Some(complaining) };
        started.send(first);
        Ok(started)
    }

    /// Sends a line. Whether the program reads it shows in its next message.
    pub fn send(&mut self, line: Vec<u8>) {
        if let Some(input) = &self.input {
            let _ = input.send(line);
        }
    }

    /// Receives its next message; waits until then.
    pub fn receive(&mut self, until: Instant) -> Result<S, LaunchFailure> {
        let begun = Instant::now();
        match self.said.recv_timeout(until.saturating_duration_since(begun)) {
            Ok(said) => Ok(said),
            Err(RecvTimeoutError::Timeout) => Err(LaunchFailure::Silent(begun.elapsed())),
            Err(RecvTimeoutError::Disconnected) => {
                self.finish();
                Err(LaunchFailure::Ended(self.last_words()))
            }
        }
    }

    /// Leaves it running on its own.
    pub fn detach(self) {
        drop(self);
    }

    /// Ends it: by the end of its input, and if that does not help, by a signal.
    pub fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        self.input = None;
        let until = Instant::now() + GRACE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            pario_runtime::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The last lines of its standard error as one line; its exit status if there are none.
    fn last_words(&mut self) -> String {
        let until = Instant::now() + GRACE;
        if let Some(thread) = self.complaining.take() {
            // Something it started may hold the pipe open for good.
            while !thread.is_finished() && Instant::now() < until {
                pario_runtime::thread::sleep(Duration::from_millis(5));
            }
        }
        let lines = self.complaints.lock();
        match (lines.is_empty(), self.child.try_wait()) {
            (true, Ok(Some(status))) => status.to_string(),
            _ => lines.iter().cloned().collect::<Vec<_>>().join("; "),
        }
    }
}

fn write(mut stdin: impl Write, lines: Receiver<Vec<u8>>) {
    for line in lines {
        if stdin.write_all(&line).and_then(|()| stdin.flush()).is_err() {
            break;
        }
    }
}

/// Forwards its messages. Other lines, such as a login shell's greetings, are kept as if they came on standard error.
fn listen<S: DeserializeOwned>(
    mut stdout: impl BufRead,
    said: SyncSender<S>,
    complaints: &Mutex<VecDeque<String>>,
) {
    while let Ok(Some(line)) = next_line(&mut stdout) {
        match serde_json::from_slice(&line) {
            Ok(one) => {
                if said.send(one).is_err() {
                    break;
                }
            }
            Err(_) => complain(complaints, &line),
        }
    }
}

fn complain(complaints: &Mutex<VecDeque<String>>, line: &[u8]) {
    let text: String = String::from_utf8_lossy(line).trim().chars().take(LONGEST_LINE).collect();
    if !text.is_empty() {
        let mut lines = complaints.lock();
        lines.push_back(text);
        while lines.len() > MOST_LINES {
            lines.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::HostMessage;

    fn shell(script: &str) -> LaunchedProcess<HostMessage> {
        LaunchedProcess::run(Command::new("sh").args(["-c", script]), b"first\n".to_vec()).expect("a shell")
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(9)
    }

    #[test]
    fn a_program_gets_lines_and_is_heard() {
        let mut started = shell(
            "read a; echo welcome; echo '{\"say\":\"ready\",\"pid\":5,\"unix\":\"'$a'\",\"tcp\":null,\"note\":null}'
             read b; echo '{\"say\":\"failed\",\"why\":\"'$b'\"}'",
        );
        let ready = HostMessage::Ready { pid: 5, unix: "first".into(), tcp: None, note: None };
        assert_eq!(started.receive(soon()), Ok(ready));
        started.send(b"second\n".to_vec());
        assert_eq!(started.receive(soon()), Ok(HostMessage::Failed { why: "second".into() }));
        assert_eq!(started.receive(soon()), Err(LaunchFailure::Ended("welcome".into())));
    }

    #[test]
    fn last_words_are_kept() {
        let ended = |script| shell(script).receive(soon()).expect_err("it ends");
        assert_eq!(
            ended("for i in 1 2 3 4 5 6; do echo no $i >&2; done"),
            LaunchFailure::Ended("no 3; no 4; no 5; no 6".into())
        );
        assert_eq!(ended("exit 3"), LaunchFailure::Ended("exit status: 3".into()));
    }

    #[test]
    fn silence_has_an_end_and_the_end_of_input_ends_it() {
        let mut started = shell("while read line; do :; done");
        assert!(matches!(started.receive(Instant::now()), Err(LaunchFailure::Silent(_))));
        started.end();
    }

    #[test]
    fn a_program_that_does_not_read_does_not_hold_anyone_up() {
        let mut started: LaunchedProcess<HostMessage> =
            LaunchedProcess::run(Command::new("sleep").arg("600"), vec![b'x'; 4 << 20]).expect("sleep runs");
        assert!(matches!(started.receive(Instant::now()), Err(LaunchFailure::Silent(_))));
        started.child.kill().expect("killed");
        started.end();
    }
}
