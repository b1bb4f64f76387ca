//! Channels between simulated threads, with the interface of `std::sync::mpsc`.

use std::collections::VecDeque;
use std::sync::Arc;
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError};
use std::time::{Duration, Instant};

use super::sync::{Condvar, Mutex};

struct State<T> {
    values: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    capacity: usize,
}

/// The sending end of a channel.
pub struct Sender<T>(Arc<Shared<T>>);

/// The sending end of a channel that holds a limited number of values.
pub struct SyncSender<T>(Sender<T>);

/// The receiving end of a channel.
pub struct Receiver<T>(Arc<Shared<T>>);

/// A channel that holds any number of values.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    make(usize::MAX)
}

/// A channel that holds at most so many values.
pub fn sync_channel<T>(capacity: usize) -> (SyncSender<T>, Receiver<T>) {
    let (sender, receiver) = make(capacity.max(1));
    (SyncSender(sender), receiver)
}

fn make<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let state = State { values: VecDeque::new(), senders: 1, has_receiver: true };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), capacity });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    /// Sends a value; waits for room.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut state = self.0.state.lock();
        while state.has_receiver && state.values.len() >= self.0.capacity {
            self.0.changed.wait(&mut state);
        }
        if !state.has_receiver {
            return Err(SendError(value));
        }
        state.values.push_back(value);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl<T> SyncSender<T> {
    /// Sends a value; waits for room.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.send(value)
    }
}

impl<T> Receiver<T> {
    /// Waits for the next value.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.receive(None).map_err(|_| RecvError)
    }

    /// Waits for the next value, at most for that time.
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        self.receive(Some(Instant::now() + limit))
    }

    fn receive(&self, until: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(value) = state.values.pop_front() {
                self.0.changed.notify_all();
                return Ok(value);
            }
            if state.senders == 0 {
                return Err(RecvTimeoutError::Disconnected);
            }
            match until {
                None => self.0.changed.wait(&mut state),
                Some(until) => {
                    let is_late = self.0.changed.wait_until(&mut state, until).timed_out();
                    if is_late && state.values.is_empty() {
                        return Err(RecvTimeoutError::Timeout);
                    }
                }
            }
        }
    }
}

/// The values that a channel still delivers.
pub struct IntoIter<T>(Receiver<T>);

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.state.lock().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state.lock().senders -= 1;
        self.0.changed.notify_all();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.state.lock().has_receiver = false;
        self.0.changed.notify_all();
    }
}
