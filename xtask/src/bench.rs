//! Measurements, by name. Each compares Pario with what the same machine does without it, in turns, and prints
//! the results.

mod collective;
mod instructions;
mod partition;
mod partition_io;
mod plan;
mod planning;
mod profile;
mod strided;
mod view;

use crate::program::{Failure, Outcome};

struct Bench {
    name: &'static str,
    about: &'static str,
    /// Gets the arguments after the name.
    run: fn(&[String]) -> Outcome,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "view",
        about: "copying strided memory: Pario's pack beside MPI_Pack",
        run: |arguments| none(arguments).and_then(|()| view::run()),
    },
    Bench {
        name: "strided",
        about: "independent strided writes and reads, 4 ranks: Pario beside the host's MPI-IO",
        run: |arguments| none(arguments).and_then(|()| strided::run()),
    },
    Bench {
        name: "collective",
        about: "collective writes and reads of many patterns: Pario beside ROMIO and OMPIO; --help",
        run: collective::run,
    },
    Bench {
        name: "partition",
        about: "a partition's caches, streams, flushes and names beside memcpy, sockets and files; --help",
        run: partition::run,
    },
    Bench {
        name: "partition-io",
        about: "workloads on a partition, each strategy beside the host's MPI-IO on files; --help",
        run: partition_io::run,
    },
    Bench {
        name: "instructions",
        about: "instructions per operation by callgrind, also beside another checkout; --help",
        run: instructions::run,
    },
    Bench {
        name: "plan",
        about: "programs on hosts with slow links: files on one host, striped, and by plan; --help",
        run: plan::run,
    },
    Bench {
        name: "planning",
        about: "how long `pario plan` takes for ten million accesses",
        run: |arguments| none(arguments).and_then(|()| planning::run()),
    },
    Bench {
        name: "profile",
        about: "what `pario profile` costs at accesses of 4 KiB: 5 million of them, with and without",
        run: |arguments| none(arguments).and_then(|()| profile::run()),
    },
];

/// Runs the bench of that name; lists them when there is none.
pub fn run(arguments: &[String]) -> Outcome {
    let Some((name, rest)) = arguments.split_first() else {
        println!("usage: cargo xtask bench <name>\n");
        for bench in BENCHES {
            println!("  {:<14}{}", bench.name, bench.about);
        }
        return Ok(());
    };
    match BENCHES.iter().find(|bench| bench.name == name) {
        Some(bench) => (bench.run)(rest),
        None => Err(Failure::new(format!("no bench `{name}`; `cargo xtask bench` lists them"))),
    }
}

fn none(arguments: &[String]) -> Outcome {
    match arguments {
        [] => Ok(()),
        [first, ..] => Err(Failure::new(format!("`{first}`: this bench takes no arguments"))),
    }
}

/// The load of the machine: it makes ratios scatter.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("Load before the start: {} on {cores} cores.", text.split(' ').next().unwrap_or("unknown"))
}
