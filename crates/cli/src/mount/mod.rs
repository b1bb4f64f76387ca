//! `pario mount` and `pario umount`: a partition as a directory of this host.
//!
//! A process of its own serves the mount until it ends (`serve`). It is this program again, in one of two
//! parts: *daemon*, which stays when `pario mount` has ended, or *attached*, which ends with the process that started
//! it (`pario run`). Either writes one line to its standard output: whether the mount is served, or why not (`started`).

mod error;
mod serve;
mod started;
pub mod umount;

pub use error::Error;
pub use started::Attached;

use crate::env::Environment;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show a partition's files as a directory of this host.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// The partition's name
    #[arg(value_name = "NAME")]
    name: String,
    /// An empty directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Let nobody change anything
    #[arg(long)]
    read_only: bool,
    /// Stay until it is unmounted, instead of leaving a process behind
    #[arg(long)]
    foreground: bool,
    /// Which part of it this process is
    #[arg(long, value_enum, hide = true)]
    part: Option<Part>,
}

/// A process that serves a mount for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Stays
    Daemon,
    /// Ends when its input ends
    Attached,
}

const NOTES: &str = "\
Examples:
  pario mount scratch /mnt/scratch    then: ls, cp, cat, tar, ... as usual
  pario umount /mnt/scratch           end it

Programs see what others write at once: nothing is kept on the way, so many
small accesses are slower than in a local file system. Files belong to the
user who mounts; others, root too, do not get in. Not there: links, special
files, and shared memory mappings (mmap with MAP_SHARED).

It ends by 'pario umount', when the partition goes down, and when the process
that serves it is told to end (SIGTERM, SIGINT). Should that process be killed,
'pario umount' removes what is left. A server that does not answer within the
partition's deadline gives programs an input/output error.

This needs /dev/fuse, and unless you are root, fusermount3 (package fuse3).

Exit code: 0 it is mounted, 1 it is not, 2 wrong arguments.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    match arguments.part {
        Some(part) => {
            // Neither a terminal's signals nor those for the program that it is mounted for are for this
            // process.
            pario_launch::start_session().map_err(Error::System)?;
            started::report(|ready| serve::serve(arguments, env, part == Part::Attached, ready))
        }
        None if arguments.foreground => {
            serve::serve(arguments, env, false, || Ok(())).map(|()| ExitCode::SUCCESS)
        }
        None => started::daemon(arguments, env).map(|()| ExitCode::SUCCESS),
    }
}
