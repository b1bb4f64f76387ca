//! Counters of this process's use of Pario, declared in one typed place.
//!
//! A counter is one relaxed atomic addition, so counting is always on; printing is the reader's choice
//! (`PARIO_STATS=1` prints [`ProcessCounters::line`] when the program calls `MPI_Finalize`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The counters of one process.
        #[derive(Debug, Default)]
        pub struct ProcessCounters { $($(#[doc = $doc])+ pub $name: ProcessCounter,)+ }

        impl ProcessCounters {
            const fn new() -> ProcessCounters {
                ProcessCounters { $($name: ProcessCounter::new(),)+ }
            }

            /// Name and value of every counter, in the order of declaration.
            pub fn values(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get()),)+]
            }
        }
    };
}

counters! {
    /// Calls of MPI-IO functions that Pario served.
    calls,
    /// Files opened.
    opens,
    /// Bytes delivered to the program by reads.
    read_bytes,
    /// Bytes accepted from the program by writes.
    written_bytes,
    /// Read accesses.
    reads,
    /// Write accesses.
    writes,
    /// Accesses handed to the I/O thread (nonblocking and split ones).
    background,
    /// Calls that ended in an error.
    errors,
}

/// One number that only grows.
#[derive(Debug, Default)]
pub struct ProcessCounter(AtomicU64);

impl ProcessCounter {
    const fn new() -> ProcessCounter {
        ProcessCounter(AtomicU64::new(0))
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

static COUNTERS: ProcessCounters = ProcessCounters::new();

/// The counters of this process.
pub fn counters() -> &'static ProcessCounters {
    &COUNTERS
}

impl ProcessCounters {
    /// All counters as one line for people and for scripts: `pario: stats rank=R name=value ...`.
    pub fn line(&self, rank: u32) -> String {
        let mut line = format!("pario: stats rank={rank}");
        for (name, value) in self.values() {
            line.push_str(&format!(" {name}={value}"));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_every_counter() {
        let counters = ProcessCounters::default();
        counters.opens.add(2);
        counters.read_bytes.add(40);
        let line = counters.line(3);
        assert!(line.starts_with("pario: stats rank=3 calls=0 opens=2 read_bytes=40 "), "{line}");
        assert_eq!(counters.values().len(), 8);
    }
}
