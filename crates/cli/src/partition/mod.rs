//! Partitions: `pario up`, `down`, `list` and `clean`, and `pario serve`, which is what runs on the servers' nodes. The crate
//! `launch` starts and supervises the servers; here are the commands' arguments and what they print.

pub mod clean;
pub mod down;
mod error;
pub mod list;
pub mod serve;
pub mod up;

pub use error::Error;

use crate::env::Environment;
use pario_registry::Registry;

/// The user's registry.
pub fn registry(env: &Environment) -> Result<Registry, Error> {
    let home = env.home.as_deref().ok_or(Error::NoHome)?;
    Ok(Registry::open(home)?)
}

/// Writes a command's output. A reader that closes the pipe early is no error.
fn print(text: &str) -> Result<(), Error> {
    use std::io::Write;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}

/// The range of a time-out in seconds.
fn seconds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=86400)
}
