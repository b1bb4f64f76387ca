//! Threads of simulated processes, with the interface of `std::thread`.

use std::cell::RefCell;
use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::Duration;

use super::process;
use super::scheduler::{self, Waiter};
pub use super::scope::{Scope, ScopedJoinHandle, scope};

/// The result of a thread, and who waits for it.
struct Packet<T> {
    value: RefCell<Option<T>>,
    is_finished: std::cell::Cell<bool>,
    waiting: RefCell<Vec<Waiter>>,
}

/// A thread that can be waited for.
pub struct JoinHandle<T>(Rc<Packet<T>>);

// SAFETY: all simulated threads run in one thread of the program.
unsafe impl<T> Send for JoinHandle<T> {}
// SAFETY: likewise.
unsafe impl<T> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        scheduler::point();
        self.0.is_finished.get()
    }

    /// Waits for the end of the thread.
    pub fn join(self) -> std::thread::Result<T> {
        self.wait();
        self.0.value.borrow_mut().take().ok_or_else(|| Box::new("the thread panicked") as _)
    }

    /// Waits for the end of the thread.
    fn wait(&self) {
        while !self.0.is_finished.get() {
            let waiter = scheduler::waiter();
            self.0.waiting.borrow_mut().push(waiter);
            scheduler::block(waiter, None);
        }
    }
}

/// Starts a thread of the current process. If it borrows something, the caller waits for its end before that is gone.
pub(super) fn start<'a, T: 'a>(name: String, body: Box<dyn FnOnce() -> T + 'a>) -> JoinHandle<T> {
    let packet =
        Rc::new(Packet { value: RefCell::new(None), is_finished: false.into(), waiting: RefCell::default() });
    let own = Rc::clone(&packet);
    let run: Box<dyn FnOnce() + 'a> = Box::new(move || {
        let value = body();
        *own.value.borrow_mut() = Some(value);
        own.is_finished.set(true);
        own.waiting.borrow_mut().drain(..).for_each(scheduler::wake);
    });
    // SAFETY: callers with borrowed values wait for the thread; a killed process runs none of its threads.
    let run: Box<dyn FnOnce() + 'static> = unsafe { std::mem::transmute(run) };
    scheduler::start_task(process::current_process(), name, run);
    scheduler::point();
    JoinHandle(packet)
}

/// Starts threads with names.
#[derive(Default)]
pub struct Builder {
    name: Option<String>,
}

impl Builder {
    /// A thread without a name so far.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names it.
    pub fn name(self, name: String) -> Builder {
        Builder { name: Some(name) }
    }

    /// Starts it.
    pub fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let name = self.name.unwrap_or_else(|| "thread".to_owned());
        Ok(start(name, Box::new(body)))
    }
}

/// Starts a thread. The body need not be [`Send`], because all simulated threads run in one thread of the program.
pub fn start_local<T: 'static>(name: &str, body: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    start(name.to_owned(), Box::new(body))
}

/// Starts a thread.
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(body).expect("simulated threads can always be started")
}

/// The number of processors of a simulated host.
pub fn available_parallelism() -> io::Result<NonZeroUsize> {
    Ok(NonZeroUsize::MIN)
}

/// Sleeps for some virtual time.
pub fn sleep(time: Duration) {
    scheduler::sleep(time);
}

/// Lets another thread go on.
pub fn yield_now() {
    scheduler::yield_now();
}
