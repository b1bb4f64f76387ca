//! Partitions: `pario up`, `down`, `scale`, `list` and `clean`, and `pario serve`, which is what runs on the servers' nodes. The crate
//! `launch` starts and supervises the servers; here are the commands' arguments and what they print.

pub mod clean;
pub mod down;
mod error;
pub mod list;
pub mod scale;
pub mod serve;
pub mod up;

pub use error::Error;

use crate::env::Environment;
use crate::output;
use pario_registry::Registry;

/// The user's registry.
pub fn registry(env: &Environment) -> Result<Registry, Error> {
    let home = env.home.as_deref().ok_or(Error::NoHome)?;
    Ok(Registry::open(home)?)
}

fn print(text: &str) -> Result<(), Error> {
    output::print(text).map_err(Error::Output)
}

/// The range of a time-out in seconds.
fn seconds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=86400)
}
