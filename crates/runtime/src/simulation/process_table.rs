//! The kernel's records of simulated processes: parents, arguments, standard streams, exit states, signals, and the pipes between them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;

use super::process::{SimulatedPid, TEST_DRIVER};
use super::scheduler::{self, Scheduler, Waiter, Wakeup};

/// The signal that ends a process at once.
const SIGKILL: i32 = 9;

/// Most bytes in a pipe.
const CAPACITY: usize = 64 << 10;

/// The main function of all programs that simulated processes start: it gets the words of the command line, and returns the exit code.
pub type Program = Rc<dyn Fn(&[String]) -> u8>;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It returned this code.
    Code(u8),
    /// A signal ended it.
    Signal(i32),
}

/// The number of a pipe.
pub(crate) type PipeNumber = usize;

/// The standard streams of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StandardStreams {
    pub input: Option<PipeNumber>,
    pub output: Option<PipeNumber>,
    pub error: Option<PipeNumber>,
}

#[derive(Default)]
pub(crate) struct ProcessTable {
    program: Option<Program>,
    records: BTreeMap<SimulatedPid, Record>,
    pipes: Vec<Pipe>,
    /// How many more scheduling points a process reaches before it is killed.
    pub planned_kills: BTreeMap<SimulatedPid, u64>,
}

struct Record {
    parent: SimulatedPid,
    words: Vec<String>,
    streams: StandardStreams,
    end: Option<ProcessEnd>,
    /// Threads that wait for its end.
    waiters: Vec<Waiter>,
    /// Whether it has handlers for the signals that ask it to end.
    catches_signals: bool,
    signals: VecDeque<i32>,
    signal_waiters: Vec<Waiter>,
}

/// A pipe. Each end is open as often as the list of its holders says.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    readers: Vec<SimulatedPid>,
    writers: Vec<SimulatedPid>,
    waiters: Vec<Waiter>,
}

/// An end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipeEnd {
    Read,
    Write,
}

impl Pipe {
    fn holders(&mut self, end: PipeEnd) -> &mut Vec<SimulatedPid> {
        match end {
            PipeEnd::Read => &mut self.readers,
            PipeEnd::Write => &mut self.writers,
        }
    }
}

impl ProcessTable {
    pub fn add(
        &mut self,
        process: SimulatedPid,
        parent: SimulatedPid,
        words: Vec<String>,
        streams: StandardStreams,
    ) {
        let ends = [
            (streams.input, PipeEnd::Read),
            (streams.output, PipeEnd::Write),
            (streams.error, PipeEnd::Write),
        ];
        for (pipe, end) in ends {
            if let Some(pipe) = pipe {
                self.pipes[pipe].holders(end).push(process);
            }
        }
        let record = Record {
            parent,
            words,
            streams,
            end: None,
            waiters: Vec::new(),
            catches_signals: false,
            signals: VecDeque::new(),
            signal_waiters: Vec::new(),
        };
        self.records.insert(process, record);
    }

    /// Closes everything that the process has open; the threads that have to be woken.
    pub fn process_ended(&mut self, process: SimulatedPid) -> Vec<Waiter> {
        let mut waiters = Vec::new();
        for pipe in &mut self.pipes {
            let held = pipe.readers.len() + pipe.writers.len();
            pipe.readers.retain(|holder| *holder != process);
            pipe.writers.retain(|holder| *holder != process);
            if pipe.readers.len() + pipe.writers.len() != held {
                waiters.append(&mut pipe.waiters);
            }
        }
        if let Some(record) = self.records.get_mut(&process) {
            record.end.get_or_insert(ProcessEnd::Signal(SIGKILL));
            waiters.append(&mut record.waiters);
        }
        waiters
    }
}

fn wake_all(scheduler: &mut Scheduler, waiters: Vec<Waiter>) {
    waiters.into_iter().for_each(|waiter| scheduler.wake(waiter, Wakeup::Notified));
}

/// Sets the main function of all programs.
pub fn set_program(program: impl Fn(&[String]) -> u8 + 'static) {
    scheduler::with(|scheduler| scheduler.table.program = Some(Rc::new(program)));
}

pub(crate) fn program() -> Program {
    scheduler::with(|scheduler| scheduler.table.program.clone()).expect("the simulation has set the programs")
}

/// The words of the command line of a process of this host that has not ended.
pub fn command_line(process: SimulatedPid) -> Vec<String> {
    scheduler::point();
    scheduler::with(|scheduler| {
        let host = scheduler.host(scheduler.owner());
        let record = scheduler.table.records.get(&process);
        let is_here = scheduler.is_alive(process) && scheduler.host(process) == host;
        record.filter(|_| is_here).map(|record| record.words.clone()).unwrap_or_default()
    })
}

/// The words of the command line of a process of any host.
pub fn words_of(process: SimulatedPid) -> Vec<String> {
    let words = |scheduler: &mut Scheduler| Some(scheduler.table.records.get(&process)?.words.clone());
    scheduler::with(words).unwrap_or_default()
}

/// The processes whose command lines satisfy a condition and that have not ended, in the order of their starts.
pub fn find_processes(is_wanted: impl Fn(&[String]) -> bool) -> Vec<SimulatedPid> {
    scheduler::with(|scheduler| {
        let alive = scheduler.table.records.iter().filter(|(pid, _)| scheduler.is_alive(**pid));
        alive.filter(|(_, record)| is_wanted(&record.words)).map(|(pid, _)| *pid).collect()
    })
}

/// The parent of the current process; the first process if the parent has ended.
pub fn parent() -> SimulatedPid {
    scheduler::with(|scheduler| {
        let parent = scheduler.table.records.get(&scheduler.owner()).map(|record| record.parent);
        parent.filter(|parent| scheduler.is_alive(*parent)).unwrap_or(TEST_DRIVER)
    })
}

/// The process that started another one, if it has not ended.
pub fn parent_of(process: SimulatedPid) -> Option<SimulatedPid> {
    scheduler::with(|scheduler| {
        let parent = scheduler.table.records.get(&process)?.parent;
        Some(parent).filter(|parent| *parent != TEST_DRIVER && scheduler.is_alive(*parent))
    })
}

pub(crate) fn standard_streams() -> StandardStreams {
    scheduler::with(|scheduler| {
        scheduler.table.records.get(&scheduler.owner()).map(|record| record.streams).unwrap_or_default()
    })
}

/// Notes how the current process ends. It ends afterwards.
pub(crate) fn note_end(end: ProcessEnd) {
    scheduler::with(|scheduler| {
        let owner = scheduler.owner();
        if let Some(record) = scheduler.table.records.get_mut(&owner) {
            record.end.get_or_insert(end);
        }
    });
}

/// How a process ended, if it has.
pub fn end_of(process: SimulatedPid) -> Option<ProcessEnd> {
    scheduler::with(|scheduler| {
        let end = scheduler.table.records.get(&process)?.end;
        end.filter(|_| !scheduler.is_alive(process))
    })
}

/// Waits for the end of a process.
pub fn wait_for_end(process: SimulatedPid) -> ProcessEnd {
    scheduler::point();
    loop {
        if let Some(end) = end_of(process) {
            return end;
        }
        let waiter = scheduler::waiter();
        scheduler::with(|scheduler| {
            let record = scheduler.table.records.get_mut(&process).expect("a process that was started");
            record.waiters.push(waiter);
        });
        scheduler::block(waiter, None);
    }
}

/// Sends a signal to a process of this host; `false` if there is none.
pub fn send_signal(process: SimulatedPid, signal: i32) -> bool {
    scheduler::point();
    let is_here = scheduler::with(|scheduler| {
        scheduler.is_alive(process) && scheduler.host(process) == scheduler.host(scheduler.owner())
    });
    is_here && deliver_signal(process, signal)
}

/// Sends a signal to a process of any host; `false` if there is none.
pub fn deliver_signal(process: SimulatedPid, signal: i32) -> bool {
    let is_fatal = scheduler::with(|scheduler| {
        let is_alive = scheduler.is_alive(process);
        let record = scheduler.table.records.get_mut(&process).filter(|_| is_alive)?;
        if signal == SIGKILL || !record.catches_signals {
            record.end.get_or_insert(ProcessEnd::Signal(signal));
            return Some(true);
        }
        record.signals.push_back(signal);
        let waiters = std::mem::take(&mut record.signal_waiters);
        wake_all(scheduler, waiters);
        Some(false)
    });
    if is_fatal == Some(true) {
        super::process::kill(process);
    }
    is_fatal.is_some()
}

/// From now on [`next_signal`] returns the signals that ask the current process to end.
pub fn catch_signals() {
    scheduler::with(|scheduler| {
        let owner = scheduler.owner();
        if let Some(record) = scheduler.table.records.get_mut(&owner) {
            record.catches_signals = true;
        }
    });
}

/// Waits for the next signal to the current process.
pub fn next_signal() -> i32 {
    loop {
        let waiter = scheduler::waiter();
        let signal = scheduler::with(|scheduler| {
            let owner = scheduler.owner();
            let record = scheduler.table.records.get_mut(&owner).expect("a process that was started");
            let signal = record.signals.pop_front();
            if signal.is_none() {
                record.signal_waiters.push(waiter);
            }
            signal
        });
        match signal {
            Some(signal) => return signal,
            None => drop(scheduler::block(waiter, None)),
        }
    }
}

/// Makes a pipe, of which the current process has an end.
pub(crate) fn make_pipe(own: PipeEnd) -> PipeNumber {
    scheduler::with(|scheduler| {
        let owner = scheduler.owner();
        let mut pipe = Pipe::default();
        pipe.holders(own).push(owner);
        scheduler.table.pipes.push(pipe);
        scheduler.table.pipes.len() - 1
    })
}

/// Closes an end of a pipe that the current process has open.
pub(crate) fn close_pipe(pipe: PipeNumber, end: PipeEnd) {
    scheduler::with(|scheduler| {
        let owner = scheduler.owner();
        let pipe = &mut scheduler.table.pipes[pipe];
        let holders = pipe.holders(end);
        if let Some(index) = holders.iter().position(|holder| *holder == owner) {
            holders.swap_remove(index);
        }
        let waiters = std::mem::take(&mut pipe.waiters);
        wake_all(scheduler, waiters);
    });
}

/// Reads from a pipe; waits until there is something, or no writer any more.
pub(crate) fn read_pipe(pipe: PipeNumber, bytes: &mut [u8]) -> usize {
    scheduler::point();
    loop {
        let waiter = scheduler::waiter();
        let count = scheduler::with(|scheduler| {
            let pipe = &mut scheduler.table.pipes[pipe];
            if pipe.bytes.is_empty() && !pipe.writers.is_empty() && !bytes.is_empty() {
                pipe.waiters.push(waiter);
                return None;
            }
            let count = pipe.bytes.len().min(bytes.len());
            for (to, from) in bytes.iter_mut().zip(pipe.bytes.drain(..count)) {
                *to = from;
            }
            let waiters = std::mem::take(&mut pipe.waiters);
            wake_all(scheduler, waiters);
            Some(count)
        });
        match count {
            Some(count) => return count,
            None => drop(scheduler::block(waiter, None)),
        }
    }
}

/// Writes to a pipe; waits for room.
pub(crate) fn write_pipe(pipe: PipeNumber, bytes: &[u8]) -> io::Result<usize> {
    scheduler::point();
    loop {
        let waiter = scheduler::waiter();
        let count = scheduler::with(|scheduler| {
            let pipe = &mut scheduler.table.pipes[pipe];
            if pipe.readers.is_empty() {
                return Some(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let count = bytes.len().min(CAPACITY - pipe.bytes.len());
            if count == 0 && !bytes.is_empty() {
                pipe.waiters.push(waiter);
                return None;
            }
            pipe.bytes.extend(&bytes[..count]);
            let waiters = std::mem::take(&mut pipe.waiters);
            wake_all(scheduler, waiters);
            Some(Ok(count))
        });
        match count {
            Some(count) => return count,
            None => drop(scheduler::block(waiter, None)),
        }
    }
}
