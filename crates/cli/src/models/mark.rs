//! A traced program in the plane of the models.

use super::error::Error;
use crate::trace::select::Selection;
use pario_io_models::{Board, Mark, Metric, Op, power, rate};
use pario_trace::Actor;
use std::collections::BTreeMap;
use std::path::Path;

/// A program, as its trace shows it.
pub struct Program {
    pub mark: Mark,
    op: Op,
    bytes: u64,
    /// How long at least one process was in such a call.
    busy_ns: u64,
}

/// What one direction of a program's I/O comes to.
#[derive(Default)]
struct Tally {
    moved: BTreeMap<(u32, String), u64>,
    busy: Busy,
}

/// The time covered by intervals that come in the order of their ends.
#[derive(Default)]
struct Busy(Vec<(u64, u64)>);

impl Busy {
    fn add(&mut self, mut begin: u64, end: u64) {
        // Those that it overlaps are the last ones.
        while let Some((from, _)) = self.0.pop_if(|(_, until)| *until >= begin) {
            begin = begin.min(from);
        }
        self.0.push((begin, end));
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(from, until)| until - from).sum()
    }
}

impl Program {
    /// Reads its trace. Its writes count; if it writes nothing, its reads.
    pub fn read(path: &Path) -> Result<Program, Error> {
        let mut merged = Selection::of(path, None).open().map_err(Error::Trace)?;
        let mut tallies = [Tally::default(), Tally::default()];
        while let Some((source, event)) = merged.next() {
            let header = merged.sources[source].header();
            let tally = match event.call.op {
                pario_trace::Op::Write => &mut tallies[0],
                pario_trace::Op::Read => &mut tallies[1],
                _ => continue,
            };
            // What agents do, they do for tasks.
            if header.actor != Actor::Task || event.moved == 0 {
                continue;
            }
            let file = event.file.as_deref().unwrap_or_default().to_owned();
            *tally.moved.entry((header.rank, file)).or_default() += event.moved;
            tally.busy.add(event.start_ns, event.end_ns());
        }
        merged.complain();
        let placed = Op::ALL.into_iter().zip(&tallies).find_map(|(op, tally)| {
            let mark = Mark::of(&tally.moved)?;
            Some(Program { mark, op, bytes: tally.moved.values().sum(), busy_ns: tally.busy.total() })
        });
        placed.ok_or_else(|| Error::NoData(path.to_owned()))
    }

    /// What the models say about it, for people.
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
    use super::Busy;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn busy_time_is_what_some_interval_covers(
            mut intervals in prop::collection::vec((0u64..60, 1u64..9), 0..20),
        ) {
            intervals.sort_by_key(|(begin, len)| begin + len);
            let mut busy = Busy::default();
            let mut seconds = BTreeSet::new();
            for (begin, len) in intervals {
                busy.add(begin, begin + len);
                seconds.extend(begin..begin + len);
            }
            prop_assert_eq!(busy.total(), seconds.len() as u64);
        }
    }
}
