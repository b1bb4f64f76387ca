//! The measurements: contenders take turns, each start does every pattern once.

use std::path::Path;

use super::Job;
use super::contenders::{CONTENDERS, Programs, Start, is_pario};
use crate::numbers::Times;
use crate::program::{Failure, Outcome};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Write,
    Read,
}

pub const DIRECTIONS: [Direction; 2] = [Direction::Write, Direction::Read];

impl Direction {
    pub fn label(self) -> &'static str {
        match self {
            Direction::Write => "write",
            Direction::Read => "read",
        }
    }
}

/// All times of one job.
pub struct Measured {
    pub job: Job,
    /// One per pattern, in the job's order.
    pub rows: Vec<Row>,
}

/// The times of one pattern.
#[derive(Default)]
pub struct Row {
    pub pattern: String,
    pub bytes: u64,
    /// Seconds by direction, contender and turn; no turns for a contender that did not take part.
    seconds: [[Vec<f64>; CONTENDERS.len()]; 2],
    /// Seconds to copy the bytes once in memory, all ranks at the same time.
    pub copy: Times,
    /// Starts in which a host's own MPI-IO read back wrong data.
    pub wrong: [u32; CONTENDERS.len()],
}

impl Row {
    pub fn times(&self, direction: Direction, contender: usize) -> Times {
        let mut times = Times::default();
        self.seconds[direction as usize][contender].iter().for_each(|seconds| times.add(*seconds));
        times
    }

    pub fn median(&self, direction: Direction, contender: usize) -> f64 {
        self.times(direction, contender).median()
    }

    /// How many times faster `fast` is than `slow`, turn by turn.
    pub fn ratios(&self, direction: Direction, slow: usize, fast: usize) -> Times {
        let [slow, fast] = [slow, fast].map(|contender| &self.seconds[direction as usize][contender]);
        let mut ratios = Times::default();
        slow.iter().zip(fast).for_each(|(slow, fast)| ratios.add(slow / fast));
        ratios
    }
}

pub fn take(programs: &Programs, job: &Job, dir: &Path) -> Outcome<Measured> {
    let contenders: Vec<usize> = job.contenders.iter().copied().filter(|c| programs.has(*c)).collect();
    let mut rows: Vec<Row> =
        job.patterns.iter().map(|pattern| Row { pattern: pattern.clone(), ..Row::default() }).collect();
    for turn in 0..job.turns {
        let mode = if job.overwrite { "overwrite" } else { "fresh" };
        let start = Start { mode, seed: turn + 1, calls: 1, statistics: None };
        // The order changes from turn to turn.
        for step in 0..contenders.len() {
            let contender = contenders[(turn as usize + step) % contenders.len()];
            let said = programs.start(contender, job, dir, &start)?;
            let lines: Vec<Line> = said.lines().filter_map(Line::parse).collect();
            if lines.len() != rows.len() {
                return Err(Failure::new(format!("{} ended early: {said}", CONTENDERS[contender].label)));
            }
            for (row, line) in rows.iter_mut().zip(lines) {
                keep(row, contender, &line)?;
            }
        }
    }
    Ok(Measured { job: job.clone(), rows })
}

fn keep(row: &mut Row, contender: usize, line: &Line) -> Outcome {
    if is_pario(contender) && !line.right {
        let label = CONTENDERS[contender].label;
        return Err(Failure::new(format!("{label}: Pario read back wrong data: {}", line.pattern)));
    }
    row.bytes = line.written;
    row.seconds[Direction::Write as usize][contender].push(line.write);
    row.seconds[Direction::Read as usize][contender].push(line.read);
    row.wrong[contender] += u32::from(!line.right);
    if let Some(copy) = line.copy {
        row.copy.add(copy);
    }
    Ok(())
}

/// What the program prints of a pattern; its comment says what each word is.
pub struct Line {
    pub pattern: String,
    write: f64,
    read: f64,
    written: u64,
    pub growth_kib: i64,
    right: bool,
    copy: Option<f64>,
}

impl Line {
    pub fn parse(line: &str) -> Option<Line> {
        let words: Vec<&str> = line.strip_prefix("collective ")?.split_whitespace().collect();
        let [pattern, write, read, written, _read, _calls, growth, right, rest @ ..] = words.as_slice()
        else {
            return None;
        };
        Some(Line {
            pattern: pattern.to_string(),
            write: write.parse().ok()?,
            read: read.parse().ok()?,
            written: written.parse().ok()?,
            growth_kib: growth.parse().ok()?,
            right: *right == "1",
            copy: rest.first().and_then(|copy| copy.parse().ok()),
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::{Direction, Line, Row, keep};
    use crate::bench::collective::contenders::{PARIO_ON_MPICH, ROMIO};

    /// A row of one turn with these seconds of write and read by contender.
    pub fn row(pattern: &str, seconds: &[(usize, f64, f64)]) -> Row {
        let mut row = Row { pattern: pattern.to_string(), ..Row::default() };
        for (contender, write, read) in seconds {
            let line = format!("collective {pattern} {write} {read} 1 1 1 1 1");
            keep(&mut row, *contender, &Line::parse(&line).expect("a good line")).expect("right data");
        }
        row
    }

    #[test]
    fn a_line_of_the_program_is_read() {
        let line = Line::parse("collective bt 0.25 0.5 2048 4096 1 16384 1").expect("a good line");
        assert_eq!((line.pattern.as_str(), line.written, line.growth_kib), ("bt", 2048, 16384));
        assert!(line.right && line.write == 0.25 && line.read == 0.5 && line.copy.is_none());
        assert!(Line::parse("collective bt 0.25 0.5").is_none());
    }

    #[test]
    fn ratios_are_those_of_one_turn() {
        let mut row = Row::default();
        for (contender, seconds) in [(ROMIO, 4), (PARIO_ON_MPICH, 2), (ROMIO, 30), (PARIO_ON_MPICH, 10)] {
            let line = Line::parse(&format!("collective bt {seconds} 1 1 1 1 1 1")).expect("a good line");
            keep(&mut row, contender, &line).expect("right data");
        }
        assert_eq!(row.ratios(Direction::Write, ROMIO, PARIO_ON_MPICH).as_ratio(), "2.50 (2.25–2.75)");
    }
}
