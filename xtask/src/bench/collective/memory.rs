//! Whether memory grows with the number of pieces: the same bytes, in pieces ten times as small.
//!
//! Each number is the growth of the largest rank's peak resident memory, from before open to after the second
//! close, in a start of its own. Pages of shared memory count in every rank that touches them. The kernel's
//! numbers are exact to some hundred KiB.

use std::path::Path;

use super::Job;
use super::contenders::{CONTENDERS, PLAIN, Programs, Start};
use super::turns::Line;
use crate::program::Outcome;

/// Two programs; then regular and irregular pieces, each also in ten times as many.
const PATTERNS: [&str; 6] = ["block3d-128", "bt", "pieces-160", "pieces-16", "random-1000", "random-100"];

pub fn show(programs: &Programs, job: &Job, dir: &Path) -> Outcome {
    println!("\n{} ranks, {}: growth of a rank's peak memory, MiB", job.ranks, job.place);
    print!("{:<10}", "");
    PATTERNS.iter().for_each(|pattern| print!("{pattern:>13}"));
    println!();
    for contender in job.contenders.iter().copied().filter(|c| *c != PLAIN && programs.has(*c)) {
        print!("{:<10}", CONTENDERS[contender].label);
        for pattern in PATTERNS {
            let job = Job { patterns: vec![pattern.to_string()], ..job.clone() };
            let start = Start { mode: "memory", seed: 1, calls: 1, statistics: None };
            let said = programs.start(contender, &job, dir, &start)?;
            match said.lines().find_map(Line::parse) {
                Some(line) => print!("{:>13.1}", line.growth_kib as f64 / 1024.0),
                None => print!("{:>13}", "–"),
            }
        }
        println!();
    }
    Ok(())
}
