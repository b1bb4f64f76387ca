//! Threads that borrow from the function that starts them, with the interface of `std::thread::scope`.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use super::scheduler::{self, Waiter};
use super::thread::{self, JoinHandle};

/// A scope that waits for its threads.
pub struct Scope<'scope, 'env: 'scope> {
    /// Threads that have not ended.
    running: Cell<usize>,
    waiting: RefCell<Vec<Waiter>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

// SAFETY: all simulated threads run in one thread of the program.
unsafe impl Sync for Scope<'_, '_> {}
// SAFETY: likewise.
unsafe impl Send for Scope<'_, '_> {}

/// A thread of a scope that can be waited for.
pub struct ScopedJoinHandle<'scope, T>(JoinHandle<T>, PhantomData<&'scope ()>);

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the end of the thread.
    pub fn join(self) -> std::thread::Result<T> {
        self.0.join()
    }
}

/// Calls a function with a scope for threads, and waits for all of them.
pub fn scope<'env, T>(act: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let scope =
        Scope { running: Cell::new(0), waiting: RefCell::default(), scope: PhantomData, env: PhantomData };
    let value = act(&scope);
    // A panic of any simulated thread ends the run, so no thread outlives this function.
    while scope.running.get() > 0 {
        let waiter = scheduler::waiter();
        scope.waiting.borrow_mut().push(waiter);
        scheduler::block(waiter, None);
    }
    value
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread.
    pub fn spawn<T: Send + 'scope>(
        &'scope self,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        self.running.set(self.running.get() + 1);
        let run = move || {
            let value = body();
            self.running.set(self.running.get() - 1);
            self.waiting.borrow_mut().drain(..).for_each(scheduler::wake);
            value
        };
        ScopedJoinHandle(thread::start("thread".to_owned(), Box::new(run)), PhantomData)
    }
}
