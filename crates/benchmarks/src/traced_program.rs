//! A traced program in the plane of the I/O models.

use pario_io_models::{Board, Mark, Metric, ModelOp, power, rate};
use std::collections::BTreeMap;

/// A program, as its trace shows it: its writes, or its reads if it writes nothing.
pub struct TracedProgram {
    /// Its place in the plane.
    pub mark: Mark,
    op: ModelOp,
    bytes: u64,
    /// How long at least one process was in such a call.
    busy_ns: u64,
}

/// The accesses of a traced program.
#[derive(Default)]
pub struct TracedAccesses {
    writes: Direction,
    reads: Direction,
}

/// The accesses of one direction.
#[derive(Default)]
struct Direction {
    moved: BTreeMap<(u32, String), u64>,
    busy: Coverage,
}

/// The time covered by intervals that are added in the order of their ends.
#[derive(Default)]
struct Coverage(Vec<(u64, u64)>);

impl Coverage {
    fn add(&mut self, mut begin: u64, end: u64) {
        // The intervals that it overlaps are the last ones.
        while let Some((from, _)) = self.0.pop_if(|(_, until)| *until >= begin) {
            begin = begin.min(from);
        }
        self.0.push((begin, end));
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(from, until)| until - from).sum()
    }
}

impl TracedAccesses {
    /// Adds an access of a rank: its file, its bytes, and when it began and ended. Accesses are added in the order of
    /// their ends.
    pub fn add(&mut self, op: ModelOp, rank: u32, file: &str, bytes: u64, (begin_ns, end_ns): (u64, u64)) {
        let direction = match op {
            ModelOp::Write => &mut self.writes,
            ModelOp::Read => &mut self.reads,
        };
        if bytes > 0 {
            *direction.moved.entry((rank, file.to_owned())).or_default() += bytes;
            direction.busy.add(begin_ns, end_ns);
        }
    }

    /// The program; `None` if nothing was read or written.
    pub fn program(&self) -> Option<TracedProgram> {
        [(ModelOp::Write, &self.writes), (ModelOp::Read, &self.reads)].into_iter().find_map(
            |(op, direction)| {
                let mark = Mark::of(&direction.moved)?;
                let bytes = direction.moved.values().sum();
                Some(TracedProgram { mark, op, bytes, busy_ns: direction.busy.total() })
            },
        )
    }
}

impl TracedProgram {
    /// How the program compares with the models, in words.
    pub fn gap(&self, boards: &[Board]) -> String {
        let Mark { procs, per_file } = self.mark;
        let (procs, per_file) = (power(procs), power(per_file));
        let op = self.op.word();
        let mut text = format!("the traced program: {procs} processes {op}, {per_file} per file");
        if self.busy_ns > 0 {
            text +=
                &format!(", {}B/s while they do", spaced(self.bytes as f64 / (self.busy_ns as f64 / 1e9)));
        }
        text.push('\n');
        let alike = |board: &&Board| board.series.op == self.op;
        let fitting: Vec<&Board> = match boards.iter().any(|board| alike(&board)) {
            true => boards.iter().filter(alike).collect(),
            false => boards.iter().collect(),
        };
        for board in fitting {
            let Some(gap) = self.mark.gap(board, Metric::Throughput) else { continue };
            let cell = |bin: pario_io_models::Bin| format!("({},{})", bin.procs, bin.per_file);
            text += &format!(
                "  {}: the best model near it, cell {}, has {}B/s; the best of all, cell {}, has {}B/s, {:.2} \
                 times as much\n",
                board.series.name(),
                cell(gap.nearest),
                spaced(gap.here),
                cell(gap.best),
                spaced(gap.there),
                gap.there / gap.here,
            );
        }
        text
    }
}

/// A rate with a space before its unit.
fn spaced(value: f64) -> String {
    let text = rate(value);
    if text.ends_with(|c: char| c.is_ascii_digit()) { text + " " } else { text }
}

#[cfg(test)]
mod tests {
    use super::Coverage;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn busy_time_is_what_some_interval_covers(
            mut intervals in prop::collection::vec((0u64..60, 1u64..9), 0..20),
        ) {
            intervals.sort_by_key(|(begin, len)| begin + len);
            let mut busy = Coverage::default();
            let mut seconds = BTreeSet::new();
            for (begin, len) in intervals {
                busy.add(begin, begin + len);
                seconds.extend(begin..begin + len);
            }
            prop_assert_eq!(busy.total(), seconds.len() as u64);
        }
    }
}
