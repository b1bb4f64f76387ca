//! Several clients that begin at the same time.

use std::sync::Barrier;
use std::time::Instant;

use crate::Outcome;

/// The numbers of clients, one measurement after the other.
pub const COUNTS: [usize; 2] = [1, 4];

/// Runs each client's work in a thread. Returns the seconds from the first start to the last end.
pub fn together<C: Send>(clients: &mut [C], work: impl Fn(&mut C) -> Outcome + Sync) -> Outcome<f64> {
    let barrier = Barrier::new(clients.len());
    let (barrier, work) = (&barrier, &work);
    let spans: Vec<Outcome<(Instant, Instant)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    work(client)?;
                    Ok((start, Instant::now()))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("clients do not panic")).collect()
    });
    let spans = spans.into_iter().collect::<Outcome<Vec<_>>>()?;
    let first = spans.iter().map(|span| span.0).min().expect("there are clients");
    let last = spans.iter().map(|span| span.1).max().expect("there are clients");
    Ok((last - first).as_secs_f64())
}
