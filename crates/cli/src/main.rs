//! `pario`, the command: arguments in, one subcommand run, an exit code out.
//!
//! Each subcommand has a module of its own. Environment variables are read in `env`, signals and exits like
//! the launcher's are in `signal`, the only module with unsafe code.
#![deny(unsafe_code)]

mod elf;
mod env;
mod files;
mod hints;
mod mount;
mod partition;
mod run;
#[allow(unsafe_code)]
mod signal;
mod trace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Fast shared files for MPI programs, without changing them.
#[derive(Parser)]
#[command(name = "pario", version, after_help = EXAMPLES, propagate_version = true)]
struct Pario {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  pario run -n 4 -- ./simulation input.nml    run an MPI program on 4 ranks with Pario's MPI-IO
  pario run --host-io -n 4 -- ./simulation    the same with the MPI library's own MPI-IO
  pario up scratch.toml                       start the servers of a partition
  pario status scratch                        how they are
  pario cp -r input scratch:/                 copy files into the partition, or out of it
  pario mount scratch /mnt/scratch            show its files to ordinary programs
  pario hints                                 list the hints that files understand
  pario hints --check my-hints                try a hint file
  pario trace summary                         what a run with PARIO_TRACE=all did, in numbers

'pario COMMAND --help' says more about a command.";

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Up(partition::up::Arguments),
    Down(partition::down::Arguments),
    List(partition::list::Arguments),
    #[command(hide = true)]
    Serve(partition::serve::Arguments),
    Mount(mount::Arguments),
    Umount(mount::umount::Arguments),
    #[command(flatten)]
    Files(files::Command),
    Hints(hints::Arguments),
    Trace(trace::Arguments),
}

fn main() -> ExitCode {
    let env = env::Environment::read();
    let done = match Pario::parse().command {
        Command::Run(arguments) => run::main(&arguments, &env).map_err(|e| (e.to_string(), e.exit_code())),
        Command::Up(arguments) => {
            partition::up::main(&arguments, &env).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Down(arguments) => {
            partition::down::main(&arguments, &env).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::List(arguments) => {
            partition::list::main(&arguments, &env).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Serve(arguments) => {
            partition::serve::main(&arguments).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Mount(arguments) => {
            mount::main(&arguments, &env).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Umount(arguments) => {
            mount::umount::main(&arguments).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Files(command) => files::main(&command, &env),
        Command::Hints(arguments) => hints::main(&arguments).map_err(|e| (e.to_string(), 2)),
        Command::Trace(arguments) => trace::main(&arguments).map_err(|e| (e.to_string(), 2)),
    };
    done.unwrap_or_else(|(message, code)| {
        eprintln!("pario: {message}");
        ExitCode::from(code)
    })
}
