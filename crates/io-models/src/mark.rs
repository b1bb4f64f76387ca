//! A program in the plane of the models: how many of its processes did I/O, how many to each file, and what the
//! measured models say about that place.

use crate::board::Board;
use crate::measure::Metric;
use crate::model::Bin;
use crate::reduce::Reducer;
use std::collections::{BTreeMap, BTreeSet};

/// The point of a program. Its numbers need not be powers of two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// Log2 of the processes.
    pub procs: f64,
    /// Log2 of the processes per file, each byte counting alike.
    pub per_file: f64,
}

/// The comparison of a mark with the models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// The measured cell nearest to it.
    pub nearest: Bin,
    /// The best model's value there.
    pub here: f64,
    /// The cell with the best model of all.
    pub best: Bin,
    /// That model's value.
    pub there: f64,
}

impl Mark {
    /// From the bytes that each process moved in each file; `None` if none moved.
    pub fn of(moved: &BTreeMap<(u32, String), u64>) -> Option<Mark> {
        let mut files: BTreeMap<&str, (u32, u64)> = BTreeMap::new();
        let mut procs = BTreeSet::new();
        for ((process, file), bytes) in moved.iter().filter(|(_, bytes)| **bytes > 0) {
            procs.insert(process);
            let (users, sum) = files.entry(file).or_default();
            *users += 1;
            *sum += bytes;
        }
        let all: u64 = files.values().map(|(_, bytes)| bytes).sum();
        let weighed: f64 = files.values().map(|(users, bytes)| f64::from(*users) * *bytes as f64).sum();
        (all > 0).then(|| Mark {
            procs: (procs.len() as f64).log2(),
            per_file: (weighed / all as f64).log2().max(0.0),
        })
    }

    /// Compares the best model near the mark with the best of all.
    pub fn gap(&self, board: &Board, metric: Metric) -> Option<Gap> {
        let distance = |bin: Bin| {
            (f64::from(bin.procs) - self.procs).powi(2) + (f64::from(bin.per_file) - self.per_file).powi(2)
        };
        let nearest =
            board.cells().min_by(|(one, _), (other, _)| distance(*one).total_cmp(&distance(*other)));
        let (nearest, cell) = nearest?;
        let best = board.best(metric)?;
        let here = cell.value(metric, Reducer::Max);
        Some(Gap { nearest, here, best: best.model.bin(), there: best.value(metric) })
    }
}
