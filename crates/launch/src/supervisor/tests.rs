use super::*;
use crate::message::tests::start;
use crate::serve::open_log;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

const READY: &str = r#"echo '{"say":"ready","pid":1,"unix":"/u","tcp":"0.0.0.0:4711","note":null}'"#;
const SERVING: &str = r#"echo '{"say":"serving"}'"#;
const FAILED: &str = r#"read start; echo '{"say":"failed","why":"the port is taken"}'"#;
const PEERS: &str = "{\"peers\":[]}\n";

/// A supervisor over shell scripts.
struct Trial<'a> {
    name: &'a str,
    /// Of each server; the last one is that of all others as well.
    scripts: &'a [&'a str],
    peers: &'a str,
    supervise: &'a str,
    times: SupervisorTimes,
    /// A signal comes once this file of the trial's directory is there, and the supervisor has said that the server serves.
    signal_at: Option<&'a str>,
}

/// What became of it.
struct Outcome {
    done: bool,
    said: String,
    log: String,
    servers: usize,
}

impl Default for Trial<'_> {
    fn default() -> Self {
        let long = Duration::from_secs(600);
        let times = SupervisorTimes { beat: long, patience: long, slow: long };
        Trial { name: "", scripts: &[], peers: PEERS, supervise: "true", times, signal_at: None }
    }
}

/// The messages of a supervisor, which other threads can read.
#[derive(Clone, Default)]
struct SaidLines(Arc<Mutex<Vec<u8>>>);

impl SaidLines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
    }
}

impl Write for SaidLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until something is so.
fn await_that(is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Trial<'_> {
    /// Runs it in a directory of its own, where the scripts run as well.
    fn run(self) -> Outcome {
        let dir = std::env::temp_dir().join(format!("pario-serve-{}-{}", std::process::id(), self.name));
        let path = dir.join("logs/log");
        let _ = std::fs::remove_dir_all(&dir);
        let log = open_log(&path).expect("a log");
        let mut start = start();
        start.description = start.description.with("supervise", self.supervise).expect("allowed");
        let count = AtomicU32::new(0);
        let spawn = || {
            let number = count.fetch_add(1, SeqCst) as usize;
            let mut shell = Command::new("sh");
            shell.args(["-c", self.scripts[number.min(self.scripts.len() - 1)]]).current_dir(&dir);
            shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
        };
        let said = SaidLines::default();
        let (sender, events) = channel();
        listen(Cursor::new(self.peers.as_bytes().to_vec()), sender.clone());
        if let Some(file) = self.signal_at.map(|name| -> PathBuf { dir.join(name) }) {
            let (sender, said) = (sender.clone(), said.clone());
            std::thread::spawn(move || {
                // The server makes the file before the supervisor has read that it serves.
                await_that(|| file.exists() && said.text().contains("serving"));
                sender.send(SupervisorEvent::Signal(signal_hook::consts::SIGTERM))
            });
        }
        let (times, told) = (self.times, VecDeque::new());
        let supervisor =
            Supervisor { start, log, times, spawn, supervision: None, events, sender, told, servers: 0 };
        let done = supervisor.run(&mut said.clone()).expect("no trouble");
        let log = std::fs::read_to_string(&path).expect("a log");
        let _ = std::fs::remove_dir_all(&dir);
        Outcome { done, said: said.text(), log, servers: count.into_inner() as usize }
    }
}

/// A server that serves, and then does this.
fn serving(then: &str) -> String {
    format!("read start; {READY}; read peers; {SERVING}; {then}")
}

#[test]
fn a_server_that_ends_well_is_the_end() {
    let outcome = Trial { name: "well", scripts: &[&serving("")], ..Trial::default() }.run();
    assert!(outcome.done);
    assert_eq!((outcome.said.lines().count(), outcome.log.as_str(), outcome.servers), (2, "", 1));
}

#[test]
fn a_server_that_dies_gets_a_successor_at_the_same_port() {
    // The successor is given port and peers at once, and ends well only if both are right.
    let second = format!(
        r#"read start; case "$start" in *'"port":4711'*) ;; *) exit 1;; esac
           {READY}; read peers; {SERVING}; test "$peers" = '{{"peers":[]}}'"#
    );
    let outcome =
        Trial { name: "dies", scripts: &[&serving("kill -9 $$"), &second], ..Trial::default() }.run();
    let log = outcome.log;
    assert!(outcome.done, "{log}");
    assert_eq!((outcome.said.lines().count(), outcome.servers), (2, 2));
    assert!(log.contains("the server died: signal: 9") && log.contains("started: process 1"), "{log}");
}

#[test]
fn a_passing_obstacle_to_a_start_is_outwaited() {
    let dies = serving("kill -9 $$");
    let scripts = [&dies, FAILED, "exit 1", FAILED, FAILED, FAILED, FAILED, &serving("")];
    let outcome = Trial { name: "passing", scripts: &scripts, ..Trial::default() }.run();
    assert!(outcome.done, "{}", outcome.log);
    assert_eq!(outcome.servers, scripts.len());
    // It is said once, however often it happens.
    assert_eq!(outcome.log.matches("the port is taken").count(), 2, "{}", outcome.log);
}

#[test]
fn a_supervisor_that_waits_for_a_start_ends_when_it_is_told_to() {
    let fails = format!("touch failing; {FAILED}");
    let scripts = [&serving("kill -9 $$")[..], &fails];
    let outcome =
        Trial { name: "waits", scripts: &scripts, signal_at: Some("failing"), ..Trial::default() }.run();
    assert!(!outcome.done);
    assert!(outcome.log.contains("told to end while no server ran"), "{}", outcome.log);
}

#[test]
fn a_server_that_keeps_dying_is_started_slowly_and_one_that_is_not_supervised_is_left() {
    let times = SupervisorTimes { slow: Duration::ZERO, ..Trial::default().times };
    let dies = serving("exit 7");
    let scripts = [&dies[..], &dies, &dies, &dies, &dies, &serving("")];
    let outcome = Trial { name: "keeps", scripts: &scripts, times, ..Trial::default() }.run();
    assert!(outcome.done, "{}", outcome.log);
    assert_eq!(outcome.servers, MOST_DEATHS + 1);
    assert_eq!(outcome.log.matches("it dies too often").count(), 1, "{}", outcome.log);
    let trial = Trial { name: "left", scripts: &[&dies], supervise: "false", ..Trial::default() };
    let outcome = trial.run();
    assert_eq!((outcome.done, outcome.servers), (false, 1));
}

#[test]
fn a_signal_is_passed_on_and_the_server_is_not_started_again() {
    for (name, code, done) in [("stored", 0, true), ("unsaved", 3, false), ("dies-of-it", 1, false)] {
        let waits = serving(&format!("trap 'exit {code}' TERM; touch serving; while :; do sleep 0.01; done"));
        let trial = Trial { name, scripts: &[&waits], signal_at: Some("serving"), ..Trial::default() };
        let outcome = trial.run();
        assert_eq!((outcome.done, outcome.servers), (done, 1), "{name}: {}", outcome.log);
        assert_eq!(outcome.log.contains("its pool has the rest"), !done, "{name}: {}", outcome.log);
    }
}

#[test]
fn a_server_without_a_sign_of_life_gets_a_successor() {
    let short = Duration::from_millis(50);
    let times = SupervisorTimes { beat: short, patience: short, ..Trial::default().times };
    let mute = serving("while read line; do :; done");
    // The second one is asked as well, and ends well only if it is.
    let second = format!(
        r#"read start; {READY}; read peers; {SERVING}; read line; test "$line" = '{{"ask":"alive"}}'"#
    );
    let outcome = Trial { name: "mute", scripts: &[&mute, &second], times, ..Trial::default() }.run();
    assert!(outcome.done, "{}", outcome.log);
    assert!(outcome.log.contains("gave no sign of life") && outcome.servers >= 2, "{}", outcome.log);
}

#[test]
fn a_server_that_cannot_start_says_so() {
    let outcome = Trial { name: "cannot", scripts: &[FAILED], peers: "", ..Trial::default() }.run();
    assert!(!outcome.done);
    assert_eq!(outcome.said, "{\"say\":\"failed\",\"why\":\"the port is taken\"}\n");
    let outcome = Trial { name: "at-once", scripts: &["exit 1"], peers: "", ..Trial::default() }.run();
    assert!(outcome.said.contains("the server died") && outcome.servers == 1, "{}", outcome.said);
}

#[test]
fn without_peers_there_is_no_server() {
    let script = format!("read start; {READY}; read peers || exit 0; {SERVING}; exec sleep 600");
    let outcome = Trial { name: "no-peers", scripts: &[&script], peers: "", ..Trial::default() }.run();
    assert_eq!((outcome.done, outcome.said.lines().count()), (false, 1));
}
