//! `pario bench list` and `pario bench build`: the workloads there are, and the program that does them.

use super::{Error, program};
use crate::env::Environment;
use crate::run::FamilyArgument;
use clap::Args;
use pario_reports::{Align, TextTable};
use pario_workloads::WORKLOADS;
use std::io::Write;
use std::path::PathBuf;

/// List the workloads and their presets
#[derive(Args)]
pub struct Arguments {}

/// Build the program with the workloads, and print its path
#[derive(Args)]
pub struct BuildArguments {
    /// Build it for this MPI library
    #[arg(long, value_enum, value_name = "FAMILY")]
    mpi: Option<FamilyArgument>,
    /// The compiler to build it with
    #[arg(long, value_name = "PATH")]
    mpicc: Option<PathBuf>,
}

/// Prints the list.
pub fn main(_: &Arguments) -> Result<(), Error> {
    let mut text = String::new();
    for workload in WORKLOADS {
        text += &format!("{}: {}\n", workload.name, workload.about);
        let mut table = TextTable::new(&[Align::Left, Align::Left]);
        for preset in workload.presets {
            table.row(vec![preset.name.to_owned(), preset.about.to_owned()]);
        }
        text += &table.text(2);
    }
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(Error::Output)
}

/// Builds the program and prints its path.
pub fn build(arguments: &BuildArguments, env: &Environment) -> Result<(), Error> {
    let program = program::find(arguments.mpi.map(Into::into), arguments.mpicc.as_deref(), env)?;
    writeln!(std::io::stdout(), "{}", program.display()).map_err(Error::Output)
}
