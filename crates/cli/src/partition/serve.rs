//! `pario serve`: what runs on a server's node. Users do not call it; `pario up` does.

use clap::Args;
use pario_launch::serve::{self, ServePart};
use std::process::ExitCode;

/// Run a part of a partition's server (started by 'pario up')
#[derive(Args)]
pub struct Arguments {
    /// Which part
    #[arg(long, default_value = "supervisor")]
    part: ServePart,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    serve::run(arguments.part)
}
