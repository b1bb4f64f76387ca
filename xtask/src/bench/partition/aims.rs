//! Whether the aims hold, in numbers and words.
//!
//! The aims: hits of 64 KiB and more at 0.8 of memcpy, with one client and with several; a hit of 4 KiB in less
//! than a microsecond; TCP at 0.9 of a plain stream.

use super::rows::{Row, Rows};

const HITS: f64 = 0.8;
const LARGE: u64 = 64 << 10;
const SMALL: u64 = 4 << 10;
const NANOSECONDS: f64 = 1000.0;
const STREAMS: f64 = 0.9;

pub fn hits(rows: &Rows) {
    println!("aims");
    for case in ["write", "read"] {
        for clients in [1, 4] {
            let of = |row: &&Row| row.case == case && row.clients == clients && row.size >= LARGE;
            show_least(rows.0.iter().filter(of), "hits of at least 64 KiB", HITS);
        }
    }
    let single = |row: &&Row| row.case.starts_with("random-") && row.size == SMALL;
    for row in rows.0.iter().filter(single) {
        let taken = row.nanoseconds();
        let verdict = verdict(taken < NANOSECONDS);
        println!("  {verdict} {} in {taken:.0} ns, aim below {NANOSECONDS}", row.describe());
    }
}

pub fn streams(rows: &Rows, label: &str) {
    println!("aims");
    for case in ["tcp-write", "tcp-read"] {
        show_least(rows.0.iter().filter(|row| row.case == case), &format!("streams {label}"), STREAMS);
    }
}

/// The smallest share counts.
fn show_least<'a>(rows: impl Iterator<Item = &'a Row>, what: &str, aim: f64) {
    let Some(least) = rows.min_by(|a, b| a.shares.median().total_cmp(&b.shares.median())) else { return };
    let verdict = verdict(least.shares.median() >= aim);
    println!("  {verdict} {what}, aim {aim}, least: {} {}", least.shares.as_ratio(), least.describe());
}

fn verdict(holds: bool) -> &'static str {
    if holds { "holds " } else { "missed" }
}
