//! Runs one command to its end or to a deadline, and leaves nothing behind.
//!
//! Launchers put their ranks into process groups of their own, so killing the launcher's group is not
//! enough. Every process of a run therefore inherits a unique environment variable, and whatever still
//! carries it when the launcher has ended, or was ended at the deadline, is killed. Output goes to files, not pipes: a stray process that
//! keeps a pipe open could otherwise block the reader for ever.

use std::fs::{self, File};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::eventually;
use crate::files::scratch;

const MARK: &str = "PARIO_TEST_RUN";
const GRACE: Duration = Duration::from_secs(3);

/// The outcome of a command.
pub(crate) struct Finished {
    /// `None`: it was killed at the deadline.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
    /// Processes that outlived the command by the time of grace and were killed then.
    pub left: usize,
    /// From its start to its end.
    pub took: Duration,
}

/// Runs `command` with no input; kills it and all its descendants after `timeout`.
pub(crate) fn finish(command: Command, timeout: Duration) -> Finished {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    finish_marked(command, timeout, &mark)
}

fn finish_marked(mut command: Command, timeout: Duration, mark: &str) -> Finished {
    let logs = scratch();
    let open = |name: &str| File::create(logs.join(name)).expect("a scratch directory takes new files");
    command.env(MARK, mark);
    command.stdin(Stdio::null()).stdout(open("stdout")).stderr(open("stderr"));
    let start = Instant::now();
    let child = match command.spawn() {
        Ok(child) => child,
        Err(e) => panic!("cannot start {}: {e}", command.get_program().display()),
    };
    let status = wait(child, timeout);
    let took = start.elapsed();
    let left = if status.is_some() { outlived(mark) } else { 0 };
    clear(mark);
    let text = |name: &str| {
        let bytes = fs::read(logs.join(name)).expect("the log was created above");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Finished { status, stdout: text("stdout"), stderr: text("stderr"), left, took }
}

fn wait(mut child: Child, timeout: Duration) -> Option<ExitStatus> {
    let id = child.id();
    let (tell, ended) = channel();
    let waiter = std::thread::spawn(move || {
        let status = child.wait();
        // The receiver outlives this thread: it is joined below.
        let _ = tell.send(());
        status.expect("a child can be waited for")
    });
    let in_time = ended.recv_timeout(timeout).is_ok();
    if !in_time {
        // Asked first, so that a launcher can remove its own files.
        signal("TERM", &[id]);
        if ended.recv_timeout(GRACE).is_err() {
            signal("KILL", &[id]);
        }
    }
    let status = waiter.join().expect("waiting does not panic");
    in_time.then_some(status)
}

/// How many processes of a run are still there a while after its launcher, which may have just told them to
/// end.
fn outlived(mark: &str) -> usize {
    let mut left = 0;
    let _ = eventually(GRACE, || {
        left = marked(mark).len();
        left == 0
    });
    left
}

/// Kills the remaining processes of a run, and those that they fork meanwhile.
fn clear(mark: &str) {
    for _ in 0..1000 {
        let rest = marked(mark);
        if rest.is_empty() {
            return;
        }
        signal("KILL", &rest);
    }
}

fn signal(name: &str, processes: &[u32]) {
    if processes.is_empty() {
        return;
    }
    let mut kill = Command::new("kill");
    kill.args(["-s", name, "--"]).args(processes.iter().map(u32::to_string));
    // A process that has just ended by itself is no failure.
    let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// The processes whose environment carries this run's mark.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|id| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|&b| b == 0).any(|variable| variable == wanted.as_bytes())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hung_run_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; setsid sleep 600 & trap '' TERM; while :; do sleep 600; done"]);
        let finished = finish_marked(command, Duration::from_millis(300), "hung");
        assert!(finished.status.is_none());
        assert_eq!(finished.stdout, "begun\n");
        assert!(marked("hung").is_empty());
    }

    #[test]
    fn an_ending_run_reports_status_and_output() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let finished = finish(command, Duration::from_secs(60));
        assert_eq!(finished.status.and_then(|s| s.code()), Some(3));
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
    }
}
