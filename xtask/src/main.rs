//! The developer's commands: `cargo xtask setup | demo | test | test-mpis | tidy | bench | torture | simulate`.
//!
//! Only the standard library is used, so that this program builds in a moment and needs nothing. Each
//! subcommand is one module; all of them start programs through [`program`] and time their steps with
//! [`stages`].

#![forbid(unsafe_code)]

mod bench;
mod demo;
mod edges;
mod host;
mod numbers;
mod place;
mod prints;
mod program;
mod promises;
mod scheduling;
mod setup;
mod simulate;
mod source;
mod stages;
mod test;
mod test_mpis;
mod text;
mod tidy;
mod torture;
mod unsafe_code;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask <command>

  setup            install or build whatever the other commands need
  demo             a C program on both MPIs, with and without Pario: same bytes, times side by side
  test [ARG…]      everything CI runs; ARGs go to `cargo nextest run`; --quick: the part for use while working
  test-mpis        the tests that depend on the MPI on MPIs from PyPI, and a table; --newest: one of each family
  tidy             formatting, lints, docs, licences, edges between crates, unsafe, file sizes, names, words;
                   --texts: without compiling; --shrink: take off the baseline what is no longer there
  bench [NAME …]   a measurement by name; without a name, the list of them
  torture [ARG…]   partitions whose processes are killed, stopped and starved: nothing acknowledged is lost; --help
  simulate [ARG…]  clients and servers in a simulated world of faults that a seed determines; --help
  help             this text";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", [].as_slice()),
    };
    let outcome = match command {
        "setup" => setup::everything(),
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "test-mpis" => test_mpis::run(rest),
        "tidy" => tidy::run(rest),
        "bench" => bench::run(rest),
        "torture" => torture::run(rest),
        "simulate" => simulate::run(rest),
        "help" | "-h" | "--help" => {
            println!("{HELP}");
            Ok(())
        }
        unknown => {
            eprintln!("xtask: no command `{unknown}`\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask {command}: {failure}");
            ExitCode::FAILURE
        }
    }
}
