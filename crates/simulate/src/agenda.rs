//! What happens next: simulated time, and events in its order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Add;

/// A moment of simulated time, in nanoseconds since the file was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    /// Nanoseconds from an earlier moment to this one.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<u64> for Time {
    type Output = Time;

    fn add(self, ns: u64) -> Time {
        Time(self.0 + ns)
    }
}

/// Events to come. Those of one moment happen in the order in which they were put down, so that a run depends
/// on nothing but its input.
#[derive(Debug)]
pub struct Agenda<E> {
    now: Time,
    put: u64,
    queue: BinaryHeap<Reverse<(Time, u64, Entry<E>)>>,
}

/// Keeps events out of the comparison.
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

impl<E> Default for Agenda<E> {
    fn default() -> Agenda<E> {
        Agenda { now: Time(0), put: 0, queue: BinaryHeap::new() }
    }
}

impl<E> Agenda<E> {
    /// The moment of the latest event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Puts an event down; one that lies in the past happens now.
    pub fn put(&mut self, at: Time, event: E) {
        self.put += 1;
        self.queue.push(Reverse((at.max(self.now), self.put, Entry(event))));
    }

    /// The next event; it is now its time.
    pub fn next(&mut self) -> Option<E> {
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
        let mut agenda = Agenda::default();
        for (at, name) in [(5, 'b'), (3, 'a'), (5, 'c'), (5, 'd')] {
            agenda.put(Time(at), name);
        }
        assert_eq!(agenda.next(), Some('a'));
        agenda.put(Time(1), 'x');
        let rest: Vec<char> = std::iter::from_fn(|| agenda.next()).collect();
        assert_eq!((rest, agenda.now()), (vec!['x', 'b', 'c', 'd'], Time(5)));
    }
}
