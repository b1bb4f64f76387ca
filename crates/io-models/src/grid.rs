//! All models up to a number of nodes and of processes per node, for one amount of data.
//!
//! Every model writes the same bytes in all, in equal shares that are whole stripes, so the amount has to be a
//! multiple of a stripe for each process. One that is not is refused rather than rounded, so that
//! runs with the same settings write the same.

use crate::model::Model;
use pario_types::spell_size;
use std::fmt;

/// The most nodes and the most processes per node.
const MOST: u32 = 1 << 15;
/// The most processes in all.
const MOST_PROCS: u32 = 1 << 20;

/// The models of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelGrid {
    nodes: u32,
    ppn: u32,
    size: u64,
    stripe: u64,
}

/// Why there is no such grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridError {
    /// A number of nodes or processes is no power of two, or too large.
    NotAPower {
        /// Of what.
        what: &'static str,
        /// The number.
        number: u32,
    },
    /// More processes than this program starts.
    TooMany(u64),
    /// The size does not give each process whole stripes.
    Uneven {
        /// The size.
        size: u64,
        /// The number of processes.
        procs: u32,
        /// The stripe.
        stripe: u64,
    },
}

impl ModelGrid {
    /// The models of up to `nodes` nodes with up to `ppn` processes, which write `size` bytes.
    pub fn new(nodes: u32, ppn: u32, size: u64, stripe: u64) -> Result<ModelGrid, GridError> {
        for (what, number) in [("nodes", nodes), ("processes per node", ppn)] {
            if !number.is_power_of_two() || number > MOST {
                return Err(GridError::NotAPower { what, number });
            }
        }
        let procs = u64::from(nodes) * u64::from(ppn);
        if procs > u64::from(MOST_PROCS) {
            return Err(GridError::TooMany(procs));
        }
        let unit = stripe.checked_mul(procs);
        if size == 0 || stripe == 0 || unit.is_none_or(|unit| !size.is_multiple_of(unit)) {
            return Err(GridError::Uneven { size, procs: procs as u32, stripe });
        }
        Ok(ModelGrid { nodes, ppn, size, stripe })
    }

    /// The most nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The most processes per node.
    pub fn ppn(&self) -> u32 {
        self.ppn
    }

    /// The most processes.
    pub fn procs(&self) -> u32 {
        self.nodes * self.ppn
    }

    /// Bytes that each model writes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Each process's share is a multiple of this.
    pub fn stripe(&self) -> u64 {
        self.stripe
    }

    /// The models, from few processes to many.
    pub fn models(&self) -> Vec<Model> {
        let (nodes, ppn) = (self.nodes.trailing_zeros() as u8, self.ppn.trailing_zeros() as u8);
        let mut models = Vec::new();
        for a in 0..=nodes {
            for b in 0..=ppn {
                for k in 0..=b {
                    models.extend((0..=a).filter_map(|j| Model::from_logs(a, b, k, j)));
                }
            }
        }
        models.sort_by_key(|model| (model.bin(), *model));
        models
    }
}

impl fmt::Display for GridError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            GridError::NotAPower { what, number } => {
                write!(f, "{number} {what} is not a power of two from 1 to {MOST}, which models need")
            }
            GridError::TooMany(procs) => write!(f, "{procs} processes are more than {MOST_PROCS}"),
            GridError::Uneven { size, procs, stripe } => {
                let unit = u128::from(stripe) * u128::from(procs);
                write!(
                    f,
                    "{} do not make whole stripes of {} for each of {procs} processes: ",
                    spell_size(size),
                    spell_size(stripe)
                )?;
                let Ok(unit) = u64::try_from(unit) else { return f.write_str("the stripe is too large") };
                if unit == 0 {
                    return f.write_str("a stripe has at least a byte");
                }
                let below = size / unit * unit;
                if below > 0 {
                    write!(f, "take {}, ", spell_size(below))?;
                }
                match below.checked_add(unit) {
                    Some(above) => write!(f, "take {} or a smaller stripe", spell_size(above)),
                    None => f.write_str("or a smaller stripe"),
                }
            }
        }
    }
}
