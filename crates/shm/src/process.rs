//! A process of this machine, told apart from a later one of the same number.
//!
//! A process that counts as gone loses what it has pinned, so only proof is believed: the kernel knows no process of that
//! number (`ESRCH`), or shows one that started at another time or has ended. Whoever may not look (no descriptor left,
//! processes of others hidden, another namespace) has no proof. `ESRCH` needs no descriptor.

/// A process, by its number and the time at which it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in the kernel's ticks since the machine did.
    pub start: u64,
}

use crate::is_alive;

/// What `/proc/<pid>/stat` tells.
struct Stat {
    state: char,
    threads: u64,
    start: u64,
}

impl Process {
    /// The process that has this number now; `None` if there is none, if it has ended, or if it is not to be
    /// seen from here.
    pub fn of(pid: u32) -> Option<Process> {
        let stat = read(pid).filter(|stat| !stat.is_over())?;
        Some(Process { pid, start: stat.start })
    }

    /// Whether it is proved to have ended: it touches no memory any more. Somebody may still have to wait for it. The proof
    /// holds where it was found, in one [`Origin`](crate::Origin).
    pub fn is_gone(&self) -> bool {
        !is_alive(self.pid) || read(self.pid).is_some_and(|stat| stat.start != self.start || stat.is_over())
    }
}

impl Stat {
    /// A leader that has ended is a zombie also while other threads go on.
    fn is_over(&self) -> bool {
        matches!(self.state, 'X' | 'x') || self.state == 'Z' && self.threads <= 1
    }
}

fn read(pid: u32) -> Option<Stat> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may hold anything, so the fields count from the last parenthesis: the state is the
/// 3rd of all, threads the 20th, the start the 22nd.
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

    /// What a start of this program is told to do without descriptors: to look at this process.
    const LOOK_AT: &str = "PARIO_SHM_TEST_LOOK_AT";

    #[test]
    fn child_without_descriptors() {
        let Ok(text) = std::env::var(LOOK_AT) else { return };
        let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        let process = Process { pid: numbers[0] as u32, start: numbers[1] };
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 4096 };
        // SAFETY: the structure outlives the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) }, 0);
        assert!(std::fs::File::open("/proc/self/stat").is_err(), "no descriptor is left");
        assert!(!process.is_gone(), "not to be seen is no proof");
        assert!(!Process { start: process.start + 1, ..process }.is_gone(), "nor can this be told");
        // Beyond the largest number that the kernel gives.
        assert!(Process { pid: (1 << 22) + 1, start: 1 }.is_gone(), "this needs no descriptor");
    }

    #[test]
    fn a_process_that_cannot_be_seen_counts_as_alive() {
        let me = Process::of(std::process::id()).unwrap();
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::tests::child_without_descriptors", "--nocapture"])
            .env(LOOK_AT, format!("{} {}", me.pid, me.start))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn we_are_here_and_a_killed_child_is_gone_before_it_is_waited_for() {
        let me = Process::of(std::process::id()).unwrap();
        assert!(!me.is_gone());
        assert!(Process { start: me.start + 1, ..me }.is_gone(), "another of the same number");
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(!process.is_gone());
        child.kill().unwrap();
        while !process.is_gone() {
            std::thread::yield_now();
        }
        assert!(Process::of(child.id()).is_none());
        child.wait().unwrap();
        assert!(process.is_gone());
    }
}
