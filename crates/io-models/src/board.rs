//! The plane of the pictures: measurements of one series, sorted into cells.
//!
//! A model that was run several times counts as one value, the median of its runs, so that "count" is a number
//! of models and the other reducers tell models apart rather than noise.

use crate::measure::{Measurement, Metric, Series};
use crate::model::{Bin, Model};
use crate::reduce::{Reducer, median};
use std::collections::{BTreeMap, BTreeSet};

/// The cells of one series.
#[derive(Clone, Debug)]
pub struct Board {
    /// The series.
    pub series: Series,
    cells: BTreeMap<Bin, Cell>,
}

/// The models of one cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    entries: Vec<BoardEntry>,
}

/// One model, with a value for each metric.
#[derive(Clone, Debug, PartialEq)]
pub struct BoardEntry {
    /// The model.
    pub model: Model,
    /// In the order of [`Metric::ALL`].
    values: [f64; Metric::ALL.len()],
    /// The number of its runs.
    pub runs: usize,
}

impl Board {
    /// A board for each series that occurs, in the order in which they first occur.
    pub fn all(measurements: &[Measurement]) -> Vec<Board> {
        let mut seen = BTreeSet::new();
        let order = measurements.iter().map(|m| &m.series).filter(|series| seen.insert(*series));
        order.map(|series| Board::of(series, measurements)).collect()
    }

    fn of(series: &Series, measurements: &[Measurement]) -> Board {
        let mut runs: BTreeMap<Model, Vec<&Measurement>> = BTreeMap::new();
        for measurement in measurements.iter().filter(|m| m.series == *series) {
            runs.entry(measurement.model).or_default().push(measurement);
        }
        let mut cells: BTreeMap<Bin, Cell> = BTreeMap::new();
        for (model, runs) in runs {
            let value = |metric| median(&runs.iter().map(|run| run.value(metric)).collect::<Vec<_>>());
            let entry = BoardEntry { model, values: Metric::ALL.map(value), runs: runs.len() };
            cells.entry(model.bin()).or_default().entries.push(entry);
        }
        Board { series: series.clone(), cells }
    }

    /// The cells that hold a model, by column and row.
    pub fn cells(&self) -> impl Iterator<Item = (Bin, &Cell)> {
        self.cells.iter().map(|(bin, cell)| (*bin, cell))
    }

    /// The cell at a place, if a model is there.
    pub fn cell(&self, bin: Bin) -> Option<&Cell> {
        self.cells.get(&bin)
    }

    /// All models.
    pub fn entries(&self) -> impl Iterator<Item = &BoardEntry> {
        self.cells.values().flat_map(|cell| &cell.entries)
    }

    /// The largest column and row that occur.
    pub fn extent(&self) -> Bin {
        let most = |of: fn(&Bin) -> u8| self.cells.keys().map(of).max().unwrap_or(0);
        Bin { procs: most(|bin| bin.procs), per_file: most(|bin| bin.per_file) }
    }

    /// The model with the largest value.
    pub fn best(&self, metric: Metric) -> Option<&BoardEntry> {
        self.entries().max_by(|one, other| one.value(metric).total_cmp(&other.value(metric)))
    }

    /// The smallest and the largest value of the cells.
    pub fn range(&self, metric: Metric, reducer: Reducer) -> (f64, f64) {
        let values = || self.cells.values().map(|cell| cell.value(metric, reducer));
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    }
}

impl Cell {
    /// Its models.
    pub fn entries(&self) -> &[BoardEntry] {
        &self.entries
    }

    /// Its one value.
    pub fn value(&self, metric: Metric, reducer: Reducer) -> f64 {
        reducer.reduce(&self.entries.iter().map(|entry| entry.value(metric)).collect::<Vec<_>>())
    }
}

impl BoardEntry {
    /// Its value: the median of its runs.
    pub fn value(&self, metric: Metric) -> f64 {
        self.values[metric as usize]
    }
}
