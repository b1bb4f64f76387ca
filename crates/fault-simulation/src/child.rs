//! Child processes, in each of which one history runs.
//!
//! A child reports into a file in memory that it shares with its parent. A child that uses too much processor time, or that blocks outside of
//! the simulation, is ended by the kernel; that is a failure of its history.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::rc::Rc;
use std::sync::Mutex;

use pario_runtime::simulation::counts::Counts;
use pario_runtime::simulation::planted;
use pario_runtime::simulation::scheduler::{self, RunEnd, RunOptions};

use crate::history;
use crate::plan::Plan;

/// Most steps of a history.
const MOST_STEPS: u64 = 20_000_000;

/// A child blocks outside of the simulation if it runs for so many times its processor time.
const WALL_PER_PROCESSOR: u64 = 20;

/// Stands for an end of line within the first line of a report.
const LINE_END: &str = "\u{1f}";

/// A history that is to run.
#[derive(Clone)]
pub struct Job {
    pub plan: Plan,
    /// The planted bug.
    pub bug: Option<String>,
    /// Whether the log is printed while the history runs.
    pub log: bool,
    /// Most seconds of processor time.
    pub deadline: u64,
}

/// The result of a history.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The reason why the history is wrong.
    pub violation: Option<String>,
    /// The log and the threads that waited at its end, if it is wrong.
    pub log: String,
    pub fingerprint: u64,
    pub counts: Counts,
}

/// Histories that run at the same time. They end with the pool.
#[derive(Default)]
pub struct Pool {
    running: BTreeMap<libc::pid_t, (Job, File)>,
}

impl Pool {
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Starts a history.
    pub fn start(&mut self, job: Job) -> Result<(), String> {
        // SAFETY: the name is a C string; the descriptor is new and ours.
        let file = unsafe {
            let descriptor = libc::memfd_create(c"report".as_ptr(), libc::MFD_CLOEXEC);
            if descriptor < 0 {
                return Err(format!("memory for a report: {}", std::io::Error::last_os_error()));
            }
            File::from_raw_fd(descriptor)
        };
        // SAFETY: this process has one thread, so the child may do anything.
        match unsafe { libc::fork() } {
            -1 => Err(format!("fork: {}", std::io::Error::last_os_error())),
            0 => {
                run_child(&job, &file);
                #[cfg(pario_coverage)]
                write_profile();
                // SAFETY: ends the child without destructors: the simulation has leaked what they would need.
                unsafe { libc::_exit(0) }
            }
            child => {
                self.running.insert(child, (job, file));
                Ok(())
            }
        }
    }

    /// Waits for the end of any history.
    pub fn wait(&mut self) -> (Job, Report) {
        loop {
            let mut status = 0;
            // SAFETY: the pointer is to a local.
            let child = unsafe { libc::waitpid(-1, &mut status, 0) };
            let Some((job, file)) = self.running.remove(&child) else { continue };
            let report = read_report(file, status, job.deadline);
            return (job, report);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for child in self.running.keys() {
            // SAFETY: no memory involved; the child is ours and has not been waited for.
            unsafe {
                libc::kill(*child, libc::SIGKILL);
                libc::waitpid(*child, std::ptr::null_mut(), 0);
            }
        }
    }
}

/// Adds the counters of this process to the profile, as `exit` would.
#[cfg(pario_coverage)]
fn write_profile() {
    unsafe extern "C" {
        fn __llvm_profile_write_file() -> libc::c_int;
    }
    // SAFETY: a function of the runtime of profiles, which is linked; no other thread runs.
    let failed = unsafe { __llvm_profile_write_file() } != 0;
    assert!(!failed, "the profile cannot be written");
}

/// The place of the first panic.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

fn run_child(job: &Job, file: &File) {
    limit_time(job.deadline);
    if !job.log {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
            if let Ok(mut first) = PANIC.lock() {
                first.get_or_insert(place.unwrap_or_default());
            }
        }));
    }
    if let Some(bug) = &job.bug {
        planted::plant(bug);
    }
    write_report(file, &run_history(&job.plan, job.log));
}

/// The kernel ends this process after too much processor time, or after a much longer time in which it does not get on.
fn limit_time(seconds: u64) {
    let limit = libc::rlimit { rlim_cur: seconds, rlim_max: seconds };
    let wall = u32::try_from(seconds.saturating_mul(WALL_PER_PROCESSOR)).unwrap_or(u32::MAX);
    // SAFETY: the pointer is to a local.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CPU, &limit);
        libc::alarm(wall);
    }
}

fn run_history(plan: &Plan, verbose: bool) -> Report {
    let options = RunOptions {
        seed: plan.seed,
        schedule: plan.schedule,
        switch_one_in: plan.switch_one_in,
        most_steps: MOST_STEPS,
        verbose,
    };
    let verdict = Rc::new(RefCell::new(Err("the test driver did not return".to_owned())));
    let (result, own) = (Rc::clone(&verdict), plan.clone());
    let report = scheduler::run(options, move || *result.borrow_mut() = history::run(&own));
    let verdict = verdict.borrow().clone();
    let violation = match (&report.end, &verdict) {
        (RunEnd::Done, Ok(_)) => None,
        (RunEnd::Done, Err(why)) => Some(why.clone()),
        (RunEnd::Panicked(what), _) => {
            let place = PANIC.lock().ok().and_then(|place| place.clone());
            Some(format!("panic of {what}{}", place.unwrap_or_default()))
        }
        (RunEnd::Violated(what), _) => Some(format!("an invariant does not hold: {what}")),
        (RunEnd::Deadlock(_), _) => Some("deadlock: no thread can ever go on".to_owned()),
        (RunEnd::TooManySteps, _) => Some(format!("the history does not end within {MOST_STEPS} steps")),
    };
    let mut counts = report.counts;
    counts.insert("steps".into(), report.steps);
    counts.insert("bytes compared".into(), verdict.unwrap_or(0));
    counts.insert("virtual milliseconds".into(), report.elapsed.as_millis() as u64);
    let log = match violation {
        Some(_) => format!("{}\nthreads that wait: {}", report.log.join("\n"), report.blocked.join(", ")),
        None => String::new(),
    };
    Report { violation, log, fingerprint: report.fingerprint, counts }
}

/// Writes the fingerprint, a line for each counter, an empty line, the violation in one line, and the log.
fn write_report(mut file: &File, report: &Report) {
    let mut text = format!("{}\n", report.fingerprint);
    report.counts.iter().for_each(|(name, count)| text.push_str(&format!("{count} {name}\n")));
    let violation = report.violation.as_deref().unwrap_or_default().replace('\n', LINE_END);
    text.push_str(&format!("\n{violation}\n{}", report.log));
    file.write_all(text.as_bytes()).expect("room for a report");
}

fn read_report(mut file: File, status: i32, deadline: u64) -> Report {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let parsed = read.ok().and_then(|_| parse_report(&text)).filter(|_| status == 0);
    parsed.unwrap_or_else(|| {
        let why = match libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)) {
            Some(libc::SIGXCPU | libc::SIGKILL) => format!(
                "the history needed more than {deadline} s of processor time, perhaps in a loop without a scheduling point"
            ),
            Some(libc::SIGALRM) => "the process of the history blocked outside of the simulation".to_owned(),
            Some(signal) => format!("the process of the history was ended by signal {signal}"),
            None => format!("the process of the history ended with status {status:#x}"),
        };
        Report { violation: Some(why), ..Report::default() }
    })
}

fn parse_report(text: &str) -> Option<Report> {
    let (head, tail) = text.split_once("\n\n")?;
    let (fingerprint, counts) = head.split_once('\n')?;
    let counts = counts.lines().map(|line| {
        let (count, name) = line.split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    });
    let (violation, log) = tail.split_once('\n')?;
    Some(Report {
        violation: Some(violation.replace(LINE_END, "\n")).filter(|text| !text.is_empty()),
        log: log.to_owned(),
        fingerprint: fingerprint.parse().ok()?,
        counts: counts.collect::<Option<Counts>>()?,
    })
}

/// Whether standard error is a terminal, so that progress is shown.
pub fn is_terminal() -> bool {
    // SAFETY: no memory involved.
    unsafe { libc::isatty(std::io::stderr().as_raw_fd()) == 1 }
}
