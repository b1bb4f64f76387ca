//! Shows what Pario does: one C program as it is, on both host MPIs, three ways that take turns: on a partition made
//! for the run, on a plain file with Pario, and on a plain file with the host's own MPI-IO.
//!
//! The program is `demo/array3d.c`; it checks every value it reads. Here the files that it leaves, the partition's
//! copied out by `pario run`, are compared byte for byte, and the times are printed side by side.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

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
const TURNS: u32 = 4;

/// Servers of a partition.
const SERVERS: u32 = 2;

/// What the program times, and the whole command.
const STEPS: [&str; 4] = ["write", "read", "total", "command"];

#[derive(Clone, Copy)]
enum Contender {
    HostIo,
    PlainFile,
    Partition,
}

const CONTENDERS: [(Contender, &str); 3] = [
    (Contender::HostIo, "host's own, file"),
    (Contender::PlainFile, "Pario, file"),
    (Contender::Partition, "Pario, partition"),
];

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
    times: [[Times; STEPS.len()]; CONTENDERS.len()],
}

fn on(host: &'static Host, dir: &Path) -> Outcome<Row> {
    let array3d = host.compile("demo/array3d.c", dir)?;
    let mut row = Row { host, times: Default::default() };
    for turn in 1..=TURNS {
        let mut files = Vec::new();
        for (contender, _) in CONTENDERS {
            let file = dir.join(format!("array-{}-{}", host.name, contender as usize));
            let seconds = launch(contender, &array3d, dir, &file)?;
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

/// Runs the program once, so that `file` is what it has written; returns the times in the order of `STEPS`.
fn launch(contender: Contender, array3d: &Path, dir: &Path, file: &Path) -> Outcome<[f64; STEPS.len()]> {
    let mut pario = Command::new(place::binary());
    pario.arg("run").arg("-n").arg(RANKS.to_string());
    let mut name = file.as_os_str().to_owned();
    match contender {
        Contender::HostIo => {
            pario.arg("--host-io");
        }
        Contender::PlainFile => {}
        Contender::Partition => {
            let array = file.file_name().unwrap_or_default();
            pario.arg("--servers").arg(SERVERS.to_string()).arg("--storage").arg(dir);
            pario.arg("--out").arg(array).arg("--to").arg(dir);
            name = "pario:/".into();
            name.push(array);
        }
    }
    pario.arg("--").arg(array3d).arg(name).arg(EDGE.to_string()).arg(REPEATS.to_string());
    let start = Instant::now();
    let said = program::stdout(&mut pario)?;
    let command = start.elapsed().as_secs_f64();
    let times = times(&said);
    let [write, read, total] =
        times.ok_or_else(|| Failure::new(format!("array3d did not print its times: {said}")))?;
    Ok([write, read, total, command])
}

fn times(said: &str) -> Option<[f64; 3]> {
    let line = said.lines().find(|line| line.starts_with("array3d "))?;
    let of = |step: &str| {
        let mut words = line.split_whitespace().filter_map(|word| word.split_once('='));
        words.find(|(name, _)| *name == step).and_then(|(_, value)| value.parse().ok())
    };
    Some([of(STEPS[0])?, of(STEPS[1])?, of(STEPS[2])?])
}

/// The files must have the same bytes, and the right number of them. Then they are removed.
fn compare(files: &[PathBuf]) -> Outcome {
    let expected = u64::from(EDGE).pow(3) * 4;
    let mut contents = Vec::new();
    for file in files {
        contents.push(at(file, std::fs::read(file))?);
        at(file, std::fs::remove_file(file))?;
    }
    for (file, bytes) in files.iter().zip(&contents) {
        if bytes.len() as u64 != expected || *bytes != contents[0] {
            return Err(Failure::new(format!("{} and {} differ", files[0].display(), file.display())));
        }
    }
    Ok(())
}

fn show(rows: &[Row]) {
    println!(
        "\n{EDGE}³ ints (64 MiB) in blocks over {RANKS} ranks; {TURNS} starts each, taking turns, {REPEATS} \
         repeats in each;\nmilliseconds, median (min–max); ratio = Pario / host's own MPI-IO, below 1 Pario is \
         faster\n"
    );
    let [(_, host_io), (_, plain), (_, partition)] = CONTENDERS;
    println!(
        "{:<10}{:<8}{host_io:>26}{plain:>26}{:>6}{partition:>26}{:>6}",
        "host", "step", "ratio", "ratio"
    );
    for row in rows {
        for (step, name) in STEPS.iter().enumerate() {
            let [host_io, plain, partition] = [0, 1, 2].map(|contender: usize| &row.times[contender][step]);
            let ratio = |times: &Times| times.median() / host_io.median();
            println!(
                "{:<10}{name:<8}{host_io:>26}{plain:>26}{:>6.2}{partition:>26}{:>6.2}",
                row.host.label,
                ratio(plain),
                ratio(partition)
            );
        }
    }
    println!(
        "\nwrite, read: the collective call alone; total: open to close, both. command: all of 'pario run', on the\n\
         partition with starting its {SERVERS} servers, copying the file out of it and removing it. Every value was \
         checked."
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
