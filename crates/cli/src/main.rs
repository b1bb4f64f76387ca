//! `pario`, the command: arguments in, one subcommand run, an exit code out.
//!
//! Each subcommand has a module of its own. Environment variables are read in `env`, signals and exits like
//! the launcher's are in `signal`, the only module with unsafe code.
#![deny(unsafe_code)]

mod bench;
mod env;
mod files;
mod hints;
mod models;
mod mount;
mod output;
mod partition;
mod profile;
mod run;
#[allow(unsafe_code)]
mod signal;
mod simulate;
mod size_argument;
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
  pario scale scratch --add n2:/data          add a server while programs use the partition
  pario cp -r input scratch:/                 copy files into the partition, or out of it
  pario models --size 32M --nodes 4 --ppn 4   how fast every way of sharing files is here
  pario mount scratch /mnt/scratch            show its files to ordinary programs
  pario hints                                 list the hints that files understand
  pario hints --check my-hints                try a hint file
  pario bench compare --workload btio:medium   measure Pario against the MPI library's own MPI-IO
  pario simulate --procs 64,256,1024          which partitioning suits which file system, on paper
  pario trace summary                         what a run with PARIO_TRACE=all did, in numbers
  pario plan pario-trace                      where the chunks of its files are best kept

'pario COMMAND --help' says more about a command.";

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Up(partition::up::Arguments),
    Down(partition::down::Arguments),
    Scale(partition::scale::Arguments),
    List(partition::list::Arguments),
    Clean(partition::clean::Arguments),
    #[command(hide = true)]
    Serve(partition::serve::Arguments),
    Mount(mount::Arguments),
    Umount(mount::umount::Arguments),
    #[command(flatten)]
    Files(files::Command),
    Models(models::Arguments),
    #[command(hide = true)]
    ModelsWorker(models::worker::Arguments),
    Hints(hints::Arguments),
    Simulate(simulate::Arguments),
    Trace(trace::Arguments),
    Bench(bench::Arguments),
    #[command(flatten)]
    Profile(profile::Command),
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
        Command::Scale(arguments) => {
            partition::scale::main(&arguments, &env).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::List(arguments) => {
            partition::list::main(&arguments, &env).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Clean(arguments) => {
            partition::clean::main(&arguments, &env).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Serve(arguments) => Ok(partition::serve::main(&arguments)),
        Command::Mount(arguments) => {
            mount::main(&arguments, &env).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Umount(arguments) => {
            mount::umount::main(&arguments).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Files(command) => files::main(&command, &env),
        Command::Models(arguments) => {
            models::main(&arguments, &env).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::ModelsWorker(arguments) => models::worker::main(&arguments),
        Command::Hints(arguments) => hints::main(&arguments).map_err(|e| (e.to_string(), 2)),
        Command::Bench(arguments) => {
            bench::main(&arguments, &env).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Simulate(arguments) => simulate::main(&arguments).map_err(|e| (e.to_string(), 2)),
        Command::Trace(arguments) => trace::main(&arguments).map_err(|e| (e.to_string(), 2)),
        Command::Profile(command) => {
            profile::main(&command, &env).map_err(|e| (e.to_string(), e.exit_code()))
        }
    };
    done.unwrap_or_else(|(message, code)| {
        eprintln!("pario: {message}");
        ExitCode::from(code)
    })
}
