//! Simulated time, and the queue of events in its order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Add;

/// A point of simulated time, in nanoseconds since the file was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimTime(pub u64);

impl SimTime {
    /// Nanoseconds from an earlier time to this one.
    pub fn since(self, earlier: SimTime) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<u64> for SimTime {
    type Output = SimTime;

    fn add(self, ns: u64) -> SimTime {
        SimTime(self.0 + ns)
    }
}

/// Future events. Events of the same time are popped in the order in which they were scheduled, so that a run depends only
/// on its input.
#[derive(Debug)]
pub struct EventQueue<E> {
    now: SimTime,
    scheduled: u64,
    queue: BinaryHeap<Reverse<(SimTime, u64, Entry<E>)>>,
}

/// An event, excluded from the comparison.
#[derive(Debug)]
struct Entry<E>(E);

impl<E> PartialEq for Entry<E> {
    fn eq(&self, _: &Entry<E>) -> bool {
        true
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Entry<E>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, _: &Entry<E>) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> EventQueue<E> {
        EventQueue { now: SimTime(0), scheduled: 0, queue: BinaryHeap::new() }
    }
}

impl<E> EventQueue<E> {
    /// The time of the latest event.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Schedules an event; one in the past happens now.
    pub fn schedule(&mut self, at: SimTime, event: E) {
        self.scheduled += 1;
        self.queue.push(Reverse((at.max(self.now), self.scheduled, Entry(event))));
    }

    /// Removes the next event and advances the time to it.
    pub fn pop(&mut self) -> Option<E> {
        let Reverse((at, _, Entry(event))) = self.queue.pop()?;
        self.now = at;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_moment_keep_their_order() {
        let mut queue = EventQueue::default();
        for (at, name) in [(5, 'b'), (3, 'a'), (5, 'c'), (5, 'd')] {
            queue.schedule(SimTime(at), name);
        }
        assert_eq!(queue.pop(), Some('a'));
        queue.schedule(SimTime(1), 'x');
        let rest: Vec<char> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!((rest, queue.now()), (vec!['x', 'b', 'c', 'd'], SimTime(5)));
    }
}
