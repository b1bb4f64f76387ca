//! Measurements, by name. Each compares Pario with the host MPIs on the same machine, in turns, and prints
//! what came out.

mod strided;
mod view;

use crate::program::{Failure, Outcome};

struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn() -> Outcome,
}

const BENCHES: &[Bench] = &[
    Bench { name: "view", about: "copying strided memory: Pario's pack beside MPI_Pack", run: view::run },
    Bench {
        name: "strided",
        about: "independent strided writes and reads, 4 ranks: Pario beside the host's MPI-IO",
        run: strided::run,
    },
];

/// Runs the bench of that name; lists them when there is none.
pub fn run(arguments: &[String]) -> Outcome {
    let [name] = arguments else {
        println!("usage: cargo xtask bench <name>\n");
        for bench in BENCHES {
            println!("  {:<10}{}", bench.name, bench.about);
        }
        return Ok(());
    };
    match BENCHES.iter().find(|bench| bench.name == name) {
        Some(bench) => (bench.run)(),
        None => Err(Failure::new(format!("no bench `{name}`; `cargo xtask bench` lists them"))),
    }
}
