//! Independent strided access, Pario beside the host's own MPI-IO.
//!
//! The program is `xtask/bench/strided.c`. One start of it measures all piece sizes; starts with and without
//! Pario take turns, so that a slow minute of the machine hits both. In memory (`/dev/shm`) and on the disk
//! that holds the build directory; the page cache is warm in both, so the disk shows the file system's cost,
//! not the device's.

use std::collections::BTreeMap;
use std::path::Path;

use crate::host::{HOSTS, Host};
use crate::numbers::Times;
use crate::place;
use crate::program::{self, Failure, Outcome, at};
use crate::setup;
use crate::test;

const RANKS: u32 = 4;
const MIB_PER_RANK: u32 = 8;
const TURNS: u32 = 7;

pub fn run() -> Outcome {
    setup::compilers_and_mpis()?;
    test::release_build()?;
    println!(
        "\n{RANKS} ranks, {MIB_PER_RANK} MiB each, {TURNS} starts per contender taking turns; milliseconds \
         from the first rank's\nstart to the last rank's end, median (min–max); ratio = Pario / host, below 1 Pario is faster"
    );
    let programs = place::target().join("bench");
    for (label, dir) in place::scratch() {
        for host in HOSTS {
            let strided = host.compile("xtask/bench/strided.c", &programs)?;
            at(&dir, std::fs::create_dir_all(&dir))?;
            let rows = take_turns(host, &strided, &dir);
            at(&dir, std::fs::remove_dir_all(&dir))?;
            show(&format!("{}, {label}", host.label), &rows?);
        }
    }
    Ok(())
}

/// What is measured, in the order in which it is shown.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    pattern: String,
    piece: u64,
}

/// Times with the host's own MPI-IO and with Pario.
#[derive(Default)]
struct Row {
    write: [Times; 2],
    read: [Times; 2],
    /// Starts in which the host's own MPI-IO read back wrong data.
    host_wrong: u32,
}

const HOST_IO: usize = 0;
const PARIO: usize = 1;

fn take_turns(host: &Host, strided: &Path, dir: &Path) -> Outcome<BTreeMap<Case, Row>> {
    let mut rows: BTreeMap<Case, Row> = BTreeMap::new();
    for turn in 0..TURNS {
        // The order changes from turn to turn.
        let order = if turn % 2 == 0 { [HOST_IO, PARIO] } else { [PARIO, HOST_IO] };
        for contender in order {
            let mut command =
                if contender == PARIO { host.launch_with_pario(RANKS) } else { host.launch(RANKS) };
            let said = program::stdout(command.arg(strided).arg(dir).arg(MIB_PER_RANK.to_string()))?;
            for line in said.lines().filter_map(Line::parse) {
                if contender == PARIO && !line.right {
                    return Err(Failure::new(format!(
                        "{}: Pario read back wrong data: {}, pieces of {} B",
                        host.label, line.case.pattern, line.case.piece
                    )));
                }
                let row = rows.entry(line.case).or_default();
                row.write[contender].add(line.write);
                row.read[contender].add(line.read);
                row.host_wrong += u32::from(!line.right);
            }
        }
    }
    Ok(rows)
}

/// `strided interleaved 64 0.012345 0.012345 1`
struct Line {
    case: Case,
    write: f64,
    read: f64,
    right: bool,
}

impl Line {
    fn parse(line: &str) -> Option<Line> {
        let mut words = line.strip_prefix("strided ")?.split_whitespace();
        Some(Line {
            case: Case { pattern: words.next()?.to_string(), piece: words.next()?.parse().ok()? },
            write: words.next()?.parse().ok()?,
            read: words.next()?.parse().ok()?,
            right: words.next()? == "1",
        })
    }
}

fn show(title: &str, rows: &BTreeMap<Case, Row>) {
    println!("\n{title}");
    println!("{:<12}{:>7}  {:<6}{:>26}{:>26}{:>7}", "pattern", "piece", "", "host", "Pario", "ratio");
    for (Case { pattern, piece }, row) in rows {
        for (name, [host_io, pario]) in [("write", &row.write), ("read", &row.read)] {
            let ratio = pario.median() / host_io.median();
            print!("{pattern:<12}{piece:>7}  {name:<6}{host_io:>26}{pario:>26}{ratio:>7.2}");
            match row.host_wrong {
                0 => println!(),
                n => println!("  host: wrong data in {n} of {TURNS}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn a_line_of_the_program_is_read() {
        let line = Line::parse("strided separate 256 0.25 0.5 1").expect("a good line");
        assert_eq!((line.case.pattern.as_str(), line.case.piece), ("separate", 256));
        assert!(line.right && line.write == 0.25 && line.read == 0.5);
        assert!(Line::parse("strided separate 256 0.25").is_none());
    }
}
