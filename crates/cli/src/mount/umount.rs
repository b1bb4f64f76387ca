//! `pario umount`: ends a mount, also one that nobody serves any more.

use super::Error;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// End a mount of a partition.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// Where it is mounted
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// End it also if it is in use: it vanishes now, and is gone with its last use
    #[arg(long)]
    lazy: bool,
}

const NOTES: &str = "\
This works as well for what is left of a mount whose process was killed.

Exit code: 0 it is unmounted, 1 it is not.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    pario_fuse::unmount(&arguments.dir, arguments.lazy)?;
    Ok(ExitCode::SUCCESS)
}
