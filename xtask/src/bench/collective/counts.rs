//! What Pario counts about itself: copies per byte and host-MPI operations per collective call.
//!
//! `PARIO_STATS=json:PATH` gives one line per file and close; the program opens its file once to write and
//! once to read. Open, view and close have operations of their own, so the program is started twice, with one
//! call each and with several: the difference is the calls' own.

use std::collections::BTreeMap;
use std::path::Path;

use super::Job;
use super::contenders::{CONTENDERS, PARIO_ON_MPICH, PARIO_ON_OPEN_MPI, Programs, Start};
use super::turns::{DIRECTIONS, Direction};
use crate::program::{Outcome, at};

/// Calls in the second start.
const CALLS: u32 = 5;

pub fn show(programs: &Programs, job: &Job, dir: &Path) -> Outcome {
    for pario in [PARIO_ON_MPICH, PARIO_ON_OPEN_MPI] {
        if !job.contenders.contains(&pario) {
            continue;
        }
        let once = gather(programs, pario, job, dir, 1)?;
        if once.is_empty() {
            println!("\n{}: no statistics (PARIO_STATS=json gave none)", CONTENDERS[pario].label);
            continue;
        }
        let several = gather(programs, pario, job, dir, CALLS)?;
        println!(
            "\n{} ranks, {}: copies per byte and host-MPI operations",
            job.ranks, CONTENDERS[pario].label
        );
        println!("per rank and collective call{:>24}{:>32}", "write_all", "read_all");
        for pattern in &job.patterns {
            print!("{pattern:<20}");
            for direction in DIRECTIONS {
                let key = (pattern.clone(), direction.label());
                match once.get(&key).zip(several.get(&key)) {
                    Some((once, several)) => print!("{:>32}", several.beyond(once)),
                    None => print!("{:>32}", "–"),
                }
            }
            println!();
        }
    }
    Ok(())
}

type Gathered = BTreeMap<(String, &'static str), Counted>;

fn gather(programs: &Programs, pario: usize, job: &Job, dir: &Path, calls: u32) -> Outcome<Gathered> {
    let path = dir.join("statistics");
    let start = Start { mode: "fresh", seed: 1, calls, statistics: Some(&path) };
    programs.start(pario, job, dir, &start)?;
    if !path.exists() {
        return Ok(Gathered::new());
    }
    let text = at(&path, std::fs::read_to_string(&path))?;
    at(&path, std::fs::remove_file(&path))?;
    let named =
        |line: &str| job.patterns.iter().find(|pattern| line.contains(&format!("/{pattern}\""))).cloned();
    let counted = |line| Some((named(line)?, Counted::parse(line)?));
    Ok(text
        .lines()
        .filter_map(counted)
        .map(|(pattern, counted)| ((pattern, counted.direction.label()), counted))
        .collect())
}

/// Numbers of one file between open and close, summed over the ranks.
struct Counted {
    direction: Direction,
    calls: u64,
    bytes: u64,
    copied: u64,
    host_calls: u64,
}

impl Counted {
    fn parse(line: &str) -> Option<Counted> {
        let (written, read) = (field(line, "written_bytes")?, field(line, "read_bytes")?);
        let (direction, calls) = if written > 0 {
            (Direction::Write, "collective_writes")
        } else {
            (Direction::Read, "collective_reads")
        };
        Some(Counted {
            direction,
            calls: field(line, calls)?,
            bytes: written + read,
            copied: field(line, "copied_bytes")?,
            host_calls: field(line, "host_calls")?,
        })
    }

    /// Of the calls that `fewer` did not do, in words.
    fn beyond(&self, fewer: &Counted) -> String {
        let per = |more: u64, less: u64, unit: u64| more.saturating_sub(less) as f64 / unit.max(1) as f64;
        // Calls are counted by each rank, as operations are: the quotient is per rank.
        let calls = self.calls.saturating_sub(fewer.calls);
        let copies = per(self.copied, fewer.copied, self.bytes.saturating_sub(fewer.bytes));
        format!("{copies:.2} copies, {:.1} operations", per(self.host_calls, fewer.host_calls, calls))
    }
}

/// The first number of that name in the line of JSON: sums over ranks stand before other numbers.
fn field(line: &str, name: &str) -> Option<u64> {
    let after = line.split_once(&format!("\"{name}\":"))?.1.trim_start();
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    after[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Counted, field};

    #[test]
    fn numbers_are_found_in_a_line_of_json() {
        let line = r#"{"path":"/tmp/bt","ranks":4,"totals":{"host_calls": 12,"copied_bytes":30}}"#;
        assert_eq!((field(line, "ranks"), field(line, "host_calls")), (Some(4), Some(12)));
        assert_eq!((field(line, "copied_bytes"), field(line, "calls")), (Some(30), None));
    }

    #[test]
    fn the_difference_of_two_starts_is_that_of_the_calls() {
        let line = |calls: u64, bytes: u64, host: u64| {
            Counted::parse(&format!(
                "\"collective_writes\":{calls},\"written_bytes\":{bytes},\"read_bytes\":0,\
                 \"copied_bytes\":{bytes},\"host_calls\":{host}"
            ))
            .expect("a good line")
        };
        assert_eq!(line(10, 500, 30).beyond(&line(2, 100, 14)), "1.00 copies, 2.0 operations");
    }
}
