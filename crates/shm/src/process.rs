//! A process of this machine, distinguished from a later process with the same number.
//!
//! A process that counts as gone loses its pins, so only proof counts: the kernel has no process with that
//! number (`ESRCH`), or shows one that started at another time or has ended. A caller that cannot check (no
//! free descriptor, hidden processes, another namespace) has no proof. `ESRCH` needs no descriptor.

/// A process, identified by its number and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// The process number.
    pub pid: u32,
    /// The start time, in clock ticks of the kernel since boot.
    pub start: u64,
}

/// Whether a process with this number exists. It may be a zombie.
pub fn is_alive(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: signal 0 sends nothing; no memory involved.
    unsafe { libc::kill(pid, 0) == 0 || *libc::__errno_location() != libc::ESRCH }
}

/// The used fields of `/proc/<pid>/stat`.
struct Stat {
    state: char,
    threads: u64,
    start: u64,
}

impl ProcessIdentity {
    /// The running process with this number. `None` if there is none, if it has ended, or if it is not
    /// visible from here.
    pub fn of(pid: u32) -> Option<ProcessIdentity> {
        let stat = read(pid).filter(|stat| !stat.has_ended())?;
        Some(ProcessIdentity { pid, start: stat.start })
    }

    /// Whether the process has provably ended, so that it accesses no memory any more. Its parent may still
    /// have to wait for it. The proof is valid within one [`PidScope`](crate::PidScope).
    pub fn is_gone(&self) -> bool {
        !is_alive(self.pid) || read(self.pid).is_some_and(|stat| stat.start != self.start || stat.has_ended())
    }
}

impl Stat {
    /// A thread group leader that has ended is a zombie while other threads run.
    fn has_ended(&self) -> bool {
        matches!(self.state, 'X' | 'x') || self.state == 'Z' && self.threads <= 1
    }
}

fn read(pid: u32) -> Option<Stat> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may contain any character, so fields count from the last parenthesis. The state
/// is field 3 of all, threads field 20, the start time field 22.
fn parse(text: &str) -> Option<Stat> {
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let threads = fields.nth(16)?.parse().ok()?;
    let start = fields.nth(1)?.parse().ok()?;
    Some(Stat { state, threads, start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        let text = "12 (a) b) (c) S 1 12 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 98765 1 2";
        let stat = parse(text).unwrap();
        assert_eq!((stat.state, stat.threads, stat.start), ('S', 3, 98_765));
        assert!(parse("12 (a").is_none());
        assert!(parse("").is_none());
    }

    /// The environment variable that makes a child process check this process without free descriptors.
    const LOOK_AT: &str = "PARIO_SHM_TEST_LOOK_AT";

    /// The work of that process.
    fn check_without_descriptors(text: &str) {
        let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        let process = ProcessIdentity { pid: numbers[0] as u32, start: numbers[1] };
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 4096 };
        // SAFETY: the structure outlives the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) }, 0);
        assert!(std::fs::File::open("/proc/self/stat").is_err(), "no descriptor is left");
        assert!(!process.is_gone(), "not to be seen is no proof");
        assert!(!ProcessIdentity { start: process.start + 1, ..process }.is_gone(), "nor can this be told");
        // Beyond the largest process number.
        assert!(ProcessIdentity { pid: (1 << 22) + 1, start: 1 }.is_gone(), "this needs no descriptor");
    }

    #[test]
    fn a_process_that_cannot_be_seen_counts_as_alive() {
        if let Ok(text) = std::env::var(LOOK_AT) {
            return check_without_descriptors(&text);
        }
        let me = ProcessIdentity::of(std::process::id()).unwrap();
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::tests::a_process_that_cannot_be_seen_counts_as_alive", "--nocapture"])
            .env(LOOK_AT, format!("{} {}", me.pid, me.start))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn we_are_here_and_a_killed_child_is_gone_before_it_is_waited_for() {
        let me = ProcessIdentity::of(std::process::id()).unwrap();
        assert!(!me.is_gone());
        assert!(ProcessIdentity { start: me.start + 1, ..me }.is_gone(), "another of the same number");
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let process = ProcessIdentity::of(child.id()).unwrap();
        assert!(!process.is_gone());
        child.kill().unwrap();
        while !process.is_gone() {
            std::thread::yield_now();
        }
        assert!(ProcessIdentity::of(child.id()).is_none());
        child.wait().unwrap();
        assert!(process.is_gone());
    }
}
