//! The scheduler: threads are coroutines, of which one runs at a time.
//!
//! A thread runs until it blocks or reaches a [`point`] at which the scheduler takes the processor away. The next thread is chosen at
//! random among those that can go on. If none can, virtual time jumps to the next timer. All choices come from streams of random numbers that
//! a seed determines, so a seed determines a run.
//!
//! A process that is killed never runs again: its threads keep their stacks, no destructor runs, and the simulated kernel closes its
//! sockets, as a real kernel does. A run therefore leaks memory and takes place in a process of its own.

use std::cell::{Cell, UnsafeCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::clock::WallClocks;
use super::counts::Counts;
use super::file_system::FileSystems;
use super::invariants::{self, Depth, Invariants};
use super::limits::Limits;
use super::local::Locals;
use super::network::Network;
use super::process::{HostId, SimulatedPid, TEST_DRIVER};
use super::process_table::ProcessTable;
pub use super::run::{RunEnd, RunOptions, RunReport};
use super::stall::{self, Stalls};
use super::{planned_kill, random};

/// Bytes of a thread's stack.
const STACK: usize = 512 << 10;

/// The virtual time at which a run starts, in nanoseconds: some days after the boot.
const START: u64 = 3 * 86_400 * 1_000_000_000;

/// The most virtual time that a thread needs from one point to the next, in nanoseconds.
const LONGEST_POINT: u64 = 200;

/// The most virtual time that a change to another thread takes, in nanoseconds.
const LONGEST_STEP: u64 = 2_000;

/// Lines of the log that are kept for a report.
const LOG_LINES: usize = 4000;

/// A thread of a simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) usize);

/// Why a blocked thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    Notified,
    TimedOut,
}

/// One wait of a thread; later waits of the same thread have other numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    task: TaskId,
    wait: u64,
}

enum TaskState {
    Ready,
    Running,
    Blocked,
    Ended,
}

struct Task {
    process: SimulatedPid,
    name: String,
    state: TaskState,
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
    yielder: *const Yielder<(), ()>,
    /// The number of the current or last wait.
    wait: u64,
    wakeup: Wakeup,
    locals: Locals,
}

struct Process {
    host: HostId,
    name: String,
    is_alive: bool,
    is_stopped: bool,
    /// Threads that can go on when the process is continued.
    stopped: Vec<TaskId>,
}

pub(crate) struct Scheduler {
    options: RunOptions,
    /// Decides which thread goes on, and how long each step takes.
    random: fastrand::Rng,
    /// The kernel's random numbers.
    kernel_random: fastrand::Rng,
    now: u64,
    steps: u64,
    fingerprint: u64,
    tasks: Vec<Task>,
    ready: Vec<TaskId>,
    timers: BinaryHeap<Reverse<(u64, u64, usize, u64)>>,
    timer_count: u64,
    running: Option<TaskId>,
    processes: Vec<Process>,
    log: VecDeque<String>,
    panic: Option<String>,
    pub counts: Counts,
    pub limits: Limits,
    pub wall_clocks: WallClocks,
    pub network: Network,
    pub table: ProcessTable,
    /// Threads that wait for words in shared memory.
    pub futexes: Vec<Waiter>,
    pub stalls: Stalls,
    pub files: FileSystems,
    pub invariants: Invariants,
    /// How often each host was started.
    boots: BTreeMap<HostId, u64>,
}

struct Global(UnsafeCell<Option<Scheduler>>);

// SAFETY: only one thread of the program ever runs a simulation (`run` says so and checks it).
unsafe impl Sync for Global {}

static GLOBAL: Global = Global(UnsafeCell::new(None));

thread_local! {
    static IS_SIMULATING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread runs a simulation.
pub fn is_active() -> bool {
    IS_SIMULATING.get()
}

/// Uses the scheduler. `act` must not switch to another thread.
pub(crate) fn with<T>(act: impl FnOnce(&mut Scheduler) -> T) -> T {
    assert!(is_active(), "simulated threads run within a simulation only");
    // SAFETY: this thread alone uses it, and no caller keeps the reference while another thread of the simulation runs, because `act`
    // does not switch.
    let scheduler = unsafe { &mut *GLOBAL.0.get() };
    act(scheduler.as_mut().expect("a simulation runs"))
}

/// Runs `driver` as the first thread, with all that it starts, until it returns. One run per program: a run leaks memory.
pub fn run(options: RunOptions, driver: impl FnOnce() + 'static) -> RunReport {
    assert!(!is_active(), "one simulation at a time");
    let scheduler = Scheduler {
        options,
        random: random::stream(options.seed, "schedule", options.schedule),
        kernel_random: random::stream(options.seed, "kernel", 0),
        now: START,
        steps: 0,
        fingerprint: 0,
        tasks: Vec::new(),
        ready: Vec::new(),
        timers: BinaryHeap::new(),
        timer_count: 0,
        running: None,
        processes: Vec::new(),
        log: VecDeque::new(),
        panic: None,
        counts: Counts::new(),
        limits: Limits::new(options.seed),
        wall_clocks: WallClocks::default(),
        network: Network::new(options.seed),
        table: ProcessTable::default(),
        futexes: Vec::new(),
        stalls: Stalls::default(),
        files: FileSystems::default(),
        invariants: Invariants::default(),
        boots: BTreeMap::new(),
    };
    // SAFETY: no simulation runs, so nothing refers to the old one.
    unsafe { *GLOBAL.0.get() = Some(scheduler) };
    IS_SIMULATING.set(true);
    let process = with(|scheduler| scheduler.add_process(HostId(0), "test driver"));
    assert_eq!(process, TEST_DRIVER);
    let first = start_task(process, "main".into(), Box::new(driver));
    let end = run_until_ended(first);
    let report = with(|scheduler| RunReport {
        end,
        steps: scheduler.steps,
        elapsed: Duration::from_nanos(scheduler.now - START),
        fingerprint: scheduler.fingerprint,
        counts: std::mem::take(&mut scheduler.counts),
        log: scheduler.log.iter().cloned().collect(),
        blocked: scheduler.describe_blocked(),
    });
    IS_SIMULATING.set(false);
    report
}

fn run_until_ended(first: TaskId) -> RunEnd {
    loop {
        if let Some(panic) = with(|scheduler| scheduler.panic.take()) {
            return RunEnd::Panicked(panic);
        }
        if with(|scheduler| scheduler.invariants.is_due(scheduler.steps)) {
            invariants::check(Depth::Quick);
        }
        if let Some(violation) = with(|scheduler| scheduler.invariants.violation().cloned()) {
            return RunEnd::Violated(violation);
        }
        if with(|scheduler| matches!(scheduler.tasks[first.0].state, TaskState::Ended)) {
            return RunEnd::Done;
        }
        if with(|scheduler| scheduler.steps >= scheduler.options.most_steps) {
            return RunEnd::TooManySteps;
        }
        let Some(task) = with(Scheduler::choose) else {
            return RunEnd::Deadlock(with(|scheduler| scheduler.describe_blocked()));
        };
        resume(task);
    }
}

fn resume(task: TaskId) {
    let mut coroutine = with(|scheduler| {
        let task = &mut scheduler.tasks[task.0];
        task.state = TaskState::Running;
        task.coroutine.take().expect("a thread that can go on")
    });
    let result = coroutine.resume(());
    with(|scheduler| {
        scheduler.running = None;
        let is_alive = scheduler.is_alive(scheduler.tasks[task.0].process);
        match result {
            CoroutineResult::Return(()) => scheduler.tasks[task.0].state = TaskState::Ended,
            CoroutineResult::Yield(()) if is_alive => scheduler.tasks[task.0].coroutine = Some(coroutine),
            // Its stack must not be unwound: a killed process runs no destructors.
            CoroutineResult::Yield(()) => std::mem::forget(coroutine),
        }
    });
}

/// Starts a thread.
pub(crate) fn start_task(process: SimulatedPid, name: String, body: Box<dyn FnOnce()>) -> TaskId {
    let task = with(|scheduler| {
        let task = TaskId(scheduler.tasks.len());
        scheduler.tasks.push(Task {
            process,
            name,
            state: TaskState::Ready,
            coroutine: None,
            yielder: std::ptr::null(),
            wait: 0,
            wakeup: Wakeup::Notified,
            locals: Locals::new(),
        });
        task
    });
    let stack = DefaultStack::new(STACK).expect("memory for a stack");
    let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
        with(|scheduler| scheduler.tasks[task.0].yielder = yielder);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            with(|scheduler| {
                let name = scheduler.task_name(task);
                scheduler.panic = Some(format!("{name}: {}", text.unwrap_or_else(|| "a panic".to_owned())));
            });
        }
    });
    with(|scheduler| {
        scheduler.tasks[task.0].coroutine = Some(coroutine);
        scheduler.make_ready(task);
    });
    task
}

/// Gives the processor back to the scheduler.
pub(super) fn switch() {
    let yielder = with(|scheduler| scheduler.tasks[scheduler.current().0].yielder);
    // SAFETY: it lives on the stack of the running coroutine, which set it when it started.
    unsafe { (*yielder).suspend(()) };
}

/// A place where another thread may go on.
#[track_caller]
pub fn point() {
    if is_active() && with(Scheduler::takes_turn) {
        yield_now();
    }
    planned_kill::count_point();
    stall::pause_at(std::panic::Location::caller());
}

/// Lets another thread go on.
pub fn yield_now() {
    with(|scheduler| {
        let task = scheduler.current();
        scheduler.make_ready(task);
    });
    switch();
}

/// The current thread's next wait. The thread passes the waiter to those that will wake it before it [blocks](block).
pub(crate) fn waiter() -> Waiter {
    with(|scheduler| {
        let id = scheduler.current();
        let task = &mut scheduler.tasks[id.0];
        task.wait += 1;
        Waiter { task: id, wait: task.wait }
    })
}

/// Blocks until the waiter is woken, or until a virtual time.
pub(crate) fn block(waiter: Waiter, deadline: Option<u64>) -> Wakeup {
    with(|scheduler| {
        assert_eq!(scheduler.current(), waiter.task, "a thread waits for itself");
        scheduler.tasks[waiter.task.0].state = TaskState::Blocked;
        if let Some(deadline) = deadline {
            scheduler.set_timer(deadline, waiter);
        }
    });
    switch();
    with(|scheduler| scheduler.tasks[waiter.task.0].wakeup)
}

/// Wakes a thread, if it still is in that wait.
pub(crate) fn wake(waiter: Waiter) {
    with(|scheduler| scheduler.wake(waiter, Wakeup::Notified));
}

/// Sleeps for some virtual time.
pub fn sleep(time: Duration) {
    let deadline = now().saturating_add(nanos(time));
    let waiter = waiter();
    block(waiter, Some(deadline));
}

/// The virtual time, in nanoseconds.
pub fn now() -> u64 {
    with(|scheduler| scheduler.now)
}

/// A duration in nanoseconds, at most some centuries.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// A random number below `end`, from the stream that decides which thread goes on.
pub(crate) fn random_below(end: u64) -> u64 {
    with(|scheduler| scheduler.random.u64(0..end.max(1)))
}

/// Random bytes.
pub fn fill_random(bytes: &mut [u8]) {
    with(|scheduler| scheduler.kernel_random.fill(bytes));
}

/// Adds a line to the log of the run.
pub fn log(line: impl AsRef<str>) {
    with(|scheduler| scheduler.log(line.as_ref()));
}

impl Scheduler {
    pub fn locals(&mut self) -> &mut Locals {
        let task = self.current();
        &mut self.tasks[task.0].locals
    }

    pub fn current(&self) -> TaskId {
        self.running.expect("called by a simulated thread")
    }

    pub fn add_process(&mut self, host: HostId, name: &str) -> SimulatedPid {
        let process =
            Process { host, name: name.to_owned(), is_alive: true, is_stopped: false, stopped: Vec::new() };
        self.processes.push(process);
        SimulatedPid(self.processes.len() as u32)
    }

    fn process(&mut self, process: SimulatedPid) -> &mut Process {
        &mut self.processes[process.0 as usize - 1]
    }

    pub fn is_alive(&self, process: SimulatedPid) -> bool {
        let index = (process.0 as usize).wrapping_sub(1);
        self.processes.get(index).is_some_and(|process| process.is_alive)
    }

    /// Whether some thread of the process has not ended.
    pub fn has_threads(&self, process: SimulatedPid) -> bool {
        let is_running = |task: &Task| task.process == process && !matches!(task.state, TaskState::Ended);
        self.is_alive(process) && self.tasks.iter().any(is_running)
    }

    /// How often a host was started.
    pub fn boots_of(&self, host: HostId) -> u64 {
        self.boots.get(&host).copied().unwrap_or(1)
    }

    /// Starts a host once more; returns the processes that its last start still has.
    pub fn count_boot(&mut self, host: HostId) -> Vec<SimulatedPid> {
        *self.boots.entry(host).or_insert(1) += 1;
        let processes = (1..).map(SimulatedPid).zip(&self.processes);
        let is_left = |process: &Process| process.host == host && process.is_alive;
        processes
            .filter(|(pid, process)| is_left(process) && *pid != TEST_DRIVER)
            .map(|(pid, _)| pid)
            .collect()
    }

    pub fn host(&self, process: SimulatedPid) -> HostId {
        self.processes[process.0 as usize - 1].host
    }

    pub fn running_host(&self) -> Option<HostId> {
        self.running.map(|_| self.host(self.owner()))
    }

    pub fn owner(&self) -> SimulatedPid {
        self.tasks[self.current().0].process
    }

    pub fn process_name(&self, process: SimulatedPid) -> &str {
        &self.processes[process.0 as usize - 1].name
    }

    /// The name of the running thread.
    pub fn thread_name(&self) -> &str {
        &self.tasks[self.current().0].name
    }

    fn task_name(&self, task: TaskId) -> String {
        let task = &self.tasks[task.0];
        let process = &self.processes[task.process.0 as usize - 1];
        format!("{}[{}] {}", process.name, task.process.0, task.name)
    }

    pub fn seed(&self) -> u64 {
        self.options.seed
    }

    pub fn time(&self) -> u64 {
        self.now
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether another thread goes on at a point.
    fn takes_turn(&mut self) -> bool {
        self.steps += 1;
        self.now += self.random.u64(1..=LONGEST_POINT);
        self.running.is_some() && self.random.u32(0..self.options.switch_one_in.max(1)) == 0
    }

    fn make_ready(&mut self, task: TaskId) {
        self.tasks[task.0].state = TaskState::Ready;
        let process = self.tasks[task.0].process;
        if self.process(process).is_stopped {
            self.process(process).stopped.push(task);
        } else {
            self.ready.push(task);
        }
    }

    /// The thread that goes on next.
    fn choose(&mut self) -> Option<TaskId> {
        loop {
            self.now += self.random.u64(1..=LONGEST_STEP);
            self.fire_timers();
            if !self.ready.is_empty() {
                break;
            }
            let Reverse((next, ..)) = self.timers.peek()?;
            self.now = self.now.max(*next);
        }
        let index = self.random.usize(0..self.ready.len());
        let task = self.ready.swap_remove(index);
        self.steps += 1;
        self.mix(task.0 as u64);
        self.mix(self.now);
        self.running = Some(task);
        Some(task)
    }

    fn fire_timers(&mut self) {
        while let Some(Reverse((time, _, task, wait))) = self.timers.peek().copied() {
            if time > self.now {
                return;
            }
            self.timers.pop();
            self.wake(Waiter { task: TaskId(task), wait }, Wakeup::TimedOut);
        }
    }

    pub fn set_timer(&mut self, time: u64, waiter: Waiter) {
        self.timer_count += 1;
        self.timers.push(Reverse((time, self.timer_count, waiter.task.0, waiter.wait)));
    }

    pub fn wake(&mut self, waiter: Waiter, wakeup: Wakeup) {
        let task = &mut self.tasks[waiter.task.0];
        if task.wait == waiter.wait && matches!(task.state, TaskState::Blocked) {
            task.wakeup = wakeup;
            self.make_ready(waiter.task);
        }
    }

    pub fn kill(&mut self, process: SimulatedPid) {
        if !self.is_alive(process) {
            return;
        }
        self.process(process).is_alive = false;
        self.process(process).stopped.clear();
        let tasks = &mut self.tasks;
        self.ready.retain(|task| tasks[task.0].process != process);
        for task in tasks.iter_mut().filter(|task| task.process == process) {
            task.state = TaskState::Ended;
            // Its stack must not be unwound: a killed process runs no destructors.
            std::mem::forget(task.coroutine.take());
            std::mem::forget(std::mem::take(&mut task.locals));
        }
        let mut waiters = self.network.process_ended(process);
        waiters.append(&mut self.table.process_ended(process));
        for waiter in waiters {
            self.wake(waiter, Wakeup::Notified);
        }
        let name = self.processes[process.0 as usize - 1].name.clone();
        self.log(&format!("{name}[{}] ends", process.0));
    }

    pub fn stop(&mut self, process: SimulatedPid) {
        let tasks = &self.tasks;
        let (stopped, ready) =
            self.ready.drain(..).partition(|task: &TaskId| tasks[task.0].process == process);
        self.ready = ready;
        let process = self.process(process);
        process.is_stopped = true;
        process.stopped.extend::<Vec<TaskId>>(stopped);
    }

    pub fn resume(&mut self, process: SimulatedPid) {
        let process = self.process(process);
        process.is_stopped = false;
        let tasks = std::mem::take(&mut process.stopped);
        self.ready.extend(tasks);
    }

    fn describe_blocked(&self) -> Vec<String> {
        let is_blocked = |index: &usize| matches!(self.tasks[*index].state, TaskState::Blocked);
        (0..self.tasks.len()).filter(is_blocked).map(|index| self.task_name(TaskId(index))).collect()
    }

    fn mix(&mut self, value: u64) {
        self.fingerprint = (self.fingerprint ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    pub fn log(&mut self, line: &str) {
        let seconds = Duration::from_nanos(self.now - START).as_secs_f64();
        let name = self.running.map(|task| self.task_name(task)).unwrap_or_default();
        let line = format!("{seconds:.9} {name}: {line}");
        line.bytes().for_each(|byte| self.mix(byte.into()));
        if self.options.verbose {
            let _ = writeln!(std::io::stdout(), "{line}");
        }
        if self.log.len() == LOG_LINES {
            self.log.pop_front();
        }
        self.log.push_back(line);
    }
}
