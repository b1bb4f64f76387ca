//! Shows what Pario does: one C program, both host MPIs, once with Pario and once without, taking turns.
//!
//! The program is `demo/array3d.c`; it checks every value it reads. Here the files that it leaves are compared
//! byte for byte, and its times are put side by side, whatever they are.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::host::{HOSTS, Host};
use crate::numbers::Times;
use crate::place;
use crate::program::{self, Failure, Outcome, at};
use crate::setup;
use crate::test;

const RANKS: u32 = 4;
/// 256³ ints are 64 MiB.
const EDGE: u32 = 256;
/// Writes and reads within one start of the program.
const REPEATS: u32 = 3;
/// Starts of the program with each contender.
const TURNS: u32 = 5;

const STEPS: [&str; 3] = ["write", "read", "total"];

#[derive(Clone, Copy)]
enum Contender {
    HostIo,
    Pario,
}

pub fn run(arguments: &[String]) -> Outcome {
    if !arguments.is_empty() {
        return Err(Failure::new("it takes no arguments"));
    }
    setup::compilers_and_mpis()?;
    test::release_build()?;
    let dir = place::target().join("demo");
    at(&dir, std::fs::create_dir_all(&dir))?;
    let shown: Outcome<Vec<Row>> = HOSTS.iter().map(|host| on(host, &dir)).collect();
    at(&dir, std::fs::remove_dir_all(&dir))?;
    show(&shown?);
    Ok(())
}

/// The times of one host: `times[contender][step]`.
struct Row {
    host: &'static Host,
    times: [[Times; 3]; 2],
}

fn on(host: &'static Host, dir: &Path) -> Outcome<Row> {
    let array3d = host.compile("demo/array3d.c", dir)?;
    let mut row = Row { host, times: Default::default() };
    for turn in 1..=TURNS {
        let mut files = Vec::new();
        for contender in [Contender::HostIo, Contender::Pario] {
            let file = dir.join(format!("array-{}-{}", host.name, contender as usize));
            let seconds = launch(contender, &array3d, &file)?;
            for (times, seconds) in row.times[contender as usize].iter_mut().zip(seconds) {
                times.add(seconds);
            }
            files.push(file);
        }
        compare(&files)?;
        println!("{}: turn {turn} of {TURNS}: values right, files identical", host.label);
    }
    Ok(row)
}

/// Runs the program once; returns its times in the order of `STEPS`.
fn launch(contender: Contender, array3d: &Path, file: &Path) -> Outcome<[f64; 3]> {
    let mut pario = Command::new(place::binary());
    pario.arg("run");
    if let Contender::HostIo = contender {
        pario.arg("--host-io");
    }
    pario.arg("-n").arg(RANKS.to_string()).arg("--").arg(array3d).arg(file);
    let said = program::stdout(pario.arg(EDGE.to_string()).arg(REPEATS.to_string()))?;
    times(&said).ok_or_else(|| Failure::new(format!("array3d did not print its times: {said}")))
}

fn times(said: &str) -> Option<[f64; 3]> {
    let line = said.lines().find(|line| line.starts_with("array3d "))?;
    let of = |step: &str| {
        let mut words = line.split_whitespace().filter_map(|word| word.split_once('='));
        words.find(|(name, _)| *name == step).and_then(|(_, value)| value.parse().ok())
    };
    Some([of(STEPS[0])?, of(STEPS[1])?, of(STEPS[2])?])
}

/// The two files must hold the same bytes, and the right number of them; then they go.
fn compare(files: &[PathBuf]) -> Outcome {
    let expected = u64::from(EDGE).pow(3) * 4;
    let mut contents = Vec::new();
    for file in files {
        contents.push(at(file, std::fs::read(file))?);
        at(file, std::fs::remove_file(file))?;
    }
    if contents.iter().any(|bytes| bytes.len() as u64 != expected) || contents[0] != contents[1] {
        return Err(Failure::new(format!("{} and {} differ", files[0].display(), files[1].display())));
    }
    Ok(())
}

fn show(rows: &[Row]) {
    println!(
        "\n{EDGE}³ ints (64 MiB) in blocks over {RANKS} ranks; {TURNS} starts each, taking turns, {REPEATS} \
         repeats in each;\nmilliseconds, median (min–max); ratio = Pario / host, below 1 Pario is faster\n"
    );
    println!("{:<10}{:<8}{:>28}{:>28}{:>8}", "host", "step", "host's own MPI-IO", "Pario", "ratio");
    for row in rows {
        for (step, name) in STEPS.iter().enumerate() {
            let [host_io, pario] = [&row.times[0][step], &row.times[1][step]];
            let ratio = pario.median() / host_io.median();
            println!("{:<10}{name:<8}{host_io:>28}{pario:>28}{ratio:>8.2}", row.host.label);
        }
    }
    println!(
        "\nwrite, read: the collective call alone; total: open to close, both. Every value was checked."
    );
}

#[cfg(test)]
mod tests {
    use super::times;

    #[test]
    fn the_line_of_times_is_found() {
        let said = "noise\narray3d ranks=4 edge=8 write=0.5 read=0.25 total=1.0\n";
        assert_eq!(times(said), Some([0.5, 0.25, 1.0]));
        assert_eq!(times("array3d write=0.5"), None);
    }
}
